"""Boxes of whole chunks: an array, or a part of it, cut into parts of a limited size.

No two boxes have elements of the same chunk, so that each chunk is read or written once, and boxes
can be written at the same time without locks. Pure numbers: nothing is read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from omnizarr.chunk_grids import GridAxis, RegularAxis

Box: TypeAlias = tuple[slice, ...]
Coords: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cuts:
    """An axis, or a stretch of it, cut into parts of `step` whole chunks."""

    axis: GridAxis
    step: int = 1
    begin: int = 0
    end: int | None = None  # of the stretch; None for that of the axis

    @property
    def stop(self) -> int:
        """The end of the stretch."""
        return self.axis.length if self.end is None else self.end

    @property
    def first(self) -> int:
        """The number of the first chunk."""
        return int(self.axis.chunk_of(self.begin)) if self.begin else 0

    @property
    def chunks(self) -> int:
        """The number of chunks in all parts."""
        if self.stop <= self.begin:
            return 0
        return int(self.axis.chunk_of(self.stop - 1)) - self.first + 1

    @property
    def count(self) -> int:
        """The number of parts."""
        return -(-self.chunks // self.step)

    def chunks_in(self, number: int) -> range:
        """Return the numbers of the chunks of one part."""
        start = self.first + number * self.step
        return range(start, min(start + self.step, self.first + self.chunks))

    def part(self, number: int) -> slice:
        """Return one part, in elements of the array."""
        found = self.chunks_in(number)
        start, after = int(self.axis.start(found.start)), found.stop - self.first
        stop = self.stop if after >= self.chunks else int(self.axis.start(found.stop))
        return slice(max(self.begin, start), stop)

    @property
    def longest(self) -> int:
        """The number of elements of the longest part."""
        if isinstance(self.axis, RegularAxis):
            return max(0, min(self.axis.chunk * self.step, self.stop - self.begin))
        starts = np.arange(self.first, self.first + self.chunks, self.step)
        edges = np.maximum(np.asarray(self.axis.start(starts), np.int64), self.begin)
        return int(np.diff(edges, append=self.stop).max(initial=0))


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of whole chunks in C order; the cuts along each axis determine them."""

    cuts: tuple[Cuts, ...]

    @property
    def counts(self) -> Coords:
        """The number of boxes along each axis."""
        return tuple(cuts.count for cuts in self.cuts)

    @property
    def count(self) -> int:
        """The number of boxes."""
        return math.prod(self.counts)

    @property
    def axes(self) -> tuple[GridAxis, ...]:
        """The axes that are cut."""
        return tuple(cuts.axis for cuts in self.cuts)

    @property
    def largest(self) -> int:
        """The number of elements of the largest box."""
        return math.prod(cuts.longest for cuts in self.cuts)

    def at(self, coords: Sequence[int]) -> Box:
        """Return one box by its numbers along the axes."""
        return tuple(cuts.part(n) for cuts, n in zip(self.cuts, coords, strict=True))

    def chunks_in(self, coords: Sequence[int]) -> tuple[range, ...]:
        """Return the numbers of the chunks of one box along each axis."""
        return tuple(cuts.chunks_in(n) for cuts, n in zip(self.cuts, coords, strict=True))

    def coords(self) -> Iterator[Coords]:
        """Yield the numbers of all boxes along the axes."""
        return itertools.product(*map(range, self.counts))

    def __iter__(self) -> Iterator[Box]:
        return map(self.at, self.coords())


def cut(
    axes: Sequence[GridAxis], items: int, region: Box | None = None, chunks: int | None = None
) -> Boxes:
    """Cut an array, or a region of it, into boxes of at most `items` elements, or of one chunk.

    Boxes are long along the last axes, so that each consists of few contiguous runs in memory.
    `chunks` limits the number of chunks in a box.
    """
    ends = region or tuple(slice(0, axis.length) for axis in axes)
    whole = [Cuts(axis, 1, side.start, side.stop) for axis, side in zip(axes, ends, strict=True)]
    spare = max(1, items // max(1, math.prod(cuts.longest for cuts in whole)))
    spare = spare if chunks is None else min(spare, chunks)
    found: list[Cuts] = []
    for cuts in reversed(whole):
        step = max(1, min(cuts.chunks, spare))
        spare //= step
        found.append(Cuts(cuts.axis, step, cuts.begin, cuts.end))
    return Boxes(tuple(reversed(found)))


def box_size(box: Box) -> int:
    """Return the number of elements in a box."""
    return math.prod(side.stop - side.start for side in box)
