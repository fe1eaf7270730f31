"""blosc: Blosc-1 buffers.

A buffer has a header of 16 bytes, a table with the start of each block, and the blocks in any
order, each shuffled and compressed on its own. So part of a large chunk is read by fetching the
blocks that it needs, each decompressed in a buffer that has only this one.

The library of numcodecs does the work, except for snappy, which it lacks: chunks of programs up to
2021 may have it, and no library that we install reads it any more. The kernel reads and writes it;
here it is read in Python: the streams of a buffer are decompressed and put into a buffer that holds
them as they are, of which the library then undoes the shuffle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from numcodecs import blosc

from omnizarr.codecs.codec import (
    Buffer,
    BytesBytesCodec,
    Region,
    as_bytes_array,
    check_memory,
    limit_of,
)
from omnizarr.codecs.pipeline import Requests
from omnizarr.errors import CannotExpress, ChunkError
from omnizarr.model import Named
from omnizarr.stores import Range

COMPRESSORS = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
MIN_SIZE = 2**18  # bytes of a chunk below which a second request does not pay
MAX_SHARE = 0.5  # of the blocks; for more the chunk is read whole
FIRST = 2**12  # bytes of the first request: header and table of up to a thousand blocks
Decompress: TypeAlias = Callable[[], npt.NDArray[np.uint8]]

_HEADER = struct.Struct("<BBBBIII")  # version, inner version, flags, typesize, and three sizes
_SIZES = struct.Struct("<III")  # decompressed, of a block and stored; in the header from byte 4 on
_WORD = struct.Struct("<I")
_STORED, _UNSPLIT = 2, 16  # flags
_LZ4, _SNAPPY = 1 << 5, 2 << 5  # compressors in the flags
_ZSTD = 4  # the number of the compressor, in the upper bits of the flags
_LARGEST_BLOCK = 2**22  # bytes of the largest block that Blosc chooses
_EXTRA = 2**16  # bytes of memory that it needs besides
_MIN_SPLIT = 128  # items of a block whose bytes are split into streams

# Threads are the engine's; on the main thread Blosc would start its own. Its lock is made here: at
# the first chunk it would import, which a signal handler must not do in the middle of an import.
# From numcodecs 0.17 on it exists already.
blosc.use_threads = False
if hasattr(blosc, "get_mutex"):
    blosc.get_mutex()


# The codec


@dataclass(frozen=True, slots=True)
class NumcodecsBlosc(BytesBytesCodec):
    """Blosc, as ``blosc`` in versions 1 and 2.

    ``{"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}``; the shuffle is a number (0
    none, 1 bytes, 2 bits, -1 by item size), and the item size is that of the array.
    ``numcodecs.blosc`` in version 3.

    Attributes:
        cname: The compressor: ``"lz4"``, ``"lz4hc"``, ``"blosclz"``, ``"snappy"``, ``"zlib"`` or
            ``"zstd"``.
        clevel: 0 (none) to 9 (smallest).
        shuffle: 0 (none), 1 (bytes), 2 (bits) or -1 (by the size of items).
        blocksize: The bytes of a block; 0 for the library's choice.
        typesize: The bytes of an item; by default that of the array.

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.Blosc(cname="zstd"), zarr_format=2)
        >>> a.codecs[-1].configuration["cname"]
        'zstd'
    """

    cname: str = "lz4"
    clevel: int = 5
    shuffle: int | str | None = 1
    blocksize: int = 0
    typesize: int | None = None

    name: ClassVar[str] = "numcodecs.blosc"
    borrows: ClassVar[bool] = True
    min_size_of_block_reads: ClassVar[int] = MIN_SIZE

    def __post_init__(self) -> None:
        self._check_common()
        self.check_integer("shuffle", -1, 2)

    def _check_common(self) -> None:
        self.check("cname", self.cname in COMPRESSORS, f"one of {', '.join(COMPRESSORS)}")
        self.check_integer("clevel", 0, 9)
        self.check_integer("blocksize", 0, 2**31 - 1)
        if self.typesize is not None:
            self.check_integer("typesize", 1, 2**31 - 1)

    def for_items(self, itemsize: int) -> Self:
        """Return the codec with a typesize; the item size fills in a missing one."""
        return self if self.typesize else replace(self, typesize=max(1, itemsize))

    def shuffle_code(self) -> int:
        """Return the shuffle as Blosc numbers it."""
        assert isinstance(self.shuffle, int)  # noqa: S101 - __post_init__ checked it
        if self.shuffle == -1:
            return 2 if self.typesize in (None, 1) else 1
        return self.shuffle

    def encode(self, data: Buffer) -> Buffer:
        if len(data) > blosc.MAX_BUFFERSIZE:
            raise ValueError(f"a Blosc chunk holds at most {blosc.MAX_BUFFERSIZE} bytes")
        # Blosc keeps the item size in one byte and takes larger ones as 1.
        size = self.typesize or 1
        if self.cname == "snappy":
            raise CannotExpress(
                "snappy is written by the compiled kernel only, to files and to memory; choose"
                " another cname, such as 'lz4'"
            )
        check_memory(len(data) + 2 * min(len(data), self.blocksize or _LARGEST_BLOCK) + _EXTRA)
        return bytes(
            blosc.compress(
                as_bytes_array(data),
                self.cname.encode(),
                self.clevel,
                self.shuffle_code(),
                self.blocksize,
                typesize=size if size < 256 else 1,
            )
        )

    @staticmethod
    def read_blocks(
        key: str, shape: tuple[int, ...], itemsize: int, region: Region, size: int
    ) -> Requests[Decompress | Buffer | None]:
        """Fetch the blocks that a region of a chunk needs, and return their decompressor.

        None is returned if the chunk is missing, and all stored bytes if most of them are needed or
        the value was replaced while it was read.
        """
        [head] = yield [(key, Range(0, FIRST))]
        if head is None:
            return None
        frame = Frame.parse(head, size)
        if len(head) == frame.stored:
            return head
        wanted = needed_blocks(shape, itemsize, region, frame)
        if len(wanted) <= MAX_SHARE * frame.blocks:
            ranges = yield from _ranges(key, head, frame, wanted)
            *answers, again = yield [*((key, part) for part in ranges), (key, Range(0, FIRST))]
            if again == head:
                blocks: dict[int, Buffer] = {}
                for number, part, data in zip(wanted, ranges, answers, strict=True):
                    if data is None or len(data) != part.length:
                        raise ChunkError(f"the value ends within block {number}", codec="blosc")
                    blocks[number] = data
                return partial(frame.decompress, blocks)
        [data] = yield [(key, None)]
        return data

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return bytes(_decompress(data, size, None))

    def decode_into(self, data: Buffer, out: npt.NDArray[np.uint8]) -> None:
        _decompress(data, len(out), out)


@dataclass(frozen=True, slots=True)
class Blosc(NumcodecsBlosc):
    """Blosc, as ``blosc`` of version 3 and ``…/codecs/blosc/1.0`` of its draft.

    ``{"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}``. A new
    array chooses what is None here by the size of its items.

    Attributes:
        cname: The compressor: ``"lz4"``, ``"lz4hc"``, ``"blosclz"``, ``"snappy"``, ``"zlib"`` or
            ``"zstd"``.
        clevel: 0 (none) to 9 (smallest).
        shuffle: ``"noshuffle"``, ``"shuffle"`` (bytes) or ``"bitshuffle"``.
        typesize: The bytes of an item.
        blocksize: The bytes of a block; 0 for the library's choice.

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.BloscCodec(cname="lz4"))
        >>> a.codecs[-1].configuration["cname"]
        'lz4'
    """

    cname: str = "zstd"
    clevel: int = 5
    shuffle: str | None = None
    typesize: int | None = None
    blocksize: int = 0

    name: ClassVar[str] = "blosc"
    borrows: ClassVar[bool] = True
    stated: ClassVar[tuple[str, ...]] = ("cname", "clevel", "shuffle")

    def __post_init__(self) -> None:
        self._check_common()
        good = self.shuffle in (None, *SHUFFLES)
        self.check("shuffle", good, f"one of {', '.join(SHUFFLES)}")

    @classmethod
    def bind(cls, named: Named) -> Self:
        codec = super(Blosc, cls).bind(named)  # a bare super() fails in a class with slots
        codec.check("shuffle", codec.shuffle is not None, f"one of {', '.join(SHUFFLES)}")
        good = codec.typesize is not None or codec.shuffle == "noshuffle"
        codec.check("typesize", good, f"a positive integer, needed for {codec.shuffle!r}")
        return codec

    def shuffle_code(self) -> int:
        if self.shuffle is None:
            return 2 if self.typesize in (None, 1) else 1
        return SHUFFLES[self.shuffle]


def _decompress(data: Buffer, size: int | None, out: npt.NDArray[np.uint8] | None) -> bytes:
    """Return the decompressed bytes, or fill `out` with them."""
    if len(data) < 16:
        raise ValueError(f"{len(data)} bytes are too few for a Blosc header")
    stated, block, whole = _SIZES.unpack_from(data, 4)
    limit = limit_of(size)
    if stated > limit or (size is not None and stated != size):
        raise ValueError(f"the Blosc header says {stated} bytes, expected {limit}")
    if whole != len(data):
        raise ValueError(f"the Blosc header says {whole} stored bytes, there are {len(data)}")
    check_memory(2 * min(block, stated) + (stated if out is None else 0) + _EXTRA)
    try:
        found: bytes = blosc.decompress(as_bytes_array(without_snappy(data)), out)
        return found
    except RuntimeError as e:
        hint = ""
        if data[2] >> 5 == _ZSTD:
            hint = "; zstd frames from before version 0.8 (2016) cannot be read any more"
        raise ValueError(f"{e}{hint}") from None


# Single blocks


@dataclass(frozen=True, slots=True)
class Frame:
    """The header of a Blosc buffer."""

    version: int
    inner_version: int
    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    stored: int

    @classmethod
    def parse(cls, data: Buffer, expected: int) -> Frame:
        """Return the header, checked against the size of the chunk."""
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
        """The offset of the first block."""
        return _HEADER.size + (0 if self.flags & _STORED else 4 * self.blocks)

    def decompress(self, blocks: dict[int, Buffer]) -> npt.NDArray[np.uint8]:
        """Return the chunk's bytes with these blocks decompressed; the others are undefined."""
        out = np.empty(self.nbytes, np.uint8)
        for number, data in blocks.items():
            part = out[number * self.blocksize :][: self.blocksize]
            if self.flags & _STORED:
                part[:] = np.frombuffer(data, np.uint8)
                continue
            # In a buffer that has this block only; the last, short one is never split.
            flags = self.flags | (_UNSPLIT if len(part) < self.blocksize else 0)
            start = _HEADER.size + 4
            sizes = len(part), len(part), start + len(data)
            head = _HEADER.pack(self.version, self.inner_version, flags, self.typesize, *sizes)
            try:
                blosc.decompress(without_snappy(head + _WORD.pack(start) + bytes(data)), part)
            except (RuntimeError, ValueError) as e:
                message = f"codec 'blosc': decode: block {number}: {e}"
                raise ChunkError(message, codec="blosc") from e
        return out


def needed_blocks(shape: tuple[int, ...], itemsize: int, region: Region, frame: Frame) -> list[int]:
    """Return the numbers of the blocks that hold some of a region of a chunk."""
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


def _ranges(key: str, head: Buffer, frame: Frame, wanted: list[int]) -> Requests[list[Range]]:
    """Return the byte ranges of blocks."""
    size = frame.blocksize
    if frame.flags & _STORED:
        return [Range(_HEADER.size + n * size, min(size, frame.nbytes - n * size)) for n in wanted]
    table = memoryview(head)[_HEADER.size : frame.table_end]
    if len(table) < frame.table_end - _HEADER.size:
        [rest] = yield [(key, Range(_HEADER.size, frame.table_end - _HEADER.size))]
        table = memoryview(rest or b"")
    if len(table) != 4 * frame.blocks:
        raise ChunkError("the value ends within its table of blocks", codec="blosc")
    starts = np.frombuffer(table, "<u4").astype(np.int64)
    if starts.min() < frame.table_end or starts.max() >= frame.stored:
        raise ChunkError("the table of blocks points outside the chunk", codec="blosc")
    edges = np.append(np.unique(starts), frame.stored)
    ends = edges[np.searchsorted(edges, starts, side="right")]
    return [Range(int(starts[n]), int(ends[n] - starts[n])) for n in wanted]


# Buffers with snappy


def without_snappy(buffer: Buffer) -> Buffer:
    """Return a buffer that numcodecs can read: the same one, unless snappy compressed it."""
    if len(buffer) < _HEADER.size or buffer[2] & 0xE0 != _SNAPPY:
        return buffer
    version, inner, flags, *rest = _HEADER.unpack_from(buffer)
    typesize, nbytes, blocksize, stored = rest
    flags = flags & 0x1F | _LZ4
    if flags & _STORED:
        return _HEADER.pack(version, inner, flags, *rest) + bytes(buffer[_HEADER.size :])
    count = -(-nbytes // blocksize) if blocksize else 0
    if not 0 < blocksize <= nbytes or _HEADER.size + 4 * count > min(stored, len(buffer)):
        raise ValueError("the Blosc header has impossible sizes of blocks")
    split = not flags & _UNSPLIT and 0 < typesize <= 16 and blocksize // typesize >= _MIN_SPLIT
    parts, table, at = list[bytes](), list[int](), _HEADER.size + 4 * count
    for i in range(count):
        length = min(blocksize, nbytes - i * blocksize)
        streams = typesize if split and length == blocksize else 1
        start = _WORD.unpack_from(buffer, _HEADER.size + 4 * i)[0]
        block = _decompress_streams(buffer, start, streams, length // streams)
        table.append(at)
        parts.append(block)
        at += len(block)
    sizes = _HEADER.pack(version, inner, flags, typesize, nbytes, blocksize, at)
    return b"".join([sizes, struct.pack(f"<{count}I", *table), *parts])


def _decompress_streams(buffer: Buffer, at: int, streams: int, length: int) -> bytes:
    """Return a block with all its streams decompressed."""
    out = []
    for _ in range(streams):
        if at + 4 > len(buffer):
            raise ValueError("the table of blocks points outside the chunk")
        packed = _WORD.unpack_from(buffer, at)[0]
        data = buffer[at + 4 : at + 4 + packed]
        if not packed or len(data) != packed:  # snappy may make it longer than it was
            raise ValueError("a stream points outside the chunk")
        plain = bytes(data) if packed == length else snappy_decompress(data, length)
        out += [_WORD.pack(length), plain]
        at += 4 + packed
    return b"".join(out)


def snappy_decompress(data: Buffer, size: int) -> bytes:
    """Return the `size` bytes that were compressed."""
    stated, at = _length(data)
    if stated != size:
        raise ValueError(f"snappy: the stream says {stated} bytes, expected {size}")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        kind, count = tag & 3, (tag >> 2) + 1
        at += 1
        if kind == 0:
            wide = max(0, count - 60)  # bytes of the length, where it does not fit the tag
            if wide:
                count = int.from_bytes(data[at : at + wide], "little") + 1
                at += wide
            literal = data[at : at + count]
            if len(literal) != count or len(out) + count > size:
                raise ValueError("snappy: a literal points outside the data")
            out += literal
            at += count
            continue
        wide = (1, 2, 4)[kind - 1]
        back = int.from_bytes(data[at : at + wide], "little")
        if kind == 1:
            back, count = back + (tag >> 5 << 8), (tag >> 2 & 7) + 4
        if at + wide > len(data) or not 0 < back <= len(out) or len(out) + count > size:
            raise ValueError("snappy: a copy points outside the data")
        at += wide
        piece = out[-back:][:count]
        out += (piece * -(-count // len(piece)))[:count]
    if len(out) != size:
        raise ValueError(f"snappy: the stream holds {len(out)} bytes, expected {size}")
    return bytes(out)


def _length(data: Buffer) -> tuple[int, int]:
    """Return the stated length, and the offset after it."""
    length = 0
    for i in range(min(5, len(data))):
        length |= (data[i] & 127) << 7 * i
        if data[i] < 128:
            return length, i + 1
    raise ValueError("snappy: the stream has no length")
