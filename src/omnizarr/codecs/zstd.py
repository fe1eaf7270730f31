"""zstd: Zstandard frames (RFC 8878).

Specification: registered extension ``zstd``; ``zstd`` in version 2.
Configuration: ``{"level": 0, "checksum": false}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numcodecs import zstd

from omnizarr.codecs.codec import UNBOUNDED, Buffer, Configured, Kind, as_bytes_array


@dataclass(frozen=True, slots=True)
class Zstd(Configured):
    level: int = 0
    checksum: bool = False

    name: ClassVar[str] = "zstd"
    kind: ClassVar[Kind] = "bytes->bytes"

    def __post_init__(self) -> None:
        self.check_integer("level", -131072, 22)
        self.check("checksum", isinstance(self.checksum, bool), "true or false")

    def encoded_size(self, size: int) -> int | None:
        return None

    def encode(self, data: Buffer) -> Buffer:
        return bytes(zstd.compress(as_bytes_array(data), self.level, self.checksum))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated = content_size(data)
        limit = UNBOUNDED if size is None else size
        if stated is not None and (stated > limit or (size is not None and stated != size)):
            raise ValueError(f"the frame says {stated} bytes, expected {limit}")
        if stated is None and size is not None:
            out = bytearray(size)
            zstd.decompress(as_bytes_array(data), out)
            return out
        return bytes(zstd.decompress(as_bytes_array(data)))


def content_size(data: Buffer) -> int | None:
    """The size that the frame's header states, or None where it states none."""
    if bytes(data[:4]) != b"\x28\xb5\x2f\xfd":
        raise ValueError("this is not a zstd frame")
    if len(data) < 6:
        raise ValueError("the zstd frame is cut off")
    descriptor = data[4]
    single = bool(descriptor & 0x20)
    width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return None
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    field = bytes(data[start : start + width])
    if len(field) < width:
        raise ValueError("the zstd frame is cut off")
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)
