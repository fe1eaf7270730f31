"""Codecs that are registered with zarr-python and unknown here, run by zarr-python's classes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import Buffer, Kind, Spec
from omnizarr.codecs.specify import to_named
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types import describe
from omnizarr.errors import InvalidMetadata
from omnizarr.interop.zarr import library
from omnizarr.model import Named
from omnizarr.model.node import PREFIX

_KINDS: dict[str, Kind] = {
    "ArrayArrayCodec": "array->array",
    "ArrayBytesCodec": "array->bytes",
    "BytesBytesCodec": "bytes->bytes",
}


def find(name: str) -> Any | None:
    """Return what makes the codec that zarr-python has under a name, or None."""
    if name.startswith(PREFIX):  # those of numcodecs are known here
        return None
    try:
        cls = library.module("zarr.registry").get_codec_class(name)
    except (KeyError, ValueError):  # it is unknown to zarr-python, too
        return None
    bases = library.module("zarr.abc.codec")
    kinds = [kind for base, kind in _KINDS.items() if issubclass(cls, getattr(bases, base))]
    return _Registered(name, cls, kinds[0]) if kinds else None


def to_zarr(given: Any, zarr_format: int) -> Any:
    """Return codecs as zarr-python takes them: ours as JSON or as those of numcodecs."""
    if isinstance(given, (list, tuple)):
        return type(given)(to_zarr(codec, zarr_format) for codec in given)
    if not library.is_ours(type(given)):
        return given
    named = to_named(given, None)
    members = copy.deepcopy(dict(named.configuration))
    if zarr_format != 2:
        return {"name": named.name, "configuration": members}
    return library.module("numcodecs").get_codec({"id": named.name.removeprefix(PREFIX), **members})


@dataclass(frozen=True)
class _Registered:
    """A codec class of zarr-python, which makes codecs of a configuration."""

    name: str
    cls: Any
    kind: Kind

    def bind(self, named: Named) -> Any:
        """Return the codec with that configuration."""
        made = {
            "array->array": ZarrArrayArray,
            "array->bytes": ZarrArrayBytes,
            "bytes->bytes": ZarrBytesBytes,
        }
        document: dict[str, Any] = {"name": self.name}
        if named.configuration:
            document["configuration"] = dict(named.configuration)
        try:
            codec = self.cls.from_dict(document)
        except (TypeError, ValueError, KeyError) as e:
            raise InvalidMetadata(f"codec {self.name!r}: {e}") from e
        return made[self.kind](self.name, codec)


@dataclass(frozen=True)
class _Codec:
    """A codec of zarr-python."""

    name: str
    codec: Any

    def _run(self, method: str, data: Any, spec: Any) -> Any:
        """Encode or decode one chunk."""
        codec = self.codec.evolve_from_array_spec(spec)
        return next(iter(library.sync(getattr(codec, method)([(data, spec)]))))


class ZarrArrayArray(_Codec):
    """A codec of zarr-python that turns arrays into arrays."""

    kind: ClassVar[Kind] = "array->array"

    def resolve(self, spec: Spec) -> Spec:
        """Return the shape, type and fill value after the codec."""
        given = _array_spec(spec)
        after = self.codec.evolve_from_array_spec(given).resolve_metadata(given)
        data_type = bind_type(describe(after.dtype.to_native_dtype()))
        return Spec(tuple(after.shape), data_type, data_type.scalar(after.fill_value))

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the array to store."""
        return _as_array(self._run("encode", _as_nd_buffer(array), _array_spec(spec)))

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded."""
        return _as_array(self._run("decode", _as_nd_buffer(array), _array_spec(spec)))


class ZarrArrayBytes(_Codec):
    """A codec of zarr-python that turns arrays into bytes."""

    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        """Return the bytes to store."""
        return _as_bytes(self._run("encode", _as_nd_buffer(array), _array_spec(spec)))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded."""
        found = _as_array(self._run("decode", _as_buffer(data), _array_spec(spec)))
        return found.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


class ZarrBytesBytes(_Codec):
    """A codec of zarr-python that turns bytes into bytes."""

    kind: ClassVar[Kind] = "bytes->bytes"

    def encoded_size(self, size: int) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes to store."""
        return _as_bytes(self._run("encode", _as_buffer(data), _bytes_spec(len(data))))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes that were encoded."""
        length = len(data) if size is None else size
        return _as_bytes(self._run("decode", _as_buffer(data), _bytes_spec(length)))


def _array_spec(spec: Spec) -> Any:
    """Return zarr-python's description of a chunk."""
    dtype = library.module("zarr.dtype").parse_dtype(spec.data_type.dtype, zarr_format=3)
    return library.module("zarr.core.array_spec").ArraySpec(
        shape=spec.shape,
        dtype=dtype,
        fill_value=spec.fill[()],
        config=library.array_config(),
        prototype=library.module("zarr.core.buffer").default_buffer_prototype(),
    )


def _bytes_spec(size: int) -> Any:
    data_type = bind_type(describe("u1"))
    return _array_spec(Spec((size,), data_type, data_type.scalar(0)))


def _as_buffer(data: Buffer) -> Any:
    return library.module("zarr.core.buffer.cpu").Buffer.from_bytes(bytes(data))


def _as_nd_buffer(array: npt.NDArray[Any]) -> Any:
    kind = library.module("zarr.core.buffer.cpu").NDBuffer
    return kind.from_numpy_array(np.ascontiguousarray(array))


def _as_array(buffer: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = buffer.as_numpy_array()
    return found


def _as_bytes(buffer: Any) -> bytes:
    found: bytes = buffer.to_bytes()
    return found
