"""From a selection to a plan: which part of which chunk goes where. Pure numbers, no store.

A plan has one set of columns an axis; the chunks touched are all their combinations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.chunk_grids import Axis, Grid
from omnizarr.errors import SelectionError

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AxisPlan:
    """What is selected along one axis, a row for each chunk touched."""

    chunk: Integers  # index in the grid
    inner: Integers  # first element inside the chunk
    outer: Integers  # first element in the result
    count: Integers  # how many elements
    whole: npt.NDArray[np.bool_]  # whether that is all the chunk has of the array
    step: int

    def rows(self) -> list[tuple[int, slice, slice, bool]]:
        """Chunk, part of the chunk, part of the result, whole or not."""
        return [
            (c, slice(i, i + (n - 1) * self.step + 1, self.step), slice(o, o + n), w)
            for c, i, o, n, w in zip(
                self.chunk.tolist(),
                self.inner.tolist(),
                self.outer.tolist(),
                self.count.tolist(),
                self.whole.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk of a plan."""

    coords: tuple[int, ...]
    inner: tuple[slice, ...]
    outer: tuple[slice, ...]
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A selection, cut along the chunks.

    `full_shape` has an axis of length 1 for every integer; `final` turns such an array into
    what the user asked for: integers dropped, backward slices turned round.
    """

    axes: tuple[AxisPlan, ...]
    full_shape: tuple[int, ...]
    final: tuple[int | slice, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        pairs = zip(self.full_shape, self.final, strict=True)
        return tuple(n for n, f in pairs if isinstance(f, slice))

    @property
    def count(self) -> int:
        """How many chunks are touched."""
        return math.prod(len(a.chunk) for a in self.axes)

    def rows(self) -> Iterator[Row]:
        """Every chunk touched."""
        for parts in itertools.product(*(a.rows() for a in self.axes)):
            yield Row(
                tuple(p[0] for p in parts),
                tuple(p[1] for p in parts),
                tuple(p[2] for p in parts),
                all(p[3] for p in parts),
            )


def plan(grid: Grid, selection: Any) -> Plan:
    """The plan for integers, slices and an ellipsis, as NumPy understands them."""
    shape = grid.array_shape
    items = _expand(selection, shape)
    axes: list[AxisPlan] = []
    full: list[int] = []
    final: list[int | slice] = []
    for number, (axis, item) in enumerate(zip(grid.axes, items, strict=True)):
        if isinstance(item, slice):
            start, stop, step = item.indices(axis.length)
            count = len(range(start, stop, step))
            turn = step < 0
            if turn:
                start, step = start + (count - 1) * step, -step
            axes.append(_axis_plan(axis, start, count, step))
            full.append(count)
            final.append(slice(None, None, -1) if turn else slice(None))
        else:
            position = item + axis.length if item < 0 else item
            if not 0 <= position < axis.length:
                raise SelectionError(
                    f"index {item} is out of bounds for axis {number} with length {axis.length}"
                )
            axes.append(_axis_plan(axis, position, 1, 1))
            full.append(1)
            final.append(0)
    return Plan(tuple(axes), tuple(full), tuple(final))


def _axis_plan(axis: Axis, start: int, count: int, step: int) -> AxisPlan:
    if count == 0:
        none = np.zeros(0, np.int64)
        return AxisPlan(none, none, none, none, none.astype(bool), step)
    last = start + (count - 1) * step
    chunks = np.arange(axis.chunk_of(start), axis.chunk_of(last) + 1, dtype=np.int64)
    begins = np.asarray(axis.start(chunks), np.int64)
    ends = np.minimum(begins + axis.size(chunks), axis.length)
    # The first selected element at or after the start of each chunk, as a position in the result.
    outer = np.maximum(0, -((start - begins) // step))
    beyond = np.minimum(count, -((start - ends) // step))
    number = beyond - outer
    kept = number > 0
    inner = start + outer * step - begins
    whole = (number == ends - begins) & (step == 1)
    return AxisPlan(chunks[kept], inner[kept], outer[kept], number[kept], whole[kept], step)


def _expand(selection: Any, shape: tuple[int, ...]) -> list[Any]:
    """One integer or slice for every axis."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    if sum(item is Ellipsis for item in items) > 1:
        raise SelectionError("a selection can have only one ellipsis (...)")
    given = sum(item is not Ellipsis for item in items)
    if given > len(shape):
        raise SelectionError(
            f"too many indices: the array has {len(shape)} dimensions, but {given} were given"
        )
    fill = [slice(None)] * (len(shape) - given)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    return [_item(item) for item in [*items[:at], *fill, *items[at + 1 :]]]


def _item(item: Any) -> int | slice:
    if isinstance(item, slice):
        return item
    if not isinstance(item, (bool, np.bool_)) and hasattr(item, "__index__"):
        try:
            return int(item.__index__())
        except TypeError:
            pass  # an array of several elements
    raise SelectionError(
        f"cannot select with {type(item).__name__} {item!r}; use integers, slices and '...'"
    )
