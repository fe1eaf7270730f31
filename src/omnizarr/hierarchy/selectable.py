"""Everything an array does by selection: brackets, other ways to select, zarr-python's methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.config import configure
from omnizarr.engine import BoundArray, Missing
from omnizarr.hierarchy import access
from omnizarr.hierarchy.array_config import ArrayConfig
from omnizarr.hierarchy.astype import Converted
from omnizarr.hierarchy.lazy import Shaped
from omnizarr.indexing import axis_plan, block_plan, mask_plan, plan, point_plan


class Selectable(Shaped):
    """An array that is read and written by selection.

    In the methods that zarr-python has too, `out` is an array to fill, `fields` names fields of
    a structured type, and `prototype` is not used: results are NumPy arrays.
    """

    _bound: BoundArray
    _config: ArrayConfig

    @property
    def _data(self) -> BoundArray:
        """What reads and writes go through."""
        raise NotImplementedError

    @property
    def _target(self) -> BoundArray:
        """What assignments go through."""
        return self._data

    def _check_writable(self) -> None:
        raise NotImplementedError

    def _configured(self) -> AbstractContextManager[object]:
        """The settings to write with."""
        keep = self._config.write_empty_chunks
        return nullcontext() if keep is None else configure(write_empty_chunks=keep)

    @property
    def _missing(self) -> Missing:
        """What reads do about chunks that the store does not have."""
        raise NotImplementedError

    def _read(
        self,
        planner: access.Planner,
        selection: Any,
        out: Any = None,
        missing: Missing | None = None,
        filled: list[tuple[int, ...]] | None = None,
    ) -> Any:
        chosen = self._missing if missing is None else missing
        values = access.read(self._data, planner, selection, out, chosen, filled)
        return values if self._config.order == "C" or out is not None else _as_fortran(values)

    def _write(self, planner: access.Planner, selection: Any, value: Any) -> None:
        self._check_writable()
        with self._configured():
            access.write(self._target, planner, selection, value)

    def __getitem__(self, selection: Any) -> Any:
        return self._read(plan, selection)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._bound.dtype.names or ())

    def read(
        self,
        selection: Any = ...,
        *,
        out: npt.NDArray[Any] | None = None,
        missing: Missing | None = None,
        filled: list[tuple[int, ...]] | None = None,
    ) -> Any:
        """The selected elements as a NumPy array, or a scalar where every index is a number.

        `out` is filled instead of a new array where it is given. `missing` says what to do about
        chunks that the store does not have: ``fill`` reads the fill value, ``warn`` also warns,
        ``raise`` raises `MissingChunk`; without it the array does as it was opened. The places of
        chunks that were filled are added to the list `filled`.
        """
        return self._read(plan, selection, out, missing, filled)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self._write(plan, selection, value)

    @property
    def oindex(self) -> access.Selector:
        """Selects with a list, mask, slice or integer for each axis on its own."""
        return access.Selector(self, axis_plan, "oindex")

    @property
    def vindex(self) -> access.Selector:
        """Selects single points by lists of positions, or by a mask of the whole shape."""
        return access.Selector(self, point_plan, "vindex")

    @property
    def blocks(self) -> access.Selector:
        """Selects whole chunks, of a sharded array whole shards, by their place in the grid."""
        return access.Selector(self, block_plan, "blocks")

    def get_basic_selection(
        self, selection: Any = ..., *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Elements by integers and slices."""
        return self._read(access.basic_plan, access.with_fields(selection, fields), out)

    def set_basic_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Store values by integers and slices."""
        self._write(access.basic_plan, access.with_fields(selection, fields), value)

    def get_orthogonal_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Elements by a list, mask, slice or integer for each axis on its own."""
        return self._read(axis_plan, access.with_fields(selection, fields), out)

    def set_orthogonal_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Store values by a list, mask, slice or integer for each axis on its own."""
        self._write(axis_plan, access.with_fields(selection, fields), value)

    def get_coordinate_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Single elements by lists of positions, one for each axis."""
        return self._read(point_plan, access.with_fields(selection, fields), out)

    def set_coordinate_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Store single elements by lists of positions, one for each axis."""
        self._write(point_plan, access.with_fields(selection, fields), value)

    def get_mask_selection(
        self, mask: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """The elements where a mask of the whole shape is true."""
        return self._read(mask_plan, access.with_fields(mask, fields), out)

    def set_mask_selection(
        self, mask: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Store values where a mask of the whole shape is true."""
        self._write(mask_plan, access.with_fields(mask, fields), value)

    def get_block_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Whole chunks by their place in the grid."""
        return self._read(block_plan, access.with_fields(selection, fields), out)

    def set_block_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Store values in whole chunks by their place in the grid."""
        self._write(block_plan, access.with_fields(selection, fields), value)

    def astype(self, dtype: npt.DTypeLike) -> Converted:
        """A view to read from whose elements come as another type."""
        return Converted(self, np.dtype(dtype))

    def _values(self) -> npt.NDArray[Any]:
        return np.asarray(self.read())

    def __dlpack__(self, **options: Any) -> Any:
        options.pop("copy", None)  # it is one already
        return self._values().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the memory of the processor

    def __buffer__(self, flags: int) -> memoryview:
        return self._values().data

    def __iter__(self) -> Iterator[Any]:
        """The elements along the first axis; each chunk along it is read once."""
        axis, length = self._bound.grid.axes[0] if len(self) else None, len(self)
        number = 0
        while axis is not None and number < axis.count and axis.start(number) < length:
            start = int(axis.start(number))
            yield from self[start : min(start + int(axis.size(number)), length)]
            number += 1


def _as_fortran(values: Any) -> Any:
    return np.asfortranarray(values) if isinstance(values, np.ndarray) else values
