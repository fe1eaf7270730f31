"""Check stored chunks and shards: their sizes, their checksums, or by decoding them.

Whole shards are decoded by the compiled kernel, into memory that is used again. What it does not
do, damaged shards among them, is checked again chunk by chunk to find out what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from operator import lt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.bulk.checks.findings import Coords, Finding, Kind, Level, VerifyReport
from omnizarr.bulk.journal import in_batches
from omnizarr.bulk.options import Depth
from omnizarr.errors import ChunkError, OmnizarrError, StoreError, error_context
from omnizarr.extension import (
    CHECKSUMS,
    PREFIX,
    BoundArray,
    Buffer,
    CodecPipeline,
    HasSizes,
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
SLAB_BYTES = 2**24  # of a shard that the kernel decodes with one call
BATCH_BYTES = 2**24  # of chunks that are read together
DELETED = "was deleted while it was being checked"
InnerRange: TypeAlias = tuple[Coords, Range]  # an inner chunk and its bytes in the shard


def inner_ranges(array: BoundArray, coords: Coords) -> list[range]:
    """Return the chunks of the array in one stored value: itself, or the inner chunks of a shard.

    Those outside the array do not count.
    """
    inner = inner_chunk_shape(array.model)
    if inner is None:
        return [range(c, c + 1) for c in coords]
    shape, origin = array.grid.chunk_shape(coords), array.grid.origin(coords)
    counts = chunk_counts(array)
    return [
        range(o // c, min(o // c + -(-n // c), count))
        for o, n, c, count in zip(origin, shape, inner, counts, strict=True)
    ]


@dataclass(frozen=True)
class CheckChunks:
    """Check some stored values of one array; the work of a task.

    `sizes` are those of the values, if a listing has them. With `probe` the store cannot list its
    keys, so that values may be missing.
    """

    array: BoundArray
    keys: tuple[str, ...]
    coords: tuple[Coords, ...]
    depth: Depth
    sizes: tuple[int, ...] | None = None
    probe: bool = False

    def __call__(self) -> VerifyReport:
        return _Check(self).run()


@dataclass
class _Stored:
    """A stored value: a chunk or a shard."""

    key: str
    coords: Coords
    inside: bool  # the chunk grid
    size: int | None = None  # None if it is not known
    packed: str = ""  # the key of the value that a storage transformer put it into

    @property
    def shown(self) -> str:
        """The key that findings name."""
        return self.packed or self.key


class _Check:
    """One task: the result so far, and what its chunks share."""

    def __init__(self, task: CheckChunks) -> None:
        self.task, self.array, self.depth = task, task.array, task.depth
        self.store: Any = task.array.chunk_store
        self.report = VerifyReport(task.depth, tasks=1)
        self._memory: npt.NDArray[Any] | None = None

    def run(self) -> VerifyReport:
        task, shape = self.task, self.array.grid.shape
        sizes = task.sizes or (None,) * len(task.keys)
        stored = [
            _Stored(key, coords, all(map(lt, coords, shape)), size)
            for key, coords, size in zip(task.keys, task.coords, sizes, strict=True)
        ]
        if task.probe:
            there = get_many(self.array.store, [(key, Range(0, 1)) for key in task.keys])
            stored = [v for v, data in zip(stored, there, strict=True) if data is not None]
        self.report.values += len(stored)
        for value in stored:
            if not value.inside:
                message = f"is outside the shape {self.array.model.shape}"
                self._add(value.key, message, value.coords, "warning", "outside-chunk")
        if self.array.model.storage_transformers:
            stored = [chunk for value in stored for chunk in self._unpacked(value)]
        self._look_up_sizes(stored)
        if stored and self._is_sharded(stored[0]):
            for value in stored:
                with self._reporting(value.shown, value.coords):
                    self._check_shard(value)
        else:
            self._check_plain(stored)
        return self.report

    def _add(
        self, key: str, message: object, chunk: Coords, level: Level = "error",
        kind: Kind = "damaged-chunk",
    ) -> None:  # fmt: skip
        path = paths.show(self.array.path)
        self.report.add(Finding(path, key, str(message), chunk, level, kind))

    @contextmanager
    def _reporting(self, key: str, chunk: Coords) -> Iterator[None]:
        """Report an error of the block as a damaged chunk."""
        try:
            yield
        except OmnizarrError as e:
            self._add(key, e, chunk)

    def _unpacked(self, value: _Stored) -> list[_Stored]:
        """Return the chunks in a value that a storage transformer has packed."""
        array, found = self.array, list[_Stored]()
        with self._reporting(value.key, value.coords):
            for key in _packed_keys(self.store, value.key):
                coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
                if coords is not None:
                    inside = all(map(lt, coords, array.grid.shape))
                    found.append(_Stored(key, coords, inside, None, value.key))
        return found

    # Sizes

    def _look_up_sizes(self, values: list[_Stored]) -> None:
        unknown = [value.key for value in values if value.size is None]
        if unknown and isinstance(self.store, HasSizes):
            with suppress(OmnizarrError):  # `_size` will tell which of them cannot be read
                found = self.store.sizes(unknown)
                for value in values:
                    value.size = found.get(value.key, value.size)

    def _size(self, value: _Stored) -> int | None:
        """Return the size of a value, or None if the store cannot tell without reading it."""
        if value.size is None and isinstance(self.store, HasSizes):
            value.size = self.store.sizes([value.key]).get(value.key)
            if value.size is None:
                raise StoreError("is listed, but has no readable value")
        return value.size

    # Chunks

    def _check_plain(self, values: list[_Stored]) -> None:
        good = list[_Stored]()
        for value in values:
            self.report.chunks += 1
            if value.inside:
                self.report.absent -= math.prod(map(len, inner_ranges(self.array, value.coords)))
            with self._reporting(value.shown, value.coords):
                pipeline = self.array.pipeline_at(value.coords)
                _check_length(self._size(value), pipeline)
                good.append(value)
        if self.depth == "present":
            return
        guess = max(1, math.prod(self.array.grid.regular or (2**20,)) * self.array.dtype.itemsize)
        for batch in in_batches(good, lambda v: guess if v.size is None else v.size, BATCH_BYTES):
            for value, data in self._fetch(batch):
                with self._reporting(value.shown, value.coords):
                    self._check_bytes(self.array.pipeline_at(value.coords), data)

    def _fetch(self, batch: Sequence[_Stored]) -> Iterator[tuple[_Stored, bytes]]:
        """Yield the stored values with their bytes; report any that cannot be read."""
        try:
            found = get_many(self.store, [(value.key, None) for value in batch])
        except OmnizarrError:
            found = None  # one by one, to find out which of them
        for number, value in enumerate(batch):
            data = None
            with self._reporting(value.shown, value.coords):
                data = self.store.get(value.key) if found is None else found[number]
                if data is None:
                    raise StoreError(DELETED)
            if data is not None:
                if found is not None:
                    found[number] = None  # its memory is free when it was checked
                yield value, data

    def _check_bytes(self, pipeline: CodecPipeline, data: Buffer) -> None:
        self.report.bytes_read += len(data)
        if self.depth == "decode":
            with error_context("cannot be checked", into=ChunkError, catch=(MemoryError,)):
                pipeline.decode(data)
            return
        _check_length(len(data), pipeline)
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

    # Shards

    def _is_sharded(self, value: _Stored) -> bool:
        try:
            return self.array.pipeline_at(value.coords).sharded is not None
        except OmnizarrError:
            return False

    def _check_shard(self, value: _Stored) -> None:
        found = self.array.pipeline_at(value.coords).sharded
        if found is None:
            return
        shards, axes = found
        stored = self.store.get(value.key, shards.layout.index_range)
        if stored is None:
            raise StoreError(DELETED)
        index = shards.index(stored)
        self.report.bytes_read += len(stored)
        size, there = self._size(value), present(index)
        self.report.chunks += len(there)
        if value.inside:
            is_there = np.zeros(shards.layout.count, bool)
            is_there[there] = True
            grid = is_there.reshape(shards.layout.counts).transpose(np.argsort(axes))
            sides = inner_ranges(self.array, value.coords)
            self.report.absent -= int(grid[tuple(slice(len(side)) for side in sides)].sum())
        before = self.report.errors
        ranges: list[InnerRange] = []
        for number in there:
            coords = _inner_coords(self.array, value.coords, shards, axes, number)
            with self._reporting(value.shown, coords):
                where = chunk_range(index, number)
                if where is not None:
                    _check_range(where, shards, size)
                    ranges.append((coords, where))
        for coords, message in _overlaps(ranges):
            self._add(value.shown, message, coords)
        if self.depth == "present":
            return
        is_sound = self.report.errors == before
        if is_sound and self.depth == "decode" and self._decode_shard(value):
            self.report.bytes_read += int(index[there, 1].sum())
            return
        for batch in in_batches(ranges, lambda part: part[1].length or 0, BATCH_BYTES):
            several = get_many(self.store, [(value.key, where) for _, where in batch])
            for (coords, where), data in zip(batch, several, strict=True):
                with self._reporting(value.shown, coords):
                    self._check_bytes(shards.inner, check_length(where, data))

    @cached_property
    def _whole(self) -> BoundArray | None:
        """The array with a shape of whole chunks, which the kernel decodes in full, or None."""
        chunk = self.array.grid.regular
        if not chunk or 0 in chunk or 0 in self.array.grid.shape:
            return None
        shape = tuple(n * c for n, c in zip(self.array.grid.shape, chunk, strict=True))
        return self.array.reshaped(self.array.model.with_(shape=shape))

    def _decode_shard(self, value: _Stored) -> bool:
        """Decode a shard with the kernel, a slab at a time; return False if that did not work."""
        whole, inner = self._whole, inner_chunk_shape(self.array.model)
        chunk = self.array.grid.regular
        if whole is None or inner is None or chunk is None or not value.inside:
            return False
        origin = self.array.grid.origin(value.coords)
        for box in boxes.cut([*map(RegularAxis, chunk, inner)], SLAB_BYTES // whole.dtype.itemsize):
            count, shape = boxes.box_size(box), tuple(side.stop - side.start for side in box)
            if self._memory is None or self._memory.size < count:
                self._memory = None  # before more is allocated
                try:
                    self._memory = np.empty(count, whole.dtype)
                except MemoryError:
                    return False
            pairs = zip(origin, box, strict=True)
            placed = tuple(slice(o + side.start, o + side.stop) for o, side in pairs)
            out = self._memory[:count].reshape(shape)
            if kernel.read(whole, axis_plan(whole.grid, placed), out, skip_missing=False) != []:
                return False
        return True


def _check_length(size: int | None, pipeline: CodecPipeline) -> None:
    expected = pipeline.encoded_size
    if None not in (size, expected) and size != expected:
        raise ChunkError(f"has {size} bytes, expected {expected}")


def _packed_keys(store: Any, key: str) -> Iterator[str]:
    """Yield the keys of the chunks in a stored value: several if a transformer packs them."""
    if not hasattr(store, "chunks_in"):
        yield key
        return
    for outer in _packed_keys(store.store, key):
        yield from store.chunks_in(outer)


def _check_range(where: Range, shards: Shards, size: int | None) -> None:
    """Raise if the byte range of an inner chunk is outside the data part of its shard."""
    layout, end = shards.layout, where.start + (where.length or 0)
    low = 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    if where.start < low or (high is not None and end > high):
        raise ChunkError(
            f"the index names bytes {where.start} to {end}, but chunks are in {low} to {high}"
        )
    _check_length(where.length, shards.inner)


def _overlaps(ranges: list[InnerRange]) -> Iterator[tuple[Coords, str]]:
    """Yield inner chunks whose byte ranges overlap; equal chunks may share the same range."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(ranges, key=lambda item: (item[1].start, item[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            yield coords, f"the index gives it {shared}, which belong to chunk {known}"
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def _inner_coords(
    array: BoundArray, outer: Coords, shards: Shards, axes: Coords, number: int
) -> Coords:
    """Return the coordinates of an inner chunk in the array's grid of inner chunks."""
    coords, origin = [0] * len(axes), array.grid.origin(outer)
    inside = np.unravel_index(number, shards.counts)
    for axis, place, size in zip(axes, inside, shards.inner.spec.shape, strict=True):
        coords[axis] = origin[axis] // size + int(place)
    return tuple(coords)
