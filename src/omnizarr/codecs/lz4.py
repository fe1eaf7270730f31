"""lz4: one LZ4 block behind a 4-byte little-endian size, as numcodecs writes it.

Specification: ``lz4`` in version 2, ``numcodecs.lz4`` in version 3.
Configuration: ``{"acceleration": 1}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numcodecs import lz4

from omnizarr.codecs.codec import Buffer, Configured, Kind, as_bytes_array, limit_of


@dataclass(frozen=True, slots=True)
class Lz4(Configured):
    acceleration: int = 1

    name: ClassVar[str] = "numcodecs.lz4"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("acceleration", -(2**31), 2**31 - 1)

    def encoded_size(self, size: int) -> int | None:
        return None

    def encode(self, data: Buffer) -> Buffer:
        return bytes(lz4.compress(as_bytes_array(data), self.acceleration))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        stated = int.from_bytes(bytes(data[:4]), "little")
        limit = limit_of(size)
        if len(data) < 5 or stated > limit:
            raise ValueError(f"the header says {stated} bytes, expected {limit}")
        return bytes(lz4.decompress(as_bytes_array(data)))
