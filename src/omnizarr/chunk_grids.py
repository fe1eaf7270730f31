"""Chunk grids: how an array is cut into chunks, and where a selection meets them.

``regular`` (version 3; the only grid of the older formats): all chunks have one shape,
``{"chunk_shape": [100, 100]}``. ``rectilinear`` (a registered extension of version 3): ``{"kind":
"inline", "chunk_shapes": [4, [1, 2, 3], [[4, 2]]]}``, for each axis one length for all chunks, or a
list of lengths and of runs ``[length, repeats]``.

Chunks at the upper border may reach over the edge of the array; what is stored there is not data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr._json import kind_of
from omnizarr.model import Named
from omnizarr.model.fields import Fields
from omnizarr.model.node import check_members, invalid

MAX_RUN = 2**26  # chunks along one axis in one intersection: a few GiB of columns
MAX_CHUNKS_PER_AXIS = 2**27
Integers: TypeAlias = npt.NDArray[np.int64]
Coords: TypeAlias = tuple[int, ...]
Region: TypeAlias = tuple[slice, ...]  # start, stop and a positive step for every axis


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """Return the grid of an array of that shape."""
    grid: Grid = registry.lookup("chunk_grid", named.name, "chunk_grid")(named, shape)
    return grid


def covering(named: Named, shape: tuple[int, ...], unit: tuple[int, ...] | None = None) -> Named:
    """Return the grid extended to cover a shape; a grid that covers it is not changed.

    A rectilinear grid gets one more chunk along an axis that is longer than its list, a multiple
    of `unit`, as the shape of chunks in a shard must be. A regular one with chunks of length 0,
    which older writers stored for axes without elements, gets chunks of one `unit`.
    """
    units = unit or (1,) * len(shape)
    if named.name == "regular":
        sizes = named.configuration.get("chunk_shape", ())
        if 0 not in sizes or len(sizes) != len(shape):
            return named
        new = [u if n and not s else s for n, s, u in zip(shape, sizes, units, strict=True)]
        return named.replace(chunk_shape=new)
    if named.name != "rectilinear":
        return named
    stated = list(named.configuration["chunk_shapes"])
    for axis, (sizes, length, step) in enumerate(zip(stated, shape, units, strict=True)):
        if isinstance(sizes, list):
            runs = _runs(sizes)
            short = length - sum(size * repeats for size, repeats in runs)
            if short > 0:
                new = -(-short // step) * step
                joined = bool(runs) and runs[-1][0] == new  # to the last run, which is as long
                stated[axis] = [*sizes[:-1], [new, runs[-1][1] + 1]] if joined else [*sizes, new]
    unchanged = stated == named.configuration["chunk_shapes"]
    return named if unchanged else named.replace(chunk_shapes=stated)


@dataclass(frozen=True, slots=True)
class RegularAxis:
    """Chunks of one length."""

    length: int
    chunk: int

    @property
    def count(self) -> int:
        """The number of chunks that hold elements of the array."""
        return -(-self.length // self.chunk) if self.length else 0

    def chunk_of(self, position: Any) -> Any:
        """Return the chunk that holds a position, or each of an array of positions."""
        return position // self.chunk

    def start(self, chunk: Any) -> Any:
        """Return the position of the first element of a chunk."""
        return chunk * self.chunk

    def size(self, chunk: Any) -> Any:
        """Return the length of a chunk, including the part over the edge of the array."""
        return self.chunk if isinstance(chunk, int) else np.full_like(chunk, self.chunk)

    def begins(self, position: int) -> bool:
        """Return True if a chunk starts at a position."""
        return position % self.chunk == 0


@dataclass(frozen=True, slots=True, eq=False)
class ListedAxis:
    """Chunks of given lengths."""

    length: int
    ends: Integers

    @property
    def count(self) -> int:
        if not self.length:
            return 0
        return int(np.searchsorted(self.ends, self.length - 1, side="right")) + 1

    def chunk_of(self, position: Any) -> Any:
        found = np.searchsorted(self.ends, position, side="right")
        return int(found) if isinstance(position, int) else found

    def start(self, chunk: Any) -> Any:
        starts = np.concatenate([[0], self.ends])[chunk]
        return int(starts) if isinstance(chunk, int) else starts

    def size(self, chunk: Any) -> Any:
        sizes = np.diff(self.ends, prepend=0)[chunk]
        return int(sizes) if isinstance(chunk, int) else sizes

    def begins(self, position: int) -> bool:
        return bool(self.start(self.chunk_of(position)) == position)


GridAxis: TypeAlias = RegularAxis | ListedAxis


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of an array."""

    axes: tuple[GridAxis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return tuple(a.count for a in self.axes)

    @property
    def count(self) -> int:
        """The number of chunks."""
        return math.prod(self.shape)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(a.length for a in self.axes)

    @property
    def regular(self) -> tuple[int, ...] | None:
        """The shape of all chunks, or None if they differ."""
        chunks = [a.chunk for a in self.axes if isinstance(a, RegularAxis)]
        return tuple(chunks) if len(chunks) == len(self.axes) else None

    def resized(self, shape: tuple[int, ...]) -> Grid | None:
        """Return the grid of an array of another shape, or None if the chunks differ in shape."""
        chunks = self.regular
        if chunks is None or len(chunks) != len(shape):
            return None
        return Grid(tuple(map(RegularAxis, shape, chunks)))

    def divided(self, chunks: tuple[int, ...]) -> Grid:
        """Return the grid of smaller chunks over the same array."""
        return Grid(tuple(map(RegularAxis, self.array_shape, chunks)))

    def chunk_shape(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Return the full shape of one chunk."""
        return tuple(a.size(c) for a, c in zip(self.axes, coords, strict=True))

    def origin(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """Return the position of a chunk's first element."""
        return tuple(a.start(c) for a, c in zip(self.axes, coords, strict=True))

    def inside(self, coords: Coords, shape: Coords | None = None) -> Coords:
        """Return the shape of the part of a chunk that is in the array, or in another shape."""
        shape = self.array_shape if shape is None else shape
        sides = zip(self.chunk_shape(coords), shape, self.origin(coords), strict=True)
        return tuple(min(size, end - start) for size, end, start in sides)

    def box(self, coords: Coords) -> Region:
        """Return the elements of the array that a chunk holds."""
        sides = zip(self.origin(coords), self.inside(coords), strict=True)
        return tuple(slice(start, start + size) for start, size in sides)

    def intersect(self, region: Region) -> Iterator[tuple[Coords, Region, Region]]:
        """Yield coordinates of touched chunks, the box there, and its box in the selection."""
        for parts in itertools.product(*(a.rows() for a in self.intersect_axes(region))):
            columns: Any = zip(*parts, strict=True) if parts else ((),) * 4
            coords, inside, outside, _ = columns
            yield coords, inside, outside

    def intersect_axes(self, region: Region) -> list[AxisIntersection]:
        """Return where a box meets the chunks, along each axis."""
        sizes = [len(range(s.start, s.stop, s.step)) for s in region]
        pairs = zip(self.axes, region, sizes, strict=True)
        return [intersect(axis, s.start, size, s.step) for axis, s, size in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class AxisIntersection:
    """The chunks that equally spaced positions along one axis touch: a row for each chunk."""

    chunk: Integers  # index in the grid
    inner: Integers  # the first element inside the chunk
    outer: Integers  # the first element in the result
    count: Integers  # the number of elements
    whole: npt.NDArray[np.bool_]  # true if that is all the chunk has of the array
    step: int

    def __len__(self) -> int:
        return len(self.chunk)

    def rows(self) -> list[tuple[int, slice, slice, bool]]:
        """Return each chunk's index, part of the chunk, part of the result, and if it is whole."""
        columns = (self.chunk, self.inner, self.outer, self.count, self.whole)
        step = self.step
        return [
            (c, slice(i, i + (n - 1) * step + 1, step), slice(o, o + n), w)
            for c, i, o, n, w in zip(*(column.tolist() for column in columns), strict=True)
        ]


def intersect(axis: GridAxis, start: int, size: int, step: int) -> AxisIntersection:
    """Return where `size` positions from `start` on, `step` apart, meet the chunks of an axis."""
    chunks = _chunks(axis, start, size, step)
    if len(chunks) == 1:  # most small reads
        begin = axis.start(number := int(chunks[0]))
        whole = step == 1 and size == min(axis.size(number), axis.length - begin)
        row = np.array((number, start - begin, 0, size), np.int64)
        return AxisIntersection(row[0:1], row[1:2], row[2:3], row[3:4], np.array([whole]), step)
    begins = np.asarray(axis.start(chunks), np.int64)
    ends = np.minimum(begins + axis.size(chunks), axis.length)
    # The first selected element at or after the start of a chunk, as a position in the result.
    outer = np.maximum(0, -((start - begins) // step))
    beyond = np.minimum(size, -((start - ends) // step))
    count = beyond - outer
    kept = count > 0
    inner = start + outer * step - begins
    whole = (count == ends - begins) & (step == 1)
    kept_rows = (chunks[kept], inner[kept], outer[kept], count[kept], whole[kept])
    return AxisIntersection(*kept_rows, step)


def _chunks(axis: GridAxis, start: int, size: int, step: int) -> Integers:
    """Return the chunks between the first and last position; of very many, only those touched."""
    if not size:
        return np.zeros(0, np.int64)
    last = start + (size - 1) * step
    first, end = int(axis.chunk_of(start)), int(axis.chunk_of(last)) + 1
    if end - first <= MAX_RUN:
        return np.arange(first, end, dtype=np.int64)
    found: Integers = np.unique(axis.chunk_of(start + step * np.arange(size, dtype=np.int64)))
    return found


def bind_regular(named: Named, shape: tuple[int, ...]) -> Grid:
    """Return the regular grid over an array of that shape."""
    check_members(named, "chunk grid", required=("chunk_shape",))
    fields = Fields("", named.configuration, [])
    chunks = fields.integers("chunk_shape")
    if not fields.problems:
        fields.check_chunks("chunk_shape", chunks, shape)
    for problem in fields.problems:
        raise invalid("chunk grid", named.name, problem.field, problem.message)
    return Grid(tuple(RegularAxis(n, max(1, c)) for n, c in zip(shape, chunks, strict=True)))


def bind_rectilinear(named: Named, shape: tuple[int, ...]) -> Grid:
    """Return the rectilinear grid over an array of that shape."""
    check_members(named, "chunk grid", required=("kind", "chunk_shapes"))
    if named.configuration["kind"] != "inline":
        kind = named.configuration["kind"]
        raise invalid("chunk grid", named.name, "kind", f"expected 'inline', got {kind_of(kind)}")
    stated = named.configuration["chunk_shapes"]
    if not isinstance(stated, list) or len(stated) != len(shape):
        message = f"expected a list with one entry for each of {len(shape)} axes"
        raise invalid("chunk grid", named.name, "chunk_shapes", message)
    return Grid(
        tuple(_axis(named, i, n, s) for i, (n, s) in enumerate(zip(shape, stated, strict=True)))
    )


def _axis(named: Named, number: int, length: int, stated: Any) -> GridAxis:
    where = f"chunk_shapes[{number}]"
    runs = _runs(stated if isinstance(stated, list) else [stated])
    for i, run in enumerate(runs):
        if len(run) != 2 or not all(type(n) is int and 1 <= n < 2**63 for n in run):
            place = f"{where}[{i}]" if isinstance(stated, list) else where
            message = f"expected a positive integer, or [length, repeats], got {run[:1]}"
            raise invalid("chunk grid", named.name, place, message)
    if not isinstance(stated, list):
        return RegularAxis(length, stated)
    count, total = sum(repeats for _, repeats in runs), sum(size * n for size, n in runs)
    if count > MAX_CHUNKS_PER_AXIS:
        message = f"{count} chunks along one axis are too many"
        raise invalid("chunk grid", named.name, where, message)
    if not length <= total < 2**63:
        message = f"the chunks cover {total} elements, but the axis has {length}"
        raise invalid("chunk grid", named.name, where, message)
    table = np.array(runs, np.int64).reshape(-1, 2)
    return ListedAxis(length, np.cumsum(np.repeat(table[:, 0], table[:, 1])))


def _runs(sizes: list[Any]) -> list[list[Any]]:
    """Return lengths of chunks as runs ``[length, repeats]``."""
    return [entry if isinstance(entry, list) else [entry, 1] for entry in sizes]


registry.register("chunk_grid", "regular", bind_regular)
registry.register("chunk_grid", "rectilinear", bind_rectilinear)
