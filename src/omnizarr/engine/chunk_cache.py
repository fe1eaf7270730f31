"""The cache of decoded chunks and shard indexes, and reading through it.

``with omnizarr.configure(chunk_cache="256MB")`` keeps up to 256 MB until the block ends.
Before every use the store is asked for the generation of the key, so that a value that anybody
changed is read again; a store without generations is read without the cache. Of shards the inner
chunks are kept, not the shard. Two threads that want the same chunk decode it once. Items of
variable length are not kept: they may be objects that a caller could change. If the store has a
high latency, the generations and values of many chunks are fetched side by side.

A read with the cache fetches no more than one without: chunks of which nothing is kept are fetched
without asking for their generation first, a part of a chunk that can be read alone is not kept, and
reads of more than the cache can hold go around it. Where the kernel reads, it is quick: chunks that
it decodes in little time are not kept at all, others from the second time on that they are read.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs import CodecPipeline
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.pipeline import map_missing, report_missing
from omnizarr.codecs.sharding import MAX_GAP, Shards, inner_chunk_context, split_joined
from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import for_each, in_parallel, sends_requests
from omnizarr.config import ByteBudget
from omnizarr.engine import kernel, reference
from omnizarr.engine.binding import BoundArray, chunk_context
from omnizarr.engine.missing_chunks import FilledParts
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.stores import Range, Versioned, file_root, get_many, has_low_latency
from omnizarr.stores.byte_ranges import join_ranges

Values: TypeAlias = npt.NDArray[Any]
Name: TypeAlias = tuple[Any, ...]  # of a store, codecs, key and generation; of a part of a shard
KEY = 3  # members of a name before the generation
ENTRY = 512  # bytes that an entry takes besides its values
PART = 16  # a read of less than one part in so many of a chunk is small
MAX_SEEN = 2**14  # names of chunks that were read, but are not kept
WORTH = 2**21  # bytes that the kernel decodes with LZ4 in the time that makes keeping them worth it
_COSTS = {"gzip": 8, "numcodecs.zlib": 8, "zstd": 4}  # of decoding a byte, as a multiple of LZ4's


@dataclass(slots=True)
class Loading:
    """A chunk that a thread is loading."""

    done: threading.Event = field(default_factory=threading.Event)
    values: Values | None = None  # None when done: it failed


class ChunkCache:
    """Arrays by key, up to a number of bytes; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._kept: OrderedDict[Name, Values] = OrderedDict()
        self._loading: dict[Name, Loading] = {}
        self._keys: Counter[Hashable] = Counter()  # arrays that are kept of each value
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = fork.lock()

    def get(
        self, names: Sequence[Name], load: Callable[[list[int]], Sequence[Values]]
    ) -> list[Values]:
        """Return the arrays of all names; `load` takes the indices of missing ones and loads them.

        Arrays that another thread is loading already are waited for.
        """
        found: list[Values | None] = [None] * len(names)
        mine: dict[int, Loading] = {}
        theirs: dict[int, Loading] = {}
        try:
            with self._lock:
                for i, name in enumerate(names):
                    found[i] = self._kept.get(name)
                    loading = self._loading.get(name)
                    if found[i] is not None:
                        self._kept.move_to_end(name)
                    elif loading is None:
                        mine[i] = self._loading[name] = Loading()
                    else:
                        theirs[i] = loading
            if mine:
                for i, values in zip(mine, load(list(mine)), strict=True):
                    found[i] = mine[i].values = values
                    self.keep(names[i], values)
        finally:
            with self._lock:
                for i, own in mine.items():
                    if self._loading.get(names[i]) is own:
                        del self._loading[names[i]]
                    own.done.set()
        # Nobody waits before its own are done, so that no two wait for each other.
        for i, loading in theirs.items():
            loading.done.wait()
            found[i] = loading.values
        failed = [i for i, values in enumerate(found) if values is None]
        for i, values in zip(failed, load(failed) if failed else (), strict=True):
            found[i] = values
        return [values for values in found if values is not None]

    def keep(self, name: Name, values: Values) -> None:
        """Keep an array, which nobody may change from now on."""
        values.flags.writeable = False  # many callers see it
        if _cost(values) > self.limit:
            return
        with self._lock:
            if name in self._kept:
                self._drop(name)
            self._kept[name] = values
            self._keys[name[:KEY]] += 1
            self.nbytes += _cost(values)
            while self.nbytes > self.limit:
                self._drop(next(iter(self._kept)))

    def _drop(self, name: Name) -> None:
        self.nbytes -= _cost(self._kept.pop(name))
        self._keys[name[:KEY]] -= 1
        if not self._keys[name[:KEY]]:
            del self._keys[name[:KEY]]

    @contextmanager
    def first(self, key: Name) -> Iterator[bool]:
        """Yield True if nothing of a value is kept; other threads then wait for this one.

        If another thread is fetching the value already, wait for it.
        """
        own = None
        with self._lock:
            theirs = self._loading.get(key)
            if key not in self._keys and theirs is None:
                own = self._loading[key] = Loading()
        try:
            if theirs is not None:
                theirs.done.wait()
            yield own is not None
        finally:
            if own is not None:
                with self._lock:
                    if self._loading.get(key) is own:
                        del self._loading[key]
                    own.done.set()

    def has(self, name: Name) -> bool:
        """Return True if an array is kept, or any part of a value in any generation."""
        with self._lock:
            return name in self._keys or name in self._kept

    def note(self, keys: Sequence[Name]) -> bool:
        """Note that values are read; return True if any was read before or is kept."""
        with self._lock:
            found = any(key in self._seen or key in self._keys for key in keys)
            for key in keys:
                self._seen[key] = None
                self._seen.move_to_end(key)
            while len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
            return found


def _cost(values: Values) -> int:
    return values.nbytes + ENTRY


_caches: WeakKeyDictionary[ByteBudget, ChunkCache] = WeakKeyDictionary()
_lock = fork.lock()


class _Nesting(threading.local):
    """True while this thread is in the middle of a read through a cache."""

    inside = False


_nesting = _Nesting()


def current() -> ChunkCache | None:
    """Return the cache of the current settings, or None."""
    budget = config.get().chunk_cache
    if budget is None:
        return None
    with _lock:
        cache = _caches.get(budget)
        if cache is None:
            cache = _caches[budget] = ChunkCache(budget.nbytes)
        return cache


@contextmanager
def entered() -> Iterator[ChunkCache | None]:
    """Yield the cache to read through, or None.

    A finaliser or signal handler during such a read gets None: it might wait for what
    its own thread is loading, or for a thread that waits for this one.
    """
    if _nesting.inside or sends_requests():
        yield None
        return
    nesting = _nesting
    nesting.inside = True
    try:
        yield current()
    finally:
        nesting.inside = False


def _forget() -> None:
    """Start anew in a forked child, which has none of the threads that caches may wait for."""
    global _caches, _nesting
    _caches, _nesting = WeakKeyDictionary(), _Nesting()


fork.on_fork(in_child=_forget)


Known: TypeAlias = "tuple[dict[str, str | None], dict[str, Fetched]]"
NOTHING: Known = ({}, {})


class Changed(Exception):
    """Raised when a key got another value after its generation was read."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A byte range of a value, or all of it (None), that was fetched ahead."""

    part: Range | None
    data: bytes | None
    generation: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """One generation of one key's value; reading another one raises `Changed`."""

    store: Any
    key: str
    generation: str
    fetched: Fetched | None = None

    def parts(self, ranges: Sequence[Range | None]) -> list[Buffer]:
        """Return several byte ranges, all of this generation; None is the whole value."""
        out: list[Buffer] = []
        if len(ranges) > 1 and hasattr(self.store, "get_many"):
            found = get_many(self.store, [(self.key, part) for part in ranges])
            out += [data for data in found if data is not None]
            if len(out) != len(ranges) or self.store.generation(self.key) != self.generation:
                raise Changed
            return out
        for part in ranges:
            if self.fetched is not None and self.fetched.part == part:
                data, generation = self.fetched.data, self.fetched.generation
            else:
                data, generation = self.store.get_versioned(self.key, part)
            if data is None or generation != self.generation:
                raise Changed
            out.append(data)
        return out


def can_cache(array: BoundArray, record_missing: bool) -> bool:
    """Return True if chunks of an array can be kept.

    Their store must tell generations, and their items must be of a kind that no caller can change.
    Nested shards, of which a kept one no longer shows what is missing, are not kept if missing
    chunks are recorded.
    """
    store = array.chunk_store
    if not isinstance(store, Versioned) or array.data_type.variable or array.codecs_key is None:
        return False
    if not record_missing:
        return not kernel.reads(array) or _decoding_cost(array.first_pipeline) >= WORTH
    pipeline = array.first_pipeline
    kept = pipeline if pipeline.sharded is None else pipeline.sharded[0].inner
    return not isinstance(kept.array_bytes, Shards)


def _decoding_cost(pipeline: CodecPipeline) -> int:
    """Estimate the time to decode a chunk, in bytes that LZ4 would decode meanwhile."""
    if pipeline.sharded is not None:
        return _decoding_cost(pipeline.sharded[0].inner)
    costs = [_COSTS.get(getattr(c, "name", ""), 1) for c, _ in pipeline.bytes_bytes]
    return max(costs, default=0) * (pipeline.spec.nbytes or 0)


def fits(cache: ChunkCache, array: BoundArray, plan: Plan, nbytes: int) -> bool:
    """Return True if all chunks that a read of `nbytes` bytes touches fit into the cache.

    A small part of large chunks is not kept where the kernel reads parts; while nothing else is
    kept either, there is no need to look which chunks it touches.
    """
    pipeline = array.first_pipeline
    small = PART * nbytes < (pipeline.spec.nbytes or 0)
    if small and not cache.nbytes and pipeline.sharded is None and kernel.reads(array):
        box = tuple(slice(0, 1, 1) for _ in pipeline.spec.shape)
        if kernel.reads_part(pipeline, box, None):
            return False
    count = plan.count
    size = reference.estimate_fetched(array, nbytes // max(1, count)) + ENTRY
    return count * size <= cache.limit


def read(
    cache: ChunkCache,
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    filled: FilledParts | None = None,
) -> None:
    """Fill `out`, of the plan's full shape, from chunks in the cache or in the store."""
    _ = array.fill  # bound before threads ask for it
    store = array.source

    @functools.cache
    def name(shape: tuple[int, ...]) -> Name:
        # Another handle may read the same key as another type, or with other codecs.
        return store, array.pipeline_key(shape)

    def one(row: Row, known: Known = NOTHING) -> None:
        shape = array.grid.chunk_shape(row.coords)
        before, _nesting.inside = _nesting.inside, True  # this thread may be a helper
        try:
            _read_row(cache, name(shape), array, row, known, out, filled)
        finally:
            _nesting.inside = before

    rows, count = plan.rows(), plan.count
    if not count:
        return
    if filled is None and kernel.reads(array):
        several = [*rows]
        keys = [(*name(array.grid.chunk_shape(r.coords)), array.key(r.coords)) for r in several]
        parts = any(r.pick is not None and _is_part(array, r) for r in several)
        if not cache.note(keys) or (parts and not all(map(cache.has, keys))):
            _read_uncached(array, plan, out)
            return
        if not any(map(cache.has, keys)) and all(_is_part(array, r) for r in several):
            _read_uncached(array, plan, out)  # parts, none of which is kept
            return
        rows = iter(several)
    if file_root(array.store) is not None or not hasattr(array.store, "get_many"):
        for_each(rows, count, one, out.nbytes, waits=False)
        return
    # Requests that take long run side by side, those of many chunks at a time.
    batch = max(
        1, config.get().in_flight // (2 * reference.estimate_fetched(array, out.nbytes // count))
    )
    while some := [*itertools.islice(rows, batch)]:
        known = _fetch_ahead(cache, array, some, name)
        here = partial(one, known=known)
        for_each(iter(some), len(some), here, out.nbytes, waits=False)


def _fetch_ahead(
    cache: ChunkCache, array: BoundArray, rows: list[Row], name: Callable[[tuple[int, ...]], Name]
) -> Known:
    """Fetch the generations of some chunks, and the values or indexes that are not cached."""
    store = cast(Versioned, array.chunk_store)
    wanted: list[tuple[str, Range | None]] = []
    try:
        keys = [array.key(row.coords) for row in rows]
        names = [(*name(array.grid.chunk_shape(r.coords)), array.key(r.coords)) for r in rows]
        kept = [n[-1] for n in names if cache.has(n)]
        generations = dict(zip(kept, in_parallel(store.generation, kept), strict=True))
        for row, key, full in zip(rows, keys, names, strict=True):
            if key not in generations and _is_part(array, row):
                continue
            part = _first_part(array, row)
            if key in generations:
                held = (*full, generations[key])
                held = held if part is None else (*held, "index")
                if generations[key] is None or cache.has(held):
                    continue
            wanted.append((key, part))
        answers = in_parallel(lambda pair: store.get_versioned(*pair), wanted)
    except OmnizarrError:
        return NOTHING  # each row asks on its own, and its errors name the chunk
    fetched = {
        key: Fetched(part, *answer) for (key, part), answer in zip(wanted, answers, strict=True)
    }
    return generations, fetched


def _read_row(
    cache: ChunkCache,
    name: Name,
    array: BoundArray,
    row: Row,
    known: Known,
    out: Values,
    filled: FilledParts | None,
) -> None:
    key, store = array.key(row.coords), cast(Versioned, array.chunk_store)
    generation, fetched = known[0].get(key), known[1].get(key)
    if key in known[0] or fetched is not None:
        _read_value(cache, name, array, row, generation, fetched, out, filled)
        return
    with cache.first((*name, key)) as first:
        if first and _is_part(array, row):
            reference.read_row(array, row, out, filled)
            return
        with chunk_context("read", array, row.coords):
            if first:
                part = _first_part(array, row)
                fetched = Fetched(part, *store.get_versioned(key, part))
            else:
                generation = store.generation(key)
        _read_value(cache, name, array, row, generation, fetched, out, filled)


def _first_part(array: BoundArray, row: Row) -> Range | None:
    """Return the byte range to fetch first: the index of a shard, None for a whole value."""
    sharded = array.pipeline_at(row.coords).sharded
    return None if sharded is None else cast(Range, sharded[0].layout.index_range)


def _read_value(
    cache: ChunkCache,
    name: Name,
    array: BoundArray,
    row: Row,
    generation: str | None,
    fetched: Fetched | None,
    out: Values,
    filled: FilledParts | None,
) -> None:
    """Fill one chunk's part of `out`, using a known generation or a part fetched ahead."""
    pipeline, key = array.pipeline_at(row.coords), array.key(row.coords)
    if generation is None and fetched is not None:
        generation = fetched.generation
        if fetched.data is None and not array.encoding.other_keys(row.coords):
            reference.fill_row(array, row, None, out, filled)
            return
    if generation is not None:
        value = Value(array.chunk_store, key, generation, fetched)
        decode = partial(_fill, cache, (*name, key, generation), pipeline, value, row.region)
        try:
            reference.fill_row(array, row, decode, out, filled)
            return
        except Changed:
            pass  # so it is read as it is now
    reference.read_row(array, row, out, filled)


def _is_part(array: BoundArray, row: Row) -> bool:
    """Return True if an uncached chunk would be read in part: only some bytes or blocks.

    False for shards: the cache keeps their inner chunks, which are read whole.
    """
    pipeline = array.pipeline_at(row.coords)
    if pipeline.sharded is not None:
        return False
    if kernel.reads(array):
        picked = None if row.pick is None else np.broadcast(*row.pick).size
        return kernel.reads_part(pipeline, row.region, picked)
    if has_low_latency(array.chunk_store) or not pipeline.reads_parts:
        return False
    return next(pipeline.read_part("", row.region)) != [("", None)]


def _read_uncached(array: BoundArray, plan: Plan, out: Values) -> None:
    left = kernel.read(array, plan, out)
    if left is None:
        reference.read(array, plan, out)
    for row in plan.some_rows(left) if left else ():
        reference.read_row(array, row, out)


def _fill(
    cache: ChunkCache,
    name: Name,
    pipeline: CodecPipeline,
    value: Value,
    region: Region,
    out: Values,
) -> None:
    """Fill `out` with part of a chunk."""
    if pipeline.sharded is not None:
        shards, axes = pipeline.sharded
        turned = tuple(region[i] for i in axes)
        with map_missing(pipeline.to_chunk_axes):
            _fill_from_shard(cache, name, shards, value, turned, out.transpose(axes))
        return
    [chunk] = cache.get([name], lambda _: [_decoded(pipeline, value.parts([None])[0])])
    index: Any = (*region, ...)  # which keeps a 0-dimensional array an array
    out[...] = chunk[index]


def _fill_from_shard(
    cache: ChunkCache, name: Name, shards: Shards, value: Value, region: Region, out: Values
) -> None:
    """Fill `out` with part of a shard, by way of its index and its inner chunks."""

    def load_index(_: list[int]) -> list[Values]:
        [stored] = value.parts([shards.layout.index_range])
        return [np.array(shards.index(stored))]

    [index] = cache.get([(*name, "index")], load_index)
    touched = shards.inner_chunks(index, region)
    present = [p for p in touched if p.range is not None]

    def load(numbers: list[int]) -> list[Values]:
        wanted = join_ranges((present[i].range or Range() for i in numbers), MAX_GAP)
        parts = split_joined(wanted, value.parts(wanted.ranges))
        found = []
        for chunk_part in (present[i] for i in numbers):
            with inner_chunk_context(chunk_part.coords):
                found.append(_decoded(shards.inner, parts[chunk_part.range or Range()]))
        return found

    chunks = iter(cache.get([(*name, p.coords) for p in present], load))
    for chunk_part in touched:
        outside: Any = (*chunk_part.outside, ...)
        inside: Any = (*chunk_part.inside, ...)
        out[outside] = shards.spec.fill if chunk_part.range is None else next(chunks)[inside]
        if chunk_part.range is None:
            report_missing(shards.to_shard(chunk_part.coords, chunk_part.inside))


def _decoded(pipeline: CodecPipeline, data: Buffer) -> Values:
    """Return a whole chunk in memory of its own."""
    out = np.empty(pipeline.spec.shape, pipeline.spec.data_type.dtype)
    pipeline.decode_into(data, tuple(slice(0, n, 1) for n in pipeline.spec.shape), out)
    return out
