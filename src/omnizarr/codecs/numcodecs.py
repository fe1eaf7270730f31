"""The codecs of the package numcodecs that have no file here, under ``numcodecs.<id>``.

They are the filters, object codecs and compressors of version 2 by their id; zarr-python calls them
``numcodecs.<id>`` in version 3. The configuration is passed to numcodecs as it is. pickle, which
runs code from the data, is refused by name.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, ClassVar

import numcodecs
import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.codecs import codec as interface
from omnizarr.codecs.codec import ArrayArray, ArrayBytes, Buffer, BytesBytes, Codec, Kind, Spec
from omnizarr.codecs.serializers import check_count
from omnizarr.data_types import as_type, describe
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types.data_type import DataType, Scalar
from omnizarr.errors import InvalidMetadata, MissingModule, UnknownExtension
from omnizarr.model import Named
from omnizarr.model.node import ARRAY_TO_ARRAY, ARRAY_TO_BYTES, CHECKSUMS, IMAGECODECS, PREFIX

_REFUSED = ("pickle", "json", "msgpack")


def bind(named: Named) -> Codec:
    """Return the codec of numcodecs for the name ``numcodecs.<id>``."""
    id_ = named.name.removeprefix(PREFIX)
    if id_ in _REFUSED:
        reason = "runs code from the data" if id_ == "pickle" else "is not read by numcodecs"
        raise UnknownExtension(f"codec {id_!r} {reason}; refused", kind="codec", name=named.name)
    if id_.startswith(IMAGECODECS):
        from omnizarr.codecs.extensions import imagecodecs  # noqa: PLC0415 - rarely needed

        return imagecodecs.bind_id(named)
    try:
        config = {**named.configuration, "id": id_}
        codec = numcodecs.get_codec(config)
    except numcodecs.errors.UnknownCodecError:
        package = {"msgpack2": "msgpack", "crc32c": "crc32c"}.get(id_)
        if package is not None:
            message = f"codec {named.name!r} needs the package {package}; pip install {package}"
            raise MissingModule(message) from None
        known = {name.removeprefix(PREFIX) for name in registry.names("codec")}
        known = {*known, *numcodecs.registry.codec_registry} - {*_REFUSED, "*"}
        message = f"unknown codec {id_!r}; numcodecs has none of that id, and no installed package"
        message += f" registers one there; {registry.similar_or_shared(id_, sorted(known))}"
        raise UnknownExtension(message, kind="codec", name=named.name) from None
    except (TypeError, ValueError) as e:
        raise InvalidMetadata(f"codec {named.name!r}: {e}") from None
    if id_ in ARRAY_TO_ARRAY:
        return NumcodecsArray(named.name, codec)
    if id_ in ARRAY_TO_BYTES:
        return NumcodecsSerializer(named.name, codec)
    return NumcodecsBytes(named.name, codec)


class OnBytes:
    """``filter-on-bytes``, of version 2 only: a filter that sees the bytes before it as items."""

    kind: ClassVar[Kind] = "bytes->bytes"

    @staticmethod
    def bind(named: Named) -> Codec:
        """Return the filter of that id for bytes."""
        id_ = named.configuration.get("id")
        codec = bind(Named(f"{PREFIX}{id_}", named.without("id").configuration))
        if not isinstance(codec, NumcodecsArray):
            raise InvalidMetadata(f"codec {named.name!r}: {id_!r} is not a filter on arrays")
        return NumcodecsBytes(codec.name, codec.codec)


@dataclass(frozen=True, slots=True)
class NumcodecsArray(ArrayArray):
    """A filter that turns arrays into arrays.

    numcodecs sees its input as the type that the filter states, which may differ on purpose, as for
    times. Items of another byte order are converted to that of the filter first.
    """

    name: str
    codec: Any

    def resolve(self, spec: Spec) -> Spec:
        taken, items = self._stated("decode_dtype", "dtype"), spec.data_type.dtype
        is_fixed = taken is not None and not (taken.hasobject or spec.data_type.variable)
        if taken is not None and is_fixed and taken.itemsize != items.itemsize:
            raise InvalidMetadata(
                f"it takes items of {taken} ({taken.itemsize} bytes), not of {items}"
                f" ({items.itemsize}); give it the dtype of the array"
            )
        shape, dtype = spec.shape, self._stated("encode_dtype", "astype") or items
        if self.codec.codec_id == "packbits":
            shape, dtype = (1 + (spec.size + 7) // 8,), np.dtype("u1")
        data_type = bind_type(describe(dtype))
        return Spec(shape, data_type, _fill(spec, data_type))

    def _stated(self, *members: str) -> np.dtype[Any] | None:
        """Return the type that the first of some members states."""
        stated = (getattr(self.codec, member, None) for member in members)
        return next((np.dtype(found) for found in stated if found is not None), None)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        after = self.resolve(spec)
        # bitround, which states no type, knows only the order of the machine.
        order = self._stated("decode_dtype", "dtype") or np.dtype("=i4")
        items = in_order_of(np.ascontiguousarray(array), order)
        out = in_order_of(np.asarray(self.codec.encode(items)), after.data_type.dtype)
        return out.view(after.data_type.dtype).reshape(after.shape)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        items = np.ascontiguousarray(array).reshape(-1)
        items = in_order_of(items, self.resolve(spec).data_type.dtype)
        dtype = spec.data_type.dtype
        out = in_order_of(np.asarray(self.codec.decode(items)), dtype)
        if out.dtype != dtype:
            same = out.dtype.itemsize == dtype.itemsize and "O" not in (out.dtype.kind, dtype.kind)
            out = out.view(dtype) if same else out.astype(dtype)
        return out.reshape(spec.shape)


def in_order_of(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the same numbers, of the same type, in the byte order of `dtype`."""
    own = array.dtype
    if own.isnative == dtype.isnative or "|" in (own.byteorder, dtype.byteorder):
        return array
    return as_type(array, own.newbyteorder())


def _fill(spec: Spec, data_type: DataType) -> Scalar:
    """Return the value that zarr-python uses for missing inner chunks of a shard after a filter."""
    if spec.data_type.variable or not {spec.fill.dtype.kind, data_type.dtype.kind} <= set("biuf"):
        return data_type.scalar(data_type.zero)
    with np.errstate(all="ignore"):
        return spec.fill.astype(data_type.dtype)


@dataclass(frozen=True, slots=True)
class NumcodecsSerializer(ArrayBytes):
    """An object codec, or a compressor of whole arrays."""

    name: str
    codec: Any

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        items = array.astype(object) if spec.data_type.variable else array
        # In C order, and at least 1-dimensional: numcodecs minds both.
        return to_bytes(self.codec.encode(np.ascontiguousarray(items)))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        if self.codec.codec_id.startswith("vlen"):
            check_count(data, spec)
        out = np.asarray(self.codec.decode(interface.as_bytes_array(data)))
        if out.size != spec.size and self.codec.codec_id != "vlen-array":
            raise ValueError(f"the chunk has {out.size} items, expected {spec.size}")
        return out.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class NumcodecsBytes(BytesBytes):
    """A compressor, checksum or other codec on bytes."""

    name: str
    codec: Any

    def encoded_size(self, size: int) -> int | None:
        id_ = self.codec.codec_id
        if id_ in CHECKSUMS:
            return size + 4
        return size if id_ == "shuffle" else None

    def encode(self, data: Buffer) -> Buffer:
        return to_bytes(self.codec.encode(interface.as_bytes_array(data)))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        return within_limit(to_bytes(self.codec.decode(interface.as_bytes_array(data))), size)


def within_limit(made: bytes, size: int | None) -> bytes:
    """Return what a codec made; raise if it is more than the expected size, or the limit."""
    limit = interface.limit_of(size)
    if len(made) > limit:
        raise ValueError(f"it decompresses to {len(made)} bytes, expected at most {limit}")
    return made


def to_bytes(data: Any) -> bytes:
    """Return what a codec of another package made as bytes."""
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if isinstance(data, io.BytesIO):
        return data.getvalue()
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).tobytes()
