"""Part of a Blosc chunk from the blocks that hold it, the rest is neither fetched nor unpacked.

A Blosc-1 buffer is a header of 16 bytes, a table with the start of each block, and the blocks, in
any order. Each can be unpacked by itself, in a buffer that has only this one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numcodecs import blosc

from omnizarr.codecs.blosc_snappy import readable
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.steps import Steps
from omnizarr.errors import ChunkError
from omnizarr.stores import Range

LEAST = 2**18  # bytes of a chunk below which asking twice does not pay
MOST = 0.5  # of the blocks; for more the chunk is read whole
FIRST = 2**12  # bytes of the first request: header and table of up to a thousand blocks
Unpack: TypeAlias = Callable[[], npt.NDArray[np.uint8]]
_HEADER = struct.Struct("<BBBBIII")
_MEMCPY, _UNSPLIT = 0x02, 0x10


@dataclass(frozen=True, slots=True)
class Frame:
    """What a Blosc header says."""

    version: int
    inner_version: int
    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    stored: int

    @classmethod
    def parse(cls, data: Buffer, expected: int) -> Frame:
        """The header, checked against the size of the chunk."""
        if len(data) < _HEADER.size:
            raise ChunkError(f"{len(data)} bytes are too few for a Blosc header", codec="blosc")
        frame = cls(*_HEADER.unpack_from(data))
        if frame.nbytes != expected:
            raise ChunkError(
                f"the Blosc header says {frame.nbytes} bytes, expected {expected}", codec="blosc"
            )
        if not 0 < frame.blocksize <= frame.nbytes or frame.stored < frame.table_end:
            raise ChunkError("the Blosc header has impossible sizes of blocks", codec="blosc")
        return frame

    @property
    def blocks(self) -> int:
        return -(-self.nbytes // self.blocksize)

    @property
    def table_end(self) -> int:
        """Where the blocks begin."""
        return _HEADER.size + (0 if self.flags & _MEMCPY else 4 * self.blocks)

    def alone(self, number: int, data: Buffer) -> bytes:
        """A buffer that has one block only."""
        size = min(self.blocksize, self.nbytes - number * self.blocksize)
        flags = self.flags | (_UNSPLIT if size < self.blocksize else 0)  # as the short one is
        start = _HEADER.size + 4
        parts = (self.version, self.inner_version, flags, self.typesize)
        head = _HEADER.pack(*parts, size, size, start + len(data))
        return head + struct.pack("<I", start) + bytes(data)


def needed(shape: tuple[int, ...], itemsize: int, region: Region, frame: Frame) -> list[int]:
    """The blocks that hold some of a region of a chunk."""
    places = [np.arange(n, dtype=np.int64)[part] for n, part in zip(shape, region, strict=True)]
    if not all(len(p) for p in places):
        return []
    rows, stride = np.zeros(1, np.int64), itemsize * shape[-1]
    for size, place in zip(shape[-2::-1], places[-2::-1], strict=True):
        rows = (rows[:, None] + place * stride).reshape(-1)
        stride *= size
    first = (rows + places[-1].min() * itemsize) // frame.blocksize
    last = (rows + (places[-1].max() + 1) * itemsize - 1) // frame.blocksize
    marks = np.zeros(frame.blocks + 1, np.int64)
    np.add.at(marks, first, 1)
    np.add.at(marks, last + 1, -1)
    found: list[int] = np.flatnonzero(np.cumsum(marks)[:-1]).tolist()
    return found


@dataclass(frozen=True, slots=True)
class Blocks:
    """Some blocks of a chunk, as they are stored."""

    frame: Frame
    stored: list[tuple[int, Buffer]]

    def unpack(self) -> npt.NDArray[np.uint8]:
        """The chunk's bytes; those of other blocks are undefined."""
        out = np.empty(self.frame.nbytes, np.uint8)
        for number, data in self.stored:
            start = number * self.frame.blocksize
            _unpack(self.frame, number, data, out[start : start + self.frame.blocksize])
        return out


def steps(
    key: str, shape: tuple[int, ...], itemsize: int, region: Region, size: int
) -> Steps[Unpack | Buffer | None]:
    """What unpacks the blocks that a region of a chunk needs; None: absent.

    All stored bytes come back where it needs most of them, or where the value was replaced while
    it was read.
    """
    [head] = yield [(key, Range(0, FIRST))]
    if head is None:
        return None
    frame = Frame.parse(head, size)
    if len(head) == frame.stored:
        return head
    wanted = needed(shape, itemsize, region, frame)
    if len(wanted) <= MOST * frame.blocks:
        ranges = yield from _ranges(key, head, frame, wanted)
        *answers, again = yield [*((key, part) for part in ranges), (key, Range(0, FIRST))]
        if again == head:
            stored = []
            for number, part, data in zip(wanted, ranges, answers, strict=True):
                if data is None or len(data) != part.length:
                    raise ChunkError(f"the value ends within block {number}", codec="blosc")
                stored.append((number, data))
            return Blocks(frame, stored).unpack
    [data] = yield [(key, None)]
    return data


def _ranges(key: str, head: Buffer, frame: Frame, wanted: list[int]) -> Steps[list[Range]]:
    """Where the blocks are stored."""
    size = frame.blocksize
    if frame.flags & _MEMCPY:
        return [Range(_HEADER.size + n * size, min(size, frame.nbytes - n * size)) for n in wanted]
    table = memoryview(head)[_HEADER.size : frame.table_end]
    if len(table) < frame.table_end - _HEADER.size:
        [rest] = yield [(key, Range(_HEADER.size, frame.table_end - _HEADER.size))]
        table = memoryview(rest or b"")
    if len(table) != 4 * frame.blocks:
        raise ChunkError("the value ends within its table of blocks", codec="blosc")
    starts = np.frombuffer(table, "<u4").astype(np.int64)
    if starts.min() < frame.table_end or starts.max() >= frame.stored:
        raise ChunkError("the table of blocks leads outside the chunk", codec="blosc")
    edges = np.append(np.unique(starts), frame.stored)
    ends = edges[np.searchsorted(edges, starts, side="right")]
    return [Range(int(starts[n]), int(ends[n] - starts[n])) for n in wanted]


def _unpack(frame: Frame, number: int, data: Buffer, out: npt.NDArray[np.uint8]) -> None:
    if frame.flags & _MEMCPY:
        out[:] = np.frombuffer(data, np.uint8)
        return
    try:
        blosc.decompress(readable(frame.alone(number, data)), out)
    except (RuntimeError, ValueError) as e:
        raise ChunkError(f"codec 'blosc': decode: block {number}: {e}", codec="blosc") from e
