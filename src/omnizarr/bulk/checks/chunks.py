"""Check stored chunks and shards: their sizes, their checksums, or by decoding them.

Chunks are decoded by the compiled kernel, many with one call and into memory that is used again.
What the kernel does not do, damaged chunks among them, is checked again one by one to find out what
is wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, lt
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from omnizarr.bulk.checks.findings import Coords, Finding, Kind, Level, VerifyReport
from omnizarr.bulk.options import Depth
from omnizarr.errors import ChunkError, OmnizarrError, StoreError, error_context
from omnizarr.extension import (
    CHECKSUMS,
    PREFIX,
    BoundArray,
    Buffer,
    CodecPipeline,
    HasSizes,
    Index,
    Range,
    RegularAxis,
    Shards,
    axis_plan,
    boxes,
    check_length,
    chunk_counts,
    chunk_range,
    get_many,
    inner_chunk_shape,
    kernel,
    paths,
    present,
)

CHECKSUM_CODECS = frozenset({"crc32c", *(PREFIX + id_ for id_ in CHECKSUMS)})
RUN_BYTES = 2**21  # of chunks that the kernel decodes with one call
SLAB_BYTES = 2**24  # of a shard that the kernel decodes with one call
MISSING_MESSAGE = "is missing and reads as the fill value"
DELETED = "was deleted while it was being checked"
BATCH_BYTES = 2**24  # of chunks that are read together
InnerRange: TypeAlias = tuple[Coords, Range]  # an inner chunk and its bytes in the shard
T = TypeVar("T")


@dataclass(frozen=True)
class CheckChunks:
    """Check some stored values of one array; the work of a task.

    `sizes` are those of the values, if a listing has them. With `probe` the store cannot list its
    keys, so that values may be missing. `missing` is the level at which missing chunks inside the
    values are reported, None if they are only counted.
    """

    array: BoundArray
    keys: tuple[str, ...]
    coords: tuple[Coords, ...]
    depth: Depth
    sizes: tuple[int, ...] | None = None
    missing: Level | None = None
    probe: bool = False

    def __call__(self) -> VerifyReport:
        return _Check(self).run()


@dataclass(frozen=True)
class ReportMissing:
    """Report chunks or shards whose keys are not in the store; the work of a task."""

    array: BoundArray
    coords: tuple[Coords, ...]
    depth: Depth
    level: Level

    def __call__(self) -> VerifyReport:
        report = VerifyReport(self.depth, tasks=1)
        for coords in self.coords:
            for chunk in inner_coords(self.array, coords):
                report.add(missing_chunk(self.array, self.array.key(coords), chunk, self.level))
        return report


def missing_chunk(array: BoundArray, key: str, chunk: Coords, level: Level) -> Finding:
    """Return the finding for a chunk that is not stored under its key."""
    return Finding(paths.show(array.path), key, MISSING_MESSAGE, chunk, level, "missing-chunk")


def inner_coords(array: BoundArray, coords: Coords) -> Iterator[Coords]:
    """Yield the chunks of the array in one stored value: itself, or the inner chunks of a shard."""
    return itertools.product(*_inner_ranges(array, coords))


def inner_count(array: BoundArray, coords: Coords) -> int:
    """Return the number of chunks of the array in one stored value inside the grid."""
    return math.prod(map(len, _inner_ranges(array, coords)))


def _inner_ranges(array: BoundArray, coords: Coords) -> list[range]:
    inner = inner_chunk_shape(array.model)
    if inner is None:
        return [range(c, c + 1) for c in coords]
    shape, origin = array.grid.chunk_shape(coords), array.grid.origin(coords)
    counts = chunk_counts(array)
    return [
        range(o // c, min(o // c + -(-n // c), count))
        for o, n, c, count in zip(origin, shape, inner, counts, strict=True)
    ]


@dataclass
class _Stored:
    """A stored value: a chunk or a shard."""

    key: str
    coords: Coords
    inside: bool  # the chunk grid
    size: int | None = None  # None if it is not known


class _Check:
    """One task: the result so far, and what its chunks share."""

    def __init__(self, task: CheckChunks) -> None:
        self.task, self.array, self.depth = task, task.array, task.depth
        self.path = paths.show(task.array.path)
        self.report = VerifyReport(task.depth, tasks=1)
        self._memory: npt.NDArray[Any] | None = None

    def run(self) -> VerifyReport:
        array, task = self.array, self.task
        sizes = task.sizes or (None,) * len(task.keys)
        stored = [
            _Stored(key, coords, self._inside(coords), size)
            for key, coords, size in zip(task.keys, task.coords, sizes, strict=True)
        ]
        if self.task.probe:
            stored = self._probe(stored)
        self.report.values += len(stored)
        for value in stored:
            if not value.inside:
                message = f"is outside the shape {self.array.model.shape}"
                self._add(value.key, message, value.coords, "warning", "outside-chunk")
        if array.model.storage_transformers:
            for value in stored:
                self._check_packed(value)
        elif not stored:
            pass
        elif self._sharded(stored[0]):
            for value in stored:
                self._check_shard(value)
        else:
            self._check_plain(stored)
        return self.report

    # Findings and counts

    def _add(
        self, key: str, message: object, chunk: Coords | None, level: Level = "error",
        kind: Kind = "damaged-chunk",
    ) -> None:  # fmt: skip
        self.report.add(Finding(self.path, key, str(message), chunk, level, kind))

    def _inside(self, coords: Coords) -> bool:
        return all(map(lt, coords, self._grid_shape))

    @cached_property
    def _grid_shape(self) -> Coords:
        return self.array.grid.shape

    @cached_property
    def _inner(self) -> Coords | None:
        return inner_chunk_shape(self.array.model)

    def _count(self, value: _Stored) -> None:
        """Count a stored chunk; inside the grid, this also makes one fewer missing."""
        self.report.chunks += 1
        if value.inside:
            count = 1 if self._inner is None else inner_count(self.array, value.coords)
            self.report.absent -= count

    def _probe(self, values: list[_Stored]) -> list[_Stored]:
        """Return the values that exist, in a store that cannot list them."""
        there = get_many(self.array.store, [(value.key, Range(0, 1)) for value in values])
        found = []
        for value, data in zip(values, there, strict=True):
            if data is not None:
                found.append(value)
            elif self.task.missing is not None:
                for chunk in inner_coords(self.array, value.coords):
                    finding = missing_chunk(self.array, value.key, chunk, self.task.missing)
                    self.report.add(finding)
        return found

    # Values that a storage transformer packs

    def _check_packed(self, value: _Stored) -> None:
        array = self.array
        try:
            for key in _unpacked(array.chunk_store, value.key):
                coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
                if coords is None:
                    continue
                chunk = _Stored(key, coords, self._inside(coords))
                if self._sharded(chunk):
                    self._check_shard(chunk)
                    continue
                self._count(chunk)
                try:
                    self._check_one(chunk)
                except OmnizarrError as e:
                    self._add(value.key, e, coords)
        except OmnizarrError as e:
            self._add(value.key, e, value.coords)

    # Chunks

    def _check_plain(self, values: list[_Stored]) -> None:
        for value in values:
            self._count(value)
        values = self._with_sizes(values)
        if self.depth == "present":
            return
        if self.depth == "decode":
            values = self._decode_many(values)
        guess = self._chunk_bytes
        for batch in _batches(values, lambda v: guess if v.size is None else v.size):
            for value, data in self._fetch(batch):
                try:
                    self._check_bytes(self.array.pipeline_at(value.coords), data)
                except OmnizarrError as e:
                    self._add(value.key, e, value.coords)

    def _with_sizes(self, values: list[_Stored]) -> list[_Stored]:
        """Look up sizes that are not known, and return the values whose size is not wrong."""
        store: Any = self.array.chunk_store
        unknown = [value.key for value in values if value.size is None]
        if unknown and isinstance(store, HasSizes):
            try:
                found = store.sizes(unknown)
            except OmnizarrError:
                found = {}  # reading them will tell which of them cannot be read
            for value in values:
                value.size = found.get(value.key, value.size)
        good = []
        for value in values:
            try:
                self._check_size(value, self.array.pipeline_at(value.coords))
            except OmnizarrError as e:
                self._add(value.key, e, value.coords)
            else:
                good.append(value)
        return good

    def _check_size(self, value: _Stored, pipeline: CodecPipeline) -> None:
        size, expected = value.size, pipeline.encoded_size
        if size is None and isinstance(self.array.chunk_store, HasSizes):
            value.size = _size(self.array, value.key)
        elif None not in (size, expected) and size != expected:
            raise ChunkError(f"has {size} bytes, expected {expected}")

    def _check_one(self, value: _Stored) -> None:
        pipeline = self.array.pipeline_at(value.coords)
        if self.depth == "present":
            self._check_size(value, pipeline)
            return
        data = self.array.chunk_store.get(value.key)
        if data is None:
            raise StoreError(DELETED)
        self._check_bytes(pipeline, data)

    def _check_bytes(self, pipeline: CodecPipeline, data: Buffer) -> None:
        self.report.bytes_read += len(data)
        if self.depth == "decode":
            with error_context("cannot be checked", into=ChunkError, catch=(MemoryError,)):
                pipeline.decode(data)
            return
        if pipeline.encoded_size is not None and len(data) != pipeline.encoded_size:
            raise ChunkError(f"has {len(data)} bytes, expected {pipeline.encoded_size}")
        step, size = pipeline.bytes_bytes[-1] if pipeline.bytes_bytes else (None, None)
        name = getattr(step, "name", "")
        if step is None or name not in CHECKSUM_CODECS:
            self.report.unchecked += 1
            return
        try:
            step.decode(data, size)
        except MemoryError:
            raise
        except Exception as e:  # codecs of any package may raise anything
            raise ChunkError(f"codec {name!r}: {e}", codec=name) from e

    def _fetch(self, batch: list[_Stored]) -> Iterator[tuple[_Stored, bytes]]:
        """Yield the stored values with their bytes; report any that cannot be read."""
        store = self.array.chunk_store
        try:
            found = get_many(store, [(value.key, None) for value in batch])
        except OmnizarrError:
            found = None  # one by one, to find out which of them
        for number, value in enumerate(batch):
            try:
                data = store.get(value.key) if found is None else found[number]
                if data is None:
                    raise StoreError(DELETED)
            except OmnizarrError as e:
                self._add(value.key, e, value.coords)
            else:
                if found is not None:
                    found[number] = None  # its memory is free when it was checked
                yield value, data

    # The compiled kernel

    @cached_property
    def _whole(self) -> BoundArray | None:
        """The array with a shape of whole chunks, which the kernel decodes in full.

        None for an array that the kernel does not take.
        """
        chunk = self.array.grid.regular
        if not chunk or 0 in chunk or 0 in self.array.grid.shape:
            return None
        shape = tuple(n * c for n, c in zip(self.array.grid.shape, chunk, strict=True))
        return self.array.reshaped(self.array.model.with_(shape=shape))

    @cached_property
    def _chunk_bytes(self) -> int:
        """The bytes of a decoded chunk or shard; a guess where they differ."""
        chunk = self.array.grid.regular or (2**20,)
        return max(1, math.prod(chunk) * self.array.dtype.itemsize)

    def _decode_many(self, values: list[_Stored]) -> list[_Stored]:
        """Decode chunks with the kernel; return the chunks that it did not decode."""
        whole = self._whole
        if whole is None:
            return values
        left = [value for value in values if not value.inside]
        inside = sorted((v for v in values if v.inside), key=attrgetter("coords"))
        for run in _runs(inside, max(1, RUN_BYTES // self._chunk_bytes)):
            first = run[0].coords
            rows = self._decode_box(whole, first, (*first[:-1], run[-1].coords[-1]), missing=True)
            bad = {*range(len(run))} if rows is None else {*rows}
            for number, value in enumerate(run):
                if number in bad:
                    left.append(value)
                else:
                    self.report.bytes_read += value.size or 0
        return left

    def _decode_box(
        self, whole: BoundArray, first: Coords, last: Coords, missing: bool
    ) -> list[int] | None:
        """Decode a box of the chunk grid; return the numbers of chunks that were not decoded.

        With `missing` a chunk that is not there counts as not decoded. None: nothing was done.
        """
        chunk = whole.grid.regular or ()
        sides = zip(first, last, chunk, strict=True)
        return self._decode(whole, tuple(slice(a * n, (b + 1) * n) for a, b, n in sides), missing)

    def _decode(self, whole: BoundArray, box: tuple[slice, ...], missing: bool) -> list[int] | None:
        shape = tuple(side.stop - side.start for side in box)
        count = math.prod(shape)
        if self._memory is None or self._memory.size < count:
            self._memory = None  # before more is allocated
            try:
                self._memory = np.empty(count, whole.dtype)
            except MemoryError:
                return None
        out = self._memory[:count].reshape(shape)
        return kernel.read(whole, axis_plan(whole.grid, box), out, skip_missing=missing)

    # Shards

    def _sharded(self, value: _Stored) -> bool:
        try:
            return self.array.pipeline_at(value.coords).sharded is not None
        except OmnizarrError:
            return False

    def _check_shard(self, value: _Stored) -> None:
        try:
            sharded = self.array.pipeline_at(value.coords).sharded
            if sharded is not None:
                self._check_parts(value, *sharded)
        except OmnizarrError as e:
            self._add(value.key, e, value.coords)

    def _check_parts(self, value: _Stored, shards: Shards, axes: Coords) -> None:
        array, layout = self.array, shards.layout
        stored = array.chunk_store.get(value.key, layout.index_range)
        if stored is None:
            raise StoreError(DELETED)
        index = shards.index(stored)
        self.report.bytes_read += len(stored)
        size = _size(array, value.key) if value.size is None else value.size
        there = present(index)
        self.report.chunks += len(there)
        self._count_inner(value, shards, axes, there)
        good = is_sound(index[there], shards, size)
        if good and self.depth == "present":
            return
        if good and self.depth == "decode" and self._decode_shard(value):
            self.report.bytes_read += int(index[there, 1].sum())
            return
        ranges = self._check_index(value, shards, axes, index, there, size)
        if self.depth == "present":
            return
        for batch in _batches(ranges, lambda part: part[1].length or 0):
            self._check_inner(value, shards.inner, batch)

    def _check_index(
        self, value: _Stored, shards: Shards, axes: Coords, index: Index, there: list[int],
        size: int | None,
    ) -> list[InnerRange]:  # fmt: skip
        """Report wrong entries of an index; return the inner chunks of the others."""
        ranges: list[InnerRange] = []
        for number in there:
            coords = inner_coords_of(self.array, value.coords, shards, axes, number)
            try:
                where = chunk_range(index, number)
                if where is not None:
                    check_range(where, shards, size)
                    ranges.append((coords, where))
            except OmnizarrError as e:
                self._add(value.key, e, coords)
        for coords, message in overlaps(ranges):
            self._add(value.key, message, coords)
        return ranges

    def _count_inner(self, value: _Stored, shards: Shards, axes: Coords, there: list[int]) -> None:
        """Count, or report, inner chunks inside the array that a shard does not have."""
        if not value.inside:
            return
        ranges = _inner_ranges(self.array, value.coords)
        found = np.zeros(shards.layout.count, bool)
        found[there] = True
        grid = found.reshape(shards.layout.counts).transpose(np.argsort(axes))
        grid = grid[tuple(slice(len(side)) for side in ranges)]
        self.report.absent -= int(grid.sum())
        if self.task.missing is None:
            return
        for row in np.argwhere(~grid).tolist():
            chunk = tuple(side[n] for side, n in zip(ranges, row, strict=True))
            self.report.add(missing_chunk(self.array, value.key, chunk, self.task.missing))

    def _decode_shard(self, value: _Stored) -> bool:
        """Decode a shard with the kernel, a slab at a time; return False if that did not work."""
        whole, inner = self._whole, self._inner
        chunk = self.array.grid.regular
        if whole is None or inner is None or chunk is None or not value.inside:
            return False
        origin = self.array.grid.origin(value.coords)
        axes = [RegularAxis(n, c) for n, c in zip(chunk, inner, strict=True)]
        for box in boxes.cut(axes, SLAB_BYTES // self.array.dtype.itemsize):
            placed = tuple(
                slice(o + side.start, o + side.stop) for o, side in zip(origin, box, strict=True)
            )
            if self._decode(whole, placed, missing=False) != []:
                return False
        return True

    def _check_inner(self, value: _Stored, inner: CodecPipeline, batch: list[InnerRange]) -> None:
        requests = [(value.key, where) for _, where in batch]
        found = get_many(self.array.chunk_store, requests)
        for (coords, where), data in zip(batch, found, strict=True):
            try:
                self._check_bytes(inner, check_length(where, data))
            except OmnizarrError as e:
                self._add(value.key, e, coords)


def _batches(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield batches of at most `BATCH_BYTES`; a larger item is a batch of its own."""
    batch, total = list[T](), 0
    for item in items:
        nbytes = size(item)
        if batch and total + nbytes > BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += nbytes
    if batch:
        yield batch


def _unpacked(store: Any, key: str) -> Iterator[str]:
    """Yield the keys of the chunks in a stored value: several if a transformer packs them."""
    if not hasattr(store, "chunks_in"):
        yield key
        return
    for outer in _unpacked(store.store, key):
        yield from store.chunks_in(outer)


def _runs(values: list[_Stored], most: int) -> Iterator[list[_Stored]]:
    """Yield neighbours along the last axis of the chunk grid; the values are sorted."""
    run: list[_Stored] = []
    for value in values:
        if run and (
            len(run) == most
            or value.coords[:-1] != run[-1].coords[:-1]
            or value.coords[-1] != run[-1].coords[-1] + 1
        ):
            yield run
            run = []
        run.append(value)
    if run:
        yield run


def _size(array: BoundArray, key: str) -> int | None:
    """Return the size of a stored value, or None if the store cannot tell without reading it."""
    store = array.chunk_store
    if not isinstance(store, HasSizes):
        return None
    size = store.sizes([key]).get(key)
    if size is None:
        raise StoreError("is listed, but has no readable value")
    return size


# Shards


def is_sound(entries: Index, shards: Shards, size: int | None) -> bool:
    """Return True if all entries of an index lie inside the shard and none overlaps another.

    This is the quick check of many entries at a time; False leaves it to a check of each.
    """
    if not len(entries):
        return True
    if entries.max() >= 2**62:
        return False
    layout = shards.layout
    order = np.argsort(entries[:, 0], kind="stable")
    start = entries[order, 0].astype(np.int64)
    length = entries[order, 1].astype(np.int64)
    end, low = start + length, 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    expected = shards.inner.encoded_size
    return bool(
        start[0] >= low
        and (high is None or end.max() <= high)
        and (expected is None or (length == expected).all())
        and (start[1:] >= end[:-1]).all()
    )


def check_range(where: Range, shards: Shards, size: int | None) -> None:
    """Raise if the byte range of an inner chunk is outside the data part of its shard."""
    layout, end = shards.layout, where.start + (where.length or 0)
    low = 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    if where.start < low or (high is not None and end > high):
        raise ChunkError(
            f"the index names bytes {where.start} to {end}, but chunks are in {low} to {high}"
        )
    expected = shards.inner.encoded_size
    if expected is not None and where.length != expected:
        raise ChunkError(f"has {where.length} bytes, expected {expected}")


def overlaps(ranges: list[InnerRange]) -> Iterator[tuple[Coords, str]]:
    """Yield inner chunks whose byte ranges overlap; equal chunks may share the same range."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(ranges, key=lambda item: (item[1].start, item[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            yield coords, f"the index gives it {shared}, which belong to chunk {known}"
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def inner_coords_of(
    array: BoundArray, outer: Coords, shards: Shards, axes: Coords, number: int
) -> Coords:
    """Return the coordinates of an inner chunk in the array's grid of inner chunks."""
    coords = [0] * len(axes)
    origin = array.grid.origin(outer)
    for axis, count, size in reversed(
        [*zip(axes, shards.counts, shards.inner.spec.shape, strict=True)]
    ):
        number, inside = divmod(number, count)
        coords[axis] = origin[axis] // size + inside
    return tuple(coords)
