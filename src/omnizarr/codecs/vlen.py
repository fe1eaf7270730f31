"""vlen-utf8 and vlen-bytes: items of variable length.

A count in four bytes, then for each item its length in four bytes and its bytes, all little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numcodecs import vlen

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec, as_bytes_array
from omnizarr.errors import InvalidMetadata

try:
    from omnizarr.codecs import _strings
except ImportError:  # no compiler when it was installed
    _strings = None  # type: ignore[assignment]


def _check_count(data: Buffer, spec: Spec) -> None:
    count = int.from_bytes(bytes(data[:4]), "little")
    if len(data) < 4 or count != spec.size:
        raise ValueError(f"the chunk says it has {count} items, expected {spec.size}")


def _check_end(data: Buffer, lengths: Iterable[int]) -> None:
    left = len(data) - 4 - sum(4 + length for length in lengths)
    if left:
        raise ValueError(f"{left} bytes follow the last item")


@dataclass(frozen=True, slots=True)
class VlenUtf8(ArrayBytesCodec):
    """The registered extension ``vlen-utf8``, an object codec of version 2; no configuration.

    Examples:
        >>> oz.create_array(data=["a", "bc"], dtype=str, serializer=oz.codecs.VLenUTF8Codec()).shape
        (2,)
    """

    name: ClassVar[str] = "vlen-utf8"

    def encoded_size(self, spec: Spec) -> int | None:
        if spec.data_type.named.name not in ("string", "object", "fixed_length_utf32"):
            raise InvalidMetadata(
                f"codec 'vlen-utf8' stores strings, not {spec.data_type.named.name!r}"
            )
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        if _strings is not None and array.dtype.kind == "T":
            data = _strings.encode(np.ascontiguousarray(array))
            if data is not None:
                return data
        return bytes(vlen.VLenUTF8().encode(array.astype(object).reshape(-1)))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        _check_count(data, spec)
        if _strings is not None and spec.data_type.dtype.kind == "T":
            out = np.empty(spec.shape, spec.data_type.dtype)
            if _strings.decode(data, out):
                return out
        items: npt.NDArray[Any] = vlen.VLenUTF8().decode(as_bytes_array(data))
        _check_end(data, (len(item.encode()) for item in items))
        return items.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class VlenBytes(ArrayBytesCodec):
    """The registered extension ``vlen-bytes``, an object codec of version 2; no configuration.

    Examples:
        >>> codec = oz.codecs.VLenBytesCodec()
        >>> a = oz.create_array(shape=2, dtype=object, zarr_format=2, filters=[codec])
        >>> a[:] = [b"a", b"bc"]
        >>> a[1]
        b'bc'
    """

    name: ClassVar[str] = "vlen-bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        if spec.data_type.dtype != np.dtype(object) and spec.data_type.dtype.kind != "S":
            raise InvalidMetadata(
                f"codec 'vlen-bytes' stores byte strings, not {spec.data_type.named.name!r}"
            )
        return None

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        return bytes(vlen.VLenBytes().encode(array.astype(object).reshape(-1)))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        _check_count(data, spec)
        items: npt.NDArray[Any] = vlen.VLenBytes().decode(as_bytes_array(data))
        _check_end(data, map(len, items))
        return items.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)
