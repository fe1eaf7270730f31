"""The reference engine: plain Python and NumPy, can do everything."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer, Region
from omnizarr.codecs.emptiness import is_fill
from omnizarr.codecs.source import StoreSource
from omnizarr.engine.bound import BoundArray
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.model import paths

SMALL = 2**16  # below this many bytes a call stays on its own thread


def read(array: BoundArray, plan: Plan, out: npt.NDArray[Any]) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    _ = array.fill  # bound before threads ask for it
    _run(plan.rows(), plan.count, lambda row: read_row(array, row, out), out.nbytes)


def read_row(array: BoundArray, row: Row, out: npt.NDArray[Any]) -> None:
    """Fill the part of `out` that comes from one chunk."""
    part = read_region(array, row.coords, row.region)
    if part is not None and row.pick is not None:
        part = part[row.pick]
    index: Any = (*row.outer, ...)  # without the ellipsis an object would hold the array
    out[index] = array.fill if part is None else part


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store `value`, of the plan's full shape, in the chunks."""
    _run(plan.rows(), plan.count, lambda row: _write_row(array, row, value), value.nbytes)


def write_rows(array: BoundArray, rows: list[Row], value: npt.NDArray[Any]) -> None:
    """Store the parts of `value` that belong into some of the chunks."""
    _run(iter(rows), len(rows), lambda row: _write_row(array, row, value), value.nbytes)


def _write_row(array: BoundArray, row: Row, value: npt.NDArray[Any]) -> None:
    part = _view(value, row.outer)
    if row.whole and part.shape == array.grid.chunk_shape(row.coords):
        write_chunk(array, row.coords, part)
        return
    if row.pick is not None:
        part = _picked(array, row, part)
    update_chunk(array, row.coords, row.region, part, whole=row.whole)


def _picked(array: BoundArray, row: Row, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The box around scattered elements, with those elements replaced."""
    box = read_region(array, row.coords, row.region)
    if box is None:
        box = np.empty([len(range(s.start, s.stop, s.step)) for s in row.region], array.dtype)
        box[...] = array.fill
    box = box.copy()
    box[row.pick] = values
    return box


def _view(array: npt.NDArray[Any], region: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Part of an array; the ellipsis keeps a 0-dimensional one an array."""
    index: Any = (*region, ...)
    view: npt.NDArray[Any] = array[index]
    return view


def read_region(
    array: BoundArray, coords: tuple[int, ...], region: Region
) -> npt.NDArray[Any] | None:
    """Part of one chunk, or None where the store has none."""
    key = array.key(coords)
    chain, store = array.chain(array.grid.chunk_shape(coords)), array.chunk_store
    try:
        part = chain.decode_region(StoreSource(store, key), region)
        for other in array.encoding.other_keys(coords) if part is None else ():
            part = chain.decode_region(StoreSource(store, array.prefix + other), region)
        return part
    except OmnizarrError as e:
        _fail("read", array, coords, key, e)


def read_chunk(array: BoundArray, coords: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """One decoded chunk in full, or None where the store has none."""
    shape = array.grid.chunk_shape(coords)
    return read_region(array, coords, tuple(slice(0, n, 1) for n in shape))


def update_chunk(
    array: BoundArray,
    coords: tuple[int, ...],
    region: Region,
    value: npt.NDArray[Any],
    *,
    whole: bool,
) -> None:
    """Replace part of a chunk; `whole`: all that the array has of it, so nothing is read."""
    key = array.key(coords)
    chain, store = array.chain(array.grid.chunk_shape(coords)), array.chunk_store
    try:
        old = None if whole else store.get(key)
        for other in array.encoding.other_keys(coords) if old is None and not whole else ():
            old = store.get(array.prefix + other)
        _put(array, coords, chain.update(old, region, value), chain)
    except OmnizarrError as e:
        _fail("write", array, coords, key, e)


def _put(array: BoundArray, coords: tuple[int, ...], data: Buffer | None, chain: Chain) -> None:
    """Store an encoded chunk; None is one that holds nothing but the fill value."""
    key, store = array.key(coords), array.chunk_store
    if data is None and (config.get().write_empty_chunks or not array.fill_defined):
        chunk = np.empty(chain.spec.shape, array.dtype)
        chunk[...] = array.fill
        data = chain.encode(chunk)
    if data is None:
        store.erase(key)
    else:
        store.set(key, data)
    for other in array.encoding.other_keys(coords):
        if store.get(array.prefix + other) is not None:
            store.erase(array.prefix + other)  # the old value would show again


def write_chunk(array: BoundArray, coords: tuple[int, ...], chunk: npt.NDArray[Any]) -> None:
    """Store one whole chunk, or erase its key where it has nothing but the fill value."""
    key = array.key(coords)
    chain = array.chain(chunk.shape)
    try:
        keep = config.get().write_empty_chunks or not array.fill_defined
        empty = not keep and is_fill(chunk, array.fill)
        _put(array, coords, None if empty else chain.encode(chunk), chain)
    except OmnizarrError as e:
        _fail("write", array, coords, key, e)


def _fail(
    verb: str, array: BoundArray, coords: tuple[int, ...], key: str, cause: OmnizarrError
) -> NoReturn:
    path = paths.show(array.path)
    message = f"cannot {verb} chunk {coords} of {path} (key {key!r} in {array.store!r}): {cause}"
    codec = getattr(cause, "codec", "")
    raise ChunkError(message, path=path, chunk=coords, key=key, codec=codec) from cause


def _run(rows: Iterator[Row], count: int, one: Callable[[Row], None], nbytes: int) -> None:
    """Call `one` for every row, on a few threads where that is worth it."""
    threads = min(config.get().threads, count)
    if threads <= 1 or nbytes < SMALL:
        for row in rows:
            one(row)
        return
    lock = threading.Lock()
    batch = max(1, min(32, count // (4 * threads)))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with lock:
                some = _take(rows, batch)
            if not some:
                return
            try:
                for row in some:
                    one(row)
            except BaseException:
                stop.set()
                raise

    settings = config.get()
    with ThreadPoolExecutor(threads, initializer=config.inherit, initargs=(settings,)) as pool:
        futures = [pool.submit(work) for _ in range(threads)]
    for future in futures:
        future.result()


def _take(rows: Iterator[Row], count: int) -> list[Row]:
    return list(itertools.islice(rows, count))
