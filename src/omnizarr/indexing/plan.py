"""Plans: which part of which chunk goes where. Pure numbers, no store.

A selection along the axes is a `ProductPlan`: one set of columns an axis, and the chunks touched
are all their combinations. A selection of single points is a `PointPlan`: its columns have a row
for every point, sorted by chunk. Neither makes a Python object for an element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = "slice | Integers"


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


@dataclass(frozen=True, slots=True, eq=False)
class ProductPlan:
    """A selection along the axes, cut along the chunks.

    `full_shape` has an axis of length 1 for every integer; `final` turns such an array into
    what the user asked for: integers dropped, backward slices turned round.
    """

    axes: tuple[AxisPlan | ListedAxisPlan, ...]
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

    @property
    def runs(self) -> bool:
        """Whether every axis is a run, so that regions are boxes."""
        return all(isinstance(a, AxisPlan) for a in self.axes)

    def rows(self) -> Iterator[Row]:
        """Every chunk touched."""
        for parts in itertools.product(*(a.rows() for a in self.axes)):
            region = tuple(p[1] for p in parts)
            picks = tuple(p[2] for p in parts)
            outer: Any = tuple(p[3] for p in parts)
            pick = None
            if any(p is not None for p in picks):
                pick = np.ix_(*map(_choice, picks, region))
                outer = np.ix_(*map(_positions, outer))
            yield Row(tuple(p[0] for p in parts), region, pick, outer, all(p[4] for p in parts))

    @property
    def whole(self) -> bool:
        """Whether every chunk touched is selected in full."""
        for a in self.axes:
            # Quicker than to ask NumPy, which is slow to begin: a write of one chunk feels it.
            if not isinstance(a, AxisPlan) or b"\0" in a.whole.tobytes():
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
    def final(self) -> tuple[slice, ...]:
        """What turns the filled array into the result, before its shape is set."""
        return (slice(None),)

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


Plan: TypeAlias = ProductPlan | PointPlan
