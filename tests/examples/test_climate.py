"""The climate example runs twice, and both xarray engines read its result."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import xarray as xr

EXAMPLE = Path(__file__).parents[2] / "examples" / "climate.py"


def test_the_example_runs_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    example["main"](tmp_path)
    example["main"](tmp_path)
    printed = capsys.readouterr().out
    assert "219 times, 3 blocks" in printed
    path = tmp_path / "climate.zarr"
    ours = xr.open_dataset(path, engine="omnizarr").load()
    xr.testing.assert_identical(ours, xr.open_dataset(path, engine="zarr").load())
    xr.testing.assert_allclose(ours.sel(time="2003"), example["year"](2003))
    assert int(ours.air.isnull().sum()) < int(
        sum(example["year"](n).air.isnull().sum() for n in (2001, 2002, 2003))
    )
