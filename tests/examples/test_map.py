"""The map example runs twice and leaves a pyramid of its data."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz

EXAMPLE = Path(__file__).parents[2] / "examples" / "map.py"


def test_the_example_runs_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    example["main"](tmp_path)
    example["main"](tmp_path)
    printed = capsys.readouterr().out
    assert "a region: (160, 240) pixels" in printed
    assert "pixels of at most 1 degree: (225, 450)" in printed
    found = oz.geo.open(tmp_path / "world.zarr")
    assert str(found.crs) == "EPSG:4326"
    np.testing.assert_array_equal(found.read(), example["heights"]())
    assert oz.validate(tmp_path / "world.zarr") == []
