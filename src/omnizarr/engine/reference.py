"""The reference engine: reads and writes every array, in Python and NumPy."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnizarr import config, stores
from omnizarr.codecs import CodecPipeline
from omnizarr.codecs.codec import Buffer, Region, is_fill
from omnizarr.codecs.pipeline import Decode, Requests, gather_requests, run_requests
from omnizarr.concurrency import pool
from omnizarr.concurrency.pool import for_each, in_parallel, thread_slots, useful_threads
from omnizarr.concurrency.retry import CONFLICTS, Overtaken, retry_conflicts
from omnizarr.engine.binding import BoundArray, chunk_context
from omnizarr.engine.inner_chunks import largest_whole
from omnizarr.engine.missing_chunks import Coords, FilledParts
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.stores import Store, direct_file_root, get_many, supports_compare_and_set, traits
from omnizarr.stores.byte_ranges import ConsistentReader, ValueReplaced, read_consistently
from omnizarr.stores.operations import conditionally, waits_for
from omnizarr.stores.tracing import in_array

Change: TypeAlias = "Callable[[bytes | None], Buffer | None]"  # of the stored bytes of a chunk
BATCH_BYTES = 2**20  # of chunks in small files that are read or stored in one call
UNKNOWN = 2**20  # bytes of a chunk, where items of variable length leave that open


def read(
    array: BoundArray, plan: Plan, out: npt.NDArray[Any], filled: FilledParts | None = None
) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    _ = array.fill  # bound before threads ask for it
    fetch(array, plan, out.nbytes, partial(fill_row, array, out=out, filled=filled))


def fetch(array: BoundArray, plan: Plan, nbytes: int, use: Callable[[Row, Any], None]) -> None:
    """Call `use` for every row, also in parallel, with a decoder, or None for a missing chunk."""
    store, count = array.chunk_store, plan.count
    # Of files, threads that each read and decode some are quicker than fetching ahead.
    in_files = stores.file_root(store) is not None
    if in_files and array.first_pipeline.sharded is None:
        batches, number = _file_batches(array, plan.rows(), count)
        for_each(batches, number, partial(_fetch_some, array, use=use), nbytes, waits=False)
    elif in_files or not hasattr(store, "get_many"):

        def one(row: Row) -> None:
            use(row, _decoder(array, row.coords, row.region))

        for_each(plan.rows(), count, one, nbytes, waits=False)
    elif count:
        _fetch_ahead(array, plan, nbytes, use)


def _fetch_ahead(
    array: BoundArray, plan: Plan, nbytes: int, use: Callable[[Row, Any], None]
) -> None:
    """Do as `fetch` does, with the chunks of a batch running their requests side by side.

    So a batch of shards costs one round for all indexes and one for all inner chunks. Where memory
    is not enough for all chunks, each thread has a batch of its own: some decode, others wait.
    """
    store, rows, count = array.chunk_store, plan.rows(), plan.count
    whole = largest_whole(array, count)  # bytes of values that are fetched at once
    size, threads = whole or estimate_fetched(array, nbytes // count), useful_threads(count, nbytes)

    def requests(row: Row) -> Requests[Decode | None]:
        return _read_part(array, row.coords, row.region)

    def one(row: Row) -> Decode | None:
        return read_consistently(store, lambda fetch: run_requests(requests(row), fetch))

    def fetch_some(some: list[Row]) -> Iterator[tuple[Row, Decode | None]]:
        try:
            reader = ConsistentReader(store, size=whole)
            found = run_requests(gather_requests(map(requests, some)), reader)
            reader.verify()
        except (OmnizarrError, ValueReplaced):
            found = [one(row) for row in some]  # so that errors name the chunk
        return zip(some, found, strict=True)

    def fetch_and_use(some: list[Row]) -> None:
        for row, found in fetch_some(some):
            pool.check_waited_for()
            use(row, found)

    with pool.bytes_in_flight(size * count) as granted:
        if granted >= size * count:
            all_rows = fetch_some([*rows])
            pool.share_items(all_rows, lambda pair: use(*pair), threads, 1, waits=False)
        else:
            batch = max(1, granted // (threads * max(1, size)))
            batches = iter(lambda: [*itertools.islice(rows, batch)], [])
            pool.share_items(batches, fetch_and_use, threads, 1, waits=False)


def estimate_fetched(array: BoundArray, selected: int) -> int:
    """Estimate how many bytes of one chunk are held until it is decoded."""
    pipeline = array.first_pipeline
    whole = pipeline.spec.nbytes or UNKNOWN
    found = pipeline.sharded
    if found is None:
        return whole
    inner = found[0].inner.spec  # the selection may touch a bit of those around it
    neighbours: int = 2 ** len(inner.shape) * (inner.nbytes or UNKNOWN)
    return min(whole, selected + neighbours)


def _file_batches(
    array: BoundArray, rows: Iterator[Row], count: int
) -> tuple[Iterator[list[Row]], int]:
    """Return batches of rows whose files are read or stored in one call, and their number."""
    size = array.first_pipeline.spec.nbytes or UNKNOWN
    batch = max(1, min(BATCH_BYTES // size, count // (4 * config.get().threads)))
    return iter(lambda: [*itertools.islice(rows, batch)], []), -(-count // batch)


def _fetch_some(array: BoundArray, rows: list[Row], use: Callable[[Row, Any], None]) -> None:
    """Call `use` for some rows; one call of C fetches all, so that threads switch less often."""
    try:
        found = get_many(array.chunk_store, [(array.key(row.coords), None) for row in rows])
    except OmnizarrError:  # reading each chunk on its own shows which one it is
        for row in rows:
            use(row, _decoder(array, row.coords, row.region))
        return
    for row, data in zip(rows, found, strict=True):
        if data is None and array.encoding.other_keys(row.coords):
            use(row, _decoder(array, row.coords, row.region))
        else:
            into = array.pipeline_at(row.coords).decode_into
            use(row, None if data is None else partial(into, data, row.region))


def read_row(
    array: BoundArray, row: Row, out: npt.NDArray[Any], filled: FilledParts | None = None
) -> None:
    """Fill the part of `out` that comes from one chunk."""
    fill_row(array, row, _decoder(array, row.coords, row.region), out, filled)


def fill_row(
    array: BoundArray,
    row: Row,
    decode: Decode | None,
    out: npt.NDArray[Any],
    filled: FilledParts | None = None,
) -> None:
    """Put one chunk's part into `out`; no decoder: the fill value."""
    index: Any = (*row.outer, ...)  # without the ellipsis an object would hold the array
    if decode is None:
        array.note_missing()
        if filled is not None:
            filled.add(row)
        out[index] = array.fill
        return
    part = out[index] if row.pick is None else empty_box(array, row.region)
    began = perf_counter()
    with chunk_context("read", array, row.coords):
        boxes = decode(part)
        if filled is not None:
            filled.add(row, boxes)
    if row.pick is not None:
        out[index] = part[row.pick]
    config.count(decode_seconds=perf_counter() - began)


def _read_part(
    array: BoundArray, coords: Coords, region: Region, in_snapshot: bool = False
) -> Requests[Decode | None]:
    """Fetch part of one chunk, and return its decoder, or None if the chunk is missing.

    `in_snapshot`: all answers are of one value, so that it need not be checked if it was replaced.
    """
    pipeline = array.pipeline_at(coords)
    with chunk_context("read", array, coords):
        decode = yield from _read_consistently(
            array, pipeline, array.key(coords), region, in_snapshot
        )
        for other in array.encoding.other_keys(coords) if decode is None else ():
            decode = yield from pipeline.read_part(array.prefix + other, region)
    return decode


def _read_consistently(
    array: BoundArray, pipeline: CodecPipeline, key: str, region: Region, in_snapshot: bool
) -> Requests[Decode | None]:
    """Fetch part of a chunk, again if its shard was replaced between its index and its parts.

    As long as the index is the same, the bytes that it names are one value or the next of each
    inner chunk. Stores with a high latency are not asked again: they tell the version of a part.
    """
    store, low_latency = array.chunk_store, traits(array.chunk_store).low_latency
    in_memory = low_latency and stores.direct_values(store) is not None
    if pipeline.sharded is None or in_memory:  # one value
        [data] = yield [(key, None)]
        return None if data is None else partial(pipeline.decode_into, data, region)
    if not low_latency or in_snapshot:
        return (yield from pipeline.read_part(key, region))
    for _ in CONFLICTS.tries():
        requests = pipeline.read_part(key, region)
        first = next(requests)
        answers = yield first
        failure: ChunkError | None = None
        decode: Decode | None = None
        try:
            wanted = requests.send(answers)
            while True:
                wanted = requests.send((yield wanted))
        except StopIteration as end:
            decode = end.value
        except ChunkError as e:
            failure = e  # parts of another shard may not be what the index says
        if first == [(key, None)] or (yield first) == answers:
            if failure is not None:
                raise failure
            return decode
    raise ChunkError(f"the shard {key!r} was replaced {CONFLICTS.attempts} times while it was read")


def _decoder(array: BoundArray, coords: Coords, region: Region) -> Decode | None:
    """Return the decoder of part of one chunk, or None if the chunk is missing."""
    pipeline = array.pipeline_at(coords)
    if pipeline.sharded is None and coords:  # the same with fewer calls
        with chunk_context("read", array, coords):
            data = array.chunk_store.get(array.key(coords))
        return None if data is None else partial(pipeline.decode_into, data, region)
    store = array.chunk_store
    in_snapshot = hasattr(store, "snapshot")
    return read_consistently(
        store, lambda fetch: run_requests(_read_part(array, coords, region, in_snapshot), fetch)
    )


def read_chunk(array: BoundArray, coords: Coords) -> npt.NDArray[Any] | None:
    """Return one whole chunk, or None if it is missing."""
    region = tuple(slice(0, n, 1) for n in array.grid.chunk_shape(coords))
    with in_array(array, "read", chunks_read=1):
        decode = _decoder(array, coords, region)
        if decode is None:
            return None
        chunk = empty_box(array, region)
        with chunk_context("read", array, coords):
            decode(chunk)
        return chunk


def empty_box(array: BoundArray, region: Region) -> npt.NDArray[Any]:
    return np.empty([len(range(s.start, s.stop, s.step)) for s in region], array.dtype)


def write(array: BoundArray, rows: Iterator[Row], count: int, value: npt.NDArray[Any]) -> None:
    """Store the parts of `value` that belong into the chunks of some rows."""
    store: Any = array.chunk_store
    array.check_skipped()  # the kernel writes no such array
    _ = array.first_pipeline  # an unknown codec is not an error of one chunk
    several, together = None, _write_some
    if array.encoding.other_keys((0,) * len(array.grid.axes)):
        pass  # one by one
    elif traits(store).sends_values and count > 1 and not waits_for(array.store):
        _write_each(array, [*rows], value)
        return
    elif array.compares_metadata:
        several, together = _store_batches(array, rows, count), _change_some
    elif hasattr(store, "change_many"):
        groups: dict[str, list[Row]] = {}  # which one stored value holds, so it is replaced once
        for row in rows:
            groups.setdefault(store.group(array.key(row.coords)), []).append(row)
        several = list(groups.values())
    elif direct_file_root(store) is not None and array.first_pipeline.plain_size > 0:
        several = [*_file_batches(array, rows, count)[0]]
    elif hasattr(store, "set_many"):
        several = _store_batches(array, rows, count)
    waits = waits_for(array.store)
    if several is None:
        for_each(rows, count, partial(_write_row, array, value=value), value.nbytes, waits=waits)
    else:
        store_some = partial(together, array, value)
        for_each(iter(several), len(several), store_some, value.nbytes, waits=waits)


def _write_each(array: BoundArray, rows: list[Row], value: npt.NDArray[Any]) -> None:
    """Store chunks by one request each; the threads that send them encode them, some at a time."""
    encoders = thread_slots()
    _ = array.fill  # bound before threads ask for it

    def one(row: Row) -> None:
        if not row.whole:
            _write_row(array, row, value)
            return
        with chunk_context("write", array, row.coords):
            with encoders:
                data = _own(array.chunk_store, _changed(array, row, value, None), value)
            array.put_encoded(row.coords, data)

    size = array.first_pipeline.spec.nbytes or UNKNOWN
    in_parallel(one, rows, max(1, config.get().in_flight // size))


def _own(store: Store, data: Buffer | None, value: npt.NDArray[Any] | None = None) -> Buffer | None:
    """Return bytes that a store may keep: a codec may return the caller's array itself.

    If they are not part of `value`, a store that sends them away takes them as they are.
    """
    if data is None or direct_file_root(store) is not None:
        return data
    sent = value is not None and traits(store).sends_values
    lent = not sent or np.may_share_memory(np.frombuffer(data, np.uint8), cast(Any, value))
    return bytes(data) if lent else data


def _store_batches(array: BoundArray, rows: Iterator[Row], count: int) -> list[list[Row]]:
    """Return batches of rows, each stored in one call: one thread waits while another encodes."""
    threads = config.get().threads
    size = array.first_pipeline.spec.nbytes or UNKNOWN
    batch = max(1, min(config.get().in_flight // (threads * size), -(-count // threads)))
    return list(iter(lambda: [*itertools.islice(rows, batch)], []))


def _write_row(array: BoundArray, row: Row, value: npt.NDArray[Any]) -> None:
    if not row.whole and supports_compare_and_set(array.chunk_store):
        _replace(array, row, partial(_changed, array, row, value))
        return
    with chunk_context("write", array, row.coords):
        old = None if row.whole else array.encoded(row.coords)
        data = _own(array.chunk_store, _changed(array, row, value, old))
    with array.publishing(), chunk_context("write", array, row.coords):
        array.put_encoded(row.coords, data)


def write_fields(array: BoundArray, row: Row, names: Any, value: npt.NDArray[Any]) -> None:
    """Store some fields of one chunk's items by compare-and-set; other fields stay."""
    array.check_skipped()
    pipeline = array.pipeline_at(row.coords)
    index: Any = (*row.outer, ...)

    def changed(old: bytes | None) -> Buffer | None:
        box = _box(array, pipeline, row, old)
        part = box if row.pick is None else box[row.pick]
        part[names] = value[index]
        if row.pick is not None:
            box[row.pick] = part
        return pipeline.update(old, row.region, box)

    _replace(array, row, changed)


def _replace(array: BoundArray, row: Row, change: Change) -> None:
    """Store what `change` makes of a chunk; compare-and-set alone cannot erase keys."""
    if array.compares_metadata:
        _transact(array, row.coords, {}, [(row, change)])
        return

    def changed(old: bytes | None) -> Buffer:
        new = change(old)
        new = _encoded_fill(array.pipeline_at(row.coords)) if new is None else new
        return cast(Buffer, _own(array.chunk_store, new))

    with chunk_context("write", array, row.coords):
        stores.update_value(array.chunk_store, array.key(row.coords), changed)


def _box(
    array: BoundArray, pipeline: CodecPipeline, row: Row, old: Buffer | None
) -> npt.NDArray[Any]:
    """Return the box of a chunk that a row touches, as it is stored now."""
    box = empty_box(array, row.region)
    if old is None:
        box[...] = array.fill
    else:
        pipeline.decode_into(old, row.region, box)
    return box


def _write_some(array: BoundArray, value: npt.NDArray[Any], rows: list[Row]) -> None:
    """Store some chunks: fetch partly changed ones in one call, and store all in another."""
    store = array.chunk_store
    if supports_compare_and_set(store):
        for row in rows:
            if not row.whole:
                _write_row(array, row, value)
        rows = [row for row in rows if row.whole]
        if not rows:
            return
    parts = [row.coords for row in rows if not row.whole]
    with chunk_context("write", array, rows[0].coords):
        found = get_many(store, [(array.key(coords), None) for coords in parts]) if parts else []
    old = dict(zip(parts, found, strict=True))
    changes: dict[str, Buffer | None] = {}
    for row in rows:
        with chunk_context("write", array, row.coords):
            data = _changed(array, row, value, old.get(row.coords))
            data = _not_erased(array, array.pipeline_at(row.coords), row.coords, data)
            changes[array.key(row.coords)] = _own(store, data, value)
    with chunk_context("write", array, rows[0].coords):
        if hasattr(store, "change_many"):
            store.change_many(changes)
            return
        stores.erase_values(store, [key for key, data in changes.items() if data is None])
    try:
        stores.set_many(store, [(key, data) for key, data in changes.items() if data is not None])
    except OmnizarrError:  # storing each chunk on its own shows which one it is
        for row in rows:
            if (data := changes[array.key(row.coords)]) is not None:
                with chunk_context("write", array, row.coords):
                    store.set(array.key(row.coords), data)


def _change_some(array: BoundArray, value: npt.NDArray[Any], rows: list[Row]) -> None:
    """Store some chunks in one transaction; at the end of an axis, only if nobody appends there."""
    whole, ends = dict[str, Buffer | None](), dict[str, Buffer | None]()
    parts, merged = list[tuple[Row, Change]](), list[tuple[Row, Change]]()
    for row in rows:
        if not row.whole:
            parts.append((row, partial(_changed, array, row, value)))
            continue
        with chunk_context("write", array, row.coords):
            data = _own(array.chunk_store, _changed(array, row, value, None))
        if array.watch is not None and array.reaches_beyond(row.coords):
            part = dataclasses.replace(row, whole=False)
            merged.append((row, partial(_changed, array, part, value)))
            ends[array.key(row.coords)] = data
        else:
            whole[array.key(row.coords)] = data
    _transact(array, rows[0].coords, whole, parts, ends, merged)


def _transact(
    array: BoundArray,
    first: Coords,
    whole: Mapping[str, Buffer | None],
    parts: list[tuple[Row, Change]],
    ends: dict[str, Buffer | None] | None = None,
    merged: Iterable[tuple[Row, Change]] = (),
) -> None:
    """Store whole and changed chunks in one transaction, if the array was not replaced.

    The chunks at the `ends` are stored if the shape was not changed, else what is `merged`.
    """
    store: Any = array.chunk_store
    watch = array.watch or array.stored_watch

    def attempt() -> None:
        expected, changes, changed = watch.expected(), dict(whole), parts
        if ends and (shape := watch.expected_shape()) is not None:
            expected, changes = expected | shape, changes | ends
        elif ends:
            changed = [*parts, *merged]
        for row, change in changed:
            key = array.key(row.coords)
            with chunk_context("write", array, row.coords):
                old, expected[key] = store.get_versioned(key)
                changes[key] = _own(store, change(old))
        with chunk_context("write", array, first):
            done = conditionally(partial(store.change_if, changes, expected))
        if not done:
            raise Overtaken(f"{array.key(first)!r} in {store!r}")

    retry_conflicts(attempt, "; it was not stored, try again")


def _changed(
    array: BoundArray, row: Row, value: npt.NDArray[Any], old: Buffer | None
) -> Buffer | None:
    """Return the new bytes of a chunk, or None if it has only fill values and may be erased."""
    pipeline = array.pipeline_at(row.coords)
    index: Any = (*row.outer, ...)
    part: npt.NDArray[Any] = value[index]
    if row.whole and part.shape == pipeline.spec.shape:
        return _encoded(array, pipeline, part)
    if row.pick is not None:  # the box around scattered elements, with those replaced
        box = _box(array, pipeline, row, old)
        box[row.pick] = part
        part = box
    data = pipeline.update(None if row.whole else old, row.region, part)
    return _encoded_fill(pipeline) if data is None and _keeps_empty(array) else data


def _keeps_empty(array: BoundArray) -> bool:
    return config.get().write_empty_chunks or not array.fill_defined


def _encoded(array: BoundArray, pipeline: CodecPipeline, chunk: npt.NDArray[Any]) -> Buffer | None:
    """Return the bytes of a whole chunk, or None if it has only fill values and may be erased."""
    empty = not _keeps_empty(array) and is_fill(chunk, array.fill)
    return None if empty else pipeline.encode(chunk)


def _encoded_fill(pipeline: CodecPipeline) -> Buffer:
    spec = pipeline.spec
    return pipeline.encode(np.full(spec.shape, spec.fill, spec.data_type.dtype))


def _not_erased(
    array: BoundArray, pipeline: CodecPipeline, coords: Coords, data: Buffer | None
) -> Buffer | None:
    """Return the bytes to store: fill values for a chunk that the store cannot erase."""
    if data is not None or traits(array.store).erases:
        return data
    missing = array.chunk_store.get(array.key(coords)) is None
    return None if missing else _encoded_fill(pipeline)


def write_chunk(array: BoundArray, coords: Coords, chunk: npt.NDArray[Any]) -> int:
    """Store a whole chunk, or erase its key if it has only fill values; return the bytes stored."""
    pipeline = array.pipeline(chunk.shape)
    counted = in_array(array, "write", chunks_written=1)
    with counted, chunk_context("write", array, coords):
        data = _not_erased(array, pipeline, coords, _encoded(array, pipeline, chunk))
        array.put_encoded(coords, _own(array.chunk_store, data))
        return 0 if data is None else memoryview(data).nbytes
