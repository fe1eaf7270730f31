"""`omnizarr copy`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

import omnizarr as oz
from tests.cli.conftest import run


def files(folder: str) -> dict[str, bytes]:
    root = Path(folder)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_copy_writes_the_same_files_and_reports_it(ocean: Path) -> None:
    (ocean / "README.md").write_text("not Zarr")
    result = run("copy", "ocean.zarr", "new.zarr", "--verify")
    assert result.exit_code == 0, result.output
    count = len(files("ocean.zarr"))
    size = sum(map(len, files("ocean.zarr").values()))
    assert result.output.startswith(f"copied to new.zarr: {count} values, ")
    assert result.output.endswith(f", {count} verified\n")
    assert files("new.zarr") == files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "other.zarr", "--json").output)
    assert found == {
        "source": "ocean.zarr",
        "destination": "other.zarr",
        "copied": count,
        "same": 0,
        "erased": 0,
        "verified": 0,
        "bytes_copied": size,
    }


def test_copy_updates_what_differs(ocean: Path) -> None:
    run("copy", "ocean.zarr", "new.zarr")
    count = len(files("ocean.zarr"))
    oz.open("ocean.zarr", mode="r+")["deep/t"][0, 0] = 7
    Path("new.zarr/mine.txt").write_text("mine")
    shown = run("copy", "ocean.zarr", "new.zarr", "--update", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "values are compared by size and modification time" in shown.output
    assert "would copy 1 value, " in shown.output
    assert f"; {count - 1} are the same\n" in shown.output
    assert files("new.zarr") != files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "new.zarr", "--update", "--json").output)
    assert (found["copied"], found["same"], found["erased"]) == (1, count - 1, 0)
    assert files("new.zarr") == {**files("ocean.zarr"), "mine.txt": b"mine"}
    again = run("copy", "ocean.zarr", "new.zarr", "--update", "--compare", "checksum")
    assert again.output == f"copied to new.zarr: 0 values, 0 bytes, {count} were the same\n"


def test_what_is_erased_is_confirmed(ocean: Path) -> None:
    run("copy", "ocean.zarr", "new.zarr")
    Path("new.zarr/mine.txt").write_text("mine")
    shown = json.loads(
        run("copy", "ocean.zarr", "new.zarr", "--update", "--delete", "--dry-run", "--json").output
    )
    assert shown["outcome"]["erased"] == 1
    refused = run("copy", "ocean.zarr", "new.zarr", "--update", "--delete")
    assert refused.exit_code == 2
    assert "1 key of new.zarr will be erased" in refused.output
    assert Path("new.zarr/mine.txt").exists()
    done = run("copy", "ocean.zarr", "new.zarr", "--update", "--delete", "--yes")
    assert ", 1 erased\n" in done.output
    assert files("new.zarr") == files("ocean.zarr")


def test_copy_replaces_only_on_request(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    before = files("new.zarr")
    result = run("copy", "ocean.zarr", "new.zarr")
    assert result.exit_code == 3
    assert "--update copies what differs, --overwrite replaces it" in result.output
    assert files("new.zarr") == before
    assert run("copy", "ocean.zarr", "new.zarr", "--overwrite").exit_code == 0
    assert files("new.zarr") == files("ocean.zarr")


def test_several_sources_are_copied_below_a_folder(ocean: Path) -> None:
    oz.create_array("b.zarr", data=[1, 2])
    result = run("copy", "ocean.zarr", "./b.zarr/", "backup/")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].startswith("copied to backup/b.zarr: 2 values")
    assert files("backup/ocean.zarr") == files("ocean.zarr")
    found = json.loads(run("copy", "ocean.zarr", "b.zarr", "more", "--json").output)
    assert [one["destination"] for one in found["results"]] == ["more/ocean.zarr", "more/b.zarr"]
    assert "has no name" in run("copy", "b.zarr", ".", "else").output


def test_patterns_choose_nodes(ocean: Path) -> None:
    assert run("copy", "ocean.zarr", "new.zarr", "--include", "deep").exit_code == 0
    assert [name for name, _ in oz.open("new.zarr").members(None)] == ["deep", "deep/t"]
    run("copy", "ocean.zarr", "other.zarr", "--exclude", "t", "--exclude", "**/c/*")
    assert [name for name, _ in oz.open("other.zarr").members(None)] == ["deep", "name"]


def test_one_node_is_copied(ocean: Path) -> None:
    assert run("copy", "ocean.zarr", "new.zarr", "--node", "deep/t").exit_code == 0
    assert np.array_equal(oz.open("new.zarr")[...], np.arange(600).reshape(20, 30))
    missing = run("copy", "ocean.zarr", "else.zarr", "--node", "deep/x")
    assert missing.exit_code == 3
    assert "no array or group at /deep/x" in missing.output
    assert not Path("else.zarr").exists()


def test_a_missing_source_and_nested_places_are_one_line(ocean: Path) -> None:
    for arguments, message in (
        (["no.zarr", "new.zarr"], "no keys to copy"),
        (["ocean.zarr", "ocean.zarr/copy"], "one is inside the other"),
        (["ocean.zarr", "ocean.zarr"], "they are the same"),
    ):
        result = run("copy", *arguments)
        assert result.exit_code == 3
        assert message in result.output
        assert result.output.count("\n") == 1


def test_a_zip_file_is_complete_afterwards(ocean: Path) -> None:
    assert run("copy", "ocean.zarr", "ocean.zip").exit_code == 0
    listed = subprocess.run(["python3", "-m", "zipfile", "-l", "ocean.zip"], capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    assert "deep/t/zarr.json" in listed
    assert "__omnizarr" not in listed
    assert run("copy", "ocean.zip", "again.zarr").exit_code == 0
    assert files("again.zarr") == files("ocean.zarr")
