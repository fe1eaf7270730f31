"""cast_value: the same numbers as another data type.

The first half of the file is the cast itself. It is exact: floats are rounded once, and 64-bit
integers are not converted to floats on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.codecs.codec import ArrayArray, Configured, Kind, Spec, raise_problems
from omnizarr.concurrency.cache import cached
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types import describe
from omnizarr.data_types.data_type import DataType, Scalar
from omnizarr.data_types.numeric import SMALL_FLOATS, SMALL_INTEGERS
from omnizarr.errors import InvalidMetadata
from omnizarr.model import Named
from omnizarr.model.fields import Fields, named
from omnizarr.model.node import check_members, invalid

ROUNDINGS = ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away")
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


def reals(data_type: DataType, codec: str) -> Reals:
    """Return the numbers that a type can hold; raise if its items are not real numbers."""
    name = data_type.named.name
    found = None if data_type.variable else _reals(name, data_type.dtype.newbyteorder("="))
    if found is None:
        raise InvalidMetadata(f"codec {codec!r} takes integers and floats, not {name!r}")
    return found


@cached(64)
def _reals(name: str, dtype: np.dtype[Any]) -> Reals | None:
    if dtype.kind in "iu" or name in SMALL_INTEGERS:
        bits, signed = SMALL_INTEGERS.get(name, 8 * dtype.itemsize), name.startswith("int")
        low = -(1 << (bits - 1)) if signed else 0
        work = np.dtype(f"{'i' if signed else 'u'}{dtype.itemsize}")
        return Reals(name, dtype, work, low, low + (1 << bits) - 1)
    if dtype.kind != "f" and name not in SMALL_FLOATS:
        return None
    work = np.dtype("f8") if name in SMALL_FLOATS else dtype
    limits: Any = registry.load("ml_dtypes").finfo(dtype) if work != dtype else np.finfo(dtype)
    nan, infinity = np.array([np.nan, np.inf]).astype(dtype).astype("f8")
    return Reals(
        name,
        dtype,
        work,
        float(limits.min),
        float(limits.max),
        digits=int(limits.nmant) + 1,
        least=int(np.frexp(float(limits.smallest_subnormal))[1]) - 1,
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
    """Return the array as the target type; raise ValueError for a number that does not fit."""
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
    """Return True if the target type holds every float of the source type."""
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
    return np.asarray(wrapped, target.work).astype(target.dtype)


def _whole(
    values: npt.NDArray[Any], target: Reals, rounding: str, out_of_range: str | None
) -> npt.NDArray[Any]:
    """Return floats as integers."""
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
    """Return integers rounded to `digits` significant bits, as float64."""
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
    """Return floats rounded to the digits of the target, as if it had no largest number."""
    exponent = np.frexp(values)[1]
    unit = np.maximum(exponent - target.digits, target.least)
    with np.errstate(over="ignore"):
        out = np.ldexp(_rounded(np.ldexp(values, -unit), rounding), unit)
    # What is beyond the largest float64 is no infinity, but beyond the target as well.
    beyond = np.isinf(out) & np.isfinite(values)
    return np.where(beyond, np.copysign(np.finfo("f8").max, values), out)


def _rounded(values: npt.NDArray[Any], rounding: str) -> npt.NDArray[Any]:
    """Return floats rounded to whole numbers; zeros keep their sign."""
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
    """Return floats as narrower ones; NumPy rounds to the nearest, ties to even."""
    with np.errstate(over="ignore"):
        out = values.astype(target.dtype)
    outside = np.isinf(out) & np.isfinite(values)
    if out_of_range != "clamp" and outside.any():
        raise _outside(values[outside][0], target)
    return out


def _fitted(
    values: npt.NDArray[np.float64], target: Reals, out_of_range: str | None
) -> npt.NDArray[Any]:
    """Return rounded numbers as the target type; clamp, or refuse, values out of its range."""
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


Pairs = tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class CastValue(Configured):
    """The registered extension ``cast_value`` of version 3, for integers and floats.

    ``{"data_type": "uint8", "rounding": "nearest-even", "out_of_range": "clamp", "scalar_map":
    {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}``; all but the first are optional. The scalar
    map comes first, then rounding, then the rule for numbers out of range, which are errors without
    one. Arrays whose fill value changes when it is encoded and decoded can be read, as zarr-python
    writes them, but not written, as the specification demands.

    Attributes:
        data_type: The stored type.
        rounding: The rule for rounding, such as ``"nearest-even"`` or ``"towards-zero"``.
        out_of_range: ``"clamp"`` or ``"wrap"``; None for an error.
        scalar_map: Values to replace when they are encoded and decoded.

    Examples:
        >>> cast = {"name": "cast_value", "configuration": {"data_type": "uint8"}}
        >>> oz.create_array(data=[1.0, 2.0], filters=[cast])[...]
        array([1., 2.])
    """

    data_type: Named
    rounding: str = "nearest-even"
    out_of_range: str | None = None
    scalar_map: Mapping[str, Any] | None = None

    name: ClassVar[str] = "cast_value"
    kind: ClassVar[Kind] = "array->array"

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_type", describe(self.data_type))
        self.check("rounding", self.rounding in ROUNDINGS, " or ".join(ROUNDINGS))
        allowed = (None, *OUT_OF_RANGE)
        self.check("out_of_range", self.out_of_range in allowed, " or ".join(OUT_OF_RANGE))
        if self.scalar_map is not None:
            object.__setattr__(self, "scalar_map", self._pairs(self.scalar_map))

    @classmethod
    def bind(cls, stated: Named) -> CastValue:
        members = ("rounding", "out_of_range", "scalar_map")
        check_members(stated, "codec", required=("data_type",), optional=members)
        fields = Fields("", stated.configuration, [])
        data_type = named(fields, "data_type", fields.get("data_type"))
        for member in stated.configuration.keys() & {"out_of_range", "scalar_map"}:
            if fields.get(member) is None:
                fields.error(member, "expected a value; leave it out instead of null")
        raise_problems(fields, cls.name)
        return cls(**{**stated.configuration, "data_type": data_type})

    def _pairs(self, given: Any) -> dict[str, Pairs]:
        """Return the scalar map as pairs; users may also give dictionaries."""
        expected = "an object with lists of pairs under encode and decode"
        is_map = isinstance(given, Mapping) and given.keys() <= {"encode", "decode"}
        self.check("scalar_map", is_map, expected)
        lists = {k: [*v.items()] if isinstance(v, Mapping) else v for k, v in given.items()}
        for pairs in lists.values():
            good = isinstance(pairs, (list, tuple)) and all(
                isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
            )
            self.check("scalar_map", good, expected)
        return {k: tuple((key, value) for key, value in pairs) for k, pairs in lists.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the codec as metadata state it, without defaults."""
        whole = super(CastValue, self).to_dict()  # a bare super() fails in a class with slots
        stated = whole["configuration"]
        if not self.data_type.configuration:
            stated["data_type"] = self.data_type.name
        if self.rounding == "nearest-even":
            del stated["rounding"]
        return whole

    def for_spec(self, spec: Spec) -> Casts:
        """Return the codec bound to arrays of one type."""
        source, target = spec.data_type, bind_type(self.data_type)
        of, to = (reals(data_type, self.name) for data_type in (source, target))
        if self.out_of_range == "wrap" and not to.integer:
            message = f"wrap needs a data_type of integers, not {to.name!r}"
            raise invalid("codec", self.name, "out_of_range", message)
        maps = self.scalar_map or {}
        there = self._map("encode", maps.get("encode", ()), (source, of), (target, to))
        back = self._map("decode", maps.get("decode", ()), (target, to), (source, of))
        rules = self.rounding, self.out_of_range
        return Casts(Cast(of, to, there, *rules), Cast(to, of, back, *rules), target)

    def _map(
        self, direction: str, pairs: Pairs, of: tuple[DataType, Reals], to: tuple[DataType, Reals]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Return the sorted keys, each once and NaN last, and their values."""
        if not pairs:
            return None
        columns = []
        for place, (data_type, numbers) in enumerate((of, to)):
            column = np.empty(len(pairs), numbers.dtype)
            for i, pair in enumerate(pairs):
                where, json = f"scalar_map.{direction}[{i}][{place}]", pair[place]
                if isinstance(json, np.generic):
                    json = json.item()
                if isinstance(json, float):
                    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
                    json = names.get(str(json), json)
                # The specification's own example has a plus that fill values do not.
                json = "Infinity" if json == "+Infinity" else json
                column[i] = scalar_member(self.name, where, json, data_type)[()]
            columns.append(column)
        keys, first = np.unique(columns[0].astype(of[1].work), return_index=True)
        return keys, columns[1][first]


def scalar_member(codec: str, member: str, json: Any, data_type: DataType) -> Scalar:
    """Return a member of a configuration that is spelled like a fill value."""
    try:
        return data_type.scalar(data_type.decode(json, "v3"))
    except InvalidMetadata as e:
        message = str(e).replace("fill_value of", "of type", 1)
        raise invalid("codec", codec, member, message) from None


@dataclass(frozen=True, slots=True)
class Cast:
    """One direction of the codec: the scalar map first, as sorted keys and values, then a cast."""

    source: Reals
    target: Reals
    mapped: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None
    rounding: str
    out_of_range: str | None

    def __call__(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rules = self.source, self.target, self.rounding, self.out_of_range
        if self.mapped is None:
            return cast(array, *rules)
        keys, found = self.mapped
        values = array.astype(self.source.work, copy=False)
        at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
        hit = keys[at] == values
        if not self.source.integer:
            hit |= np.isnan(keys[at]) & np.isnan(values)
        if not hit.any():
            return cast(array, *rules)
        out = np.empty(array.shape, self.target.dtype)
        out[hit] = found[at[hit]]
        out[~hit] = cast(values[~hit], *rules)
        return out


@dataclass(frozen=True, slots=True)
class Casts(ArrayArray):
    """The codec bound to arrays of one type."""

    there: Cast
    back: Cast
    target: DataType

    name: ClassVar[str] = CastValue.name

    def resolve(self, spec: Spec) -> Spec:
        try:
            fill = self.there(spec.fill)
        except ValueError as e:
            raise InvalidMetadata(
                f"codec {self.name!r}: the fill value {spec.fill[()]!r} cannot be cast: {e};"
                " choose another, or map it with scalar_map"
            ) from None
        return Spec(spec.shape, self.target, fill.astype(self.target.dtype, copy=False))

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        back = self.back(self.there(spec.fill))
        fill = spec.fill.astype(back.dtype)
        if back != fill and not (back != back and fill != fill):  # both are NaN
            raise ValueError(
                f"the fill value {spec.fill[()]!r} comes back as {back[()]!r} from"
                f" {self.target.named.name}; choose another, or map it with scalar_map"
            )
        return self.there(array).astype(self.target.dtype, copy=False)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self.back(array).astype(spec.data_type.dtype, copy=False)
