"""Expected results of casts, computed with fractions: slow but independent."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from omnizarr.codecs.cast_value import Reals


@cache
def positives(dtype: np.dtype[Any]) -> list[Fraction]:
    """Return all non-negative finite numbers of a type of at most 16 bits, in order."""
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        found = bits.view(dtype).astype("f8")
    return sorted({Fraction(x) for x in found.tolist() if math.isfinite(x) and x >= 0})


def around(size: Fraction, target: Reals) -> list[tuple[Fraction, bool]]:
    """Return the neighbours of a non-negative number and whether each is even.

    Above the largest there is one more, which the type would have with one exponent more.
    """
    if target.integer:
        low = math.floor(size)
        return [(Fraction(n), n % 2 == 0) for n in sorted({low, math.ceil(size)})]
    if target.dtype.itemsize <= 2:
        numbers = positives(target.dtype)
        one_digit = numbers[0] != 0  # float8_e8m0fnu: powers of two, none of which is even
        numbers = [*numbers, 2 * numbers[-1] if one_digit else 2 * numbers[-1] - numbers[-2]]
        at = bisect.bisect_right(numbers, size) - 1
        if at < 0:  # a type without zero, which nothing is rounded away from
            return [(Fraction(0), True), (numbers[0], False)][: 2 if size else 1]
        exact = numbers[at] == size or at + 1 == len(numbers)
        places = [at] if exact else [at, at + 1]
        return [(numbers[i], i % 2 == 0 and not one_digit) for i in places]
    largest, type_ = Fraction(float(target.high)), target.dtype.type
    step = largest - Fraction(float(np.nextafter(type_(target.high), type_(0))))
    if size > largest:
        return [(largest, False), (largest + step, True)]
    low = type_(min(float(size), float(target.high)))
    while Fraction(float(low)) > size:
        low = np.nextafter(low, type_(-1))
    while low < target.high and Fraction(float(np.nextafter(low, type_(math.inf)))) <= size:
        low = np.nextafter(low, type_(math.inf))
    if Fraction(float(low)) == size:
        return [(size, True)]
    high = np.nextafter(low, type_(math.inf))
    odd = bool(low.view(f"u{target.dtype.itemsize}") & 1)
    return [(Fraction(float(low)), not odd), (Fraction(float(high)), odd)]


def rounded(value: Fraction, target: Reals, rounding: str) -> Fraction:
    """Return the number rounded, possibly to one just outside the type."""
    near = around(abs(value), target)
    if len(near) == 1:
        size = near[0][0] if near[0][0] >= abs(value) else abs(value)
        return size if value >= 0 else -size
    (low, low_even), (high, _) = near
    if abs(value) > high:
        return value
    negative = value < 0
    half = (low + high) / 2
    away = {
        "towards-zero": False,
        "towards-positive": not negative,
        "towards-negative": negative,
        "nearest-away": abs(value) >= half,
        "nearest-even": abs(value) > half or (abs(value) == half and not low_even),
    }[rounding]
    size = high if away else low
    return -size if negative else size


def expected(value: Any, target: Reals, rounding: str, out_of_range: str | None) -> Any:
    """Return the number as the target type has it, or None if it must be refused."""
    if isinstance(value, float) and not math.isfinite(value):
        has = target.nan if math.isnan(value) else target.infinite
        return value if has and not target.integer else None
    exact = rounded(Fraction(value), target, rounding)
    low, high = Fraction(target.low), Fraction(target.high)
    if not low <= exact <= high:
        if out_of_range == "wrap" and target.integer:
            span = target.high - target.low + 1
            return (int(exact) - target.low) % span + target.low
        if out_of_range != "clamp":
            return None
        if target.infinite:
            return math.inf if exact > high else -math.inf
        exact = max(low, min(high, exact))
    if target.integer:
        return int(exact)
    number = float(exact)
    return -0.0 if number == 0 and math.copysign(1, value) < 0 else number
