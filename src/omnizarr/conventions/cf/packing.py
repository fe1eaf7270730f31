"""Packed numbers: scale and offset, fill values, and valid ranges.

Specification: CF conventions, sections 2.5.1 (missing data) and 8.1 (packed data). Decoded values
have the types that xarray gives them.

`_FillValue` is written as xarray does: floats as the eight bytes of a float64 in base64, complex
numbers as a pair of those, byte strings in base64. Plain numbers from other writers are read too.

Numbers outside the valid range are missing. Its bounds refer to stored or to unpacked values: for
packed integers, bounds written with a decimal point in JSON refer to unpacked values.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument, InvalidMetadata

Values = npt.NDArray[Any]
FILL = "_FillValue"
MISSING = "missing_value"
NAMES = ("valid_range", "valid_min", "valid_max")
_TOLERANCE = 1e-6  # of a step, for bounds that are not whole steps because of rounding


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a `_FillValue` as JSON."""
    try:
        if dtype.kind == "S":
            return base64.standard_b64encode(bytes(value)).decode()
        if dtype.kind == "f":
            return _packed(value)
        if dtype.kind == "c":
            return [_packed(np.real(value)), _packed(np.imag(value))]
        if dtype.kind == "b":
            return bool(value)
        return int(value) if dtype.kind in "iu" else str(value)
    except (TypeError, ValueError) as e:
        raise InvalidMetadata(f"_FillValue {value!r} does not fit the type {dtype}: {e}") from e


def mark_missing(attributes: dict[str, Any], value: Any, dtype: np.dtype[Any]) -> None:
    """Add the attribute that marks missing values, for formats whose fill value does not.

    This is `_FillValue`, except for text, where xarray's own engine can read only `missing_value`.
    """
    mark = encode_fill(value, dtype)
    if dtype.kind not in "UTO":
        attributes[FILL] = mark
        return
    marks = [mark, *(other for other in _several(attributes.get(MISSING)) if other != mark)]
    attributes[MISSING] = marks if len(marks) > 1 else mark


def decode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a `_FillValue` from JSON."""
    try:
        if dtype.kind == "f":
            return _unpacked(value)
        if dtype.kind == "c":
            pair = value if isinstance(value, list) else [value, 0]
            return complex(*map(_unpacked, pair))
        if dtype.kind in "SO":
            return base64.standard_b64decode(value)
        if dtype.kind == "b":
            return bool(value)
        return int(value) if dtype.kind in "iu" else str(value)
    except (TypeError, ValueError) as e:
        raise InvalidMetadata(
            f"the attribute _FillValue {value!r} does not fit the type {dtype}: {e};"
            " correct it, or skip the variable with drop_variables"
        ) from e


def _packed(value: Any) -> str:
    return base64.standard_b64encode(struct.pack("<d", float(value))).decode()


def _unpacked(value: Any) -> float:
    if isinstance(value, str):
        try:
            raw = base64.b64decode(value, validate=True)
        except binascii.Error:
            raw = b""
        if len(raw) == 8:
            return float(struct.unpack("<d", raw)[0])
    return float(value)


@dataclass(frozen=True)
class Valid:
    """The lowest and the highest valid stored number; None if there is no bound."""

    low: Any = None
    high: Any = None

    def __bool__(self) -> bool:
        return self.low is not None or self.high is not None

    def outside(self, values: Values) -> npt.NDArray[np.bool_]:
        """Return a mask of the stored numbers that are outside the range."""
        found = np.zeros(values.shape, bool)
        if self.low is not None:
            found |= values < self.low
        if self.high is not None:
            found |= values > self.high
        return found


def valid_bounds(
    attributes: Mapping[str, Any],
    dtype: np.dtype[Any],
    scale: float | None = None,
    offset: float | None = None,
    either_sign: bool = False,
) -> Valid:
    """Return the valid range in attributes, for stored numbers of a type with the intended sign."""
    low, high = _pair(attributes)
    if dtype.kind == "f":
        return Valid(*(None if b is None else dtype.type(b) for b in (low, high)))
    unpacked = (scale is not None or offset is not None) and (
        isinstance(low, float) or isinstance(high, float)
    )
    if unpacked:
        scale, offset = scale or 1.0, offset or 0.0
        low, high = (None if b is None else (b - offset) / scale for b in (low, high))
        low, high = (high, low) if scale < 0 else (low, high)
    tolerance = _TOLERANCE if unpacked else 0  # whole numbers stay exact
    low = None if low is None else math.ceil(low - tolerance * max(1, abs(low)))
    high = None if high is None else math.floor(high + tolerance * max(1, abs(high)))
    if either_sign and not unpacked:
        low, high = (None if b is None else _in_type(b, dtype, b) for b in (low, high))
    limits = np.iinfo(dtype)
    return Valid(
        None if low is None or low <= limits.min else low,
        None if high is None or high >= limits.max else high,
    )


def _pair(attributes: Mapping[str, Any]) -> tuple[Any, Any]:
    both = attributes.get("valid_range")
    if both is not None:
        if not isinstance(both, list) or len(both) != 2:
            raise _invalid("valid_range", "two numbers", both)
        return _bound(both[0], "valid_range"), _bound(both[1], "valid_range")
    low, high = (_bound(attributes.get(name), name) for name in NAMES[1:])
    return low, high


_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def as_number(value: Any) -> Any:
    """Return the number for a JSON word such as "NaN", also inside lists and objects."""
    if isinstance(value, list):
        return [as_number(each) for each in value]
    if isinstance(value, dict):
        return {name: as_number(each) for name, each in value.items()}
    return _WORDS.get(value, value) if isinstance(value, str) else value


def as_numbers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with NaN and infinities as numbers; `_FillValue` is read by its type."""
    return {name: v if name == FILL else as_number(v) for name, v in attributes.items()}


def find_word(value: Any) -> str | None:
    """Return the first text in an attribute that `as_number` would take for a number."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple, Mapping)):
        inside = value.values() if isinstance(value, Mapping) else value
        return next((word for each in inside if (word := find_word(each)) is not None), None)
    return value if isinstance(value, str) and value in _WORDS else None


def _bound(value: Any, name: str) -> Any:
    value = _only(as_number(value))
    if value is not None and not _is_number(value):
        raise _invalid(name, "a number", value)
    return value if value is not None and math.isfinite(value) else None


def _only(value: Any) -> Any:
    """Return the only element of a list, or the value itself."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _invalid(name: str, expected: str, value: Any) -> InvalidMetadata:
    return InvalidMetadata(
        f"{name}: expected {expected}, got {value!r}; valid_only=False ignores it"
    )


def _in_type(number: int, dtype: np.dtype[Any], other: int | None) -> int | None:
    """Return a number in an integer type with either sign; `other` if it does not fit.

    With `_Unsigned`, some writers give numbers in the stored type and some in the intended one.
    """
    limits, span = np.iinfo(dtype), 2 ** (8 * dtype.itemsize)
    candidates = (number, number + span, number - span)
    return next((n for n in candidates if limits.min <= n <= limits.max), other)


@dataclass(frozen=True)
class Packing:
    """The conversion between stored numbers and values."""

    stored: np.dtype[Any]
    scale: float | None = None
    offset: float | None = None  # which is added to the scaled number
    signed: bool | None = None  # the intended sign of stored integers; None if that of their type
    missing: tuple[Any, ...] = ()  # stored numbers
    valid: Valid = field(default_factory=Valid)  # for numbers with the intended sign

    @classmethod
    def of(
        cls,
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        fill: Any = None,
        valid_only: bool = True,
    ) -> Packing:
        """Return the packing described by attributes; `fill` is another missing value, or None."""
        if dtype.kind not in "iuf":
            return cls(dtype)
        unsigned = str(attributes.get("_Unsigned", "")).lower()
        signed = {"true": False, "false": True}.get(unsigned) if dtype.kind in "iu" else None
        listed = [
            _stored_number(value, dtype, name, signed is not None)
            for name in (FILL, MISSING)
            for value in _several(attributes.get(name))
        ]
        found = [value for value in (*listed, fill) if value is not None]
        scale, offset = _factor(attributes, "scale_factor"), _factor(attributes, "add_offset")
        several = tuple({repr(v): v for v in found}.values())
        packing = cls(dtype, scale, offset, signed, several)
        if not valid_only:
            return packing
        bounds = valid_bounds(attributes, packing.seen, scale, offset, signed is not None)
        return replace(packing, valid=bounds)

    @property
    def packed(self) -> bool:
        """True if numbers are scaled or shifted."""
        return self.scale is not None or self.offset is not None

    @property
    def plain(self) -> bool:
        """True if stored numbers are the values."""
        return not self.packed and self.signed is None and not self.leaves_out

    @property
    def leaves_out(self) -> bool:
        """True if some stored numbers mark missing values."""
        return bool(self.missing or self.valid)

    @property
    def seen(self) -> np.dtype[Any]:
        """The stored type in native byte order, with the sign given by `_Unsigned`."""
        if self.stored.kind not in "iuf":
            return self.stored
        if self.signed is None:
            return self.stored.newbyteorder("=")
        return np.dtype(f"{'i' if self.signed else 'u'}{self.stored.itemsize}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded values: floats if values can be missing or are scaled."""
        if self.packed:
            return np.dtype("f8")
        if self.leaves_out and self.stored.kind in "iu":
            return np.dtype("f4" if self.stored.itemsize <= 2 else "f8")
        return self.seen

    def as_seen(self, values: Values) -> Values:
        """Return stored integers with their intended sign."""
        native = values.astype(self.stored.newbyteorder("="), copy=False)
        return native if self.signed is None else native.view(self.seen)

    def is_missing(self, values: Values) -> npt.NDArray[np.bool_]:
        """Return a mask of the stored numbers that mark missing values."""
        absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        for number in self.missing:
            if number == number:
                absent = absent | (values == self.stored.type(number))
        return absent | self.valid.outside(self.as_seen(values)) if self.valid else absent

    def decode(self, values: Values) -> Values:
        """Return the values of stored numbers; missing ones are NaN."""
        if self.plain:
            return values.astype(self.dtype, copy=False)
        out: Values = self.as_seen(values).astype(self.dtype)
        if self.leaves_out:
            out = np.where(self.is_missing(values), self.dtype.type(np.nan), out)
        if self.scale is not None:
            out *= self.scale
        if self.offset is not None:
            out += self.offset
        return out

    def encode(self, values: Values, absent: npt.NDArray[np.bool_] | None = None) -> Values:
        """Return the stored numbers for values."""
        if values.dtype.kind not in "iufb":
            raise InvalidArgument(f"cannot store {values.dtype} values as {self.stored}")
        if absent is None and self.plain and np.can_cast(values.dtype, self.stored):
            return values.astype(self.stored, copy=False)
        if absent is None:
            absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        packed: Values = values
        if self.packed:
            packed = (values.astype("f8") - (self.offset or 0.0)) / (self.scale or 1.0)
        target = self.stored.newbyteorder("=")
        if self.stored.kind == "f":
            out = self._floats(packed)
        else:
            out = self._integers(packed, absent).view(target)
        clash = self.is_missing(out) & ~absent
        if self.leaves_out and clash.any():
            raise InvalidArgument(
                f"{values[clash].flat[0]} would be read as missing: {self.missing} mark missing"
                f" values, and valid numbers are from {self.valid.low} to {self.valid.high};"
                " choose another _FillValue or valid_range"
            )
        if absent.any() and not self.missing and self.stored.kind != "f":
            raise InvalidArgument(
                f"values are missing, but {self.stored} cannot express that without a _FillValue"
            )
        if absent.any() and self.missing:
            out = np.where(absent, target.type(self.missing[0]), out)
        return out.astype(self.stored, copy=False)

    def _floats(self, values: Values) -> Values:
        with np.errstate(over="ignore"):
            out = np.asarray(values.astype(self.seen))
        if np.isfinite(values[~np.isfinite(out)]).any():
            raise self._unfit(values[~np.isfinite(out) & np.isfinite(values)].flat[0])
        return out

    def _unfit(self, value: Any) -> InvalidArgument:
        with_factors = f" with scale_factor {self.scale} and add_offset {self.offset}"
        return InvalidArgument(
            f"{value} does not fit into {self.seen}{with_factors if self.packed else ''}; give"
            " values that fit, or create the array with a wider type"
        )

    def _integers(self, values: Values, absent: npt.NDArray[np.bool_]) -> Values:
        present = np.where(absent, 0, values)
        if present.dtype.kind == "f":
            whole = np.rint(present)
            if not self.packed and (whole != present).any():
                raise InvalidArgument(
                    f"values such as {present[whole != present].flat[0]} are not whole, but are"
                    f" stored as {self.stored} without scale_factor; store them as floats"
                )
            present = whole
        bounds = np.iinfo(self.seen)
        low, high = float(bounds.min), float(bounds.max)
        outside = (present < bounds.min) | (present > bounds.max)
        if present.dtype.kind == "f":  # the largest 64-bit integer is not representable as float
            outside = (present < low) | (present >= high + 1) | ~np.isfinite(present)
        if outside.any():
            raise self._unfit(values[outside].flat[0])
        return np.asarray(present.astype(self.seen))


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _stored_number(value: Any, dtype: np.dtype[Any], name: str, either_sign: bool) -> Any:
    """Return an attribute's number in the stored type; None if the type cannot represent it."""
    try:
        number = decode_fill(value, np.dtype("f8")) if isinstance(value, str) else value
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                return float(np.asarray(number, "f8").astype(dtype))
        if not np.isfinite(number) or int(number) != number:
            return None
    except (ValueError, TypeError, OverflowError):
        raise InvalidMetadata(f"{name}: expected a number, got {value!r}") from None
    if either_sign:
        return _in_type(int(number), dtype, None)
    return int(number) if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max else None


def _factor(attributes: Mapping[str, Any], name: str) -> float | None:
    value = _only(attributes.get(name))
    if value is None:
        return None
    if not _is_number(value) or not np.isfinite(value):
        raise InvalidMetadata(f"{name}: expected a finite number, got {value!r}")
    if name == "scale_factor" and value == 0:
        raise InvalidMetadata("scale_factor: 0 would make all values equal")
    return float(value)
