"""gzip and zlib: DEFLATE with the frame of RFC 1952 or RFC 1950.

Specification: ``gzip`` of version 3, the draft's ``…/codecs/gzip/1.0``; ``zlib`` is version
1's and 2's, called ``numcodecs.zlib`` in version 3.
Configuration: ``{"level": 5}``, 0 to 9.
libdeflate (package deflate) does the work where the size is known; it looks at one member only,
so the trailer is compared too, and several members or a wrong end go through zlib, which reports
them. Without the package zlib does everything, in about twice the time.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import ClassVar

from omnizarr.codecs.codec import Buffer, Configured, Kind, bounded
from omnizarr.codecs.optional import optional
from omnizarr.codecs.scratch import check_memory

deflate = optional("deflate")
_EXTRA = 2**20  # bytes that it needs besides


@dataclass(frozen=True, slots=True)
class Gzip(Configured):
    level: int = 1

    name: ClassVar[str] = "gzip"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("level", 0, 9)

    def encoded_size(self, size: int) -> int | None:
        return None

    def encode(self, data: Buffer) -> Buffer:
        if deflate is None:
            return _pack(data, self.level, 31)
        check_memory(len(data) + _EXTRA)
        return bytes(deflate.gzip_compress(data, self.level))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        if deflate is not None and size and len(data) > 18:
            check_memory(size + _EXTRA)
            try:
                out: bytearray = deflate.gzip_decompress(data, size)
            except deflate.DeflateError:
                out = bytearray()
            trailer = deflate.crc32(out).to_bytes(4, "little") + (size % 2**32).to_bytes(
                4, "little"
            )
            if len(out) == size and bytes(data[-8:]) == trailer:
                return out
        return bounded(lambda d, n: _stream(d, n, 31), data, size)


@dataclass(frozen=True, slots=True)
class StrictGzip(Gzip):
    """As version 3 and its draft define it: the level must be stated."""

    level: int = 5

    borrows: ClassVar[bool] = True
    stated: ClassVar[tuple[str, ...]] = ("level",)


@dataclass(frozen=True, slots=True)
class Zlib(Configured):
    level: int = 1

    name: ClassVar[str] = "numcodecs.zlib"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("level", -1, 9)

    def encoded_size(self, size: int) -> int | None:
        return None

    def encode(self, data: Buffer) -> Buffer:
        level = 6 if self.level < 0 else self.level
        if deflate is None:
            return _pack(data, level, 15)
        check_memory(len(data) + _EXTRA)
        return bytes(deflate.zlib_compress(data, level))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        if deflate is not None and size and len(data) > 6:
            check_memory(size + _EXTRA)
            try:
                out: bytearray = deflate.zlib_decompress(data, size)
            except deflate.DeflateError:
                out = bytearray()
            trailer = deflate.adler32(out).to_bytes(4, "big")
            if len(out) == size and bytes(data[-4:]) == trailer:
                return out
        return bounded(lambda d, n: _stream(d, n, 15), data, size)


def _pack(data: Buffer, level: int, window: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, window)
    return packer.compress(data) + packer.flush()


def _stream(data: Buffer, limit: int, window: int) -> bytes:
    """All members of a gzip file, or one zlib stream, cut off after `limit` bytes."""
    out, rest = [], bytes(data)
    while True:
        member = zlib.decompressobj(window)
        out.append(member.decompress(rest, limit))
        limit -= len(out[-1])
        if limit <= 0:
            break
        if not member.eof:
            raise ValueError("the compressed data end too early")
        rest = member.unused_data
        if not rest:
            break
        if window != 31:
            raise ValueError(f"{len(rest)} bytes follow the end of the compressed data")
    return b"".join(out)
