"""The reference engine reads chunks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Region
from omnizarr.codecs.holes import watch
from omnizarr.codecs.steps import Decode, Steps, run
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.fetch import fetch_ahead
from omnizarr.engine.missing import Coords, Filled
from omnizarr.engine.reference.telling import telling
from omnizarr.engine.rows import run_rows, useful_threads
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.stores import LocalStore, get_many
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.one_value import settled
from omnizarr.stores.patience import ATTEMPTS, attempts

TOGETHER = 2**20  # bytes of chunks, decoded, that one call fetches
UNKNOWN = 2**20  # bytes of a chunk, where items of variable length leave that open


def read(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], filled: Filled | None = None
) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    _ = array.fill  # bound before threads ask for it
    store, count = array.chunk_store, plan.count
    # Files are near: threads that each read and decode some are quicker than to fetch ahead.
    if isinstance(store, LocalStore) and array.first_chain.sharded is None:
        some, number = in_turn(array, plan.rows(), count)
        several = partial(_read_some, array, out=out, filled=filled)
        run_rows(some, number, several, out.nbytes, waits=False)
    elif isinstance(store, LocalStore) or not hasattr(store, "get_many"):
        one = partial(read_row, array, out=out, filled=filled)
        run_rows(plan.rows(), count, one, out.nbytes, waits=False)
    elif count:
        size = fetched(array, out.nbytes // count)
        fetch_ahead(
            store,
            plan.rows(),
            lambda row: _steps(array, row.coords, row.region),
            lambda row, decode: fill_row(array, row, decode, out, filled),
            size=size,
            nbytes=size * count,
            threads=useful_threads(count, out.nbytes),
        )


def fetched(array: BoundArray, selected: int) -> int:
    """About how many bytes one chunk takes while it waits to be decoded."""
    chain = array.first_chain
    whole = chain.spec.nbytes or UNKNOWN
    found = chain.sharded
    if found is None:
        return whole
    inner = found[0].inner.spec  # the selection may touch a bit of those around it
    around: int = 2 ** len(inner.shape) * (inner.nbytes or UNKNOWN)
    return min(whole, selected + around)


def in_turn(
    array: BoundArray, rows: Iterator[Row], count: int, nbytes: int = TOGETHER
) -> tuple[Iterator[list[Row]], int]:
    """Rows whose chunks are small enough to be taken together, and how often there are some."""
    size = array.first_chain.spec.nbytes or UNKNOWN
    share = count // (4 * config.get().threads)
    number = max(1, min(nbytes // max(1, size), share))
    return iter(lambda: [*itertools.islice(rows, number)], []), -(-count // number)


def _read_some(
    array: BoundArray, rows: list[Row], out: npt.NDArray[Any], filled: Filled | None
) -> None:
    """Fill the parts of `out` that come from some chunks, which are fetched in one call."""
    keys = [array.key(row.coords) for row in rows]
    try:
        found = get_many(array.chunk_store, [(key, None) for key in keys])
    except OmnizarrError:  # of which chunk it is shows when each is asked for by itself
        found = [None] * len(rows)
    for row, data in zip(rows, found, strict=True):
        if data is None:
            read_row(array, row, out, filled)
        else:
            decode = partial(array.chain_at(row.coords).decode_into, data, row.region)
            fill_row(array, row, decode, out, filled)


def read_row(
    array: BoundArray, row: Row, out: npt.NDArray[Any], filled: Filled | None = None
) -> None:
    """Fill the part of `out` that comes from one chunk."""
    fill_row(array, row, _decoder(array, row.coords, row.region), out, filled)


def fill_row(
    array: BoundArray,
    row: Row,
    decode: Decode | None,
    out: npt.NDArray[Any],
    filled: Filled | None = None,
) -> None:
    """Put one chunk's part into `out`; no decoder: the fill value."""
    index: Any = (*row.outer, ...)  # without the ellipsis an object would hold the array
    if decode is None:
        if filled is not None:
            filled.add_chunk(row)
        out[index] = array.fill
        return
    part = out[index] if row.pick is None else empty_box(array, row.region)
    with telling("read", array, row.coords):
        if filled is None:
            decode(part)
        else:
            with watch() as holes:
                decode(part)
            filled.add(row, holes)
    if row.pick is not None:
        out[index] = part[row.pick]


def _steps(
    array: BoundArray, coords: Coords, region: Region, held: bool = False
) -> Steps[Decode | None]:
    """What it takes to read part of one chunk; None where the store has none.

    `held`: whatever is asked for is of one value, which needs no look whether it was replaced.
    """
    chain = array.chain_at(coords)
    with telling("read", array, coords):
        decode = yield from _settled(array, chain, array.key(coords), region, held)
        for other in array.encoding.other_keys(coords) if decode is None else ():
            decode = yield from chain.steps(array.prefix + other, region)
    return decode


def _settled(
    array: BoundArray, chain: Chain, key: str, region: Region, held: bool
) -> Steps[Decode | None]:
    """The steps of a chunk, again where its shard was replaced between its index and its parts.

    As long as the index is the same, what was read at its places is one value or the next of each
    inner chunk. Far stores are not asked once more, but say what value a part is of.
    """
    near = getattr(array.chunk_store, "near", False)
    in_memory = type(array.chunk_store) is MemoryStore
    if near and (in_memory or chain.sharded is None):  # one request is as quick: one value
        [data] = yield [(key, None)]
        return None if data is None else partial(chain.decode_into, data, region)
    if not near or held:
        return (yield from chain.steps(key, region))
    for _ in attempts():
        steps = chain.steps(key, region)
        first = next(steps)
        answers = yield first
        try:
            wanted = steps.send(answers)
            while True:
                wanted = steps.send((yield wanted))
        except StopIteration as end:
            decode: Decode | None = end.value
        if first == [(key, None)] or (yield first) == answers:
            return decode
    raise ChunkError(f"the shard {key!r} was replaced {ATTEMPTS} times while it was read")


def _decoder(array: BoundArray, coords: Coords, region: Region) -> Decode | None:
    """What fills an array with part of one chunk, or None where the store has none."""
    chain = array.chain_at(coords)
    far = chain.reads_parts and not getattr(array.chunk_store, "near", False)
    if chain.sharded is None and coords and not far:  # the same in fewer steps
        with telling("read", array, coords):
            data = array.chunk_store.get(array.key(coords))
        return None if data is None else partial(chain.decode_into, data, region)
    store = array.chunk_store
    held = hasattr(store, "holding")
    return settled(store, lambda fetch: run(_steps(array, coords, region, held), fetch))


def read_chunk(array: BoundArray, coords: Coords) -> npt.NDArray[Any] | None:
    """One decoded chunk in full, or None where the store has none."""
    region = tuple(slice(0, n, 1) for n in array.grid.chunk_shape(coords))
    decode = _decoder(array, coords, region)
    if decode is None:
        return None
    chunk = empty_box(array, region)
    with telling("read", array, coords):
        decode(chunk)
    return chunk


def empty_box(array: BoundArray, region: Region) -> npt.NDArray[Any]:
    return np.empty([len(range(s.start, s.stop, s.step)) for s in region], array.dtype)
