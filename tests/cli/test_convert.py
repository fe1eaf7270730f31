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
    new = oz.open_group("new.zarr")
    assert new.zarr_format == int(to)
    assert np.array_equal(new["deep/t"][...], np.arange(600).reshape(20, 30))


def test_convert_says_which_checksums_it_left_out(in_tmp: Path) -> None:
    """B1: readers of version 2 do not know them."""
    oz.create_array("a.zarr", data=[1, 2])
    left_out = "/ was written without crc32c"
    assert left_out in run("convert", "a.zarr", "b.zarr", "--to", "2").output
    assert left_out not in run("convert", "a.zarr", "c.zarr", "--to", "2", "--checksum").output
    documents = [
        json.loads((in_tmp / name / ".zarray").read_text()) for name in ("b.zarr", "c.zarr")
    ]
    assert [[f["id"] for f in found or ()] for found in (d["filters"] for d in documents)] == [
        [],
        ["blosc", "crc32c"],
    ]


def test_convert_replaces_only_on_request(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3, zarr_format=2)
    result = run("convert", "ocean.zarr", "new.zarr")
    assert result.exit_code == 3
    assert "overwrite" in result.output
    assert run("convert", "ocean.zarr", "new.zarr", "--overwrite").exit_code == 0
    assert oz.open("new.zarr").zarr_format == 3


def test_convert_reports_what_a_format_cannot_express(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr", "--to", "3-draft")
    assert result.exit_code == 3
    assert "/name" in result.output
    assert "variable length" in result.output
    assert not Path("new.zarr").exists()


def test_remedies_name_command_line_options(ocean: Path) -> None:
    oz.create_array("new.zarr", shape=3)
    output = run("convert", "ocean.zarr", "new.zarr").output
    assert output.endswith("give --overwrite to replace it\n")
    assert "or --in-place" in run("convert", "ocean.zarr", "ocean.zarr").output
    both = run("convert", "ocean.zarr", "else.zarr", "--in-place").output
    assert "give a DESTINATION or --in-place, not both" in both
    assert not Path("else.zarr").exists()


def test_convert_writes_one_line_without_a_terminal(ocean: Path) -> None:
    result = run("convert", "ocean.zarr", "new.zarr")
    assert result.output.count("\n") == 1
    assert result.output.startswith("wrote zarr 3 to new.zarr")
