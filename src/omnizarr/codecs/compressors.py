"""Compressors of bytes, gzip, zlib, zstd, bz2, lzma and lz4, and the checksum crc32c.

libdeflate (package deflate) does the work of gzip and zlib if the size is known. It reads only one
member, so the trailer is compared too; zlib reads several members, and reports a wrong end.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import deflate
import google_crc32c
import numpy as np
import zstandard
from numcodecs import lz4, zstd

from omnizarr.codecs.codec import Buffer, BytesBytesCodec, as_bytes_array, check_memory, limit_of

_EXTRA = 2**20  # bytes of memory that libdeflate needs besides
_GZIP = 31  # zlib's window for gzip
SMALL = 2**18  # up to this many bytes of a chunk, contexts are kept: making one takes longer


@dataclass(frozen=True, slots=True)
class _Deflate(BytesBytesCodec):
    """gzip and zlib, which differ in the header and trailer around the compressed data."""

    level: int = 1

    window: ClassVar[int]  # as zlib takes it
    least: ClassVar[int]  # bytes around the compressed data

    def encode(self, data: Buffer) -> Buffer:
        check_memory(len(data) + _EXTRA)
        compress = deflate.gzip_compress if self.window == _GZIP else deflate.zlib_compress
        return bytes(compress(data, 6 if self.level < 0 else self.level))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        if size and len(data) > self.least:
            check_memory(size + _EXTRA)
            is_gzip = self.window == _GZIP
            try:
                decompress = deflate.gzip_decompress if is_gzip else deflate.zlib_decompress
                out: bytearray = decompress(data, size)
            except deflate.DeflateError:
                out = bytearray()
            trailer = deflate.adler32(out).to_bytes(4, "big")
            if is_gzip:
                trailer = struct.pack("<II", deflate.crc32(out), size % 2**32)
            if len(out) == size and bytes(data[-len(trailer) :]) == trailer:
                return out
        return _decompress(
            lambda: zlib.decompressobj(self.window),
            data,
            size,
            "read" if self.window == _GZIP else "refused",
        )


@dataclass(frozen=True, slots=True)
class Gzip(_Deflate):
    """gzip, as ``gzip`` in versions 1 and 2: ``{"level": 1}``, 0 to 9.

    ``numcodecs.gzip`` in version 3.

    Attributes:
        level: 0 (none) to 9 (smallest).

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.GZip(level=9), zarr_format=2)
        >>> a.codecs[-1].configuration["level"]
        9
    """

    name: ClassVar[str] = "gzip"
    window: ClassVar[int] = _GZIP
    least: ClassVar[int] = 18

    def __post_init__(self) -> None:
        self.check_integer("level", 0, 9)


@dataclass(frozen=True, slots=True)
class StrictGzip(Gzip):
    """gzip, as ``gzip`` of version 3 and ``…/codecs/gzip/1.0`` of its draft: ``{"level": 5}``.

    The metadata must state the level.

    Attributes:
        level: 0 (none) to 9 (smallest).

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.GzipCodec(level=9))
        >>> a.codecs[-1].configuration["level"]
        9
    """

    level: int = 5

    stated: ClassVar[tuple[str, ...]] = ("level",)


@dataclass(frozen=True, slots=True)
class Zlib(_Deflate):
    """zlib, as ``zlib`` in versions 1 and 2: ``{"level": 1}``, -1 to 9.

    ``numcodecs.zlib`` in version 3.

    Attributes:
        level: 0 (none) to 9 (smallest); -1 for the library's choice.

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.Zlib(level=9), zarr_format=2)
        >>> a.codecs[-1].configuration["level"]
        9
    """

    name: ClassVar[str] = "numcodecs.zlib"
    window: ClassVar[int] = 15
    least: ClassVar[int] = 6

    def __post_init__(self) -> None:
        self.check_integer("level", -1, 9)


def _decompress(
    make: Callable[[], Any], data: Buffer, size: int | None, after: str = "ignored"
) -> bytes:
    """Return the bytes of a stream within the limit; what follows is ignored, refused or read."""
    limit, rest = limit_of(size), bytes(data)
    out, room = list[bytes](), limit + 1
    while rest or not out:
        decoder = make()
        out.append(decoder.decompress(rest, room))
        room -= len(out[-1])
        if not room:
            raise ValueError(f"it decompresses to more than the {limit} bytes expected")
        if not decoder.eof:
            raise ValueError("the compressed data are truncated")
        rest = decoder.unused_data if after != "ignored" else b""
        if rest and after == "refused":
            raise ValueError(f"{len(rest)} bytes follow the end of the compressed data")
    return b"".join(out)


@dataclass(frozen=True, slots=True)
class Bz2(BytesBytesCodec):
    """bzip2, as ``bz2`` in versions 1 and 2: ``{"level": 1}``, 1 to 9.

    ``numcodecs.bz2`` in version 3.

    Attributes:
        level: 1 to 9 (smallest).

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.BZ2(level=9), zarr_format=2)
        >>> a.codecs[-1].configuration["level"]
        9
    """

    level: int = 1

    name: ClassVar[str] = "numcodecs.bz2"

    def __post_init__(self) -> None:
        self.check_integer("level", 1, 9)

    def encode(self, data: Buffer) -> Buffer:
        return bz2.compress(data, self.level)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return _decompress(bz2.BZ2Decompressor, data, size)


@dataclass(frozen=True, slots=True)
class Lzma(BytesBytesCodec):
    """LZMA, as ``lzma`` in versions 1 and 2, with the options of Python's module `lzma`.

    ``{"format": 1, "check": -1, "preset": null, "filters": null}``. ``numcodecs.lzma`` in version
    3.

    Attributes:
        format: The container, such as ``lzma.FORMAT_XZ``.
        check: The integrity check; -1 for the format's own.
        preset: 0 to 9, or None for the library's choice.
        filters: A chain of filters instead of the preset.

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.LZMA(preset=1), zarr_format=2)
        >>> a.codecs[-1].configuration["preset"]
        1
    """

    format: int = lzma.FORMAT_XZ
    check: int = -1  # type: ignore[assignment]  # the member's name hides the method
    preset: int | None = None
    filters: tuple[Any, ...] | None = None

    name: ClassVar[str] = "numcodecs.lzma"

    def encode(self, data: Buffer) -> Buffer:
        filters: Any = self.filters or None
        return lzma.compress(data, self.format, self.check, self.preset, filters)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        filters: Any = self.filters if self.format == lzma.FORMAT_RAW else None
        return _decompress(lambda: lzma.LZMADecompressor(self.format, filters=filters), data, size)


@dataclass(frozen=True, slots=True)
class Lz4(BytesBytesCodec):
    """LZ4 behind the size in four bytes, as ``lz4`` in version 2: ``{"acceleration": 1}``.

    ``numcodecs.lz4`` in version 3.
    """

    acceleration: int = 1

    name: ClassVar[str] = "numcodecs.lz4"

    def __post_init__(self) -> None:
        self.check_integer("acceleration", -(2**31), 2**31 - 1)

    def encode(self, data: Buffer) -> Buffer:
        return bytes(lz4.compress(as_bytes_array(data), self.acceleration))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated = int.from_bytes(bytes(data[:4]), "little")
        limit = limit_of(size)
        if len(data) < 5 or stated > limit:
            raise ValueError(f"the header says {stated} bytes, expected {limit}")
        return bytes(lz4.decompress(as_bytes_array(data)))


class _Contexts(threading.local):
    """The zstd contexts of one thread: making one takes as long as decoding a small chunk."""

    def __init__(self) -> None:
        self.compressor: tuple[Zstd | None, Any] = (None, None)  # the last one for small chunks
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


@dataclass(frozen=True, slots=True)
class Zstd(BytesBytesCodec):
    """The registered extension ``zstd`` (RFC 8878), and ``zstd`` in version 2.

    ``{"level": 0, "checksum": false}``

    Attributes:
        level: The level, up to 22 (smallest); 0 for the library's choice.
        checksum: True to store a checksum with each chunk.

    Examples:
        >>> a = oz.create_array(shape=3, compressors=oz.codecs.ZstdCodec(level=5))
        >>> a.codecs[-1].configuration["level"]
        5
    """

    level: int = 0
    checksum: bool = False

    name: ClassVar[str] = "zstd"

    def __post_init__(self) -> None:
        self.check_integer("level", -131072, 22)
        self.check("checksum", isinstance(self.checksum, bool), "true or false")

    def encode(self, data: Buffer) -> Buffer:
        last, context = _contexts.compressor
        if last != self or len(data) > SMALL:  # a context keeps memory for the largest chunk
            context = zstandard.ZstdCompressor(level=self.level, write_checksum=self.checksum)
            if len(data) <= SMALL:
                _contexts.compressor = (self, context)
        return bytes(context.compress(data))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated, limit = content_size(data), limit_of(size)
        if stated is not None and (stated > limit or size not in (None, stated)):
            raise ValueError(f"the frame says {stated} bytes, expected {limit}")
        if stated and stated <= SMALL:
            with suppress(zstandard.ZstdError):  # several frames, or damage: numcodecs knows both
                return _contexts.decompressor.decompress(data, allow_extra_data=False)
        if size is None:
            return bytes(zstd.decompress(as_bytes_array(data)))
        out = np.empty(size, np.uint8)
        zstd.decompress(as_bytes_array(data), out)
        return out.data


def content_size(data: Buffer) -> int | None:
    """Return the size in the frame's header, or None if it has none."""
    try:
        found: int = zstandard.frame_content_size(data)
    except zstandard.ZstdError:
        raise ValueError("this is not a zstd frame, or it is truncated") from None
    return None if found < 0 else found


@dataclass(frozen=True, slots=True)
class Crc32c(BytesBytesCodec):
    """``crc32c`` of version 3 (RFC 3720); it has no configuration.

    Examples:
        >>> oz.create_array(shape=3, compressors=[oz.codecs.Crc32cCodec()]).codecs[-1].name
        'crc32c'
    """

    name: ClassVar[str] = "crc32c"

    def encoded_size(self, size: int) -> int | None:
        return size + 4

    def encode(self, data: Buffer) -> Buffer:
        body = bytes(data)  # the C function takes nothing else
        return body + _checksum(body)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        if len(data) < 4:
            raise ValueError(f"{len(data)} bytes are too few for a checksum")
        body, stored = bytes(data[:-4]), bytes(data[-4:])
        found = _checksum(body)
        if found != stored:
            got, want = (int.from_bytes(c, "little") for c in (found, stored))
            raise ValueError(f"checksum mismatch: computed 0x{got:08x}, stored 0x{want:08x}")
        return body


def _checksum(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(4, "little")
