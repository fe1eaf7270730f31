"""Differences between two arrays or hierarchies, also of different formats, chunks and codecs.

Metadata is compared in terms that all formats have. Values are read tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from omnizarr import Array
from omnizarr.bulk.analysis.difference import (
    ABSENT,
    ArrayDifference,
    Tolerance,
    are_comparable,
    compare,
    metadata_differences,
)
from omnizarr.bulk.boxes import (
    TILE_BYTES,
    Tile,
    corners,
    item_bytes,
    stored_axes,
    stored_numbers,
    tiles,
    tiling,
)
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.options import SHOW, DiffArguments, DiffOptions, takes
from omnizarr.errors import InvalidArgument, OmnizarrError
from omnizarr.extension import (
    ArrayModel,
    BoundArray,
    Boxes,
    Location,
    Node,
    axis_plan,
    bound_array,
    engine,
    find_node,
    key_digest,
    options_for_two,
    paths,
    resolve_store_path,
    unique_key,
    walk_nodes,
)

COPIES = 6  # of a tile in memory: encoded and decoded, twice each, and what compares them
Nodes = dict[str, tuple[Location, Node]]


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
    """The differences in one tile of two arrays; none where chunks are missing in both."""

    path: str
    a: BoundArray
    b: BoundArray
    tile: Tile | None
    size: int
    tolerance: Tolerance
    show: int

    def __call__(self) -> DiffReport:
        found = ArrayDifference()
        for box in () if self.tile is None else self.tile.stored:
            x, y = (
                np.asarray(engine.read(array, axis_plan(array.grid, box)), array.dtype)
                for array in (self.a, self.b)
            )
            origin = tuple(side.start for side in box)
            found.merge(compare(x, y, origin, self.tolerance, self.show), self.show)
        found.size = self.size
        return DiffReport(values={self.path: found}, show=self.show)


@dataclass(frozen=True)
class Pair:
    """Two arrays of one shape, the tiles to compare, and what is known of them."""

    path: str
    a: BoundArray
    b: BoundArray
    tiling: Boxes
    skips_missing: bool  # chunks that both lack need not be compared

    @classmethod
    def of(cls, path: str, a: BoundArray, b: BoundArray, nbytes: int) -> Pair:
        """Return the plan to compare two arrays."""

        def sizes(array: BoundArray) -> tuple[int, int]:
            chunk = math.prod(int(axis.size(0)) for axis in stored_axes(array) if axis.count)
            return item_bytes(array.dtype), chunk

        larger = max((a, b), key=sizes)
        tiles = tiling(larger, nbytes)
        packed = a.model.storage_transformers or b.model.storage_transformers
        same_grid = a.model.chunk_grid == b.model.chunk_grid and not packed
        skips = same_grid and tiles.axes == larger.grid.axes and _same_fill(a, b)
        return cls(path, a, b, tiles, skips)

    @property
    def size(self) -> int:
        """The number of elements of each array."""
        return math.prod(self.a.model.shape)

    def tiles(self) -> Iterator[Tile]:
        """Yield the tiles in which one of the arrays may have stored chunks."""
        return tiles(self.tiling, stored_numbers(self.a, self.b) if self.skips_missing else None)


def _same_fill(a: BoundArray, b: BoundArray) -> bool:
    if a.dtype != b.dtype:
        return False
    if a.dtype.hasobject or a.dtype.kind == "T":
        return bool(a.fill[()] == b.fill[()])
    return a.fill.tobytes() == b.fill.tobytes()


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
        options = options_for_two(self.a, self.b, self.storage_options, self.other_options)
        other = self.path if self.other_path is None else self.other_path
        a, first = _nodes(self.a, self.path, options[0])
        b, second = _nodes(self.b, other, options[1])
        report = DiffReport(show=self.show)
        nbytes = min(TILE_BYTES, memory_of(self.memory, tasks_at_once) // COPIES)
        pairs: list[Pair] = []
        for path in dict.fromkeys([*first, *second]):
            if path not in second:
                report.only_a.append(path)
            elif path not in first:
                report.only_b.append(path)
            else:
                pair = self._pair(path, first[path], second[path], report, nbytes)
                pairs += [] if pair is None else [pair]
        grids = [(p.a.model.chunk_grid, p.b.model.chunk_grid) for p in pairs]
        shapes = [(p.path, p.a.model.shape) for p in pairs]
        settings = repr((tolerance, nbytes, self.show, a.path, b.path))
        return Plan(
            f"differences between {a} and {b}",
            key_digest(
                "diff", unique_key(a.store), unique_key(b.store), settings, shapes, repr(grids)
            ),
            [
                Phase(
                    "compare",
                    lambda: _tasks(pairs, tolerance, self.show),
                    size=sum(p.size * item_bytes(p.a.dtype) for p in pairs),
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
            one, two = map(bound_array, handles)
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
    store, inside = resolve_store_path(source, path, "r", options)
    start, node = find_node(store, inside, use_consolidated=None)
    skip = len(paths.prefix(start.path))
    found = {
        paths.show(place.path[skip:]): (place, each) for place, each in walk_nodes(start, node)
    }
    return start, found


def _tasks(pairs: list[Pair], tolerance: Tolerance, show: int) -> Iterator[Task[DiffReport]]:
    for pair in pairs:
        left = pair.size
        for each in pair.tiles():
            left -= each.size
            work = CompareTile(pair.path, pair.a, pair.b, each, each.size, tolerance, show)
            nbytes = each.size * item_bytes(pair.a.dtype)
            yield Task(task_id(pair.path, corners(each.box)), work, nbytes, pair.path)
        if left:
            missing = CompareTile(pair.path, pair.a, pair.b, None, left, tolerance, show)
            yield Task(task_id(pair.path, "missing"), missing, 0, pair.path)


@takes(DiffArguments)
def diff(given: DiffArguments) -> DiffReport:
    """Return the differences between two arrays or hierarchies of any formats.

    Nodes, shape, data type, fill value, dimension names and attributes are compared, and values.
    Format, chunks and codecs are listed apart in `storage` and are no difference.

    Raises:
        NodeNotFound: If there is no such node.

    Examples:
        >>> oz.save("a.zarr", np.arange(6), zarr_format=2)
        >>> oz.save("b.zarr", np.arange(6), zarr_format=3)
        >>> oz.diff("a.zarr", "b.zarr").equal
        True
    """
    return launch(Diff, given)
