"""scale_offset: an offset subtracted, then a scale multiplied, in the array's own type."""

from __future__ import annotations

import itertools
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

    def __post_init__(self) -> None:
        for member in ("offset", "scale"):
            value = getattr(self, member)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, member, value)
            good = isinstance(value, (int, float, str)) and not isinstance(value, bool)
            self.check(member, good, "a number, spelled like a fill value")

    def resolve(self, spec: Spec) -> Spec:
        self._bound(spec)  # whose errors are those of other members
        try:
            fill = self.encode(spec.fill, spec)
        except ValueError as e:
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
            steps = (offset, 1), (offset, scale)
            values = _exact(lambda v, o, s: (v - o) * s, values, steps, numbers)
        else:
            values = _rounded(np.subtract, values, offset, numbers)
            values = _rounded(np.multiply, values, scale, numbers)
        return values.astype(spec.data_type.dtype, copy=False)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """``array / scale + offset``."""
        numbers, offset, scale = self._bound(spec)
        values = array.astype(numbers.work)
        if numbers.integer:
            with np.errstate(over="ignore"):  # of the lowest number by -1, which is refused below
                uneven = values % np.array(scale, numbers.work) != 0
            if uneven.any():
                first = values[uneven][0].item()
                raise ValueError(f"{first} is not a multiple of the scale {scale}")
            steps = (0, scale), (offset, scale)
            values = _exact(lambda v, o, s: v // s + o, values, steps, numbers)
        else:
            values = _rounded(np.divide, values, scale, numbers)
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


def _exact(
    change: Callable[[Any, Any, Any], Any],
    values: npt.NDArray[Any],
    steps: tuple[tuple[int, int], tuple[int, int]],
    numbers: Reals,
) -> npt.NDArray[Any]:
    """Return integers after an offset and a scale; raise unless both results fit the type."""
    ends = (int(values.min()), int(values.max())) if values.size else ()
    for end, (offset, scale) in itertools.product(ends, steps):
        value = change(end, offset, scale)
        if not numbers.low <= value <= numbers.high:
            raise ValueError(
                f"{end} with the offset {offset} and the scale {scale} gives {value}, outside of"
                f" {numbers.name}, which goes from {numbers.low} to {numbers.high}"
            )
    with np.errstate(over="ignore"):  # what wraps on the way comes back
        return np.asarray(change(values, *(np.array(n, numbers.work) for n in steps[1])))


def _rounded(
    operation: Any, values: npt.NDArray[Any], number: float, numbers: Reals
) -> npt.NDArray[Any]:
    """Return the result, rounded once to the type; raise if a number becomes infinite."""
    if number == (1 if operation in (np.multiply, np.divide) else 0):
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
