"""Statistics of arrays: extremes, mean, standard deviation, histogram, counts of special values.

Arrays are read tile by tile; the results of tiles are merged. Missing chunks are counted, and their
fill values are part of the statistics, without a request for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from omnizarr import Array
from omnizarr.bulk.analysis.array_stats import ArrayStats, Options, restored
from omnizarr.bulk.analysis.tiles import (
    TILE_BYTES,
    Tile,
    Tiling,
    box_size,
    item_bytes,
    tile,
    tiles,
)
from omnizarr.bulk.job import Job, Outcome, Plan, Stage, Task, launch, memory_of, task_id
from omnizarr.bulk.options import StatsArguments, StatsOptions, takes
from omnizarr.bulk.partition import Box, read_axes
from omnizarr.errors import OmnizarrError
from omnizarr.extension import (
    ArrayModel,
    axis_plan,
    engine,
    find_node,
    key_digest,
    number_text,
    paths,
    resolve_store_path,
    unique_key,
    walk_nodes,
)

COPIES = 3  # of a tile in memory: encoded, decoded, and a part of it as other types


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
            mine = self.arrays.get(path)
            if mine is None:
                mine = self.arrays[path] = restored(asdict(theirs))
            else:
                mine.merge(theirs)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote."""
        return cls({p: restored(s) for p, s in stored["arrays"].items()}, dict(stored["errors"]))

    @property
    def complete(self) -> bool:
        """True if all elements were counted, not only those of a part of the job."""
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
            figures = (number_text(v) for v in (s.min, s.max, s.mean, s.std))
            rows.append((s.path, s.data_type, str(s.count), *figures, str(s.nan), missing))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


@dataclass(frozen=True)
class ReadTile:
    """The statistics of one tile."""

    array: Array
    tile: Tile
    options: Options

    def __call__(self) -> StatsReport:
        found = ArrayStats.of(self.array, self.options)
        fill = self.array._bound.fill
        found.chunks = _chunks_in(self.array, self.tile.box)
        boxes = (self.tile.box,) if self.tile.stored is None else self.tile.stored
        may_lack = self.tile.stored is None or self.array.shards is not None
        stored = 0
        for box in boxes:
            filled: list[Any] | None = [] if may_lack else None
            chosen = axis_plan(self.array._data.grid, box)
            values = engine.read(self.array._data, chosen, None, "fill", filled)
            found.add(np.asarray(values, fill.dtype), fill, self.options)
            stored += _chunks_in(self.array, box) - len(filled or ())
        found.missing_chunks = found.chunks - stored
        found.add_fill(self.tile.size - found.size, fill, self.options, self.array)
        return StatsReport({found.path: found})


@dataclass(frozen=True)
class CountMissing:
    """The statistics of tiles without a stored chunk."""

    array: Array
    size: int
    chunks: int
    options: Options

    def __call__(self) -> StatsReport:
        found = ArrayStats.of(self.array, self.options)
        found.chunks = found.missing_chunks = self.chunks
        found.add_fill(self.size, self.array._bound.fill, self.options, self.array)
        return StatsReport({found.path: found})


def _chunks_in(array: Array, box: Box) -> int:
    """Return the number of chunks in a box of whole chunks; inside shards, those."""
    if box_size(box) == 0:
        return 0
    pairs = zip(read_axes(array), box, strict=True)
    return math.prod(a.chunk_of(s.stop - 1) - a.chunk_of(s.start) + 1 for a, s in pairs)


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
        options = Options(self.bins, self.range, self.skip_fill, self.valid_range)
        store, path = resolve_store_path(self.source, self.path, "r", self.storage_options)
        start, node = find_node(store, path, use_consolidated=None)
        nbytes = min(TILE_BYTES, memory_of(self.memory, tasks_at_once) // COPIES)
        outcome = StatsReport()
        work: list[tuple[Array, Tiling]] = []
        for location, model in walk_nodes(start, node):
            if isinstance(model, Exception):
                outcome.errors[paths.show(location.path)] = str(model)
            elif isinstance(model, ArrayModel):
                try:
                    array = Array.at(location.without_listing(), model)
                    tiling = tile(array, nbytes)
                    array._check_codecs()
                except OmnizarrError as e:
                    outcome.errors[paths.show(location.path)] = str(e)
                    continue
                work.append((array, tiling))
                outcome.arrays[array.name] = ArrayStats.of(array, options)
        memory = max((_tile_bytes(a, t) for a, t in work), default=0) * COPIES * tasks_at_once
        models = tuple((a.path, a.shape, str(a.dtype), a.chunks, a.shards) for a, _ in work)
        return Plan(
            f"statistics of {paths.show(path)} in {store!r}",
            key_digest("stats", unique_key(store), repr(options), nbytes, models),
            [
                Stage(
                    "read",
                    lambda: _tasks(work, options),
                    sum(t.count + 1 for _, t in work),
                    size=sum(a.nbytes for a, _ in work),
                    bytes_read=None,
                )
            ],
            outcome,
            decisions=[f"{a.name}: {t.count} tiles of {_tile_bytes(a, t)} bytes" for a, t in work],
            memory=memory,
        )


def _tile_bytes(array: Array, tiling: Tiling) -> int:
    if tiling.count == 0:
        return 0
    return box_size(tiling.box((0,) * len(tiling.axes))) * item_bytes(array.dtype)


def _tasks(work: list[tuple[Array, Tiling]], options: Options) -> Iterator[Task[StatsReport]]:
    for array, tiling in work:
        size, chunks = array.size, array.nchunks
        for each in tiles(array, tiling):
            size -= each.size
            chunks -= _chunks_in(array, each.box)
            corner = tuple((s.start, s.stop) for s in each.box)
            yield Task(
                task_id(array.path, corner),
                ReadTile(array, each, options),
                each.size * item_bytes(array.dtype),
                array.name,
            )
        if chunks:
            # The id is that of the array: an interrupted job counts them once.
            missing = CountMissing(array, size, chunks, options)
            yield Task(
                task_id(array.path, "missing"), missing, size * item_bytes(array.dtype), array.name
            )


@takes(StatsArguments)
def stats(given: StatsArguments) -> StatsReport:
    """Return the minimum, maximum, mean, standard deviation and counts of each array.

    Values are as NumPy has them for the whole array in float64, with NaN left out and counted.
    Missing chunks count with the fill value. Of strings, the lengths are counted.

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
