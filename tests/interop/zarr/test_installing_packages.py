"""Packages that use zarr-python read and write the same on omnizarr in its place."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from benchmarks.downstream.trips import round_trip

MODULES = {"dask": "dask.array", "xarray": "xarray", "anndata": "anndata", "ome-zarr": "ome_zarr"}


@pytest.mark.parametrize("package", MODULES)
def test_what_a_package_writes_on_one_library_it_reads_on_the_other(
    package: str, tmp_path: Path
) -> None:
    for module in ("zarr", MODULES[package].partition(".")[0]):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install {package}")
    round_trip(Path(sys.executable), package, tmp_path / "data")
