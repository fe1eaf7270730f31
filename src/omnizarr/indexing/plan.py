"""Plans: which part of which chunk goes where. Pure numbers, no store.

A selection along the axes is a `ProductPlan`: for each axis a `Run` of equally spaced positions or
a `ListedAxisPlan`; the chunks touched are all combinations. Runs are intersected with the chunks
only if rows are asked for; the compiled kernel does that itself. A selection of single points is a
`PointPlan`: a row for every point, sorted by chunk. Neither makes a Python object for an element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.chunk_grids import (
    AxisIntersection,
    Grid,
    GridAxis,
    Integers,
    RegularAxis,
    intersect,
)

Part: TypeAlias = "slice | Integers"
AxisRow: TypeAlias = "tuple[int, slice, Integers | None, Part, bool]"
NO_AXES: tuple[tuple[()], ...] = ((),) * 5  # the columns of a row without axes


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk of a plan."""

    coords: tuple[int, ...]
    region: tuple[slice, ...]  # a box inside the chunk
    pick: Any  # an index of elements of the box, None: all of them
    outer: Any  # an index of their positions in the result
    whole: bool  # true if they are all that the chunk has of the array


class Run(NamedTuple):
    """Equally spaced positions along one axis."""

    start: int
    size: int  # the number of positions
    step: int
    length: int  # of the axis


@dataclass(frozen=True, slots=True, eq=False)
class ListedAxisPlan:
    """Listed positions along one axis, in ascending order."""

    chunk: Integers  # index in the grid, for each chunk touched
    begin: Integers  # of its elements in the two columns below; one more for the end
    inner: Integers  # position inside the chunk, for each element
    outer: Integers  # position in the result, for each element

    def __len__(self) -> int:
        return len(self.chunk)

    def positions(self, axis: GridAxis) -> Integers:
        """Return the positions in the order of the result."""
        starts = np.repeat(axis.start(self.chunk), np.diff(self.begin))
        found = np.empty_like(self.inner)
        found[self.outer] = starts + self.inner
        return found

    def rows(self) -> list[AxisRow]:
        """Return each chunk's index, box, pick from the box, part of the result, and False."""
        out: list[AxisRow] = []
        bounds = self.begin.tolist()
        for c, (first, last) in zip(self.chunk.tolist(), itertools.pairwise(bounds), strict=True):
            inner = self.inner[first:last]
            low, high = int(inner.min()), int(inner.max())
            out.append((c, slice(low, high + 1, 1), inner - low, self.outer[first:last], False))
        return out


@dataclass(eq=False)
class ProductPlan:
    """A selection along the axes of a grid; not changed after it is made."""

    grid: Grid
    parts: tuple[Run | ListedAxisPlan, ...]
    full_shape: tuple[int, ...]  # that the engine fills, with length 1 for every integer
    # The index that makes the result of that: integers dropped, backward slices reversed.
    final: tuple[int | slice, ...]
    runs: bool = True  # every axis is a run, so that regions are boxes

    @cached_property
    def axes(self) -> tuple[AxisIntersection | ListedAxisPlan, ...]:
        """The intersection of each axis with the chunks."""
        pairs = zip(self.parts, self.grid.axes, strict=True)
        return tuple(
            intersect(axis, part.start, part.size, part.step) if isinstance(part, Run) else part
            for part, axis in pairs
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        pairs = zip(self.full_shape, self.final, strict=True)
        return tuple(n for n, f in pairs if isinstance(f, slice))

    @property
    def count(self) -> int:
        """The number of chunks touched."""
        return math.prod(map(len, self._spans() or self.axes))

    @property
    def whole(self) -> bool:
        """True if every chunk touched is selected in full."""
        for part, axis in zip(self.parts, self.grid.axes, strict=True):
            if not isinstance(part, Run):
                return False
            start, size, step, length = part
            end = start + size
            if size and (step != 1 or not axis.begins(start)):
                return False
            if size and end != length and not axis.begins(end):
                return False
        return True

    def chunks(self) -> Iterator[tuple[int, ...]]:
        """Yield the coordinates of every chunk touched, in the order of rows."""
        return itertools.product(*(self._spans() or (a.chunk.tolist() for a in self.axes)))

    def _spans(self) -> list[range] | None:
        """Return the chunks along each axis if they are without gaps, otherwise None."""
        spans: list[range] = []
        for part, axis in zip(self.parts, self.grid.axes, strict=True):
            least = axis.chunk if isinstance(axis, RegularAxis) else 1
            if not isinstance(part, Run) or part.step > least or not part.size:
                return None
            last = axis.chunk_of(part.start + (part.size - 1) * part.step)
            spans.append(range(axis.chunk_of(part.start), last + 1))
        return spans

    @property
    def last_chunk(self) -> tuple[int, ...]:
        """The largest chunk touched along each axis; 0 for listed positions, or without any."""
        last = (p.start + (p.size - 1) * p.step if isinstance(p, Run) else 0 for p in self.parts)
        return tuple(a.chunk_of(max(at, 0)) for a, at in zip(self.grid.axes, last, strict=True))

    @property
    def only_chunk(self) -> tuple[int, ...] | None:
        """The coordinates of the chunk touched, or None if there is not just one."""
        coords: list[int] = []
        for part, axis in zip(self.parts, self.grid.axes, strict=True):
            if not isinstance(part, Run) or not part.size:
                return None
            coords.append(axis.chunk_of(part.start))
            if axis.chunk_of(part.start + (part.size - 1) * part.step) != coords[-1]:
                return None
        return tuple(coords)

    def rows(self) -> Iterator[Row]:
        """Yield every chunk touched."""
        for parts in itertools.product(*map(_axis_rows, self.axes)):
            columns: Any = zip(*parts, strict=True) if parts else NO_AXES
            coords, region, picks, outer, whole = columns
            pick = None
            if not self.runs:
                boxes = zip(picks, (range(s.start, s.stop, s.step) for s in region), strict=True)
                pick = np.ix_(*(np.arange(len(box)) if p is None else p for p, box in boxes))
                outer = np.ix_(
                    *(np.arange(p.start, p.stop) if isinstance(p, slice) else p for p in outer)
                )
            yield Row(coords, region, pick, outer, all(whole))

    def to_full(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the result's shape as values of the full shape."""
        axes = (np.newaxis if isinstance(f, int) else f for f in self.final)
        index: Any = (*axes, ...)  # the ellipsis keeps a 0-dimensional array an array
        full: npt.NDArray[Any] = value[index]
        return full

    def result(self, full: npt.NDArray[Any]) -> Any:
        """Return the result, made of values of the full shape; a scalar if it has no axes."""
        return full[self.final]


def _axis_rows(axis: AxisIntersection | ListedAxisPlan) -> list[AxisRow]:
    if isinstance(axis, ListedAxisPlan):
        return axis.rows()
    return [(chunk, box, None, outer, whole) for chunk, box, outer, whole in axis.rows()]


@dataclass(frozen=True, slots=True, eq=False)
class PointPlan:
    """A selection of single points, sorted by chunk; the full shape has them in one row."""

    coords: Integers  # chunks touched × axes
    begin: Integers  # of a chunk's points in the columns below; one more for the end
    inner: Integers  # axes × points: position inside the chunk
    outer: Integers  # position in the result
    shape: tuple[int, ...]  # of the result

    runs: ClassVar[bool] = False

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape that the engine fills."""
        return (len(self.outer),)

    @property
    def count(self) -> int:
        """The number of chunks touched."""
        return len(self.coords)

    def chunks(self) -> Iterator[tuple[int, ...]]:
        """Yield the coordinates of every chunk touched, in the order of rows."""
        return map(tuple, self.coords.tolist())

    def positions(self, grid: Grid) -> Integers:
        """Return the position of each point along each axis, in the order of the result."""
        starts = [a.start(c) for a, c in zip(grid.axes, self.coords.T, strict=True)]
        found = np.empty_like(self.inner)
        found[:, self.outer] = self.inner
        if starts:
            found[:, self.outer] += np.repeat(starts, np.diff(self.begin), axis=1)
        return found

    def rows(self) -> Iterator[Row]:
        """Yield every chunk touched."""
        bounds = itertools.pairwise(self.begin.tolist())
        for chunk, (first, last) in zip(self.coords.tolist(), bounds, strict=True):
            inner = self.inner[:, first:last]
            low, high = inner.min(axis=1), inner.max(axis=1)
            region = tuple(
                slice(a, b + 1, 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)
            )
            pick = tuple(inner - low[:, None])
            yield Row(tuple(chunk), region, pick, (self.outer[first:last],), False)

    def to_full(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the result's shape in one row."""
        return value.reshape(-1)

    def result(self, full: npt.NDArray[Any]) -> Any:
        """Return the result, made of values of the full shape; a scalar if it has no axes."""
        return full.reshape(self.shape)[()]


Plan: TypeAlias = ProductPlan | PointPlan


def some_rows(plan: Plan, numbers: list[int]) -> list[Row]:
    """Return some of the rows of a plan, by their numbers."""
    wanted = set(numbers)
    return [row for number, row in enumerate(plan.rows()) if number in wanted]
