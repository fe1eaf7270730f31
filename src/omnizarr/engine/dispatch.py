"""Reads and writes of one array: by the kernel if it can, else by the reference engine.

An ordinary read goes from `read` through `kernel.read` to C; what is rare (the chunk cache, missing
chunks that matter, what the kernel cannot do) branches off here and comes back here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.concurrency import key_locks
from omnizarr.config import Config
from omnizarr.engine import chunk_cache, kernel, reference
from omnizarr.engine.binding import BoundArray
from omnizarr.engine.missing_chunks import Coords, FilledParts, Missing
from omnizarr.engine.watch import ATTEMPTS, RECENT, ArrayWatch
from omnizarr.errors import ChunkError, Conflict
from omnizarr.indexing import Plan, ProductPlan, Row, axis_plan
from omnizarr.indexing.plan import some_rows
from omnizarr.model import paths
from omnizarr.publish.stage import epoch
from omnizarr.storage_transformers import stored_key
from omnizarr.stores import lock, lock_prefix, supports_compare_and_set
from omnizarr.stores.tracing import in_array


def read(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any] | None = None,
    missing: Missing = "fill",
    filled: list[Coords] | None = None,
    settings: Config | None = None,
    watched: bool = True,
) -> Any:
    """Return the result of a plan, or fill `out`, of the plan's full shape, and return it.

    `missing` chooses what to do about chunks that the store does not have; the coordinates of those
    that got the fill value go into `filled`. `settings` are those in force, if they are at hand.
    Unless `watched` is False, NodeChanged is raised if the array was replaced.
    """
    settings = settings or config.get()
    if settings.trace is not None and settings.trace[1] is not array:
        with in_array(array, "read", chunks_read=plan.count):
            return read(array, plan, out, missing, filled, None, watched)
    watch = array.watch if watched else None
    if watch is not None and not (
        missing == "fill" and filled is None and (watch.identity or watch.find_identity())
    ):
        return _read_steadily(array, plan, out, missing, filled, settings)
    full = out
    try:
        if full is None:
            shape, dtype = plan.full_shape, array.dtype
            if dtype.names is None and math.prod(shape) * dtype.itemsize < kernel.LARGE:
                full = np.empty(shape, dtype)
            else:
                full = kernel.empty(shape, dtype)
        if missing != "fill" or filled is not None or settings.chunk_cache is not None:
            _read_with_options(array, plan, full, missing, filled)
        else:
            left = kernel.read(array, plan, full, settings)
            if left is None:
                reference.read(array, plan, full)
            elif left:
                for row in some_rows(plan, left):
                    reference.read_row(array, row, full)
    except ChunkError:
        if watch is None:
            raise
        return _read_steadily(array, plan, out, missing, filled, settings)
    if watch is not None:
        now = epoch[0]
        if kernel.identity(watch.metadata) != watch.identity:
            return _read_steadily(array, plan, out, missing, filled, settings)
        watch.epoch, watch.expires = now, monotonic() + RECENT
    if out is not None:
        return out
    return full[plan.final] if isinstance(plan, ProductPlan) else plan.result(full)


def read_small_traced(array: BoundArray, watch: ArrayWatch, selection: Any, trace: Any) -> Any:
    """Do as `read_small`, and count the chunks; return None also where spans are recorded."""
    if trace.spans:
        return None
    counts, began = list[int](), perf_counter()
    values = kernel.read_small(array.small, selection, watch.metadata, watch.identity, counts)
    if values is not None:
        seconds = perf_counter() - began
        trace.add(None, array, {"chunks_read": counts[0], "decode_seconds": seconds})
    return values


def _read_steadily(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any] | None,
    missing: Missing,
    filled: list[Coords] | None,
    settings: Config,
) -> Any:
    """Read an array, again if it may have been replaced meanwhile."""
    watch = array.watch

    def attempt() -> Any:
        found: list[Coords] | None = None if filled is None else []
        return read(array, plan, out, missing, found, settings, watched=False), found

    values, found = watch.steadily(attempt, lambda: plan.count > 1)
    if filled is not None:
        filled.extend(found)
    return values


def _read_with_options(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    missing: Missing,
    filled: list[Coords] | None,
) -> None:
    """Read through the chunk cache, or take note of missing chunks."""
    found = None if missing == "fill" and filled is None else FilledParts(array, missing)
    cache = chunk_cache.current() if found is None else None
    if cache is not None:
        if chunk_cache.read_kept(cache, array, plan, out):
            return
        if chunk_cache.suits(cache, array, plan, out.nbytes):
            chunk_cache.read(cache, array, plan, out)
            return
    left = kernel.read(array, plan, out, skip_missing=found is not None)
    if left is None:
        reference.read(array, plan, out, found)
    for row in some_rows(plan, left) if left else ():
        reference.read_row(array, row, out, found)
    if found is not None:
        found.finish(filled)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any], *, steady: bool = False) -> None:
    """Store `value`, of the plan's full shape, in the chunks.

    Where others may append to chunks at the end of the array, the elements that they have beyond
    its shape are kept; with `steady` the caller keeps the shape from changing.
    """
    settings = config.get()
    if settings.trace is not None and settings.trace[1] is not array:
        with in_array(array, "write", chunks_written=plan.count):
            write(array, plan, value, steady=steady)
        return
    watch = array.watch
    only, ends = None, False
    if isinstance(plan, ProductPlan):
        only, grows = plan.only_chunk, watch is not None and not steady and array.overhangs
        if grows and plan.runs and (only is None or plan.whole):  # and others lock the only chunk
            ends = array.reaches_beyond(plan.last_chunk)
    changed = _changed(array, plan, only, ends)
    alone = steady or watch is None or watch.is_remote or only is not None
    store = _store if alone or plan.count < 2 else _store_steadily
    if not changed:
        store(array, plan, value)
        return
    with exclusive(array, changed):
        if watch is not None and not ends:
            watch.confirm()
        elif ends and not array.compares_metadata and not watch.confirm_shape():
            rows = [replace(row, whole=_is_whole(array, row, ends)) for row in plan.rows()]
            reference.write(array, iter(rows), len(rows), value)
            return
        store(array, plan, value)


def merge(
    array: BoundArray, coords: Coords, values: npt.NDArray[Any], known: npt.NDArray[np.bool_]
) -> None:
    """Store the elements of one chunk, from its start, where `known` is true; others stay."""
    if supports_compare_and_set(array.chunk_store):
        box = tuple(slice(0, n, 1) for n in known.shape)
        write_row(array, Row(coords, box, known, (known,), False), values)
        return
    with exclusive(array, [array.key(coords)]):
        array.confirm()
        plan = axis_plan(array.grid, array.grid.box(coords))
        whole = read(array, plan, np.empty(plan.full_shape, array.dtype))
        np.copyto(whole, values, where=known)
        _store(array, plan, whole)


def write_row(array: BoundArray, row: Row, values: npt.NDArray[Any]) -> None:
    """Store the part of `values` that belongs into one chunk."""
    with exclusive(array, [array.key(row.coords)]):
        array.confirm()
        reference.write(array, iter([row]), 1, values)


def write_fields(array: BoundArray, plan: Plan, names: Any, value: npt.NDArray[Any]) -> None:
    """Store some fields of structured items, `value` of the plan's full shape; others stay."""
    with exclusive(array, [array.key(row.coords) for row in plan.rows()]):
        array.confirm()
        if supports_compare_and_set(array.chunk_store):
            for row in plan.rows():
                reference.write_fields(array, row, names, value)
            return
        whole = read(array, plan, np.empty(plan.full_shape, array.dtype))
        whole[names] = value
        _store(array, plan, whole)


@contextmanager
def exclusive(array: BoundArray, keys: Iterable[str]) -> Iterator[None]:
    """Lock chunks, or the values that hold them, against changes of a part of them."""
    chunks = array.chunk_store
    plain = chunks is array.store
    stored = [*keys] if plain else [*dict.fromkeys(stored_key(chunks, key) for key in keys)]
    take = lock if plain else lock_prefix
    store = None if supports_compare_and_set(array.store) else array.store  # which loses nothing
    with (
        key_locks.locked(key_locks.CHUNKS, stored, store),
        take(array.store, array.prefix, stored, "chunks"),
    ):
        yield


def _store(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    left = kernel.write(array, plan, value)
    if left is None or left:
        array.confirm()
    if left is None:
        reference.write(array, plan.rows(), plan.count, value)
    elif left:
        reference.write(array, iter(some_rows(plan, left)), len(left), value)


def _store_steadily(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store several chunks; store all of them again if the array was replaced meanwhile."""
    watch = array.watch
    for _ in range(ATTEMPTS):
        seen = watch.signature
        _store(array, plan, value)
        if seen is None or (watch.signature == seen and watch.is_current()):
            return
        watch.confirm_shape()
    raise Conflict(
        f"{paths.show(array.path)} in {array.store!r} was replaced {ATTEMPTS} times while it was"
        " written; write it again when it is replaced less often"
    )


def _changed(array: BoundArray, plan: Plan, only: Coords | None, ends: bool) -> list[str]:
    """Return the keys of chunks that are changed in part; chunks written whole need no lock.

    Chunks that a transformer packs are never whole; nor, with `ends`, those beyond the shape.
    """
    untransformed = array.chunk_store is array.store
    if untransformed and isinstance(plan, ProductPlan):
        if plan.whole:
            found = filter(array.reaches_beyond, plan.chunks()) if ends else ()
            return [*map(array.key, found)]
        if only is not None:
            return [array.key(only)]
    return [
        array.key(row.coords)
        for row in plan.rows()
        if not (untransformed and _is_whole(array, row, ends))
    ]


def _is_whole(array: BoundArray, row: Row, ends: bool) -> bool:
    return row.whole and not (ends and array.reaches_beyond(row.coords))
