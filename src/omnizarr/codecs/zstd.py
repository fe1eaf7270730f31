"""zstd: Zstandard frames (RFC 8878).

The package zstandard compresses, and decompresses small chunks, with one context per thread: chunks
of 64 KiB are compressed in half the time. numcodecs does the rest, and all without zstandard.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numcodecs import zstd

from omnizarr.codecs.codec import Buffer, BytesBytesCodec, as_bytes_array, import_optional, limit_of

zstandard = import_optional("zstandard")
SMALL = 2**18  # up to this many bytes a new context costs more than a copy


class _Contexts(threading.local):
    """The compressors of one thread by their configuration, and its decompressor."""

    def __init__(self) -> None:
        self.found: dict[Zstd, Any] = {}
        self.decompressor: Any = None if zstandard is None else zstandard.ZstdDecompressor()


_contexts = _Contexts()


@dataclass(frozen=True, slots=True)
class Zstd(BytesBytesCodec):
    """The registered extension ``zstd``, and ``zstd`` in version 2.

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
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("level", -131072, 22)
        self.check("checksum", isinstance(self.checksum, bool), "true or false")

    def encode(self, data: Buffer) -> Buffer:
        if zstandard is None:
            return bytes(zstd.compress(as_bytes_array(data), self.level, self.checksum))
        context = _contexts.found.get(self)
        if context is None:
            context = zstandard.ZstdCompressor(level=self.level, write_checksum=self.checksum)
            _contexts.found[self] = context
        return bytes(context.compress(data))

    def decode_into(self, data: Buffer, out: npt.NDArray[np.uint8]) -> None:
        stated = content_size(data)
        if stated is not None and stated != len(out):
            raise ValueError(f"the frame says {stated} bytes, expected {len(out)}")
        if zstandard is not None and stated is not None and stated <= SMALL:
            try:
                found = _contexts.decompressor.decompress(data, allow_extra_data=False)
            except zstandard.ZstdError:
                found = b""  # several frames, or damage: numcodecs knows both
            if len(found) == len(out):
                out[:] = as_bytes_array(found)
                return
        zstd.decompress(as_bytes_array(data), out)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated = content_size(data)
        limit = limit_of(size)
        if stated is not None and (stated > limit or (size is not None and stated != size)):
            raise ValueError(f"the frame says {stated} bytes, expected {limit}")
        if stated is None and size is not None:
            out = bytearray(size)
            zstd.decompress(as_bytes_array(data), out)
            return out
        return bytes(zstd.decompress(as_bytes_array(data)))


def content_size(data: Buffer) -> int | None:
    """Return the size in the frame's header, or None if it has none."""
    if bytes(data[:4]) != b"\x28\xb5\x2f\xfd":
        raise ValueError("this is not a zstd frame")
    if len(data) < 6:
        raise ValueError("the zstd frame is truncated")
    descriptor = data[4]
    single = bool(descriptor & 0x20)
    width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return None
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    field = bytes(data[start : start + width])
    if len(field) < width:
        raise ValueError("the zstd frame is truncated")
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)
