"""Selections: basic, orthogonal, by coordinates, by mask, by block; and selections of selections.

`plan` and the other `*_plan` functions make the plan of one selection. A view selects again from
what it shows: as long as that is along the axes, it is one position, range or list for each axis of
the array and an order of the axes that are left (`AxisSelection`); from the first selection of
points on it is the position of each point (`PointSelection`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np

from omnizarr.chunk_grids import MAX_RUN, Grid, GridAxis, Integers, RegularAxis
from omnizarr.errors import SelectionError
from omnizarr.indexing.plan import ListedAxisPlan, Plan, PointPlan, ProductPlan, Run

_BASIC = frozenset((int, slice, EllipsisType))  # of most selections, which need no closer look
_ALL, _REVERSED = slice(None), slice(None, None, -1)
_make: Any = tuple.__new__  # Run(…) without the call of Python code that it takes


# Plans


def plan(grid: Grid, selection: Any, *, points: bool = True) -> Plan:
    """Return the plan for a selection in square brackets.

    Integers, slices and an ellipsis mean what they mean in NumPy. A list or mask for one axis
    selects along it; lists or integers for all axes select points, if `points` are allowed; a mask
    of the whole shape selects the points where it is true. Masks for several axes, also beside
    lists, select along each axis on its own, as in zarr-python.
    """
    axes = grid.axes
    items: Any = selection if type(selection) is tuple else (selection,)
    if not _BASIC.issuperset(map(type, items)):
        if points and means_points(selection, len(axes)):
            return point_plan(grid, selection)
        items = axis_items(axes, selection)
    elif len(items) != len(axes) or ... in items:
        at = items.index(...) if ... in items else len(items)
        given = (*items[:at], *items[at + 1 :])
        if len(given) > len(axes) or ... in given:
            _expand(selection, len(axes))  # which raises
        items = (*given[:at], *[_ALL] * (len(axes) - len(given)), *given[at:])
    parts: list[Run | ListedAxisPlan] = []
    full: list[int] = []
    final: list[int | slice] = []
    runs = True
    for axis, item in zip(axes, items, strict=True):
        length = axis.length
        if type(item) is slice:
            start, stop, step = item.indices(length)
            count = len(range(start, stop, step))
            final.append(_ALL if step > 0 else _REVERSED)
            if step < 0:
                start, step = start + (count - 1) * step, -step
            if count > MAX_RUN:
                _check_chunks(axis, start, count, step)
            parts.append(_make(Run, (start, count, step if count > 1 else 1, length)))
            full.append(count)
        elif type(item) is int:
            if not -length <= item < length:
                raise _out_of_bounds(item, axis, len(parts))
            parts.append(_make(Run, (item + length if item < 0 else item, 1, 1, length)))
            full.append(1)
            final.append(0)
        else:
            part = _listed(axis, item)
            runs = runs and isinstance(part, Run)
            parts.append(part)
            full.append(len(item))
            final.append(_ALL)
    return ProductPlan(grid, tuple(parts), tuple(full), tuple(final), runs)


def axis_plan(grid: Grid, selection: Any) -> ProductPlan:
    """Return the plan for one integer, slice, list or mask for each axis on its own."""
    return cast(ProductPlan, plan(grid, selection, points=False))


def means_points(selection: Any, rank: int) -> bool:
    """Return True if a selection in square brackets is one of points, not one for each axis."""
    items = _items(selection)
    if _BASIC.issuperset(map(type, items)):
        return False
    if len(items) == 1 and _is_mask(items[0]) and np.ndim(items[0]) > 1:
        return True
    lists = [i for i in items if _is_list(i)]
    masks = any(_is_mask(i) for i in lists)
    if len(lists) < 2 or (masks and len(lists) == len(items) == rank):
        return False
    if masks or not all(_is_list(i) or _is_integer(i) for i in items):
        raise SelectionError(
            f"several {'masks' if masks else 'lists'} beside slices are ambiguous; use .oindex[...]"
            " for each axis on its own, or .vindex[...] for points"
        )
    return True


def axis_items(axes: Sequence[GridAxis], selection: Any) -> list[int | slice | Integers]:
    """Return a position, slice or list of positions for each axis; masks become positions."""
    items = _expand(selection, len(axes))
    for number, item in enumerate(items):
        if type(item) is not slice:
            checked = _positions if _is_list(item) else _position
            items[number] = checked(item, axes[number], number)
    return items


def point_plan(grid: Grid, selection: Any) -> PointPlan:
    """Return the plan for points: lists of positions for each axis, or a mask of the shape."""
    positions, shape = point_positions(grid.axes, selection)
    axes, count = grid.axes, len(positions[0]) if positions else 1
    chunks = [np.asarray(a.chunk_of(p), np.int64) for a, p in zip(axes, positions, strict=True)]
    inner = [p - a.start(c) for a, p, c in zip(axes, positions, chunks, strict=True)]
    if not positions or not count:
        coords = np.zeros((min(count, 1), len(axes)), np.int64)
        none = np.zeros((len(axes), count), np.int64)
        begin = np.array([0, count] if count else [0])
        return PointPlan(coords, begin, none, np.arange(count), shape)
    numbers = np.ravel_multi_index(tuple(chunks), grid.shape)
    order = np.argsort(numbers, kind="stable")
    found, begin = np.unique(numbers[order], return_index=True)
    coords = np.stack(np.unravel_index(found, grid.shape), axis=1).astype(np.int64)
    return PointPlan(coords, np.append(begin, count), np.stack(inner)[:, order], order, shape)


def on_grid(plan: Plan, old: Grid, new: Grid) -> Plan:
    """Return the plan that fills the same result from the chunks of another grid."""
    if isinstance(plan, PointPlan):
        return replace(point_plan(new, tuple(plan.positions(old))), shape=plan.shape)
    parts = tuple(
        part if isinstance(part, Run) else _listed(there, part.positions(here))
        for part, here, there in zip(plan.parts, old.axes, new.axes, strict=True)
    )
    return replace(plan, grid=new, parts=parts)


def point_positions(
    axes: Sequence[GridAxis], selection: Any
) -> tuple[list[Integers], tuple[int, ...]]:
    """Return the position of every point along each axis in one row, and the shape they had."""
    items = _items(selection)
    if len(items) == 1 and _is_mask(items[0]):
        return _mask_positions(axes, items[0])
    if len(items) != len(axes):
        raise SelectionError(
            f"points need a position for each of {len(axes)} axes, got {len(items)}"
        )
    if not all(_is_list(i) or _is_integer(i) for i in items) or any(_is_mask(i) for i in items):
        raise SelectionError("points need lists of integers")
    columns = [_integers(i) for i in items]
    try:
        spread = np.broadcast_arrays(*columns)
    except ValueError:
        shapes = ", ".join(str(c.shape) for c in columns)
        raise SelectionError(f"positions of shapes {shapes} do not fit together") from None
    shape = spread[0].shape if spread else ()
    pairs = zip(spread, axes, strict=True)
    return [_wrapped(c.reshape(-1), axis, n) for n, (c, axis) in enumerate(pairs)], shape


def _mask_positions(axes: Sequence[GridAxis], mask: Any) -> tuple[list[Integers], tuple[int, ...]]:
    """Return the points where a mask of the array's shape is true."""
    found, whole = np.asarray(mask), tuple(axis.length for axis in axes)
    if found.dtype != bool or found.shape != whole:
        raise SelectionError(
            f"a mask has the array's shape {whole} and type bool, got {found.shape} {found.dtype}"
        )
    flat = np.flatnonzero(found)
    return [p.astype(np.int64) for p in np.unravel_index(flat, found.shape)], (len(flat),)


def block_plan(grid: Grid, selection: Any) -> ProductPlan:
    """Return the plan for whole chunks, chosen by their coordinates in the grid."""
    slices = []
    for number, (axis, item) in enumerate(
        zip(grid.axes, _expand(selection, len(grid.axes)), strict=True)
    ):
        if isinstance(item, slice):
            first, last, step = item.indices(axis.count)
            if step != 1:
                raise SelectionError("blocks are selected without a step")
            if item.start is not None:
                _position(item.start, RegularAxis(axis.count, 1), number)
            last = max(first, last)
        elif _is_integer(item):
            first = _position(item, RegularAxis(axis.count, 1), number)
            last = first + 1
        else:
            raise SelectionError("blocks are selected with integers and slices")
        start = axis.start(first) if first < axis.count else axis.length
        stop = axis.start(last - 1) + axis.size(last - 1) if last > first else start
        slices.append(slice(start, min(stop, axis.length)))
    return axis_plan(grid, tuple(slices))


def _check_chunks(axis: GridAxis, start: int, count: int, step: int) -> None:
    """Raise if a run along one axis touches too many chunks."""
    last = start + (count - 1) * step
    chunks = int(axis.chunk_of(last)) - int(axis.chunk_of(start)) + 1
    if chunks > MAX_RUN:
        raise SelectionError(
            f"the selection has {count} elements in up to {chunks} chunks along one axis, more"
            f" than the {MAX_RUN} of one call; select less at a time"
        )


def _listed(axis: GridAxis, positions: Integers) -> Run | ListedAxisPlan:
    """Return positions as a run if they are equally spaced, else sorted."""
    if len(positions) == 1:
        return Run(int(positions[0]), 1, 1, axis.length)
    differences = positions[1:] - positions[:-1]
    if len(positions) and differences[0] > 0 and (differences == differences[0]).all():
        start, count, step = int(positions[0]), len(positions), int(differences[0])
        _check_chunks(axis, start, count, step)
        return Run(start, count, step, axis.length)
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    chunks = np.asarray(axis.chunk_of(ordered), np.int64)
    changes = np.flatnonzero(chunks[1:] != chunks[:-1]) + 1
    first = np.concatenate([[0] if len(chunks) else [], changes]).astype(np.int64)
    begin = np.append(first, len(positions))
    return ListedAxisPlan(chunks[first], begin, ordered - axis.start(chunks), order)


def _items(selection: Any) -> list[Any]:
    return list(selection) if isinstance(selection, tuple) else [selection]


def _expand(selection: Any, rank: int) -> list[Any]:
    """Return one item for every axis, in place of an ellipsis and of omitted axes."""
    items = _items(selection)
    for item in items:
        if not (item is Ellipsis or isinstance(item, slice) or _is_integer(item) or _is_list(item)):
            raise SelectionError(
                f"cannot select with {type(item).__name__} {item!r};"
                " use integers, slices, lists, masks and '...', and others on values, array[...]"
            )
    if sum(item is Ellipsis for item in items) > 1:
        raise SelectionError("a selection can have only one ellipsis (...)")
    given = sum(item is not Ellipsis for item in items)
    if given > rank:
        raise SelectionError(
            f"too many indices: the array has {rank} dimensions, but {given} were given"
        )
    fill = [slice(None)] * (rank - given)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:at], *fill, *items[at + 1 :]]


def _is_integer(item: Any) -> bool:
    if type(item) is int:
        return True
    if not hasattr(item, "__index__") or np.ndim(item):
        return False
    return not isinstance(item, (bool, np.bool_)) and not _is_mask(item)


def _is_list(item: Any) -> bool:
    return isinstance(item, (list, range)) or (isinstance(item, np.ndarray) and item.ndim > 0)


def _is_mask(item: Any) -> bool:
    if isinstance(item, list):
        item = np.asarray(item)
    return isinstance(item, np.ndarray) and item.dtype == bool


def _integers(item: Any) -> Integers:
    found = np.asarray(item)
    if found.size == 0 and found.dtype == float:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise SelectionError(f"cannot select with items of type {found.dtype}; use integers")
    if found.dtype.kind == "u" and found.size and found.max() >= 2**63:
        raise SelectionError(f"index {found.max()} is out of bounds: no axis is that long")
    return found.astype(np.int64)


def _positions(item: Any, axis: GridAxis, number: int) -> Integers:
    """Return the positions of a list or a mask for one axis."""
    if _is_mask(item):
        mask = np.asarray(item)
        if mask.shape != (axis.length,):
            raise SelectionError(
                f"the mask for axis {number} has shape {mask.shape}, the axis has {axis.length}"
            )
        return np.flatnonzero(mask).astype(np.int64)
    found = _integers(item)
    if found.ndim != 1:
        raise SelectionError(f"the list for axis {number} has {found.ndim} dimensions, not one")
    return _wrapped(found, axis, number)


def _position(item: Any, axis: GridAxis, number: int) -> int:
    """Return one position, counted from the end if it is negative."""
    position = int(item.__index__())
    if not -axis.length <= position < axis.length:
        raise _out_of_bounds(position, axis, number)
    return position + axis.length if position < 0 else position


def _out_of_bounds(position: int, axis: GridAxis, number: int) -> SelectionError:
    return SelectionError(
        f"index {position} is out of bounds for axis {number} with length {axis.length}"
    )


def _wrapped(positions: Integers, axis: GridAxis, number: int) -> Integers:
    """Return positions with negative ones counted from the end; raise if one is outside."""
    length = axis.length
    bad = (positions < -length) | (positions >= length)
    if bad.any():
        raise _out_of_bounds(int(positions[bad][0]), axis, number)
    wrapped: Integers = np.where(positions < 0, positions + length, positions).astype(np.int64)
    return wrapped


# Selections of selections


Pick: TypeAlias = "int | range | Integers"


@dataclass(frozen=True, slots=True, eq=False)
class AxisSelection:
    """A position, range or list of positions for each axis of an array."""

    picks: tuple[Pick, ...]
    order: tuple[int, ...]  # the axes of the array in the order of the result's, integers left out

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        picks = (self.picks[axis] for axis in self.order)
        return tuple(1 if isinstance(pick, int) else len(pick) for pick in picks)

    def along(self, selection: Any) -> AxisSelection:
        """Select with an integer, slice, list or mask for each axis of the result."""
        picks = list(self.picks)
        order = []
        items = axis_items(_axes(self.shape), selection)
        for axis, item in zip(self.order, items, strict=True):
            picks[axis] = _narrowed(picks[axis], item)
            if not isinstance(item, int):
                order.append(axis)
        return AxisSelection(tuple(picks), tuple(order))

    def points(self, selection: Any) -> PointSelection:
        """Select points by lists of positions in the result, or by a mask of its shape."""
        columns, shape = point_positions(_axes(self.shape), selection)
        found = dict(zip(self.order, columns, strict=True))
        positions = [
            np.asarray(pick)[found[axis]].reshape(shape)
            if axis in found
            else np.full(shape, pick, np.int64)
            for axis, pick in enumerate(self.picks)
        ]
        return PointSelection(tuple(positions), shape)

    def transpose(self, axes: Sequence[int]) -> AxisSelection:
        """Return the selection with the result's axes in another order."""
        return AxisSelection(self.picks, tuple(self.order[axis] for axis in axes))

    @property
    def stored_order(self) -> tuple[int, ...]:
        """The result's axes in the order in which the array has them."""
        return tuple(np.argsort(self.order).tolist())

    @property
    def repeats(self) -> bool:
        """True if an element of the array is selected more than once."""
        lists = [pick for pick in self.picks if isinstance(pick, np.ndarray)]
        return 0 not in self.shape and any(len(np.unique(pick)) < len(pick) for pick in lists)

    def plan(self, grid: Grid) -> Plan:
        """Return the plan; its result has the axes in the order of the array's."""
        items: list[int | slice | Integers] = []
        highest: list[int] = []
        for pick in self.picks:
            if not isinstance(pick, range):
                items.append(pick)
                highest.append(pick if isinstance(pick, int) else int(pick.max(initial=-1)))
            elif pick:
                items.append(slice(pick.start, pick.stop if pick.stop >= 0 else None, pick.step))
                highest.append(max(pick[0], pick[-1]))
            else:
                items.append(slice(0, 0))
                highest.append(-1)
        _check_inside(highest, grid)
        return axis_plan(grid, tuple(items))


@dataclass(frozen=True, slots=True, eq=False)
class PointSelection:
    """Single points: the position of each along every axis, as arrays of the result's shape."""

    positions: tuple[Integers, ...]
    shape: tuple[int, ...]

    def along(self, selection: Any) -> PointSelection:
        """Select with an integer, slice, list or mask for each axis of the result."""
        items = axis_items(_axes(self.shape), selection)
        numbers = np.arange(math.prod(self.shape)).reshape(self.shape)
        for axis, item in reversed(list(enumerate(items))):
            numbers = numbers[(slice(None),) * axis + (item,)]
        return self._chosen(numbers)

    def points(self, selection: Any) -> PointSelection:
        """Select points of the result by lists of positions, or by a mask of its shape."""
        columns, shape = point_positions(_axes(self.shape), selection)
        if not self.shape:
            return self._chosen(np.zeros(shape, np.int64))
        return self._chosen(np.ravel_multi_index(columns, self.shape).reshape(shape))

    def transpose(self, axes: Sequence[int]) -> PointSelection:
        """Return the selection with the result's axes in another order."""
        shape = tuple(self.shape[axis] for axis in axes)
        return PointSelection(tuple(p.transpose(axes) for p in self.positions), shape)

    def _chosen(self, numbers: Any) -> PointSelection:
        chosen = tuple(np.asarray(p.reshape(-1)[numbers]) for p in self.positions)
        return PointSelection(chosen, np.shape(numbers))

    @property
    def stored_order(self) -> tuple[int, ...]:
        """The result's axes as they are: points have no axes of the array left."""
        return tuple(range(len(self.shape)))

    @property
    def repeats(self) -> bool:
        """True if an element of the array is selected more than once."""
        if not self.positions:
            return math.prod(self.shape) > 1
        rows = np.stack([p.reshape(-1) for p in self.positions], axis=1)
        return len(np.unique(rows, axis=0)) < len(rows)

    def plan(self, grid: Grid) -> Plan:
        """Return the plan; its result has this shape."""
        _check_inside([int(p.max(initial=-1)) for p in self.positions], grid)
        return point_plan(grid, self.positions)


Selection: TypeAlias = AxisSelection | PointSelection


def everything(shape: Iterable[int]) -> AxisSelection:
    """Return the selection of a whole array."""
    picks = tuple(range(n) for n in shape)
    return AxisSelection(picks, tuple(range(len(picks))))


def _axes(shape: tuple[int, ...]) -> list[GridAxis]:
    """Return the axes of a result, which has no chunks of its own."""
    return [RegularAxis(n, max(n, 1)) for n in shape]


def _narrowed(pick: Any, item: int | slice | Integers) -> Pick:
    """Return part of a range or list."""
    if isinstance(item, np.ndarray) and isinstance(pick, range):
        return np.asarray(pick.start + item * pick.step, np.int64)
    return int(pick[item]) if isinstance(item, int) else cast(Pick, pick[item])


def _check_inside(highest: Sequence[int], grid: Grid) -> None:
    """Raise if the array has become smaller since the selection was made."""
    for number, (position, length) in enumerate(zip(highest, grid.array_shape, strict=True)):
        if position >= length:
            raise SelectionError(
                f"the selection reaches position {position} of axis {number}, but the array now"
                f" has shape {grid.array_shape}; make a new one"
            )
