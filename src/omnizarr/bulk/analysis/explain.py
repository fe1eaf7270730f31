"""Costs of a read before it is made: requests, bytes, memory; and those with other chunks.

The engine itself makes the requests, but of a `DryStore`, which counts them. Of a shard it gets the
index that is stored, or as an estimate that of a shard with all of its chunks, uncompressed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from omnizarr import Array, config, extension
from omnizarr.bulk.analysis.suggestion import suggest_chunks
from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.tiles import stored_axes
from omnizarr.errors import OmnizarrError
from omnizarr.extension import BoundArray, CodecPipeline, Range, Row, engine, kernel, stores


@dataclass
class Explanation(Outcome):
    """The costs of a read, as `View.explain` returns them.

    Requests are counted for chunks and shards, without the chunk cache; requests for metadata and
    repeated requests are not. The latency and the throughput of a server decide how many
    requests are made at a time, and if small shards are fetched whole: a store that was just opened
    may be read differently later. Of local
    files and of values in memory, the kernel reads smaller parts where that takes less time.

    Unless they are `exact`, numbers assume that all chunks are stored, uncompressed.
    """

    shape: tuple[int, ...] = ()
    chunks: int = 0  # that the read touches
    all_chunks: int = 0
    shards: int | None = None  # None without shards
    all_shards: int | None = None
    requests: int = 0
    at_once: int = 0  # requests at a time, at most
    rounds: int = 0  # of requests, about, each after the answers to the one before
    fetched_bytes: int = 0
    decoded_bytes: int = 0
    wanted_bytes: int = 0
    waste: float | None = None  # bytes that are decoded for each byte that is wanted
    memory_bytes: int = 0  # at the peak, about: the result, and what is being fetched and decoded
    exact: bool = False  # True if sizes are those in the store
    decoder: str = "kernel"  # or "reference"
    reason: str | None = None  # why the kernel does not decode
    cached: int | None = None  # chunks or shards of which the chunk cache has something
    price: float | None = None
    # Other chunks and shards: means for such a read over all of its places, uncompressed.
    alternatives: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        shown = extension.Info()
        # Gaps between compressed chunks of a shard may be so small that they are fetched, too.
        estimate = "" if self.exact else "at most " if self.shards is None else "about "
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if name.endswith("_bytes"):
                most = estimate if name in ("fetched_bytes", "decoded_bytes") else ""
                shown[name.removesuffix("_bytes")] = most + extension.size_text(value)
            elif name not in ("exact", "alternatives") and value is not None:
                shown[name.replace("_", " ")] = f"{value:.4g}" if name == "waste" else str(value)
        for other in self.alternatives:
            shards = f" in shards {other['shards']}" if other["shards"] else ""
            size = extension.size_text(round(other["fetched_bytes"]))
            cost = f"{other['requests']:.4g} requests, {size}"
            shown[f"with chunks {other['chunks']}{shards}"] = cost
        return str(shown)


def explain(
    array: Array, plan: Any, sizes: bool, price_per_1000_requests: float, price_per_gb: float
) -> Explanation:
    """Return the cost of reading a plan; see `View.explain`."""
    bound = extension.bound_array(array)
    found = Explanation(plan.shape, all_chunks=array.nchunks, exact=sizes)
    layout = kernel.layout_or_reason(bound)
    if isinstance(layout, str):
        found.decoder, found.reason = "reference", layout
    found.wanted_bytes = math.prod(plan.shape) * array.itemsize
    found.cached = engine.kept(bound, plan, found.wanted_bytes)
    if array.shards is not None:
        found.shards, found.all_shards = 0, math.prod(axis.count for axis in stored_axes(array))
    if plan.count:
        inner = not isinstance(layout, str) and layout.inner is not None
        _add_requests(found, bound, plan, inner)
        found.waste = found.decoded_bytes / max(1, found.wanted_bytes)
    if price_per_1000_requests or price_per_gb:
        price = found.requests / 1000 * price_per_1000_requests
        found.price = price + found.fetched_bytes / 1e9 * price_per_gb
    found.alternatives = _alternatives(array, plan)
    return found


def _add_requests(found: Explanation, array: BoundArray, plan: Any, inner: bool) -> None:
    """Add what the engine requests and decodes, and how many requests it makes at a time.

    With `inner`, the kernel decodes inner chunks of shards that come from a server.
    """
    dry: Any = DryStore(array, plan, found.exact)
    found.exact, decoded = dry.exact, list[tuple[int, int]]()
    asked = replace(array, store=dry)

    def use(row: Row, decode: Any) -> None:
        index = dry.indexes.get(array.stored_key(row.coords)) if found.exact else None
        count, nbytes = _decoded(array.pipeline_at(row.coords), row.region, index)
        decoded.append((count, 0 if decode is None else nbytes))

    if inner:
        with suppress(OmnizarrError):  # the engine falls back, too
            decoded = _fetch_inner(asked, plan)
    if not decoded:
        engine.fetch(asked, plan, found.wanted_bytes, use)
    found.shards = None if found.shards is None else len(dry.pipelines)
    found.chunks, found.decoded_bytes = map(sum, zip(*decoded, strict=True))
    found.requests, found.fetched_bytes = map(sum, zip(*dry.calls, strict=True))
    settings, threads = config.get(), min(config.get().threads, plan.count)
    if stores.file_root(dry) is None and hasattr(dry, "get_many"):
        lanes = threads if found.fetched_bytes > settings.in_flight else 1
        found.at_once = min(dry.limit, lanes * max(number for number, _ in dry.calls))
        found.rounds = -(-sum(-(-number // dry.limit) for number, _ in dry.calls) // lanes)
        held = min(found.fetched_bytes, settings.in_flight)
    else:
        found.at_once, found.rounds = threads, -(-found.requests // threads)
        held = threads * -(-found.fetched_bytes // plan.count)
    largest = max(nbytes // max(1, count) for count, nbytes in decoded)
    found.memory_bytes = found.wanted_bytes + held + threads * largest


def _fetch_inner(array: BoundArray, plan: Any) -> list[tuple[int, int]]:
    """Return the inner chunks that the kernel decodes, part by part, with their bytes."""
    inner = engine.InnerPlan.of(array, plan)
    found = list[tuple[int, int]]()
    for some in inner.parts(config.get().in_flight):
        values = inner.fetch(some)
        stored = sum(values[number] is not None for number in some.tolist())
        found.append((len(some), stored * inner.size))
    return found


def _decoded(pipeline: CodecPipeline, region: Any, index: bytes | None = None) -> tuple[int, int]:
    """Return the chunks in part of a stored value, and the decoded bytes of existing ones."""
    if pipeline.sharded is None:
        count = math.prod(getattr(pipeline.array_bytes, "counts", ()))
        return count, pipeline.spec.nbytes or engine.UNKNOWN
    shards, axes = pipeline.sharded
    region = tuple(region[i] for i in axes)
    count = math.prod(map(len, shards.grid.intersect_axes(region)))
    if index is None and shards.inner.sharded is None:
        return count, count * _decoded(shards.inner, region)[1]
    insides = [inside for _, inside, _ in shards.grid.intersect(region)]
    if index is not None:
        chunks = shards.inner_chunks(shards.index(index), region)
        insides = [chunk.inside for chunk in chunks if chunk.range is not None]
    return count, sum(_decoded(shards.inner, inside)[1] for inside in insides)


def _stored(pipeline: CodecPipeline) -> int:
    """Return the bytes of a chunk or shard without compression."""
    if pipeline.sharded is None:
        return pipeline.encoded_size or pipeline.spec.nbytes or engine.UNKNOWN
    shards, _ = pipeline.sharded
    return int(shards.layout.count * _stored(shards.inner) + shards.layout.index_size)


def _sizes(array: BoundArray, keys: Collection[str]) -> dict[str, int] | None:
    """Return the sizes of existing values; None if the store would have to fetch them."""
    store = array.store
    listed = isinstance(store, stores.base.ListsEntries) and not stores.traits(store).low_latency
    if listed and len(keys) * 1000 > math.prod(array.grid.shape):  # so many come with one request
        return {key: n for key, n in stores.list_sizes(store, array.prefix) if key in keys}
    return store.sizes(keys) if isinstance(store, stores.base.HasSizes) else None


def _alternatives(array: Array, plan: Any) -> list[dict[str, Any]]:
    """Return costs with the chunks that are suggested for this read, and for other reads too."""
    parts = getattr(plan, "parts", ())
    if not parts or not plan.runs or not all(part.size for part in parts):
        return []
    read: Any = tuple((part.size - 1) * part.step + 1 for part in parts)
    kind: Any = "local" if stores.traits(array.store).low_latency else "remote"
    found = {}
    with suppress(OmnizarrError):  # of a data type that NumPy does not name
        for reads in ([read], [read, "blocks"]):
            made = suggest_chunks(array, read=reads, store=kind, zarr_format=array.zarr_format)
            cost = {"requests": made.reads[0].requests, "fetched_bytes": made.reads[0].nbytes_read}
            found[made.chunks] = {"chunks": made.chunks, "shards": made.shards, **cost}
    return [*found.values()]


class DryStore:
    """A store that counts what is asked of an array's, and answers with zeros and shard indexes.

    It has the other store's abilities. It knows the indexes and sizes of what a plan needs.
    """

    def __init__(self, array: BoundArray, plan: Any, exact: bool) -> None:
        self.array, self.store, self.exact = array, array.store, exact
        self.calls = [(0, 0)]  # the requests of each call, and their bytes
        own: dict[str, Any] = {"get_many": self._many, "get_many_versioned": self._versioned}
        own["snapshot"] = partial(nullcontext, self._many)
        self.__dict__.update({name: own[name] for name in own if hasattr(self.store, name)})
        rows = plan.rows()
        self.pipelines = {array.stored_key(r.coords): array.pipeline_at(r.coords) for r in rows}
        self.sizes = {key: _stored(pipeline) for key, pipeline in self.pipelines.items()}
        self.indexes: dict[str, bytes | None] = {}
        if array.chunk_store is not array.store or array.first_pipeline.sharded is not None:
            parts = [(key, self.layout(key).index_range) for key in self.sizes]
            found = stores.get_many(self.store, parts) if exact else self._full_indexes()
            self.indexes = dict(zip(self.sizes, found, strict=True))
        elif exact:
            known = _sizes(array, self.sizes.keys())
            self.exact, self.sizes = known is not None, self.sizes if known is None else known
        server: Any = self.store
        while hasattr(server, "inner"):
            server = server.inner
        speed = getattr(server, "speed", None)
        self._gap = -1 if speed is None else stores.byte_ranges.GAP  # no ranges are so close
        self.limit = config.get().requests
        first = [*speed.first_parts.items()] if speed else []
        self._generations = {key: generation for (key, _), (_, generation) in first}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def layout(self, key: str) -> Any:
        """Return the layout of a shard."""
        found: Any = self.pipelines[key].sharded or [self.array.chunk_store]
        return found[0].layout

    def _full_indexes(self) -> list[bytes]:
        """Return indexes of shards with all of their chunks, uncompressed."""
        made: dict[int, bytes] = {}
        for key, pipeline in self.pipelines.items():
            if id(layout := self.layout(key)) not in made:
                chunk = _stored(pipeline.sharded[0].inner if pipeline.sharded else pipeline)
                starts = np.arange(layout.count, dtype="u8") * np.uint64(chunk)
                pairs = np.stack([starts, np.full_like(starts, chunk)], -1)
                made[id(layout)] = layout.index_pipeline.encode(pairs.reshape(*layout.counts, 2))
        return [made[id(self.layout(key))] for key in self.pipelines]

    def get(self, key: str, range: Range | None = None) -> Any:
        return self._many([(key, range)])[0]

    def _versioned(self, requests: Iterable[tuple[str, Range | None]]) -> list[Any]:
        """Return values with generations that equal known ones, and are never remembered."""
        asked = [*requests]
        known = (f"W/{self._generations.get(key, '')}" for key, _ in asked)
        return [*zip(self._many(asked), known, strict=True)]

    def _many(self, requests: Iterable[tuple[str, Range | None]]) -> list[Any]:
        asked = [*requests]
        found = [self._answer(key, part) for key, part in asked]
        fetches, nbytes = stores.byte_ranges.coalesce(asked, gap=self._gap), 0
        for fetch in fetches:
            [(number, _), *joined] = fetch.parts
            own = len(found[number] or b"") if fetch.range else self._size(fetch.key)
            nbytes += (joined and fetch.range and fetch.range.length) or own
        self.calls.append((len(fetches), nbytes))
        return found

    def _answer(self, key: str, part: Range | None) -> Any:
        stored = self.indexes.get(key, b"" if key in self.sizes else None)
        if not stored:
            return stored
        layout = self.layout(key)
        if part is not None and (part.start >= 0 if layout.at_end else part.start > 0):
            return bytes(part.length or 0)
        if part == layout.index_range:
            return stored
        whole: Any = np.zeros(self._size(key), "u1")  # whose memory is not touched
        layout.index_range.of(whole)[:] = np.frombuffer(stored, "u1")
        return memoryview(whole if part is None else part.of(whole))

    def _size(self, key: str) -> int:
        """Return the size of a value; for a shard, from its index."""
        stored = self.indexes.get(key)
        if stored is None:
            return 0 if key in self.indexes else self.sizes.get(key, 0)
        layout = self.layout(key)
        index: Any = layout.index(stored)
        end = int(index[index[:, 0] < 2**63].sum(axis=1).max(initial=0))
        return end + len(stored) if layout.at_end else max(end, len(stored))
