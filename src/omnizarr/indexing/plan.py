"""Plans: which part of which chunk goes where. Pure numbers, no store.

A selection along the axes is a `ProductPlan`: a run or one set of columns an axis, and the chunks
touched are all their combinations. Runs are cut along the chunks when columns are asked for. A
selection of single points is a `PointPlan`: its columns have a row for every point, sorted by
chunk. Neither makes a Python object for an element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.chunk_grids import Axis, Grid

MAX_RUN = 2**26  # chunks along one axis in one plan: a few GiB of columns
Integers: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = "slice | Integers"
NO_COLUMNS: tuple[tuple[()], ...] = ((),) * 5  # of a row without axes


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk of a plan.

    `region` is a box inside the chunk, `pick` selects from it (None: all of it), and `outer`
    says where that goes in the result.
    """

    coords: tuple[int, ...]
    region: tuple[slice, ...]
    pick: Any
    outer: Any
    whole: bool


class Run(NamedTuple):
    """Positions along one axis, from the first on, a step apart."""

    start: int
    size: int  # how many
    step: int
    length: int  # of the axis

    def whole(self, axis: Axis) -> bool:
        """Whether every chunk touched is selected in full."""
        start, size, step, length = self
        if step != 1 or not axis.begins(start):
            return not size
        end = start + size
        return end == length or axis.begins(end) or not size

    def cut(self, axis: Axis) -> AxisPlan:
        """The run in columns, a row for each chunk touched."""
        start, size, step, length = self
        chunks = self.chunks(axis)
        if len(chunks) == 1:  # most small reads
            begin = axis.start(number := int(chunks[0]))
            full = step == 1 and size == min(axis.size(number), length - begin)
            row = np.array((number, start - begin, 0, size), np.int64)
            return AxisPlan(row[0:1], row[1:2], row[2:3], row[3:4], np.array([full]), step)
        begins = np.asarray(axis.start(chunks), np.int64)
        ends = np.minimum(begins + axis.size(chunks), length)
        # The first selected element at or after the start of a chunk, as a position in the result.
        outer = np.maximum(0, -((start - begins) // step))
        beyond = np.minimum(size, -((start - ends) // step))
        number = beyond - outer
        kept = number > 0
        inner = start + outer * step - begins
        whole = (number == ends - begins) & (step == 1)
        return AxisPlan(chunks[kept], inner[kept], outer[kept], number[kept], whole[kept], step)

    def chunks(self, axis: Axis) -> Integers:
        """The chunks from the first to the last element, or, where they are many, with one."""
        if not self.size:
            return np.zeros(0, np.int64)
        last = self.start + (self.size - 1) * self.step
        first, end = int(axis.chunk_of(self.start)), int(axis.chunk_of(last)) + 1
        if end - first <= MAX_RUN:
            return np.arange(first, end, dtype=np.int64)
        positions = self.start + self.step * np.arange(self.size, dtype=np.int64)
        found: Integers = np.unique(axis.chunk_of(positions))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class AxisPlan:
    """A run along one axis, a row for each chunk touched."""

    chunk: Integers  # index in the grid
    inner: Integers  # first element inside the chunk
    outer: Integers  # first element in the result
    count: Integers  # how many elements
    whole: npt.NDArray[np.bool_]  # whether that is all the chunk has of the array
    step: int

    def rows(self) -> list[tuple[int, slice, Integers | None, Part, bool]]:
        """Chunk, box in the chunk, choice from the box, part of the result, whole or not."""
        return [
            (c, slice(i, i + (n - 1) * self.step + 1, self.step), None, slice(o, o + n), w)
            for c, i, o, n, w in zip(
                self.chunk.tolist(),
                self.inner.tolist(),
                self.outer.tolist(),
                self.count.tolist(),
                self.whole.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True, eq=False)
class ListedAxisPlan:
    """Listed positions along one axis, sorted by chunk."""

    chunk: Integers  # index in the grid, for each chunk touched
    begin: Integers  # where its elements begin in the two columns below; one more for the end
    inner: Integers  # position inside the chunk, for each element
    outer: Integers  # position in the result, for each element

    def rows(self) -> list[tuple[int, slice, Integers | None, Part, bool]]:
        """As `AxisPlan.rows`."""
        out: list[tuple[int, slice, Integers | None, Part, bool]] = []
        bounds = self.begin.tolist()
        for c, (first, last) in zip(self.chunk.tolist(), itertools.pairwise(bounds), strict=True):
            inner = self.inner[first:last]
            low, high = int(inner.min()), int(inner.max())
            out.append((c, slice(low, high + 1, 1), inner - low, self.outer[first:last], False))
        return out


@dataclass(frozen=True, eq=False)
class ProductPlan:
    """A selection along the axes of a grid.

    `full_shape` has an axis of length 1 for every integer; `final` turns such an array into
    what the user asked for: integers dropped, backward slices turned round.
    """

    grid: Grid
    parts: tuple[Run | ListedAxisPlan, ...]
    full_shape: tuple[int, ...]
    final: tuple[int | slice, ...]

    @cached_property
    def axes(self) -> tuple[AxisPlan | ListedAxisPlan, ...]:
        """The columns of each axis, cut along the chunks."""
        pairs = zip(self.parts, self.grid.axes, strict=True)
        return tuple(p.cut(axis) if isinstance(p, Run) else p for p, axis in pairs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        pairs = zip(self.full_shape, self.final, strict=True)
        return tuple(n for n, f in pairs if isinstance(f, slice))

    @property
    def count(self) -> int:
        """How many chunks are touched."""
        return math.prod(len(a.chunk) for a in self.axes)

    @property
    def runs(self) -> bool:
        """Whether every axis is a run, so that regions are boxes."""
        return all(isinstance(p, Run) for p in self.parts)

    def rows(self) -> Iterator[Row]:
        """Every chunk touched."""
        listed = not self.runs
        for parts in itertools.product(*(a.rows() for a in self.axes)):
            columns: Any = zip(*parts, strict=True) if parts else NO_COLUMNS
            coords, region, picks, outer, whole = columns
            pick = None
            if listed:
                pick = np.ix_(*map(_choice, picks, region))
                outer = np.ix_(*map(_positions, outer))
            yield Row(coords, region, pick, outer, all(whole))

    @property
    def whole(self) -> bool:
        """Whether every chunk touched is selected in full."""
        for part, axis in zip(self.parts, self.grid.axes, strict=True):
            if not isinstance(part, Run) or not part.whole(axis):
                return False
        return True

    def some_rows(self, numbers: list[int]) -> list[Row]:
        """Some of the chunks touched, by their places in `rows`."""
        return _some(self.rows(), numbers)

    def to_full(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of the result's shape as values of the full shape."""
        axes = (np.newaxis if isinstance(f, int) else f for f in self.final)
        index: Any = (*axes, ...)  # the ellipsis keeps a 0-dimensional array an array
        turned: npt.NDArray[Any] = value[index]
        return turned

    def result(self, full: npt.NDArray[Any]) -> Any:
        """What the user asked for, of values of the full shape; an element without axes."""
        return full[self.final]


def _some(rows: Iterator[Row], numbers: list[int]) -> list[Row]:
    wanted = set(numbers)
    return [row for number, row in enumerate(rows) if number in wanted]


def _choice(pick: Integers | None, box: slice) -> Integers:
    return np.arange(len(range(box.start, box.stop, box.step))) if pick is None else pick


def _positions(part: Part) -> Integers:
    return np.arange(part.start, part.stop) if isinstance(part, slice) else part


@dataclass(frozen=True, slots=True, eq=False)
class PointPlan:
    """A selection of single points, sorted by chunk; the result has them in one row."""

    coords: Integers  # chunks touched × axes
    begin: Integers  # where a chunk's points begin; one more for the end
    inner: Integers  # axes × points: position inside the chunk
    outer: Integers  # position in the result
    shape: tuple[int, ...]  # of the result

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape that the engine fills."""
        return (len(self.outer),)

    @property
    def count(self) -> int:
        """How many chunks are touched."""
        return len(self.coords)

    @property
    def runs(self) -> bool:
        """Points are never runs."""
        return False

    def rows(self) -> Iterator[Row]:
        """Every chunk touched."""
        bounds = itertools.pairwise(self.begin.tolist())
        for chunk, (first, last) in zip(self.coords.tolist(), bounds, strict=True):
            inner = self.inner[:, first:last]
            low, high = inner.min(axis=1), inner.max(axis=1)
            region = tuple(
                slice(a, b + 1, 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)
            )
            pick = tuple(inner - low[:, None])
            yield Row(tuple(chunk), region, pick, (self.outer[first:last],), False)

    def some_rows(self, numbers: list[int]) -> list[Row]:
        """As `ProductPlan.some_rows`."""
        return _some(self.rows(), numbers)

    def to_full(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of the result's shape in one row."""
        return value.reshape(-1)

    def result(self, full: npt.NDArray[Any]) -> Any:
        """As `ProductPlan.result`."""
        return full.reshape(self.shape)[()]


Plan: TypeAlias = ProductPlan | PointPlan
