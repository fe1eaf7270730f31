"""Numbers of one type as numbers of another: rounded, clamped or wrapped as asked, else refused.

Every step is exact: floats are rounded once, and 64-bit integers do not pass through floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.data_types.data_type import DataType
from omnizarr.data_types.numeric import SMALL_FLOATS, SMALL_INTEGERS

ROUNDINGS = (
    "nearest-even",
    "towards-zero",
    "towards-positive",
    "towards-negative",
    "nearest-away",
)
OUT_OF_RANGE = ("clamp", "wrap")


@dataclass(frozen=True, slots=True)
class Reals:
    """The numbers that a type can hold.

    `work` is what arithmetic is done in: the type itself, or a NumPy type that holds it.
    """

    name: str
    dtype: np.dtype[Any]
    work: np.dtype[Any]
    low: Any
    high: Any
    # Of floats: significant bits, the exponent of the smallest number, which specials there are.
    digits: int = 0
    least: int = 0
    nan: bool = False
    infinite: bool = False

    @property
    def integer(self) -> bool:
        return not self.digits


def reals(data_type: DataType) -> Reals | None:
    """What a type can hold, or None where its items are not real numbers."""
    if data_type.variable:
        return None
    return _reals(data_type.named.name, data_type.dtype.newbyteorder("="))


@lru_cache(maxsize=64)
def _reals(name: str, dtype: np.dtype[Any]) -> Reals | None:
    if name in SMALL_INTEGERS:
        bits, signed = SMALL_INTEGERS[name], name.startswith("int")
        low = -(1 << (bits - 1)) if signed else 0
        work = np.dtype("i1" if signed else "u1")
        return Reals(name, dtype, work, low, low + (1 << bits) - 1)
    if name in SMALL_FLOATS:
        import ml_dtypes  # noqa: PLC0415 - optional package

        limits_of: Any = ml_dtypes.finfo
        return _floats(name, dtype, np.dtype("f8"), limits_of(dtype))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return Reals(name, dtype, dtype, int(limits.min), int(limits.max))
    return _floats(name, dtype, dtype, np.finfo(dtype)) if dtype.kind == "f" else None


def _floats(name: str, dtype: np.dtype[Any], work: np.dtype[Any], limits: Any) -> Reals:
    nan, infinity = np.array([np.nan, np.inf]).astype(dtype).astype("f8")
    least = int(np.frexp(float(limits.smallest_subnormal))[1]) - 1
    return Reals(
        name,
        dtype,
        work,
        float(limits.min),
        float(limits.max),
        digits=int(limits.nmant) + 1,
        least=least,
        nan=bool(np.isnan(nan)),
        infinite=bool(np.isinf(infinity)),
    )


def cast(
    array: npt.NDArray[Any],
    source: Reals,
    target: Reals,
    rounding: str = "nearest-even",
    out_of_range: str | None = None,
) -> npt.NDArray[Any]:
    """The array as the target type; ValueError names a number that has no place in it."""
    values = array.astype(source.work, copy=False)
    if source.integer and target.integer:
        return _integers(values, target, out_of_range)
    if source.integer:
        return _fitted(_significant(values, target.digits, rounding), target, out_of_range)
    if target.integer:
        return _whole(values, target, rounding, out_of_range)
    if _holds(target, source):
        return values.astype(target.dtype)
    if rounding == "nearest-even" and target.dtype == target.work:
        return _narrowed(values, target, out_of_range)
    quantised = _quantised(values.astype("f8", copy=False), target, rounding)
    return _fitted(quantised, target, out_of_range)


def _holds(target: Reals, source: Reals) -> bool:
    """Whether every float of one type is also of the other."""
    return (
        target.digits >= source.digits
        and target.least <= source.least
        and target.low <= source.low
        and target.high >= source.high
        and target.nan >= source.nan
        and target.infinite >= source.infinite
    )


def _integers(
    values: npt.NDArray[Any], target: Reals, out_of_range: str | None
) -> npt.NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if target.low <= low and high <= target.high:
        return values.astype(target.work).astype(target.dtype)
    if out_of_range is None:
        raise _outside(low if low < target.low else high, target)
    if out_of_range == "clamp":
        limits = np.iinfo(values.dtype)
        low, high = max(limits.min, target.low), min(limits.max, target.high)
        return np.asarray(np.clip(values, low, high), target.work).astype(target.dtype)
    wrapped = values.astype(target.work)
    if target.dtype != target.work:
        span = target.high - target.low + 1
        wrapped = ((wrapped & (span - 1)) ^ -target.low) + target.low
    out: npt.NDArray[Any] = np.asarray(wrapped, target.work).astype(target.dtype)
    return out


def _whole(
    values: npt.NDArray[Any], target: Reals, rounding: str, out_of_range: str | None
) -> npt.NDArray[Any]:
    """Floats as integers."""
    if values.dtype.itemsize < 4:  # to compare with the limits of any integer
        values = values.astype("f4")
    whole = np.asarray(_rounded(values, rounding))
    _refuse(values, ~np.isfinite(whole), target)
    # Both limits are powers of two, or zero, and so exact; the upper is the first number outside.
    below, above = whole < float(target.low), whole >= float(target.high + 1)
    outside = below | above
    if not outside.any():
        return whole.astype(target.work).astype(target.dtype)
    if out_of_range is None:
        raise _outside(values[outside][0], target)
    if out_of_range == "wrap":
        size = np.fmod(np.abs(whole.astype("f8")), 2.0**64).astype("u8")
        return _integers(np.asarray(np.where(whole < 0, 0 - size, size)), target, "wrap")
    clamped = np.where(outside, 0, whole).astype(target.work)
    clamped[below], clamped[above] = target.low, target.high
    return clamped.astype(target.dtype)


def _significant(values: npt.NDArray[Any], digits: int, rounding: str) -> npt.NDArray[Any]:
    """Integers rounded to so many significant bits, as float64."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if max(-low, high) <= 1 << digits:
        return values.astype("f8")
    negative = values < 0
    bits = values.astype("u8")
    size = np.where(negative, 0 - bits, bits)
    # The number of bits, from the upper ones alone where a float would round them.
    large = size >= np.uint64(1 << 53)
    length = np.frexp((size >> np.where(large, 11, 0).astype("u8")).astype("f8"))[1]
    length = length + np.where(large, 11, 0)
    shift = np.maximum(length - digits, 0)
    cut = shift.astype("u8")
    kept = size >> cut
    rest = size - (kept << cut)
    half = np.where(cut > 0, np.uint64(1) << (np.maximum(cut, 1) - np.uint64(1)), 0).astype("u8")
    up = (rest > 0) & {
        "nearest-even": (rest > half) | ((rest == half) & (kept & np.uint64(1) == 1)),
        "nearest-away": rest >= half,
        "towards-zero": np.False_,
        "towards-positive": ~negative,
        "towards-negative": negative,
    }[rounding]
    out = np.ldexp((kept + up).astype("f8"), shift)
    return np.asarray(np.where(negative, -out, out))


def _quantised(
    values: npt.NDArray[np.float64], target: Reals, rounding: str
) -> npt.NDArray[np.float64]:
    """Floats rounded to the digits of the target, as if it had no largest number."""
    exponent = np.frexp(values)[1]
    unit = np.maximum(exponent - target.digits, target.least)
    with np.errstate(over="ignore"):
        out = np.ldexp(_rounded(np.ldexp(values, -unit), rounding), unit)
    # What is beyond the largest float64 is no infinity, but beyond the target as well.
    beyond = np.isinf(out) & np.isfinite(values)
    return np.where(beyond, np.copysign(np.finfo("f8").max, values), out)


def _rounded(values: npt.NDArray[Any], rounding: str) -> npt.NDArray[Any]:
    """Floats rounded to whole numbers; zeros keep their sign."""
    if rounding == "nearest-away":
        whole = np.trunc(values)
        with np.errstate(invalid="ignore"):
            far = np.abs(values - whole) >= values.dtype.type(0.5)
        return np.asarray(whole + np.copysign(far.astype(values.dtype), values))
    functions: dict[str, Any] = {
        "nearest-even": np.rint,
        "towards-zero": np.trunc,
        "towards-positive": np.ceil,
        "towards-negative": np.floor,
    }
    return np.asarray(functions[rounding](values))


def _narrowed(
    values: npt.NDArray[Any], target: Reals, out_of_range: str | None
) -> npt.NDArray[Any]:
    """Floats as narrower ones of NumPy, which rounds to the nearest, even one."""
    with np.errstate(over="ignore"):
        out = values.astype(target.dtype)
    if out_of_range != "clamp" and not np.isfinite(out).all():
        outside = np.isinf(out) & np.isfinite(values)
        if outside.any():
            raise _outside(values[outside][0], target)
    return out


def _fitted(
    values: npt.NDArray[np.float64], target: Reals, out_of_range: str | None
) -> npt.NDArray[Any]:
    """Numbers with no more digits than the target has, as that type."""
    if not target.nan:
        _refuse(values, np.isnan(values), target)
    if not target.infinite:
        _refuse(values, np.isinf(values), target)
    below = (values < target.low) & np.isfinite(values)
    above = (values > target.high) & np.isfinite(values)
    outside = below | above
    if outside.any():
        if out_of_range != "clamp":
            raise _outside(values[outside][0], target)
        low, high = (-np.inf, np.inf) if target.infinite else (target.low, target.high)
        values = np.where(below, low, np.where(above, high, values))
    return values.astype(target.dtype)


def _refuse(values: npt.NDArray[Any], special: npt.NDArray[np.bool_], target: Reals) -> None:
    if special.any():
        raise ValueError(f"{target.name} has no {values[special][0].item()!r}")


def _outside(value: Any, target: Reals) -> ValueError:
    number = value.item() if isinstance(value, np.generic) else value
    limits = f"{target.low} to {target.high}"
    return ValueError(f"{number!r} is outside of {target.name}, which goes from {limits}")
