"""zarrs.optional: a mask of the elements that are present, and the values of these alone.

Specification: the documentation of zarrs, whose first version called it ``optional``. It stores
the data type of the same name. A chunk has the lengths of the encoded mask and of the encoded
values, each in eight bytes, little-endian, and then the mask and the values. The mask has the shape
of the chunk and is true where there is a value; the values have one axis, in C order. If there are
none, nothing is stored for them::

    {"mask_codecs": [{"name": "packbits"}],
     "data_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import Buffer, ChunkwiseCodec, Kind, Spec
from omnizarr.codecs.pipeline import CodecPipeline, bind_pipeline
from omnizarr.codecs.specify import codec_list, to_named
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types.optional import Masking
from omnizarr.errors import InvalidMetadata, error_context
from omnizarr.model import Named
from omnizarr.model.node import check_members

HEADER = 16  # bytes of the two lengths


@dataclass(frozen=True, slots=True)
class Optional(ChunkwiseCodec):
    """The codec ``zarrs.optional`` (earlier ``optional``)."""

    mask_codecs: tuple[Named, ...] = (Named("packbits"),)
    data_codecs: tuple[Named, ...] = (Named("bytes", {"endian": "little"}),)

    name: ClassVar[str] = "zarrs.optional"

    def __post_init__(self) -> None:
        for member in ("mask_codecs", "data_codecs"):
            codecs = tuple(to_named(codec, None) for codec in getattr(self, member))
            object.__setattr__(self, member, codecs)

    @classmethod
    def bind(cls, named: Named) -> Optional:
        members = ("mask_codecs", "data_codecs")
        check_members(named, "codec", required=members)
        return cls(*(codec_list(named, member) for member in members))

    def for_spec(self, spec: Spec) -> OptionalChunks:
        """Return the codec bound to chunks of one shape and type."""
        masking = spec.data_type.masking
        if masking is None:
            raise InvalidMetadata(
                f"codec {self.name!r} stores the data type of that name, not"
                f" {spec.data_type.named.name!r}"
            )
        boolean = bind_type(Named("bool"))
        present = Spec(spec.shape, boolean, boolean.scalar(False))
        mask = bind_pipeline(self.mask_codecs, present, "configuration.mask_codecs")
        chunks = OptionalChunks(spec, masking, mask, self.data_codecs)
        chunks.data_pipeline(1)  # which raises if the codecs do not fit
        return chunks


@dataclass(frozen=True, slots=True)
class OptionalChunks:
    """The codec bound to chunks of one shape and type."""

    spec: Spec
    masking: Masking
    mask: CodecPipeline
    data_codecs: tuple[Named, ...]

    name: ClassVar[str] = "zarrs.optional"
    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        return None

    def data_pipeline(self, count: int) -> CodecPipeline:
        """Return the codecs for so many values."""
        inner = self.masking.inner
        spec = Spec((count,), inner, inner.scalar(inner.zero))
        return bind_pipeline(self.data_codecs, spec, "configuration.data_codecs")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        values, missing = self.masking.split_stored(array)
        mask = bytes(self.mask.encode(~missing))
        kept = values[~missing].astype(self.masking.inner.dtype)
        data = bytes(self.data_pipeline(kept.size).encode(kept)) if kept.size else b""
        lengths = np.array([len(mask), len(data)], "<u8").tobytes()
        return b"".join([lengths, mask, data])

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        if len(data) < HEADER:
            raise ValueError(f"there are {len(data)} bytes, fewer than the header of {HEADER}")
        first, second = np.frombuffer(data, "<u8", 2).tolist()
        if len(data) != HEADER + first + second:
            raise ValueError(
                f"the header says {first} bytes of mask and {second} of values, but there are"
                f" {len(data) - HEADER}"
            )
        body = memoryview(data)[HEADER:]
        with error_context("mask"):
            present = self.mask.decode(body[:first]).view(np.uint8) != 0  # any byte but 0 is true
        count = int(np.count_nonzero(present))
        out = np.zeros(spec.shape, self.masking.stored)
        if self.masking.inner.variable:
            out[...] = None
        else:
            out["mask"] = ~present
        if count:
            values = self.data_pipeline(count).decode(body[first:])
            target = out if self.masking.inner.variable else out["data"]
            target[present] = values
        return out
