"""conditional: codecs on bytes that are applied to some chunks and skipped for others.

Specification: registered extension ``conditional`` of version 3. Every chunk begins with a header
of `header_bits` bits, one for each codec in the list and the first one lowest: 1 if the codec was
applied. Configuration: ``{"codecs": [{"name": "zstd", …}], "header_bits": 8}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from omnizarr.codecs.codec import Buffer, BytesBytes, BytesBytesCodec, inner_codecs
from omnizarr.codecs.pipeline import bind_codec, codec_context, decode_bytes
from omnizarr.model import Named
from omnizarr.model.node import check_members, invalid

MAX_HEADER_BITS = 2**16


@dataclass(frozen=True)
class Conditional(BytesBytesCodec):
    """The registered extension ``conditional``; `header_bits` has room for codecs of the future."""

    codecs: tuple[Named, ...]
    header_bits: int | None = None

    name: ClassVar[str] = "conditional"
    codec_lists: ClassVar[tuple[str, ...]] = ("codecs",)

    def __post_init__(self) -> None:
        self.name_codecs()
        count = len(self.codecs)
        if self.header_bits is not None:
            self.check_integer("header_bits", 0, MAX_HEADER_BITS)
            good = self.header_bits % 8 == 0 and self.header_bits >= count
            self.check("header_bits", good, f"a multiple of 8 for the {count} codecs")

    @classmethod
    def bind(cls, named: Named) -> Conditional:
        check_members(named, "codec", required=("codecs",), optional=("header_bits",))
        [codecs] = inner_codecs(named, "codecs", least=0)
        found = cls(codecs, named.configuration.get("header_bits"))
        for i, codec in enumerate(found.bound):
            if codec.kind != "bytes->bytes":
                message = f"{found.codecs[i].name!r} is {codec.kind}; only bytes->bytes may be here"
                raise invalid("codec", cls.name, f"codecs[{i}]", message)
        return found

    @cached_property
    def bound(self) -> tuple[BytesBytes, ...]:
        """The codecs in the list."""
        places = ((c, f"configuration.codecs[{i}]") for i, c in enumerate(self.codecs))
        return tuple(bind_codec(c, place) for c, place in places)  # type: ignore[misc]  # see bind

    @property
    def header_size(self) -> int:
        """The bytes of the header."""
        least = -(-len(self.codecs) // 8)
        return least if self.header_bits is None else self.header_bits // 8

    def encode(self, data: Buffer) -> Buffer:
        """Return the header and the data, encoded by the codecs that make it smaller.

        Codecs before such a codec that only rearrange bytes are applied with it, checksums always.
        """
        mask, waiting = 0, 0  # codecs that rearrange bytes wait for one that compresses
        arranged = data
        for i, codec in enumerate(self.bound):
            with codec_context(codec, "encode"):
                size, made = codec.encoded_size(len(arranged)), codec.encode(arranged)
                if size == len(arranged):
                    arranged, waiting = made, waiting | 1 << i
                elif size is not None:  # a checksum
                    arranged = data = made if not waiting else codec.encode(data)
                    mask, waiting = mask | 1 << i, 0
                elif len(made) < len(data):
                    arranged = data = made
                    mask, waiting = mask | waiting | 1 << i, 0
        return mask.to_bytes(self.header_size, "little") + bytes(data)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        start = self.header_size
        if len(data) < start:
            raise ValueError(f"there are {len(data)} bytes, fewer than the header of {start}")
        mask = int.from_bytes(bytes(data[:start]), "little")
        if mask >> len(self.codecs):
            number = mask.bit_length()
            raise ValueError(f"the header names codec {number} of a list of {len(self.codecs)}")
        applied: list[tuple[BytesBytes, int | None]] = []
        for i, codec in enumerate(self.bound):
            if mask >> i & 1:
                applied.append((codec, size))
                size = None if size is None else codec.encoded_size(size)
        out = memoryview(data)[start:]
        if size is not None and len(out) != size:
            raise ValueError(f"there are {len(out)} bytes after the header, expected {size}")
        return decode_bytes(applied, out)
