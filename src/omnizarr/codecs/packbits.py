"""packbits: items of a few bits packed without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec, as_bytes_array
from omnizarr.errors import InvalidMetadata


@dataclass(frozen=True, slots=True)
class Packbits(ArrayBytesCodec):
    """The registered extension ``packbits`` of version 3.

    ``{"padding_encoding": "none", "first_bit": null, "last_bit": null}``. The filter of that name
    in version 2 is ``numcodecs.packbits``. The register's schema, and zarrs until 2025, have
    ``start_byte`` and ``end_byte`` for ``first_byte`` and ``last_byte``, which is read.
    """

    padding_encoding: str = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    name: ClassVar[str] = "packbits"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        allowed = ("none", "first_byte", "last_byte")
        earlier = {"start_byte": "first_byte", "end_byte": "last_byte"}
        if self.padding_encoding in earlier:
            object.__setattr__(self, "padding_encoding", earlier[self.padding_encoding])
        self.check("padding_encoding", self.padding_encoding in allowed, " or ".join(allowed))
        for member in ("first_bit", "last_bit"):
            if getattr(self, member) is not None:
                self.check_integer(member, 0, 63)

    @property
    def lossy(self) -> bool:
        return bool(self.first_bit) or self.last_bit is not None

    def _layout(self, spec: Spec) -> tuple[int, int, int, int]:
        """Return components per item, bits per component in memory, first and last bit kept."""
        data_type, parts = spec.data_type, spec.data_type.components
        is_record = data_type.dtype.names is not None and parts == 1
        if data_type.variable or data_type.dtype.kind not in "biufcmMV" or is_record:
            raise InvalidMetadata(f"codec 'packbits' cannot pack {data_type.named.name!r}")
        width = 8 * data_type.dtype.itemsize // parts
        kept = 1 if data_type.dtype.kind == "b" else data_type.bits or width
        first = self.first_bit or 0
        last = kept - 1 if self.last_bit is None else self.last_bit
        if not first <= last < kept:
            raise InvalidMetadata(
                f"codec 'packbits': bits {first} to {last} do not fit {data_type.named.name!r}"
            )
        return parts, width, first, last

    def encoded_size(self, spec: Spec) -> int | None:
        parts, _, first, last = self._layout(spec)
        bits = spec.size * parts * (last - first + 1)
        return (bits + 7) // 8 + (self.padding_encoding != "none")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        parts, width, first, last = self._layout(spec)
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        raw = little.reshape(-1).view(np.uint8).reshape(spec.size * parts, width // 8)
        bits = np.unpackbits(raw, axis=1, bitorder="little")[:, first : last + 1]
        packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
        padding = bytes([-bits.size % 8])
        if self.padding_encoding == "first_byte":
            return padding + packed
        return packed + padding if self.padding_encoding == "last_byte" else packed

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        parts, width, first, last = self._layout(spec)
        view = memoryview(data)
        if self.padding_encoding != "none":
            at_start = self.padding_encoding == "first_byte"
            padding, view = (view[0], view[1:]) if at_start else (view[-1], view[:-1])
            if padding != -(spec.size * parts * (last - first + 1)) % 8:
                raise ValueError(f"{padding} padding bits do not fit {spec.size} items")
        count = spec.size * parts
        kept = last - first + 1
        bits = np.unpackbits(as_bytes_array(view), count=count * kept, bitorder="little")
        full = np.zeros((count, width), np.uint8)
        full[:, first : last + 1] = bits.reshape(count, kept)
        signed = spec.data_type.named.name.startswith("int") or spec.data_type.dtype.kind in "mM"
        if signed:
            full[:, last + 1 :] = full[:, last : last + 1]
        raw = np.packbits(full, axis=1, bitorder="little").reshape(-1)
        little = raw.view(spec.data_type.dtype.newbyteorder("<"))
        return little.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)
