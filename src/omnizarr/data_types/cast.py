"""Values as another type: a value that the type cannot hold is an error, never changed.

Numbers fit if the type has them; floats are rounded to its precision, but a finite number does not
become infinite. Times fit if their unit is fine enough, text if it is short enough. Numbers, text,
times and raw bytes do not become each other, but integers count the unit of times, and text of
ISO 8601 is a time. A missing value (None, NaN among text, pandas' NA, a masked element) fits no
type but those that have one: None is NaN among floats, and NaT among times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from reprlib import repr as repr_of
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.errors import InvalidArgument, OmnizarrError, WrongType
from omnizarr.model import paths

Values: TypeAlias = npt.NDArray[Any]


def as_type(
    array: Values, dtype: np.dtype[Any], casting: Literal["same_kind", "unsafe"] = "unsafe"
) -> Values:
    """Return the items as another type, or in another byte order; only times are checked.

    Those that the unit cannot express are an error; NumPy wraps them, and takes a month for 30
    days. It takes a time without a unit for one of any unit and byte order, and returns it
    unchanged. It knows no complex numbers of small floats: see `is_complex_pair`.
    """
    if array.dtype.names is None and is_complex_pair(dtype):
        pairs = np.empty(array.shape, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            pairs["real"] = array.real
            pairs["imag"] = array.imag if array.dtype.kind == "c" else 0
        return pairs
    if dtype.kind == "c" and is_complex_pair(array.dtype):
        return _joined(array, dtype)
    times = dtype.kind in "mM" and array.dtype.kind == dtype.kind
    units = {np.datetime_data(each)[0] for each in (array.dtype, dtype)} if times else set()
    # NumPy would convert durations by the average length of a month.
    if dtype.kind == "m" and units & {"Y", "M"} and not units <= {"Y", "M", "generic"}:
        raise WrongType(f"{array.dtype} as {dtype}: months and years have no fixed number of days")
    try:
        out = array.astype(dtype, casting=casting, copy=False)
        finer = times and np.can_cast(array.dtype, dtype, "safe")
        good = _is_kept(array, out) if finer else np.True_
        first = None if good.all() else array[~good].flat[0]
    except OverflowError:  # for times, of NumPy 2.5 and later
        if not times:
            raise
        first = _first_too_far(array.ravel(), dtype)
    if first is not None:
        raise InvalidArgument(f"{first} is out of the range of {dtype}; use a coarser unit")
    if dtype.kind in "mM" and out.dtype != dtype:
        found, out = out, np.empty(out.shape, f"V{dtype.itemsize}").view(dtype)
        out[...] = found
    return out


def _first_too_far(times: Values, dtype: np.dtype[Any]) -> Any:
    """Return the first of some times that NumPy refuses to convert."""
    while times.size > 1:
        half = times.size // 2
        try:
            times[:half].astype(dtype)
            times = times[half:]
        except OverflowError:
            times = times[:half]
    return times[0]


def _is_kept(times: Values, out: Values) -> Any:
    """Return which times a conversion has kept; NumPy wraps times that a unit cannot express."""
    units = np.datetime_data(times.dtype), np.datetime_data(out.dtype)
    if units[0] == units[1] or "generic" in (units[0][0], units[1][0]):
        return np.True_
    return (out.astype(times.dtype) == times) | np.isnat(times)


def is_complex_pair(dtype: np.dtype[Any]) -> bool:
    """Return True for ``real`` and ``imag`` of small floats, as NumPy has no such complex type."""
    if dtype.names != ("real", "imag"):
        return False
    part = dtype["real"]
    small = part.name == "float16" or part.name.startswith(("bfloat", "float8", "float6", "float4"))
    return small and part == dtype["imag"] and dtype.itemsize == 2 * part.itemsize


def _joined(array: Values, dtype: np.dtype[Any]) -> Values:
    """Return records of two parts as complex numbers."""
    out = np.empty(array.shape, dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        out.real, out.imag = array["real"], array["imag"]
    return out


def is_masked_array(value: Any) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return True for a masked array, without importing NumPy's module of them, which is slow."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, getattr(module, "MaskedArray", ()))


def is_missing(item: Any) -> bool:
    """Return True for None, a masked element, NaN, NaT and pandas' NA."""
    if item is None or is_masked_array(item):
        return True
    try:
        return bool(item != item)
    except (TypeError, ValueError):  # NA is neither equal nor different; arrays are both
        return type(item).__name__ == "NAType"


def to_numpy(data: Any) -> Values:
    """Convert `data` to a NumPy array by ``__array__``, or by DLPack if it has only that."""
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        return np.from_dlpack(data)
    return np.asarray(data)


def convert(
    value: Any, dtype: np.dtype[Any], path: str | None = None, item: type = object
) -> Values:
    """Return what a user assigns as an array of a type; raise if the type cannot hold it.

    `path` is that of the array, for messages. `item` is the class of all items of an object type.
    """
    if type(value) is int and dtype.kind in "iu":  # often, and NumPy checks it
        with suppress(OverflowError):
            return np.array(value, dtype)
    if is_masked_array(value) and (count := np.count_nonzero(np.ma.getmask(value))):
        raise InvalidArgument(
            f"{count} of {value.size} values are masked, and an array of {dtype} has no missing"
            " elements; assign values.filled(x), with an x to store in their place, or create the"
            " array with the data type 'zarrs.optional'"
        )
    if isinstance(value, np.ndarray) and value.dtype == dtype and item is object:
        return np.asarray(value)
    where = "" if path is None else f" in {paths.show(path)}"
    try:
        array = to_numpy(value) if hasattr(value, "dtype") else as_array(value, dtype)
    except OmnizarrError:
        raise  # of an array of this library
    except (TypeError, ValueError, OverflowError) as e:
        raise WrongType(f"{repr_of(value)} cannot be stored as {dtype}{where}: {e}") from None
    if item is bytes and array.dtype.kind != "S":
        good = _each(lambda each: isinstance(each, bytes), array)
        _check(array, "bytes", where, "", good, "it is not bytes", WrongType)
        array = np.asarray(np.frompyfunc(bytes, 1, 1)(array), object)  # those of NumPy, too
    return cast(array, dtype, where)


def as_array(value: Any, dtype: np.dtype[Any]) -> Values:
    """Return a list or scalar as an array to be cast, without NumPy changing any item."""
    kind = _kind(dtype)
    if dtype.names is not None and (_has_tuples(value) or not is_complex_pair(dtype)):
        return np.asarray(value, _of_objects(dtype))
    if kind in "SUTVO":
        return np.asarray(value, object)
    try:
        found = np.asarray(value)
    except OverflowError:  # of NumPy 2.5 and later, where times have no common unit
        if _any_item(value, _is_array):
            raise
        return np.asarray(value, object)
    # NumPy gives all items of a list one unit of time, and wraps those that it does not reach.
    times = kind in "mM" and found.dtype.kind in "mM" and isinstance(value, (list, tuple))
    # Times in arrays would become numbers among objects.
    if times and not _any_item(value, _is_array):
        return np.asarray(value, object)
    # NumPy makes floats of integers that no integer type has together, and text of mixed lists.
    changed = found.dtype.kind in "US" or (kind in "biu" and found.dtype.kind == "f")
    changed = changed or _any_item(value, is_masked_array)  # of which NumPy makes numbers
    return np.asarray(value, object) if changed else found


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype") and not isinstance(item, np.generic)


def _any_item(value: Any, test: Callable[[Any], bool]) -> bool:
    """Return True if a value, or an item of nested lists, passes a test."""
    if isinstance(value, (list, tuple)):
        return any(_any_item(item, test) for item in value)
    return test(value)


def _has_tuples(value: Any) -> bool:
    """Return True if records are tuples, as NumPy demands."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, tuple)


def _of_objects(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the structured type with `object` in place of the type of each field."""
    if dtype.subdtype is not None:
        return np.dtype((_of_objects(dtype.base), dtype.shape))
    if dtype.names is None:
        return np.dtype(object)
    return np.dtype([(name, _of_objects(dtype[name])) for name in dtype.names])


def cast(values: Values, dtype: np.dtype[Any], where: str = "", remedy: str = "") -> Values:
    """Return an array as another type; raise if the type cannot hold all of its values.

    `where` and `remedy` are for messages: the place, as in " in /x", and what to do.
    """
    if values.dtype == dtype:
        return values
    check = partial(_check, values, dtype, where, remedy)
    old, new = _kind(values.dtype), _kind(dtype)
    try:
        if not dtype.itemsize:  # NumPy takes text of length 0 for text of any length
            raise ValueError("its items have no bytes")
        if values.dtype.names is not None or dtype.names is not None:
            return _records(values, dtype, where, remedy)
        if new == "O":
            return as_type(values, dtype)
        if new in "biufc" and old == "O":
            return _from_objects(values, dtype, check)
        if new in "biufc" and old in "biufc":
            return _numbers(values, dtype, check)
        if new in "mM" and old in "iuOSUT" + new:
            return _times(values, dtype, check)
        if new in "SUT" and old in "SUTO":
            return _text(values, dtype, check)
        if new == "V" and old in "VSO":
            return _raw(values, dtype, check)
        raise TypeError("these are different kinds of values")
    except InvalidArgument as e:
        raise e from None
    except (TypeError, ValueError, OverflowError) as e:
        what = f"items of type {values.dtype}" if values.ndim else repr_of(values[()])
        raise WrongType(f"{what} cannot be stored as {dtype}{where}: {e}") from None


# Takes which values are good, a reason and perhaps a class; raises the error for a bad one.
_Check: TypeAlias = Callable[..., None]


def _check(
    values: Values,
    dtype: object,
    where: str,
    remedy: str,
    good: Any,
    reason: str,
    error: type[InvalidArgument] = InvalidArgument,
) -> None:
    """Raise unless all values are good."""
    if np.all(good):
        return
    index = np.unravel_index(int(np.argmin(good)), values.shape)
    item = values[index]
    if hasattr(item, "item") and not isinstance(item, (np.datetime64, np.timedelta64)):
        item = item.item()
    at = f" at index {tuple(map(int, index))}" if index else ""
    if is_missing(item) and values.dtype.kind in "OT":
        raise WrongType(
            f"{item!r}{at} cannot be stored as {dtype}{where}: it is a missing value; replace it,"
            " or create the array with the data type 'zarrs.optional'"
        )
    remedy = remedy or "change it, or create the array with another data type"
    raise error(f"{repr_of(item)}{at} cannot be stored as {dtype}{where}: {reason}; {remedy}")


def _kind(dtype: np.dtype[Any]) -> str:
    """Return NumPy's letter for the kind of a type, also for types of ml_dtypes."""
    if dtype.kind != "V" or issubclass(dtype.type, np.void):
        return dtype.kind
    return dtype.name[0] if dtype.name[0] in "iu" else "f"


def _is_small(dtype: np.dtype[Any]) -> bool:
    """Return True for the types of ml_dtypes, which NumPy numbers from 256."""
    return dtype.num >= 256 and dtype.kind != "T"


def _records(values: Values, dtype: np.dtype[Any], where: str, remedy: str) -> Values:
    """Return records field by field, in their order, or complex numbers of two small parts."""
    old = values.dtype
    if dtype.names is None:
        if not is_complex_pair(old):
            raise TypeError("these are records")
        return cast(_joined(values, np.dtype("c8")), dtype, where, remedy)
    out = np.zeros(values.shape, dtype)
    if old.names is not None:
        if len(old.names) != len(dtype.names):
            raise TypeError(f"it has {len(dtype.names)} fields, the values have {len(old.names)}")
        for mine, theirs in zip(dtype.names, old.names, strict=True):
            place = f" in field {mine!r}{where}"
            out[mine] = cast(values[theirs], dtype[mine].base, place, remedy)
    elif is_complex_pair(dtype):
        numbers = cast(values, np.dtype("c16"), where) if old.kind == "O" else values
        for part in ("real", "imag"):
            out[part] = cast(getattr(numbers, part), dtype[part], where, remedy)
    elif old.kind == "O":
        return cast(np.asarray(values.tolist(), _of_objects(dtype)), dtype, where, remedy)
    else:
        raise TypeError("they have no fields")
    return out


def _numbers(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return numbers as a type of numbers."""
    # The rules of ml_dtypes call casts safe that are not.
    if not values.size or (not _is_small(dtype) and np.can_cast(values.dtype, dtype, "safe")):
        return as_type(values, dtype)
    if _is_small(values.dtype) or values.dtype == np.float16:
        with np.errstate(invalid="ignore"):
            values = values.astype(np.float32)  # which has all of them, and can be compared
    if values.dtype.kind == "c" and dtype.kind != "c":
        check(values.imag == 0, "it has an imaginary part")
        values = values.real
    if _kind(dtype) in "fc":
        return _rounded(values, dtype, check)
    low, high = _bounds(dtype)
    reason = f"the type has the integers from {low} to {high}"
    with np.errstate(invalid="ignore"):
        inside = low <= values.min().item() and values.max().item() <= high  # False for NaN
    if not inside:
        check((values >= low) & (values < high + 1), reason)
    out = values.astype(dtype)
    if values.dtype.kind == "f":
        check(out == values, reason)
    return out


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    if dtype.kind == "b":
        return 0, 1
    found = np.iinfo(dtype) if dtype.kind in "iu" else registry.load("ml_dtypes").iinfo(dtype.type)
    return int(found.min), int(found.max)


def _rounded(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return numbers rounded to a type of floats or complex numbers."""
    try:
        with np.errstate(over="raise", invalid="ignore"):
            out = as_type(values, dtype)
        if not _is_small(dtype):
            return out
    except FloatingPointError:
        with np.errstate(over="ignore", invalid="ignore"):
            out = as_type(values, dtype)
    # Small floats may have no infinity, NaN, zero or sign, and become another number instead.
    with np.errstate(invalid="ignore"):  # signalling NaNs
        found = out.astype(np.float32) if _is_small(dtype) else out
        good = (np.isnan(found) == np.isnan(values)) & (np.isinf(found) == np.isinf(values))
        if _is_small(dtype):
            largest = float(registry.load("ml_dtypes").finfo(dtype.type).max)
            good &= ~(np.abs(values.astype(np.float64)) > largest) | np.isinf(values)
    check(good, "the type has no number close to it")
    return out


def _each(test: Callable[[Any], bool], items: Values) -> npt.NDArray[np.bool_]:
    """Return the result of a test for every item."""
    with np.errstate(all="ignore"):
        return np.asarray(np.frompyfunc(test, 1, 1)(items.astype(object)), np.bool_)


def _from_objects(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return Python's numbers as a type of numbers."""
    check(_each(_is_number, values), "it is not a number", WrongType)
    if dtype.kind != "c" and any(isinstance(item, complex) for item in values.flat):
        return _numbers(values.astype("D"), dtype, check)
    if _kind(dtype) in "fc":
        extended = dtype.itemsize > (16 if dtype.kind == "c" else 8)
        wide = ("G" if extended else "D") if dtype.kind == "c" else ("g" if extended else "d")
        return _numbers(values.astype(wide), dtype, check)
    low, high = _bounds(dtype)

    def fits(item: Any) -> bool:
        try:
            return bool(low <= item <= high and item == int(item))
        except (TypeError, ValueError):
            return False

    check(_each(fits, values), f"the type has the integers from {low} to {high}")
    return values.astype(dtype)


def _is_number(item: Any) -> bool:
    """Return True for numbers, and for None, which NumPy takes for NaN."""
    if isinstance(item, (str, np.datetime64, np.timedelta64)) or is_masked_array(item):
        return False
    try:
        return item is None or complex(item) is not None
    except OverflowError:  # an integer that floats do not reach
        return True
    except (TypeError, ValueError):
        return False


def _times(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return times, counts of the unit, or text with dates, as times of another unit."""
    if values.dtype.kind in "iu":
        return as_type(_numbers(values, np.dtype(np.int64), check), dtype)
    if values.dtype.kind not in "mM":
        other = (np.datetime64, date) if dtype.kind == "m" else (np.timedelta64, timedelta)
        others = (*other, bool, np.bool_)
        good = _each(
            lambda item: _is_nat(item) or (not isinstance(item, others) and item not in ("", b"")),
            values,
        )
        check(good, "it is not such a time", WrongType)
        return _from_time_objects(values.astype(object), dtype, check)
    out = as_type(values, dtype, "same_kind")  # months do not become days of an average month
    check(_is_kept(values, out), "the unit of the type cannot express it")
    return out


def _from_time_objects(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Convert times that each have their own unit; integers are counts of the target's unit."""
    unit, step = np.datetime_data(dtype)
    scalar: Any = np.datetime64 if dtype.kind == "M" else np.timedelta64

    def single(item: Any) -> Any:
        if item is None or _is_nat(item):
            return scalar("NaT", (unit, step))
        counts = isinstance(item, (int, np.integer)) and not isinstance(item, np.timedelta64)
        return scalar(int(item), (unit, step)) if counts else scalar(item)

    out = np.empty(values.shape, dtype)
    for index, item in np.ndenumerate(values):

        def check_one(good: Any, *why: Any, index: Any = index) -> None:
            every = np.ones(values.shape, np.bool_)
            every[index] = np.all(good)
            check(every, *why)

        out[index] = _times(np.asarray(single(item)), dtype, check_one)
    return out


def _is_nat(item: Any) -> bool:
    """Return True for the NaT of pandas, which NumPy does not take for a time."""
    return type(item).__name__ == "NaTType"


def _text(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return text or bytes as text or bytes, of a length if the type has one."""
    # NumPy stores bytes that are not UTF-8 as they are.
    unsafe = values.dtype.kind == "O" or (values.dtype.kind == "S" and dtype.kind == "T")
    items = values.astype(object) if unsafe or hasattr(values.dtype, "na_object") else None
    try:
        text = values if items is None else _typed_text(items, dtype, check)
        if dtype.kind != "T" and text.size:
            room = dtype.itemsize // (4 if dtype.kind == "U" else 1)
            check(np.strings.str_len(text) <= room, f"it is longer than {room}")
        return as_type(text, dtype)
    except (UnicodeEncodeError, UnicodeDecodeError) as e:
        bad = e.object
        check(_each(lambda item: item != bad, values), str(e))
        raise


def _typed_text(items: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return objects as text, or as bytes if all of them are bytes and bytes are wanted."""
    check(_each(lambda item: isinstance(item, (str, bytes)), items), "it is not text", WrongType)
    if dtype.kind == "S" and all(isinstance(item, bytes) for item in items.flat):
        return items.astype("S")
    if any(isinstance(item, np.bytes_) for item in items.flat):
        # NumPy stores its own bytes objects as text without decoding them.
        plain = np.frompyfunc(lambda item: bytes(item) if isinstance(item, bytes) else item, 1, 1)
        items = np.asarray(plain(items), object)
    return items.astype("U" if dtype.kind == "U" else np.dtypes.StringDType())


def _raw(values: Values, dtype: np.dtype[Any], check: _Check) -> Values:
    """Return bytes as raw bytes of a fixed size."""
    if values.dtype.kind == "V":
        if values.dtype.itemsize > dtype.itemsize:
            raise ValueError(f"the type has {dtype.itemsize} bytes")
        return as_type(values, dtype)
    data = values
    if values.dtype.kind == "O":
        good = _each(lambda item: isinstance(item, (bytes, np.void)), values)
        check(good, "it is not bytes", WrongType)
        data = np.asarray(np.frompyfunc(bytes, 1, 1)(values), "S")
    check(np.strings.str_len(data) <= dtype.itemsize, f"it is longer than {dtype.itemsize}")
    return as_type(data, dtype)
