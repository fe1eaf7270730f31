"""Every example runs twice in one folder, and leaves what it promises."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz

Run: TypeAlias = Callable[[str], tuple[dict[str, Any], list[Any], str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs an example twice: its names, what it returns, what it prints."""

    def twice(name: str) -> tuple[dict[str, Any], list[Any], str]:
        example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))
        results = [example["main"](tmp_path) for _ in range(2)]
        return example, results, capsys.readouterr().out

    return twice


def test_both_xarray_engines_read_the_climate(run: Run, tmp_path: Path) -> None:
    example, _, printed = run("climate")
    assert "219 times, 3 blocks" in printed
    path = tmp_path / "climate.zarr"
    ours = xr.open_dataset(path, engine="omnizarr").load()
    xr.testing.assert_identical(ours, xr.open_dataset(path, engine="zarr").load())
    xr.testing.assert_allclose(ours.sel(time="2003"), example["year"](2003))
    assert int(ours.air.isnull().sum()) < int(
        sum(example["year"](n).air.isnull().sum() for n in (2001, 2002, 2003))
    )


def test_the_map_is_a_pyramid_of_its_data(run: Run, tmp_path: Path) -> None:
    example, _, printed = run("map")
    assert "a region: (160, 240) pixels" in printed
    assert "pixels of at most 1 degree: (225, 450)" in printed
    found = oz.geo.open(tmp_path / "world.zarr")
    assert str(found.crs) == "EPSG:4326"
    np.testing.assert_array_equal(found.read(), example["heights"]())
    assert oz.validate(tmp_path / "world.zarr") == []


def test_the_cells_are_valid_images_of_both_versions(run: Run, tmp_path: Path) -> None:
    example, _, printed = run("microscopy")
    assert "30 by 30 micrometers at z = 12: (120, 120) pixels" in printed
    new, old = (oz.ome.open(tmp_path / f"cells{v}.ome.zarr") for v in ("", "-0.4"))
    assert isinstance(new, oz.ome.Image)
    assert isinstance(old, oz.ome.Image)
    assert (new.version, old.version) == ("0.5", "0.4")
    np.testing.assert_array_equal(new.read(), example["cells"]()[0])
    np.testing.assert_array_equal(new.read(level=2), old.read(level=2))
    assert list(old.labels) == ["nuclei"]


def test_training_learns_again_and_again(run: Run) -> None:
    _, results, printed = run("training")
    assert min(results) > 0.95
    assert "16000 images in batches" in printed
