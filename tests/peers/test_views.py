"""Other libraries read any stored format through a view in version 2 or 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorstore
import xarray as xr

import omnizarr as oz
from omnizarr.interop.zarr.zarr_python import OmnizarrStore
from omnizarr.stores import list_prefix
from tests.bulk.view_as.cases import PAIRS, SOURCES, expected
from tests.peers.environments import Gdal, Zarrita, ZarrPython2
from tests.sampling import sample

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


@pytest.mark.parametrize(("source", "target"), sample(PAIRS, 14))
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
