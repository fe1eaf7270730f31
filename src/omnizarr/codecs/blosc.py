"""blosc: Blosc-1 buffers: 16-byte header, then blocks, optionally shuffled.

Specification: ``blosc`` of version 3, ``blosc`` in version 1 and 2, the draft's
``…/codecs/blosc/1.0``. Version 3 names the shuffle and states `typesize`:
``{"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}``; older
formats number the shuffle (0 none, 1 bytes, 2 bits, -1 by item size) and take the item size
from the array. snappy, which the library of numcodecs lacks, is our own code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from numcodecs import blosc

from omnizarr.codecs import blosc_blocks, blosc_snappy
from omnizarr.codecs.codec import Buffer, Configured, Kind, Region, as_bytes_array, limit_of
from omnizarr.codecs.scratch import check_memory
from omnizarr.codecs.steps import Steps
from omnizarr.model import Named

# Threads are the engine's affair; on the main thread Blosc would start its own. Its lock is made
# here: at the first chunk it would import, which a signal handler must not do in the midst of that.
# From numcodecs 0.17 on it is there already.
blosc.use_threads = False
if hasattr(blosc, "get_mutex"):
    blosc.get_mutex()

COMPRESSORS = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_SIZES = struct.Struct("<III")  # unpacked, of a block and stored, in the header from byte 4 on
_BLOCK = 2**22  # bytes of the largest block that Blosc chooses
_EXTRA = 2**16  # bytes that it needs besides
_ZSTD = 4  # the number of the compressor in a header


@dataclass(frozen=True, slots=True)
class NumcodecsBlosc(Configured):
    """Blosc as older formats configure it."""

    cname: str = "lz4"
    clevel: int = 5
    shuffle: int | str | None = 1
    blocksize: int = 0
    typesize: int | None = None

    name: ClassVar[str] = "numcodecs.blosc"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True
    by_block_from: ClassVar[int] = blosc_blocks.LEAST

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
        """The codec that knows the size of the items it is given."""
        return self if self.typesize else replace(self, typesize=max(1, itemsize))

    def encoded_size(self, size: int) -> int | None:
        return None

    def shuffle_code(self) -> int:
        """The shuffle as Blosc numbers it."""
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
            return blosc_snappy.pack(data, size, self.shuffle_code(), self.clevel, self.blocksize)
        check_memory(len(data) + 2 * min(len(data), self.blocksize or _BLOCK) + _EXTRA)
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

    def block_steps(
        self, key: str, shape: tuple[int, ...], itemsize: int, region: Region, size: int
    ) -> Steps[blosc_blocks.Unpack | Buffer | None]:
        """What it takes to unpack the blocks that hold a region of a chunk."""
        return blosc_blocks.steps(key, shape, itemsize, region, size)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return bytes(_decompress(data, size, None))

    def decode_into(self, data: Buffer, out: npt.NDArray[np.uint8]) -> None:
        _decompress(data, len(out), out)


def _decompress(data: Buffer, size: int | None, out: npt.NDArray[np.uint8] | None) -> bytes:
    """The unpacked bytes, or `out` filled with them."""
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
        found: bytes = blosc.decompress(as_bytes_array(blosc_snappy.readable(data)), out)
        return found
    except RuntimeError as e:
        hint = ""
        if data[2] >> 5 == _ZSTD:
            hint = "; zstd frames from before version 0.8 (2016) cannot be read any more"
        raise ValueError(f"{e}{hint}") from None


@dataclass(frozen=True, slots=True)
class Blosc(NumcodecsBlosc):
    """Blosc as version 3 configures it.

    A new array chooses what is None here by the size of its items.
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
        words = ", ".join(SHUFFLES)
        self.check("shuffle", self.shuffle in (None, *SHUFFLES), f"one of {words}")

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
