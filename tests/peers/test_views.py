"""Other libraries read any stored format through a view in version 2 or 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorstore
import xarray as xr
import zarr

import omnizarr as oz
from omnizarr.interop.zarr.zarr_python import OmnizarrStore
from omnizarr.stores import list_prefix
from tests.bulk.view_as.cases import PAIRS, SOURCES, VALUES, expected, make
from tests.peers.environments import Gdal, Zarrita, ZarrPython2

TARGETS = (2, 3)


def written(store: Any, path: Path) -> Path:
    """Write every value of a store to a directory, for libraries that read only files."""
    for key in list_prefix(store, ""):
        file = path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(store.get(key))
    return path


def read_by_tensorstore(root: Path | str, name: str, target: int) -> npt.NDArray[Any] | str:
    driver = "zarr" if target == 2 else "zarr3"
    place = "/".join([str(root), *([name] if name else []), ""])
    remote = {"driver": "http", "base_url": place}
    kvstore = {"driver": "file", "path": place} if isinstance(root, Path) else remote
    try:
        spec = {"driver": driver, "kvstore": kvstore}
        found: npt.NDArray[Any] = tensorstore.open(spec, read=True).result().read().result()
    except ValueError as e:
        return str(e)
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_others_read_a_view(
    tmp_path: Path,
    zarr_python_2: ZarrPython2,
    zarrita: Zarrita,
    gdal: Gdal,
    source: str,
    target: int,
) -> None:
    stored = SOURCES[source]()
    name = "" if source == "1" else "group/a"

    def read(path: Path | str) -> dict[str, Any]:
        return {
            "tensorstore": read_by_tensorstore(path, name, target),
            "zarrita": zarrita.read(path, *([name] if name else []))[name],
            "gdal": gdal.read(path, name)[name],
        }

    path = written(oz.view_as(stored, target), tmp_path / "view.zarr")
    found = read(path)
    if target == 2:
        found["zarr-python 2"] = zarr_python_2.read(path)[name]
    with oz.serving(stored) as url:
        found |= {f"{who}, served": value for who, value in read(f"{url}v{target}").items()}
    as_it_is: dict[str, Any] = {}
    if source.partition(",")[0] == str(target):  # then the view shows what is stored as it is
        path = written(stored, tmp_path / "stored.zarr")
        as_it_is = {**read(path)}
        if target == 2:
            as_it_is["zarr-python 2"] = zarr_python_2.read(path)[name]
    for reader, values in found.items():
        own = reader.removesuffix(", served")
        if isinstance(as_it_is.get(own), str):
            continue
        if own == "gdal" and str(values).endswith("Unsupported codec: crc32c"):
            continue  # it is part of version 3, but GDAL up to 3.12 does not have it
        assert not isinstance(values, str), f"{reader}: {values}"
        np.testing.assert_array_equal(values, expected(), err_msg=reader)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["2", "2, zlib", "3-draft, shards", "3", "3, shards"])
def test_xarray_opens_a_view(source: str, target: int) -> None:
    view = oz.view_as(SOURCES[source](), target)
    options: dict[str, Any] = {"group": "group", "consolidated": True, "mask_and_scale": False}
    with xr.open_zarr(OmnizarrStore(view), **options) as found:
        assert found["a"].dims == ("y", "x")
        assert found["a"].attrs["unit"] == "K"
        np.testing.assert_array_equal(found["a"], expected())
    with xr.open_dataset(view, engine="omnizarr", group="group", mask_and_scale=False) as found:
        np.testing.assert_array_equal(found["a"], expected())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["u1", "<i2", "<f8", "bool", "<M8[s]", "<U5", "S3"])
def test_what_zarr_python_writes_is_read_by_it_through_a_view(
    tmp_path: Path, dtype: str, zarr_format: Any, target: int
) -> None:
    values = VALUES.astype("i8").astype(dtype)
    root = zarr.open_group(tmp_path / "theirs.zarr", mode="w", zarr_format=zarr_format)
    array = root.create_array("a", shape=values.shape, chunks=(4, 3), dtype=values.dtype)
    array[...] = values
    array.attrs["x"] = [1, 2]
    view = oz.view_as(tmp_path / "theirs.zarr", target)
    np.testing.assert_array_equal(oz.open(view, path="a")[...], values)
    group: Any = zarr.open_consolidated(OmnizarrStore(view), mode="r")
    np.testing.assert_array_equal(group["a"][...], values)
    assert dict(group["a"].attrs) == {"x": [1, 2]}


def test_a_large_shard_is_seen_as_many_small_chunks_by_a_reader_of_version_2(
    tmp_path: Path, zarr_python_2: ZarrPython2
) -> None:
    values = np.arange(200 * 300, dtype="<u2").reshape(200, 300)
    store = make(3, values, chunks=(10, 20), shards=(100, 300), compressors=None)()
    path = written(oz.view_as(store, 2), tmp_path / "view.zarr")
    shown = values.copy()
    shown[:, 6:] = 0
    np.testing.assert_array_equal(zarr_python_2.read(path)["group/a"], shown)
    # All chunks and two documents: missing chunks are made, as there is no fill value.
    assert len([f for f in (path / "group" / "a").rglob("*") if f.is_file()]) == 20 * 15 + 2
