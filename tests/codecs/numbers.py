"""Expected results of casts, computed with fractions: slow but independent."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from omnizarr.codecs.cast_value import Reals


def rounded(value: Fraction, target: Reals, rounding: str) -> Fraction:
    """Return the number rounded, as if the type had no largest number."""
    unit = Fraction(1)
    if value and not target.integer:
        top, bottom = abs(value).as_integer_ratio()
        exponent = top.bit_length() - bottom.bit_length()
        exponent += abs(value) >= Fraction(2) ** exponent
        unit = Fraction(2) ** max(exponent - target.digits, target.least)
    units = value / unit
    half_away = math.floor(abs(units) + Fraction(1, 2)) * (1 if units >= 0 else -1)
    whole = {
        "nearest-even": round,
        "nearest-away": lambda _: half_away,
        "towards-zero": math.trunc,
        "towards-positive": math.ceil,
        "towards-negative": math.floor,
    }[rounding]
    return whole(units) * unit


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
