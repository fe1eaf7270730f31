"""Commands that show metadata and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import omnizarr as oz
from tests.cli.conftest import run


def test_info_shows_an_array_and_how_much_is_stored(ocean: Path) -> None:
    result = run("info", "ocean.zarr", "--node", "deep/t")
    assert result.exit_code == 0
    for text in ("zarr version 3", "(20, 30)", "int32", "y, x", "blosc", "6 of 6 values: "):
        assert text in result.output


def test_info_shows_a_group_and_its_attributes(ocean: Path) -> None:
    result = run("info", "ocean.zarr")
    assert "1 array, 1 group" in result.output
    assert '"title": "sea"' in result.output


def test_tree_shows_everything_below(ocean: Path) -> None:
    lines = run("tree", "ocean.zarr").output.splitlines()
    assert lines[0] == "/"
    assert lines[1] == "├── deep"
    assert lines[2].startswith("│   └── t (20, 30) int32")
    assert lines[3].startswith("└── name (2,) string")
    assert len(run("tree", "ocean.zarr", "--depth", "1").output.splitlines()) == 3


def test_info_shows_a_compression_ratio_only_if_data_is_compressed(in_tmp: Path) -> None:
    oz.create_array("raw.zarr", data=np.arange(100, dtype="i8"), compressors=None)
    oz.create_array("small.zarr", data=np.ones(1000, dtype="i8"))
    assert "times smaller" not in run("info", "raw.zarr").output
    assert "times smaller" in run("info", "small.zarr").output


def test_a_negative_depth_is_refused(ocean: Path) -> None:
    result = run("tree", "ocean.zarr", "--depth", "-1")
    assert result.exit_code == 2
    assert "x>=0" in result.output
