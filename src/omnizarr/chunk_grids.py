"""Chunk grids: regular and rectilinear, and how they are bound.

Chunks at the upper border may reach over the edge of the array; what lies there is not data.
Specification: chunk grid ``regular`` of version 3; the only grid of the other formats.
Configuration: ``{"chunk_shape": [100, 100]}``.
Specification: registered chunk grid ``rectilinear`` of version 3.
Configuration: ``{"kind": "inline", "chunk_shapes": [4, [1, 2, 3], [[4, 2]]]}``: one length for
all, a list of lengths, or runs ``[length, repeats]`` inside such a list.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr._json import kind_of
from omnizarr.errors import Problem
from omnizarr.model import Named
from omnizarr.model.fields import Fields
from omnizarr.model.node import check_members, invalid

Integers = npt.NDArray[np.int64]


class Axis(Protocol):
    """How one axis of an array is cut into chunks."""

    @property
    def length(self) -> int:
        """The length of the array along this axis."""

    @property
    def count(self) -> int:
        """How many chunks hold elements of the array."""

    def chunk_of(self, position: Any) -> Any:
        """The chunk that holds a position, or each of an array of positions."""

    def start(self, chunk: Any) -> Any:
        """Where a chunk starts."""

    def size(self, chunk: Any) -> Any:
        """How long a chunk is, including what lies over the edge."""

    def begins(self, position: int) -> bool:
        """Whether a chunk starts at a position."""


@dataclass(frozen=True, slots=True)
class RegularAxis:
    """Chunks of one length."""

    length: int
    chunk: int

    @property
    def count(self) -> int:
        return -(-self.length // self.chunk) if self.length else 0

    def chunk_of(self, position: Any) -> Any:
        return position // self.chunk

    def start(self, chunk: Any) -> Any:
        return chunk * self.chunk

    def size(self, chunk: Any) -> Any:
        return self.chunk if isinstance(chunk, int) else np.full_like(chunk, self.chunk)

    def begins(self, position: int) -> bool:
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


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of an array."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return tuple(a.count for a in self.axes)

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return math.prod(self.shape)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(a.length for a in self.axes)

    @property
    def regular(self) -> tuple[int, ...] | None:
        """The one shape of all chunks, or None."""
        chunks = tuple(a.chunk for a in self.axes if isinstance(a, RegularAxis))
        return chunks if len(chunks) == len(self.axes) else None

    def resized(self, shape: tuple[int, ...]) -> Grid | None:
        """The grid of an array of another shape; None where chunks are not of one shape."""
        chunks = self.regular
        if chunks is None or len(chunks) != len(shape):
            return None
        return Grid(tuple(map(RegularAxis, shape, chunks)))

    def chunk_shape(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """The full shape of one chunk."""
        return tuple(a.size(c) for a, c in zip(self.axes, coords, strict=True))

    def origin(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        """The position of a chunk's first element."""
        return tuple(a.start(c) for a, c in zip(self.axes, coords, strict=True))


def bind_regular(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid over an array of that shape."""
    check_members(named, "chunk grid", required=("chunk_shape",))
    problems: list[Problem] = []
    fields = Fields("", named.configuration, problems)
    chunks = fields.integers("chunk_shape")
    if problems:
        raise invalid("chunk grid", named.name, problems[0].field, problems[0].message)
    if len(chunks) != len(shape):
        message = f"has {len(chunks)} entries, but shape has {len(shape)}"
        raise invalid("chunk grid", named.name, "chunk_shape", message)
    for i, (chunk, length) in enumerate(zip(chunks, shape, strict=True)):
        if chunk == 0 and length:
            message = "a chunk cannot have length 0 where the array does not"
            raise invalid("chunk grid", named.name, f"chunk_shape[{i}]", message)
    return Grid(tuple(RegularAxis(n, max(1, c)) for n, c in zip(shape, chunks, strict=True)))


MAX_CHUNKS_AN_AXIS = 2**27


def bind_rectilinear(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid over an array of that shape."""
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


def _axis(named: Named, number: int, length: int, stated: Any) -> Axis:
    where = f"chunk_shapes[{number}]"

    def positive(value: Any, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
            message = f"expected a positive integer, got {kind_of(value)}"
            raise invalid("chunk grid", named.name, place, message)
        return value

    if not isinstance(stated, list):
        return RegularAxis(length, positive(stated, where))
    sizes: list[int] = []
    repeats: list[int] = []
    for i, entry in enumerate(stated):
        place = f"{where}[{i}]"
        if isinstance(entry, list):
            if len(entry) != 2:
                raise invalid("chunk grid", named.name, place, "expected [length, repeats]")
            sizes.append(positive(entry[0], place))
            repeats.append(positive(entry[1], place))
        else:
            sizes.append(positive(entry, place))
            repeats.append(1)
    if sum(repeats) > MAX_CHUNKS_AN_AXIS:
        message = f"{sum(repeats)} chunks along one axis are too many"
        raise invalid("chunk grid", named.name, where, message)
    total = sum(s * r for s, r in zip(sizes, repeats, strict=True))
    if not length <= total < 2**63:
        message = f"the chunks cover {total} elements, but the axis has {length}"
        raise invalid("chunk grid", named.name, where, message)
    return ListedAxis(length, np.cumsum(np.repeat(np.array(sizes, np.int64), repeats)))


def cover_rectilinear(named: Named, shape: tuple[int, ...], unit: tuple[int, ...]) -> Named:
    """The grid with one more chunk along each axis whose list ends before the array does."""
    before = named.configuration["chunk_shapes"]
    stated = list(before)
    for axis, (sizes, length, step) in enumerate(zip(stated, shape, unit, strict=True)):
        if isinstance(sizes, list):
            runs = [entry if isinstance(entry, list) else [entry, 1] for entry in sizes]
            short = length - sum(size * repeats for size, repeats in runs)
            if short > 0:
                stated[axis] = _with_chunk(sizes, -(-short // step) * step)
    return named if stated == before else named.replace(chunk_shapes=stated)


def _with_chunk(sizes: list[Any], size: int) -> list[Any]:
    """The list with a chunk at its end, which is counted where the last ones are as long."""
    *rest, last = sizes or [None]
    if isinstance(last, list) and last[0] == size:
        return [*rest, [size, last[1] + 1]]
    return [*rest, [size, 2]] if last == size else [*sizes, size]


__all__ = ["Axis", "Grid", "ListedAxis", "RegularAxis", "bind", "covering"]

registry.register("chunk_grid", "regular", bind_regular)
registry.register("chunk_grid", "rectilinear", bind_rectilinear)


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid of an array of that shape."""
    grid: Grid = registry.lookup("chunk_grid", named.name, "chunk_grid")(named, shape)
    return grid


def covering(named: Named, shape: tuple[int, ...], unit: tuple[int, ...] | None = None) -> Named:
    """Return the grid with chunks for all of a shape; one that covers it stays as it is.

    A rectilinear grid gets one more chunk along an axis that is longer than its list, a multiple
    of `unit`, as the shape of chunks in a shard must be.
    """
    if named.name != "rectilinear":
        return named
    return cover_rectilinear(named, shape, unit or (1,) * len(shape))
