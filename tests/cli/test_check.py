"""`omnizarr validate`, `verify` and `repair`, `stats`, `diff` and `du`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk import verify as verifying
from omnizarr.bulk.checks import KINDS, CheckChunks, VerifyReport
from omnizarr.cli.check import verify
from omnizarr.cli.terminal import FAILED
from omnizarr.publish.stage import JOURNAL, MARKER, Kind, Mark
from tests.cli.conftest import run


def test_validate_is_silent_about_good_data_and_fails_on_bad(ocean: Path) -> None:
    oz.copy("ocean.zarr", "ocean.zarr.zip")
    for path in ("ocean.zarr", "ocean.zarr.zip"):
        assert run("validate", path).output == "0 errors, 0 warnings\n"
    document = json.loads((ocean / "deep/t/zarr.json").read_text())
    document["shape"] = [20, -1]
    del document["fill_value"]
    (ocean / "deep/t/zarr.json").write_text(json.dumps(document))
    result = run("validate", "ocean.zarr")
    assert result.exit_code == 1
    assert "error deep/t/zarr.json: shape[1]: expected an integer >= 0" in result.output
    assert "error deep/t/zarr.json: fill_value: required, but missing" in result.output
    assert run("validate", "ocean.zarr/deep/t/zarr.json").exit_code == 1


def damage(store: Path) -> None:
    """Damage one chunk, and add a key that belongs to no node."""
    (store / "deep/t/c/0/1").write_bytes(b"bad")
    (store / "notes.txt").write_text("mine")


def test_validate_shows_place_and_rule_as_text_and_json(ocean: Path) -> None:
    document = json.loads((ocean / "deep/t/zarr.json").read_text())
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "middle"}}]
    (ocean / "deep/t/zarr.json").write_text(json.dumps(document))
    assert "[Zarr 3, codecs]" in run("validate", "ocean.zarr").output
    result = run("validate", "ocean.zarr", "--json")
    assert result.exit_code == 1
    [found] = json.loads(result.stdout)["results"]
    assert (found["path"], found["ok"], found["errors"]) == ("ocean.zarr", False, 1)
    [problem] = found["problems"]
    assert problem["key"] == "deep/t/zarr.json"
    assert problem["pointer"].startswith("/codecs")
    assert problem["rule"] == "Zarr 3, codecs"


def test_verify_prints_findings_and_one_line(ocean: Path) -> None:
    good = run("verify", "ocean.zarr")
    assert good.exit_code == 0
    assert good.output.startswith("2 groups, 2 arrays, 7 chunks stored, 0 missing,")
    damage(ocean)
    bad = run("verify", "ocean.zarr")
    assert bad.exit_code == 1
    lines = bad.output.splitlines()
    assert lines[0] == "warning / ('notes.txt'): belongs to no array or group"
    assert lines[1].startswith("error /deep/t chunk (0, 1) ('deep/t/c/0/1'): codec 'crc32c'")
    assert lines[2].endswith("; 1 error, 1 warning")


def test_a_folder_of_hierarchies_has_one_summary(ocean: Path) -> None:
    lake = Path("lake")
    for name in ("a", "deep/b", "c"):
        oz.copy("ocean.zarr", lake / f"{name}.zarr")
    damage(lake / "c.zarr")
    oz.create_array(lake / "half.zarr", shape=4, dtype="i2")[...] = 1
    (lake / "half.zarr/zarr.json").unlink()
    (lake / "half.zarr" / MARKER).write_bytes(Mark("the copy of a to b").write())
    result = run("verify", "lake")
    assert result.exit_code == 1
    paths = [line for line in result.output.splitlines() if line.startswith("lake/")]
    assert paths == ["lake/a.zarr:", "lake/c.zarr:", "lake/deep/b.zarr:", "lake/half.zarr:"]
    assert "is incomplete: the copy of a to b was interrupted" in result.output
    summary = result.output.splitlines()[-1]
    assert summary.startswith("2 of 4 hierarchies are sound: 6 arrays, 21 chunks,")
    assert summary.endswith("2 errors, 1 warning (1 damaged-chunk, 1 incomplete, 1 orphan)")
    data = json.loads(run("verify", "lake/a.zarr", "lake/c.zarr", "--json").stdout)
    assert [each["ok"] for each in data["results"]] == [True, False]
    assert (data["summary"]["hierarchies"], data["summary"]["ok"]) == (2, 1)


def test_kinds_decide_what_is_an_error(ocean: Path) -> None:
    (ocean / "notes.txt").write_text("mine")
    assert run("verify", "ocean.zarr").exit_code == 0
    assert run("verify", "ocean.zarr", "--error", "orphan").exit_code == 1
    damage(ocean)
    ignored = run("verify", "ocean.zarr", "--ignore", "damaged-chunk", "--ignore", "orphan")
    assert ignored.exit_code == 0
    assert "0 errors, 0 warnings" in ignored.output
    wrong = run("verify", "ocean.zarr", "--ignore", "orphans")
    assert (wrong.exit_code, "'orphan'" in wrong.output) == (2, True)


def test_every_kind_can_be_an_error_or_ignored() -> None:
    for option in verify.params:
        if option.name in ("errors", "ignore"):
            assert set(option.type.to_info_dict()["choices"]) == set(KINDS)


def test_verify_checks_conventions_unless_told_not_to(ocean: Path) -> None:
    group = oz.open("ocean.zarr", "r+")
    group.attrs["Conventions"] = "CF-1.8"
    group.create_array("u", shape=5, dtype="f4", dimension_names=["x"])
    group.create_array("v", shape=6, dtype="f4", dimension_names=["x"])
    result = run("verify", "ocean.zarr")
    assert result.exit_code == 1
    assert "[CF, 2.4 Dimensions]" in result.output
    assert run("verify", "ocean.zarr", "--no-conventions").exit_code == 0


def test_verify_shows_its_plan_and_takes_samples(ocean: Path) -> None:
    plan = run("verify", "ocean.zarr", "--dry-run", "--depth", "checksums")
    assert plan.exit_code == 0
    assert "read every chunk and compare its checksum" in plan.output
    data = json.loads(run("verify", "ocean.zarr", "--dry-run", "--json").stdout)
    assert data["results"][0]["phases"][0]["name"] == "check chunks"
    sample = json.loads(run("verify", "ocean.zarr", "--json", "--sample", "0.3").stdout)
    [found] = sample["results"]
    assert found["skipped"] + found["values"] == 7
    assert found["skipped"] > 0


def interrupted(where: Path) -> None:
    """Make what a killed copy leaves: chunks, a marker and a journal."""
    array = oz.create_array(where, shape=4, chunks=2, dtype="i2")
    array[...] = 1
    (where / "zarr.json").unlink()
    mark = Mark("the copy of a to b", "0123456789abcdef", "one attempt", kind=Kind.COPY)
    (where / MARKER).write_bytes(mark.write())
    journal = where / JOURNAL / mark.attempt
    journal.mkdir(parents=True)
    (journal / "999999999-abcd-000000").write_text("{}")


def test_repair_keeps_interrupted_jobs_unless_told_to_remove_them(in_tmp: Path) -> None:
    half = in_tmp / "half.zarr"
    interrupted(half)
    command = ("repair", "half.zarr", "--older-than", "0")
    for more in ((), ("--yes",), ("--remove-jobs",)):
        listed = run(*command, *more)
        assert "resumable: interrupted job / (0 bytes), the copy of a to b" in listed.output
        assert "again with --resume to finish it, or give" in listed.output
        assert (half / "c/0").exists()
    [found] = json.loads(run(*command, "--json").stdout)["results"]
    assert found["leftovers"][0]["state"] == "resumable"
    removed = run(*command, "--remove-jobs", "--yes")
    assert removed.output.startswith("removed: interrupted job /")
    assert not [path for path in half.rglob("*") if path.is_file()]


def test_repair_of_a_folder_has_one_summary(ocean: Path) -> None:
    oz.copy("ocean.zarr", "lake/a.zarr")
    interrupted(Path("lake/half.zarr"))
    (Path("lake/a.zarr") / JOURNAL / "0" / "x").mkdir(parents=True)
    (Path("lake/a.zarr") / JOURNAL / "0" / "999999999-ab-000000").write_text("{}")
    result = run("repair", "lake", "--older-than", "0", "--yes")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "2 paths checked: 1 removed, 1 resumable"


def test_remedies_for_outdated_consolidated_metadata_are_commands(ocean: Path) -> None:
    oz.consolidate_metadata("ocean.zarr")
    shutil.rmtree("ocean.zarr/name")
    for command in ("verify", "validate"):
        result = run(command, "ocean.zarr")
        assert "run omnizarr consolidate PATH" in result.output
        data = run(command, "ocean.zarr", "--json").stdout
        assert "run omnizarr consolidate PATH" in data
        assert "consolidate_metadata" not in result.output + data
    assert run("consolidate", "ocean.zarr").exit_code == 0
    assert run("verify", "ocean.zarr").exit_code == 0


def test_a_resumed_verification_of_what_has_changed_begins_again(
    ocean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TASK_KEYS", 4)
    monkeypatch.setattr("omnizarr.bulk.journal.FLUSH", 0.0)
    real, checked = CheckChunks.__call__, list[str]()

    def check(task: CheckChunks) -> VerifyReport:
        if checked:
            raise oz.StoreError("the connection is lost")
        checked.extend(key for key, _, _ in task.values)
        return real(task)

    with monkeypatch.context() as patch:
        patch.setattr(CheckChunks, "__call__", check)
        assert run("verify", "ocean.zarr", "--workers", 1).exit_code == FAILED
    (ocean / checked[0]).unlink()
    resumed = run("verify", "ocean.zarr", "--resume", "--json")
    assert "has changed since the interruption" in resumed.stderr
    assert json.loads(resumed.stdout) == json.loads(run("verify", "ocean.zarr", "--json").stdout)


def test_stats_shows_a_line_for_each_array(ocean: Path) -> None:
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 0
    header, *rows = result.output.splitlines()
    assert header.split() == [
        "path", "type", "count", "min", "max", "mean", "std", "nan", "fill", "missing",
    ]  # fmt: skip
    assert rows[0].split() == [
        "/deep/t", "int32", "600", "0", "599", "299.5", "173.205", "0", "1",
        "0", "of", "6", "chunks",
    ]  # fmt: skip
    assert rows[1].split()[:7] == ["/name", "string", "0", "-", "-", "-", "-"]


def test_stats_as_json_has_the_documented_members(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--bins", "3", "--range", "0", "600",
                 "--json")  # fmt: skip
    (found,) = json.loads(result.output)["results"]
    assert found["path"] == "ocean.zarr"
    (array,) = found["arrays"]
    assert array.pop("histogram") == {
        "counts": [200, 200, 200], "edges": [0, 200, 400, 600], "below": 0, "above": 0,
    }  # fmt: skip
    assert array == {
        "path": "/deep/t", "data_type": "int32", "kind": "numbers", "size": 600, "count": 600,
        "shape": [20, 30], "nan": 0, "infinite": 0, "fill": 1, "min": 0, "max": 599,
        "mean": 299.5, "std": pytest.approx(173.20484), "chunks": 6, "missing_chunks": 0,
    }  # fmt: skip


def test_stats_draws_a_histogram_and_takes_ranges(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--bins", 2, "--range", 0, 100)
    assert "0 to 50       50  ####" in result.output
    assert "above        499  " in result.output
    result = run("stats", "ocean.zarr", "--node", "deep/t", "--skip-fill")
    assert result.output.splitlines()[1].split()[2:6] == ["599", "1", "599", "300"]
    assert run("stats", "ocean.zarr", "--range", 0, 1).exit_code == 2


def test_infinities_and_nan_are_text_in_json(in_tmp: Path) -> None:
    oz.save("x.zarr", np.array([np.inf, np.nan, 1]))
    (array,) = json.loads(run("stats", "x.zarr", "--json").output)["results"][0]["arrays"]
    assert (array["max"], array["mean"], array["std"]) == ("Infinity", "Infinity", "NaN")


def test_stats_of_a_folder_of_stores_and_of_damaged_data(ocean: Path) -> None:
    oz.save("lake/x.zarr", np.zeros(3))
    oz.save("lake/y.zarr", np.ones(3))
    result = run("stats", "lake", "ocean.zarr")
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if line.endswith(":")] == [
        "lake/x.zarr:", "lake/y.zarr:", "ocean.zarr:",
    ]  # fmt: skip
    (ocean / "deep/t/c/0/0").write_bytes(b"damaged")
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 3
    assert "chunk (0, 0) of /deep/t" in result.stderr
    (ocean / "deep/t/zarr.json").write_text("{}")
    result = run("stats", "ocean.zarr")
    assert result.exit_code == 1
    assert "/deep/t:" in result.output


def test_a_dry_run_of_stats_and_diff_shows_the_plan(ocean: Path) -> None:
    result = run("stats", "ocean.zarr", "--dry-run")
    assert "statistics of / in ocean.zarr" in result.output
    plans = json.loads(run("stats", "ocean.zarr", "--dry-run", "--json").output)["results"]
    assert plans[0]["plan"]["phases"][0]["name"] == "read"
    result = run("diff", "ocean.zarr", "ocean.zarr", "--dry-run")
    assert "/deep/t: in 1 tiles" in result.output


def test_diff_tells_differences_by_the_exit_code(ocean: Path) -> None:
    oz.convert("ocean.zarr", "old.zarr", zarr_format=2)
    result = run("diff", "ocean.zarr", "old.zarr")
    assert (result.exit_code, result.output) == (
        0, "same data; storage layout differs (--storage shows it)\n",
    )  # fmt: skip
    result = run("diff", "ocean.zarr", "old.zarr", "--storage")
    assert result.exit_code == 1
    assert "/deep/t zarr_format: '3' and '2'" in result.output
    group = oz.open("old.zarr", mode="r+")
    group.attrs["title"] = "lake"
    group["deep/t"][3, 4] = -1
    del group["name"]
    result = run("diff", "ocean.zarr", "old.zarr")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "/name: only in the first",
        "/ attributes.title: 'sea' and 'lake'",
        "/deep/t: 1 of 600 values differ by at most 95 (1.01 relative)",
        "  /deep/t[3, 4]: 94 and -1",
    ]
    assert run("diff", "ocean.zarr", "old.zarr", "--node", "deep", "--atol", 95).exit_code == 0
    assert (
        run("diff", "ocean.zarr", "old.zarr", "--node", "deep/t", "--metadata-only").exit_code == 0
    )
    assert run("diff", "ocean.zarr", "nothing.zarr").exit_code == 3
    assert run("diff", "ocean.zarr").exit_code == 2


def test_du_adds_up_to_the_files(ocean: Path) -> None:
    total = sum(path.stat().st_size for path in ocean.rglob("*") if path.is_file())
    result = run("du", "ocean.zarr", "--bytes")
    assert result.exit_code == 0
    header, first, *rest = result.output.splitlines()
    assert header.split() == ["size", "memory", "ratio", "keys", "path"]
    assert (first.split()[0], first.split()[-1]) == (str(total), "ocean.zarr")
    assert {row.split()[-1] for row in rest} == {
        "ocean.zarr/deep", "ocean.zarr/deep/t", "ocean.zarr/name",
    }  # fmt: skip
    lines = run("du", "ocean.zarr", "--depth", 1, "--sort", "path").output.splitlines()[1:]
    assert [line.split()[-1] for line in lines] == [
        "ocean.zarr", "ocean.zarr/deep", "ocean.zarr/name",
    ]  # fmt: skip


def test_du_of_several_stores_ends_with_the_total(ocean: Path) -> None:
    oz.save("lake/x.zarr", np.zeros(3))
    result = run("du", "-s", "-b", "lake", "ocean.zarr", "nothing.zarr")
    assert result.exit_code == 3
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[-1] for row in rows] == ["ocean.zarr", "lake/x.zarr", "total"]
    assert int(rows[2][0]) == int(rows[0][0]) + int(rows[1][0])
    assert "nothing.zarr" in result.stderr


def test_a_part_of_a_job_is_not_called_complete(ocean: Path) -> None:
    results = [run("stats", "ocean.zarr", "--part", f"{k}/3", "--json") for k in (1, 2, 3)]
    found = [json.loads(result.stdout)["results"][0]["complete"] for result in results]
    assert sorted(set(found)) == [False, True]
    compared = [run("diff", "ocean.zarr", "ocean.zarr", "--part", f"{k}/9") for k in range(1, 10)]
    assert {result.exit_code for result in compared} == {0, 1}
    for result in compared:
        assert ("not the whole result" in result.stderr) == (result.exit_code == 1)
