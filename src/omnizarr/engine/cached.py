"""Reading by way of the chunk cache: chunk by chunk, each key's generation asked for first.

From a store that is far away, generations and missing values of many chunks are asked for side by
side.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.holes import moved, tell
from omnizarr.codecs.shard_layout import joined
from omnizarr.codecs.sharding_indexed import Shards, telling
from omnizarr.engine import reference
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.cache import ChunkCache, Values
from omnizarr.engine.missing import Filled
from omnizarr.engine.rows import run_rows
from omnizarr.errors import OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.stores import LocalStore, Range, Versioned, get_many
from omnizarr.stores.requests import in_parallel

Name: TypeAlias = tuple[Any, ...]


Known: TypeAlias = "tuple[dict[str, str | None], dict[str, Fetched]]"
NOTHING: Known = ({}, {})


class Changed(Exception):
    """The key has got another value since its generation was asked for."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Part of a value, or all of it (None)."""

    part: Range | None
    data: bytes | None
    generation: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """One stored value of one key: every part of it, or `Changed`."""

    store: Any
    key: str
    generation: str
    fetched: Fetched | None = None  # what was fetched ahead

    def parts(self, ranges: Sequence[Range | None]) -> list[Buffer]:
        """Several parts, all of this generation; None is the whole."""
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


def knows(array: BoundArray, holes: bool) -> bool:
    """Whether chunks of an array can be kept: their store tells generations, of items that no
    caller can change. Chunks with holes inside, of which a kept one tells nothing, are not
    where those are asked for."""
    store = array.chunk_store
    if not isinstance(store, Versioned) or array.data_type.variable or array.codecs_key is None:
        return False
    if not holes:
        return True
    chain = array.first_chain
    kept = chain if chain.sharded is None else chain.sharded[0].inner
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
        return store, cache.number(array.chain_key(shape))

    def one(row: Row, known: Known = NOTHING) -> None:
        shape = array.grid.chunk_shape(row.coords)
        _read_row(cache, name(shape), array, row, known, out, filled)

    rows, count = plan.rows(), plan.count
    if not count:
        return
    if isinstance(array.store, LocalStore) or not hasattr(array.store, "get_many"):
        run_rows(rows, count, one, out.nbytes, waits=False)
        return
    # Far away a request takes long, so those of many chunks run side by side.
    batch = max(1, config.get().in_flight // (2 * reference.fetched(array, out.nbytes // count)))
    while some := [*itertools.islice(rows, batch)]:
        known = _ahead(cache, array, some, name)
        here = partial(one, known=known)
        run_rows(iter(some), len(some), here, out.nbytes, waits=False)


def _ahead(
    cache: ChunkCache, array: BoundArray, rows: list[Row], name: Callable[[tuple[int, ...]], Name]
) -> Known:
    """The generations of some chunks, and of those that are not kept the value or the index."""
    store = cast(Versioned, array.chunk_store)
    wanted: list[tuple[str, Range | None]] = []
    try:
        keys = [array.key(row.coords) for row in rows]
        generations = dict(zip(keys, in_parallel(store.generation, keys), strict=True))
        for row, key in zip(rows, keys, strict=True):
            sharded = array.chain_at(row.coords).sharded
            full: Name = *name(array.grid.chunk_shape(row.coords)), key, generations[key]
            full = (*full, "index") if sharded else full
            if generations[key] is not None and not cache.has(full):
                wanted.append((key, sharded[0].layout.index_range if sharded else None))
        answers = in_parallel(lambda pair: store.get_versioned(*pair), wanted)
    except OmnizarrError:
        return NOTHING  # each row asks for itself, and what fails then is named
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
    chain = array.chain_at(row.coords)
    key, store = array.key(row.coords), cast(Versioned, array.chunk_store)
    generations, fetched = known
    with reference.telling("read", array, row.coords):
        generation = generations[key] if key in generations else store.generation(key)
    if generation is not None:
        value = Value(array.chunk_store, key, generation, fetched.get(key))
        decode = partial(_fill, cache, (*name, key, generation), chain, value, row.region)
        try:
            reference.fill_row(array, row, decode, out, filled)
            return
        except Changed:
            pass  # so it is read as it is now
    reference.read_row(array, row, out, filled)


def _fill(
    cache: ChunkCache, name: Name, chain: Chain, value: Value, region: Region, out: Values
) -> None:
    """Fill `out` with part of a chunk."""
    if chain.sharded is not None:
        shards, axes = chain.sharded
        turned = tuple(region[i] for i in axes)
        with moved(chain.turned_back):
            _fill_from_shard(cache, name, shards, value, turned, out.transpose(axes))
        return
    [chunk] = cache.get([name], lambda _: [_decoded(chain, value.parts([None])[0])])
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
    pieces = shards.pieces(index, region)
    there = [p for p in pieces if p.span is not None]

    def load(places: list[int]) -> list[Values]:
        wanted = joined(there[i].span or Range() for i in places)
        parts = wanted.cut(value.parts(wanted.ranges))
        found = []
        for piece in (there[i] for i in places):
            with telling(f"inner chunk {piece.coords}"):
                found.append(_decoded(shards.inner, parts[piece.span or Range()]))
        return found

    chunks = iter(cache.get([(*name, p.coords) for p in there], load))
    for piece in pieces:
        outside: Any = (*piece.outside, ...)
        inside: Any = (*piece.inside, ...)
        out[outside] = shards.spec.fill if piece.span is None else next(chunks)[inside]
        if piece.span is None:
            tell(shards.outside(piece.coords, piece.inside))


def _decoded(chain: Chain, data: Buffer) -> Values:
    """A whole chunk in memory of its own."""
    out = np.empty(chain.spec.shape, chain.spec.data_type.dtype)
    chain.decode_into(data, tuple(slice(0, n, 1) for n in chain.spec.shape), out)
    return out
