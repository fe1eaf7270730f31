"""The order of shuffled rows: numbers only, nothing is read.

Rows that are stored together are a block. The blocks are shuffled, and cut into windows of several
blocks each; the rows of a window are shuffled among themselves. So every window is read with few
large reads, and every chunk once. The order follows from the seed and the blocks alone; the
generator of random numbers is one whose results are the same in every version of NumPy.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from omnizarr.extension import Axis, Integers, RegularAxis

MIXED = 8  # blocks in a window, at least: what is stored together comes apart
MAX_BLOCKS = 2**20

Pick: TypeAlias = "range | Integers"


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Rows that are stored together."""

    bounds: Integers  # the first row of every block, and the end of the last
    rows: Integers | None = None  # the rows by number; None: they are those numbers

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.bounds[-1])


def find_blocks(pick: Pick, stored: Axis, chunks: Axis, most: int) -> Blocks:
    """Return the blocks of the rows at some positions of an axis.

    `stored` is the partition of the axis into shards, `chunks` that into chunks; a block has at
    most `most` rows, and ends with a shard or else with a chunk where that is possible.
    """
    axis = _limited(stored, chunks, most, len(pick))
    if isinstance(pick, range) and pick.step == 1:
        first, last = (int(axis.chunk_of(p)) for p in (pick.start, max(pick.start, pick.stop - 1)))
        starts = np.asarray(axis.start(np.arange(first + 1, last + 1)), np.int64)
        return Blocks(_cut(starts - pick.start, len(pick), most))
    positions = np.asarray(pick, np.int64)
    found = np.asarray(axis.chunk_of(positions), np.int64)
    rows = np.argsort(found, kind="stable")
    changes = np.flatnonzero(np.diff(found[rows])) + 1
    return Blocks(_cut(changes, len(pick), most), rows)


def equal_blocks(count: int, most: int) -> Blocks:
    """Return blocks of rows of which it is not known how they are stored."""
    size = max(most, -(-count // MAX_BLOCKS))
    return Blocks(_cut(np.empty(0, np.int64), count, size))


def _limited(stored: Axis, chunks: Axis, most: int, count: int) -> Axis:
    """Return the partition into shards, or into fewer rows where those are more than `most`."""
    if not isinstance(stored, RegularAxis):
        return stored
    size = stored.chunk
    if size > most:
        inner = chunks.chunk if isinstance(chunks, RegularAxis) else 1
        size = most // inner * inner if inner <= most else most
    blocks = math.ceil(count / size)
    size *= max(1, math.ceil(blocks / MAX_BLOCKS))
    return RegularAxis(stored.length, size)


def _cut(inner: Integers, count: int, most: int) -> Integers:
    """Return the bounds of blocks, with more of them where blocks have more than `most` rows."""
    found = np.concatenate([[0], inner, [count]]).astype(np.int64)
    sizes = np.diff(found)
    if sizes.max() <= most or len(sizes) >= MAX_BLOCKS:
        return found
    pieces = [np.arange(a, b, most) for a, b in itertools.pairwise(found)]
    return np.append(np.concatenate(pieces), found[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The rows of one worker in the order in which they are given."""

    blocks: Blocks
    seed: int
    shuffled: Integers  # the numbers of the blocks in their order
    ends: Integers  # of those blocks: the number of rows up to the end of each
    bounds: Integers  # of the worker's windows, among all rows in this order

    @property
    def count(self) -> int:
        """The number of rows of this worker."""
        return int(self.bounds[-1] - self.bounds[0])

    def window_of(self, row: int) -> int:
        """Return the number of the window that has a row of this worker."""
        return int(np.searchsorted(self.bounds, self.bounds[0] + row, side="right")) - 1

    def span(self, window: int) -> tuple[int, int]:
        """Return the first row of a window among those of this worker, and the end."""
        first, last = self.bounds[window : window + 2] - self.bounds[0]
        return int(first), int(last)

    def rows(self, window: int) -> tuple[Integers, Integers]:
        """Return the rows of a window as they are stored, and the order in which they are given."""
        begin, end = self.bounds[window : window + 2]
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.ends, end, side="left")) + 1
        numbers = self.shuffled[first:last]
        low, high = self.blocks.bounds[numbers], self.blocks.bounds[numbers + 1]
        high[-1] -= self.ends[last - 1] - end
        low[0] = high[0] - (min(self.ends[first], end) - begin)
        parts = sorted(zip(low.tolist(), high.tolist(), strict=True))
        rows = np.concatenate([np.arange(a, b) for a, b in parts])
        if self.blocks.rows is not None:
            rows = self.blocks.rows[rows]
        return rows, _generator(self.seed, 1, int(begin)).permutation(len(rows))


def shuffle(blocks: Blocks, window: int, seed: int, worker: int, workers: int) -> Order:
    """Return the order of one worker's rows, in windows of at most so many rows.

    All workers have the same number of rows, or one more or less, and none has one of another.
    """
    sizes = np.diff(blocks.bounds)
    shuffled = _generator(seed, 0).permutation(len(sizes))
    ends = np.cumsum(sizes[shuffled])
    begin = blocks.count * worker // workers
    end = blocks.count * (worker + 1) // workers
    bounds = [begin]
    while bounds[-1] < end:
        after = int(np.searchsorted(ends, bounds[-1] + window, side="right")) - 1
        whole = int(ends[after]) if after >= 0 else 0
        bounds.append(min(end, whole if whole > bounds[-1] else bounds[-1] + window))
    return Order(blocks, seed, shuffled, ends, np.array(bounds, np.int64))


def _generator(*seeds: int) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seeds)))
