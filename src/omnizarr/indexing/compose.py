"""Selections of selections: what a chain of selections and transposes chooses of an array.

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

from omnizarr.chunk_grids import Axis, Grid
from omnizarr.chunk_grids.grid import RegularAxis
from omnizarr.errors import SelectionError
from omnizarr.indexing.plan import Integers, Plan
from omnizarr.indexing.select import (
    axis_items,
    axis_plan,
    means_points,
    point_plan,
    point_positions,
)

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
