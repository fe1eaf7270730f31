"""Statistics of arrays: extremes, mean, standard deviation, histogram, counts of special values.

Arrays are read tile by tile; the results of tiles are merged (the variance as Chan, Golub and
LeVeque do it). Missing chunks are counted, and their fill values are part of the statistics,
without a request for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from omnizarr import Array, extension
from omnizarr.bulk import tiles
from omnizarr.bulk.analysis.diff import is_extension, plain
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.options import StatsArguments, StatsOptions, takes
from omnizarr.errors import InvalidArgument, OmnizarrError
from omnizarr.extension import BoundArray, Boxes, Cuts, axis_plan, boxes, engine, find_node, paths

COPIES = 3  # of a tile in memory: encoded, decoded, and a part of it as other types
SLICE = 2**15  # elements at a time, which the processor's cache holds


@dataclass(frozen=True)
class Counting:
    """The values that `stats` counts, and the bins of a histogram."""

    bins: int | None = None
    range: tuple[float, float] | None = None
    skip_fill: bool = False

    def __post_init__(self) -> None:
        if self.bins is not None and (not isinstance(self.bins, int) or self.bins < 2):
            raise InvalidArgument(f"bins must be an integer of at least 2, got {self.bins!r}")
        if (self.range is None) != (self.bins is None):
            raise InvalidArgument(
                "a histogram needs bins and range; stats without them returns the least and"
                " greatest value"
            )
        ends = self.range or (0, 1)
        if len(ends) != 2 or not all(map(math.isfinite, ends)) or ends[0] >= ends[1]:
            raise InvalidArgument(f"range must be two numbers, the lower first, got {ends!r}")


@dataclass
class ArrayStats:
    """The statistics of one array; of other types than numbers and times, only counts."""

    path: str
    data_type: str
    shape: tuple[int, ...] = ()
    kind: Literal["numbers", "none"] = "numbers"
    time: str = ""  # the NumPy type of dates and durations
    size: int = 0  # elements
    chunks: int = 0
    missing_chunks: int = 0
    nan: int = 0  # NaN or NaT
    fill: int = 0  # equal to the fill value, missing chunks included
    infinite: int = 0
    finite: int = 0
    average: float = 0.0  # of finite numbers
    squares: float = 0.0  # the sum of squared differences from the average
    low: float | None = None
    high: float | None = None
    range: tuple[float, float] | None = None  # of the histogram
    counts: list[int] = field(default_factory=list)  # in its bins
    below: int = 0  # the range
    above: int = 0

    @classmethod
    def of(cls, array: BoundArray, options: Counting) -> ArrayStats:
        """Return the statistics of no element of an array."""
        dtype = array.dtype
        counted = dtype.kind in "biufmM" or is_extension(dtype)
        return cls(
            paths.show(array.path),
            extension.type_name(array.model.data_type),
            array.model.shape,
            "numbers" if counted else "none",
            dtype.newbyteorder("=").str[1:] if dtype.kind in "mM" else "",
            range=options.range if counted else None,
            counts=[0] * (options.bins or 0) if counted else [],
        )

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ArrayStats:
        """Return the statistics that `dataclasses.asdict` made plain data of."""
        ends = stored["range"]
        tuples = {"shape": tuple(stored["shape"]), "range": None if ends is None else tuple(ends)}
        return cls(**{**stored, **tuples, "counts": list(stored["counts"])})

    # Results

    @property
    def count(self) -> int:
        """The number of values in the mean and standard deviation."""
        return self.finite + self.infinite

    @property
    def min(self) -> Any:
        """The smallest value, or None."""
        return self._value(self.low)

    @property
    def max(self) -> Any:
        """The largest value, or None."""
        return self._value(self.high)

    @property
    def mean(self) -> Any:
        """The mean, or None."""
        if self.infinite and self.low is not None and self.high is not None:
            return float(self.low + self.high)  # infinite, or NaN if both are
        if not self.finite:
            return None
        return self._value(round(self.average)) if self.time else self.average

    @property
    def std(self) -> Any:
        """The standard deviation, divided by the count as in NumPy, or None."""
        if self.infinite:
            return math.nan
        if not self.finite:
            return None
        found = math.sqrt(self.squares / self.finite)
        return np.int64(round(found)).view(self.time.replace("M8", "m8")) if self.time else found

    @property
    def histogram(self) -> tuple[list[int], list[Any]] | None:
        """The bin counts, and the bin edges (one more than bins); None without a range."""
        if self.range is None:
            return None
        edges = np.linspace(*self.range, len(self.counts) + 1).tolist()
        return self.counts, [self._value(round(e)) if self.time else e for e in edges]

    def _value(self, number: float | None) -> Any:
        if number is not None and self.time:
            return np.int64(number).view(self.time)
        return bool(number) if number is not None and self.data_type == "bool" else number

    def summary(self) -> dict[str, Any]:
        """Return the results as plain data, times as text."""
        names = (
            *("path", "data_type", "kind", "size", "count", "nan", "infinite", "fill", "shape"),
            *("min", "max", "mean", "std", "chunks", "missing_chunks"),
        )
        found = {name: plain(getattr(self, name)) for name in names}
        found["shape"] = list(self.shape)
        if self.histogram is not None:
            counts, edges = self.histogram
            found["histogram"] = {
                "counts": counts,
                "edges": [*map(plain, edges)],
                "below": self.below,
                "above": self.above,
            }
        return found

    # Adding

    def merge(self, other: ArrayStats) -> None:
        """Add the statistics of another part of the array."""
        total = self.finite + other.finite
        if other.finite:
            distance, share = other.average - self.average, other.finite / total
            self.squares += other.squares + distance * distance * share * self.finite
            self.average += distance * share
        for name in (*_NUMBERS, "chunks", "missing_chunks"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.low = min((v for v in (self.low, other.low) if v is not None), default=None)
        self.high = max((v for v in (self.high, other.high) if v is not None), default=None)
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]

    def add(self, values: npt.NDArray[Any], fill: npt.NDArray[Any], options: Counting) -> None:
        """Add elements of the array, whose fill value is a 0-dimensional array."""
        flat = values.reshape(-1)
        with np.errstate(all="ignore"):  # signalling NaNs, and what overflows is infinite
            for start in range(0, flat.size, SLICE):
                part = flat[start : start + SLICE]
                self.size += part.size
                equal = _equal(part, fill)
                self.fill += int(np.count_nonzero(equal))
                if self.kind == "numbers":
                    self._add_numbers(part[~equal] if options.skip_fill else part)

    def add_fill(self, count: int, array: BoundArray, options: Counting) -> None:
        """Add `count` elements with the fill value."""
        part = ArrayStats.of(array, options)
        part.add(array.fill.reshape(1), array.fill, options)
        for name in _NUMBERS:
            setattr(part, name, getattr(part, name) * count)
        part.counts = [number * count for number in part.counts]
        if count:
            self.merge(part)

    def _add_numbers(self, part: npt.NDArray[Any]) -> None:
        """Add numbers; NaN and infinite ones are only counted."""
        numbers = _native(part)
        if numbers.dtype.kind == "f":
            numbers = numbers[~np.isnan(numbers)]
        self.nan += part.size - numbers.size
        if not numbers.size:
            return
        found = ArrayStats(self.path, self.data_type, counts=[0] * len(self.counts))
        low, high = numbers.min(), numbers.max()
        found.low, found.high = low.item(), high.item()
        if numbers.dtype.kind == "f" and not np.isfinite(low - high):
            finite = numbers[np.isfinite(numbers)]
            found.infinite, numbers = numbers.size - finite.size, finite
        if numbers.size:
            found.finite = numbers.size
            found.average, found.squares = _moments(numbers, low)
        if self.range is not None:
            start, stop = self.range
            found.counts = np.histogram(numbers, len(self.counts), self.range)[0].tolist()
            found.below = int((numbers < start).sum())
            found.above = int((numbers > stop).sum())
        self.merge(found)


_NUMBERS = ("size", "nan", "fill", "infinite", "finite", "below", "above")


def _moments(values: npt.NDArray[Any], low: Any) -> tuple[float, float]:
    """Return the mean of finite numbers and the sum of squared differences from it.

    64-bit integers, which floats cannot hold, are taken relative to the lowest one.
    """
    start = 0
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        start = int(low)
        values = values.view(np.uint64) - np.asarray(low).view(np.uint64)
    near = values.astype(np.float64)
    mean = float(near.sum()) / near.size
    near -= mean
    return start + mean, float(np.einsum("i,i->", near, near))


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers or floats of a native type, without NaT."""
    dtype = values.dtype
    if is_extension(dtype):
        return values.astype(np.int8 if "int" in dtype.name else np.float32)
    if dtype.kind == "b":
        return values.view(np.uint8)
    if dtype.kind in "mM":
        times: npt.NDArray[Any] = values[~np.isnat(values)]
        return times.astype(dtype.newbyteorder("=")).view(np.int64)
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return values.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _equal(values: npt.NDArray[Any], fill: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the values that equal the fill value; NaN equals NaN here."""
    if values.dtype.hasobject:
        value = fill[()]
        return np.array([v is value or bool(np.all(v == value)) for v in values.tolist()], bool)
    if fill.dtype.names is None and np.asarray(fill != fill).any():
        return np.asarray(values != values)
    return np.broadcast_to(np.asarray(values == fill), values.shape)


@dataclass
class StatsReport(Outcome):
    """The result of `stats`: the statistics of each array by path, and arrays without any."""

    arrays: dict[str, ArrayStats] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # of nodes that cannot be read

    def __getitem__(self, path: str) -> ArrayStats:
        return self.arrays[paths.show(paths.normalize(path))]

    def merge(self, other: Self) -> None:
        """Add the result of another part."""
        self.errors.update(other.errors)
        for path, theirs in other.arrays.items():
            if path in self.arrays:
                self.arrays[path].merge(theirs)
            else:
                self.arrays[path] = ArrayStats.from_json(asdict(theirs))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote."""
        arrays = {path: ArrayStats.from_json(each) for path, each in stored["arrays"].items()}
        return cls(arrays, dict(stored["errors"]))

    @property
    def complete(self) -> bool:
        """True if all elements were counted, not just one part of the job."""
        return all(s.size == math.prod(s.shape) for s in self.arrays.values())

    def summary(self) -> dict[str, Any]:
        """Return the results as plain data."""
        arrays = [s.summary() for s in self.arrays.values()]
        return {"complete": self.complete, "arrays": arrays, "errors": self.errors}

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("path", "type", "count", "min", "max", "mean", "std", "nan", "missing chunks")
        ]
        for s in self.arrays.values():
            missing = f"{s.missing_chunks} of {s.chunks}"
            figures = (extension.info.number_text(v) for v in (s.min, s.max, s.mean, s.std))
            rows.append((s.path, s.data_type, str(s.count), *figures, str(s.nan), missing))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@dataclass(frozen=True)
class ReadTile:
    """The statistics of one tile, or of all elements of missing chunks."""

    array: BoundArray
    box: tiles.Box | None
    options: Counting
    size: int
    chunks: int  # inner chunks if sharded

    def __call__(self) -> StatsReport:
        array, found = self.array, ArrayStats.of(self.array, self.options)
        found.chunks = found.missing_chunks = self.chunks
        if self.box is None:
            found.add_fill(self.size, array, self.options)
        else:
            missing: list[Any] = []
            values = engine.read(array, axis_plan(array.grid, self.box), None, "fill", missing)
            found.add(np.asarray(values, array.dtype), array.fill, self.options)
            found.missing_chunks = len(missing)
        return StatsReport({found.path: found})


def chunks_in(array: BoundArray, box: tiles.Box) -> int:
    """Return the number of chunks in a box of whole chunks; inner chunks if sharded."""
    pairs = zip(tiles.chunk_axes(array), box, strict=True)
    return math.prod(Cuts(axis, 1, side.start, side.stop).chunks for axis, side in pairs)


@dataclass
class Stats(StatsOptions, Job[StatsReport]):
    """The job of `stats`, which explains the options.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(3))
        >>> oz.run(oz.jobs.Stats("ocean.zarr"))["/"].mean
        1.0
    """

    def plan(self, tasks_at_once: int = 1) -> Plan[StatsReport]:
        """Find the arrays and their tiles; no chunk is read."""
        options = Counting(self.bins, self.range, self.skip_fill)
        store, path = extension.resolve_store_path(
            self.source, self.path, "r", self.storage_options
        )
        start, node = find_node(store, path, use_consolidated=None)
        nbytes = min(tiles.TILE_BYTES, memory_of(self.memory, tasks_at_once) // COPIES)
        outcome = StatsReport()
        work: list[tuple[BoundArray, Boxes]] = []
        for location, model in extension.walk_nodes(start, node):
            if isinstance(model, Exception):
                outcome.errors[paths.show(location.path)] = str(model)
            elif isinstance(model, extension.ArrayModel):
                try:
                    array = extension.bound_array(Array.at(location, model))
                    work.append((array, tiles.tiling(array, nbytes)))
                    found = ArrayStats.of(array, options)
                except OmnizarrError as e:
                    outcome.errors[paths.show(location.path)] = str(e)
                    continue
                outcome.arrays[found.path] = found
        sizes = [cut.largest * tiles.item_bytes(array.dtype) for array, cut in work]
        names = [paths.show(array.path) for array, _ in work]
        models = tuple(repr(array.model.with_(attributes={})) for array, _ in work)
        total = sum(math.prod(a.model.shape) * tiles.item_bytes(a.dtype) for a, _ in work)
        count = sum(cut.count + 1 for _, cut in work)
        lines = [
            f"{name}: {cut.count} tiles of {size} bytes"
            for name, (_, cut), size in zip(names, work, sizes, strict=True)
        ]
        return Plan(
            f"statistics of {paths.show(path)} in {store!r}",
            extension.key_digest(
                "stats", extension.unique_key(store), repr(options), nbytes, names, models
            ),
            [Phase("read", lambda: _tasks(work, options), count, total)],
            outcome,
            decisions=lines,
            memory=max(sizes, default=0) * COPIES * tasks_at_once,
        )


def _tasks(work: list[tuple[BoundArray, Boxes]], options: Counting) -> Iterator[Task[StatsReport]]:
    for array, cut in work:
        item = tiles.item_bytes(array.dtype)
        size, chunks = math.prod(array.model.shape), math.prod(extension.chunk_counts(array))
        listed = tiles.stored_numbers(array) if cut.axes == array.grid.axes else None
        for box in tiles.tiles(cut, listed):
            inside, count = chunks_in(array, box), boxes.box_size(box)
            size, chunks = size - count, chunks - inside
            task = ReadTile(array, box, options, count, inside)
            id = task_id(array.path, tiles.corners(box))
            yield Task(id, task, count * item, paths.show(array.path))
        if chunks:
            # The id is the array's, so that a resumed job counts them once.
            rest = ReadTile(array, None, options, size, chunks)
            yield Task(task_id(array.path, "missing"), rest, size * item, paths.show(array.path))


@takes(StatsArguments)
def stats(given: StatsArguments) -> StatsReport:
    """Return the minimum, maximum, mean, standard deviation and counts of each array.

    The values are what NumPy finds in the whole array as float64; NaN are left out and counted.
    Missing chunks count as the fill value.

    Raises:
        NodeNotFound: If there is no such node.
        InvalidArgument: If `bins` or a range is not valid.

    Examples:
        >>> oz.save("ocean.zarr", temperature=np.array([4.0, 7.0, np.nan]))
        >>> found = oz.stats("ocean.zarr")["/temperature"]
        >>> found.max, found.mean
        (7.0, 5.5)
    """
    return launch(Stats, given)
