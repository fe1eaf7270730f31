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
from omnizarr.engine.bound import BoundArray
from omnizarr.errors import ChunkError, OmnizarrError
from omnizarr.indexing import Plan, Row
from omnizarr.model import paths

SMALL = 2**16  # below this many bytes a call stays on its own thread


def read(array: BoundArray, plan: Plan, out: npt.NDArray[Any]) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    fill = array.fill

    def one(row: Row) -> None:
        chunk = read_chunk(array, row.coords)
        out[row.outer] = fill if chunk is None else _view(chunk, row.inner)

    _run(plan, one, out.nbytes)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store `value`, of the plan's full shape, in the chunks."""
    array.check_skipped()

    def one(row: Row) -> None:
        part = _view(value, row.outer)
        shape = array.grid.chunk_shape(row.coords)
        if row.whole and part.shape == shape:
            write_chunk(array, row.coords, part)
            return
        old = None if row.whole else read_chunk(array, row.coords)
        if old is None:
            chunk = np.empty(shape, array.dtype)
            chunk[...] = array.fill
        else:
            chunk = old if old.flags.writeable else old.copy()
        chunk[row.inner] = part
        write_chunk(array, row.coords, chunk)

    _run(plan, one, value.nbytes)


def _view(array: npt.NDArray[Any], region: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Part of an array; the ellipsis keeps a 0-dimensional one an array."""
    index: Any = (*region, ...)
    view: npt.NDArray[Any] = array[index]
    return view


def read_chunk(array: BoundArray, coords: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """One decoded chunk in full, or None where the store has none."""
    key = array.key(coords)
    chain, store = array.chain(array.grid.chunk_shape(coords)), array.chunk_store
    try:
        data = store.get(key)
        for other in array.encoding.other_keys(coords) if data is None else ():
            data = store.get(array.prefix + other)
        return None if data is None else chain.decode(data)
    except OmnizarrError as e:
        _fail("read", array, coords, key, e)


def write_chunk(array: BoundArray, coords: tuple[int, ...], chunk: npt.NDArray[Any]) -> None:
    """Store one whole chunk, or erase its key where it has nothing but the fill value."""
    key = array.key(coords)
    chain, store = array.chain(chunk.shape), array.chunk_store
    try:
        skip = array.fill_defined and not config.get().write_empty_chunks
        if skip and is_fill(chunk, array.fill):
            store.erase(key)
        else:
            store.set(key, chain.encode(chunk))
    except OmnizarrError as e:
        _fail("write", array, coords, key, e)


def is_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Whether every item is the fill value, to the bit."""
    if chunk.size == 0:
        return True
    if chunk.dtype.hasobject or chunk.dtype.kind == "T":
        value = fill[()]
        return all(type(item) is type(value) and bool(np.all(item == value)) for item in chunk.flat)
    if chunk.dtype != fill.dtype:
        fill = fill.astype(chunk.dtype)
    size = chunk.dtype.itemsize
    if size == 0:
        return True
    want = np.frombuffer(fill.tobytes(), np.uint8)
    # Slices, since a scalar would lose trailing zeros of text and a foreign byte order.
    first = np.ascontiguousarray(chunk[(slice(0, 1),) * chunk.ndim]).reshape(1).view(np.uint8)
    if not np.array_equal(first, want):
        return False
    if size in (1, 2, 4, 8):
        unsigned = np.dtype(f"u{size}")
        flat = np.ascontiguousarray(chunk).reshape(-1).view(unsigned)
        return bool((flat == want.view(unsigned)[0]).all())
    items = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).reshape(-1, size)
    return bool((items == want).all())


def _fail(
    verb: str, array: BoundArray, coords: tuple[int, ...], key: str, cause: OmnizarrError
) -> NoReturn:
    path = paths.show(array.path)
    message = f"cannot {verb} chunk {coords} of {path} (key {key!r} in {array.store!r}): {cause}"
    codec = getattr(cause, "codec", "")
    raise ChunkError(message, path=path, chunk=coords, key=key, codec=codec) from cause


def _run(plan: Plan, one: Callable[[Row], None], nbytes: int) -> None:
    """Call `one` for every row, on a few threads where that is worth it."""
    threads = min(config.get().threads, plan.count)
    if threads <= 1 or nbytes < SMALL:
        for row in plan.rows():
            one(row)
        return
    rows, lock = plan.rows(), threading.Lock()
    batch = max(1, min(32, plan.count // (4 * threads)))
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
