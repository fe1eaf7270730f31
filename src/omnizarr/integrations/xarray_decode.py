"""Packed numbers decoded part by part, on several threads, as they are read.

xarray decodes what was read at once, with copies of all of it on the way. Here a large selection
is cut into parts of whole chunks, each read and decoded by xarray's own functions into its place.
From far stores all chunks are fetched with few calls, and decoded at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from omnizarr.engine.kernel import empty
from omnizarr.engine.rows import run_rows
from omnizarr.hierarchy.array import Array
from omnizarr.integrations.parts import Box, is_near, parts, read_axes

LARGE = 2**22  # bytes from which on a result is decoded part by part
PART = 2**19  # numbers that are decoded at a time
_PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value")


def decode_by_parts(dataset: xr.Dataset, arrays: Mapping[str, Array]) -> None:
    """Have the packed numbers of a dataset that was not read yet decoded part by part."""
    for name, var in dataset.variables.items():
        array = arrays.get(str(name))
        if array is not None and is_near(array) and _is_packed(var, array):
            var.data = indexing.LazilyIndexedArray(Packed(var, array))


def _is_packed(var: xr.Variable, array: Array) -> bool:
    """Whether the numbers of a variable are made one by one from those that are stored."""
    plain = var.dtype.kind in "iuf" and array.dtype.kind in "iuf" and var.shape == array.shape
    coded = any(var.encoding.get(key) is not None for key in _PACKING)
    late = isinstance(var._data, indexing.ExplicitlyIndexed)
    return plain and coded and late and not isinstance(var, xr.IndexVariable)


class Packed(BackendArray):
    """Decoded numbers of an array; a box of many is put together from parts."""

    def __init__(self, decoded: xr.Variable, array: Array) -> None:
        self._decoded, self._array = decoded._data, array
        self.shape, self.dtype = decoded.shape, decoded.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        box = _box(key, self.shape)
        shape = tuple(s.stop - s.start for s in box or ())
        if box is None or math.prod(shape) * self.dtype.itemsize < LARGE:
            return self._read(key)
        out, errors = empty(shape, self.dtype), np.geterr()
        boxes = parts(read_axes(self._array), box, PART)

        def one(part: Box) -> None:
            shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
            inside = tuple(slice(p.start - start, p.stop - start) for p, start in shifted)
            with np.errstate(**errors):  # of the calling thread, for those that help
                out[inside] = self._read(indexing.BasicIndexer(part))

        run_rows(iter(boxes), len(boxes), one, out.nbytes)
        return out[tuple(slice(None) if isinstance(k, slice) else 0 for k in key.tuple)]

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in another thread, for ``load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.apply_indexer(self._decoded, key).get_duck_array()


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
