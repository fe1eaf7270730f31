"""GDAL reads what we write, and we read what it writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz

pytestmark = pytest.mark.skipif(
    shutil.which("gdal_translate") is None,
    reason="GDAL is not installed (apt-get install gdal-bin)",
)


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    return done.stdout


def info(dataset: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("gdalinfo", "-json", "-stats", dataset))
    return found


def test_gdal_reads_our_map_and_its_georeferencing(tmp_path: Path) -> None:
    dataset = oz.cf.create(tmp_path / "ours.zarr", zarr_format=2)
    for name, start, step, length in (("y", 50, -10, 4), ("x", 400, 10, 6)):
        values = start + step * np.arange(length, dtype="f8")
        dataset.create_variable(name, values, dimensions=[name])
    heights = dataset.create_variable(
        "heights",
        np.arange(24).reshape(4, 6),
        dimensions=["y", "x"],
        dtype="i2",
        attributes={"_FillValue": -9999},
    )
    oz.geo.write_crs(heights.array, "EPSG:32633", way="gdal")
    found = info(f'ZARR:"{tmp_path / "ours.zarr"}":/heights')
    assert found["size"] == [6, 4]
    assert found["geoTransform"] == [395, 10, 0, 55, 0, -10]
    transform = oz.geo.read_transform(heights.array)
    assert transform is not None
    assert list(transform.gdal) == found["geoTransform"]
    assert 'ID["EPSG",32633]' in found["coordinateSystem"]["wkt"]
    [band] = found["bands"]
    assert (band["noDataValue"], band["maximum"], band["mean"]) == (-9999, 23, 11.5)
