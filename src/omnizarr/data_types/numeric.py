"""Numbers, booleans, dates and times, and the types of ml_dtypes.

Specification: core data types and registered extensions of version 3, also ``numpy.datetime64`` and
``numpy.timedelta64`` (``{"unit": "ns", "scale_factor": 1}``; the draft's datetime extension). A
fill value keeps its exact bits: NaNs other than the usual one are written as ``"0x…"``.

Extended floats are ``<f16`` and ``<c32`` of versions 1 and 2, which zarr-python 2 wrote on Intel's
processors under Linux and macOS. They are read and written only where NumPy has the same type:
elsewhere its ``longdouble`` is a different number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnizarr import registry
from omnizarr.data_types.data_type import DataType, Scalar, in_order, old, wrong
from omnizarr.errors import CannotExpress, InvalidMetadata, UnknownExtension
from omnizarr.model import Dialect, Named
from omnizarr.model.node import check_members, invalid

# name -> NumPy type
NUMPY = {
    "bool": "b1",
    **{f"int{8 * n}": f"i{n}" for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}": f"u{n}" for n in (1, 2, 4, 8)},
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
    "complex_float32": "c8",
    "complex_float64": "c16",
}
# name -> significant bits, for types that ml_dtypes adds to NumPy
SMALL_INTEGERS = {"int2": 2, "int4": 4, "uint2": 2, "uint4": 4}
SMALL_FLOATS = {
    "bfloat16": 16,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    **{
        f"float8_{kind}": 8
        for kind in ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
    },
    "float8_e4m3fn": 8,
}
# name -> name of the type of both parts, which have fewer than 32 bits
COMPLEX_PARTS = {
    f"complex_{name}": name for name in ("float16", *SMALL_FLOATS) if name != "float8_e4m3fn"
}
EXTENDED_NAMES = ("numpy.longdouble", "numpy.clongdouble")
NUMERIC_NAMES = (*NUMPY, *SMALL_INTEGERS, *SMALL_FLOATS, *COMPLEX_PARTS, *EXTENDED_NAMES)


def bind_numeric(named: Named) -> DataType:
    """Return the data type for one of `NUMERIC_NAMES`."""
    check_members(named, "data type", optional=("endian",))
    dtype = in_order(named, _numpy_type(named.name))
    bits = {**SMALL_INTEGERS, **SMALL_FLOATS}.get(named.name.removeprefix("complex_"))
    is_complex = dtype.kind == "c" or dtype.names is not None
    zero: Any = 0
    fill: Boolean | Integer | Float | Complex
    if dtype.kind == "b":
        fill, zero = Boolean(named, dtype), False
    elif is_complex:
        fill = Complex(named, dtype)
        zero = 0 if dtype.names is None else np.array((fill.part.zero,) * 2, dtype)
    elif dtype.kind in "iu" or named.name in SMALL_INTEGERS:
        fill = Integer(named, dtype)
    else:
        fill = (Extended if named.name in EXTENDED_NAMES else Float)(named, dtype)
        zero = fill.zero
    return DataType(named, dtype, fill.decode, fill.encode, zero, bits, 1 + is_complex)


def _numpy_type(name: str) -> np.dtype[Any]:
    """Return the NumPy type of one of `NUMERIC_NAMES`; raise if it does not exist here.

    Complex numbers of fewer than 64 bits are records of ``real`` and ``imag`` (`is_complex_pair`).
    """
    if name in COMPLEX_PARTS:
        part = _numpy_type(COMPLEX_PARTS[name])
        return np.dtype([("real", part), ("imag", part)])
    if name in EXTENDED_NAMES:
        check_platform(name)
        extended: np.dtype[Any] = np.dtype(getattr(np, name.removeprefix("numpy.")))
        return extended
    if name in NUMPY:
        return np.dtype(NUMPY[name])
    needed = f"data type {name!r} needs the package ml_dtypes; pip install 'omnizarr[ml]'"
    small: np.dtype[Any] = np.dtype(registry.load_optional(f"ml_dtypes:{name}", needed))
    return small


@dataclass(frozen=True)
class _Spelling:
    """The fill values of a type in JSON."""

    named: Named
    dtype: np.dtype[Any]


class Boolean(_Spelling):
    """``true`` or ``false``; early writers also wrote 0 and 1."""

    def decode(self, json: Any, dialect: Dialect) -> Any:
        if isinstance(json, bool) or (old(dialect) and json in (0, 1)):
            return bool(json)
        raise wrong(self.named, "true or false", json)

    def encode(self, value: Scalar, dialect: Dialect) -> Any:
        return bool(value[()])


class Integer(_Spelling):
    """A JSON integer in range; version 1 and 2 writers also wrote ``0.0``."""

    def decode(self, json: Any, dialect: Dialect) -> Any:
        whole = isinstance(json, bool) or (isinstance(json, float) and json.is_integer())
        if old(dialect) and whole:
            json = int(json)
        bits = SMALL_INTEGERS.get(self.named.name, 8 * self.dtype.itemsize)
        low = 0 if self.named.name.startswith("u") else -(2 ** (bits - 1))
        if type(json) is not int or not low <= json < low + 2**bits:
            raise wrong(self.named, f"an integer from {low} to {low + 2**bits - 1}", json)
        return json

    def encode(self, value: Scalar, dialect: Dialect) -> Any:
        return int(value[()])


class Float(_Spelling):
    """A JSON number, the three names, or the exact bits as ``"0x…"`` (drafts also ``"0b…"``)."""

    @property
    def zero(self) -> Scalar:
        """The number 0; of a type without a zero, its NaN."""
        return np.array(0.0).astype(self.dtype)

    def decode(self, json: Any, dialect: Dialect) -> Any:
        if isinstance(json, (int, float)) and not isinstance(json, bool):
            return self.number(json)
        if isinstance(json, str):
            names = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
            if dialect == "v3-draft":
                names["+Infinity"] = math.inf
            if json in names:
                return self.special(json, names[json])
            if json.startswith("0x"):
                return self.bits(json, 16, 2 * self.dtype.itemsize)
            if json.startswith("0b") and dialect == "v3-draft":
                return self.bits(json, 2, 8 * self.dtype.itemsize)
        raise wrong(self.named, 'a number, "NaN", "Infinity", "-Infinity" or "0x…"', json)

    def number(self, json: float) -> Any:
        try:
            value: float = float(json)
        except OverflowError:
            value = math.inf if json > 0 else -math.inf
        if value != json and abs(json) < 2**63:
            value = json  # an integer, which NumPy rounds once
        with np.errstate(over="ignore"):
            return np.array(value).astype(self.dtype)

    def special(self, name: str, value: float) -> Scalar:
        out = np.array(abs(value) if math.isnan(value) else value).astype(self.dtype)
        kept = math.isnan(float(out)) if math.isnan(value) else float(out) == value
        if not kept:
            raise InvalidMetadata(f"fill_value of {self.named.name}: the type has no {name}")
        return out

    def bits(self, text: str, base: int, digits: int) -> Any:
        body = text[2:]
        try:
            number = int(body, base) if len(body) == digits and body.isalnum() else -1
        except ValueError:
            number = -1
        if number < 0:
            raise wrong(self.named, f"{text[:2]} and {digits} digits", text)
        size = self.dtype.itemsize
        number &= (1 << SMALL_FLOATS.get(self.dtype.name, 8 * size)) - 1  # others are ignored
        order = ">" if self.dtype.byteorder == ">" else "<"
        return np.array(number, f"{order}u{size}").view(self.dtype)

    def encode(self, value: Scalar, dialect: Dialect) -> Any:
        number = float(value[()])
        if math.isfinite(number):
            return number
        if math.isinf(number):
            plus = "+Infinity" if dialect == "v3-draft" else "Infinity"
            return plus if number > 0 else "-Infinity"
        usual = self.special("NaN", math.nan)
        if old(dialect) or value.tobytes() == usual.tobytes():
            return "NaN"
        size = self.dtype.itemsize
        bits = int.from_bytes(value.tobytes(), "big" if self.dtype.byteorder == ">" else "little")
        return f"0x{bits:0{2 * size}x}"


class Complex(_Spelling):
    """Two floats, real then imaginary; older formats also take one number, the draft all bits."""

    @property
    def part(self) -> Float:
        """The spelling of one of the floats."""
        if self.dtype.names is not None:
            return Float(self.named, self.dtype["real"])
        part = np.dtype(f"f{self.dtype.itemsize // 2}").newbyteorder(self.dtype.byteorder)
        return (Extended if part.itemsize > 8 else Float)(self.named, part)

    def decode(self, json: Any, dialect: Dialect) -> Any:
        if isinstance(json, (int, float)) and dialect != "v3" and not isinstance(json, bool):
            json = [json, 0]
        if isinstance(json, str) and json[:2] in ("0x", "0b") and dialect == "v3-draft":
            digits, half = json[2:], len(json) // 2 - 1  # those of the real part come first
            json = [json[:2] + digits[:half], json[:2] + digits[half:]]
        if not isinstance(json, list) or len(json) != 2:
            raise wrong(self.named, "a list of two floats", json)
        part = self.part
        parts = np.empty(2, part.dtype)
        for i, each in enumerate(json):
            parts[i : i + 1] = np.reshape(part.decode(each, dialect), 1)
        return parts.view(self.dtype)[0:1].reshape(())

    def encode(self, value: Scalar, dialect: Dialect) -> Any:
        part = self.part
        parts = value.reshape(1).view(part.dtype)
        return [part.encode(parts[i : i + 1].reshape(()), dialect) for i in range(2)]


def check_platform(name: str) -> None:
    """Raise unless ``longdouble`` is the 80-bit number of Intel's processors in 16 bytes."""
    if np.dtype(np.longdouble).itemsize != 16 or np.finfo(np.longdouble).nmant != 63:
        raise UnknownExtension(
            f"data type {name!r} (<f16 or <c32) holds the 80-bit floats of Intel's processors,"
            " which NumPy does not have on this machine; read the array on x86-64 Linux or macOS"
            " and store it as float64",
            kind="data_type",
            name=name,
        )


class Extended(Float):
    """An 80-bit float; its fill value in JSON has at most 64 bits."""

    def bits(self, text: str, base: int, digits: int) -> Any:
        raise wrong(self.named, 'a number, "NaN", "Infinity" or "-Infinity"', text)

    def encode(self, value: Scalar, dialect: Dialect) -> float | str:
        number = float(value[()])
        if number == value[()] or np.isnan(value[()]):
            found: float | str = super().encode(value, "v2")
            return found
        raise CannotExpress(
            f"the fill value {value[()]!r} of type {self.dtype} is no float64, and documents have"
            f" no other numbers; give {number!r}, or 0"
        )


TIME_NAMES = ("numpy.datetime64", "numpy.timedelta64")
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic")


def bind_time(named: Named) -> DataType:
    """Return the data type of moments or durations in a unit."""
    check_members(named, "data type", required=("unit", "scale_factor"), optional=("endian",))
    unit, scale = named.configuration["unit"], named.configuration["scale_factor"]
    if unit not in UNITS:
        raise invalid("data type", named.name, "unit", f"{unit!r} is none of {', '.join(UNITS)}")
    if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale < 2**31:
        raise invalid("data type", named.name, "scale_factor", f"{scale!r} is not in [1, 2^31)")
    code = "M8" if named.name == "numpy.datetime64" else "m8"
    brackets = "" if unit == "generic" else f"[{scale if scale > 1 else ''}{unit}]"
    dtype = in_order(named, np.dtype(f"{code}{brackets}"))

    def decode(json: Any, dialect: Dialect) -> Any:
        if json == "NaT":
            json = -(2**63)
        if isinstance(json, bool) or not isinstance(json, int) or not -(2**63) <= json < 2**63:
            raise wrong(named, '"NaT" or an integer count of the unit', json)
        return np.array(json, "i8").astype(dtype.str[0] + "i8").view(dtype)

    def encode(value: Scalar, dialect: Dialect) -> Any:
        count = int(value.view(dtype.str[0] + "i8")[()])
        return "NaT" if count == -(2**63) and dialect == "v3" else count

    zero = decode(0, "v3")
    return DataType(named, dtype, decode, encode, zero=zero)
