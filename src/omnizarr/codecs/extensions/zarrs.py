"""Codecs of zarrs: zarrs.vlen, zarrs.vlen_v2 and vlen-array, and zarrs.optional.

Specification: the documentation of zarrs; zarr-python knows none of them in version 3. The first
three are for the data types ``string`` and ``bytes``, the last for the data type of its name.

``zarrs.vlen`` stores the bytes of all items in one row, and an index of the positions where they
begin, with the end of the last. The chunk begins or ends with the length of the encoded index in
eight bytes, little-endian::

    {"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
     "data_codecs": [{"name": "bytes"}], "index_data_type": "uint32", "index_location": "start"}

``zarrs.vlen_v2`` and ``vlen-array`` without a configuration are laid out as ``vlen-utf8`` and
``vlen-bytes`` are: every item follows its length. ``vlen-array`` with a `dtype` is version 2's.

A chunk of ``zarrs.optional`` has the lengths of the encoded mask and of the encoded values, each in
eight bytes, little-endian, and then both. The mask has the shape of the chunk and is true where
there is a value; the values have one axis, in C order, and are nothing if there are none::

    {"mask_codecs": [{"name": "packbits"}],
     "data_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs import codec, numcodecs
from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Kind, Spec, as_bytes_array, limit_of
from omnizarr.codecs.pipeline import CodecPipeline, bind_pipeline
from omnizarr.codecs.serializers import VlenBytes, VlenUtf8
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types.compound import Masking
from omnizarr.data_types.data_type import DataType
from omnizarr.errors import InvalidMetadata, error_context
from omnizarr.model import Named
from omnizarr.model.node import PREFIX, check_members

LENGTH = 8  # bytes that state a length
LITTLE = (Named("bytes", {"endian": "little"}),)


def _bind_row(codecs: tuple[Named, ...], data_type: DataType, count: int) -> CodecPipeline:
    """Return the data codecs for a row of items."""
    spec = Spec((count,), data_type, data_type.scalar(data_type.zero))
    return bind_pipeline(codecs, spec, "configuration.data_codecs")


@dataclass(frozen=True, slots=True)
class Vlen(ArrayBytesCodec):
    """The codec ``zarrs.vlen`` (earlier ``vlen``); without a location the index comes first."""

    index_codecs: tuple[Named, ...] = LITTLE
    data_codecs: tuple[Named, ...] = (Named("bytes"),)
    index_data_type: str = "uint64"
    index_location: str = "start"

    name: ClassVar[str] = "zarrs.vlen"
    codec_lists: ClassVar[tuple[str, ...]] = ("index_codecs", "data_codecs")
    stated: ClassVar[tuple[str, ...]] = (*codec_lists, "index_data_type")

    def __post_init__(self) -> None:
        self.name_codecs()
        types, places = ("uint32", "uint64"), ("start", "end")
        self.check("index_data_type", self.index_data_type in types, " or ".join(types))
        self.check("index_location", self.index_location in places, " or ".join(places))

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None; raise if the codecs do not fit such chunks."""
        check_variable(self.name, spec)
        self._bind_index(spec)
        _bind_row(self.data_codecs, bind_type(Named("uint8")), 1)
        return None

    def _bind_index(self, spec: Spec) -> CodecPipeline:
        number = bind_type(Named(self.index_data_type))
        offsets = Spec((spec.size + 1,), number, number.scalar(0))
        return bind_pipeline(self.index_codecs, offsets, "configuration.index_codecs")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        text = spec.data_type.named.name == "string"
        items = [str(item).encode() if text else bytes(item) for item in array.reshape(-1)]
        pipeline = self._bind_index(spec)
        dtype = pipeline.spec.data_type.dtype
        offsets = np.array([*itertools.accumulate(map(len, items), initial=0)], np.uint64)
        if offsets[-1] > np.iinfo(dtype).max:
            raise ValueError(
                f"the items have {offsets[-1]} bytes, too many for an index of {dtype}"
            )
        index = bytes(pipeline.encode(offsets.astype(dtype)))
        joined = as_bytes_array(b"".join(items))
        data = b""
        if joined.size:
            row = _bind_row(self.data_codecs, bind_type(Named("uint8")), joined.size)
            data = bytes(row.encode(joined))
        size = len(index).to_bytes(LENGTH, "little")
        return data + index + size if self.index_location == "end" else size + index + data

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        index, body = self._split(memoryview(data))
        pipeline = self._bind_index(spec)
        if (pipeline.spec.nbytes or 0) > limit_of(None):
            raise ValueError(f"an index of {pipeline.spec.nbytes} bytes is above the limit")
        with error_context("index"):
            offsets = pipeline.decode(index)
        size = int(offsets[-1])
        if size > limit_of(None):
            raise ValueError(f"the index says {size} bytes, more than the limit {limit_of(None)}")
        if (offsets[1:] < offsets[:-1]).any():
            raise ValueError("the positions in the index do not rise")
        joined = b""
        if size:
            row = _bind_row(self.data_codecs, bind_type(Named("uint8")), size)
            joined = row.decode(body).tobytes()
        items = [joined[a:b] for a, b in itertools.pairwise(offsets.tolist())]
        if spec.data_type.named.name == "string":
            return np.array([i.decode() for i in items], spec.data_type.dtype).reshape(spec.shape)
        out = np.empty(len(items), object)
        out[:] = items
        return out.reshape(spec.shape)

    def _split(self, view: memoryview) -> tuple[memoryview, memoryview]:
        """Return the encoded index and the encoded bytes of the items."""
        if len(view) < LENGTH:
            raise ValueError(f"there are {len(view)} bytes, fewer than the length of an index has")
        end, at_end = len(view) - LENGTH, self.index_location == "end"
        stated, rest = (view[end:], view[:end]) if at_end else (view[:LENGTH], view[LENGTH:])
        size = int.from_bytes(stated, "little")
        if size > end:
            raise ValueError(f"an index of {size} bytes does not fit into the chunk's {end}")
        if at_end:
            return rest[end - size :], rest[: end - size]
        return rest[:size], rest[size:]


@dataclass(frozen=True, slots=True)
class VlenV2(codec.Configured):
    """The codec ``zarrs.vlen_v2`` (earlier ``vlen_v2``); no configuration."""

    name: ClassVar[str] = "zarrs.vlen_v2"
    kind: ClassVar[Kind] = "array->bytes"

    def for_spec(self, spec: Spec) -> VlenUtf8 | VlenBytes:
        """Return the codec of version 2 for such items."""
        check_variable(self.name, spec)
        return VlenUtf8() if spec.data_type.named.name == "string" else VlenBytes()


@dataclass(frozen=True, slots=True)
class VlenArray(VlenV2):
    """``vlen-array``: as `VlenV2` in version 3; with a `dtype`, numcodecs' codec of version 2."""

    name: ClassVar[str] = "vlen-array"

    @classmethod
    def bind(cls, named: Named) -> Any:  # another one in version 2
        if "dtype" in named.configuration:
            return numcodecs.bind(Named(f"{PREFIX}vlen-array", named.configuration))
        check_members(named, "codec")
        return cls()


def check_variable(name: str, spec: Spec) -> None:
    """Raise unless items are strings or byte strings of any length."""
    stated = spec.data_type.named.name
    if stated not in ("string", "bytes", "variable_length_bytes"):
        raise InvalidMetadata(f"codec {name!r} stores 'string' and 'bytes', not {stated!r}")


@dataclass(frozen=True, slots=True)
class Optional(ArrayBytesCodec):
    """The codec ``zarrs.optional`` (earlier ``optional``)."""

    mask_codecs: tuple[Named, ...] = (Named("packbits"),)
    data_codecs: tuple[Named, ...] = LITTLE

    name: ClassVar[str] = "zarrs.optional"
    codec_lists: ClassVar[tuple[str, ...]] = ("mask_codecs", "data_codecs")
    stated: ClassVar[tuple[str, ...]] = codec_lists

    def __post_init__(self) -> None:
        self.name_codecs()

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None; raise if the codecs do not fit such chunks."""
        self._bind_mask(spec)
        _bind_row(self.data_codecs, self._masking(spec).inner, 1)
        return None

    def _masking(self, spec: Spec) -> Masking:
        name, masking = spec.data_type.named.name, spec.data_type.masking
        if masking is None:
            raise InvalidMetadata(
                f"codec {self.name!r} stores the data type of that name, not {name!r}"
            )
        return masking

    def _bind_mask(self, spec: Spec) -> CodecPipeline:
        boolean = bind_type(Named("bool"))
        present = Spec(spec.shape, boolean, boolean.scalar(False))
        return bind_pipeline(self.mask_codecs, present, "configuration.mask_codecs")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        values, missing = self._masking(spec).split_stored(array)
        mask = bytes(self._bind_mask(spec).encode(~missing))
        inner = self._masking(spec).inner
        kept = values[~missing].astype(inner.dtype)
        data = b""
        if kept.size:
            data = bytes(_bind_row(self.data_codecs, inner, kept.size).encode(kept))
        lengths = np.array([len(mask), len(data)], "<u8").tobytes()
        return b"".join([lengths, mask, data])

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        start = 2 * LENGTH
        if len(data) < start:
            raise ValueError(f"there are {len(data)} bytes, fewer than the header of {start}")
        first, second = np.frombuffer(data, "<u8", 2).tolist()
        if len(data) != start + first + second:
            raise ValueError(
                f"the header says {first} bytes of mask and {second} of values, but there are"
                f" {len(data) - start}"
            )
        body = memoryview(data)[start:]
        with error_context("mask"):
            mask = self._bind_mask(spec).decode(body[:first])
        present = mask.view(np.uint8) != 0  # any byte but 0 is true
        count, inner = int(np.count_nonzero(present)), self._masking(spec).inner
        out = np.zeros(spec.shape, spec.data_type.dtype)
        if inner.variable:
            out[...] = None
        else:
            out["mask"] = ~present
        if count:
            target = out if inner.variable else out["data"]
            target[present] = _bind_row(self.data_codecs, inner, count).decode(body[first:])
        return out
