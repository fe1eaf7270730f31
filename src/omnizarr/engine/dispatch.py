"""Which engine does what: the kernel as far as it can, the reference engine the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.concurrency import key_locks
from omnizarr.engine import chunk_cache, kernel, reference
from omnizarr.engine.binding import BoundArray
from omnizarr.engine.chunk_cache import current
from omnizarr.engine.missing import Coords, Filled, Missing
from omnizarr.indexing import Plan, ProductPlan, Row, axis_plan
from omnizarr.model import paths
from omnizarr.storage_transformers import stored_key
from omnizarr.stores import lock, lock_prefix, supports_compare_and_set


def read(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    missing: Missing = "fill",
    filled: list[Coords] | None = None,
) -> None:
    """Fill `out`, of the plan's full shape, from the chunks.

    `missing` says what to do about those that the store does not have; the places of those that
    got the fill value go into `filled`.
    """
    found = None if missing == "fill" and filled is None else Filled(array, missing)
    try:
        _read(array, plan, out, found)
    except MemoryError as e:
        _tell(e, "read", array)
        raise
    if found is not None:
        found.finish(filled)


def _read(array: BoundArray, plan: Plan, out: npt.NDArray[Any], filled: Filled | None) -> None:
    cache = current()
    if cache is not None and chunk_cache.knows(array, holes=filled is not None):
        chunk_cache.read(cache, array, plan, out, filled)
        return
    left = kernel.read(array, plan, out, leave_absent=filled is not None)
    if left is None:
        reference.read(array, plan, out, filled)
    elif left:
        for row in plan.some_rows(left):
            reference.read_row(array, row, out, filled)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store `value`, of the plan's full shape, in the chunks."""
    array.check_skipped()
    try:
        changed = _changed(array, plan)
        if not changed:
            _store(array, plan, value)
            return
        with exclusive(array, changed):
            _store(array, plan, value)
    except MemoryError as e:
        _tell(e, "write", array)
        raise


def _tell(error: MemoryError, verb: str, array: BoundArray) -> None:
    """Have an error say what there is no memory for, where it says nothing."""
    if not error.args:
        where = f"{paths.show(array.path)} in {array.store!r}"
        error.args = (f"there is no memory to {verb} {where}; select less at a time",)


def merge(
    array: BoundArray, coords: Coords, values: npt.NDArray[Any], known: npt.NDArray[np.bool_]
) -> None:
    """Store those elements from the beginning of one chunk that are known; the others stay."""
    array.check_skipped()
    with exclusive(array, [array.key(coords)]):
        if supports_compare_and_set(array.chunk_store):
            box = tuple(slice(0, n, 1) for n in known.shape)
            reference.write_rows(array, [Row(coords, box, known, (known,), False)], values)
            return
        start = array.grid.origin(coords)
        inside = (slice(a, a + n) for a, n in zip(start, known.shape, strict=True))
        plan = axis_plan(array.grid, tuple(inside))
        whole = np.empty(plan.full_shape, array.dtype)
        read(array, plan, whole)
        np.copyto(whole, values, where=known)
        _store(array, plan, whole)


def write_row(array: BoundArray, row: Row, values: npt.NDArray[Any]) -> None:
    """Store the part of `values` that belongs into one chunk."""
    array.check_skipped()
    with exclusive(array, [array.key(row.coords)]):
        reference.write_rows(array, [row], values)


def write_fields(array: BoundArray, plan: Plan, names: Any, value: npt.NDArray[Any]) -> None:
    """Store some fields of structured items, `value` of the plan's full shape; others stay."""
    array.check_skipped()
    with exclusive(array, [array.key(row.coords) for row in plan.rows()]):
        if supports_compare_and_set(array.chunk_store):
            for row in plan.rows():
                reference.write_fields(array, row, names, value)
            return
        whole = np.empty(plan.full_shape, array.dtype)
        read(array, plan, whole)
        whole[names] = value
        _store(array, plan, whole)


@contextmanager
def exclusive(array: BoundArray, keys: Iterable[str]) -> Iterator[None]:
    """Keep chunks for a while from being changed by others, who read them before they store.

    Chunks that a transformer keeps together are kept together here too.
    """
    chunks = array.chunk_store
    stored = [*dict.fromkeys(stored_key(chunks, key) for key in keys)]
    take = lock if chunks is array.store else lock_prefix
    store = (
        None if supports_compare_and_set(array.store) else array.store
    )  # by comparing nothing is lost
    with (
        key_locks.locked(key_locks.CHUNKS, stored, store),
        take(array.store, array.prefix, stored, "chunks"),
    ):
        yield


def _store(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    if array.outgrown:
        rows = [replace(row, whole=False) for row in plan.rows()]
        reference.write_rows(array, rows, value)
        return
    left = kernel.write(array, plan, value)
    if left is None:
        reference.write(array, plan, value)
    elif left:
        reference.write_rows(array, plan.some_rows(left), value)


def _changed(array: BoundArray, plan: Plan) -> list[str]:
    """Keys of chunks that are read, changed and stored; whole ones need no lock.

    Those that a transformer keeps together with others, or that hold more, are never whole.
    """
    alone = array.chunk_store is array.store and not array.outgrown
    if alone and isinstance(plan, ProductPlan) and plan.whole:
        return []
    return [array.key(row.coords) for row in plan.rows() if not (alone and row.whole)]
