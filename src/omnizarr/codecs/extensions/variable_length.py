"""zarrs.vlen, zarrs.vlen_v2 and vlen-array: strings and byte strings of variable length.

Specification: the documentation of zarrs, which writes all three, for the data types ``string`` and
``bytes``; zarr-python knows none of them in version 3.

``zarrs.vlen`` stores the bytes of all items in one row, and an index of the positions where they
begin, with the end of the last: one more than there are items. Each of the two has its own codecs.
The chunk begins or ends with the length of the encoded index in eight bytes, little-endian::

    {"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
     "data_codecs": [{"name": "bytes"}], "index_data_type": "uint32", "index_location": "start"}

``zarrs.vlen_v2`` and ``vlen-array`` without a configuration are laid out as ``vlen-utf8`` and
``vlen-bytes`` are: every item follows its length. ``vlen-array`` with a `dtype` is version 2's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs import numcodecs
from omnizarr.codecs.codec import (
    ArrayBytesCodec,
    Buffer,
    ChunkwiseCodec,
    Codec,
    Kind,
    Spec,
    as_bytes_array,
    limit_of,
)
from omnizarr.codecs.pipeline import CodecPipeline, bind_pipeline
from omnizarr.codecs.specify import codec_list, to_named
from omnizarr.codecs.vlen import VlenBytes, VlenUtf8
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import InvalidMetadata, error_context
from omnizarr.model import Named
from omnizarr.model.node import PREFIX, check_members

LENGTH = 8  # bytes that state the length of the encoded index
INDEX_CODECS = (Named("bytes", {"endian": "little"}),)
DATA_CODECS = (Named("bytes"),)


@dataclass(frozen=True, slots=True)
class Vlen(ChunkwiseCodec):
    """The codec ``zarrs.vlen`` (earlier ``vlen``); without a location the index comes first."""

    index_codecs: tuple[Named, ...] = INDEX_CODECS
    data_codecs: tuple[Named, ...] = DATA_CODECS
    index_data_type: str = "uint64"
    index_location: str = "start"

    name: ClassVar[str] = "zarrs.vlen"

    def __post_init__(self) -> None:
        for member in ("index_codecs", "data_codecs"):
            codecs = tuple(to_named(codec, None) for codec in getattr(self, member))
            object.__setattr__(self, member, codecs)
        types, places = ("uint32", "uint64"), ("start", "end")
        self.check("index_data_type", self.index_data_type in types, " or ".join(types))
        self.check("index_location", self.index_location in places, " or ".join(places))

    @classmethod
    def bind(cls, named: Named) -> Vlen:
        needed = ("index_codecs", "data_codecs", "index_data_type")
        check_members(named, "codec", required=needed, optional=("index_location",))
        index, data = (codec_list(named, member) for member in needed[:2])
        stated = named.configuration
        return cls(index, data, stated["index_data_type"], stated.get("index_location", "start"))

    def for_spec(self, spec: Spec) -> VlenChunks:
        """Return the codec bound to chunks of one shape and type."""
        check_variable(self.name, spec)
        number = bind_type(Named(self.index_data_type))
        offsets = Spec((spec.size + 1,), number, number.scalar(0))
        index = bind_pipeline(self.index_codecs, offsets, "configuration.index_codecs")
        chunks = VlenChunks(spec, index, self.data_codecs, self.index_location == "end")
        chunks.data_pipeline(1)  # which raises if the codecs do not fit
        return chunks


@dataclass(frozen=True, slots=True)
class VlenChunks:
    """The codec ``zarrs.vlen`` bound to chunks of one shape and type."""

    spec: Spec
    index: CodecPipeline
    data_codecs: tuple[Named, ...]
    at_end: bool

    name: ClassVar[str] = "zarrs.vlen"
    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        return None

    def data_pipeline(self, size: int) -> CodecPipeline:
        """Return the codecs for the bytes of all items, so many together."""
        byte = bind_type(Named("uint8"))
        spec = Spec((size,), byte, byte.scalar(0))
        return bind_pipeline(self.data_codecs, spec, "configuration.data_codecs")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        text = spec.data_type.named.name == "string"
        items = [str(item).encode() if text else bytes(item) for item in array.reshape(-1)]
        dtype = self.index.spec.data_type.dtype
        lengths = np.fromiter(map(len, items), np.uint64, len(items))
        offsets = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)])
        if offsets[-1] > np.iinfo(dtype).max:
            raise ValueError(
                f"the items have {offsets[-1]} bytes, too many for an index of {dtype}"
            )
        index = bytes(self.index.encode(offsets.astype(dtype)))
        joined = as_bytes_array(b"".join(items))
        data = bytes(self.data_pipeline(joined.size).encode(joined)) if joined.size else b""
        size = len(index).to_bytes(LENGTH, "little")
        return data + index + size if self.at_end else size + index + data

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        index, body = self._split(memoryview(data))
        if (self.index.spec.nbytes or 0) > limit_of(None):
            raise ValueError(f"an index of {self.index.spec.nbytes} bytes is above the limit")
        with error_context("index"):
            offsets = self.index.decode(index)
        size = int(offsets[-1])
        if size > limit_of(None):
            raise ValueError(f"the index says {size} bytes, more than the limit {limit_of(None)}")
        if (offsets[1:] < offsets[:-1]).any():
            raise ValueError("the positions in the index do not rise")
        joined = self.data_pipeline(size).decode(body).tobytes() if size else b""
        ends = offsets.tolist()
        items = [joined[a:b] for a, b in itertools.pairwise(ends)]
        if spec.data_type.named.name == "string":
            return np.array([i.decode() for i in items], spec.data_type.dtype).reshape(spec.shape)
        out = np.empty(len(items), object)
        out[:] = items
        return out.reshape(spec.shape)

    def _split(self, view: memoryview) -> tuple[memoryview, memoryview]:
        """Return the encoded index and the encoded bytes of the items."""
        if len(view) < LENGTH:
            raise ValueError(f"there are {len(view)} bytes, fewer than the length of an index has")
        stated, rest = (
            (view[-LENGTH:], view[:-LENGTH]) if self.at_end else (view[:LENGTH], view[LENGTH:])
        )
        size = int.from_bytes(stated, "little")
        if size > len(rest):
            raise ValueError(f"an index of {size} bytes does not fit into the chunk's {len(rest)}")
        if self.at_end:
            return rest[len(rest) - size :], rest[: len(rest) - size]
        return rest[:size], rest[size:]


@dataclass(frozen=True, slots=True)
class VlenV2(ArrayBytesCodec):
    """The codec ``zarrs.vlen_v2`` (earlier ``vlen_v2``); no configuration."""

    name: ClassVar[str] = "zarrs.vlen_v2"

    def encoded_size(self, spec: Spec) -> int | None:
        check_variable(self.name, spec)
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        return _interleaved(spec).encode(array, spec)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        return _interleaved(spec).decode(data, spec)


@dataclass(frozen=True, slots=True)
class VlenArray(VlenV2):
    """``vlen-array``: as `VlenV2` in version 3; with a `dtype`, numcodecs' codec of version 2."""

    name: ClassVar[str] = "vlen-array"

    @classmethod
    def bind(cls, named: Named) -> Codec:  # type: ignore[override]  # another one in version 2
        if "dtype" in named.configuration:
            return numcodecs.bind(Named(f"{PREFIX}vlen-array", named.configuration))
        check_members(named, "codec")
        return cls()


def check_variable(name: str, spec: Spec) -> None:
    """Raise unless items are strings or byte strings of any length."""
    stated = spec.data_type.named.name
    if stated not in ("string", "bytes", "variable_length_bytes"):
        raise InvalidMetadata(f"codec {name!r} stores 'string' and 'bytes', not {stated!r}")


def _interleaved(spec: Spec) -> VlenUtf8 | VlenBytes:
    return VlenUtf8() if spec.data_type.named.name == "string" else VlenBytes()
