"""blosc: Blosc-1 buffers.

A buffer has a header of 16 bytes, a table with the start of each block, and the blocks in any
order, each shuffled and compressed on its own.

The library of numcodecs does the work, but lacks snappy, which chunks of programs up to 2021 may
have. Here its streams are decompressed in Python and put into a buffer that holds them as they are,
of which the library undoes the shuffle. Only the kernel writes snappy.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from numcodecs import blosc

from omnizarr.codecs.codec import Buffer, BytesBytesCodec, as_bytes_array, check_memory, limit_of
from omnizarr.errors import CannotExpress
from omnizarr.model import Named

COMPRESSORS = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}

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


@dataclass(frozen=True, slots=True)
class NumcodecsBlosc(BytesBytesCodec):
    """Blosc, as ``blosc`` in versions 1 and 2.

    ``{"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}``; the shuffle is a number (0
    none, 1 bytes, 2 bits, -1 by item size), and the item size comes from the array.
    ``numcodecs.blosc`` in version 3.

    Attributes:
        cname: The compressor: ``"lz4"``, ``"lz4hc"``, ``"blosclz"``, ``"snappy"``, ``"zlib"`` or
            ``"zstd"``.
        clevel: 0 (none) to 9 (smallest).
        shuffle: 0 (none), 1 (bytes), 2 (bits) or -1 (by the size of items).
        blocksize: The bytes of a block; 0 for the library's choice.
        typesize: The bytes of an item; by default as in the array.

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
    shuffles: ClassVar[tuple[Any, ...]] = (-1, 0, 1, 2)

    def __post_init__(self) -> None:
        self.check("cname", self.cname in COMPRESSORS, f"one of {', '.join(COMPRESSORS)}")
        self.check_integer("clevel", 0, 9)
        self.check_integer("blocksize", 0, 2**31 - 1)
        if self.typesize is not None:
            self.check_integer("typesize", 1, 2**31 - 1)
        good = self.shuffle in self.shuffles and not isinstance(self.shuffle, (bool, float))
        self.check("shuffle", good, f"one of {', '.join(map(str, self.shuffles))}")

    def for_items(self, itemsize: int) -> Self:
        """Return the codec with a typesize; the item size fills in a missing one."""
        return self if self.typesize else replace(self, typesize=max(1, itemsize))

    def shuffle_code(self) -> int:
        """Return the shuffle as Blosc numbers it."""
        if self.shuffle in (None, -1):
            return 2 if self.typesize in (None, 1) else 1
        return self.shuffle if isinstance(self.shuffle, int) else SHUFFLES[str(self.shuffle)]

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

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        if len(data) < 16:
            raise ValueError(f"{len(data)} bytes are too few for a Blosc header")
        stated, block, whole = _SIZES.unpack_from(data, 4)
        limit = limit_of(size)
        if stated > limit or size not in (None, stated):
            raise ValueError(f"the Blosc header says {stated} bytes, expected {limit}")
        if whole != len(data):
            raise ValueError(f"the Blosc header says {whole} stored bytes, there are {len(data)}")
        check_memory(2 * min(block, stated) + stated + _EXTRA)
        try:
            return bytes(blosc.decompress(as_bytes_array(without_snappy(data))))
        except RuntimeError as e:
            old = "; zstd frames from before version 0.8 (2016) cannot be read any more"
            raise ValueError(f"{e}{old if data[2] >> 5 == _ZSTD else ''}") from None


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
    shuffles: ClassVar[tuple[Any, ...]] = (*SHUFFLES, None)
    stated: ClassVar[tuple[str, ...]] = ("cname", "clevel", "shuffle")

    @classmethod
    def bind(cls, named: Named) -> Self:
        codec = super(Blosc, cls).bind(named)  # a bare super() fails in a class with slots
        codec.check("shuffle", codec.shuffle is not None, f"one of {', '.join(SHUFFLES)}")
        good = codec.typesize is not None or codec.shuffle == "noshuffle"
        codec.check("typesize", good, f"a positive integer, needed for {codec.shuffle!r}")
        return codec


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
    stated, at = 0, 0
    while at < min(5, len(data)) and (at == 0 or data[at - 1] >= 128):
        stated |= (data[at] & 127) << 7 * at
        at += 1
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
