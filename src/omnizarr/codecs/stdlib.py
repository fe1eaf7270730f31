"""bz2 and lzma, from Python's standard library.

Specification: compressors of version 1 and 2; ``numcodecs.bz2`` and ``numcodecs.lzma`` in
version 3. Configuration: ``{"level": 1}``; ``{"format": 1, "check": -1, "preset": null,
"filters": null}``.
"""

from __future__ import annotations

import bz2
import lzma
from dataclasses import dataclass
from typing import Any, ClassVar

from omnizarr.codecs.codec import Buffer, Configured, Kind, bounded


@dataclass(frozen=True, slots=True)
class Bz2(Configured):
    level: int = 1

    name: ClassVar[str] = "numcodecs.bz2"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_integer("level", 1, 9)

    def encoded_size(self, size: int) -> int | None:
        return None

    def encode(self, data: Buffer) -> Buffer:
        return bz2.compress(data, self.level)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return bounded(lambda d, n: _whole(bz2.BZ2Decompressor(), d, n), data, size)


@dataclass(frozen=True, slots=True)
class Lzma(Configured):
    format: int = lzma.FORMAT_XZ
    check: int = -1  # type: ignore[assignment]  # the member's name hides the method
    preset: int | None = None
    filters: tuple[Any, ...] | None = None

    name: ClassVar[str] = "numcodecs.lzma"
    kind: ClassVar[Kind] = "bytes->bytes"
    borrows: ClassVar[bool] = True

    def encoded_size(self, size: int) -> int | None:
        return None

    def _filters(self) -> list[dict[str, Any]] | None:
        return [dict(f) for f in self.filters] if self.filters else None

    def encode(self, data: Buffer) -> Buffer:
        return lzma.compress(
            data, format=self.format, check=self.check, preset=self.preset, filters=self._filters()
        )

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        raw = self.format == lzma.FORMAT_RAW
        decoder = lzma.LZMADecompressor(
            format=self.format, filters=self._filters() if raw else None
        )
        return bounded(lambda d, n: _whole(decoder, d, n), data, size)


def _whole(decoder: bz2.BZ2Decompressor | lzma.LZMADecompressor, data: Buffer, limit: int) -> bytes:
    out = decoder.decompress(bytes(data), limit)
    if len(out) < limit and not decoder.eof and decoder.needs_input:
        raise ValueError("the compressed data end too early")
    return out
