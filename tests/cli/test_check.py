"""`omnizarr validate`, `verify` and `repair`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnizarr as oz
from omnizarr.bulk import verify as verifying
from omnizarr.bulk.checks import KINDS, VerifyReport
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
    real, checked = verifying.CheckChunks.__call__, list[str]()

    def check(task: verifying.CheckChunks) -> VerifyReport:
        if checked:
            raise oz.StoreError("the connection is lost")
        checked.extend(task.keys)
        return real(task)

    with monkeypatch.context() as patch:
        patch.setattr(verifying.CheckChunks, "__call__", check)
        assert run("verify", "ocean.zarr", "--workers", 1).exit_code == FAILED
    (ocean / checked[0]).unlink()
    resumed = run("verify", "ocean.zarr", "--resume", "--json")
    assert "has changed since the interruption" in resumed.stderr
    assert json.loads(resumed.stdout) == json.loads(run("verify", "ocean.zarr", "--json").stdout)
