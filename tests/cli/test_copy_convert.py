"""`omnizarr convert`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.cli.conftest import run


@pytest.mark.parametrize("to", ["2", "3"])
def test_convert_writes_another_format_and_reports_it(ocean: Path, to: str) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", to)
    assert result.exit_code == 0, result.output
    assert "2 groups, 2 arrays, 7 chunks copied, 0 re-encoded" in result.output
    new = oz.open("new.zarr")
    assert new.zarr_format == int(to)
    assert np.array_equal(new["deep/t"][...], np.arange(600).reshape(20, 30))


def test_convert_says_which_checksums_it_left_out(in_tmp: Path) -> None:
    """B1: readers of version 2 do not know them."""
    group = oz.create_group("a.zarr")
    for number in range(10):
        group[f"a{number}"] = [1, 2]
    said = run("convert", "a.zarr", "b.zarr", "--to", "2").output.splitlines()[1:]
    assert len(said) == 1
    assert "10 arrays written without crc32c" in said[0]
    assert said[0].endswith("/a6, /a7, … (2 more)")
    kept = run("convert", "a.zarr", "c.zarr", "--to", "2", "--checksum").output
    assert "without" not in kept
    documents = [
        json.loads((in_tmp / name / "a3/.zarray").read_text()) for name in ("b.zarr", "c.zarr")
    ]
    assert [[f["id"] for f in found or ()] for found in (d["filters"] for d in documents)] == [
        [],
        ["blosc", "crc32c"],
    ]


def test_remedies_name_command_line_options(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    refused = run("convert", "ocean.zarr", "new.zarr")
    assert refused.exit_code == 3
    assert refused.output.endswith("give --overwrite to replace it\n")
    assert run("convert", "ocean.zarr", "new.zarr", "--overwrite").output.count("\n") == 1
    assert "or --in-place" in run("convert", "ocean.zarr", "ocean.zarr").output
    both = run("convert", "ocean.zarr", "else.zarr", "--in-place").output
    assert "give a DESTINATION or --in-place, not both" in both
    assert not Path("else.zarr").exists()


def test_the_plan_is_shown_as_text_and_json(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--zarr-format", "2", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "from zarr 3 to zarr 2 at new.zarr" in result.output
    assert "copied without crc32c: 1 array (/deep/t)" in result.output
    assert "write chunks: read 7 values of " in result.output
    assert "nothing was written" in result.output
    found = json.loads(run("convert", "ocean.zarr", "new.zarr", "--dry-run", "--json").output)
    assert found["plan"]["phases"][0]["reads"] == 7
    assert any("chunks kept byte for byte: 2 arrays" in line for line in found["plan"]["decisions"])
    assert not Path("new.zarr").exists()


def test_the_result_as_json(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", "2", "--json", "--verify")
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["source"] == "ocean.zarr"
    assert found["destination"] == "new.zarr"
    assert found["zarr_format"] == "2"
    assert found["chunks_copied"] == found["chunks_verified"] == 7
    assert list(found["left_out"]) == ["/deep/t", "/name"]
    failed = run("convert", "ocean.zarr", "new.zarr", "--json")
    assert failed.exit_code == 3
    assert '"error": "NodeExists"' in failed.output


def test_metadata_is_added_in_place_and_removed_again(in_tmp: Path) -> None:
    group = oz.create_group("a.zarr", zarr_format=2)
    group.create_array("x", data=[1, 2], chunks=1)
    before = sorted(Path("a.zarr").rglob("*"))
    result = run("convert", "a.zarr", "--in-place")
    assert "wrote zarr 3 to a.zarr: 1 group, 1 array, 0 chunks copied" in result.output
    assert oz.open("a.zarr", zarr_format=3)["x"][...].tolist() == [1, 2]
    shown = run("convert", "--undo", "a.zarr", "--dry-run")
    assert shown.output == "would remove 2 documents of zarr 3 from a.zarr\n"
    shown = run("convert", "--undo", "a.zarr", "--json")
    assert json.loads(shown.output)["erased"] == ["zarr.json", "x/zarr.json"]
    assert sorted(Path("a.zarr").rglob("*")) == before
    again = run("convert", "--undo", "a.zarr")
    assert again.exit_code == 3
    assert "no zarr 3 metadata" in again.output
    assert "one path" in run("convert", "--undo", "a.zarr", "b.zarr").output


def test_old_metadata_is_removed_after_confirmation(in_tmp: Path) -> None:
    oz.create_array("a.zarr", data=[1, 2], zarr_format=2)
    refused = run("convert", "a.zarr", "--in-place", "--remove-old")
    assert refused.exit_code == 2
    assert "cannot be undone" in refused.output
    assert "--yes" in refused.output
    assert not Path("a.zarr/zarr.json").exists()
    assert run("convert", "a.zarr", "--in-place", "--remove-old", "--yes").exit_code == 0
    assert not Path("a.zarr/.zarray").exists()
    assert oz.open("a.zarr").zarr_format == 3
    wrong = run("convert", "a.zarr", "b.zarr", "--remove-old")
    assert "--remove-old needs --in-place" in wrong.output


@pytest.mark.parametrize("option", ["--consolidated", "--no-consolidated", ""])
def test_metadata_is_consolidated_as_asked(ocean: Path, option: str) -> None:
    oz.consolidate_metadata("ocean.zarr")
    result = run("convert", "ocean.zarr", "new.zarr", "--to", "2", *option.split())
    assert ("consolidated metadata of /" in result.output) == (option != "--no-consolidated")
    assert Path("new.zarr/.zmetadata").exists() == (option != "--no-consolidated")
