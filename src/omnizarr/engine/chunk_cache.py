"""The cache of decoded chunks and shard indexes, and reading through it.

``with omnizarr.configure(chunk_cache="256MB")`` keeps up to so many bytes until the block ends.
Before every use the store is asked for the generation of the key, so that a value that anybody
changed is read again; a store without generations is read without the cache. Of shards the inner
chunks are kept, not the shard. Two threads that want the same chunk decode it once. Items of
variable length are not kept: they may be objects that a caller could change. If the store has a
high latency, the generations and values of many chunks are fetched side by side.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
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
from omnizarr.codecs.sharding import Shards, coalesce, inner_chunk_context
from omnizarr.concurrency import fork
from omnizarr.concurrency.limits import no_helpers
from omnizarr.concurrency.pool import for_each, in_parallel
from omnizarr.config import ByteBudget
from omnizarr.engine import reference
from omnizarr.engine.binding import BoundArray, chunk_context
from omnizarr.engine.missing_chunks import Filled
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.stores import Range, Versioned, file_root, get_many

Values: TypeAlias = npt.NDArray[Any]
ENTRY = 512  # bytes that an entry takes besides its values
MAX_NUMBERS = 2**10


@dataclass(slots=True)
class Loading:
    """A chunk that a thread is loading."""

    thread: int = field(default_factory=threading.get_ident)
    done: threading.Event = field(default_factory=threading.Event)
    values: Values | None = None  # None when done: it failed


class ChunkCache:
    """Arrays by key, up to a number of bytes; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._kept: OrderedDict[Hashable, Values] = OrderedDict()
        self._loading: dict[Hashable, Loading] = {}
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._next = itertools.count()
        self._lock = fork.lock()

    def get(
        self, names: Sequence[Hashable], load: Callable[[list[int]], Sequence[Values]]
    ) -> list[Values]:
        """Return the arrays of all names; `load` loads those that are missing, by their numbers.

        What another thread is loading already is waited for.
        """
        found: list[Values | None] = [None] * len(names)
        mine: dict[int, Loading] = {}
        theirs: dict[int, Loading] = {}
        try:
            with no_helpers, self._lock:
                for i, name in enumerate(names):
                    found[i] = self._kept.get(name)
                    loading = self._loading.get(name)
                    if found[i] is not None:
                        self._kept.move_to_end(name)
                    elif loading is None:
                        mine[i] = self._loading[name] = Loading()
                    elif loading.thread != threading.get_ident():  # else this is a finaliser
                        theirs[i] = loading
            if mine:
                for i, values in zip(mine, load(list(mine)), strict=True):
                    found[i] = mine[i].values = values
                    self._keep(names[i], values)
        finally:
            with no_helpers, self._lock:
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

    def has(self, name: Hashable) -> bool:
        """Return True if an array is in the cache."""
        with no_helpers, self._lock:
            return name in self._kept

    def _keep(self, name: Hashable, values: Values) -> None:
        values.flags.writeable = False  # many callers see it
        if _cost(values) > self.limit:
            return
        with no_helpers, self._lock:
            before = self._kept.pop(name, None)
            self._kept[name] = values
            self.nbytes += _cost(values) - (0 if before is None else _cost(before))
            while self.nbytes > self.limit:
                self.nbytes -= _cost(self._kept.popitem(last=False)[1])

    def number(self, key: Hashable) -> int:
        """Return a number for equal keys, which is short and quick to compare.

        A key that was not used for long is dropped, and gets another number then.
        """
        with no_helpers, self._lock:
            found = self._numbers.get(key)
            if found is None:
                found = self._numbers[key] = next(self._next)
                if len(self._numbers) > MAX_NUMBERS:
                    self._numbers.popitem(last=False)
            else:
                self._numbers.move_to_end(key)
            return found


def _cost(values: Values) -> int:
    return values.nbytes + ENTRY


_caches: WeakKeyDictionary[ByteBudget, ChunkCache] = WeakKeyDictionary()
_lock = fork.lock()


def current() -> ChunkCache | None:
    """Return the cache of the current settings, or None."""
    budget = config.get().chunk_cache
    if budget is None:
        return None
    with no_helpers, _lock:
        cache = _caches.get(budget)
        if cache is None:
            cache = _caches[budget] = ChunkCache(budget.nbytes)
        return cache


def _forget() -> None:
    """Start anew in a forked child, which has none of the threads that caches may wait for."""
    global _caches
    _caches = WeakKeyDictionary()


fork.on_fork(in_child=_forget)


Name: TypeAlias = tuple[Any, ...]


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
        return True
    pipeline = array.first_pipeline
    kept = pipeline if pipeline.sharded is None else pipeline.sharded[0].inner
    return not isinstance(kept.array_bytes, Shards)


def read(
    cache: ChunkCache,
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    filled: Filled | None = None,
) -> None:
    """Fill `out`, of the plan's full shape, from chunks in the cache or in the store."""
    _ = array.fill  # bound before threads ask for it
    store = cache.number(array.source)

    @functools.cache
    def name(shape: tuple[int, ...]) -> Name:
        # Another handle may read the same key as another type, or with other codecs.
        return store, cache.number(array.pipeline_key(shape))

    def one(row: Row, known: Known = NOTHING) -> None:
        shape = array.grid.chunk_shape(row.coords)
        _read_row(cache, name(shape), array, row, known, out, filled)

    rows, count = plan.rows(), plan.count
    if not count:
        return
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
        generations = dict(zip(keys, in_parallel(store.generation, keys), strict=True))
        for row, key in zip(rows, keys, strict=True):
            sharded = array.pipeline_at(row.coords).sharded
            full: Name = *name(array.grid.chunk_shape(row.coords)), key, generations[key]
            full = (*full, "index") if sharded else full
            if generations[key] is not None and not cache.has(full):
                wanted.append((key, sharded[0].layout.index_range if sharded else None))
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
    filled: Filled | None,
) -> None:
    pipeline = array.pipeline_at(row.coords)
    key, store = array.key(row.coords), cast(Versioned, array.chunk_store)
    generations, fetched = known
    with chunk_context("read", array, row.coords):
        generation = generations[key] if key in generations else store.generation(key)
    if generation is not None:
        value = Value(array.chunk_store, key, generation, fetched.get(key))
        decode = partial(_fill, cache, (*name, key, generation), pipeline, value, row.region)
        try:
            reference.fill_row(array, row, decode, out, filled)
            return
        except Changed:
            pass  # so it is read as it is now
    reference.read_row(array, row, out, filled)


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
        wanted = coalesce(present[i].range or Range() for i in numbers)
        parts = wanted.split(value.parts(wanted.ranges))
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
