"""Codecs that are registered with zarr-python and unknown here, run by zarr-python's classes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

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
        document: dict[str, Any] = {"name": self.name}
        if named.configuration:
            document["configuration"] = dict(named.configuration)
        try:
            codec = self.cls.from_dict(document)
        except (TypeError, ValueError, KeyError) as e:
            raise InvalidMetadata(f"codec {self.name!r}: {e}") from e
        made = ZarrBytesCodec if self.kind == "bytes->bytes" else ZarrArrayCodec
        return made(self.name, codec, self.kind)


@dataclass(frozen=True)
class _Codec:
    """A codec of zarr-python, run on one chunk."""

    name: str
    codec: Any
    kind: Kind

    def _run(self, method: str, data: Any, spec: Any) -> Any:
        buffers = library.module("zarr.core.buffer.cpu")
        if isinstance(data, np.ndarray):
            given = buffers.NDBuffer.from_numpy_array(np.ascontiguousarray(data))
        else:
            given = buffers.Buffer.from_bytes(bytes(data))
        codec = self.codec.evolve_from_array_spec(spec)
        found = next(iter(library.sync(getattr(codec, method)([(given, spec)]))))
        return found.as_numpy_array() if hasattr(found, "as_ndarray_like") else found.to_bytes()


class ZarrArrayCodec(_Codec):
    """A codec of zarr-python that turns arrays into arrays or bytes."""

    def resolve(self, spec: Spec) -> Spec:
        """Return the shape, type and fill value after the codec."""
        given = _array_spec(spec)
        after = self.codec.evolve_from_array_spec(given).resolve_metadata(given)
        data_type = bind_type(describe(after.dtype.to_native_dtype()))
        return Spec(tuple(after.shape), data_type, data_type.scalar(after.fill_value))

    def encoded_size(self, spec: Spec) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Any:
        """Return the array or bytes to store."""
        return self._run("encode", array, _array_spec(spec))

    def decode(self, data: Any, spec: Spec) -> npt.NDArray[Any]:
        """Return the array that was encoded."""
        found: npt.NDArray[Any] = self._run("decode", data, _array_spec(spec))
        return found.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


class ZarrBytesCodec(_Codec):
    """A codec of zarr-python that turns bytes into bytes."""

    def encoded_size(self, size: int) -> int | None:
        """Return None: it may vary."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes to store."""
        found: bytes = self._run("encode", data, _bytes_spec(len(data)))
        return found

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes that were encoded."""
        length = len(data) if size is None else size
        found: bytes = self._run("decode", data, _bytes_spec(length))
        return found


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
