"""Verify that every stored chunk of a hierarchy can be read.

The store is listed once. Every key is metadata, a chunk of an array, or belongs to no node. A few
threads check the chunks; each holds one chunk, or a few chunks of a shard, in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from omnizarr import stores
from omnizarr.codecs import CodecPipeline
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.sharding import Shards, check_length, chunk_range, present
from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import for_each
from omnizarr.engine import BoundArray
from omnizarr.errors import ChunkError, InvalidArgument, OmnizarrError, StoreError
from omnizarr.formats import Format, Probe, consolidated
from omnizarr.hierarchy.chunks import chunk_counts, missing_chunk_keys, probe_stored_keys
from omnizarr.hierarchy.info import counted
from omnizarr.hierarchy.location import Location, walk_nodes
from omnizarr.hierarchy.lookup import fetch_probe, find_node
from omnizarr.model import ArrayModel, Node, paths
from omnizarr.model.node import CHECKSUMS, PREFIX
from omnizarr.stores import Range, file_root, get_many, list_prefix
from omnizarr.stores.base import HasSizes
from omnizarr.stores.local.atomic_files import folders_below
from omnizarr.stores.staging import FOLDER, MARKER, interrupted

Progress: TypeAlias = Callable[[int, int, str], None]
Coords: TypeAlias = tuple[int, ...]
Level: TypeAlias = Literal["error", "warning"]
Depth: TypeAlias = Literal["present", "checksums", "decode"]
DEPTHS = ("present", "checksums", "decode")
Missing: TypeAlias = Literal["count", "warn", "error"]
MISSING = ("count", "warn", "error")
MAX_MISSING_FINDINGS = 100_000  # missing chunks of one array that are reported one by one
ALL_THREADS = 2**30  # an amount of chunks and bytes that justifies all threads
CHECKSUM_CODECS = frozenset({"crc32c", *(PREFIX + id_ for id_ in CHECKSUMS)})
BATCH_BYTES = 2**24  # of a shard, read with one request
InnerRange: TypeAlias = tuple[Coords, Range]  # an inner chunk and its bytes in the shard


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: the node, the key, the chunk if there is one, and the reason."""

    path: str
    key: str
    message: str
    chunk: Coords | None = None
    level: Level = "error"

    def __str__(self) -> str:
        chunk = "" if self.chunk is None else f" chunk {self.chunk}"
        return f"{self.path}{chunk} ({self.key!r}): {self.message}"


@dataclass
class VerifyReport:
    """The result of `verify`: counts of what was checked, and the problems found."""

    depth: Depth
    groups: int = 0
    arrays: int = 0
    chunks: int = 0  # stored chunks; for shards, their inner chunks
    unchecked: int = 0  # stored chunks without a checksum to compare
    absent: int = 0  # missing chunks, which read as the fill value
    bytes_read: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing is damaged; warnings do not count."""
        return all(f.level != "error" for f in self.findings)

    def __str__(self) -> str:
        bad = sum(f.level == "error" for f in self.findings)
        unchecked = f" ({self.unchecked} without a checksum)" if self.unchecked else ""
        return (
            f"{counted(self.groups, 'group')}, {counted(self.arrays, 'array')},"
            f" {counted(self.chunks, 'chunk')} stored{unchecked}, {self.absent} missing,"
            f" {counted(self.bytes_read, 'byte')} read;"
            f" {counted(bad, 'error')}, {counted(len(self.findings) - bad, 'warning')}"
        )


def verify(
    store: Any,
    *,
    path: str | None = None,
    depth: Depth = "decode",
    missing: Missing = "count",
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyReport:
    """Check everything stored at and below a path, and return a report of all problems.

    Depth ``present`` compares sizes and reads only shard indexes; ``checksums`` also reads every
    chunk and compares its checksum, if the codecs have one; ``decode`` also decodes every chunk.
    Missing chunks are counted; with `missing` ``warn`` or ``error``, each of them is a finding with
    its key, for arrays that must have every chunk stored (`write_empty_chunks`). `progress` is
    called with the number of chunks done, the number found so far, and the array's path.
    """
    if depth not in DEPTHS:
        raise InvalidArgument(f"depth must be one of {DEPTHS}, got {depth!r}")
    if missing not in MISSING:
        raise InvalidArgument(f"missing must be one of {MISSING}, got {missing!r}")
    where = stores.resolve(store, read_only=True, storage_options=storage_options)
    location, node = find_node(where, paths.normalize(path))
    work = _Verification(location, VerifyReport(depth), progress, missing)
    work.read_nodes(node)
    for_each(work.chunks(), ALL_THREADS, work.check, ALL_THREADS, waits=False)
    work.finish()
    return work.report


class _Verification:
    """One run of `verify`: the arrays of the hierarchy and the findings so far."""

    def __init__(
        self,
        start: Location,
        report: VerifyReport,
        progress: Progress | None = None,
        missing: Missing = "count",
    ) -> None:
        self.start, self.report, self.progress, self.missing = start, report, progress, missing
        self.arrays: dict[str, BoundArray] = {}  # by the prefix of their chunk keys
        self.unreadable: dict[str, BoundArray] = {}  # arrays whose chunks cannot be checked
        self.metadata_keys: set[str] = set(start.format.root_documents())
        # A conversion in place leaves the metadata of the old format beside the new.
        self.formats = probe_formats(start)
        self.found: dict[str, int] = {}  # number of stored chunks inside each array's grid
        self.listed = self.done = 0
        self.lock = fork.lock()

    def read_nodes(self, root: Node) -> None:
        """Bind every array; report those that cannot be bound."""
        for location, node in walk_nodes(self.start, root):
            keys = location.format.keys(location.path)
            for format in self.formats:
                self.metadata_keys.update(format.keys(location.path))
            if isinstance(node, Exception):
                self._add(location.path, keys[0], str(node))
            elif isinstance(node, ArrayModel):
                self.report.arrays += 1
                self._bind(location, node, keys[0])
            else:
                self.report.groups += 1
                own = (consolidated.key(format, location.path) for format in self.formats)
                self.metadata_keys.update(key for key in own if key is not None)

    def _bind(self, location: Location, node: ArrayModel, key: str) -> None:
        prefix = location.format.chunk_prefix(location.path)
        array = BoundArray(location.store, location.path, prefix, node)
        try:
            array.check()
            _ = array.encoding, array.chunk_store
            if 0 not in array.grid.shape:
                _ = array.first_pipeline
        except OmnizarrError as e:
            self._add(location.path, key, f"its chunks cannot be checked: {e}")
            self.unreadable[prefix] = array
            return
        self.arrays[prefix] = array
        self.found[prefix] = 0

    def chunks(self) -> Iterator[Chunk]:
        """Yield every stored chunk or shard; report other keys."""
        start = self.start
        listed: set[str] = set()
        for prefix in start.format.subtree(start.path)[1]:
            for key in list_prefix(start.store, prefix):
                array = self._owner(key)
                if array is None:
                    self._report_stray(key)
                    continue
                if array.prefix in self.unreadable:
                    self._count_unreadable(array, key)
                    continue
                inside = key[len(array.prefix) :]
                coords = array.encoding.coords(inside, len(array.model.shape))
                if coords is not None:
                    self.listed += 1
                    listed.add(array.prefix)
                    yield Chunk(array, coords, key)
                else:
                    self._report_stray(key)
        for prefix in self.arrays.keys() - listed:
            for coords, key in probe_stored_keys(self.arrays[prefix]):
                self.listed += 1
                yield Chunk(self.arrays[prefix], coords, key)

    def _owner(self, key: str) -> BoundArray | None:
        """Return the array that a key may be a chunk of: the innermost one that contains it."""
        end = len(key)
        while end > 0:
            end = key.rfind("/", 0, end)
            prefix = key[: end + 1]
            found = self.arrays.get(prefix) or self.unreadable.get(prefix)
            if found is not None:
                return found
        return None

    def _count_unreadable(self, array: BoundArray, key: str) -> None:
        """Count a chunk of an array that cannot be bound; report other keys."""
        try:
            coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
        except OmnizarrError:
            return  # its key encoding is unknown too
        if coords is None:
            self._report_stray(key)
        else:
            self.report.chunks += 1
            self.report.unchecked += 1

    def _report_stray(self, key: str) -> None:
        if key.startswith(f"{FOLDER}/"):
            return  # `finish` reports the folder once
        if paths.name(key) == MARKER:
            message = "the node is incomplete: its writer was interrupted or is still running"
            self._add(key.rpartition("/")[0], key, message)
        elif key not in self.metadata_keys:
            message = "belongs to no array or group"
            self._add(self.start.path, key, message, level="warning")

    def check(self, stored: Chunk) -> None:
        """Check one stored value and report its problems."""
        array, faults = stored.array, Faults()
        try:
            for chunk in chunk_keys(stored):
                self._check_one(chunk, faults)
        except OmnizarrError as e:
            self._add(array.path, stored.key, str(e), stored.coords)
        for coords, message in faults.messages:
            self._add(array.path, stored.key, message, coords)
        with self.lock:
            self.report.chunks += faults.chunks
            self.report.unchecked += faults.unchecked
            self.report.bytes_read += faults.nbytes
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.listed, paths.show(array.path))

    def _check_one(self, chunk: Chunk, faults: Faults) -> None:
        array, before = chunk.array, faults.chunks
        inside = all(c < n for c, n in zip(chunk.coords, array.grid.shape, strict=True))
        try:
            check_chunk(chunk, self.report.depth, faults)
        finally:
            with self.lock:
                self.found[array.prefix] += faults.chunks - before if inside else 0
        if not inside:
            message = f"is outside the shape {array.model.shape}"
            self._add(array.path, chunk.key, message, chunk.coords, "warning")

    def finish(self) -> None:
        """Count missing chunks, report leftovers of interrupted writers, and sort the findings."""
        for prefix, array in self.arrays.items():
            absent = max(0, math.prod(chunk_counts(array)) - self.found[prefix])
            self.report.absent += absent
            if absent and self.missing != "count":
                self._report_missing(array)
        store: Any = self.start.store
        root = file_root(store)
        if root is not None:
            self._report_folders(root)
        for staged in interrupted(store):
            message = "is an unfinished node, or one that is being written; see omnizarr repair"
            level: Level = "error" if staged.complete else "warning"
            self._add(self.start.path, f"{FOLDER}/{staged.name}", message, level=level)
        for key in store.leftovers() if hasattr(store, "leftovers") else ():
            if key.startswith(paths.prefix(self.start.path)):
                message = (
                    "is half written: its writer stopped or is still running; see omnizarr repair"
                )
                self._add(self.start.path, key, message, level="warning")
        self.report.findings.sort(key=lambda f: (f.path, f.key, f.chunk or ()))

    def _report_folders(self, root: Path) -> None:
        """Report folders in place of chunk files; such chunks read as if they were missing."""
        for prefix in self.start.format.subtree(self.start.path)[1]:
            top = os.path.join(root, prefix)
            for name in folders_below(top, os.path.join(root, "")):
                key = prefix + name
                array = self._owner(key)
                if array is None or array.prefix in self.unreadable:
                    continue
                coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
                if coords is not None:
                    message = "is a folder, not a file; the chunk reads as the fill value"
                    self._add(array.path, key, message, coords)

    def _report_missing(self, array: BoundArray) -> None:
        level: Level = "error" if self.missing == "error" else "warning"
        message = "is missing and reads as the fill value"
        for number, (coords, key) in enumerate(missing_chunk_keys(array)):
            if number == MAX_MISSING_FINDINGS:
                left = math.prod(chunk_counts(array)) - self.found[array.prefix] - number
                self._add(array.path, key, f"and {left} more chunks are missing", level=level)
                break
            self._add(array.path, key, message, coords, level)

    def _add(
        self,
        path: str,
        key: str,
        message: str,
        chunk: Coords | None = None,
        level: Level = "error",
    ) -> None:
        with self.lock:
            self.report.findings.append(Finding(paths.show(path), key, message, chunk, level))


def probe_formats(start: Location) -> list[Format]:
    """Return the formats with metadata at the start of the verification, the detected one first."""
    probe = Probe(start.path)
    found = probe.formats(fetch_probe(start.store, probe), [])
    others = [format for format in found if type(format) is not type(start.format)]
    return [start.format, *others]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk or shard with its key."""

    array: BoundArray
    coords: Coords
    key: str


@dataclass
class Faults:
    """Counts and problems of one stored value."""

    chunks: int = 0
    unchecked: int = 0
    nbytes: int = 0
    messages: list[tuple[Coords, str]] = field(default_factory=list)


def chunk_keys(stored: Chunk) -> Iterator[Chunk]:
    """Yield the chunks in a stored value: several if a storage transformer packs them."""
    array = stored.array
    for key in _unpacked(array.chunk_store, stored.key):
        coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
        if coords is not None:
            yield Chunk(array, coords, key)


def _unpacked(store: Any, key: str) -> Iterator[str]:
    if not hasattr(store, "chunks_in"):
        yield key
        return
    for outer in _unpacked(store.store, key):
        yield from store.chunks_in(outer)


def check_chunk(chunk: Chunk, depth: Depth, faults: Faults) -> None:
    """Check one chunk; problems of inner chunks are added to `faults` one by one."""
    array = chunk.array
    pipeline = array.pipeline(array.grid.chunk_shape(chunk.coords))
    if pipeline.sharded is not None:
        _check_shard(chunk, pipeline.sharded[0], pipeline.sharded[1], depth, faults)
        return
    faults.chunks += 1
    if depth == "present":
        size = _size(array, chunk.key)
        if None not in (size, pipeline.encoded_size) and size != pipeline.encoded_size:
            raise ChunkError(f"has {size} bytes, expected {pipeline.encoded_size}")
        return
    data = array.chunk_store.get(chunk.key)
    if data is None:
        raise StoreError("was deleted while it was being checked")
    _check_bytes(pipeline, data, depth, faults)


def _check_bytes(pipeline: CodecPipeline, data: Buffer, depth: Depth, faults: Faults) -> None:
    faults.nbytes += len(data)
    if depth == "decode":
        pipeline.decode(data)
        return
    if pipeline.encoded_size is not None and len(data) != pipeline.encoded_size:
        raise ChunkError(f"has {len(data)} bytes, expected {pipeline.encoded_size}")
    step, size = pipeline.bytes_bytes[-1] if pipeline.bytes_bytes else (None, None)
    name = getattr(step, "name", "")
    if step is None or name not in CHECKSUM_CODECS:
        faults.unchecked += 1
        return
    try:
        step.decode(data, size)
    except MemoryError:
        raise
    except Exception as e:  # codecs of any package may raise anything
        raise ChunkError(f"codec {name!r}: {e}", codec=name) from e


def _check_shard(chunk: Chunk, shards: Shards, axes: Coords, depth: Depth, faults: Faults) -> None:
    array, layout = chunk.array, shards.layout
    stored = array.chunk_store.get(chunk.key, layout.index_range)
    if stored is None:
        raise StoreError("was deleted while it was being checked")
    index = shards.index(stored)
    faults.nbytes += len(stored)
    size = _size(array, chunk.key)
    ranges: list[InnerRange] = []
    for number in present(index):
        faults.chunks += 1
        coords = _inner_coords(chunk, shards, axes, number)
        try:
            where = chunk_range(index, number)
            if where is not None:
                _check_range(where, shards, size)
                ranges.append((coords, where))
        except OmnizarrError as e:
            faults.messages.append((coords, str(e)))
    _check_overlaps(ranges, faults)
    if depth != "present":
        for batch in _batches(ranges):
            _check_inner(chunk, shards.inner, batch, depth, faults)


def _check_overlaps(ranges: list[InnerRange], faults: Faults) -> None:
    """Report inner chunks whose byte ranges overlap; equal chunks may share the same range."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(ranges, key=lambda item: (item[1].start, item[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            message = f"the index gives it {shared}, which belong to chunk {known}"
            faults.messages.append((coords, message))
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def _check_range(where: Range, shards: Shards, size: int | None) -> None:
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


def _check_inner(
    chunk: Chunk, inner: CodecPipeline, batch: list[InnerRange], depth: Depth, faults: Faults
) -> None:
    found = get_many(chunk.array.chunk_store, [(chunk.key, where) for _, where in batch])
    for (coords, where), data in zip(batch, found, strict=True):
        try:
            _check_bytes(inner, check_length(where, data), depth, faults)
        except OmnizarrError as e:
            faults.messages.append((coords, str(e)))


def _batches(ranges: list[InnerRange]) -> Iterator[list[InnerRange]]:
    batch: list[InnerRange] = []
    total = 0
    for coords, where in ranges:
        if batch and total + (where.length or 0) > BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append((coords, where))
        total += where.length or 0
    if batch:
        yield batch


def _inner_coords(chunk: Chunk, shards: Shards, axes: Coords, number: int) -> Coords:
    """Return the coordinates of an inner chunk in the array's grid of inner chunks."""
    coords = [0] * len(axes)
    origin = chunk.array.grid.origin(chunk.coords)
    for axis, count, size in reversed(
        [*zip(axes, shards.counts, shards.inner.spec.shape, strict=True)]
    ):
        number, inside = divmod(number, count)
        coords[axis] = origin[axis] // size + inside
    return tuple(coords)


def _size(array: BoundArray, key: str) -> int | None:
    """Return the size of a stored value, or None if the store cannot tell without reading it."""
    store = array.chunk_store
    if not isinstance(store, HasSizes):
        return None
    size = store.sizes([key]).get(key)
    if size is None:
        raise StoreError("is listed, but has no readable value")
    return size
