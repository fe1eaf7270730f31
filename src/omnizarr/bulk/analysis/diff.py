"""Differences between two arrays or hierarchies, also of different formats, chunks and codecs.

Metadata is compared in terms that all formats have. Values are read tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from omnizarr import Array, extension
from omnizarr.bulk import tiles
from omnizarr.bulk.adaptation import FILL, missing_mark
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.options import SHOW, DiffArguments, DiffOptions, takes
from omnizarr.errors import InvalidArgument, OmnizarrError
from omnizarr.extension import ArrayModel, BoundArray, Location, Named, Node, boxes, engine, paths

COPIES = 6  # of a tile in memory: encoded and decoded, twice each, and what compares them
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
        return extension.value_text(value)
    if isinstance(value, np.void) and value.dtype.names is not None:
        return str(tuple(plain(value[name]) for name in value.dtype.names))
    found = value.item() if isinstance(value, np.generic) else value
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    return extension.value_text(found)


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
    attributes = deepcopy(dict(node.attributes))
    storage: dict[str, Any] = {"zarr_format": location.format.name}
    if not isinstance(node, ArrayModel):
        return {"attributes": attributes}, storage
    names = list(node.dimension_names or ())
    if attributes.get(extension.ARRAY_DIMENSIONS) == names:
        del attributes[extension.ARRAY_DIMENSIONS]
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
        return deepcopy(bound.model.fill_value.json)


def _type_name(bound: BoundArray) -> str:
    """Return the name of a data type without its byte order; of structured types all fields."""
    named = bound.model.data_type
    if named.name not in ("struct", "structured"):
        return extension.type_name(named.without("endian"))
    try:
        return str(bound.dtype.newbyteorder("="))
    except OmnizarrError:
        return repr(named)


def _named(named: Named) -> Any:
    return {"name": named.name, "configuration": deepcopy(named.configuration)}


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


@dataclass(frozen=True)
class MetadataDifference:
    """A place in the metadata of a node where two hierarchies differ."""

    path: str
    where: str
    a: Any
    b: Any

    def __str__(self) -> str:
        a, b = (each if each == ABSENT else repr(each) for each in (self.a, self.b))
        return f"{self.path} {self.where}: {a} and {b}"


@dataclass
class DiffReport(Outcome):
    """The result of `diff`; paths are relative to the two nodes that were compared."""

    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    metadata: list[MetadataDifference] = field(default_factory=list)
    storage: list[MetadataDifference] = field(default_factory=list)  # which is no difference
    values: dict[str, ArrayDifference] = field(default_factory=dict)  # of all compared arrays
    not_compared: dict[str, str] = field(default_factory=dict)  # arrays, with the reason
    show: int = SHOW

    @property
    def equal(self) -> bool:
        """True if there is no difference, but perhaps in storage, and all values were compared."""
        found = self.only_a or self.only_b or self.metadata or self.not_compared
        return not found and not self.different and self.complete

    @property
    def complete(self) -> bool:
        """True if all values were compared, not just one part of the job."""
        return all(found.size == found.total for found in self.values.values())

    @property
    def different(self) -> list[str]:
        """The paths of arrays with different values."""
        return [path for path, found in self.values.items() if found.different]

    def merge(self, other: Self) -> None:
        """Add the result of another part."""
        for name in ("only_a", "only_b", "metadata", "storage"):
            getattr(self, name).extend(getattr(other, name))
        self.not_compared.update(other.not_compared)
        for path, theirs in other.values.items():
            self.values.setdefault(path, ArrayDifference()).merge(theirs, self.show)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote."""
        found = cls(**stored)
        found.metadata = [MetadataDifference(**each) for each in stored["metadata"]]
        found.storage = [MetadataDifference(**each) for each in stored["storage"]]
        found.values = {p: ArrayDifference(**each) for p, each in stored["values"].items()}
        return found

    def summary(self) -> dict[str, Any]:
        """Return everything as plain data; arrays without a difference only as their number."""
        found = self.to_json()
        del found["show"]
        found["values"] = {path: asdict(self.values[path]) for path in self.different}
        known = {"equal": self.equal, "complete": self.complete}
        return {**known, "arrays_compared": len(self.values), **found}

    def lines(self, *, storage: bool = False) -> Iterator[str]:
        """Yield the differences as text, a line each."""
        yield from (f"{path}: only in the first" for path in self.only_a)
        yield from (f"{path}: only in the second" for path in self.only_b)
        yield from map(str, self.metadata)
        yield from map(str, self.storage if storage else ())
        yield from (f"{path}: not compared: {why}" for path, why in self.not_compared.items())
        for path in self.different:
            found = self.values[path]
            line = f"{path}: {found.different} of {found.size} values differ"
            if found.max_absolute is not None:
                line += f" by at most {found.max_absolute:.6g} ({found.max_relative:.3g} relative)"
            yield line
            for index, a, b in found.first:
                yield f"  {path}[{', '.join(map(str, index))}]: {a!r} and {b!r}"
            if found.different > len(found.first) > 0:
                yield f"  … and {found.different - len(found.first)} more"

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no differences"


@dataclass(frozen=True)
class CompareTile:
    """The differences in a box of two arrays."""

    pair: Pair
    box: tiles.Box
    tolerance: Tolerance
    show: int

    def __call__(self) -> DiffReport:
        x, y = (
            np.asarray(engine.read(array, extension.axis_plan(array.grid, self.box)), array.dtype)
            for array in (self.pair.a, self.pair.b)
        )
        origin = tuple(side.start for side in self.box)
        found = compare(x, y, origin, self.tolerance, self.show)
        return DiffReport(values={self.pair.path: found}, show=self.show)


@dataclass(frozen=True)
class Pair:
    """Two arrays of one shape, the tiles to compare, and what is known of them."""

    path: str
    a: BoundArray
    b: BoundArray
    tiling: boxes.Boxes
    skips_missing: bool  # chunks that both lack need not be compared

    @classmethod
    def of(cls, path: str, a: BoundArray, b: BoundArray, nbytes: int) -> Pair:
        """Return the plan to compare two arrays."""

        def sizes(array: BoundArray) -> tuple[int, int]:
            return tiles.item_bytes(array.dtype), tiles.largest_chunk(tiles.stored_axes(array))

        larger = max((a, b), key=sizes)
        cut = tiles.tiling(larger, nbytes)
        packed = a.model.storage_transformers or b.model.storage_transformers
        same_grid = a.model.chunk_grid == b.model.chunk_grid and not packed
        same_bytes = not a.data_type.variable and a.fill.tobytes() == b.fill.tobytes()
        same_fill = a.dtype == b.dtype and (same_bytes or not unequal(a.fill, b.fill).any())
        return cls(path, a, b, cut, same_grid and same_fill and cut.axes == larger.grid.axes)

    @property
    def size(self) -> int:
        """The number of elements of each array."""
        return math.prod(self.a.model.shape)


@dataclass
class Diff(DiffOptions, Job[DiffReport]):
    """The job of `diff`, which explains the options.

    Examples:
        >>> oz.run(oz.jobs.Diff(oz.create_array(shape=3), oz.create_array(shape=3))).equal
        True
    """

    def plan(self, tasks_at_once: int = 1) -> Plan[DiffReport]:
        """Compare the metadata; values are compared when the job runs."""
        if self.rtol < 0 or self.atol < 0:
            raise InvalidArgument("rtol and atol must be at least 0")
        tolerance = Tolerance(self.rtol, self.atol, self.equal_nan)
        options = extension.options_for_two(
            self.a, self.b, self.storage_options, self.other_options
        )
        other = self.path if self.other_path is None else self.other_path
        a, first = _nodes(self.a, self.path, options[0])
        b, second = _nodes(self.b, other, options[1])
        report = DiffReport(show=self.show)
        nbytes = min(tiles.TILE_BYTES, memory_of(self.memory, tasks_at_once) // COPIES)
        pairs: list[Pair] = []
        for path in dict.fromkeys([*first, *second]):
            if path not in second:
                report.only_a.append(path)
            elif path not in first:
                report.only_b.append(path)
            else:
                pair = self._pair(path, first[path], second[path], report, nbytes)
                pairs += [] if pair is None else [pair]
        models = [(p.path, p.a.model, p.b.model) for p in pairs]
        grids = [(path, one.shape, one.chunk_grid, two.chunk_grid) for path, one, two in models]
        settings = repr((tolerance, nbytes, self.show, a.path, b.path, grids))
        return Plan(
            f"differences between {a} and {b}",
            extension.key_digest(
                "diff", extension.unique_key(a.store), extension.unique_key(b.store), settings
            ),
            [
                Phase(
                    "compare",
                    lambda: _tasks(pairs, tolerance, self.show),
                    size=sum(p.size * tiles.item_bytes(p.a.dtype) for p in pairs),
                )
            ],
            report,
            decisions=[f"{p.path}: in {p.tiling.count} tiles" for p in pairs],
            memory=nbytes * COPIES * tasks_at_once,
        )

    def _pair(
        self,
        path: str,
        a: tuple[Location, Any],
        b: tuple[Location, Any],
        report: DiffReport,
        nbytes: int,
    ) -> Pair | None:
        """Compare the metadata of two nodes; return what is to be compared of their values."""
        for _, node in (a, b):
            if isinstance(node, Exception):
                report.not_compared[path] = str(node)
                return None
        metadata, storage = metadata_differences(a, b)
        report.metadata += [MetadataDifference(path, *each) for each in metadata]
        report.storage += [MetadataDifference(path, *each) for each in storage]
        if not (isinstance(a[1], ArrayModel) and isinstance(b[1], ArrayModel) and self.values):
            return None
        if a[1].shape != b[1].shape:
            return None
        try:
            handles = (Array.at(where, node) for where, node in (a, b))
            one, two = map(extension.bound_array, handles)
            if not are_comparable(one.dtype, two.dtype):
                return None
            pair = Pair.of(path, one, two, nbytes)
        except OmnizarrError as e:
            report.not_compared[path] = str(e)
            return None
        report.values[path] = ArrayDifference(total=pair.size)
        return pair


def _nodes(
    source: Any, path: str | None, options: Mapping[str, Any] | None
) -> tuple[Location, dict[str, tuple[Location, Any]]]:
    """Return the location of a node, and all nodes at and below it by relative path."""
    store, inside = extension.resolve_store_path(source, path, "r", options)
    start, node = extension.find_node(store, inside, use_consolidated=None)
    skip = len(paths.prefix(start.path))
    found = {
        paths.show(place.path[skip:]): (place, each)
        for place, each in extension.walk_nodes(start, node)
    }
    return start, found


def _tasks(pairs: list[Pair], tolerance: Tolerance, show: int) -> Iterator[Task[DiffReport]]:
    for pair in pairs:
        left = pair.size
        stored = tiles.stored_numbers(pair.a, pair.b) if pair.skips_missing else None
        for box in tiles.tiles(pair.tiling, stored):
            size = boxes.box_size(box)
            left -= size
            work = CompareTile(pair, box, tolerance, show)
            nbytes = size * tiles.item_bytes(pair.a.dtype)
            yield Task(task_id(pair.path, tiles.corners(box)), work, nbytes, pair.path)
        if left:  # tiles without a chunk in both arrays
            equal = DiffReport(values={pair.path: ArrayDifference(size=left)}, show=show)
            yield Task(task_id(pair.path, "missing"), partial(deepcopy, equal), 0, pair.path)


@takes(DiffArguments)
def diff(given: DiffArguments) -> DiffReport:
    """Return the differences between two arrays or hierarchies of any formats.

    Nodes, shapes, data types, fill values, dimension names, attributes and values are compared.
    Other formats, chunks and codecs are not differences, but are listed in `storage`.

    Raises:
        NodeNotFound: If there is no such node.

    Examples:
        >>> oz.save("a.zarr", np.arange(6), zarr_format=2)
        >>> oz.save("b.zarr", np.arange(6), zarr_format=3)
        >>> oz.diff("a.zarr", "b.zarr").equal
        True
    """
    return launch(Diff, given)
