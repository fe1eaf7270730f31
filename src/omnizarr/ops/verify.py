"""Verify that everything stored of a hierarchy can be read, chunk by chunk.

The store is listed once. Every key is a document, a chunk of an array, or belongs to nobody;
chunks are looked at by a few threads, each with one chunk, or a few of a shard, in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from omnizarr import stores
from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.sharding import Shards, complete, present, span
from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import for_each
from omnizarr.engine import BoundArray
from omnizarr.errors import ChunkError, InvalidArgument, OmnizarrError, StoreError
from omnizarr.formats import Format, Probe, consolidated
from omnizarr.hierarchy.chunks import absent_keys, chunk_counts, unlisted_keys
from omnizarr.hierarchy.info import counted
from omnizarr.hierarchy.location import Location, below
from omnizarr.hierarchy.lookup import fetch_probe, locate
from omnizarr.model import ArrayModel, Node, paths
from omnizarr.model.node import CHECKSUMS, PREFIX
from omnizarr.stores import Range, file_root, get_many, list_prefix
from omnizarr.stores.base import TellsSizes
from omnizarr.stores.local.files import folders_below
from omnizarr.stores.staging import FOLDER, MARKER, interrupted

Progress: TypeAlias = Callable[[int, int, str], None]
DEPTHS = ("present", "checksums", "decode")
Missing: TypeAlias = Literal["count", "warn", "error"]
MISSING = ("count", "warn", "error")
MOST_ABSENT = 100_000  # chunks of one array that are told one by one
ENOUGH = 2**30  # chunks and bytes that are worth all threads


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong: with which node, under which key, in which chunk, and why."""

    path: str
    key: str
    message: str
    chunk: tuple[int, ...] | None = None
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        chunk = "" if self.chunk is None else f" chunk {self.chunk}"
        return f"{self.path}{chunk} ({self.key!r}): {self.message}"


@dataclass
class VerifyReport:
    """What was looked at and what is wrong with it."""

    depth: Depth
    groups: int = 0
    arrays: int = 0
    chunks: int = 0  # that are stored; of shards, those inside them
    unchecked: int = 0  # of these, those without a checksum to compare
    absent: int = 0  # that the grids have and the store has not: they read as the fill value
    bytes_read: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged; warnings do not count."""
        return all(f.level != "error" for f in self.findings)

    def __str__(self) -> str:
        bad = sum(f.level == "error" for f in self.findings)
        unchecked = f" ({self.unchecked} without a checksum)" if self.unchecked else ""
        return (
            f"{counted(self.groups, 'group')}, {counted(self.arrays, 'array')},"
            f" {counted(self.chunks, 'chunk')} stored{unchecked}, {self.absent} absent,"
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
    """Look at everything stored at and below a path, and tell all that is wrong with it.

    Depth ``present`` reads no chunks, only indexes of shards, and compares sizes;
    ``checksums`` reads every chunk and compares its checksum, where the codecs have one;
    ``decode`` decodes every chunk. Each does what those before it do. Chunks that are absent are
    counted; `missing` ``warn`` or ``error`` makes each of them a finding with its key, for arrays
    of which every chunk must be stored (`write_empty_chunks`). `progress` is called with chunks
    done, chunks found so far, and an array's path.
    """
    if depth not in DEPTHS:
        raise InvalidArgument(f"depth must be one of {DEPTHS}, got {depth!r}")
    if missing not in MISSING:
        raise InvalidArgument(f"missing must be one of {MISSING}, got {missing!r}")
    where = stores.resolve(store, read_only=True, storage_options=storage_options)
    location, node = locate(where, paths.normalize(path))
    work = _Verification(location, VerifyReport(depth), progress, missing)
    work.read_nodes(node)
    for_each(work.chunks(), ENOUGH, work.check, ENOUGH, waits=False)
    work.finish()
    return work.report


class _Verification:
    """One run: what is known of the nodes, and what was found so far."""

    def __init__(
        self,
        start: Location,
        report: VerifyReport,
        progress: Progress | None = None,
        missing: Missing = "count",
    ) -> None:
        self.start, self.report, self.progress, self.missing = start, report, progress, missing
        self.arrays: dict[str, BoundArray] = {}  # by what the keys of their chunks start with
        self.unknown: dict[str, BoundArray] = {}  # those whose chunks cannot be checked
        self.documents: set[str] = set(start.format.root_documents())
        # What a conversion in place leaves beside the documents that count.
        self.formats = probe_formats(start)
        self.found: dict[str, int] = {}  # chunks of each array in its grid
        self.listed = self.done = 0
        self.lock = fork.lock()

    def read_nodes(self, root: Node) -> None:
        """Bind every array; what cannot be is a finding."""
        for place, node in below(self.start, root):
            keys = place.format.keys(place.path)
            for format in self.formats:
                self.documents.update(format.keys(place.path))
            if isinstance(node, Exception):
                self._tell(place.path, keys[0], str(node))
            elif isinstance(node, ArrayModel):
                self.report.arrays += 1
                self._bind(place, node, keys[0])
            else:
                self.report.groups += 1
                copies = (consolidated.key(format, place.path) for format in self.formats)
                self.documents.update(key for key in copies if key is not None)

    def _bind(self, place: Location, node: ArrayModel, key: str) -> None:
        prefix = place.format.chunk_prefix(place.path)
        array = BoundArray(place.store, place.path, prefix, node)
        try:
            array.check()
            _ = array.encoding, array.chunk_store
            if 0 not in array.grid.shape:
                _ = array.first_chain
        except OmnizarrError as e:
            self._tell(place.path, key, f"its chunks cannot be checked: {e}")
            self.unknown[prefix] = array
            return
        self.arrays[prefix] = array
        self.found[prefix] = 0

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, or shard, that is stored; other keys are findings."""
        start = self.start
        listed: set[str] = set()
        for prefix in start.format.owned(start.path)[1]:
            for key in list_prefix(start.store, prefix):
                array = self._owner(key)
                if array is None:
                    self._stray(key)
                    continue
                if array.prefix in self.unknown:
                    self._unchecked(array, key)
                    continue
                inside = key[len(array.prefix) :]
                coords = array.encoding.coords(inside, len(array.model.shape))
                if coords is not None:
                    self.listed += 1
                    listed.add(array.prefix)
                    yield Chunk(array, coords, key)
                else:
                    self._stray(key)
        for prefix in self.arrays.keys() - listed:
            for coords, key in unlisted_keys(self.arrays[prefix]):
                self.listed += 1
                yield Chunk(self.arrays[prefix], coords, key)

    def _owner(self, key: str) -> BoundArray | None:
        """The array that a key may be a chunk of: the innermost one around it."""
        end = len(key)
        while end > 0:
            end = key.rfind("/", 0, end)
            prefix = key[: end + 1]
            found = self.arrays.get(prefix) or self.unknown.get(prefix)
            if found is not None:
                return found
        return None

    def _unchecked(self, array: BoundArray, key: str) -> None:
        """Count a chunk of an array that cannot be bound; other keys belong to nobody."""
        try:
            coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
        except OmnizarrError:
            return  # how its keys are made is not known either
        if coords is None:
            self._stray(key)
        else:
            self.report.chunks += 1
            self.report.unchecked += 1

    def _stray(self, key: str) -> None:
        if key.startswith(f"{FOLDER}/"):
            return  # told once for all of its keys
        if paths.name(key) == MARKER:
            message = "the node here is incomplete: its writer was interrupted, or is at it"
            self._tell(key.rpartition("/")[0], key, message)
        elif key not in self.documents:
            message = "belongs to no array or group"
            self._tell(self.start.path, key, message, level="warning")

    def check(self, stored: Chunk) -> None:
        """Look at one stored value; what is wrong is a finding."""
        array, faults = stored.array, Faults()
        try:
            for chunk in chunk_keys(stored):
                self._check_one(chunk, faults)
        except OmnizarrError as e:
            self._tell(array.path, stored.key, str(e), stored.coords)
        for coords, message in faults.told:
            self._tell(array.path, stored.key, message, coords)
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
            message = f"lies outside the shape {array.model.shape}"
            self._tell(array.path, chunk.key, message, chunk.coords, "warning")

    def finish(self) -> None:
        """Count what is absent, and put the findings into order."""
        for prefix, array in self.arrays.items():
            absent = max(0, math.prod(chunk_counts(array)) - self.found[prefix])
            self.report.absent += absent
            if absent and self.missing != "count":
                self._tell_absent(array)
        store: Any = self.start.store
        root = file_root(store)
        if root is not None:
            self._tell_folders(root)
        for staged in interrupted(store):
            message = "a node that was being written, or is now; see omnizarr repair"
            level: Literal["error", "warning"] = "error" if staged.complete else "warning"
            self._tell(self.start.path, f"{FOLDER}/{staged.name}", message, level=level)
        for key in store.leftovers() if hasattr(store, "leftovers") else ():
            if key.startswith(paths.prefix(self.start.path)):
                message = "is half written: its writer stopped, or is at it; see omnizarr repair"
                self._tell(self.start.path, key, message, level="warning")
        self.report.findings.sort(key=lambda f: (f.path, f.key, f.chunk or ()))

    def _tell_folders(self, root: Path) -> None:
        """Tell of folders in the place of a chunk's file, which reads as if it were absent."""
        for prefix in self.start.format.owned(self.start.path)[1]:
            top = os.path.join(root, prefix)
            for name in folders_below(top, os.path.join(root, "")):
                key = prefix + name
                array = self._owner(key)
                if array is None or array.prefix in self.unknown:
                    continue
                coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
                if coords is not None:
                    message = "is a folder, not a file; the chunk reads as the fill value"
                    self._tell(array.path, key, message, coords)

    def _tell_absent(self, array: BoundArray) -> None:
        level: Literal["error", "warning"] = "error" if self.missing == "error" else "warning"
        message = "is absent, and reads as the fill value"
        for number, (coords, key) in enumerate(absent_keys(array)):
            if number == MOST_ABSENT:
                left = math.prod(chunk_counts(array)) - self.found[array.prefix] - number
                self._tell(array.path, key, f"and {left} further chunks are absent", level=level)
                break
            self._tell(array.path, key, message, coords, level)

    def _tell(
        self,
        path: str,
        key: str,
        message: str,
        chunk: tuple[int, ...] | None = None,
        level: Literal["error", "warning"] = "error",
    ) -> None:
        with self.lock:
            self.report.findings.append(Finding(paths.show(path), key, message, chunk, level))


def probe_formats(start: Location) -> list[Format]:
    """Return the formats that have documents where the verification starts, the one used first."""
    probe = Probe(start.path)
    found = probe.formats(fetch_probe(start.store, probe), [])
    others = [format for format in found if type(format) is not type(start.format)]
    return [start.format, *others]


Depth: TypeAlias = Literal["present", "checksums", "decode"]
Coords: TypeAlias = tuple[int, ...]
CHECKSUM_CODECS = frozenset({"crc32c", *(PREFIX + id_ for id_ in CHECKSUMS)})
BATCH = 2**24  # bytes of a shard that are fetched together


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk, or shard, and the key that it is stored under."""

    array: BoundArray
    coords: Coords
    key: str


@dataclass
class Faults:
    """What was found in one stored value."""

    chunks: int = 0
    unchecked: int = 0
    nbytes: int = 0
    told: list[tuple[Coords, str]] = field(default_factory=list)


def chunk_keys(stored: Chunk) -> Iterator[Chunk]:
    """The chunks as the codecs see them: several where a storage transformer packs them."""
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
    """Look at one chunk; what is wrong with parts of a shard is told one by one."""
    array = chunk.array
    chain = array.chain(array.grid.chunk_shape(chunk.coords))
    if chain.sharded is not None:
        _check_shard(chunk, chain.sharded[0], chain.sharded[1], depth, faults)
        return
    faults.chunks += 1
    if depth == "present":
        size = _size(array, chunk.key)
        if None not in (size, chain.encoded_size) and size != chain.encoded_size:
            raise ChunkError(f"has {size} bytes, expected {chain.encoded_size}")
        return
    data = array.chunk_store.get(chunk.key)
    if data is None:
        raise StoreError("vanished while it was looked at")
    _check_bytes(chain, data, depth, faults)


def _check_bytes(chain: Chain, data: Buffer, depth: Depth, faults: Faults) -> None:
    faults.nbytes += len(data)
    if depth == "decode":
        chain.decode(data)
        return
    if chain.encoded_size is not None and len(data) != chain.encoded_size:
        raise ChunkError(f"has {len(data)} bytes, expected {chain.encoded_size}")
    step, size = chain.bytes_bytes[-1] if chain.bytes_bytes else (None, None)
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
        raise StoreError("vanished while it was looked at")
    index = shards.index(stored)
    faults.nbytes += len(stored)
    size = _size(array, chunk.key)
    places: list[tuple[Coords, Range]] = []
    for number in present(index):
        faults.chunks += 1
        coords = _place(chunk, shards, axes, number)
        try:
            where = span(index, number)
            if where is not None:
                _check_span(where, shards, size)
                places.append((coords, where))
        except OmnizarrError as e:
            faults.told.append((coords, str(e)))
    _tell_overlaps(places, faults)
    if depth != "present":
        for some in _batches(places):
            _check_inner(chunk, shards.inner, some, depth, faults)


def _tell_overlaps(places: list[tuple[Coords, Range]], faults: Faults) -> None:
    """Tell of chunks that share some of their bytes; those of equal chunks may be the same."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(places, key=lambda place: (place[1].start, place[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            faults.told.append((coords, f"the index gives it {shared}, which are chunk {known}'s"))
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def _check_span(where: Range, shards: Shards, size: int | None) -> None:
    """Raise where a chunk does not lie in the shard, beside its index."""
    layout, end = shards.layout, where.start + (where.length or 0)
    low = 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    if where.start < low or (high is not None and end > high):
        raise ChunkError(
            f"the index names bytes {where.start} to {end}, but chunks lie from {low} to {high}"
        )
    expected = shards.inner.encoded_size
    if expected is not None and where.length != expected:
        raise ChunkError(f"has {where.length} bytes, expected {expected}")


def _check_inner(
    chunk: Chunk, inner: Chain, some: list[tuple[Coords, Range]], depth: Depth, faults: Faults
) -> None:
    found = get_many(chunk.array.chunk_store, [(chunk.key, where) for _, where in some])
    for (coords, where), data in zip(some, found, strict=True):
        try:
            _check_bytes(inner, complete(where, data), depth, faults)
        except OmnizarrError as e:
            faults.told.append((coords, str(e)))


def _batches(places: list[tuple[Coords, Range]]) -> Iterator[list[tuple[Coords, Range]]]:
    some: list[tuple[Coords, Range]] = []
    total = 0
    for coords, where in places:
        if some and total + (where.length or 0) > BATCH:
            yield some
            some, total = [], 0
        some.append((coords, where))
        total += where.length or 0
    if some:
        yield some


def _place(chunk: Chunk, shards: Shards, axes: Coords, number: int) -> Coords:
    """A chunk of a shard, by its place in the array's grid of such chunks."""
    place = [0] * len(axes)
    origin = chunk.array.grid.origin(chunk.coords)
    for axis, count, size in reversed(
        [*zip(axes, shards.counts, shards.inner.spec.shape, strict=True)]
    ):
        number, inside = divmod(number, count)
        place[axis] = origin[axis] // size + inside
    return tuple(place)


def _size(array: BoundArray, key: str) -> int | None:
    """Bytes of a stored value, where the store can tell without fetching it."""
    store = array.chunk_store
    if not isinstance(store, TellsSizes):
        return None
    size = store.sizes([key]).get(key)
    if size is None:
        raise StoreError("is listed, but there is no value that can be read")
    return size
