"""Every data type × values that fit it or not × forms in which they are given × ways in.

The rule decides what must happen, in Python's own arithmetic: a value that the type can hold is
stored and read back equal; another one is refused with `InvalidArgument` on every way (a fill value
with `InvalidMetadata`), and the array is as it was.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import dask.array
import ml_dtypes
import numpy as np
import pandas as pd

import omnizarr as oz
from omnizarr.data_types import bind, describe
from omnizarr.data_types.numeric import COMPLEX_PARTS, NUMPY, SMALL_FLOATS, SMALL_INTEGERS

UNFIT = object()  # instead of what is read back
MISSING = object()
NAN = float("nan")


# What a type holds, as the rule says


@dataclass(frozen=True)
class Case:
    """A data type, with a function of a value that returns what is read back, or `UNFIT`."""

    name: str
    dtype: Any
    stored: Callable[[Any], Any]
    start: Any  # what the array has before
    zarr_format: int = 3

    def __str__(self) -> str:
        return f"{self.name} (v{self.zarr_format})"


def is_na(value: Any) -> bool:
    return value is None or value is pd.NA or value is MISSING


def is_real(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.bool_)) and not isinstance(value, np.datetime64)


def integer(low: int, high: int, value: Any) -> Any:
    if isinstance(value, complex) and value.imag == 0:
        value = value.real
    if not is_real(value) or value != value or math.isinf(value) or Fraction(value) % 1:
        return UNFIT
    return int(value) if low <= value <= high else UNFIT


def real(dtype: np.dtype[Any], value: Any) -> Any:
    if value is None:
        value = NAN
    if isinstance(value, complex) and value.imag == 0:
        value = value.real
    if not is_real(value):
        return UNFIT
    about = ml_dtypes.finfo(dtype)
    special = {str(x) for x in np.array([NAN, np.inf, 0.0], "f8").astype(dtype).astype("f8")}
    if value != value:
        return NAN if "nan" in special and np.isnan(float(np.float64(NAN).astype(dtype))) else UNFIT
    if math.isinf(value):
        return value if "inf" in special else UNFIT
    if not value:
        return 0.0 if "0.0" in special else UNFIT
    unsigned = np.float64(-1.0).astype(dtype).astype("f8") != -1
    if abs(value) > float(about.max) or (value < 0 and unsigned):
        return UNFIT
    return float(np.array(float(value)).astype(dtype))


def complex_number(part: np.dtype[Any], value: Any) -> Any:
    if value is None:
        value = complex(NAN, NAN)
    if not is_real(value) and not isinstance(value, complex):
        return UNFIT
    value = complex(value)
    parts = [real(part, value.real), real(part, value.imag)]
    return UNFIT if UNFIT in parts else (parts[0], parts[1])


NANOS = {"D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ns": 1}


def time(kind: str, unit: str, value: Any) -> Any:
    if value is None or value is pd.NaT or (isinstance(value, np.datetime64) and np.isnat(value)):
        fits = value is None or value is pd.NaT or kind == "M"
        return "NaT" if fits else UNFIT
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) < value < 2**63 else UNFIT
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str) and value == "5" and kind == "m":  # a count, as NumPy reads it
        return 5
    if isinstance(value, str) and kind == "M" and value[:1].isdigit():
        value = np.datetime64(value)
        value = value.astype("M8[D]") if np.datetime_data(value.dtype)[0] == "Y" else value
    if not isinstance(value, np.datetime64 if kind == "M" else np.timedelta64):
        return UNFIT
    found = np.datetime_data(value.dtype)[0]
    if found not in NANOS:
        return UNFIT
    count, rest = divmod(int(value.astype("i8")) * NANOS[found], NANOS[unit])
    return UNFIT if rest or abs(count) >= 2**63 else count


def text(room: int | None, value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8" if room is None else "ascii")
        except UnicodeDecodeError:
            return UNFIT
    if not isinstance(value, str):
        return UNFIT
    if room is None and any("\ud800" <= c < "\ue000" for c in value):
        return UNFIT
    return value if room is None or len(value) <= room else UNFIT


def fixed_bytes(room: int, value: Any) -> Any:
    if isinstance(value, str):
        if not value.isascii():
            return UNFIT
        value = value.encode()
    return value if isinstance(value, bytes) and len(value) <= room else UNFIT


def any_bytes(value: Any) -> Any:
    return value if isinstance(value, bytes) else UNFIT


def raw(room: int, value: Any) -> Any:
    fits = isinstance(value, bytes) and len(value) <= room
    return value.ljust(room, b"\0") if fits else UNFIT


def optional(inner: Callable[[Any], Any], no_nan: bool, value: Any) -> Any:
    if is_na(value) or value is pd.NaT or (no_nan and value != value):
        return None
    return inner(value)


def cases() -> Iterator[Case]:
    """Yield every data type that can be created."""
    names = {
        **{n: n for n in NUMPY if not n.startswith("complex_")},
        **{n: n for n in (*SMALL_INTEGERS, *SMALL_FLOATS)},
        "big int16": ">i2",
        "big float32": ">f4",
        "longdouble": np.longdouble,
    }
    for name, given in names.items():
        dtype = bind(describe(given)).dtype
        kind = dtype.kind if dtype.kind != "V" else ("i" if "int" in dtype.name else "f")
        stored: Callable[[Any], Any] = partial(real, dtype)
        if kind == "b":
            stored = partial(integer, 0, 1)
        elif kind in "iu":
            about = ml_dtypes.iinfo(dtype.newbyteorder("=") if dtype.kind != "V" else dtype)
            stored = partial(integer, int(about.min), int(about.max))
        elif kind == "c":
            stored = partial(complex_number, np.dtype(f"f{dtype.itemsize // 2}"))
        yield Case(name, given, stored, 1, 2 if name == "longdouble" else 3)
        if name in ("int8", "uint16", "float32", "big int16"):
            yield Case(name, given, stored, 1, 2)
    for name, part in COMPLEX_PARTS.items():
        inner = bind(describe(part)).dtype
        yield Case(name, name, partial(complex_number, inner), complex(1, 1))
    for kind, unit in (("M", "D"), ("M", "s"), ("M", "ns"), ("m", "h"), ("m", "ns")):
        yield Case(f"{kind}8[{unit}]", f"{kind}8[{unit}]", partial(time, kind, unit), 1)
    yield Case("big M8[s]", ">M8[s]", partial(time, "M", "s"), 1)
    for zarr_format in (2, 3):
        yield Case("string", str, partial(text, None), "x", zarr_format)
        yield Case("bytes", bytes, any_bytes, b"x", zarr_format)
        yield Case("U3", "U3", partial(text, 3), "x", zarr_format)
        yield Case("S3", "S3", partial(fixed_bytes, 3), b"x", zarr_format)
        yield Case("V3", "V3", partial(raw, 3), b"xyz", zarr_format)
    for inner, stored, no_nan, start in (
        ("int8", partial(integer, -128, 127), True, 1),
        ("float32", partial(real, np.dtype("f4")), False, 1.0),
        ("string", partial(text, None), True, "x"),
    ):
        named = {"name": "zarrs.optional", "configuration": {"name": inner, "configuration": {}}}
        yield Case(f"optional {inner}", named, partial(optional, stored, no_nan), start)


@lru_cache
def all_cases() -> list[Case]:
    return list(cases())


VALUES: list[Any] = [
    *(0, 1, -1, True, 2, 3, -2, -3, 7, 8, -8, -9, 15, 16, 127, 128, -128, -129, 255, 256),
    *(2**15 - 1, 2**15, -(2**15) - 1, 2**16, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64),
    *(0.5, 1.0, 2.5, 300.0, 1e5, 2.0**63, 1e39, 1e300, -1e300, NAN, math.inf, -math.inf),
    *(1j, 1 + 0j, 0.5 - 1j, complex(1e300, 0)),
    *("a", "abc", "abcd", "é", "", "5", "2000-01-01", "2000-01-01T06", "a\ud800"),
    *(b"a", b"abc", b"abcd", b"\xff", b""),
    *(None, pd.NA, pd.NaT, MISSING, {"a": 1}, object()),
    *(np.datetime64("2000-01-01", "D"), np.datetime64("2000-01-01T06", "h")),
    *(np.datetime64("NaT"), np.datetime64(2**60, "D"), np.timedelta64(2, "D")),
    *(np.timedelta64(90, "m"), np.timedelta64(1, "M"), np.timedelta64(7, "ns")),
]


# Forms in which values are given


def as_scalar(value: Any) -> Any:
    return np.ma.masked if value is MISSING else value


def as_list(value: Any) -> Any:
    return [as_scalar(value)]


def as_objects(value: Any) -> Any:
    if value is MISSING:
        return np.ma.array(["x"], mask=True, dtype=object)
    out = np.empty(1, object)
    out[0] = value
    return out


def as_typed(value: Any) -> Any:
    """Return NumPy's own type for the value; for text also the one with missing values."""
    if value is MISSING:
        return np.ma.array([1], mask=True)
    if isinstance(value, str) and not any("\ud800" <= c < "\ue000" for c in value):
        return np.array([value], np.dtypes.StringDType(na_object=None))
    return np.array([value])


def as_numpy_scalar(value: Any) -> Any:
    found = np.array([0 if value is MISSING else value])
    return np.ma.masked if value is MISSING else found[0]


FORMS = [as_scalar, as_list, as_objects, as_typed, as_numpy_scalar]


# Ways in: each stores into an array of 3 elements, or makes one, and returns it and a position


@lru_cache
def make(name: str) -> tuple[oz.Array, list[Any]]:
    """Return an array of a case, and what it has; it is used again until it has changed."""
    case = next(case for case in all_cases() if str(case) == name)
    array = oz.create_array({}, shape=3, chunks=2, dtype=case.dtype, zarr_format=case.zarr_format)
    array[...] = case.start
    return array, [seen(x) for x in array[...]]


def setter(change: Callable[[oz.Array, Any], None]) -> Callable[[oz.Array, Any], int]:
    def way(array: oz.Array, given: Any) -> int:
        change(array, given)
        return 1

    return way


def by_writer(array: oz.Array, given: Any) -> None:
    with array.writer() as writer:
        writer[1:2] = given


def by_append(array: oz.Array, given: Any) -> int:
    array.append(given if np.ndim(given) else [given])
    return 3


def by_dask(array: oz.Array, given: Any) -> None:
    if not isinstance(given, np.ndarray) or np.ma.isMaskedArray(given):
        array[1:2] = given
        return
    source = dask.array.from_array(given, chunks=1)
    dask.array.store(source, array.view[1:2], lock=False, scheduler="sync")


def by_aio(array: oz.Array, given: Any) -> None:
    asyncio.run(oz.aio.AsyncArray(array).setitem(slice(1, 2), given))


WAYS: dict[str, Callable[[oz.Array, Any], int]] = {
    "brackets": setter(lambda a, v: a.__setitem__(slice(1, 2), v)),
    "element": setter(lambda a, v: a.__setitem__(1, v[0] if np.ndim(v) else v)),
    "oindex": setter(lambda a, v: a.oindex.__setitem__([1], v)),
    "vindex": setter(lambda a, v: a.vindex.__setitem__([1], v)),
    "mask": setter(lambda a, v: a.__setitem__(np.array([False, True, False]), v)),
    "view": setter(lambda a, v: a.view[1:2].__setitem__(..., v)),
    "writer": setter(by_writer),
    "append": by_append,
    "dask": setter(by_dask),
    "aio": setter(by_aio),
}


def by_data(case: Case, given: Any) -> oz.Array:
    data = given if np.ndim(given) else [given]
    return oz.create_array({}, data=data, dtype=case.dtype, zarr_format=case.zarr_format)


def by_fill(case: Case, given: Any) -> oz.Array:
    value = given[0] if np.ndim(given) else given
    return oz.create_array(
        {}, shape=1, dtype=case.dtype, zarr_format=case.zarr_format, fill_value=value
    )


def by_import(case: Case, given: Any) -> oz.Array:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "a.npy", given)
        oz.import_file(Path(folder) / "a.npy", Path(folder) / "a.zarr", dtype=case.dtype)
        return oz.create_array(data=oz.open(Path(folder) / "a.zarr"))


def by_rechunk(case: Case, given: Any) -> oz.Array:
    source, target = oz.storage.MemoryStore(), oz.storage.MemoryStore()
    oz.create_array(source, data=given)
    oz.rechunk(source, target, dtype=case.dtype)
    return oz.open(target)


MAKERS: dict[str, Callable[[Case, Any], oz.Array]] = {
    "data": by_data,
    "fill_value": by_fill,
    "import_file": by_import,
    "rechunk": by_rechunk,
}


# One trial


def seen(found: Any) -> Any:
    """Return an element as the rule states it."""
    if found is np.ma.masked:
        return None
    if isinstance(found, np.void) and found.dtype.names == ("real", "imag"):
        return float(found["real"]), float(found["imag"])
    if isinstance(found, np.void):
        return bytes(found)
    if isinstance(found, (complex, np.complexfloating)):
        return float(found.real), float(found.imag)
    if isinstance(found, (np.datetime64, np.timedelta64)):
        return "NaT" if np.isnat(found) else int(found.astype("i8"))
    if isinstance(found, (str, bytes)):
        return found.rstrip("\0") if isinstance(found, str) else found.rstrip(b"\0") or found
    return float(found) if isinstance(found, np.floating) else found.item()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return all(map(same, a, b))
    return bool(a == b or (a != a and b != b))


def trial(case: Case, value: Any, form: Callable[[Any], Any], way: str) -> str | None:
    """Return what is wrong, or None."""
    expected = case.stored(value)
    given = form(value)
    error: Any = oz.InvalidMetadata if way == "fill_value" else oz.InvalidArgument
    if (way, case.name, value) == ("fill_value", "longdouble", 2**63 - 1):
        expected, error = UNFIT, oz.CannotExpress  # no float64, and JSON has no other numbers
    before: list[Any] = []
    try:
        if way in WAYS:
            array, before = make(str(case))
            position = WAYS[way](array, given)
            make.cache_clear()
        else:
            array, position = MAKERS[way](case, given), 0
    except Exception as e:
        after = [seen(x) for x in array[...]] if before else []
        if expected is not UNFIT:
            return f"refused: {type(e).__name__}: {e}"
        if not isinstance(e, error):
            return f"wrong error: {type(e).__name__}: {e}"
        return None if all(map(same, before, after)) else f"changed: {before} to {after}"
    try:
        found = seen(array[position])
    except oz.ChunkError as e:
        return f"cannot be read back: {e}"
    if expected is UNFIT:
        return f"stored as {found!r}"
    return None if same(found, expected) else f"read back as {found!r}, not {expected!r}"


def possible(case: Case, value: Any, form: Callable[[Any], Any], way: str) -> bool:
    """Return False for combinations that mean something else."""
    given = form(value)
    typed = isinstance(given, np.ndarray) and not given.dtype.hasobject
    if way in ("import_file", "rechunk"):
        # Their rule is about kinds, and refuses more: NumPy's `same_kind`.
        numbers = typed and given.dtype.kind in "biuf" and not np.ma.isMaskedArray(given)
        if not numbers or case.zarr_format != 3 or not isinstance(case.dtype, str):
            return False
        old, new = given.dtype, bind(describe(case.dtype)).dtype
        return new.kind in "biuf" and np.can_cast(old, new, "same_kind")
    if way == "fill_value":  # None is for an undefined one, text for the names of numbers
        number = bind(describe(case.dtype)).dtype.kind not in "SUTO"
        if is_na(value) or (case.name.startswith("optional") and value != value):
            return False  # a missing fill value is given as None
        return not (isinstance(value, str) and number)
    # NaT of NumPy is missing in a list of objects, and of another kind in an array of times.
    # So are arrays of masked numbers, or of NaN, among text.
    numbers = value is MISSING or isinstance(value, float)
    other = isinstance(value, np.datetime64) or (numbers and form is as_typed)
    return not (case.name.startswith("optional") and other)


def run(every: int, first: int) -> tuple[int, list[str]]:
    """Try every n-th combination; return their number and what is wrong."""
    wrong, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = product(all_cases(), VALUES, FORMS, (*WAYS, *MAKERS))
        for case, value, form, way in islice(chosen, first, None, every):
            if not possible(case, value, form, way):
                continue
            count += 1
            found = trial(case, value, form, way)
            if found is not None:
                wrong.append(f"{case} ← {value!r:.40} {form.__name__} by {way}: {found:.160}")
    return count, wrong
