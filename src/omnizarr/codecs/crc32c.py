"""crc32c: the bytes and their CRC-32C (RFC 3720) as four little-endian bytes.

The package google-crc32c does the work, or crc32c, or, slowly, Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from omnizarr.codecs.codec import Buffer, BytesBytesCodec, import_optional

_POLYNOMIAL = 0x82F63B78  # with its bits reversed


@cache
def _table() -> tuple[int, ...]:
    out = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
        out.append(number)
    return tuple(out)


def in_python(data: bytes) -> int:
    """Return the CRC-32C, computed byte by byte at some 10 MB/s."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


def implementations() -> dict[str, Callable[[bytes], int]]:
    """Return the implementations that are installed, the quickest first."""
    names = {"google_crc32c": "value", "crc32c": "crc32c"}
    found = {package: import_optional(package) for package in names}
    quick = {p: getattr(found[p], name) for p, name in names.items() if found[p] is not None}
    return {**quick, "python": in_python}


_value = next(iter(implementations().values()))


@dataclass(frozen=True, slots=True)
class Crc32c(BytesBytesCodec):
    """``crc32c`` of version 3; it has no configuration.

    Examples:
        >>> oz.create_array(shape=3, compressors=[oz.codecs.Crc32cCodec()]).codecs[-1].name
        'crc32c'
    """

    name: ClassVar[str] = "crc32c"
    borrows: ClassVar[bool] = True

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
    return int(_value(data)).to_bytes(4, "little")
