"""Stored arrays as variables of xarray, read when they are used.

xarray unpacks what was read at once, with several copies of all of it on the way. Here a box is cut
into parts of whole chunks, and each is unpacked, by the same arithmetic, where it belongs in the
result. Other selections than boxes are left to xarray.
Axes without names are called after the variable, ``<variable>_dim_<number>``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from omnizarr.codecs.specify import pipeline
from omnizarr.concurrency.pool import for_each
from omnizarr.conventions.cf.packing import decode_fill
from omnizarr.conventions.cf.variable import is_scalar
from omnizarr.engine.kernel import empty
from omnizarr.errors import CannotExpress, InvalidMetadata, MissingModule
from omnizarr.formats.codec_names import split_compressor, to_ids, to_names
from omnizarr.formats.format import ARRAY_DIMENSIONS
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.open import open as open_node
from omnizarr.hierarchy.view import View
from omnizarr.model import Named
from omnizarr.model.node import ARRAY_TO_BYTES
from omnizarr.ops.partition import Box, parts, read_axes
from omnizarr.stores import has_cheap_requests

PART = 2**20  # numbers that are unpacked at a time


def unpack_in_place(dataset: xr.Dataset, arrays: Mapping[str, Array]) -> None:
    """Have the packed numbers of a dataset that was not read yet unpacked part by part."""
    for name, var in dataset.variables.items():
        array = arrays.get(str(name))
        if array is not None and _is_packed(var, array):
            var.data = indexing.LazilyIndexedArray(Packed(var, array))


def _is_packed(var: xr.Variable, array: Array) -> bool:
    """Whether the numbers of a variable are made of the stored ones by what `Packed` knows."""
    plain = var.dtype.kind == "f" and array.dtype.kind in "iuf" and var.shape == array.shape != ()
    scaled = any(var.encoding.get(key) is not None for key in ("scale_factor", "add_offset"))
    late = isinstance(var._data, indexing.ExplicitlyIndexed)
    known = late and "_Unsigned" not in var.encoding
    return plain and known and (scaled or bool(_marks(var.encoding)))


def _marks(encoding: Mapping[Any, Any]) -> set[Any]:
    """The stored numbers that stand for missing ones."""
    stated = (encoding.get(key) for key in ("_FillValue", "missing_value"))
    found = {mark for some in stated if some is not None for mark in np.ravel(some)}
    return {mark for mark in found if not np.isnan(mark)}


class Packed(BackendArray):
    """Stored numbers, unpacked as they are read."""

    def __init__(self, decoded: xr.Variable, array: Array) -> None:
        self._decoded, self._array = decoded._data, array
        self.shape, self.dtype = decoded.shape, decoded.dtype
        self._marks = _marks(decoded.encoding)
        self._scale = _number(decoded.encoding.get("scale_factor"))
        self._offset = _number(decoded.encoding.get("add_offset"))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        box = _box(key, self.shape)
        if box is None:
            return indexing.apply_indexer(self._decoded, key).get_duck_array()
        out, errors = empty(tuple(s.stop - s.start for s in box), self.dtype), np.geterr()
        split = has_cheap_requests(self._array.store) and out.size > PART
        boxes = parts(read_axes(self._array), box, PART) if split else [box]

        def one(part: Box) -> None:
            shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
            inside = out[tuple(slice(p.start - start, p.stop - start) for p, start in shifted)]
            with np.errstate(**errors):  # of the calling thread, for those that help
                self._unpack(self._array[part], inside)

        for_each(iter(boxes), len(boxes), one, out.nbytes)
        return out[tuple(slice(None) if isinstance(k, slice) else 0 for k in key.tuple)]

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in another thread, for ``load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _unpack(self, stored: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        np.copyto(out, stored, casting="unsafe")
        for mark in self._marks:
            out[out == mark] = np.nan
        if self._scale is not None:
            out *= self._scale
        if self._offset is not None:
            out += self._offset


def _number(stated: Any) -> Any:
    """A factor or offset; some files have lists of one."""
    return np.asarray(stated).item() if np.ndim(stated) else stated


def _box(key: indexing.ExplicitIndexer, shape: tuple[int, ...]) -> Box | None:
    """What a key of numbers and slices without steps selects; None for others."""
    sides = []
    for index, length in zip(key.tuple, shape, strict=True):
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                return None
            sides.append(slice(start, max(start, stop)))
        elif isinstance(index, int | np.integer):
            at = int(index) % length
            sides.append(slice(at, at + 1))
        else:
            return None
    return tuple(sides)


try:
    import xarray as xr
    from xarray.backends import AbstractDataStore, BackendArray
    from xarray.core import indexing
except ImportError as e:
    raise MissingModule("datasets need xarray: pip install 'omnizarr[xarray]'") from e

_HIDDEN = re.compile(rf"{ARRAY_DIMENSIONS}\Z|_nc", re.IGNORECASE)
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


# How objects become bytes.
_OF_OBJECTS = ARRAY_TO_BYTES - {"pcodec", "zfpy"}


def codec_encoding(array: Array) -> dict[str, Any]:
    """The options of `create_array` for an array with the same codecs."""
    model, format = array._model, array._location.format
    if not format.codecs_by_id:
        with suppress(CannotExpress):
            model = model.with_(codecs=to_names(model))
        groups = pipeline(model)
        return {
            "filters": tuple(map(_json, groups.filters)),
            "serializer": _serializer(groups.serializer, array.dtype),
            "compressors": tuple(map(_json, groups.compressors)),
        }
    order, steps, _ = to_ids(model, format.name)
    plain = [s for s in steps if s["id"] not in _OF_OBJECTS]
    filters, compressor = split_compressor(plain)
    found: dict[str, Any] = {"compressors": () if compressor is None else (_object(compressor),)}
    if filters or plain == steps:  # where they are not told, writers choose the one of objects
        found["filters"] = tuple(map(_object, filters or ()))
    if order == "F":
        found["order"] = order
    return found


def _serializer(codec: Named | None, dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """Return how elements become bytes, with the byte order, which the draft has in the type."""
    if codec is None:
        return None
    found = _json(codec)
    if codec.name == "bytes" and "endian" not in codec.configuration and _has_order(dtype):
        little = dtype.newbyteorder("<") == dtype
        found["configuration"]["endian"] = "little" if little else "big"
    return found


def _has_order(dtype: np.dtype[Any]) -> bool:
    """Return True where elements have bytes that could be in another order."""
    return dtype.newbyteorder("S") != dtype


def _json(codec: Named) -> dict[str, Any]:
    return {"name": codec.name, "configuration": dict(codec.configuration)}


def _object(configuration: dict[str, Any]) -> Any:
    """The codec of numcodecs, or its configuration where it is not known here."""
    try:
        return numcodecs.get_codec(configuration)
    except (ValueError, TypeError):
        return configuration
