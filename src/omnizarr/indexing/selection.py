"""Selections: basic, orthogonal, by coordinates, by mask, by block; and one selection of another.

Along the axes a chain stays one position, range or list for each axis of the array, and an order
of the axes that are left (`AxisSelection`). From the first selection of points on it is the
position of each point (`PointSelection`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from omnizarr.chunk_grids import Axis, Grid, RegularAxis
from omnizarr.errors import SelectionError
from omnizarr.indexing.plan import (
    MAX_RUN,
    Integers,
    ListedAxisPlan,
    Plan,
    PointPlan,
    ProductPlan,
    Run,
)

_PLAIN = frozenset((int, slice))  # types of most selections, which need no closer look
_ALL, _TURNED = slice(None), slice(None, None, -1)


def plan(grid: Grid, selection: Any) -> Plan:
    """The plan for a selection in square brackets.

    Integers, slices and an ellipsis mean what they mean in NumPy. A list or mask for one axis
    selects along it; lists or integers for all axes select points; a mask of the whole shape
    selects the points where it is true. Masks for several axes, also beside lists, select along
    each axis on its own, as in zarr-python.
    """
    points = means_points(selection, len(grid.axes))
    return point_plan(grid, selection) if points else axis_plan(grid, selection)


def means_points(selection: Any, rank: int) -> bool:
    """Whether a selection in square brackets is one of points, not one for each axis."""
    items = _items(selection)
    if _PLAIN.issuperset(map(type, items)):
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


def axis_items(axes: Sequence[Axis], selection: Any) -> list[int | slice | Integers]:
    """For each axis a position, a slice or positions, all checked; masks become positions."""
    items = _expand(selection, len(axes))
    for number, item in enumerate(items):
        if type(item) is not slice:
            checked = _positions if _is_list(item) else _position
            items[number] = checked(item, axes[number], number)
    return items


def axis_plan(grid: Grid, selection: Any) -> ProductPlan:
    """The plan for one integer, slice, list or mask for each axis on its own."""
    parts: list[Run | ListedAxisPlan] = []
    full: list[int] = []
    final: list[int | slice] = []
    for axis, item in zip(grid.axes, axis_items(grid.axes, selection), strict=True):
        if isinstance(item, slice):
            start, stop, step = item.indices(axis.length)
            count = len(range(start, stop, step))
            turn = step < 0
            if turn:
                start, step = start + (count - 1) * step, -step
            parts.append(_run(axis, start, count, step))
            full.append(count)
            final.append(_TURNED if turn else _ALL)
        elif isinstance(item, np.ndarray):
            parts.append(_listed(axis, item))
            full.append(len(item))
            final.append(_ALL)
        else:
            parts.append(Run(item, 1, 1, axis.length))
            full.append(1)
            final.append(0)
    return ProductPlan(grid, tuple(parts), tuple(full), tuple(final))


def point_plan(grid: Grid, selection: Any) -> PointPlan:
    """The plan for points: lists of positions, one for each axis, or a mask of the whole shape."""
    positions, shape = point_positions(grid.axes, selection)
    return _points(grid, positions, shape)


def point_positions(axes: Sequence[Axis], selection: Any) -> tuple[list[Integers], tuple[int, ...]]:
    """The position of every point along each axis, all in one row, and the shape they had."""
    items = _items(selection)
    if len(items) == 1 and _is_mask(items[0]):
        return _mask_positions(axes, items[0])
    if len(items) != len(axes):
        raise SelectionError(
            f"points need a position for each of {len(axes)} axes, got {len(items)}"
        )
    if not all(_is_list(i) or _is_integer(i) for i in items) or any(_is_mask(i) for i in items):
        raise SelectionError("points are given by lists of integers")
    columns = [_integers(i) for i in items]
    try:
        spread = np.broadcast_arrays(*columns)
    except ValueError:
        shapes = ", ".join(str(c.shape) for c in columns)
        raise SelectionError(f"positions of shapes {shapes} do not fit together") from None
    shape = spread[0].shape if spread else ()
    pairs = zip(spread, axes, strict=True)
    return [_wrapped(c.reshape(-1), axis, n) for n, (c, axis) in enumerate(pairs)], shape


def mask_plan(grid: Grid, mask: Any) -> PointPlan:
    """The plan for the points where a mask of the array's shape is true."""
    return _points(grid, *_mask_positions(grid.axes, mask))


def _mask_positions(axes: Sequence[Axis], mask: Any) -> tuple[list[Integers], tuple[int, ...]]:
    """The points where a mask of the array's shape is true."""
    found, whole = np.asarray(mask), tuple(axis.length for axis in axes)
    if found.dtype != bool or found.shape != whole:
        raise SelectionError(
            f"a mask has the array's shape {whole} and type bool, got {found.shape} {found.dtype}"
        )
    flat = np.flatnonzero(found)
    return [p.astype(np.int64) for p in np.unravel_index(flat, found.shape)], (len(flat),)


def block_plan(grid: Grid, selection: Any) -> ProductPlan:
    """The plan for whole chunks, chosen by their place in the grid."""
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


def _run(axis: Axis, start: int, count: int, step: int) -> Run:
    if count > MAX_RUN:
        last = start + (count - 1) * step
        chunks = int(axis.chunk_of(last)) - int(axis.chunk_of(start)) + 1
        if chunks > MAX_RUN:
            raise SelectionError(
                f"the selection has {count} elements in up to {chunks} chunks along one axis, more"
                f" than the {MAX_RUN} of one call; select less at a time"
            )
    return Run(start, count, step if count > 1 else 1, axis.length)


def _listed(axis: Axis, positions: Integers) -> Run | ListedAxisPlan:
    """Positions as a run where they are one, else sorted by chunk."""
    if len(positions) > 1:
        steps = np.diff(positions)
        if steps[0] > 0 and (steps == steps[0]).all():
            return _run(axis, int(positions[0]), len(positions), int(steps[0]))
    elif len(positions) == 1:
        return _run(axis, int(positions[0]), 1, 1)
    chunks = np.asarray(axis.chunk_of(positions), np.int64)
    order = np.argsort(chunks, kind="stable")
    found, begin = np.unique(chunks[order], return_index=True)
    inner = (positions - axis.start(chunks))[order]
    return ListedAxisPlan(found, np.append(begin, len(positions)), inner, order)


def _points(grid: Grid, positions: list[Integers], shape: tuple[int, ...]) -> PointPlan:
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


def _items(selection: Any) -> list[Any]:
    return list(selection) if isinstance(selection, tuple) else [selection]


def _expand(selection: Any, rank: int) -> list[Any]:
    """One item for every axis, in place of an ellipsis and of what was left out."""
    items = _items(selection)
    if len(items) == rank and _PLAIN.issuperset(map(type, items)):
        return items
    for item in items:
        if not (item is Ellipsis or isinstance(item, slice) or _is_integer(item) or _is_list(item)):
            raise SelectionError(
                f"cannot select with {type(item).__name__} {item!r};"
                " use integers, slices, lists, masks and '...'"
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
    if isinstance(item, (bool, np.bool_)) or not hasattr(item, "__index__") or np.ndim(item):
        return False
    return not (isinstance(item, np.ndarray) and item.dtype == bool)


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
    return found.astype(np.int64)


def _positions(item: Any, axis: Axis, number: int) -> Integers:
    """A list or a mask for one axis, as positions."""
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


def _position(item: Any, axis: Axis, number: int) -> int:
    """One position, counted from the end where it is negative."""
    position = int(item.__index__())
    if not -axis.length <= position < axis.length:
        raise _out_of_bounds(position, axis, number)
    return position + axis.length if position < 0 else position


def _out_of_bounds(position: int, axis: Axis, number: int) -> SelectionError:
    return SelectionError(
        f"index {position} is out of bounds for axis {number} with length {axis.length}"
    )


def _wrapped(positions: Integers, axis: Axis, number: int) -> Integers:
    """Positions with negative ones counted from the end; raises where one is outside."""
    length = axis.length
    bad = (positions < -length) | (positions >= length)
    if bad.any():
        raise _out_of_bounds(int(positions[bad][0]), axis, number)
    wrapped: Integers = np.where(positions < 0, positions + length, positions).astype(np.int64)
    return wrapped


Pick: TypeAlias = "int | range | Integers"


@dataclass(frozen=True, slots=True, eq=False)
class AxisSelection:
    """A position, range or list of positions for each axis of an array."""

    picks: tuple[Pick, ...]
    order: tuple[int, ...]  # the axes of the array in the order of the result's, integers left out

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(_length(self.picks[axis]) for axis in self.order)

    def select(self, selection: Any) -> Selection:
        """What square brackets choose of this."""
        points = means_points(selection, len(self.shape))
        return self.points(selection) if points else self.along(selection)

    def along(self, selection: Any) -> AxisSelection:
        """An integer, slice, list or mask for each axis of the result."""
        picks = list(self.picks)
        order = []
        items = axis_items(_axes(self.shape), selection)
        for axis, item in zip(self.order, items, strict=True):
            picks[axis] = _narrowed(picks[axis], item)
            if not isinstance(item, int):
                order.append(axis)
        return AxisSelection(tuple(picks), tuple(order))

    def points(self, selection: Any) -> PointSelection:
        """Points by lists of positions in the result, or by a mask of its shape."""
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
        """The result's axes in another order."""
        return AxisSelection(self.picks, tuple(self.order[axis] for axis in axes))

    @property
    def stored_order(self) -> tuple[int, ...]:
        """The result's axes in the order in which the array has them."""
        return tuple(np.argsort(self.order).tolist())

    @property
    def repeats(self) -> bool:
        """Whether an element of the array is chosen more than once."""
        lists = [pick for pick in self.picks if isinstance(pick, np.ndarray)]
        return 0 not in self.shape and any(len(np.unique(pick)) < len(pick) for pick in lists)

    def plan(self, grid: Grid) -> Plan:
        """The plan; its result has the axes in the order of the array's."""
        highest = [_highest(pick) for pick in self.picks]
        _check_inside(highest, grid)
        return axis_plan(grid, tuple(_as_item(pick) for pick in self.picks))


@dataclass(frozen=True, slots=True, eq=False)
class PointSelection:
    """Single points: the position of each along every axis, as arrays of the result's shape."""

    positions: tuple[Integers, ...]
    shape: tuple[int, ...]

    def select(self, selection: Any) -> PointSelection:
        """What square brackets choose of this."""
        points = means_points(selection, len(self.shape))
        return self.points(selection) if points else self.along(selection)

    def along(self, selection: Any) -> PointSelection:
        """An integer, slice, list or mask for each axis of the result."""
        items = axis_items(_axes(self.shape), selection)
        numbers = np.arange(math.prod(self.shape)).reshape(self.shape)
        for axis, item in reversed(list(enumerate(items))):
            numbers = numbers[(slice(None),) * axis + (item,)]
        return self._chosen(numbers)

    def points(self, selection: Any) -> PointSelection:
        """Points of the result by lists of positions, or by a mask of its shape."""
        columns, shape = point_positions(_axes(self.shape), selection)
        if not self.shape:
            return self._chosen(np.zeros(shape, np.int64))
        return self._chosen(np.ravel_multi_index(columns, self.shape).reshape(shape))

    def transpose(self, axes: Sequence[int]) -> PointSelection:
        """The result's axes in another order."""
        shape = tuple(self.shape[axis] for axis in axes)
        return PointSelection(tuple(p.transpose(axes) for p in self.positions), shape)

    def _chosen(self, numbers: Any) -> PointSelection:
        chosen = tuple(np.asarray(p.reshape(-1)[numbers]) for p in self.positions)
        return PointSelection(chosen, np.shape(numbers))

    @property
    def stored_order(self) -> tuple[int, ...]:
        """Points have no axes of the array left."""
        return tuple(range(len(self.shape)))

    @property
    def repeats(self) -> bool:
        """Whether an element of the array is chosen more than once."""
        if not self.positions:
            return math.prod(self.shape) > 1
        rows = np.stack([p.reshape(-1) for p in self.positions], axis=1)
        return len(np.unique(rows, axis=0)) < len(rows)

    def plan(self, grid: Grid) -> Plan:
        """The plan; its result has this shape."""
        _check_inside([int(p.max(initial=-1)) for p in self.positions], grid)
        return point_plan(grid, self.positions)


Selection: TypeAlias = AxisSelection | PointSelection


def everything(shape: Iterable[int]) -> AxisSelection:
    """All of an array."""
    picks = tuple(range(n) for n in shape)
    return AxisSelection(picks, tuple(range(len(picks))))


def _axes(shape: tuple[int, ...]) -> list[Axis]:
    """The axes of a result, which has no chunks of its own."""
    return [RegularAxis(n, max(n, 1)) for n in shape]


def _length(pick: Pick) -> int:
    return 1 if isinstance(pick, int) else len(pick)


def _narrowed(pick: Any, item: int | slice | Integers) -> Pick:
    """Part of a range or list."""
    if isinstance(item, np.ndarray):
        chosen: Integers = np.asarray(pick, np.int64)[item]
        return chosen
    narrowed: Pick = int(pick[item]) if isinstance(item, int) else pick[item]
    return narrowed


def _highest(pick: Pick) -> int:
    if isinstance(pick, int):
        return pick
    if isinstance(pick, range):
        return max(pick[0], pick[-1]) if pick else -1
    return int(pick.max(initial=-1))


def _as_item(pick: Pick) -> int | slice | Integers:
    if not isinstance(pick, range):
        return pick
    if not pick:
        return slice(0, 0)
    return slice(pick.start, pick.stop if pick.stop >= 0 else None, pick.step)


def _check_inside(highest: Sequence[int], grid: Grid) -> None:
    """Raise where the array has become smaller than it was when the selection was made."""
    for number, (position, length) in enumerate(zip(highest, grid.array_shape, strict=True)):
        if position >= length:
            raise SelectionError(
                f"the selection reaches position {position} of axis {number}, but the array now"
                f" has shape {grid.array_shape}; make a new one"
            )
