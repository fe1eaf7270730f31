"""Other libraries read version 3 arrays with our default codecs (B5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr
from packaging.version import Version

import omnizarr as oz
from tests.peers.environments import Gdal, Zarrita

DATA = np.arange(60, dtype="i4").reshape(10, 6)
WITH_CRC32C = "3.13"  # the first GDAL that may know it


def converted(path: Path) -> None:
    """Convert an array; big-endian structures and shards are encoded again."""
    old = oz.create_group(path.with_name("old.zarr"), zarr_format="3-draft")
    old.create_array("a", data=DATA, chunks=(5, 3), shards=(10, 6))
    oz.convert(path.with_name("old.zarr"), path, zarr_format=3)


def from_dask(path: Path) -> None:
    oz.from_dask(dask.array.from_array(DATA, chunks=(5, 6)), oz.create_group(path), name="a")


WRITERS: dict[str, Callable[[Path], object]] = {
    "create_array": lambda path: oz.create_group(path).create_array("a", data=DATA),
    "save": lambda path: oz.save(path, a=DATA),
    "xarray": lambda path: oz.xarray.write(xr.Dataset({"a": (("y", "x"), DATA)}), path),
    "from_dask": from_dask,
    "ome.write": lambda path: oz.ome.write(path, DATA, axes="yx"),
    "convert": converted,
}


@pytest.mark.parametrize("choice", ["fast", "portable"])
@pytest.mark.parametrize("writer", WRITERS)
def test_other_libraries_read_the_default_codecs(
    tmp_path: Path, gdal: Gdal, zarrita: Zarrita, writer: str, choice: str
) -> None:
    """B5: all of them, except GDAL up to 3.12, which has no crc32c."""
    path = tmp_path / "made.zarr"
    with oz.configure(codecs=choice):
        WRITERS[writer](path)
    [(name, array)] = [(n, m) for n, m in oz.open(path).members() if isinstance(m, oz.Array)]
    names = [codec.name for codec in array.metadata.codecs]
    assert names == {"fast": ["bytes", "blosc", "crc32c"], "portable": ["bytes", "zstd"]}[choice]
    np.testing.assert_array_equal(zarr.open_array(path / name, mode="r")[...], DATA)
    np.testing.assert_array_equal(zarrita.read(path, name)[name], DATA)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path / name}/"}}
    np.testing.assert_array_equal(tensorstore.open(spec).result().read().result(), DATA)
    version = Version(gdal.run("result = rasterio.__gdal_version__"))
    found: Any = gdal.read(path, name)[name]
    if choice == "portable":
        np.testing.assert_array_equal(found, DATA)
    elif version < Version(WITH_CRC32C):
        assert "RasterioIOError" in found


def test_maps_have_portable_codecs_by_default(tmp_path: Path, gdal: Gdal) -> None:
    """B5: maps are read with GDAL."""
    oz.geo.write(tmp_path / "a.zarr", DATA, levels=1)
    np.testing.assert_array_equal(gdal.read(tmp_path / "a.zarr", "0")["0"], DATA)
    with oz.configure(codecs=["gzip"]):
        oz.geo.write(tmp_path / "b.zarr", DATA, levels=1)
    codecs = oz.open(tmp_path / "b.zarr", path="0").metadata.codecs
    assert [codec.name for codec in codecs] == ["bytes", "gzip"]
    np.testing.assert_array_equal(gdal.read(tmp_path / "b.zarr", "0")["0"], DATA)
