"""A pytest plugin with which xarray's own tests read and write Zarr with omnizarr's engine.

It is copied next to the suites, as the recorder is. zarr-python stays what it is: the tests look
with it at what was written.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import xarray as xr
import zarr
from xarray import backends
from xarray.backends import api

import omnizarr
from omnizarr.xarray import write

READERS = (
    *("open_dataset", "open_dataarray", "open_datatree", "open_groups", "open_mfdataset"),
    *("load_dataset", "load_dataarray", "load_datatree"),
)
# Options of xarray's engine that ours does without: it needs no promise about blocks of Dask, and
# opens files for reading only.
OMITTED = {"safe_chunks", "align_chunks", "chunkmanager_store_kwargs", "mode", "cache_members"}


def with_our_engine(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if options.get("engine") == "zarr":
            options = {k: v for k, v in options.items() if k not in OMITTED}
            options["engine"] = "omnizarr"
        return function(*args, **options)

    return call


def writer(names: list[str]) -> Callable[..., Any]:
    """Return a method that takes the options of `to_zarr`, which have these names."""

    def to_zarr(self: Any, *args: Any, **options: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **options}
        store = given.pop("store", None)
        kept = {k: v for k, v in given.items() if k == "mode" or k not in OMITTED}
        with omnizarr.configure(zarr_format=zarr.config.get("default_zarr_format")):
            return write(self, {} if store is None else store, **kept)

    return to_zarr


def install() -> None:
    """Put our engine in the place of xarray's own."""
    for name in READERS:
        ours = with_our_engine(getattr(api, name))
        for module in (api, backends, xr):
            if hasattr(module, name):
                setattr(module, name, ours)
    for cls in (xr.Dataset, xr.DataArray, xr.DataTree):
        names = list(inspect.signature(cls.to_zarr).parameters)[1:]
        setattr(cls, "to_zarr", writer(names))  # noqa: B010


install()
