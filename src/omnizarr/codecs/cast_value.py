"""cast_value: the same numbers as another data type.

Specification: registered extension ``cast_value`` of version 3, for integers and floats.
Configuration: ``{"data_type": "uint8", "rounding": "nearest-even", "out_of_range": "clamp",
"scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}``; all but the first optional. The
scalar map comes first, then rounding, then what is out of range, which is an error unless stated.

Reading takes documents whose fill value is another after the way there and back, as zarr-python
writes them; writing refuses them, as the text demands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.casting import OUT_OF_RANGE, ROUNDINGS, Reals, cast, reals
from omnizarr.codecs.codec import Configured, Kind, Spec
from omnizarr.data_types import bind as bind_type
from omnizarr.data_types import describe
from omnizarr.data_types.data_type import DataType
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.model import Named
from omnizarr.model.configuration import check_members, invalid
from omnizarr.model.fields import Fields, named

Pairs = tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class CastValue(Configured):
    data_type: Named
    rounding: str = "nearest-even"
    out_of_range: str | None = None
    scalar_map: Mapping[str, Any] | None = None

    name: ClassVar[str] = "cast_value"
    kind: ClassVar[Kind] = "array->array"
    borrows: ClassVar[bool] = True

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
        problems: list[Problem] = []
        fields = Fields("", stated.configuration, problems)
        data_type = named(fields, "data_type", fields.get("data_type"))
        for member in stated.configuration.keys() & {"out_of_range", "scalar_map"}:
            if fields.get(member) is None:
                fields.error(member, "expected a value; leave it out instead of null")
        if problems:
            placed = [Problem("", f"configuration.{p.field}", p.message) for p in problems]
            raise InvalidMetadata.of(placed, f"codec {cls.name!r}")
        return cls(**{**stated.configuration, "data_type": data_type})

    def _pairs(self, given: Any) -> dict[str, Pairs]:
        """The scalar map as pairs, which users may also give as dictionaries."""
        expected = "an object with lists of pairs under encode and decode"
        self.check("scalar_map", isinstance(given, Mapping), expected)
        self.check("scalar_map", given.keys() <= {"encode", "decode"}, expected)
        found: dict[str, Pairs] = {}
        for direction, entries in given.items():
            pairs = list(entries.items()) if isinstance(entries, Mapping) else entries
            good = isinstance(pairs, (list, tuple)) and all(
                isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
            )
            self.check("scalar_map", good, expected)
            found[direction] = tuple((key, value) for key, value in pairs)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The codec as a document states it; what is the default is left out."""
        target = self.data_type
        plain: Any = target.name
        if target.configuration:
            plain = {"name": target.name, "configuration": dict(target.configuration)}
        stated: dict[str, Any] = {"data_type": plain}
        if self.rounding != "nearest-even":
            stated["rounding"] = self.rounding
        if self.out_of_range is not None:
            stated["out_of_range"] = self.out_of_range
        if self.scalar_map is not None:
            maps = self.scalar_map.items()
            stated["scalar_map"] = {k: [list(pair) for pair in pairs] for k, pairs in maps}
        return {"name": self.name, "configuration": stated}

    def for_spec(self, spec: Spec) -> Casts:
        """The codec bound to arrays of one type."""
        source, target = spec.data_type, bind_type(self.data_type)
        of, to = (self._reals(data_type) for data_type in (source, target))
        if self.out_of_range == "wrap" and not to.integer:
            message = f"wrap needs a data_type of integers, not {to.name!r}"
            raise invalid("codec", self.name, "out_of_range", message)
        maps = self.scalar_map or {}
        there = self._map("encode", maps.get("encode", ()), (source, of), (target, to))
        back = self._map("decode", maps.get("decode", ()), (target, to), (source, of))
        rules = self.rounding, self.out_of_range
        return Casts(Cast(of, to, there, *rules), Cast(to, of, back, *rules), target)

    def _reals(self, data_type: DataType) -> Reals:
        found = reals(data_type)
        if found is None:
            raise InvalidMetadata(
                f"codec {self.name!r} casts integers and floats, not {data_type.named.name!r}"
            )
        return found

    def _map(
        self, direction: str, pairs: Pairs, of: tuple[DataType, Reals], to: tuple[DataType, Reals]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Keys in order, each once, and their values; NaN stands last."""
        if not pairs:
            return None
        columns = []
        for place, (data_type, numbers) in enumerate((of, to)):
            column = np.empty(len(pairs), numbers.dtype)
            for i, pair in enumerate(pairs):
                where = f"scalar_map.{direction}[{i}][{place}]"
                column[i] = self._scalar(where, pair[place], data_type)
            columns.append(column)
        keys, first = np.unique(columns[0].astype(of[1].work), return_index=True)
        return keys, columns[1][first]

    def _scalar(self, where: str, json: Any, data_type: DataType) -> Any:
        if isinstance(json, np.generic):
            json = json.item()
        if isinstance(json, float):
            json = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(json), json)
        # The specification's own example has a plus that fill values do not.
        json = "Infinity" if json == "+Infinity" else json
        try:
            return data_type.scalar(data_type.decode(json, "v3"))[()]
        except InvalidMetadata as e:
            message = str(e).replace("fill_value of", "of type", 1)
            raise invalid("codec", self.name, where, message) from None

    # The chain replaces this object by `for_spec`; these complete the protocol.

    def resolve(self, spec: Spec) -> Spec:
        return self.for_spec(spec).resolve(spec)

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self.for_spec(spec).encode(array, spec)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self.for_spec(spec).decode(array, spec)


@dataclass(frozen=True, slots=True)
class Cast:
    """One direction: the scalar map, as keys in order and their values, before all else."""

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
class Casts:
    """Arrays of one type as another, and back."""

    there: Cast
    back: Cast
    target: DataType

    name: ClassVar[str] = CastValue.name
    kind: ClassVar[Kind] = "array->array"
    borrows: ClassVar[bool] = True

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
        if not _same(back, spec.fill.astype(back.dtype)):
            raise ValueError(
                f"the fill value {spec.fill[()]!r} comes back as {back[()]!r} from"
                f" {self.target.named.name}; choose another, or map it with scalar_map"
            )
        return self.there(array).astype(self.target.dtype, copy=False)

    def decode(self, array: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        return self.back(array).astype(spec.data_type.dtype, copy=False)


def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two numbers are equal; all NaNs are."""
    return bool((one == other) | ((one != one) & (other != other)))
