"""The reference engine: plain Python and NumPy, can do everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.emptiness import is_fill
from omnizarr.codecs.holes import watch
from omnizarr.codecs.steps import Decode, Steps, run
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.fetch import fetch_ahead
from omnizarr.engine.missing import Filled
from omnizarr.engine.rows import run_rows, useful_threads
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.model import paths
from omnizarr.storage_transformers import SetsGroups
from omnizarr.stores import LocalStore, compares, erase_values, get_many, replace, set_many
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.one_value import settled
from omnizarr.stores.patience import ATTEMPTS, attempts

TOGETHER = 2**20  # bytes of chunks, decoded, that one call fetches
UNKNOWN = 2**20  # bytes of a chunk, where items of variable length leave that open

Coords = tuple[int, ...]


# Reading


def read(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], filled: Filled | None = None
) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    _ = array.fill  # bound before threads ask for it
    store, count = array.chunk_store, plan.count
    # Files are near: threads that each read and decode some are quicker than to fetch ahead.
    if isinstance(store, LocalStore) and _first_chain(array).sharded is None:
        some, number = _in_turn(array, plan)
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


def _first_chain(array: BoundArray) -> Chain:
    return array.chain_at((0,) * len(array.grid.axes))


def fetched(array: BoundArray, selected: int) -> int:
    """About how many bytes one chunk takes while it waits to be decoded."""
    chain = _first_chain(array)
    whole = chain.spec.nbytes or UNKNOWN
    found = chain.sharded
    if found is None:
        return whole
    inner = found[0].inner.spec  # the selection may touch a bit of those around it
    around: int = 2 ** len(inner.shape) * (inner.nbytes or UNKNOWN)
    return min(whole, selected + around)


def _in_turn(array: BoundArray, plan: Plan) -> tuple[Iterator[list[Row]], int]:
    """Rows whose chunks are small enough to be fetched together, and how often there are some."""
    rows, count = plan.rows(), plan.count
    size = _first_chain(array).spec.nbytes or UNKNOWN
    share = count // (4 * config.get().threads)
    number = max(1, min(TOGETHER // max(1, size), share))
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
    part = out[index] if row.pick is None else _box(array, row.region)
    with telling("read", array, row.coords):
        if filled is None:
            decode(part)
        else:
            with watch() as holes:
                decode(part)
            filled.add(row, holes)
    if row.pick is not None:
        out[index] = part[row.pick]


def _steps(array: BoundArray, coords: Coords, region: Region) -> Steps[Decode | None]:
    """What it takes to read part of one chunk; None where the store has none."""
    chain = array.chain_at(coords)
    with telling("read", array, coords):
        decode = yield from _settled(array, chain, array.key(coords), region)
        for other in array.encoding.other_keys(coords) if decode is None else ():
            decode = yield from chain.steps(array.prefix + other, region)
    return decode


def _settled(array: BoundArray, chain: Chain, key: str, region: Region) -> Steps[Decode | None]:
    """The steps of a chunk, again where its shard was replaced between its index and its parts.

    As long as the index is the same, what was read at its places is one value or the next of each
    inner chunk. Far stores are not asked once more, but say what value a part is of.
    """
    near = getattr(array.chunk_store, "near", False)
    in_memory = type(array.chunk_store) is MemoryStore
    if near and (in_memory or chain.sharded is None):  # one request is as quick: one value
        [data] = yield [(key, None)]
        return None if data is None else partial(chain.decode_into, data, region)
    if not near:
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
    return settled(array.chunk_store, lambda fetch: run(_steps(array, coords, region), fetch))


def read_chunk(array: BoundArray, coords: Coords) -> npt.NDArray[Any] | None:
    """One decoded chunk in full, or None where the store has none."""
    region = tuple(slice(0, n, 1) for n in array.grid.chunk_shape(coords))
    decode = _decoder(array, coords, region)
    if decode is None:
        return None
    chunk = _box(array, region)
    with telling("read", array, coords):
        decode(chunk)
    return chunk


def _box(array: BoundArray, region: Region) -> npt.NDArray[Any]:
    return np.empty([len(range(s.start, s.stop, s.step)) for s in region], array.dtype)


# Writing


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store `value`, of the plan's full shape, in the chunks."""
    _write(array, plan.rows(), plan.count, value)


def write_rows(array: BoundArray, rows: list[Row], value: npt.NDArray[Any]) -> None:
    """Store the parts of `value` that belong into some of the chunks."""
    _write(array, iter(rows), len(rows), value)


def _write(array: BoundArray, rows: Iterator[Row], count: int, value: npt.NDArray[Any]) -> None:
    store = array.chunk_store
    if array.encoding.other_keys((0,) * len(array.grid.axes)):
        several = None
    elif hasattr(store, "change_many"):
        several = _by_group(array, cast(SetsGroups, store), rows)
    elif hasattr(store, "set_many"):
        several = _in_batches(array, rows, count)
    else:
        several = None
    if several is None:
        run_rows(rows, count, lambda row: _write_row(array, row, value), value.nbytes)
    else:
        run_rows(iter(several), len(several), partial(_write_some, array, value), value.nbytes)


def _by_group(array: BoundArray, store: SetsGroups, rows: Iterator[Row]) -> list[list[Row]]:
    """Rows that share a value below, which is replaced once."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(store.group(array.key(row.coords)), []).append(row)
    return list(groups.values())


def _in_batches(array: BoundArray, rows: Iterator[Row], count: int) -> list[list[Row]]:
    """Rows to be stored in one call: while a thread waits for the store, another encodes."""
    threads = config.get().threads
    size = _first_chain(array).spec.nbytes or UNKNOWN
    batch = max(1, min(config.get().in_flight // (threads * size), -(-count // threads)))
    return [some for _ in range(-(-count // batch)) if (some := [*itertools.islice(rows, batch)])]


def _write_row(array: BoundArray, row: Row, value: npt.NDArray[Any]) -> None:
    if not row.whole and compares(array.chunk_store):
        _replace_row(array, row, value)
        return
    chain = array.chain_at(row.coords)
    with telling("write", array, row.coords):
        data = _changed(array, chain, row, value, lambda: _stored(array, row.coords))
        _put(array, row.coords, data)


def _replace_row(array: BoundArray, row: Row, value: npt.NDArray[Any]) -> None:
    """Change one chunk of a store that compares; a key cannot be erased like that, so it stays."""
    chain = array.chain_at(row.coords)

    def changed(old: bytes | None) -> Buffer:
        new = _changed(array, chain, row, value, lambda: old)
        return chain.encode(_empty_chunk(array, chain)) if new is None else new

    with telling("write", array, row.coords):
        replace(array.chunk_store, array.key(row.coords), changed)


def _write_some(array: BoundArray, value: npt.NDArray[Any], rows: list[Row]) -> None:
    """Store some chunks, with one call to fetch those that are changed and one to store all."""
    store = array.chunk_store
    if compares(store):
        for row in rows:
            if not row.whole:
                _replace_row(array, row, value)
        rows = [row for row in rows if row.whole]
        if not rows:
            return
    parts = [row.coords for row in rows if not row.whole]
    with telling("write", array, rows[0].coords):
        found = get_many(store, [(array.key(coords), None) for coords in parts]) if parts else []
    old = dict(zip(parts, found, strict=True))
    changes: dict[str, Buffer | None] = {}
    for row in rows:
        chain = array.chain_at(row.coords)
        with telling("write", array, row.coords):
            data = _changed(array, chain, row, value, partial(old.__getitem__, row.coords))
            changes[array.key(row.coords)] = data
    with telling("write", array, rows[0].coords):
        if hasattr(store, "change_many"):
            cast(SetsGroups, store).change_many(changes)
            return
        set_many(store, [(key, data) for key, data in changes.items() if data is not None])
        erase_values(store, [key for key, data in changes.items() if data is None])


def _changed(
    array: BoundArray,
    chain: Chain,
    row: Row,
    value: npt.NDArray[Any],
    old: Callable[[], Buffer | None],
) -> Buffer | None:
    """The new bytes of a chunk, or None for one with nothing but the fill value that may go."""
    index: Any = (*row.outer, ...)
    part: npt.NDArray[Any] = value[index]
    if row.whole and part.shape == chain.spec.shape:
        return _encoded(array, chain, part)
    before = None if row.whole else old()
    if row.pick is not None:  # the box around scattered elements, with those replaced
        box = _box(array, row.region)
        if before is None:
            box[...] = array.fill
        else:
            chain.decode_into(before, row.region, box)
        box[row.pick] = part
        part = box
    return _kept(array, chain, chain.update(before, row.region, part))


def _encoded(array: BoundArray, chain: Chain, chunk: npt.NDArray[Any]) -> Buffer | None:
    keep = config.get().write_empty_chunks or not array.fill_defined
    return None if not keep and is_fill(chunk, array.fill) else chain.encode(chunk)


def _kept(array: BoundArray, chain: Chain, data: Buffer | None) -> Buffer | None:
    """The bytes of a chunk of nothing but the fill value (None), where it must be stored."""
    if data is None and (config.get().write_empty_chunks or not array.fill_defined):
        return chain.encode(_empty_chunk(array, chain))
    return data


def _empty_chunk(array: BoundArray, chain: Chain) -> npt.NDArray[Any]:
    chunk = np.empty(chain.spec.shape, array.dtype)
    chunk[...] = array.fill
    return chunk


def _stored(array: BoundArray, coords: Coords) -> Buffer | None:
    old = array.chunk_store.get(array.key(coords))
    for other in array.encoding.other_keys(coords) if old is None else ():
        old = array.chunk_store.get(array.prefix + other)
    return old


def _put(array: BoundArray, coords: Coords, data: Buffer | None) -> None:
    """Store an encoded chunk; None erases it."""
    key, store = array.key(coords), array.chunk_store
    if data is None:
        store.erase(key)
    else:
        store.set(key, data)
    for other in array.encoding.other_keys(coords):
        if store.get(array.prefix + other) is not None:
            store.erase(array.prefix + other)  # the old value would show again


def write_chunk(array: BoundArray, coords: Coords, chunk: npt.NDArray[Any]) -> None:
    """Store one whole chunk, or erase its key where it has nothing but the fill value."""
    chain = array.chain(chunk.shape)
    with telling("write", array, coords):
        _put(array, coords, _encoded(array, chain, chunk))


# Both


class telling:
    """Have errors inside the block say which chunk could not be read or written."""

    __slots__ = ("array", "coords", "verb")

    def __init__(self, verb: str, array: BoundArray, coords: Coords) -> None:
        self.verb, self.array, self.coords = verb, array, coords

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, e: BaseException | None, trace: object) -> None:
        if isinstance(e, MemoryError):
            e.args = (f"there is no memory for it: {e.args[0] if e.args else 'a chunk'}",)
        elif not isinstance(e, OmnizarrError) or (isinstance(e, ChunkError) and e.path):
            return
        path, key = paths.show(self.array.path), self.array.key(self.coords)
        raise ChunkError(
            f"cannot {self.verb} chunk {self.coords} of {path}"
            f" (key {key!r} in {self.array.store!r}): {e}",
            path=path,
            chunk=self.coords,
            key=key,
            codec=getattr(e, "codec", ""),
        ) from e
