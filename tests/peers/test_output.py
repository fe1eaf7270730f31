"""The output of every writer is read by other libraries, version 2 by those that know no newer one.

zarr-python 2.18 with the numcodecs of its time, tensorstore, zarrita.js and GDAL: B1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr
import zarr
from packaging.version import Version

import omnizarr as oz
from tests.peers.environments import Gdal, Zarrita, ZarrPython2
from tests.peers.test_views import read_by_tensorstore

DATA = np.arange(60, dtype="i4").reshape(10, 6)
GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
Values = npt.NDArray[Any]


def source(path: Path, **options: Any) -> oz.Group:
    """Create a version 3 hierarchy with default and other codecs."""
    group = oz.create_group(path)
    some: dict[str, Any] = {"chunks": (4, 5), "dimension_names": ["y", "x"], **options}
    group.create_array("default", data=DATA, **some)
    group.create_array("doubles", data=DATA.astype(">f8") / 7, order="F", **some)
    group.create_array("zstd", data=DATA, compressors=[ZSTD], **some)
    group.create_array("gzip", data=DATA, compressors=[GZIP, "crc32c"], **some)
    group.create_array("early", data=DATA, compressors=["crc32c", "blosc"], **some)
    group.create_array("twice", data=DATA, compressors=["crc32c", "blosc", "crc32c"], **some)
    group.create_array("bare", data=DATA, compressors=["crc32c"], **some)
    group.create_array("sub/bool", data=DATA % 2 == 0, **some)
    return group


def converted(path: Path) -> None:
    source(path.with_name("source.zarr"))
    oz.convert(path.with_name("source.zarr"), path, zarr_format=2)


def converted_again(path: Path) -> None:
    source(path.with_name("source.zarr"))
    oz.convert(
        path.with_name("source.zarr"), path.with_name("2.zarr"), zarr_format=2, checksum=True
    )
    oz.convert(path.with_name("2.zarr"), path, zarr_format=2)


def converted_shards(path: Path) -> None:
    source(path.with_name("source.zarr"), shards=(8, 10))
    oz.convert(path.with_name("source.zarr"), path, zarr_format=2)


def from_xarray(path: Path) -> None:
    source(path.with_name("source.zarr"))
    dataset = xr.open_dataset(path.with_name("source.zarr"), engine="omnizarr")
    dataset.omnizarr.to(path, zarr_format=2)


def from_xarray_and_dask(path: Path) -> None:
    source(path.with_name("source.zarr"))
    dataset = xr.open_dataset(path.with_name("source.zarr"), engine="omnizarr", chunks={})
    dataset.omnizarr.to(path, zarr_format=2)


def from_dask(path: Path) -> None:
    group = oz.create_group(path, zarr_format=2)
    oz.from_dask(dask.array.from_array(DATA, chunks=(5, 6)), group, name="default")


def image(path: Path, version: str = "0.4") -> None:
    made = oz.ome.write(
        path, DATA.astype("u2"), axes="yx", levels=2, version=version, chunks=(4, 5)
    )
    oz.ome.write_labels(path, "cells", DATA.astype("u1") % 3)
    assert made.version == version


def migrated(path: Path) -> None:
    image(path.with_name("source.zarr"), "0.5")
    oz.convert(path.with_name("source.zarr"), path, zarr_format=2)


def migrated_in_place(path: Path) -> None:
    oz.ome.write(path, DATA, axes="yx", version="0.5", compressors=[ZSTD], chunks=(4, 5),
                 chunk_key_encoding={"name": "v2", "separator": "/"})  # fmt: skip
    oz.convert(path, zarr_format=2, in_place=True, remove_old=True)


def plate(path: Path) -> None:
    oz.ome.write_plate(path, {"A/1": [DATA.astype("u2")]}, version="0.4")


def saved(path: Path) -> None:
    with oz.configure(zarr_format=2):
        oz.save(path, default=DATA, doubles=DATA / 7)


def cf_dataset(path: Path) -> None:
    dataset = oz.cf.create(path, zarr_format=2)
    dataset.create_variable("t", np.arange(10.0), dimensions=["t"])


WRITERS: dict[str, Callable[[Path], object]] = {
    "convert": converted,
    "convert of version 2 with checksums": converted_again,
    "convert of shards": converted_shards,
    "xarray": from_xarray,
    "xarray with Dask": from_xarray_and_dask,
    "from_dask": from_dask,
    "ome.write": image,
    "convert of an image": migrated,
    "convert of an image in place": migrated_in_place,
    "ome.write_plate": plate,
    "geo.write": lambda path: oz.geo.write(
        path, DATA, crs="EPSG:32633", bounds=(0, 0, 6, 10), levels=2, zarr_format=2
    ),
    "cf.create": cf_dataset,
    "create_array": lambda path: oz.create_array(path, data=DATA, zarr_format=2, order="F"),
    "save": saved,
}


def arrays(path: Path) -> Iterator[tuple[str, oz.Array]]:
    found = oz.open(path)
    if isinstance(found, oz.Array):
        yield "", found
        return
    for name, member in found.members(None):
        if isinstance(member, oz.Array):
            yield name, member


@pytest.mark.parametrize("writer", WRITERS)
def test_old_readers_read_the_output_of_every_writer(
    tmp_path: Path, zarr_python_2: ZarrPython2, zarrita: Zarrita, gdal: Gdal, writer: str
) -> None:
    """B1: the last compressor is in `compressor`, without a checksum."""
    path = tmp_path / "made.zarr"
    WRITERS[writer](path)
    expected = {name: array[...] for name, array in arrays(path)}
    assert expected
    for name in expected:
        document = json.loads((path / name / ".zarray").read_text())
        assert document["zarr_format"] == 2
        assert document["filters"] is None
    plain = {name for name, values in expected.items() if values.dtype.kind != "U"}
    old = zarr_python_2.read(path)
    new = zarrita.read(path, *sorted(plain))
    rasters = gdal.read(path, *(name for name in plain if expected[name].ndim == 2))
    for name, values in rasters.items():
        np.testing.assert_array_equal(values, expected[name])
    for name, values in expected.items():
        np.testing.assert_array_equal(old[name], values)
        if name in plain:
            np.testing.assert_array_equal(new[name], values)
            np.testing.assert_array_equal(read_by_tensorstore(path, name, 2), values)


# Version 3 with our default codecs (B5)

WITH_CRC32C = "3.13"  # the first GDAL that may know it


def from_draft(path: Path) -> None:
    """Convert an array; big-endian structures and shards are encoded again."""
    old = oz.create_group(path.with_name("old.zarr"), zarr_format="3-draft")
    old.create_array("a", data=DATA, chunks=(5, 3), shards=(10, 6))
    oz.convert(path.with_name("old.zarr"), path, zarr_format=3)


NEW_WRITERS: dict[str, Callable[[Path], object]] = {
    "create_array": lambda path: oz.create_group(path).create_array("a", data=DATA),
    "xarray": lambda path: oz.xarray.write(xr.Dataset({"a": (("y", "x"), DATA)}), path),
    "ome.write": lambda path: oz.ome.write(path, DATA, axes="yx"),
    "convert": from_draft,
}


@pytest.mark.parametrize("choice", ["fast", "portable"])
@pytest.mark.parametrize("writer", NEW_WRITERS)
def test_other_libraries_read_the_default_codecs(
    tmp_path: Path, gdal: Gdal, zarrita: Zarrita, writer: str, choice: str
) -> None:
    """B5: all of them, except GDAL up to 3.12, which has no crc32c."""
    path = tmp_path / "made.zarr"
    with oz.configure(codecs=choice):
        NEW_WRITERS[writer](path)
    [(name, array)] = [(n, m) for n, m in oz.open(path).members() if isinstance(m, oz.Array)]
    names = [codec.name for codec in array.metadata.codecs]
    assert names == {"fast": ["bytes", "blosc", "crc32c"], "portable": ["bytes", "zstd"]}[choice]
    np.testing.assert_array_equal(zarr.open_array(path / name, mode="r")[...], DATA)
    np.testing.assert_array_equal(zarrita.read(path, name)[name], DATA)
    np.testing.assert_array_equal(read_by_tensorstore(path, name, 3), DATA)
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
