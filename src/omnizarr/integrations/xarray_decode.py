"""Packed numbers unpacked in place, part by part and on several threads, as they are read.

xarray unpacks what was read at once, with several copies of all of it on the way. Here a box is cut
into parts of whole chunks, and each is unpacked, by the same arithmetic, where it belongs in the
result. Other selections than boxes are left to xarray.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from omnizarr.engine.kernel import empty
from omnizarr.engine.rows import run_rows
from omnizarr.hierarchy.array import Array
from omnizarr.integrations.parts import Box, is_near, parts, read_axes

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
        near = is_near(self._array) and out.size > PART
        boxes = parts(read_axes(self._array), box, PART) if near else [box]

        def one(part: Box) -> None:
            shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
            inside = out[tuple(slice(p.start - start, p.stop - start) for p, start in shifted)]
            with np.errstate(**errors):  # of the calling thread, for those that help
                self._unpack(self._array[part], inside)

        run_rows(iter(boxes), len(boxes), one, out.nbytes)
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
