"""Levels of an image in one streaming pass: each block of the source is read once.

The levels are cut into units of one shape, whole shards or chunks. A unit of a level is made from
the units of the finer level below it, and those from theirs, so at most one unit of each level is
in memory, and every chunk and shard is stored once. `gaussian` looks beyond the borders of a unit:
it reads those of the source again, and coarser levels from the stored finer one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnizarr import config
from omnizarr.engine.kernel import empty
from omnizarr.engine.rows import run_rows
from omnizarr.hierarchy.array import Array
from omnizarr.ops.downsample import Values, downsample, gaussian, gaussian_reach

Box = tuple[slice, ...]
Coords = tuple[int, ...]
Progress = Callable[[int, int, str], None]
UNIT_BYTES = 2**24


def level_shapes(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The shapes of all levels; `factors` has those from each level to the next."""
    shapes = [tuple(shape)]
    for each in factors:
        shapes.append(tuple(-(-n // f) for n, f in zip(shapes[-1], each, strict=True)))
    return shapes


def unit_shape(
    array: Array, factors: Sequence[Sequence[int]], target: int, blocks: Sequence[int] = ()
) -> tuple[int, ...]:
    """Whole shards or chunks of an array, and whole blocks of every factor: about `target` bytes.

    `blocks`, those of a source, are kept whole too where that does not take much more.
    """
    grid = array.shards or array.chunks
    unit = [
        _whole(math.lcm(int(c), *(f[i] for f in factors)), n)
        for i, (c, n) in enumerate(zip(grid, array.shape, strict=True))
    ]
    if blocks:
        sizes = zip(unit, blocks, array.shape, strict=True)
        wanted = [_whole(math.lcm(u, b), n) for u, b, n in sizes]
        if math.prod(wanted) * array.itemsize <= 4 * max(target, math.prod(unit) * array.itemsize):
            unit = wanted
    while math.prod(unit) * array.itemsize * 2 <= target:
        narrow = [i for i, n in enumerate(array.shape) if unit[i] < n]
        if not narrow:
            break
        least = min(narrow, key=lambda i: unit[i])
        unit[least] = _whole(unit[least] * 2, array.shape[least])
    return tuple(unit)


def _whole(unit: int, length: int) -> int:
    """`unit`, or all of a shorter axis."""
    return max(1, length) if unit >= length else unit


def _in_threads(values: Values, factors: tuple[int, ...], method: str, out: Values) -> None:
    """Make `values` smaller into `out`, in as many threads as reads and writes may use.

    For `gaussian` they have their surroundings around them.
    """
    axis = out.shape.index(max(out.shape))
    parts = min(config.get().threads, max(1, values.nbytes // 2**20), out.shape[axis])
    ends = [out.shape[axis] * i // parts for i in range(parts + 1)]
    at, f = (slice(None),) * axis, factors[axis]
    around = 2 * gaussian_reach(factors)[axis] if method == "gaussian" else 0

    def one(ends: tuple[int, int]) -> None:
        start, stop = ends
        part = values[(*at, slice(start * f, stop * f + around))]
        to = out[(*at, slice(start, stop))]
        if method == "gaussian":
            to[...] = gaussian(part, factors)
        else:
            downsample(part, factors, method, to)

    run_rows(itertools.pairwise(ends), parts, one, values.nbytes)


@dataclass
class Pyramid:
    """A source, and the arrays that it and its coarser versions go to."""

    source: Any  # anything with a shape that slicing turns into NumPy arrays
    levels: Sequence[Array]
    factors: Sequence[tuple[int, ...]]
    method: str
    unit: tuple[int, ...]
    progress: Progress | None = None
    stored: bool = False  # whether the source is the first level itself
    _done: int = field(default=0, init=False)

    def run(self) -> None:
        """Read, make smaller and store everything."""
        if self.method == "gaussian":
            self._run_gaussian()
            return
        top = len(self.levels) - 1
        for coords in self._units(top):
            self._make(top, coords)

    def _grid(self, level: int) -> tuple[int, ...]:
        shape = self.levels[level].shape
        return tuple(-(-n // u) for n, u in zip(shape, self.unit, strict=True))

    def _units(self, level: int) -> Iterator[Coords]:
        return itertools.product(*(range(n) for n in self._grid(level)))

    def _box(self, level: int, coords: Coords) -> Box:
        shape = self.levels[level].shape
        parts = zip(coords, self.unit, shape, strict=True)
        return tuple(slice(c * u, min((c + 1) * u, n)) for c, u, n in parts)

    def _make(self, level: int, coords: Coords) -> Values:
        """The values of one unit, stored there, made from all units below it."""
        box = self._box(level, coords)
        if level == 0:
            return self._source(box)
        factors = self.factors[level - 1]
        out = empty(tuple(s.stop - s.start for s in box), self.levels[level].dtype)
        below = self._grid(level - 1)
        ranges = (
            range(c * f, min((c + 1) * f, n))
            for c, f, n in zip(coords, factors, below, strict=True)
        )
        for child in itertools.product(*ranges):
            values = self._make(level - 1, child)
            sizes = [-(-n // f) for n, f in zip(values.shape, factors, strict=True)]
            parts = zip(child, self.unit, factors, box, strict=True)
            starts = [(c * u) // f - b.start for c, u, f, b in parts]
            at = tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))
            _in_threads(values, factors, self.method, out[at])
        self.levels[level][box] = out
        return out

    def _source(self, box: Box) -> Values:
        values = np.asarray(self.source[box])
        if not self.stored:
            self.levels[0][box] = values
        self._told(self._grid(0))
        return values.astype(self.levels[0].dtype, copy=False)

    def _told(self, grid: tuple[int, ...]) -> None:
        self._done += 1
        if self.progress is not None:
            self.progress(self._done, math.prod(grid), self.levels[0].name)

    def _run_gaussian(self) -> None:
        for coords in self._units(0) if len(self.levels) == 1 else ():
            self._source(self._box(0, coords))
        for level in range(1, len(self.levels)):
            for coords in self._units(level):
                self._blur(level, coords)

    def _blur(self, level: int, coords: Coords) -> None:
        """Store one unit of a level; for the first one also the source below it."""
        first = level == 1
        source = self.source if first else self.levels[level - 1]
        factors = self.factors[level - 1]
        box = self._box(level, coords)
        inner, outer, padding = [], [], []
        sizes = self.levels[level - 1].shape
        for b, f, r, n in zip(box, factors, gaussian_reach(factors), sizes, strict=True):
            low, high = b.start * f - r, b.stop * f + r
            inner.append(slice(b.start * f, min(b.stop * f, n)))
            outer.append(slice(max(0, low), min(high, n)))
            padding.append((max(0, -low), max(0, high - n)))
        values = np.asarray(source[tuple(outer)])
        if first:
            if not self.stored:
                own = tuple(
                    slice(i.start - o.start, i.stop - o.start)
                    for i, o in zip(inner, outer, strict=True)
                )
                self.levels[0][tuple(inner)] = values[own]
            values = values.astype(self.levels[0].dtype, copy=False)
            self._told(self._grid(1))
        out = empty(tuple(s.stop - s.start for s in box), self.levels[level].dtype)
        _in_threads(np.pad(values, padding, mode="edge"), factors, self.method, out)
        self.levels[level][box] = out


def fill_levels(
    source: Any,
    arrays: Sequence[Array],
    steps: Sequence[tuple[int, ...]],
    method: str,
    progress: Progress | None,
) -> None:
    """Store a source in the first array and its coarser versions in the others."""
    target = UNIT_BYTES
    if method == "gaussian" and steps:
        target //= int(np.prod(steps[0]))
    blocks = _blocks(source)
    unit = unit_shape(arrays[0], steps, target, blocks)
    stored = False
    if blocks and any(u % b and u < n for u, b, n in zip(unit, blocks, source.shape, strict=True)):
        _stage(source, arrays[0])
        source, stored = arrays[0], True
    Pyramid(source, arrays, steps, method, unit, progress, stored).run()


def _blocks(source: Any) -> tuple[int, ...]:
    """The largest block of a Dask array along each axis; empty for anything else."""
    if not hasattr(source, "__dask_graph__"):
        return ()
    return tuple(max(lengths, default=1) or 1 for lengths in source.chunks)


def _stage(source: Any, target: Array) -> None:
    """Store a Dask array block by block, so that each is computed once though units cut it."""
    ends = [np.cumsum([0, *lengths]).tolist() for lengths in source.chunks]
    with target.writer() as writer:
        for index in np.ndindex(*source.numblocks):
            box = tuple(slice(e[i], e[i + 1]) for e, i in zip(ends, index, strict=True))
            writer[box] = np.asarray(source.blocks[index])
