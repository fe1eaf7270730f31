"""Reading by way of the chunk cache: chunk by chunk, each key's generation asked for first."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.shard_layout import joined
from omnizarr.codecs.sharding_indexed import Shards, telling
from omnizarr.engine import reference
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.cache import ChunkCache, Values
from omnizarr.indexing import Plan, Row
from omnizarr.stores import Range, Versioned, get_many

Name: TypeAlias = tuple[Any, ...]


class Changed(Exception):
    """The key has got another value since its generation was asked for."""


@dataclass(frozen=True, slots=True)
class Value:
    """One stored value of one key: every part of it, or `Changed`."""

    store: Any
    key: str
    generation: str

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
            data, generation = self.store.get_versioned(self.key, part)
            if data is None or generation != self.generation:
                raise Changed
            out.append(data)
        return out


def knows(array: BoundArray) -> bool:
    """Whether chunks of an array can be kept: their store tells generations, of items that no
    caller can change."""
    store = array.chunk_store
    return isinstance(store, Versioned) and not array.data_type.variable


def read(cache: ChunkCache, array: BoundArray, plan: Plan, out: npt.NDArray[Any]) -> None:
    """Fill `out`, of the plan's full shape, from chunks in the cache or in the store."""
    _ = array.fill  # bound before threads ask for it
    store = cache.number(cast(Hashable, array.store))

    @functools.cache
    def name(shape: tuple[int, ...]) -> Name:
        # Another handle may read the same key as another type, or with other codecs.
        return store, cache.number(array.chain_key(shape))

    def one(row: Row) -> None:
        shape = array.grid.chunk_shape(row.coords)
        _read_row(cache, name(shape), array, row, out)

    reference.run_rows(plan.rows(), plan.count, one, out.nbytes)


def _read_row(
    cache: ChunkCache, name: Name, array: BoundArray, row: Row, out: npt.NDArray[Any]
) -> None:
    chain = array.chain_at(row.coords)
    key, store = array.key(row.coords), cast(Versioned, array.chunk_store)
    with reference.telling("read", array, row.coords):
        generation = store.generation(key)
    if generation is not None:
        value = Value(array.chunk_store, key, generation)
        decode = partial(_fill, cache, (*name, key, generation), chain, value, row.region)
        try:
            reference.fill_row(array, row, decode, out)
            return
        except Changed:
            pass  # so it is read as it is now
    reference.read_row(array, row, out)


def _fill(
    cache: ChunkCache, name: Name, chain: Chain, value: Value, region: Region, out: Values
) -> None:
    """Fill `out` with part of a chunk."""
    if chain.sharded is not None:
        shards, axes = chain.sharded
        turned = tuple(region[i] for i in axes)
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


def _decoded(chain: Chain, data: Buffer) -> Values:
    """A whole chunk in memory of its own."""
    out = np.empty(chain.spec.shape, chain.spec.data_type.dtype)
    chain.decode_into(data, tuple(slice(0, n, 1) for n in chain.spec.shape), out)
    return out
