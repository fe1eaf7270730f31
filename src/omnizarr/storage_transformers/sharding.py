"""The draft's sharding: several chunks in one value, with an index at its end.

Specification: storage transformer ``…/extensions/storage-transformers/sharding/1.0`` of the
draft, type ``indexed``, ``{"chunks_per_shard": [2, 2]}``. The index is that of `ShardLayout`,
little-endian without a checksum. zarr-python 2.13 to 2.18 wrote the same.

A shard is always replaced as a whole: a crash while parts of it were written in place could damage
chunks that nobody touched. Threads that change one shard lock it here, and the engine locks it
against other processes. Readers take no lock: they notice if a shard was replaced between their two
requests, and start again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from omnizarr import stores
from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.codecs.sharding import MAX_GAP, Index, ShardLayout, chunk_range, present, split_joined
from omnizarr.concurrency import key_locks
from omnizarr.errors import ChunkError, InvalidMetadata, Problem, error_context
from omnizarr.model import Named
from omnizarr.model.node import check_members, invalid
from omnizarr.stores import Range, Store, check_writable, traits
from omnizarr.stores.base import Bytes
from omnizarr.stores.byte_ranges import ConsistentReader, join_ranges, read_consistently

BATCH = 256  # indexes that a listing fetches at once

Names: TypeAlias = list[str]  # inside the class `list` is a method
Coords: TypeAlias = tuple[int, ...]


def bind_shards(
    store: Store, prefix: str, named: Named, encoding: ChunkKeyEncoding, grid: Grid
) -> IndexedShards:
    """Return the store of an array's chunks that the draft's metadata describe."""
    kind, rank = "storage transformer", len(grid.axes)
    type_, stated = named.configuration.get("type"), named.configuration.get("configuration", {})
    if type_ != "indexed":
        problem = Problem("", "type", f"expected 'indexed', the only one known, got {type_!r}")
        raise InvalidMetadata.of([problem], f"{kind} {named.name!r}")
    if not isinstance(stated, dict):
        raise invalid(kind, named.name, "configuration", f"expected an object, got {stated!r}")
    check_members(Named(named.name, stated), kind, required=("chunks_per_shard",))
    per_shard = stated["chunks_per_shard"]
    good = isinstance(per_shard, list) and all(type(n) is int and n > 0 for n in per_shard)
    if not good or len(per_shard) != rank or 16 * math.prod(per_shard) >= 2**63:
        message = f"expected {rank} positive integers, one an axis, got {per_shard!r}"
        raise invalid(kind, named.name, "chunks_per_shard", message)
    codecs = (Named("bytes", {"endian": "little"}),)
    layout = ShardLayout.of(tuple(per_shard), codecs, at_end=True, field="index")
    return IndexedShards(store, prefix, encoding, layout)


_changes = itertools.count()
_last_change = [-1]  # of any shard by this process


class IndexedShards:
    """A store of single chunks on top of one of shards; other keys pass through."""

    def __init__(
        self, store: Store, prefix: str, encoding: ChunkKeyEncoding, layout: ShardLayout
    ) -> None:
        self.store = store
        self.prefix = prefix
        self.encoding = encoding
        self.layout = layout
        self.rank = len(layout.counts)
        self.level: int = 1 + getattr(store, "level", 0)
        self.read_only = store.read_only

    def __repr__(self) -> str:
        return repr(self.store)

    # Keys: a shard has the key of a chunk in a coarser grid

    def _coords(self, key: str) -> Coords | None:
        """Return the coordinates in a key, or None for keys that pass through."""
        if not key.startswith(self.prefix):
            return None
        return self.encoding.coords(key[len(self.prefix) :], self.rank)

    def _place(self, key: str) -> tuple[str, int] | None:
        """Return the key of a chunk's shard and its number there, or None for other keys."""
        coords = self._coords(key)
        if coords is None:
            return None
        if not coords:
            return key, 0  # the only chunk, however the writer spelled its key
        shard, number = self.layout.locate(coords)
        return self._key(shard), number

    def stored_key(self, key: str) -> str:
        """Return the key of a chunk's shard; other keys stay as they are."""
        place = self._place(key)
        return key if place is None else place[0]

    group = stored_key

    def _key(self, coords: Coords) -> str:
        return self.prefix + self.encoding.key(coords)

    def _is_inside(self, prefix: str) -> bool:
        """Return True if a prefix has some of the array's chunks only, as ``c/1/`` has."""
        return prefix.startswith(self.prefix) and len(prefix) > len(self.prefix)

    # Reading

    def _mark(self, shards: Iterable[str]) -> object:
        """Return a mark that changes if a shard may have been replaced; None: it cannot tell."""
        if hasattr(self.store, "snapshot") or hasattr(self.store, "get_many_versioned"):
            return ""
        if traits(self.store).low_latency and not traits(self.store).process_local:
            return None  # other processes may replace it
        last = _last_change[0]
        return last if key_locks.is_free(self.level, shards) else None

    def _indices(
        self, shards: Iterable[str], fetch: ConsistentReader | None = None
    ) -> dict[str, Index]:
        """Return the indexes of those shards that exist, with one call."""
        keys = list(dict.fromkeys(shards))
        fetch = ConsistentReader(self.store, remember=False) if fetch is None else fetch
        found = fetch([(key, self.layout.index_range) for key in keys])
        indices = {}
        for key, data in zip(keys, found, strict=True):
            if data is not None:
                with _shard_context(key):
                    indices[key] = self.layout.index(data)
        return indices

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        [value] = self.get_many([(key, range)])
        return value

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = list(requests)
        return read_consistently(self.store, lambda fetch: self._get_many(asked, fetch))

    def _get_many(
        self, requests: list[tuple[str, Range | None]], fetch: ConsistentReader
    ) -> list[bytes | None]:
        wanted = [(key, part, self._place(key)) for key, part in requests]
        shards = {place[0] for _, _, place in wanted if place is not None}
        passed = {i: (key, part) for i, (key, part, place) in enumerate(wanted) if not place}
        before = self._mark(shards)
        indices = self._indices(shards, fetch) if shards else {}
        places: dict[str, dict[int, Range]] = {}
        for i, (_, part, place) in enumerate(wanted):
            where = _range_of(place, indices)
            if place is not None and where is not None:
                places.setdefault(place[0], {})[i] = (part or Range()).within(where)
        fetched = {shard: join_ranges(parts.values(), MAX_GAP) for shard, parts in places.items()}
        below = [(shard, part) for shard, some in fetched.items() for part in some.ranges]
        values = iter(fetch([*passed.values(), *below]) if wanted else [])
        unchanged = before is not None and before == self._mark(shards)
        if below and not unchanged and not _equal(indices, self._indices(indices)):
            raise stores.byte_ranges.ValueReplaced(f"{next(iter(indices))!r} in {self.store!r}")
        found: list[bytes | None] = [None] * len(wanted)
        for i in passed:
            found[i] = next(values)
        for shard, some in fetched.items():
            with _shard_context(shard):
                parts = split_joined(some, [*itertools.islice(values, len(some.ranges))])
            for i, part in places[shard].items():
                found[i] = bytes(parts[part])
        return found

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the bytes of existing values by key; for chunks, from the indexes."""
        wanted = {key: self._place(key) for key in keys}
        found = stores.sizes(self.store, [key for key, place in wanted.items() if place is None])
        shards = {place[0] for place in wanted.values() if place is not None}
        indices = self._indices(shards) if shards else {}
        ranges = ((key, _range_of(place, indices)) for key, place in wanted.items())
        return {**found, **{key: r.length or 0 for key, r in ranges if r is not None}}

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        self.set_many([(key, value)])

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        self.change_many(dict(values))

    def erase(self, key: str) -> None:
        self.change_many({key: None})

    def change_many(self, changes: Mapping[str, Bytes | None]) -> None:
        """Store (or erase: None) several values, each shard once.

        A shard is read first unless all of its chunks are given, also those outside the array.
        """
        check_writable(self)
        shards: dict[str, dict[int, Bytes | None]] = {}
        for key, value in changes.items():
            place = self._place(key)
            if place is not None:
                shards.setdefault(place[0], {})[place[1]] = value
            elif value is None:
                self.store.erase(key)
            else:
                self.store.set(key, value)
        for shard, new in shards.items():
            with key_locks.locked(self.level, [shard]), _shard_context(shard):
                _last_change[0] = next(_changes)
                old = None if len(new) == self.layout.count else self.store.get(shard)
                chunks = {} if old is None else self.layout.split(old, leave=new)
                chunks.update({n: v for n, v in new.items() if v is not None})
                if chunks:
                    self.store.set(shard, self.layout.join(chunks))
                else:
                    self.store.erase(shard)

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        if self._is_inside(prefix):
            self.change_many(dict.fromkeys(self.list_prefix(prefix)))
        else:
            stores.erase_prefix(self.store, prefix)

    # Listing

    def list(self) -> Iterator[str]:
        yield from self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        # Chunks below a prefix may be in any shard.
        below = self.prefix if self._is_inside(prefix) else prefix
        yield from self._chunks(stores.list_prefix(self.store, below), prefix)

    def chunks_in(self, shard: str) -> Names:
        """Return the keys of the chunks that one shard has."""
        return [*self._chunks([shard], self.prefix)]

    def _chunks(self, keys: Iterable[str], prefix: str) -> Iterator[str]:
        """Yield the keys below a prefix, with keys of chunks in place of their shards."""
        left = iter(keys)
        while some := [*itertools.islice(left, BATCH)]:
            shards = {key: c for key in some if (c := self._coords(key)) is not None}
            indices = self._indices(shards) if shards else {}
            for key in some:
                found = [key]
                if key in shards:
                    shard, numbers = shards[key], present(indices[key]) if key in indices else []
                    found = [
                        self._key(self.layout.chunk(shard, n)) if shard else key for n in numbers
                    ]
                yield from (k for k in found if k.startswith(prefix))


def _equal(before: Mapping[str, Index], after: Mapping[str, Index]) -> bool:
    """Return True if shards were not replaced while parts of them were read."""
    return {k: i.tobytes() for k, i in before.items()} == {k: i.tobytes() for k, i in after.items()}


def _range_of(place: tuple[str, int] | None, indices: Mapping[str, Index]) -> Range | None:
    """Return the bytes of a chunk in its shard; None if the chunk or the shard is missing."""
    if place is None or place[0] not in indices:
        return None
    with _shard_context(place[0]):
        return chunk_range(indices[place[0]], place[1])


def _shard_context(shard: str) -> error_context:
    """Have errors of the block name the shard."""
    return error_context(f"shard {shard!r}", catch=(ChunkError,), key=shard)
