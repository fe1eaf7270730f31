"""Stored arrays as variables of xarray, read when they are used.

Axes without names are called after the variable, ``<variable>_dim_<number>``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnizarr.conventions.cf.fill import decode_fill
from omnizarr.conventions.cf.variable import is_scalar
from omnizarr.errors import InvalidMetadata, MissingModule
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import open as open_node
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.view import View
from omnizarr.integrations.xarray_codecs import codec_encoding

try:
    import xarray as xr
    from xarray.backends import AbstractDataStore, BackendArray
    from xarray.core import indexing
except ImportError as e:
    raise MissingModule("datasets need xarray: pip install 'omnizarr[xarray]'") from e

_HIDDEN = re.compile(r"_ARRAY_DIMENSIONS\Z|_nc", re.IGNORECASE)
TEXT = np.dtype("O", metadata={"element_type": str})  # what xarray calls text of any length


def open_stored(
    place: Any,
    group: str | None,
    consolidated: bool | None,
    storage_options: Mapping[str, Any] | None,
    zarr_format: int | str | None,
) -> Array | Group:
    """The group or array to read, by its consolidated metadata as far as asked for."""
    where = os.path.expanduser(place) if isinstance(place, str) else place
    root: Any = None
    options: Any = {"storage_options": storage_options, "zarr_format": zarr_format}
    if consolidated is not False:
        try:
            root = open_node(where, "r", use_consolidated=True, **options)
        except InvalidMetadata:
            if consolidated:
                raise
    if root is None or (isinstance(root, Array) and group):
        plain: Array | Group = open_node(where, "r", path=group, use_consolidated=False, **options)
        return plain
    found: Array | Group = root[group.strip("/")] if group and group.strip("/") else root
    return found


def name_of(array: Array) -> str:
    """The name of a variable for an array that is opened on its own."""
    last = array.basename or re.split(r"[\\/]", str(array.store).rstrip("/"))[-1]
    return re.sub(r"(\.zarr)?(\.zip)?\Z", "", last) or "array"


@dataclass(eq=False)
class Stored(AbstractDataStore):
    """Arrays and attributes as xarray asks for them."""

    arrays: dict[str, Array]
    attributes: dict[str, Any]
    fill_masks: bool | None = None

    def get_variables(self) -> dict[str, xr.Variable]:
        return {name: variable(name, a, self.fill_masks) for name, a in self.arrays.items()}

    def get_attrs(self) -> dict[str, Any]:
        return {k: v for k, v in self.attributes.items() if not _HIDDEN.match(k)}

    def get_dimensions(self) -> dict[str, int]:
        pairs = ((dimensions(n, a), a.shape) for n, a in self.arrays.items())
        return {d: n for dims, shape in pairs if dims for d, n in zip(dims, shape, strict=True)}

    def close(self) -> None:
        """Nothing is held open that needs closing."""


def variable(name: str, array: Array, fill_masks: bool | None = None) -> xr.Variable:
    """An array as a variable that is not decoded yet, and is read when it is used."""
    dims = dimensions(name, array)
    attributes = {k: v for k, v in array.attrs.asdict().items() if not _HIDDEN.match(k)}
    scalar = array.ndim != len(dims)
    blocks = () if scalar else array.shards or array.chunks
    encoding = {
        "chunks": () if scalar else array.chunks,
        "preferred_chunks": dict(zip(dims, blocks, strict=True)),
        "shards": array.shards,
        **codec_encoding(array),
    }
    by_format = fill_is_mask(array)
    if not by_format:
        encoding["fill_value"] = array.fill_value
    if by_format if fill_masks is None else fill_masks:
        if array.fill_value is not None:
            attributes["_FillValue"] = array.fill_value
    elif "_FillValue" in attributes:
        attributes["_FillValue"] = decode_fill(attributes["_FillValue"], array.dtype)
    source = array.view[0] if scalar else array
    return xr.Variable(dims, indexing.LazilyIndexedArray(Lazy(source)), attributes, encoding)


def fill_is_mask(node: Array | Group) -> bool:
    """Whether the fill value marks missing values, as xarray has it where it may be undefined.

    In other formats every array has one, so that it says nothing; an attribute does.
    """
    return node._location.format.undefined_fill


def dimensions(name: str, array: Array) -> tuple[str, ...]:
    """The names of the axes; one for each that has none."""
    if is_scalar(array):
        return ()
    stated = array.dimension_names or (None,) * array.ndim
    return tuple(d or f"{name}_dim_{i}" for i, d in enumerate(stated))


class Lazy(BackendArray):
    """An array that xarray reads from by its three kinds of indices."""

    def __init__(self, array: Array | View) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = TEXT if array.dtype.kind == "T" else array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        by_points = isinstance(key, indexing.VectorizedIndexer)
        by_axis = isinstance(key, indexing.OuterIndexer)
        way: Any = self._array
        way = way.vindex if by_points else way.oindex if by_axis else way

        def read(selection: Any) -> Any:
            values = np.asarray(way[selection])
            return values.astype(object) if values.dtype.kind == "T" else values

        support = indexing.IndexingSupport.VECTORIZED
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in another thread, for ``load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)
