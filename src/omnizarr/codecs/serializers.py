"""Codecs from arrays to bytes: bytes, packbits, vlen-utf8 and vlen-bytes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numcodecs import vlen

from omnizarr.codecs.codec import ArrayBytesCodec, Buffer, Spec, as_bytes_array
from omnizarr.data_types import as_type
from omnizarr.errors import InvalidMetadata

try:
    from omnizarr.codecs import _strings
except ImportError:  # no compiler when it was installed
    _strings = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Bytes(ArrayBytesCodec):
    """``bytes`` of version 3: ``{"endian": "little"}``.

    Items of fixed size, one after the other in C order. ``endian`` in 2023, and
    ``https://purl.org/zarr/spec/codecs/endian/1.0`` in the draft; versions 1 and 2 imply it.
    Without `endian` the byte order is that of the data type: little, unless an older format says
    otherwise. Version 3 demands it for multi-byte types; we always write it.

    Attributes:
        endian: ``"little"``, ``"big"`` or None.

    Examples:
        >>> a = oz.create_array(shape=3, serializer=oz.codecs.BytesCodec(endian="big"))
        >>> a.codecs[0].configuration["endian"]
        'big'
    """

    endian: str | None = None

    name: ClassVar[str] = "bytes"

    def __post_init__(self) -> None:
        self.check("endian", self.endian in (None, "little", "big"), "'little' or 'big'")

    def encoded_size(self, spec: Spec) -> int | None:
        name = spec.data_type.named.name
        if spec.data_type.masking is not None:
            raise InvalidMetadata(f"codec 'bytes' cannot store {name!r}; use zarrs.optional")
        if spec.data_type.variable:
            raise InvalidMetadata(
                f"codec 'bytes' cannot store the variable-length type {name!r}; use vlen-utf8 or"
                " vlen-bytes"
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
        stored, bits = self.stored(spec), spec.data_type.bits
        if spec.size == 0 or stored.itemsize == 0:
            return np.zeros(spec.shape, spec.data_type.dtype)
        array = np.frombuffer(data, stored).reshape(spec.shape)
        _check_text(array)
        if bits is None or bits >= 8:
            return array
        # The unused upper bits are cleared, or sign-extended.
        signed = array.dtype.name.startswith("int")
        raw = array.reshape(-1).view(np.int8 if signed else np.uint8)
        return ((raw << 8 - bits) >> 8 - bits).view(array.dtype).reshape(array.shape)


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
        points = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if (points if array.dtype.isnative else points.byteswap()).max() > sys.maxunicode:
            raise ValueError("the text has a code point beyond U+10FFFF")


@dataclass(frozen=True, slots=True)
class Packbits(ArrayBytesCodec):
    """The registered extension ``packbits`` of version 3: items of a few bits, without gaps.

    ``{"padding_encoding": "none", "first_bit": null, "last_bit": null}``. The filter of that name
    in version 2 is ``numcodecs.packbits``. The register's schema, and zarrs until 2025, have
    ``start_byte`` and ``end_byte`` for ``first_byte`` and ``last_byte``, which is read.
    """

    padding_encoding: str = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    name: ClassVar[str] = "packbits"

    def __post_init__(self) -> None:
        allowed = ("none", "first_byte", "last_byte")
        earlier = {"start_byte": "first_byte", "end_byte": "last_byte"}
        if self.padding_encoding in earlier:
            object.__setattr__(self, "padding_encoding", earlier[self.padding_encoding])
        self.check("padding_encoding", self.padding_encoding in allowed, " or ".join(allowed))
        for member in ("first_bit", "last_bit"):
            if getattr(self, member) is not None:
                self.check_integer(member, 0, 63)

    def _layout(self, spec: Spec) -> tuple[int, int, slice, int]:
        """Return the number of components, their bits in memory, the bits kept, and the padding."""
        data_type, parts = spec.data_type, spec.data_type.components
        is_record = data_type.dtype.names is not None and parts == 1
        if data_type.variable or data_type.dtype.kind not in "biufcmMV" or is_record:
            raise InvalidMetadata(f"codec 'packbits' cannot pack {data_type.named.name!r}")
        width = 8 * data_type.dtype.itemsize // parts
        most = 1 if data_type.dtype.kind == "b" else data_type.bits or width
        first = self.first_bit or 0
        last = most - 1 if self.last_bit is None else self.last_bit
        if not first <= last < most:
            raise InvalidMetadata(
                f"codec 'packbits': bits {first} to {last} do not fit {data_type.named.name!r}"
            )
        count = spec.size * parts
        return count, width, slice(first, last + 1), -count * (last + 1 - first) % 8

    def encoded_size(self, spec: Spec) -> int | None:
        count, _, kept, padding = self._layout(spec)
        bits: int = count * (kept.stop - kept.start) + padding
        return bits // 8 + (self.padding_encoding != "none")

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        count, width, kept, padding = self._layout(spec)
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        raw = little.reshape(-1).view(np.uint8).reshape(count, width // 8)
        bits = np.unpackbits(raw, axis=1, bitorder="little")[:, kept]
        packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
        if self.padding_encoding == "first_byte":
            return bytes([padding]) + packed
        return packed + bytes([padding]) if self.padding_encoding == "last_byte" else packed

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        count, width, kept, padding = self._layout(spec)
        view, dtype = memoryview(data), spec.data_type.dtype
        if self.padding_encoding != "none":
            at_start = self.padding_encoding == "first_byte"
            stated, view = (view[0], view[1:]) if at_start else (view[-1], view[:-1])
            if stated != padding:
                raise ValueError(f"{stated} padding bits do not fit {spec.size} items")
        each = kept.stop - kept.start
        bits = np.unpackbits(as_bytes_array(view), count=count * each, bitorder="little")
        full = np.zeros((count, width), np.uint8)
        full[:, kept] = bits.reshape(count, each)
        if spec.data_type.named.name.startswith("int") or dtype.kind in "mM":  # signed
            full[:, kept.stop :] = full[:, kept.stop - 1 : kept.stop]
        raw = np.packbits(full, axis=1, bitorder="little").reshape(-1)
        return raw.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(spec.shape)


# Items of variable length: a count in four bytes, then for each item its length in four bytes and
# its bytes, all little-endian.


def check_count(data: Buffer, spec: Spec) -> None:
    """Raise unless a chunk has as many items as expected."""
    count = int.from_bytes(bytes(data[:4]), "little")
    if len(data) < 4 or count != spec.size:
        raise ValueError(f"the chunk says it has {count} items, expected {spec.size}")


class _Vlen(ArrayBytesCodec):
    """Items of variable length, by a codec of numcodecs."""

    library: ClassVar[Any]

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        return bytes(self.library.encode(array.astype(object).reshape(-1)))

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        check_count(data, spec)
        items: npt.NDArray[Any] = self.library.decode(as_bytes_array(data))
        lengths = (len(item.encode() if isinstance(item, str) else item) for item in items)
        left = len(data) - 4 * (1 + len(items)) - sum(lengths)
        if left:
            raise ValueError(f"{left} bytes follow the last item")
        return items.astype(spec.data_type.dtype, copy=False).reshape(spec.shape)


@dataclass(frozen=True, slots=True)
class VlenUtf8(_Vlen):
    """The registered extension ``vlen-utf8``, an object codec of version 2; no configuration.

    Examples:
        >>> oz.create_array(data=["a", "bc"], dtype=str, serializer=oz.codecs.VLenUTF8Codec()).shape
        (2,)
    """

    name: ClassVar[str] = "vlen-utf8"
    library: ClassVar[Any] = vlen.VLenUTF8()

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
        return super(VlenUtf8, self).encode(array, spec)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        if _strings is not None and spec.data_type.dtype.kind == "T":
            check_count(data, spec)
            out = np.empty(spec.shape, spec.data_type.dtype)
            if _strings.decode(data, out):
                return out
        return super(VlenUtf8, self).decode(data, spec)


@dataclass(frozen=True, slots=True)
class VlenBytes(_Vlen):
    """The registered extension ``vlen-bytes``, an object codec of version 2; no configuration.

    Examples:
        >>> codec = oz.codecs.VLenBytesCodec()
        >>> a = oz.create_array(shape=2, dtype=object, zarr_format=2, filters=[codec])
        >>> a[:] = [b"a", b"bc"]
        >>> a[1]
        b'bc'
    """

    name: ClassVar[str] = "vlen-bytes"
    library: ClassVar[Any] = vlen.VLenBytes()

    def encoded_size(self, spec: Spec) -> int | None:
        if spec.data_type.dtype != np.dtype(object) and spec.data_type.dtype.kind != "S":
            raise InvalidMetadata(
                f"codec 'vlen-bytes' stores byte strings, not {spec.data_type.named.name!r}"
            )
        return None
