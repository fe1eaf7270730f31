"""crc32c: the bytes and their CRC-32C (RFC 3720) as four little-endian bytes.

Specification: ``crc32c`` of version 3; no configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import google_crc32c

from omnizarr.codecs.codec import Buffer, Configured, Kind


@dataclass(frozen=True, slots=True)
class Crc32c(Configured):
    name: ClassVar[str] = "crc32c"
    kind: ClassVar[Kind] = "bytes->bytes"

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
            raise ValueError(f"crc32c says 0x{got:08x}, stored 0x{want:08x}")
        return body


def _checksum(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(4, "little")
