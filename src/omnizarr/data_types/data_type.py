"""The interface of data types, the key of a NumPy type, and values as users give and get them."""

from __future__ import annotations

import binascii
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from reprlib import repr as repr_of
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from omnizarr._json import kind_of
from omnizarr.concurrency.cache import MAX_SIZE, Key, typed_key
from omnizarr.errors import CannotExpress, InvalidArgument, InvalidMetadata, WrongType
from omnizarr.model import Dialect, FillValue, Named

if TYPE_CHECKING:
    from omnizarr.data_types.optional import Masking

MAX_ITEM_BYTES = 2**26  # a fill value alone takes as much
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
        """The NumPy type of values that users see, which of a masked type is that of its data."""
        return self.dtype if self.masking is None else self.masking.dtype

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
        if self.masking is not None:
            return self.masking.scalar(value)
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
                number = is_complex_pair(self.dtype) and not isinstance(value, (tuple, str))
                if self.dtype.kind in "mM":
                    value = as_times(value, self.dtype)
                out[()] = as_type(np.asarray(value), self.dtype) if number else value
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


def as_type(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the items as another type, or in another byte order.

    Times that the unit cannot express are an error; NumPy wraps them, and takes a month for 30
    days. It takes a time without a unit for one of any unit and byte order, and returns it
    unchanged. It knows no complex numbers of small floats: see `is_complex_pair`.
    """
    if array.dtype.names is None and is_complex_pair(dtype):
        return _split(array, dtype)
    if dtype.kind == "c" and is_complex_pair(array.dtype):
        return _joined(array, dtype)
    times = dtype.kind in "mM" and array.dtype.kind == dtype.kind
    if times and not _has_lengths(array.dtype, dtype):
        raise WrongType(f"{array.dtype} as {dtype}: months and years have no fixed number of days")
    out = array.astype(dtype, copy=False)
    if times:
        _check_range(array, out)
    if dtype.kind in "mM" and out.dtype != dtype:
        found, out = out, np.empty(out.shape, f"V{dtype.itemsize}").view(dtype)
        out[...] = found
    return out


def as_times(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return times that are given as text, numbers or objects; raise for those out of range."""
    found = np.asarray(value)
    if found.dtype.kind != dtype.kind:
        try:
            found = np.asarray(value, f"{dtype.kind}8")  # in a unit that they all have
        except ValueError:  # numbers have none
            found = np.asarray(value, dtype)
    return as_type(found, dtype)


def _has_lengths(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return False for durations that NumPy would convert by the average length of a month."""
    units = {np.datetime_data(one)[0], np.datetime_data(other)[0]}
    calendar = units & {"Y", "M"}
    return one.kind == "M" or not calendar or units <= {"Y", "M", "generic"}


def _check_range(times: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Raise if NumPy wrapped times that a finer unit cannot express."""
    units = np.datetime_data(times.dtype), np.datetime_data(out.dtype)
    if units[0] == units[1] or not np.can_cast(times.dtype, out.dtype, "safe"):
        return
    if "generic" in (units[0][0], units[1][0]):
        return
    wrapped = (out.astype(times.dtype) != times) & ~np.isnat(times)
    if wrapped.any():
        first = times[wrapped].flat[0]
        raise InvalidArgument(f"{first} is out of the range of {out.dtype}; use a coarser unit")


def is_complex_pair(dtype: np.dtype[Any]) -> bool:
    """Return True for records of two small floats, ``real`` and ``imag``.

    They stand for complex numbers of fewer than 64 bits, which NumPy does not have.
    """
    if dtype.names != ("real", "imag"):
        return False
    part = dtype["real"]
    small = part.name == "float16" or part.name.startswith(("bfloat", "float8", "float6", "float4"))
    return small and part == dtype["imag"] and dtype.itemsize == 2 * part.itemsize


def _split(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return numbers, real or complex, as records of their two parts."""
    out = np.empty(array.shape, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        out["real"] = array.real
        out["imag"] = array.imag if array.dtype.kind == "c" else 0
    return out


def _joined(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return records of two parts as complex numbers."""
    out = np.empty(array.shape, dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        out.real, out.imag = array["real"], array["imag"]
    return out


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


def _tokens(value: Any) -> Key | None:
    if isinstance(value, np.dtype):
        return (own_type(value),) if value.metadata is None else None
    if not isinstance(value, np.generic) and type(value) is not np.ndarray:
        return None
    dtype = value.dtype
    if dtype.hasobject or dtype.kind == "T" or dtype.metadata is not None:
        return None  # its bytes are addresses
    return None if value.nbytes > MAX_SIZE else (own_type(dtype), value.shape, value.tobytes())


# Assigned values


def is_masked_array(value: Any) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return True for a masked array, without importing NumPy's module of them.

    The import takes time, and would fail in a signal handler that interrupts it.
    """
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, getattr(module, "MaskedArray", ()))


def as_elements(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    """Convert assigned values to an array of elements as the engine handles them."""
    masking = data_type.masking
    if masking is None:
        return as_values(value, data_type.dtype)
    if isinstance(value, np.ndarray) and value.dtype == data_type.dtype != np.dtype(object):
        return value
    values, mask = masking.split(value)
    return masking.join(as_values(values, masking.inner.dtype), np.asarray(mask))


def as_values(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert assigned values to an array of the stored type; raise if some are masked."""
    if is_masked_array(value) and (count := np.count_nonzero(np.ma.getmask(value))):
        raise CannotExpress(
            f"{count} of {value.size} values are masked, and an array of {dtype} has no missing"
            " elements; assign values.filled(x), with an x to store in their place, or create the"
            " array with the data type 'zarrs.optional'"
        )
    if isinstance(value, np.ndarray) or not np.isscalar(value):
        array = to_numpy(value) if hasattr(value, "dtype") else _typed(value, dtype)
        return array if array.dtype == dtype else _typed(array, dtype)
    return _typed(value, dtype)


def _typed(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        if isinstance(value, np.ndarray):
            out = as_type(value, dtype)
        elif dtype.kind in "mM":
            out = as_times(value, dtype)
        else:
            numbers = is_complex_pair(dtype) and not _has_tuples(value)
            out = as_type(np.asarray(value, None if numbers else dtype), dtype)
        if out.dtype.itemsize != dtype.itemsize:  # NumPy takes text of length 0 for any length
            raise ValueError("its items have no bytes")
        return out
    except UnicodeEncodeError as e:
        raise InvalidArgument(
            f"text with {e.object[e.start : e.end]!r} at position {e.start} cannot be stored:"
            f" {e.encoding} has no bytes for a lone surrogate"
        ) from None
    except (TypeError, ValueError) as e:
        what = f"items of type {value.dtype}" if isinstance(value, np.ndarray) else repr_of(value)
        raise WrongType(f"{what} cannot be stored as {dtype}: {e}") from None


def _has_tuples(value: Any) -> bool:
    """Return True if records are given as tuples, as NumPy demands."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, tuple)


def to_numpy(data: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """Convert `data` to a NumPy array by ``__array__``, or by DLPack if it has only that."""
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        return np.from_dlpack(data)
    return np.asarray(data, dtype)


# Values that may be missing


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
    """Put masked values into an array, which must itself be masked if some of them are missing."""
    if is_masked_array(out):
        out[...] = values
    else:
        np.copyto(out, as_plain(values), casting="safe")
