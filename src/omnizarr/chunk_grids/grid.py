"""A grid of chunks: one object an axis, regular or not.

Chunks at the upper border may reach over the edge of the array; what lies there is not data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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
