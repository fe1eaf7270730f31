"""scale_offset: an offset subtracted, then a scale multiplied, in the array's own type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.cast_value import Reals, cast, reals, scalar_member
from omnizarr.codecs.codec import ArrayArrayCodec, Spec
from omnizarr.errors import InvalidMetadata
from omnizarr.model.node import invalid


@dataclass(frozen=True, slots=True)
class ScaleOffset(ArrayArrayCodec):
    """The registered extension ``scale_offset`` of version 3: ``{"offset": 5, "scale": 0.1}``.

    Both are optional and spelled like fill values. The type stays, so ``cast_value`` usually
    follows. A result that the type cannot hold is an error, also an integer that is not a multiple
    of the scale; floats are rounded as usual.

    Attributes:
        offset: The number that is subtracted.
        scale: The number by which the difference is multiplied.

    Examples:
        >>> codec = oz.codecs.ScaleOffset(offset=10, scale=2)
        >>> oz.create_array(data=[10.0, 12.0], filters=[codec])[...]
        array([10., 12.])
    """

    offset: Any = 0
    scale: Any = 1

    name: ClassVar[str] = "scale_offset"
    borrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for member in ("offset", "scale"):
            value = getattr(self, member)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, member, value)
            good = isinstance(value, (int, float, str)) and not isinstance(value, bool)
            self.check(member, good, "a number, spelled like a fill value")

    def to_dict(self) -> dict[str, Any]:
        """Return the codec as metadata state it, without members that change nothing."""
        members = ("offset", self.offset, 0), ("scale", self.scale, 1)
        stated = {member: value for member, value, nothing in members if value != nothing}
        return {"name": self.name, "configuration": stated} if stated else {"name": self.name}

    def resolve(self, spec: Spec) -> Spec:
        try:
            fill = self.encode(spec.fill, spec)
        except ValueError as e:
            if isinstance(e, InvalidMetadata):
                raise
            raise InvalidMetadata(
                f"codec {self.name!r}: the fill value {spec.fill[()]!r} cannot be encoded: {e};"
                " choose a fill value in range"
            ) from None
        return Spec(spec.shape, spec.data_type, spec.data_type.scalar(fill))

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """``(array - offset) * scale``."""
        numbers, offset, scale = self._bound(spec)
        values = array.astype(numbers.work)
        if numbers.integer:
            values = _minus(values, offset, numbers)
            values = _times(values, scale, numbers)
        else:
            if offset:
                values = _rounded(np.subtract, values, offset, numbers)
            values = _rounded(np.multiply, values, scale, numbers)
        return values.astype(spec.data_type.dtype, copy=False)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """``array / scale + offset``."""
        numbers, offset, scale = self._bound(spec)
        values = array.astype(numbers.work)
        if numbers.integer:
            values = _divided(values, scale, numbers)
            values = _minus(values, -offset, numbers)
        else:
            values = _rounded(np.divide, values, scale, numbers)
            if offset:
                values = _rounded(np.add, values, offset, numbers)
        return values.astype(spec.data_type.dtype, copy=False)

    def _bound(self, spec: Spec) -> tuple[Reals, Any, Any]:
        """Return the numbers that the type can hold, and the offset and scale in that type."""
        numbers = reals(spec.data_type, self.name)
        offset, scale = (
            0 if member == "offset" and self.offset == 0 else self._number(member, spec, numbers)
            for member in ("offset", "scale")
        )
        if scale == 0:
            raise invalid("codec", self.name, "scale", "0 cannot be undone; give another number")
        return numbers, offset, scale

    def _number(self, member: str, spec: Spec, numbers: Reals) -> Any:
        json = getattr(self, member)
        if numbers.integer and isinstance(json, float) and json.is_integer():
            json = int(json)  # zarr-python reads and writes such numbers
        scalar = scalar_member(self.name, member, json, spec.data_type)
        value = scalar.astype(numbers.work)[()].item()
        if not math.isfinite(value):
            message = f"expected a finite number of type {numbers.name}, got {json!r}"
            raise invalid("codec", self.name, member, message)
        return value


def _check(
    values: npt.NDArray[Any], change: Callable[[int], int], numbers: Reals, what: str
) -> None:
    """Raise unless the exact results of all numbers fit the type."""
    ends = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for value in map(change, ends):
        if not numbers.low <= value <= numbers.high:
            raise ValueError(
                f"{what} gives {value}, outside of {numbers.name},"
                f" which goes from {numbers.low} to {numbers.high}"
            )


def _minus(values: npt.NDArray[Any], offset: int, numbers: Reals) -> npt.NDArray[Any]:
    if not offset or not values.size:
        return values
    what = f"subtracting the offset {offset}" if offset > 0 else f"adding the offset {-offset}"
    _check(values, lambda end: end - offset, numbers, what)
    number = np.array(abs(offset)).astype(numbers.work)  # -low of a type wraps, rightly
    return np.asarray(values - number if offset > 0 else values + number)


def _times(values: npt.NDArray[Any], scale: int, numbers: Reals) -> npt.NDArray[Any]:
    if scale == 1:
        return values
    _check(values, lambda end: end * scale, numbers, f"multiplying by the scale {scale}")
    return np.asarray(values * np.array(scale, numbers.work))


def _divided(values: npt.NDArray[Any], scale: int, numbers: Reals) -> npt.NDArray[Any]:
    if scale == 1:
        return values
    number = np.array(scale, numbers.work)
    with np.errstate(over="ignore"):  # of the lowest number by -1, which is refused below
        uneven = values % number != 0
    if uneven.any():
        first = values[uneven][0].item()
        raise ValueError(f"{first} is not a multiple of the scale {scale}")
    _check(values, lambda end: end // scale, numbers, f"dividing by the scale {scale}")
    return np.asarray(values // number)


def _rounded(
    operation: Any, values: npt.NDArray[Any], number: float, numbers: Reals
) -> npt.NDArray[Any]:
    """Return the result, rounded once to the type; raise if a number becomes infinite."""
    if operation in (np.multiply, np.divide) and number == 1:
        return values
    with np.errstate(over="ignore", under="ignore"):
        out = np.asarray(operation(values, np.array(number, numbers.work)))
    if numbers.dtype != numbers.work:  # float64, of which one more rounding does no harm
        wide = Reals("float64", out.dtype, out.dtype, -math.inf, math.inf, 53, -1074, True, True)
        return cast(out, wide, numbers).astype(numbers.work)
    if not np.isfinite(out).all():
        outside = np.isfinite(values) & ~np.isfinite(out)
        if outside.any():
            first = values[outside][0].item()
            raise ValueError(
                f"{operation.__name__} of {first!r} and {number!r} is outside of {numbers.name}"
            )
    return out
