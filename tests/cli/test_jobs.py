"""Jobs for folders of hierarchies: `convert`, `rechunk`, `copy` and `diff`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run

VALUES = np.arange(600, dtype="i4").reshape(20, 30)


@pytest.fixture
def lake(in_tmp: Path) -> Path:
    """Three hierarchies at two depths, among other files."""
    for number, (name, format_) in enumerate({"a.zarr": 2, "b.zarr": 2, "sub/c.zarr": 3}.items()):
        group = oz.create_group(f"lake/{name}", zarr_format=format_)
        group.create_array(
            "t", data=VALUES + number, chunks=(10, 10), dimension_names=["y", "x"], compressors=[]
        )
    Path("lake/notes.txt").write_text("not Zarr")
    return in_tmp / "lake"


def damage(path: str) -> bytes:
    """Truncate a chunk, and return its bytes."""
    stored = Path(path).read_bytes()
    Path(path).write_bytes(stored[:7])
    return stored


def modified(*paths: str) -> list[int]:
    return [os.stat(path).st_mtime_ns for path in paths]


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (["convert", "--zarr-format", "3"], "converted"),
        (["rechunk", "--chunks", "y=20,x=5", "--zarr-format", "3"], "rechunked"),
    ],
)
def test_each_hierarchy_of_a_folder_is_written_below_the_destination(
    lake: Path, command: list[str], verb: str
) -> None:
    name, *options = command
    planned = run(name, "lake/", "out", *options, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert planned.output.endswith("3 hierarchies; nothing was written (--dry-run)\n")
    assert not Path("out").exists()
    result = run(name, "lake/", "out", *options)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split(":")[0].split()[-1] for line in lines[:3]] == [
        "out/a.zarr",
        "out/b.zarr",
        "out/sub/c.zarr",
    ]
    assert lines[3].startswith(f"3 of 3 hierarchies {verb}: ")
    assert len(lines) == 4
    for number, path in enumerate(("out/a.zarr", "out/b.zarr", "out/sub/c.zarr")):
        group = oz.open(path)
        assert group.zarr_format == 3
        assert np.array_equal(group["t"][...], VALUES + number)


def test_a_failing_hierarchy_does_not_stop_the_others_and_resume_repeats_none(lake: Path) -> None:
    stored = damage("lake/b.zarr/t/0.0")
    result = run("convert", "lake", "out", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert [each["path"] for each in found["results"]] == ["lake/a.zarr", "lake/sub/c.zarr"]
    assert [each["path"] for each in found["failures"]] == ["lake/b.zarr"]
    assert found["failures"][0]["error"] == "ChunkError"
    assert found["summary"]["hierarchies"] == found["summary"]["ok"] == 2
    assert found["summary"]["chunks_copied"] == 12
    keys = "out/a.zarr/zarr.json", "out/sub/c.zarr/t/c/0/0"
    before = modified(*keys)
    Path("lake/b.zarr/t/0.0").write_bytes(stored)
    refused = run("convert", "lake/", "out/", "--resume")
    assert refused.exit_code == 3
    assert "the source has changed since; give --overwrite to start again" in refused.output
    assert "out/a.zarr: exists already, not written again\n" in refused.output
    assert refused.output.endswith(
        "; 2 existed already; 1 failed: --resume tries only these again\n"
    )
    assert modified(*keys) == before
    again = run("convert", "lake/", "out/", "--resume", "--overwrite")
    assert again.exit_code == 0, again.output
    assert run("diff", "lake", "out").exit_code == 0


def test_what_another_run_has_written_is_neither_replaced_nor_called_written(lake: Path) -> None:
    oz.create_group("out/b.zarr")
    dry = run("convert", "lake", "out", "--dry-run")
    assert "out/b.zarr exists, and is replaced only with --overwrite" in dry.output
    first = run("convert", "lake", "out")
    assert (first.exit_code, first.output.endswith("; 1 not replaced\n")) == (3, True)
    assert "lake/b.zarr: there is already a zarr 3 group" in first.output
    again = json.loads(run("convert", "lake", "out", "--resume", "--json").stdout)
    assert [each["existed"] for each in again["results"]] == [True] * 3
    assert (again["summary"]["ok"], again["summary"]["existed"]) == (0, 3)
    single = run("convert", "lake/b.zarr", "out/b.zarr", "--resume")
    assert (single.exit_code, single.output) == (
        0,
        "out/b.zarr: exists already, not written again\n",
    )
    replaced = run("convert", "lake", "out", "--resume", "--overwrite")
    assert replaced.exit_code == 0, replaced.output
    assert "t" in oz.open("out/b.zarr")


def test_hierarchies_of_a_folder_are_changed_in_place(lake: Path) -> None:
    refused = run("rechunk", "lake", "--in-place", "--chunks", "5,5")
    assert refused.exit_code == 2
    assert "The arrays of the 3 hierarchies in lake will be replaced" in refused.output
    assert run("rechunk", "lake", "--in-place", "--chunks", "5,5", "--yes").exit_code == 0
    assert oz.open("lake/sub/c.zarr", path="t").chunks == (5, 5)
    Path("lake/sub/c.zarr").rename("c.zarr")
    result = run("convert", "lake", "--in-place")
    assert result.exit_code == 0, result.output
    assert oz.open("lake/b.zarr", zarr_format=3)["t"].chunks == (5, 5)
    undone = run("convert", "--undo", "lake")
    assert undone.output.splitlines() == [
        f"removed 2 documents of zarr 3 from lake/{name}.zarr" for name in "ab"
    ]
    assert not Path("lake/a.zarr/zarr.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["convert", "lake", "lake/out"], 3, "one is inside the other; give another destination"),
        (["convert", "lake", "one.zarr"], 2, "is a hierarchy itself; give a folder as DEST"),
        (["convert", "lake", "out.zip"], 2, "out.zip is a file; give a folder as DESTINATION"),
        (["rechunk", "lake", "lake", "--chunks", "5"], 3, "source and destination are both"),
        (["diff", "lake", "one.zarr"], 2, "lake is a folder of 3 hierarchies, and one.zarr is not"),
        (["diff", "lake", "none"], 2, "lake is a folder of 3 hierarchies, and none is not"),
        (["copy", "lake/a.zarr", "./lake/a.zarr/", "out"], 2, "would become out/a.zarr"),
    ],
)
def test_wrong_destinations_of_folders_are_one_line(
    lake: Path, arguments: list[str], code: int, message: str
) -> None:
    oz.create_group("one.zarr")
    before = sorted(lake.rglob("*"))
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())
    assert sorted(lake.rglob("*")) == before
    assert not Path("out").exists()


def test_a_copy_of_a_folder_has_everything_and_other_sources_go_on(lake: Path) -> None:
    assert run("copy", "lake", "backup/lake").exit_code == 0
    assert Path("backup/lake/notes.txt").exists()
    assert run("diff", "lake", "backup/lake").exit_code == 0
    result = run("copy", "lake/a.zarr", "none.zarr", "lake/b.zarr", "out", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert [each["destination"] for each in found["results"]] == ["out/a.zarr", "out/b.zarr"]
    assert [each["path"] for each in found["failures"]] == ["none.zarr"]
    assert found["summary"]["hierarchies"] == 2


def test_diff_compares_the_hierarchies_of_two_folders(lake: Path) -> None:
    assert run("copy", "lake", "other").exit_code == 0
    same = run("diff", "lake/", "other")
    assert same.exit_code == 0, same.output
    assert same.output.splitlines()[0] == "a.zarr: no differences"
    assert same.output.splitlines()[-1] == "3 of 3 hierarchies have no differences"
    planned = run("diff", "lake", "other", "--dry-run")
    assert planned.exit_code == 0
    assert "sub/c.zarr:\n" in planned.output
    oz.open("other/b.zarr", mode="r+", path="t")[0, 0] = -1
    Path("other/sub/c.zarr").rename("other/d.zarr")
    result = run("diff", "lake", "other")
    assert result.exit_code == 1
    assert "b.zarr:\n/t: 1 of 600 values differ" in result.output
    assert "d.zarr: only in the second\nsub/c.zarr: only in the first\n" in result.output
    end = "1 of 4 hierarchies have no differences; 1 only in the first; 1 only in the second\n"
    assert result.output.endswith(end)
    found = json.loads(run("diff", "lake", "other", "--json").stdout)
    assert [each["equal"] for each in found["results"]] == [True, False, False, False]
    assert found["results"][2] == {
        "path": "d.zarr", "a": None, "b": "other/d.zarr", "equal": False,
    }  # fmt: skip
    assert found["summary"] == {"hierarchies": 4, "equal": 1, "only_a": 1, "only_b": 1}
    assert found["failures"] == []


def test_quiet_prints_only_problems(lake: Path) -> None:
    for words in (
        ["convert", "lake", "out"],
        ["rechunk", "lake/a.zarr", "a.zarr", "--chunks", "5,5"],
        ["copy", "lake", "copied"],
        ["consolidate", "copied"],
        ["diff", "lake", "out"],
        ["verify", "lake", "lake/b.zarr"],
        ["validate", "lake"],
    ):
        result = run(*words, "--quiet")
        assert (result.exit_code, result.output) == (0, ""), words
    damage("lake/b.zarr/t/0.0")
    oz.open("out/a.zarr", mode="r+", path="t")[0, 0] = -1
    verified = run("verify", "lake", "-q")
    assert verified.exit_code == 1
    assert [line.split(" (")[0] for line in verified.output.splitlines()] == [
        "lake/b.zarr:",
        "error /t chunk",
    ]
    skipped = run("convert", "lake", "rest", "-q", "--skip-damaged").output.splitlines()
    assert skipped[0].startswith("wrote zarr 3 to rest/b.zarr: ")
    assert skipped[1].startswith("  skipped damaged chunk 't/0.0': ")
    assert len(skipped) == 2
    Path("lake/b.zarr/t/0.0").unlink()
    compared = run("diff", "lake/a.zarr", "out/a.zarr", "-q")
    assert compared.output.startswith("/t: 1 of 600 values differ")
