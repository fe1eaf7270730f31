"""What a read costs, said before it is made: requests, bytes, memory, and other chunk shapes.

The engine itself makes the requests, but of a `DryStore`, which counts them. Of a shard it gets the
index that is stored, or as an estimate that of a shard with all of its chunks, uncompressed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from omnizarr import Array, config, extension
from omnizarr.bulk.analysis.suggestion import suggest_chunks
from omnizarr.bulk.journal import Outcome
from omnizarr.errors import OmnizarrError
from omnizarr.extension import BoundArray, CodecPipeline, Range, Row, engine, kernel, stores

PAGE = 1000  # keys of a listing that come with one request


@dataclass
class Explanation(Outcome):
    """What a read costs, as `View.explain` returns it.

    Requests are those that are made of the array's store for chunks and shards, without the chunk
    cache; those for metadata, now and then, and repeated ones are not counted. The latency and the
    throughput that a server has shown decide how many requests are made at a time, and if small
    shards are fetched whole: a store that was just opened may be read differently later. Of local
    files, the kernel reads smaller parts where that takes less time.

    Unless they are `exact`, numbers are those of chunks that are all stored, uncompressed.
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
        for name in (each.name for each in fields(self)):
            value, most = getattr(self, name), "" if self.exact else "at most "
            if name.endswith("_bytes"):
                most = most if name in ("fetched_bytes", "decoded_bytes") else ""
                shown[name.removesuffix("_bytes")] = most + extension.size_text(value)
            elif name not in ("exact", "alternatives") and value is not None:
                shown[name.replace("_", " ")] = f"{value:.4g}" if name == "waste" else str(value)
        for other in self.alternatives:
            shards = f" in shards {other['shards']}" if other["shards"] else ""
            size = extension.size_text(round(other["fetched_bytes"]))
            shown[f"chunks {other['chunks']}{shards}"] = f"{other['requests']:.4g} requests, {size}"
        return str(shown)


def explain(
    array: Array, plan: Any, sizes: bool, price_per_1000_requests: float, price_per_gb: float
) -> Explanation:
    """Return what it costs to read a plan; see `View.explain`."""
    bound = extension.bound_array(array)
    found = Explanation(plan.shape, all_chunks=array.nchunks, exact=sizes)
    if reason := kernel.refusal(bound):
        found.decoder, found.reason = "reference", reason
    found.wanted_bytes = math.prod(plan.shape) * array.itemsize
    found.cached = engine.kept(bound, plan, found.wanted_bytes)
    if found.wanted_bytes:
        _add_requests(found, bound, plan)
        found.waste = found.decoded_bytes / found.wanted_bytes
    if array.shards is None:
        found.shards = None
    else:
        lengths = (n if isinstance(n, int) else n[0] for n in array.shards)
        found.all_shards = math.prod(-(-n // s) for n, s in zip(array.shape, lengths, strict=True))
    if price_per_1000_requests or price_per_gb:
        price = found.requests / 1000 * price_per_1000_requests
        found.price = price + found.fetched_bytes / 1e9 * price_per_gb
    found.alternatives = _alternatives(array, plan)
    return found


def _add_requests(found: Explanation, array: BoundArray, plan: Any) -> None:
    """Add what the engine requests and decodes, and how many requests it makes at a time."""
    in_memory = stores.direct_values(array.store) is not None
    dry: Any = (DryMemory if in_memory else DryStore)(array, found.exact)
    rows: list[tuple[str, int, int]] = []  # the stored key, the chunks and their decoded bytes

    def use(row: Row, decode: Any) -> None:
        key, pipeline = array.stored_key(row.coords), array.pipeline_at(row.coords)
        nbytes = 0 if decode is None else _decoded(pipeline, row.region, dry.indexes.get(key))[1]
        rows.append((key, _decoded(pipeline, row.region)[0], nbytes))

    engine.fetch(replace(array, store=dry), plan, found.wanted_bytes, use)
    known = _sizes(array, dry.whole) if found.exact and dry.whole else {}
    found.exact = found.exact and known is not None
    if known is None or not found.exact:
        known = {key: _stored(dry.pipeline(key)) for key in dry.whole}
    missing = {*dry.whole} - known.keys()
    found.chunks, found.shards = sum(row[1] for row in rows), len({row[0] for row in rows})
    found.requests = sum(number for number, _ in dry.calls)
    found.fetched_bytes = sum(nbytes for _, nbytes in dry.calls) + sum(known.values())
    found.decoded_bytes = sum(nbytes for key, _, nbytes in rows if key not in missing)

    settings, threads = config.get(), min(config.get().threads, plan.count)
    if stores.file_root(dry) is None and hasattr(dry, "get_many"):
        lanes = threads if found.fetched_bytes > settings.in_flight else 1
        found.at_once = min(dry.limit, lanes * max(number for number, _ in dry.calls))
        found.rounds = -(-sum(-(-number // dry.limit) for number, _ in dry.calls) // lanes)
        held = min(found.fetched_bytes, settings.in_flight)
    else:
        found.at_once, found.rounds = threads, -(-found.requests // threads)
        held = threads * -(-found.fetched_bytes // plan.count)
    largest = max(nbytes // max(1, chunks) for _, chunks, nbytes in rows)
    found.memory_bytes = found.wanted_bytes + held + threads * largest


def _decoded(pipeline: CodecPipeline, region: Any, index: bytes | None = None) -> tuple[int, int]:
    """Return the chunks in part of a stored value, and the decoded bytes of those that exist."""
    if pipeline.sharded is None:
        count = math.prod(getattr(pipeline.array_bytes, "counts", ()))
        return count, pipeline.spec.nbytes or engine.UNKNOWN
    shards, axes = pipeline.sharded
    region = tuple(region[i] for i in axes)
    if index is None and shards.inner.sharded is None:
        count = math.prod(map(len, shards.grid.intersect_axes(region)))
        return count, count * _decoded(shards.inner, region)[1]
    insides = [inside for _, inside, _ in shards.grid.intersect(region)]
    if index is not None:
        chunks = shards.inner_chunks(shards.index(index), region)
        insides = [chunk.inside for chunk in chunks if chunk.range is not None]
    return len(insides), sum(_decoded(shards.inner, inside)[1] for inside in insides)


def _stored(pipeline: CodecPipeline) -> int:
    """Return the bytes of a chunk or shard without compression."""
    if pipeline.sharded is None:
        return pipeline.encoded_size or pipeline.spec.nbytes or engine.UNKNOWN
    shards, _ = pipeline.sharded
    return int(shards.layout.count * _stored(shards.inner) + shards.layout.index_size)


def _sizes(array: BoundArray, keys: list[str]) -> dict[str, int] | None:
    """Return the sizes of existing values; None if the store would have to fetch them."""
    store = array.store
    listed = isinstance(store, stores.base.ListsEntries) and not stores.traits(store).low_latency
    if listed and len(keys) * PAGE > math.prod(array.grid.shape):
        wanted = {*keys}
        return {key: n for key, n in stores.list_sizes(store, array.prefix) if key in wanted}
    return store.sizes(keys) if isinstance(store, stores.base.HasSizes) else None


def _alternatives(array: Array, plan: Any) -> list[dict[str, Any]]:
    """Return costs with the chunks that are suggested for this read, and for other reads too."""
    parts = getattr(plan, "parts", ())
    if not parts or not plan.runs or not all(part.size for part in parts):
        return []
    read: Any = tuple((part.size - 1) * part.step + 1 for part in parts)
    kind: Any = "local" if stores.traits(array.store).low_latency else "remote"
    found = {}
    for reads in ([read], [read, "blocks"]):
        try:
            made = suggest_chunks(array, read=reads, store=kind, zarr_format=array.zarr_format)
        except OmnizarrError:  # of a data type that NumPy does not name
            return []
        if (made.chunks, made.shards) != (array.chunks, array.shards):
            cost = {"requests": made.reads[0].requests, "fetched_bytes": made.reads[0].nbytes_read}
            found[made.chunks] = {"chunks": made.chunks, "shards": made.shards, **cost}
    return [*found.values()]


class DryStore:
    """A store that counts what is asked of an array's, and answers with zeros and shard indexes.

    It has the other store's abilities. Indexes are those of that store if they are to be exact.
    """

    def __init__(self, array: BoundArray, exact: bool) -> None:
        self.array, self.store, self.exact = array, array.store, exact
        self.calls: list[tuple[int, int]] = []  # the requests of each call, and the bytes of parts
        self.whole: list[str] = []  # the keys of values that are fetched whole
        server: Any = self.store
        while hasattr(server, "inner"):
            server = server.inner
        speed = getattr(server, "speed", None)
        self._gap = -1 if speed is None else stores.byte_ranges.GAP  # no ranges are so close
        self.limit = min((speed and speed.at_once) or sys.maxsize, config.get().requests)
        known = dict(speed.first_parts) if speed else {}
        self._generations = {key: generation for (key, _), (_, generation) in known.items()}
        # Shard indexes that are stored, as far as they are known.
        self.indexes = {key: data for (key, _), (data, _) in known.items()} if exact else {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        own = {"get_many": self._many, "get_many_versioned": self._versioned}
        return {**own, "snapshot": lambda: nullcontext(self._many)}.get(name, found)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self._many([(key, range)])[0]

    def _versioned(self, requests: Iterable[tuple[str, Range | None]]) -> list[Any]:
        """Return values with generations that equal known ones, and are never remembered."""
        asked = [*requests]
        known = (f"W/{self._generations.get(key, '')}" for key, _ in asked)
        return [*zip(self._many(asked), known, strict=True)]

    def _many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = [*requests]
        layouts = {key: self.layout(key) for key, part in asked if part is not None}
        first = {key for key, part in asked if part and _has_index(part, layouts[key][0])}
        if self.exact:
            new = {key: layouts[key][0].index_range for key in first - self.indexes.keys()}
            self.indexes |= zip(new, stores.get_many(self.store, new.items()), strict=True)
        found = [
            self._shard(key, part, *layouts[key])
            if part and key in first
            else self._zeros(key, part)
            for key, part in asked
        ]
        fetches, nbytes = stores.byte_ranges.coalesce(asked, gap=self._gap), 0
        for fetch in fetches:
            [(number, _), *more] = fetch.parts
            if fetch.range is None:
                self.whole.append(fetch.key)
            else:
                nbytes += (fetch.range.length or 0) if more else len(found[number] or b"")
        self.calls.append((len(fetches), nbytes))
        return found

    def _zeros(self, key: str, part: Range | None) -> bytes | None:
        """Return a part of a shard, or as much as is looked at of a whole value, if it exists."""
        only = self.exact and part is None and not self.array.grid.axes  # may have another key
        return (
            None if only and _sizes(self.array, [key]) == {} else bytes((part and part.length) or 0)
        )

    def _shard(self, key: str, part: Range, layout: Any, chunk: int) -> bytes | None:
        """Return a part of a shard that has its index; its chunks have `chunk` bytes, or zeros."""
        stored = self.indexes[key] if self.exact else None
        if stored is None and self.exact:
            return None
        if stored is None:
            starts = np.arange(layout.count, dtype="u8") * np.uint64(chunk)
            pairs = np.stack([starts, np.full_like(starts, chunk)], -1)
            stored = bytes(layout.index_pipeline.encode(pairs.reshape(*layout.counts, 2)))
        index = layout.index(stored)
        end = int(index[index[:, 0] < 2**63].sum(axis=1).max(initial=0))
        rest = bytes(max(0, end if layout.at_end else end - len(stored)))
        return part.of(rest + stored if layout.at_end else stored + rest)

    def layout(self, key: str) -> tuple[Any, int]:
        """Return the layout of a shard, and the bytes of its chunks without compression."""
        packed = getattr(self.array.chunk_store, "layout", None)
        if packed is not None:
            return packed, _stored(self.array.first_pipeline)
        [shards, _] = self.pipeline(key).sharded or (None, ())
        return (None, 0) if shards is None else (shards.layout, _stored(shards.inner))

    def pipeline(self, key: str) -> CodecPipeline:
        """Return the pipeline of a stored value."""
        array = self.array
        coords = array.encoding.coords(key[len(array.prefix) :], len(array.grid.axes))
        return array.first_pipeline if coords is None else array.pipeline_at(coords)


class DryMemory(DryStore):
    """A dry store whose values the engine looks up instead of fetching them."""

    direct_values: Any = MappingProxyType({})


def _has_index(part: Range, layout: Any) -> bool:
    """Return True for the index of a shard, and for all of a shard, which has it."""
    return part.start < 0 if layout.at_end else part.start == 0
