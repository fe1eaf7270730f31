"""Numbers that count as values: valid_range, valid_min, valid_max.

Specification: NetCDF attribute conventions, which CF takes over (section 2.5.1): what lies outside
is missing. Bounds are in the type that is stored, or in that of unpacked values: in JSON, bounds of
packed integers that are written with a point are of unpacked values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidMetadata

Values = npt.NDArray[Any]
NAMES = ("valid_range", "valid_min", "valid_max")
_SLACK = 1e-6  # of a step, for bounds that are no whole number of steps because they are binary


@dataclass(frozen=True)
class Valid:
    """The lowest and the highest stored number that is a value; None where there is no bound."""

    low: Any = None
    high: Any = None

    def __bool__(self) -> bool:
        return self.low is not None or self.high is not None

    def outside(self, values: Values) -> npt.NDArray[np.bool_]:
        """Where stored numbers are no values."""
        found = np.zeros(values.shape, bool)
        if self.low is not None:
            found |= values < self.low
        if self.high is not None:
            found |= values > self.high
        return found


def stated_bounds(
    attributes: Mapping[str, Any],
    dtype: np.dtype[Any],
    scale: float | None = None,
    offset: float | None = None,
    either_sign: bool = False,
) -> Valid:
    """What attributes say about numbers of a type, which has the sign that is meant."""
    low, high = _pair(attributes)
    if dtype.kind == "f":
        return Valid(*(None if b is None else dtype.type(b) for b in (low, high)))
    unpacked = (scale is not None or offset is not None) and (
        isinstance(low, float) or isinstance(high, float)
    )
    if unpacked:
        low, high = (_steps(b, scale or 1.0, offset or 0.0) for b in (low, high))
        low, high = (high, low) if (scale or 1.0) < 0 else (low, high)
    slack = _SLACK if unpacked else 0  # whole numbers stay exact
    low = None if low is None else math.ceil(low - slack * max(1, abs(low)))
    high = None if high is None else math.floor(high + slack * max(1, abs(high)))
    if either_sign and not unpacked:
        low, high = (_with_sign(b, dtype) for b in (low, high))
    limits = np.iinfo(dtype)
    return Valid(
        None if low is None or low <= limits.min else low,
        None if high is None or high >= limits.max else high,
    )


def _pair(attributes: Mapping[str, Any]) -> tuple[Any, Any]:
    stated = attributes.get("valid_range")
    if stated is not None:
        if isinstance(stated, list) and len(stated) == 2:
            return _bound(stated[0], "valid_range"), _bound(stated[1], "valid_range")
        raise _senseless("valid_range", "two numbers", stated)
    low, high = (_bound(attributes.get(name), name) for name in NAMES[1:])
    return low, high


def _bound(value: Any, name: str) -> Any:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _senseless(name, "a number", value)
    return value if math.isfinite(value) else None


def _senseless(name: str, expected: str, value: Any) -> InvalidMetadata:
    return InvalidMetadata(
        f"{name}: expected {expected}, got {value!r}; valid_only=False passes over it"
    )


def _steps(bound: Any, scale: float, offset: float) -> Any:
    return None if bound is None else (bound - offset) / scale


def _with_sign(bound: Any, dtype: np.dtype[Any]) -> Any:
    """A bound as the meant type has it, where it is stated in the stored one."""
    if bound is None:
        return None
    limits, span = np.iinfo(dtype), 2 ** (8 * dtype.itemsize)
    candidates = (bound, bound + span, bound - span)
    return next((b for b in candidates if limits.min <= b <= limits.max), bound)
