"""Differences between the values of two arrays, and between metadata in terms of all formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.bulk.adaptation import FILL, missing_mark
from omnizarr.errors import OmnizarrError
from omnizarr.extension import (
    ARRAY_DIMENSIONS,
    ArrayModel,
    BoundArray,
    Location,
    Named,
    Node,
    type_name,
    value_text,
)

Found = tuple[str, Any, Any]  # the place in the metadata, and what both have there
ABSENT = "(absent)"


@dataclass(frozen=True)
class Tolerance:
    """Values are equal if they differ by at most ``atol + rtol * abs(b)``, as in NumPy."""

    rtol: float = 0.0
    atol: float = 0.0
    equal_nan: bool = True


@dataclass
class ArrayDifference:
    """The differences between the values of two arrays."""

    size: int = 0  # elements that were compared, also as bytes of whole chunks
    total: int = 0  # elements of the array
    different: int = 0
    max_absolute: float | None = None  # of numbers, also within the tolerance
    max_relative: float | None = None  # to the larger of both
    first: list[list[Any]] = field(default_factory=list)  # index and both values, in order

    def merge(self, other: ArrayDifference, show: int) -> None:
        """Add the differences in another part of the arrays."""
        self.size += other.size
        self.total += other.total
        self.different += other.different
        for name in ("max_absolute", "max_relative"):
            known = [v for v in (getattr(self, name), getattr(other, name)) if v is not None]
            setattr(self, name, max(known, default=None))
        self.first = sorted([*self.first, *other.first], key=lambda row: row[0])[:show]


def compare(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    origin: tuple[int, ...],
    tolerance: Tolerance,
    show: int,
) -> ArrayDifference:
    """Return the differences between two arrays of one shape, which begin at an index."""
    found = ArrayDifference(size=a.size)
    wrong = np.flatnonzero(unequal(a, b))
    if wrong.size and is_number(a.dtype) and is_number(b.dtype):
        x, y = _wide(a.reshape(-1)[wrong]), _wide(b.reshape(-1)[wrong])
        with np.errstate(all="ignore"):
            distance, larger = np.abs(x - y), np.maximum(np.abs(x), np.abs(y))
            close = distance <= tolerance.atol + tolerance.rtol * np.abs(y)
            finite = np.isfinite(x) & np.isfinite(y)
            close &= finite
            if tolerance.equal_nan:
                close |= np.isnan(x) & np.isnan(y)
        if finite.any():
            found.max_absolute = float(distance[finite].max())
            found.max_relative = float((distance[finite] / larger[finite]).max())
        wrong = wrong[~close]
    elif wrong.size and a.dtype.kind in "mM" and tolerance.equal_nan:
        both = np.isnat(a.reshape(-1)[wrong]) & np.isnat(b.reshape(-1)[wrong])
        wrong = wrong[~both]
    found.different = int(wrong.size)
    for number in wrong[:show].tolist():
        inside = np.unravel_index(number, a.shape)
        index = [int(o + i) for o, i in zip(origin, inside, strict=True)]
        found.first.append([index, plain(a[inside]), plain(b[inside])])
    return found


def unequal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of differing elements; NaN differs from NaN, but not inside structures."""
    if a.dtype.hasobject or b.dtype.hasobject:
        pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
        return np.array([not _same(x, y) for x, y in pairs], bool).reshape(a.shape)
    if a.dtype.kind == "V" and not is_number(a.dtype):
        rows = (np.ascontiguousarray(v).reshape(-1).view(np.uint8) for v in (a, b))
        x, y = (v.reshape(a.size, -1) for v in rows)
        bits: npt.NDArray[np.bool_] = (x != y).any(axis=1).reshape(a.shape)
        return bits
    if is_extension(a.dtype) or is_extension(b.dtype):
        a, b = _wide(a), _wide(b)
    with np.errstate(invalid="ignore"):
        found: npt.NDArray[np.bool_] = np.asarray(a != b)
    return found


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.array_equal(x, y)
    return bool(x == y)


def is_extension(dtype: np.dtype[Any]) -> bool:
    """Return True for the number types of ml_dtypes."""
    return dtype.kind == "V" and dtype.names is None and not issubclass(dtype.type, np.void)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return True for types of numbers and truth values."""
    return dtype.kind in "biufc" or is_extension(dtype)


def are_comparable(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    """Return True if values of two types can be equal."""
    if is_number(a) and is_number(b):
        return True
    if a.kind in "mM" or a.kind == "V":
        return a.newbyteorder("=") == b.newbyteorder("=")
    return any(a.kind in kinds and b.kind in kinds for kinds in ("UTO", "SO"))


def _wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers of a type that holds all integers of 64 bits, where NumPy has one."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if is_extension(values.dtype):
            values = values.astype(np.float32)
        return values.astype(np.clongdouble if values.dtype.kind == "c" else np.longdouble)


def plain(value: Any) -> Any:
    """Return an element as plain data."""
    if isinstance(value, np.generic) and is_extension(value.dtype):
        return float(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return value_text(value)
    if isinstance(value, np.void) and value.dtype.names is not None:
        return str(tuple(plain(value[name]) for name in value.dtype.names))
    found = value.item() if isinstance(value, np.generic) else value
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    return value_text(found)


# Metadata


def metadata_differences(
    a: tuple[Location, Node], b: tuple[Location, Node]
) -> tuple[list[Found], list[Found]]:
    """Return the differences in meaning and the differences in storage."""
    if a[1].kind != b[1].kind:
        return [("kind", a[1].kind, b[1].kind)], []
    (meaning, storage), (other, others) = described(*a), described(*b)
    if a[0].format.undefined_fill != b[0].format.undefined_fill:
        _compare_marks((*a, meaning), (*b, other))
    return [*json_differences(meaning, other)], [*json_differences(storage, others)]


def described(location: Location, node: Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a node's metadata in two parts: its meaning in any format, and how it is stored."""
    attributes = thaw(dict(node.attributes))
    storage: dict[str, Any] = {"zarr_format": location.format.name}
    if not isinstance(node, ArrayModel):
        return {"attributes": attributes}, storage
    names = list(node.dimension_names or ())
    if attributes.get(ARRAY_DIMENSIONS) == names:
        del attributes[ARRAY_DIMENSIONS]
    bound = BoundArray(location.store, location.path, "", node)
    meaning: dict[str, Any] = {
        "shape": list(node.shape),
        "data_type": _type_name(bound),
        "fill_value": _fill_value(bound),
        "dimension_names": names if any(names) else None,
        "attributes": attributes,
    }
    storage |= {
        "endian": node.data_type.configuration.get("endian", "little"),
        "chunk_grid": _named(node.chunk_grid),
        "chunk_key_encoding": _named(node.chunk_key_encoding),
        "codecs": [repr(codec) for codec in node.codecs],
        "storage_transformers": [repr(t) for t in node.storage_transformers],
    }
    return meaning, storage


def _compare_marks(*sides: tuple[Location, Node, dict[str, Any]]) -> None:
    """Describe missing values by `_FillValue` on both sides if only one side has the attribute."""
    arrays = [
        (BoundArray(location.store, location.path, "", node), meaning)
        for location, node, meaning in sides
        if isinstance(node, ArrayModel)
    ]
    marks = [missing_mark(bound) for bound, _ in arrays]
    stated = [FILL in meaning["attributes"] for _, meaning in arrays]
    if sorted(stated) == [False, True] and None not in marks:
        for mark, (_, meaning) in zip(marks, arrays, strict=True):
            meaning["attributes"][FILL] = mark
            del meaning["fill_value"]


def _fill_value(bound: BoundArray) -> Any:
    """Return the fill value, or its JSON if it is undefined or cannot be decoded."""
    try:
        return plain(bound.fill[()])
    except OmnizarrError:
        return thaw(bound.model.fill_value.json)


def _type_name(bound: BoundArray) -> str:
    """Return the name of a data type without its byte order; of structured types all fields."""
    named = bound.model.data_type
    if named.name not in ("struct", "structured"):
        return type_name(named.without("endian"))
    try:
        return str(bound.dtype.newbyteorder("="))
    except OmnizarrError:
        return repr(named)


def _named(named: Named) -> Any:
    return {"name": named.name, "configuration": thaw(named.configuration)}


def thaw(value: Any) -> Any:
    """Return a copy of JSON that can be changed and pickled."""
    if isinstance(value, Mapping):
        return {name: thaw(member) for name, member in value.items()}
    return [thaw(member) for member in value] if isinstance(value, (list, tuple)) else value


def json_differences(a: Any, b: Any, where: str = "") -> Iterator[Found]:
    """Yield the places where two JSON values differ, each as deep as possible."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in dict.fromkeys([*a, *b]):
            place = f"{where}.{name}" if where else str(name)
            yield from json_differences(a.get(name, ABSENT), b.get(name, ABSENT), place)
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from json_differences(x, y, f"{where}[{i}]")
    elif not _equal_json(a, b):
        yield where, a, b


def _equal_json(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
