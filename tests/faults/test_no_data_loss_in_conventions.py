"""No function of the conventions removes data unless its name or an argument says so."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
from omnizarr import aio, cf, geo, ome
from omnizarr import xarray as oz_xarray
from tests.faults.test_no_data_loss import DATA, OTHER
from tests.files import files

DATASET = xr.Dataset({"a": (("y", "x"), OTHER)})
Call = Callable[[Path], Any]


def populate(where: Path) -> None:
    """Write an image with labels, a plate, a dataset and a map, with an additional array."""
    root = oz.create_group(where)
    ome.write(where, DATA, path="image", axes="yx")
    ome.write(where / "old", DATA, axes="yx", version="0.4")
    ome.write_labels(where, "cells", DATA, path="image")
    ome.write_plate(where, {"A/1": [DATA]}, path="plate", axes="yx")
    oz_xarray.write(xr.Dataset({"a": (("y", "x"), DATA)}), where, group="dataset")
    geo.write(where, DATA.astype("f4"), path="map", crs=4326, transform=(1, 0, 0, 0, -1, 0))
    root.create_array("image/added", data=DATA)


def run(work: Any) -> Any:
    """Run an awaitable and return its result."""
    import asyncio

    async def main() -> Any:
        return await work

    return asyncio.run(main())


CALLS: dict[ModuleType, dict[str, list[Call]]] = {
    ome: {
        "write": [
            lambda at: ome.write(at, OTHER, axes="yx"),
            lambda at: ome.write(at, OTHER, path="image", axes="yx"),
            lambda at: ome.write(at, OTHER, path="image/0", axes="yx"),
            lambda at: ome.write(at, OTHER, path="image", axes="yx", version="0.4"),
            lambda at: ome.write(at, OTHER, path="plate", axes="yx"),
        ],
        "write_labels": [
            lambda at: ome.write_labels(at, "cells", DATA, path="image"),
            lambda at: ome.write_labels(at, "more", DATA, path="image"),
        ],
        "write_plate": [
            lambda at: ome.write_plate(at, {"A/1": [OTHER]}, path="plate", axes="yx"),
            lambda at: ome.write_plate(at, {"A/1": [OTHER]}, path="image", axes="yx"),
        ],
        "open": [lambda at: ome.open(at / "image", "r+")],
        "validate": [lambda at: ome.validate(at / "image")],
    },
    cf: {
        "create": [
            lambda at: cf.create(at),
            lambda at: cf.create(at, path="dataset"),
            lambda at: cf.create(at, path="dataset/a"),
            lambda at: cf.create(at, path="dataset", zarr_format=2),
        ],
        "open": [lambda at: cf.open(at, "r+", path="dataset")],
        "decode": [],  # of arrays in memory
    },
    geo: {
        "write": [
            lambda at: geo.write(at, OTHER, path="map", crs=4326, transform=(1, 0, 0, 0, -1, 0)),
            lambda at: geo.write(at, OTHER, path="dataset", crs=4326, bounds=(0, 0, 1, 1)),
        ],
        "write_crs": [
            lambda at: geo.write_crs(oz.open(at, "r+", path="dataset/a"), 4326),
            lambda at: geo.write_crs(oz.open(at, "r+", path="dataset/a"), 4326, name="y"),
            lambda at: geo.write_crs(oz.open(at, "r+", path="image/added"), 4326, name="0"),
        ],
        "open": [lambda at: geo.open(at, "r+", path="map")],
        "read_crs": [lambda at: geo.read_crs(oz.open(at, path="dataset/a"))],
        "read_transform": [lambda at: geo.read_transform(oz.open(at, path="dataset/a"))],
    },
    oz_xarray: {
        "write": [  # modes "w", "a" and "r+" say that they write over what is there
            lambda at: oz_xarray.write(DATASET, at),
            lambda at: oz_xarray.write(DATASET, at, group="dataset"),
            lambda at: oz_xarray.write(DATASET, at, group="image"),
            lambda at: oz_xarray.write(DATASET, at, group="dataset/a"),
            lambda at: oz_xarray.write(DATASET, at, group="dataset", append_dim="y"),
            lambda at: oz_xarray.write(DATASET, at, group="dataset", compute=False),
        ],
    },
    aio: {
        "create_array": [lambda at: run(aio.create_array(at, path="dataset/a", data=OTHER))],
        "create_group": [lambda at: run(aio.create_group(at, path="dataset"))],
        "open": [
            lambda at: run(aio.open(at, "a")),
            lambda at: run(aio.open(at, "a", path="dataset/a", shape=3)),
            lambda at: run(aio.open(at, "a", path="dataset")),
        ],
        "run": [],  # whatever it is given
    },
}
CASES = [
    pytest.param(call, id=f"{module.__name__.split('.')[-1]}-{name}-{number}")
    for module, table in CALLS.items()
    for name, calls in table.items()
    for number, call in enumerate(calls)
]


@pytest.mark.parametrize("module", CALLS, ids=lambda m: m.__name__)
def test_every_public_function_is_listed(module: ModuleType) -> None:
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    functions = {n for n in names if inspect.isfunction(getattr(module, n))}
    assert functions == CALLS[module].keys()


@pytest.mark.filterwarnings("ignore:.*metadata of zarr 3 and zarr 2")  # undo needs the old ones
@pytest.mark.parametrize("call", CASES)
def test_no_call_removes_or_changes_a_chunk(call: Call, tmp_path: Path) -> None:
    where = tmp_path / "x"
    populate(where)
    before = files(where)
    with contextlib.suppress(oz.OmnizarrError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call(where)
    after = files(where)
    assert before.keys() <= after.keys()
    chunks = {k for k in before if not k.endswith(("zarr.json", ".zattrs", ".zarray", ".zgroup"))}
    assert {k for k in chunks if after[k] != before[k]} == set()
    for path in ("image/0", "image/labels/cells/0", "old/0", "image/added", "plate/A/1/0/0"):
        assert np.array_equal(oz.open(where / path)[...], DATA)
