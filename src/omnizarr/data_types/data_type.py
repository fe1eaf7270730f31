"""The interface of data types, and the key that identifies a NumPy type."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from omnizarr._json import kind_of
from omnizarr.concurrency.cache import MAX_SIZE, Key, typed_key
from omnizarr.errors import CannotExpress, InvalidMetadata
from omnizarr.model import Dialect, FillValue, Named

MAX_ITEM_BYTES = 2**26  # a fill value alone takes as much
Scalar: TypeAlias = "np.ndarray[tuple[()], Any]"  # 0-dimensional: keeps every bit


@dataclass(frozen=True, slots=True)
class DataType:
    """A named type and its representation in NumPy.

    `decode` turns the JSON of a fill value into a scalar, `encode` the reverse, both in the
    words of a dialect. `bits` is the significant bits of one component, for packing.
    """

    named: Named
    dtype: np.dtype[Any]
    decode: Callable[[Any, Dialect], Any] = field(compare=False)
    encode: Callable[[Scalar, Dialect], Any] = field(compare=False)
    zero: Any = 0
    bits: int | None = None

    def __post_init__(self) -> None:
        if self.dtype.itemsize > MAX_ITEM_BYTES:
            raise InvalidMetadata(
                f"one element of type {self.named.name!r} has {self.dtype.itemsize} bytes;"
                f" the most is {MAX_ITEM_BYTES}"
            )

    @property
    def variable(self) -> bool:
        """True if items have no fixed size in bytes."""
        return self.dtype.hasobject or self.dtype.kind == "T"

    def unset(self, dialect: Dialect) -> Any:
        """Return the value of elements that were never written: no time for times, else zero.

        The other formats have no words for "no time".
        """
        times = self.dtype.kind in "mM" and dialect in ("v2", "v3")
        return np.array("NaT", self.dtype) if times else self.zero

    def scalar(self, value: Any) -> Scalar:
        """Return `value` as a 0-dimensional array of this type."""
        if isinstance(value, np.ndarray) and value.dtype == self.dtype and value.ndim == 0:
            return value
        if self.dtype.kind in "iu" and isinstance(value, (float, np.floating)) and value % 1:
            raise InvalidMetadata(f"{value!r} is not a value of type {self.dtype}")
        if self.dtype.kind in "SU" and isinstance(value, (str, bytes)):
            room = self.dtype.itemsize // (4 if self.dtype.kind == "U" else 1)
            if any(value[room:].strip("\0") if isinstance(value, str) else value[room:]):
                raise InvalidMetadata(
                    f"{value!r} is not a value of type {self.dtype}: it is longer"
                )
        out = np.empty((), self.dtype)
        try:
            with np.errstate(over="ignore"):
                out[()] = value
        except (TypeError, ValueError, OverflowError) as e:
            raise InvalidMetadata(f"{value!r} is not a value of type {self.dtype}: {e}") from None
        return out

    def fill(self, stated: FillValue) -> Scalar:
        """Return the scalar of a stored fill value; an undefined one is that of new arrays."""
        if stated.json is None and (stated.dialect in ("v1", "v2") or self.named.name == "object"):
            return self.scalar(self.unset(stated.dialect))
        return self.scalar(self.decode(stated.json, stated.dialect))

    def fill_json(self, value: Any, dialect: Dialect) -> FillValue:
        """Return `value` as a fill value in the spelling of a dialect."""
        scalar = self.scalar(value)
        if dialect == "v1" and self.dtype.kind in "SUVmM":
            # The specification has numbers only; its writers stored 0 for items of zero bytes.
            if any(scalar.tobytes()):
                raise CannotExpress(
                    f"zarr 1 cannot express the fill value {scalar[()]!r} of type {self.dtype};"
                    " give 0, or None for an undefined one"
                )
            return FillValue(0, dialect)
        return FillValue(self.encode(scalar, dialect), dialect)


def own_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that its holder may rename the fields of; NumPy changes them in place."""
    return dtype if dtype.names is None else dtype.newbyteorder("|")  # which copies, and no more


def in_order(named: Named, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` in the byte order that the type states, little unless it says big."""
    return dtype.newbyteorder(">" if named.configuration.get("endian") == "big" else "<")


def wrong(named: Named | str, expected: str, got: object) -> InvalidMetadata:
    """Return the error for a fill value that does not fit its type."""
    name = named if isinstance(named, str) else named.name
    remedy = "; put 0 there: GDAL writes null for maps without nodata" if got is None else ""
    return InvalidMetadata(f"fill_value of {name}: expected {expected}, got {kind_of(got)}{remedy}")


def from_base64(text: str, named: Named) -> bytes:
    """Return the bytes of standard Base64; raise for anything else."""
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise wrong(named, "standard Base64 text", text) from None


def to_base64(data: bytes) -> str:
    """Return standard Base64 text."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def old(dialect: Dialect) -> bool:
    """Return True for dialects whose writers spelled fill values loosely."""
    return dialect in ("v1", "v2")


def value_key(value: Any) -> Key | None:
    """Return a `typed_key` that also tells NumPy values apart: by type, unit, shape and bits."""
    return typed_key(value, _tokens)


def _tokens(value: Any) -> Key | None:
    if isinstance(value, np.dtype):
        return (own_type(value),) if value.metadata is None else None
    if not isinstance(value, np.generic) and type(value) is not np.ndarray:
        return None
    dtype = value.dtype
    if dtype.hasobject or dtype.kind == "T" or dtype.metadata is not None:
        return None  # its bytes are addresses
    return None if value.nbytes > MAX_SIZE else (own_type(dtype), value.shape, value.tobytes())
