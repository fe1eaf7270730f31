"""The cache of decoded chunks and shard indexes, and reading through it.

``with omnizarr.configure(chunk_cache="256MB")`` keeps up to 256 MB until the block ends.
Before every use the store is asked for the generation of the key, so that a value that anybody
changed is read again; a store without generations is read without the cache. Of shards the inner
chunks are kept, not the shard. Items of variable length are not kept: they may be objects that a
caller could change. If the store has a high latency, the generations and values of many chunks are
fetched side by side.

Chunks of which nothing is kept are fetched without asking for their generation first. Reads of more
than the cache can hold go around it, as do reads that take note of missing chunks, and all reads of
chunks that the kernel decodes in little time. Where all chunks of a read are kept, and their
generations are at hand, the kernel copies the elements from them.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.chunk_grids import Coords
from omnizarr.codecs import CodecPipeline, bind_pipeline
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.sharding import MAX_GAP, MISSING, Shards, inner_chunk_context, split_joined
from omnizarr.concurrency import fork, key_locks
from omnizarr.concurrency.pool import for_each, in_parallel
from omnizarr.config import ByteBudget
from omnizarr.engine import kernel, reference
from omnizarr.engine.binding import BoundArray, chunk_context
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, Row, on_grid
from omnizarr.model import Named
from omnizarr.stores import Range, Versioned, file_root, get_many, traits
from omnizarr.stores.byte_ranges import join_ranges

Values: TypeAlias = npt.NDArray[Any]
Name: TypeAlias = tuple[Any, ...]  # of a store, codecs, key and generation; of a part of a shard
KEY = 3  # members of a name before the generation
ENTRY = 512  # bytes that an entry takes besides its values
WORTH = 2**20  # bytes of a chunk decoded with LZ4 that is worth keeping
_COSTS = {
    "gzip": 32,
    "numcodecs.zlib": 32,
    "zstd": 16,
}  # of decoding a byte, as a multiple of LZ4's


class ChunkCache:
    """Arrays by key, up to a number of bytes; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._kept: OrderedDict[Name, Values] = OrderedDict()
        self._keys: Counter[Hashable] = Counter()  # arrays that are kept of each value
        self._lock = fork.lock()

    def get(
        self, names: Sequence[Name], load: Callable[[list[int]], Sequence[Values]]
    ) -> list[Values]:
        """Return the arrays of all names; `load` takes the indices of missing ones and loads them.

        Two threads may load the same one.
        """
        with key_locks.locked(key_locks.INTERNAL, ()), self._lock:
            found = [self._kept.get(name) for name in names]
            for name, values in zip(names, found, strict=True):
                if values is not None:
                    self._kept.move_to_end(name)
        missing = [i for i, values in enumerate(found) if values is None]
        config.count(cache_hits=len(names) - len(missing), cache_misses=len(missing))
        for i, values in zip(missing, load(missing) if missing else (), strict=True):
            found[i] = values
            self._keep(names[i], values)
        return [values for values in found if values is not None]

    def get_all(self, names: Sequence[Name]) -> list[Values] | None:
        """Return the arrays of all names, or None if one of them is not kept.

        It takes no lock: each step is one operation of a dictionary, with names that it compares
        without Python code.
        """
        kept = self._kept
        try:
            found = [kept[name] for name in names]
            for name in names:
                kept.move_to_end(name)
        except KeyError:
            return None
        config.count(cache_hits=len(names))
        return found

    def _keep(self, name: Name, values: Values) -> None:
        """Keep an array, which nobody may change from now on."""
        values.flags.writeable = False  # many callers see it
        if _cost(values) > self.limit:
            return
        with key_locks.locked(key_locks.INTERNAL, ()), self._lock:
            if name in self._kept:
                self._forget(name, self._kept.pop(name))
            self._kept[name] = values
            self._keys[name[:KEY]] += 1
            self.nbytes += _cost(values)
            while self.nbytes > self.limit:
                self._forget(*self._kept.popitem(last=False))

    def _forget(self, name: Name, values: Values) -> None:
        self.nbytes -= _cost(values)
        self._keys[name[:KEY]] -= 1
        if not self._keys[name[:KEY]]:
            del self._keys[name[:KEY]]

    def has(self, name: Name) -> bool:
        """Return True if any part of a value is kept, in any generation."""
        return name in self._keys


def _cost(values: Values) -> int:
    return values.nbytes + ENTRY


_caches: WeakKeyDictionary[ByteBudget, ChunkCache] = WeakKeyDictionary()
_lock = fork.lock()


def current() -> ChunkCache | None:
    """Return the cache of the current settings, or None.

    A finaliser or signal handler gets None while its own thread holds the lock of a cache.
    """
    budget = config.get().chunk_cache
    if budget is None or key_locks.holds_below(key_locks.INTERNAL + 1):
        return None
    with _lock:
        cache = _caches.get(budget)
        if cache is None:
            cache = _caches[budget] = ChunkCache(budget.nbytes)
        return cache


class Changed(Exception):
    """Raised when a key got another value after its generation was read."""


@dataclass(frozen=True, slots=True)
class Value:
    """One generation of one key's value, None if it is missing, and a part that was fetched."""

    store: Any
    key: str
    generation: str | None
    part: Range | None = None  # of `data`; None: all
    data: bytes | None = None

    def parts(self, ranges: Sequence[Range | None]) -> list[Buffer]:
        """Return several byte ranges of this generation; raise `Changed` if there is another."""
        out: list[Buffer] = []
        if len(ranges) > 1 and hasattr(self.store, "get_many"):
            found = get_many(self.store, [(self.key, part) for part in ranges])
            out += [data for data in found if data is not None]
            if len(out) != len(ranges) or self.store.generation(self.key) != self.generation:
                raise Changed
            return out
        for part in ranges:
            data, generation = self.data, self.generation
            if data is None or self.part != part:
                data, generation = self.store.get_versioned(self.key, part)
            if data is None or generation != self.generation:
                raise Changed
            out.append(data)
        return out


def suits(cache: ChunkCache, array: BoundArray, plan: Plan, nbytes: int) -> bool:
    """Return True if all chunks that a read of `nbytes` touches can be kept, and are worth it.

    Their store must tell generations, and their items must be of a kind that no caller can change.
    """
    store = array.chunk_store
    if not isinstance(store, Versioned) or array.data_type.variable or array.codecs_key is None:
        return False
    if kernel.reads(array) and not costly(array):
        return False
    size = reference.estimate_fetched(array, nbytes // max(1, plan.count)) + ENTRY
    return plan.count * size <= cache.limit


def read_kept(cache: ChunkCache, array: BoundArray, plan: Plan, out: Values) -> bool:
    """Fill `out` and return True if all chunks that a plan touches are kept, else return False.

    The kernel copies from them, as from chunks without codecs.
    """
    layout = _decoded_layout(array)
    if layout is None or not traits(array.chunk_store).low_latency:
        return False
    shape, sharded = cast(Coords, array.grid.regular), array.first_pipeline.sharded
    shards = None if sharded is None else sharded[0]
    if shards is not None:
        plan = on_grid(plan, array.grid, array.grid.divided(shards.inner.spec.shape))
    codecs, names, indexes = array.pipeline_key(shape), list[Name | None](), dict[Coords, Any]()
    for coords in plan.chunks():
        if shards is None:
            names.append(_current(cache, array, codecs, coords))
        else:
            names.append(_inner_name(cache, array, codecs, shards, coords, indexes))
        if names[-1] == ():
            return False
    chunks = cache.get_all([name for name in names if name is not None])
    if chunks is None:
        return False
    given = (chunk.view(kernel.items[chunk.itemsize]) for chunk in chunks)
    values = [None if name is None else next(given) for name in names]
    return kernel.run(layout, plan, values, out) == []


def _current(cache: ChunkCache, array: BoundArray, codecs: Hashable, coords: Coords) -> Name:
    """Return the name of a chunk or shard as it is stored; () if nothing of it is kept."""
    key = array.key(coords)
    if not cache.has((array.source, codecs, key)):
        return ()
    return array.source, codecs, key, cast(Versioned, array.chunk_store).generation(key)


def _inner_name(
    cache: ChunkCache,
    array: BoundArray,
    codecs: Hashable,
    shards: Shards,
    coords: Coords,
    indexes: dict[Coords, tuple[Name, Values]],
) -> Name | None:
    """Return the name of an inner chunk; None if it is missing; () if its index is not kept."""
    both = [divmod(c, n) for c, n in zip(coords, shards.counts, strict=True)]
    shard, inside = tuple(a for a, _ in both), tuple(b for _, b in both)
    if shard not in indexes:
        name = _current(cache, array, codecs, shard)
        found = cache.get_all([(*name, "index")])
        if found is None:
            return ()
        indexes[shard] = name, found[0]
    name, index = indexes[shard]
    entry = index[shards.layout.number(inside)]
    return None if (entry == MISSING).all() else (*name, inside)


def _decoded_layout(array: BoundArray) -> kernel.Layout | None:
    """Return the description of decoded chunks for the kernel, or None if it refuses them."""
    if (False, ChunkCache) not in array.layouts:
        found = None
        if array.grid.regular and kernel.available() and not array.data_type.variable:
            pipeline = array.first_pipeline
            if pipeline.sharded is not None and [*pipeline.axes] == sorted(pipeline.axes):
                pipeline = pipeline.sharded[0].inner
            if pipeline.sharded is None:
                plain = bind_pipeline((Named("bytes", {}),), pipeline.spec)  # as in memory
                capsule = kernel.describe(plain, keep_empty=True)
                found = capsule and kernel.Layout(capsule, 0, ord("/"), False, False, True)
        array.layouts[False, ChunkCache] = found
    return cast("kernel.Layout | None", array.layouts[False, ChunkCache])


def kept(array: BoundArray, plan: Plan, nbytes: int) -> int | None:
    """Return of how many chunks or shards a part is kept; None if a read does not use the cache."""
    cache = current()
    if cache is None or not suits(cache, array, plan, nbytes):
        return None
    return sum(cache.has(_name(array, row)) for row in plan.rows())


def costly(array: BoundArray) -> bool:
    """Return True if decoding a chunk takes the kernel long enough to keep it."""
    return _decoding_cost(array.first_pipeline) >= WORTH


def _decoding_cost(pipeline: CodecPipeline) -> int:
    """Estimate the time to decode a chunk, in bytes that LZ4 would decode meanwhile."""
    if pipeline.sharded is not None:
        return _decoding_cost(pipeline.sharded[0].inner)
    costs = [_COSTS.get(getattr(c, "name", ""), 1) for c, _ in pipeline.bytes_bytes]
    return max(costs, default=0) * (pipeline.spec.nbytes or 0)


def read(cache: ChunkCache, array: BoundArray, plan: Plan, out: npt.NDArray[Any]) -> None:
    """Fill `out`, of the plan's full shape, from chunks in the cache or in the store."""
    _ = array.fill  # bound before threads ask for it
    rows, count = plan.rows(), plan.count
    if not count:
        return

    def one(pair: tuple[Row, Value | None]) -> None:
        _read_row(cache, array, *pair, out)

    if file_root(array.store) is not None or not hasattr(array.store, "get_many"):
        for_each(((row, None) for row in rows), count, one, out.nbytes, waits=False)
        return
    # Requests that take long run side by side, those of many chunks at a time.
    size = reference.estimate_fetched(array, out.nbytes // count)
    batch = max(1, config.get().in_flight // (2 * size))
    while some := [*itertools.islice(rows, batch)]:
        values: Sequence[Value | None] = [None] * len(some)
        with suppress(OmnizarrError):  # each row asks on its own, and its errors name the chunk
            values = in_parallel(partial(_look_up, cache, array), some)
        for_each(zip(some, values, strict=True), len(some), one, out.nbytes, waits=False)


def _name(array: BoundArray, row: Row) -> Name:
    # Another handle may read the same key as another type, or with other codecs.
    shape = array.grid.chunk_shape(row.coords)
    return array.source, array.pipeline_key(shape), array.key(row.coords)


def _look_up(cache: ChunkCache, array: BoundArray, row: Row) -> Value:
    """Return the generation of a chunk; where nothing of it is kept, with its value or index."""
    key, store = array.key(row.coords), cast(Versioned, array.chunk_store)
    if cache.has(_name(array, row)):
        return Value(store, key, store.generation(key))
    sharded = array.pipeline_at(row.coords).sharded
    part = None if sharded is None else cast(Range, sharded[0].layout.index_range)
    data, generation = store.get_versioned(key, part)
    return Value(store, key, generation, part, data)


def _read_row(
    cache: ChunkCache, array: BoundArray, row: Row, value: Value | None, out: Values
) -> None:
    """Fill one chunk's part of `out`, from a value that was looked up before, if it was."""
    with chunk_context("read", array, row.coords):
        value = value or _look_up(cache, array, row)
    pipeline = array.pipeline_at(row.coords)
    if value.generation is not None:
        name = (*_name(array, row), value.generation)
        decode = partial(_fill, cache, name, pipeline, value, row.region)
        try:
            reference.fill_row(array, row, decode, out)
        except Changed:
            reference.read_row(array, row, out)  # as it is now
    elif array.encoding.other_keys(row.coords):
        reference.read_row(array, row, out)
    else:
        reference.fill_row(array, row, None, out)


def _fill(
    cache: ChunkCache,
    name: Name,
    pipeline: CodecPipeline,
    value: Value,
    region: Region,
    out: Values,
) -> list[Region]:
    """Fill `out` with part of a chunk; nobody asks here for its boxes without data."""
    if pipeline.sharded is not None:
        shards, axes = pipeline.sharded
        turned = tuple(region[i] for i in axes)
        _fill_from_shard(cache, name, shards, value, turned, out.transpose(axes))
        return []
    [chunk] = cache.get([name], lambda _: [_decoded(pipeline, value.parts([None])[0])])
    index: Any = (*region, ...)  # which keeps a 0-dimensional array an array
    out[...] = chunk[index]
    return []


def _fill_from_shard(
    cache: ChunkCache, name: Name, shards: Shards, value: Value, region: Region, out: Values
) -> None:
    """Fill `out` with part of a shard, by way of its index and its inner chunks."""
    index_name, part = (*name, "index"), shards.layout.index_range
    [index] = cache.get([index_name], lambda _: [np.array(shards.index(value.parts([part])[0]))])
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


def _decoded(pipeline: CodecPipeline, data: Buffer) -> Values:
    """Return a whole chunk in memory of its own."""
    out = np.empty(pipeline.spec.shape, pipeline.spec.data_type.dtype)
    pipeline.decode_into(data, tuple(slice(0, n, 1) for n in pipeline.spec.shape), out)
    return out
