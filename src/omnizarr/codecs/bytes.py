"""bytes: items of fixed size, one after the other in C order, in a stated byte order."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec
from omnizarr.data_types import as_type
from omnizarr.errors import InvalidMetadata


@dataclass(frozen=True, slots=True)
class Bytes(ArrayBytesCodec):
    """``bytes`` of version 3: ``{"endian": "little"}``.

    ``endian`` in 2023, and ``https://purl.org/zarr/spec/codecs/endian/1.0`` in the draft; versions
    1 and 2 imply it. Without `endian` the byte order is that of the data type: little, unless an
    older format says otherwise. Version 3 demands it for multi-byte types; we always write it.

    Attributes:
        endian: ``"little"``, ``"big"`` or None.

    Examples:
        >>> a = oz.create_array(shape=3, serializer=oz.codecs.BytesCodec(endian="big"))
        >>> a.codecs[0].configuration["endian"]
        'big'
    """

    endian: str | None = None

    name: ClassVar[str] = "bytes"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        good = self.endian in (None, "little", "big")
        self.check("endian", good, "'little' or 'big'")

    def encoded_size(self, spec: Spec) -> int | None:
        if spec.data_type.masking is not None:
            raise InvalidMetadata(
                f"codec 'bytes' cannot store {spec.data_type.named.name!r}; use zarrs.optional"
            )
        if spec.data_type.variable:
            raise InvalidMetadata(
                f"codec 'bytes' cannot store the variable-length type"
                f" {spec.data_type.named.name!r}; use vlen-utf8 or vlen-bytes"
            )
        return spec.nbytes

    def stored(self, spec: Spec) -> np.dtype[Any]:
        """Return the NumPy type of the stored items."""
        dtype = spec.data_type.dtype
        if self.endian is None:
            return dtype
        return dtype.newbyteorder("<" if self.endian == "little" else ">")

    def plain(self, spec: Spec) -> bool:
        """Return True if stored items are always the same bytes as in memory."""
        dtype, bits = spec.data_type.dtype, spec.data_type.bits
        if dtype.itemsize == 0 or holds_text(dtype) or (bits is not None and bits < 8):
            return False
        return self.stored(spec) == dtype and not dtype.hasobject

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        stored = np.ascontiguousarray(as_type(array, self.stored(spec)))
        return stored.reshape(-1).view(np.uint8).data if stored.nbytes else b""

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        stored = self.stored(spec)
        if spec.size == 0 or stored.itemsize == 0:
            return np.zeros(spec.shape, spec.data_type.dtype)
        array = np.frombuffer(data, stored).reshape(spec.shape)
        _check_text(array)
        if spec.data_type.bits is not None and spec.data_type.bits < 8:
            array = _masked(array, spec.data_type.bits)
        return array


def holds_text(dtype: np.dtype[Any]) -> bool:
    """Return True if items are or contain text, whose code points must be checked."""
    if dtype.names is not None:
        return any(holds_text(dtype[name].base) for name in dtype.names)
    return dtype.kind == "U"


def _check_text(array: npt.NDArray[Any]) -> None:
    """Raise if text has code points that do not exist: NumPy fails on them much later."""
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check_text(array[name])
    elif array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        order = array.dtype.newbyteorder("=") == array.dtype
        points = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if (points if order else points.byteswap()).max() > sys.maxunicode:
            raise ValueError("the text has a code point beyond U+10FFFF")


def _masked(array: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Return items of a few bits with their unused upper bits cleared, or sign-extended."""
    shift = 8 - bits
    signed = array.dtype.name.startswith("int")
    raw = array.reshape(-1).view(np.int8 if signed else np.uint8)
    return ((raw << shift) >> shift).view(array.dtype).reshape(array.shape)
