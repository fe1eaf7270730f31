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
from omnizarr.bulk.analysis.array_stats import ArrayStats, Counting, restored
from omnizarr.bulk.boxes import (
    TILE_BYTES,
    Box,
    Tile,
    chunk_axes,
    corners,
    item_bytes,
    stored_numbers,
    tiles,
    tiling,
)
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.options import StatsArguments, StatsOptions, takes
from omnizarr.errors import OmnizarrError
from omnizarr.extension import (
    ArrayModel,
    BoundArray,
    Boxes,
    Cuts,
    axis_plan,
    bound_array,
    chunk_counts,
    engine,
    find_node,
    inner_chunk_shape,
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
    """The statistics of one tile, or of all elements of missing chunks."""

    array: BoundArray
    tile: Tile | None
    options: Counting
    size: int
    chunks: int  # inside shards, those

    def __call__(self) -> StatsReport:
        array, tile = self.array, self.tile
        found = ArrayStats.of(array, self.options)
        found.chunks = found.missing_chunks = self.chunks
        lacks = tile is None or not tile.known or inner_chunk_shape(array.model) is not None
        for box in () if tile is None else tile.stored:
            filled: list[Any] | None = [] if lacks else None
            values = engine.read(array, axis_plan(array.grid, box), None, "fill", filled)
            found.add(np.asarray(values, array.dtype), array.fill, self.options)
            found.missing_chunks -= chunks_in(array, box) - len(filled or ())
        found.add_fill(self.size - found.size, array, self.options)
        return StatsReport({found.path: found})


def chunks_in(array: BoundArray, box: Box) -> int:
    """Return the number of chunks in a box of whole chunks; inside shards, those."""
    pairs = zip(chunk_axes(array), box, strict=True)
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
        options = Counting(self.bins, self.range, self.skip_fill, self.valid_range)
        store, path = resolve_store_path(self.source, self.path, "r", self.storage_options)
        start, node = find_node(store, path, use_consolidated=None)
        nbytes = min(TILE_BYTES, memory_of(self.memory, tasks_at_once) // COPIES)
        outcome = StatsReport()
        work: list[tuple[BoundArray, Boxes]] = []
        for location, model in walk_nodes(start, node):
            if isinstance(model, Exception):
                outcome.errors[paths.show(location.path)] = str(model)
            elif isinstance(model, ArrayModel):
                try:
                    array = bound_array(Array.at(location.without_listing(), model))
                    work.append((array, tiling(array, nbytes)))
                    found = ArrayStats.of(array, options)
                except OmnizarrError as e:
                    outcome.errors[paths.show(location.path)] = str(e)
                    continue
                outcome.arrays[found.path] = found
        sizes = [cut.largest * item_bytes(array.dtype) for array, cut in work]
        names = [paths.show(array.path) for array, _ in work]
        models = tuple(repr(array.model.with_(attributes={})) for array, _ in work)
        total = sum(math.prod(a.model.shape) * item_bytes(a.dtype) for a, _ in work)
        count = sum(cut.count + 1 for _, cut in work)
        lines = [
            f"{name}: {cut.count} tiles of {size} bytes"
            for name, (_, cut), size in zip(names, work, sizes, strict=True)
        ]
        return Plan(
            f"statistics of {paths.show(path)} in {store!r}",
            key_digest("stats", unique_key(store), repr(options), nbytes, names, models),
            [Phase("read", lambda: _tasks(work, options), count, total)],
            outcome,
            decisions=lines,
            memory=max(sizes, default=0) * COPIES * tasks_at_once,
        )


def _tasks(work: list[tuple[BoundArray, Boxes]], options: Counting) -> Iterator[Task[StatsReport]]:
    for array, cut in work:
        item = item_bytes(array.dtype)
        size, chunks = math.prod(array.model.shape), math.prod(chunk_counts(array))
        listed = stored_numbers(array) if cut.axes == array.grid.axes else None
        for each in tiles(cut, listed):
            inside = chunks_in(array, each.box)
            size, chunks = size - each.size, chunks - inside
            task = ReadTile(array, each, options, each.size, inside)
            id = task_id(array.path, corners(each.box))
            yield Task(id, task, each.size * item, paths.show(array.path))
        if chunks:
            # The id is that of the array: an interrupted job counts them once.
            rest = ReadTile(array, None, options, size, chunks)
            yield Task(task_id(array.path, "missing"), rest, size * item, paths.show(array.path))


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
