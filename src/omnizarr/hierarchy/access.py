"""Reading and writing by selection: square brackets, and the other ways to select."""

from __future__ import annotations

import math
from collections.abc import Callable
from reprlib import repr as repr_of
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from omnizarr import engine
from omnizarr.chunk_grids import Grid
from omnizarr.engine import BoundArray, Missing
from omnizarr.errors import InvalidMetadata, SelectionError, WrongType, known_names
from omnizarr.hierarchy.foreign import to_numpy
from omnizarr.indexing import Plan, plan
from omnizarr.model import paths

Planner = Callable[[Grid, Any], Plan]


def read(
    array: BoundArray,
    planner: Planner,
    selection: Any,
    out: npt.NDArray[Any] | None = None,
    missing: Missing = "fill",
    filled: list[tuple[int, ...]] | None = None,
) -> Any:
    """The selected elements as a NumPy array, or a scalar where every index is a number."""
    chosen, fields = _planned(planner, array, selection)
    if out is not None:
        return _read_into(array, chosen, fields, out, missing, filled)
    try:
        full = engine.empty(chosen.full_shape, array.dtype)
    except MemoryError:
        size = math.prod(chosen.full_shape) * array.dtype.itemsize
        raise MemoryError(
            f"there is no memory for {size} bytes, {chosen.shape} of {array.dtype}, that were"
            f" selected of {paths.show(array.path)} in {array.store!r}; select less at a time"
        ) from None
    engine.read(array, chosen, full, missing, filled)
    result = chosen.result(full)
    return result if fields is None else result[fields]


def _planned(planner: Planner, array: BoundArray, selection: Any) -> tuple[Plan, Any]:
    """The plan, and names of fields; a stored array among the indices is read first.

    Planners know no names, so they are looked for where a plan cannot be made.
    """
    grid = array.grid
    try:
        return planner(grid, selection), None
    except SelectionError:
        fields, selection = split_fields(selection, array.dtype)
        items = selection if isinstance(selection, tuple) else (selection,)
        known = (np.ndarray, np.generic)
        stored = any(hasattr(i, "__array__") and not isinstance(i, known) for i in items)
        if fields is None and not stored:
            raise
    if stored:
        selection = tuple(np.asarray(i) if hasattr(i, "__array__") else i for i in items)
    return planner(grid, selection), fields


def _read_into(
    array: BoundArray,
    chosen: Plan,
    fields: Any,
    out: Any,
    missing: Missing,
    filled: list[tuple[int, ...]] | None,
) -> npt.NDArray[Any]:
    target: npt.NDArray[Any] = out.as_ndarray_like() if hasattr(out, "as_ndarray_like") else out
    if not isinstance(target, np.ndarray):
        raise WrongType(f"out must be a NumPy array, got {type(out).__name__}")
    wanted = array.dtype if fields is None else array.dtype[fields]
    if target.shape != chosen.shape or not np.can_cast(wanted, target.dtype, "safe"):
        raise SelectionError(
            f"out must have shape {chosen.shape} and type {wanted},"
            f" got {target.shape} {target.dtype}"
        )
    full = chosen.to_full(target)
    if fields is None and target.dtype == wanted and np.shares_memory(full, target):
        engine.read(array, chosen, full, missing, filled)
        return target
    whole = np.empty(chosen.full_shape, array.dtype)
    engine.read(array, chosen, whole, missing, filled)
    result = chosen.result(whole)
    np.copyto(target, result if fields is None else result[fields], casting="safe")
    return target


def write(array: BoundArray, planner: Planner, selection: Any, value: Any) -> None:
    """Store values, broadcast to the shape of the selection."""
    chosen, fields = _planned(planner, array, selection)
    if fields is None:
        engine.write(array, chosen, spread(value, array.dtype, chosen))
    else:
        engine.write_fields(array, chosen, fields, spread(value, array.dtype[fields], chosen))


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
        array = to_numpy(value) if hasattr(value, "dtype") else _typed(value, dtype)
        # NumPy would otherwise turn months into days by their average length.
        durations = array.dtype.kind == dtype.kind == "m"
        casting: Literal["same_kind", "unsafe"] = "same_kind" if durations else "unsafe"
        return array if array.dtype == dtype else _typed(array, dtype, casting)
    return _typed(value, dtype)


def _typed(
    value: Any, dtype: np.dtype[Any], casting: Literal["same_kind", "unsafe"] = "unsafe"
) -> npt.NDArray[Any]:
    try:
        if isinstance(value, np.ndarray):
            out = value.astype(dtype, casting=casting, copy=False)
        else:
            out = np.asarray(value, dtype)
        if out.dtype.itemsize != dtype.itemsize:  # NumPy takes text of length 0 for any length
            raise ValueError("its items have no bytes")
        return out
    except UnicodeEncodeError as e:
        raise InvalidMetadata(
            f"text with {e.object[e.start : e.end]!r} at position {e.start} cannot be stored:"
            f" {e.encoding} has no bytes for a lone surrogate"
        ) from None
    except (TypeError, ValueError) as e:
        what = f"items of type {value.dtype}" if isinstance(value, np.ndarray) else repr_of(value)
        raise WrongType(f"{what} cannot be stored as {dtype}: {e}") from None


def basic_plan(grid: Grid, selection: Any) -> Plan:
    """The plan for integers and slices; lists and masks raise."""
    for item in selection if isinstance(selection, tuple) else (selection,):
        if not (isinstance(item, slice) or item is Ellipsis or np.ndim(item) == 0):
            raise SelectionError(
                f"a basic selection has integers, slices and '...', got {type(item).__name__};"
                " use oindex, vindex or brackets for lists and masks"
            )
    return plan(grid, selection)


def with_fields(selection: Any, fields: Any) -> Any:
    """A selection that also names fields of a structured type; None: no names."""
    if fields is None:
        return selection
    names = [fields] if isinstance(fields, str) else list(fields)
    items = selection if isinstance(selection, tuple) else (selection,)
    return (*items, *names) if len(names) == 1 else (*items, names)


def split_fields(selection: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Names of fields in a selection (None: no names), and what is left of it."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    names = [i for i in items if isinstance(i, str)]
    lists = [i for i in items if isinstance(i, list) and i and all(isinstance(n, str) for n in i)]
    if not names and not lists:
        return None, selection
    rest = tuple(
        i for i in items if not isinstance(i, str) and not any(i is some for some in lists)
    )
    if len(lists) + bool(names) > 1:
        raise SelectionError("give the names of fields once")
    chosen = lists[0] if lists else names[0] if len(names) == 1 else names
    unknown = {*names, *(n for some in lists for n in some)} - set(dtype.names or ())
    if unknown and dtype.names is None:
        raise SelectionError(
            f"there is no field {sorted(unknown)[0]!r}: this is an array of {dtype}, not a group"
        )
    if unknown:
        name = sorted(unknown)[0]
        raise SelectionError(f"there is no field {name!r}; {known_names(name, dtype.names or ())}")
    return chosen, rest if rest else ...


class Source(Protocol):
    """What can be read and written by plans."""

    def _read(self, planner: Planner, selection: Any) -> Any: ...
    def _write(self, planner: Planner, selection: Any, value: Any) -> None: ...


class Selector:
    """Another way to select: ``array.oindex``, ``array.vindex``, ``array.blocks``."""

    def __init__(self, source: Source, planner: Planner, name: str) -> None:
        self._source = source
        self._planner = planner
        self._name = name

    def __getitem__(self, selection: Any) -> Any:
        return self._source._read(self._planner, selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self._source._write(self._planner, selection, value)

    def __repr__(self) -> str:
        return f"<{self._name} of {self._source!r}; select with [...]>"
