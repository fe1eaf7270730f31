"""Reading and writing by selection: square brackets, and the other ways to select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnizarr import engine
from omnizarr.chunk_grids import Grid
from omnizarr.engine import BoundArray
from omnizarr.errors import SelectionError
from omnizarr.indexing import Plan

Planner = Callable[[Grid, Any], Plan]


def read(
    array: BoundArray, planner: Planner, selection: Any, out: npt.NDArray[Any] | None = None
) -> Any:
    """The selected elements as a NumPy array, or a scalar where every index is a number."""
    fields, selection = split_fields(selection, array.dtype)
    chosen = planner(array.grid, selection)
    if out is not None:
        return _read_into(array, chosen, fields, out)
    full = engine.empty(chosen.full_shape, array.dtype)
    engine.read(array, chosen, full)
    index: Any = (*chosen.final, ...)
    result = full[index].reshape(chosen.shape)[()]  # an element, where there are no axes left
    return result if fields is None else result[fields]


def _read_into(
    array: BoundArray, chosen: Plan, fields: Any, out: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    if fields is not None or out.dtype != array.dtype or out.shape != chosen.shape:
        raise SelectionError(
            f"out must have shape {chosen.shape} and type {array.dtype},"
            f" got {out.shape} {out.dtype}"
        )
    full = chosen.to_full(out)
    if not np.shares_memory(full, out) and out.size:
        raise SelectionError("out must be contiguous for a selection of points")
    engine.read(array, chosen, full)
    return out


def write(array: BoundArray, planner: Planner, selection: Any, value: Any) -> None:
    """Store values, broadcast to the shape of the selection."""
    fields, selection = split_fields(selection, array.dtype)
    chosen = planner(array.grid, selection)
    if fields is not None:
        changed = np.array(read(array, planner, selection))
        changed[fields] = value
        value = changed
    engine.write(array, chosen, spread(value, array.dtype, chosen))


def spread(value: Any, dtype: np.dtype[Any], chosen: Plan) -> npt.NDArray[Any]:
    """What a user assigns, broadcast to the selection, in the plan's full shape."""
    data = as_values(value, dtype)
    try:
        return chosen.to_full(np.broadcast_to(data, chosen.shape))
    except ValueError:
        raise SelectionError(
            f"cannot put values of shape {data.shape} into a selection of shape {chosen.shape}"
        ) from None


def as_values(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What a user assigns, as an array of the stored type."""
    if isinstance(value, np.ndarray) or not np.isscalar(value):
        array = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, dtype)
        # NumPy would otherwise turn months into days by their average length.
        durations = array.dtype.kind == dtype.kind == "m"
        casting: Literal["same_kind", "unsafe"] = "same_kind" if durations else "unsafe"
        return array.astype(dtype, casting=casting, copy=False)
    return np.asarray(value, dtype)


def split_fields(selection: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Names of fields in a selection (None: no names), and what is left of it."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    names = [i for i in items if isinstance(i, str)]
    lists = [i for i in items if isinstance(i, list) and i and all(isinstance(n, str) for n in i)]
    if not names and not lists:
        return None, selection
    rest = tuple(i for i in items if not isinstance(i, str) and i not in lists)
    if len(lists) + bool(names) > 1:
        raise SelectionError("give the names of fields once")
    chosen = lists[0] if lists else names[0] if len(names) == 1 else names
    unknown = {*names, *(n for some in lists for n in some)} - set(dtype.names or ())
    if unknown:
        raise SelectionError(
            f"there is no field {sorted(unknown)[0]!r};"
            f" fields: {', '.join(dtype.names or ['none'])}"
        )
    return chosen, rest if rest else ...


class Selector:
    """Another way to select: ``array.oindex``, ``array.vindex``, ``array.blocks``."""

    def __init__(
        self, bound: Callable[[], BoundArray], check: Callable[[], None], planner: Planner
    ) -> None:
        self._bound = bound
        self._check = check
        self._planner = planner

    def __getitem__(self, selection: Any) -> Any:
        return read(self._bound(), self._planner, selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self._check()
        write(self._bound(), self._planner, selection, value)
