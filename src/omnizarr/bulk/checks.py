"""Checks of stored chunks and shards, and the report of what they found.

Sizes and checksums are compared, or everything is decoded. Whole shards are decoded by the compiled
kernel, into memory that is used again. What it does not do, damaged shards among them, is checked
again chunk by chunk to find out what is wrong.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import lt
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from omnizarr import extension
from omnizarr.bulk.journal import Outcome, in_batches
from omnizarr.bulk.options import Depth
from omnizarr.errors import ChunkError, OmnizarrError, Problem, StoreError, error_context
from omnizarr.extension import BoundArray, Range, Shards, boxes, counted, kernel, paths, stores

Coords: TypeAlias = tuple[int, ...]
Level: TypeAlias = Literal["error", "warning"]
Kind: TypeAlias = Literal[
    "metadata",  # a document breaks a rule of its specification
    "unsupported",  # an extension is unknown here, so that chunks cannot be checked
    "damaged-chunk",
    "missing-chunk",
    "outside-chunk",  # stored, but outside the array's shape
    "incomplete",  # the writer of a node was interrupted, or is at work
    "stale-consolidated",
    "convention",  # OME-Zarr, CF or GeoZarr
    "orphan",  # a key that belongs to no node
    "leftover",  # temporary files, locks, unfinished nodes, journals
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_FINDINGS = 10_000  # of each kind that a report lists; the others are only counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: the node, the key, the chunk or field if there is one, and the reason.

    `kind` is one of `KINDS`. Findings in documents have the `field`, also as a JSON `pointer`
    (RFC 6901), and the `rule`: the section of the specification that applies.
    """

    path: str
    key: str
    message: str
    chunk: Coords | None = None
    level: Level = "error"
    kind: Kind = "damaged-chunk"
    field: str = ""
    rule: str = ""

    @classmethod
    def of(cls, problem: Problem, path: str, kind: Kind, rule: str = "") -> Finding:
        """Return the finding for a problem of a document of the node at a path."""
        rule = rule or extension.section_of(problem)
        return cls(
            paths.show(path), problem.key, problem.message, None, problem.level, kind,
            problem.field, rule,
        )  # fmt: skip

    @property
    def pointer(self) -> str:
        """The field as a JSON pointer."""
        return Problem(self.key, self.field, "").pointer

    def __str__(self) -> str:
        chunk = "" if self.chunk is None else f" chunk {self.chunk}"
        place = f"{self.key!r}, {self.field}" if self.field else repr(self.key)
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{self.path}{chunk} ({place}): {self.message}{rule}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        stored = dataclasses.asdict(self)
        stored["chunk"] = None if self.chunk is None else list(self.chunk)
        return {**stored, "pointer": self.pointer if self.field else ""}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_json` wrote."""
        values = {name: value for name, value in stored.items() if name != "pointer"}
        chunk = values.pop("chunk", None)
        return cls(chunk=None if chunk is None else tuple(chunk), **values)


# Members of the JSON that follow from others.
_DERIVED = ("ok", "complete", "omitted", "errors", "warnings")


@dataclass
class VerifyReport(Outcome):
    """The result of `verify`: counts of checked items, and the problems found.

    At most `MAX_FINDINGS` findings of each kind are listed; `counts` has the number of all of them.
    """

    depth: Depth = "decode"
    groups: int = 0
    arrays: int = 0
    values: int = 0  # stored values that were checked: chunks, or shards
    chunks: int = 0  # stored chunks; for shards, their inner chunks
    unchecked: int = 0  # stored chunks without a checksum to compare
    skipped: int = 0  # stored values that were not chosen by `sample`
    absent: int = 0  # missing chunks, which read as the fill value
    bytes_read: int = 0
    tasks: int = 0  # that are done, and all that there are
    tasks_total: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # of all findings, by kind
    error_counts: Counter[str] = field(default_factory=Counter)  # of errors among them

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(self.error_counts.values())

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return sum(self.counts.values()) - self.errors

    @property
    def ok(self) -> bool:
        """True if nothing is damaged; warnings do not count."""
        return not self.errors

    @property
    def complete(self) -> bool:
        """True if everything was checked, not only a part of the job (`part`)."""
        return self.tasks == self.tasks_total

    @property
    def omitted(self) -> int:
        """The number of findings that are counted but not listed."""
        return sum(self.counts.values()) - len(self.findings)

    def add(self, *findings: Finding) -> None:
        """Count findings, and list them unless there are too many of their kind."""
        self._list(findings)
        self.counts.update(each.kind for each in findings)
        self.error_counts.update(each.kind for each in findings if each.level == "error")

    def report(
        self, path: str, key: str, message: object, kind: Kind, level: Level = "warning",
        chunk: Coords | None = None,
    ) -> None:  # fmt: skip
        """Add a finding on the node at a path."""
        self.add(Finding(paths.show(path), key, str(message), chunk, level, kind))

    def _list(self, findings: Iterable[Finding]) -> None:
        listed = Counter(self.counts)
        for each in findings:
            if listed[each.kind] < MAX_FINDINGS:
                self.findings.append(each)
            listed[each.kind] += 1

    def merge(self, other: Self) -> None:
        """Add the result of another part; its findings are listed up to the limit."""
        self._list(other.findings)
        self.depth = other.depth
        super().merge(dataclasses.replace(other, findings=[]))

    def select(self, errors: Collection[str] = (), ignore: Collection[str] = ()) -> VerifyReport:
        """Return the report with warnings of some kinds as errors, and without other kinds."""
        kept = Counter({kind: n for kind, n in self.counts.items() if kind not in ignore})
        bad = Counter({k: n if k in errors else self.error_counts[k] for k, n in kept.items()})
        found = [
            dataclasses.replace(f, level="error") if f.kind in errors else f
            for f in self.findings
            if f.kind not in ignore
        ]
        return dataclasses.replace(self, findings=found, counts=kept, error_counts=+bad)

    def finish(self) -> None:
        """Sort the findings by path, key and chunk."""
        self.absent = max(0, self.absent)  # a chunk may be stored under two keys
        self.findings.sort(key=lambda f: (f.path, f.key, f.chunk or (), f.field))

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON; docs/checking.md describes it."""
        derived = {name: getattr(self, name) for name in _DERIVED}
        return {**vars(self), "findings": [each.to_json() for each in self.findings], **derived}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the report that `to_json` wrote."""
        values = {k: v for k, v in stored.items() if k not in _DERIVED}
        values["findings"] = [Finding.from_json(each) for each in stored["findings"]]
        values |= {name: Counter(stored[name]) for name in ("counts", "error_counts")}
        return cls(**values)

    def __str__(self) -> str:
        unchecked = f" ({self.unchecked} without a checksum)" if self.unchecked else ""
        skipped = f", {counted(self.skipped, 'value')} not sampled" if self.skipped else ""
        omitted = f" ({self.omitted} of them not listed)" if self.omitted else ""
        part = "" if self.complete else "a part of the verification: "
        missing = f"{self.absent} missing" if self.complete else "others missing or unchecked"
        return (
            f"{part}{counted(self.groups, 'group')}, {counted(self.arrays, 'array')},"
            f" {counted(self.chunks, 'chunk')} stored{unchecked}{skipped}, {missing},"
            f" {counted(self.bytes_read, 'byte')} read;"
            f" {counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}{omitted}"
        )


# Chunks and shards

CHECKSUM_CODECS = frozenset({"crc32c", *(extension.PREFIX + id_ for id_ in extension.CHECKSUMS)})
SLAB_BYTES = 2**24  # of a shard that the kernel decodes with one call
BATCH_BYTES = 2**24  # of chunks that are read together
DELETED = "was deleted while it was being checked"
InnerRange: TypeAlias = tuple[Coords, Range]  # an inner chunk and its bytes in the shard


def inner_ranges(array: BoundArray, coords: Coords) -> list[range]:
    """Return the chunks of the array in one stored value: itself, or the inner chunks of a shard.

    Those outside the array do not count.
    """
    inner = extension.inner_chunk_shape(array.model)
    if inner is None:
        return [range(c, c + 1) for c in coords]
    shape, origin = array.grid.chunk_shape(coords), array.grid.origin(coords)
    counts = extension.chunk_counts(array)
    return [
        range(o // c, min(o // c + -(-n // c), count))
        for o, n, c, count in zip(origin, shape, inner, counts, strict=True)
    ]


@dataclass(frozen=True)
class CheckChunks:
    """Check some stored values of one array; the work of a task.

    Of each it has the key, the coordinates, and the size if a listing has it. With `probe` the
    store cannot list its keys, so that values may be missing.
    """

    array: BoundArray
    values: tuple[tuple[str, Coords, int | None], ...]
    depth: Depth
    probe: bool = False

    def __call__(self) -> VerifyReport:
        return _Check(self).run()


@dataclass
class _Stored:
    """A stored value: a chunk or a shard."""

    key: str
    coords: Coords
    inside: bool  # the chunk grid
    size: int | None  # None if it is not known
    shown: str  # the key that findings name: of the value that a storage transformer put it into


class _Check:
    """One task: the result so far, and what its chunks share."""

    def __init__(self, task: CheckChunks) -> None:
        self.task, self.array, self.depth = task, task.array, task.depth
        self.store: Any = task.array.chunk_store
        self.report = VerifyReport(task.depth, tasks=1)
        self._memory: npt.NDArray[Any] | None = None

    def run(self) -> VerifyReport:
        task, shape = self.task, self.array.grid.shape
        stored = [
            _Stored(key, coords, all(map(lt, coords, shape)), size, key)
            for key, coords, size in task.values
        ]
        if task.probe:
            there = stores.get_many(self.array.store, [(v.key, Range(0, 1)) for v in stored])
            stored = [v for v, data in zip(stored, there, strict=True) if data is not None]
        self.report.values += len(stored)
        for value in stored:
            if not value.inside:
                place = self.array.path, value.key, f"is outside the shape {self.array.model.shape}"
                self.report.report(*place, "outside-chunk", "warning", value.coords)
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

    def _damaged(self, key: str, message: object, chunk: Coords) -> None:
        self.report.report(self.array.path, key, message, "damaged-chunk", "error", chunk)

    @contextmanager
    def _reporting(self, key: str, chunk: Coords) -> Iterator[None]:
        """Report an error of the block as a damaged chunk."""
        try:
            yield
        except OmnizarrError as e:
            self._damaged(key, e, chunk)

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
        if unknown and isinstance(self.store, extension.base.HasSizes):
            with suppress(OmnizarrError):  # `_size` will tell which of them cannot be read
                found = self.store.sizes(unknown)
                for value in values:
                    value.size = found.get(value.key, value.size)

    def _size(self, value: _Stored) -> int | None:
        """Return the size of a value, or None if the store cannot tell without reading it."""
        if value.size is None and isinstance(self.store, extension.base.HasSizes):
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
            found = stores.get_many(self.store, [(value.key, None) for value in batch])
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

    def _check_bytes(self, pipeline: extension.CodecPipeline, data: extension.Buffer) -> None:
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
        size, there = self._size(value), extension.present(index)
        self.report.chunks += len(there)
        sides, order = inner_ranges(self.array, value.coords), np.argsort(axes)
        if value.inside:
            is_there = np.zeros(shards.layout.count, bool)
            is_there[there] = True
            grid = is_there.reshape(shards.layout.counts).transpose(order)
            self.report.absent -= int(grid[tuple(slice(len(side)) for side in sides)].sum())
        before = self.report.errors
        ranges: list[InnerRange] = []
        places: dict[Coords, Coords] = {}  # of inner chunks in the shard, by coordinates

        def context(coords: Coords) -> error_context:  # as errors of reading name inner chunks
            return error_context(f"inner chunk {places[coords]} of chunk {value.coords}")

        for number in there:
            place = tuple(map(int, np.unravel_index(number, shards.counts)))
            coords = tuple(side.start + place[i] for side, i in zip(sides, order, strict=True))
            places[coords] = place
            with self._reporting(value.shown, coords), context(coords):
                where = extension.chunk_range(index, number)
                if where is not None:
                    _check_range(where, shards, size)
                    ranges.append((coords, where))
        for coords, message in _overlaps(ranges):
            self._damaged(value.shown, message, coords)
        if self.depth == "present":
            return
        is_sound = self.report.errors == before
        if is_sound and self.depth == "decode" and self._decode_shard(value):
            self.report.bytes_read += int(index[there, 1].sum())
            return
        for batch in in_batches(ranges, lambda part: part[1].length or 0, BATCH_BYTES):
            several = stores.get_many(self.store, [(value.key, where) for _, where in batch])
            for (coords, where), data in zip(batch, several, strict=True):
                with self._reporting(value.shown, coords), context(coords):
                    self._check_bytes(shards.inner, extension.check_length(where, data))

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
        whole, inner = self._whole, extension.inner_chunk_shape(self.array.model)
        chunk = self.array.grid.regular
        if whole is None or inner is None or chunk is None or not value.inside:
            return False
        origin = self.array.grid.origin(value.coords)
        for box in boxes.cut(
            [*map(extension.RegularAxis, chunk, inner)], SLAB_BYTES // whole.dtype.itemsize
        ):
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
            plan = extension.axis_plan(whole.grid, placed)
            if kernel.read(whole, plan, out, skip_missing=False) != []:
                return False
        return True


def _check_length(size: int | None, pipeline: extension.CodecPipeline) -> None:
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
