"""The interface of data types, the key of a NumPy type, and values as users give and get them."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr._json import kind_of
from omnizarr.concurrency.cache import MAX_SIZE, Key, typed_key
from omnizarr.data_types.cast import convert, is_complex_pair, is_masked_array
from omnizarr.errors import CannotExpress, InvalidMetadata
from omnizarr.model import Dialect, FillValue, Named

if TYPE_CHECKING:
    from omnizarr.data_types.compound import Masking

MAX_ITEM_BYTES = 2**26  # a fill value alone takes as much
TEXT_BYTES = 128  # of an element of variable length in memory, for estimates
Scalar: TypeAlias = "np.ndarray[tuple[()], Any]"  # 0-dimensional: keeps every bit


@dataclass(frozen=True, slots=True)
class DataType:
    """A named type and its representation in NumPy.

    `decode` turns the JSON of a fill value into a scalar, `encode` the reverse, both in the
    words of a dialect. `bits` is the significant bits of one component, for packing; complex
    numbers have two components. `masking` is for types that users see as masked arrays.
    """

    named: Named
    dtype: np.dtype[Any]
    decode: Callable[[Any, Dialect], Any] = field(compare=False)
    encode: Callable[[Scalar, Dialect], Any] = field(compare=False)
    zero: Any = 0
    bits: int | None = None
    components: int = 1
    masking: Masking | None = field(default=None, compare=False)

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

    @property
    def value_dtype(self) -> np.dtype[Any]:
        """The NumPy type of values as users see them; for a masked type, the type of its data."""
        return self.dtype if self.masking is None else self.masking.dtype

    def unset(self, dialect: Dialect) -> Any:
        """Return the value of unwritten elements: zero, or NaT for times where a dialect has it."""
        times = self.dtype.kind in "mM" and dialect in ("v2", "v3")
        return np.array("NaT", self.dtype) if times else self.zero

    def scalar(self, value: Any) -> Scalar:
        """Return `value` as a 0-dimensional array of this type."""
        if isinstance(value, np.ndarray) and value.dtype == self.dtype and value.ndim == 0:
            return value
        if self.masking is not None:
            return self.masking.scalar(value)
        item = _item_class(self)
        if (self.dtype.kind == "O" and item is object) or not self.dtype.itemsize:
            out = np.empty((), self.dtype)
            out[()] = value
            return out
        if isinstance(value, str) and self.dtype.kind == "f":
            value = self.decode(value, "v3")  # as in "NaN"
        record = self.dtype.names and not is_complex_pair(self.dtype)
        if record and type(value) is int and value == 0:
            return np.zeros((), self.dtype)  # of all fields, as zarr-python has it
        try:
            return convert(value, self.dtype, item=item).reshape(())
        except ValueError as e:
            raise InvalidMetadata(f"{value!r} is not a value of type {self.dtype}: {e}") from None

    def fill(self, stated: FillValue) -> Scalar:
        """Return a stored fill value as a scalar; an undefined one is read as `unset`."""
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


def item_bytes(dtype: Any) -> int:
    """Return the bytes of an element in memory; an estimate for text, whose size varies.

    NumPy needs 16 bytes for a string, plus the text if it is longer; a Python object about 60.
    """
    if dtype is str or dtype is bytes:
        return TEXT_BYTES
    found = np.dtype(dtype)
    return TEXT_BYTES if found.hasobject or found.kind == "T" else max(1, found.itemsize)


def own_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type, copied if it has fields, since NumPy renames fields in place."""
    return dtype if dtype.names is None else dtype.newbyteorder("|")  # which copies, and no more


def in_order(named: Named, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` in the byte order that the type states, little unless it says big."""
    return dtype.newbyteorder(">" if named.configuration.get("endian") == "big" else "<")


def wrong(named: Named | str, expected: str, got: object) -> InvalidMetadata:
    """Return the error for a fill value that does not fit its type."""
    name = named if isinstance(named, str) else named.name
    return InvalidMetadata(f"fill_value of {name}: expected {expected}, got {kind_of(got)}")


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


def _tokens(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return NotImplemented if value.metadata is None else None
    if not isinstance(value, np.generic) and type(value) is not np.ndarray:
        return None
    dtype = value.dtype
    if dtype.hasobject or dtype.kind == "T" or dtype.metadata is not None:
        return None  # its bytes are addresses
    return None if value.nbytes > MAX_SIZE else (dtype, value.shape, value.tobytes())


def as_elements(value: Any, data_type: DataType, path: str | None = None) -> npt.NDArray[Any]:
    """Return values as elements for the engine; raise, with the `path`, if some do not fit."""
    masking = data_type.masking
    if masking is None:
        item = _item_class(data_type) if data_type.dtype.hasobject else object
        return convert(value, data_type.dtype, path, item)
    if isinstance(value, np.ndarray) and value.dtype == data_type.dtype != np.dtype(object):
        return value
    values, mask = masking.split(value)
    inner = masking.inner
    data = convert(values, inner.dtype, path, _item_class(inner))
    return masking.join(data, np.asarray(mask))


def _item_class(data_type: DataType) -> type:
    """Return the class of all items of an object type, or `object`."""
    return bytes if data_type.dtype.hasobject and data_type.zero == b"" else object


def as_plain(values: Any) -> npt.NDArray[Any]:
    """Return values as a plain NumPy array; raise if they are masked and some are missing."""
    if is_masked_array(values):
        missing = int(np.count_nonzero(np.ma.getmaskarray(values)))
        if missing:
            raise CannotExpress(
                f"{missing} of {values.size} elements are missing, which a plain array cannot"
                " express; array[...] is a masked array, and array[...].filled(value) has a value"
                " in their place"
            )
    return np.asarray(values)


def fill_masked(out: npt.NDArray[Any], values: Any) -> None:
    """Put masked values into an array, which must be masked too if values are missing."""
    if is_masked_array(out):
        out[...] = values
    else:
        np.copyto(out, as_plain(values), casting="safe")
