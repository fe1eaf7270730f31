"""Batches of chunks that zarr-python asks for: what the kernel does, and what is left to others.

A batch is a list of tuples: where a chunk is stored, its `ArraySpec`, the index of the chunk, that
of the array, and True if all of the chunk that lies in the array is meant.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import os
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from zarr.codecs import ShardingCodec
from zarr.core.common import concurrent_map
from zarr.core.config import config as zarr_config
from zarr.storage import LocalStore, MemoryStore, StorePath, ZipStore

from omnizarr import aio
from omnizarr.extension import by_name, engine, key_locks, stores
from omnizarr.interop.zarr import pipeline_layouts
from omnizarr.interop.zarr.pipeline_layouts import PipelineLayout

T = TypeVar("T")
Batch: TypeAlias = list[Any]
Axes: TypeAlias = tuple[int, ...]
# What a write does one after the other: calls of the kernel, and coroutines of a store.
Steps: TypeAlias = Generator[Callable[[], Any] | Coroutine[Any, Any, Any], Any, None]

rows = engine.rows
PRESENT, MISSING = {"status": "present"}, {"status": "missing"}
INLINE = 2**20  # bytes; for less, handing a batch to another thread takes longer than the batch
LIMIT = 2**26  # bytes of chunks whose stored values are in memory at a time
ROWS = 32  # of them at least, so that requests go out together
ROW = 2**14  # bytes that take as long as opening a file
_FORMATS = tuple(map(by_name, ("3", "2")))
_UTF8 = sys.getfilesystemencoding() == "utf-8"


# The stores of zarr-python that have the chunks of a batch. Chunks that are changed in part are
# locked between the threads of this process, and in a directory also between processes, with the
# same locks as this package's own arrays.


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """The stored values of a batch."""

    getters: list[Any]  # of zarr-python, one for each row
    prototype: Any  # of the buffers that stores return
    keys: list[str] | None = None  # where all are in one store
    store: Any = None
    root: bytes | None = None  # of files
    waits: bool = True  # reading takes coroutines that wait for something

    @property
    def inside(self) -> bool:
        """True for chunks inside a shard that zarr-python itself reads or writes."""
        return self.keys is None

    async def source(self, numbers: Iterable[int] | None = None) -> Any:
        """Return the values of all rows, or of some, the others without a value."""
        if self.root is not None and self.keys is not None:
            return rows.Files(self.root, self.keys)
        wanted = range(len(self.getters)) if numbers is None else [*numbers]
        values: list[Any] = [None] * len(self.getters)
        for number, found in zip(wanted, await self._fetch(wanted), strict=True):
            values[number] = None if found is None else found.as_numpy_array()
        return rows.Buffers(values)

    async def _fetch(self, numbers: Iterable[int]) -> list[Any]:
        getters = [self.getters[n] for n in numbers]
        if type(self.store) is MemoryStore:
            found = self.store._store_dict
            return [found.get(getter.path) for getter in getters]
        if not self.waits:
            return [await getter.get(self.prototype) for getter in getters]
        limit = zarr_config.get("async.concurrency")
        return await concurrent_map([(g, self.prototype) for g in getters], _get, limit)

    async def put(self, values: list[Any], left: list[int]) -> None:
        """Store the values that the kernel encoded, except for the rows left to zarr-python."""
        skipped = set(left)
        pairs = [
            (getter, None if value is None else self.prototype.buffer.from_bytes(value))
            for number, (getter, value) in enumerate(zip(self.getters, values, strict=True))
            if number not in skipped
        ]
        if self.waits:
            await concurrent_map(pairs, _set, zarr_config.get("async.concurrency"))
            return
        for getter, value in pairs:
            await _set(getter, value)

    @contextmanager
    def lock(self, numbers: Iterable[int]) -> Iterator[None]:
        """Keep others from changing the values of some rows until the block ends."""
        if self.keys is None:
            yield
            return
        keys = [*dict.fromkeys(self.keys[n] for n in numbers)]
        if self.root is None:
            with key_locks.locked(key_locks.CHUNKS, keys):
                yield
            return
        directory = os.fsdecode(self.root)
        prefix = _array_prefix(directory, keys[0].rpartition("/")[0])
        own = stores.LocalStore(directory)
        same = all(key.startswith(prefix) for key in keys)
        with (
            key_locks.locked(key_locks.CHUNKS, keys, own),
            stores.lock(own, prefix if same else "", keys, "chunks"),
        ):
            yield


async def find_place(batch: list[Any]) -> ChunkPlace:
    """Return where the chunks of a batch are stored."""
    getters = [row[0] for row in batch]
    first, prototype = getters[0], batch[0][1].prototype
    if type(first) is not StorePath:
        return ChunkPlace(getters, prototype, waits=any(isinstance(g, StorePath) for g in getters))
    store = first.store
    for getter in getters:
        if type(getter) is not StorePath or getter.store is not store:
            return ChunkPlace(getters, prototype)
    keys = [getter.path for getter in getters]
    if type(store) is LocalStore and _UTF8:
        if not store._is_open:
            await store._ensure_open()
        root = os.fsencode(f"{store.root}/")
        return ChunkPlace(getters, prototype, keys, store, root, waits=False)
    waits = type(store) not in (MemoryStore, ZipStore)
    return ChunkPlace(getters, prototype, keys, store, waits=waits)


async def _get(getter: Any, prototype: Any) -> Any:
    return await getter.get(prototype)


async def _set(setter: Any, value: Any) -> None:
    if value is None:
        await setter.delete()
    else:
        await setter.set(value)


def _array_prefix(directory: str, folder: str) -> str:
    """Return the prefix of a chunk's array: of the nearest folder above that has metadata."""
    while folder:
        keys = (key for one in _FORMATS for key in one.keys(folder))
        if any(os.path.exists(directory + key) for key in keys):
            return f"{folder}/"
        folder = folder.rpartition("/")[0]
    return ""


@dataclass(frozen=True, slots=True)
class PipelineCall:
    """A batch, and the memory of the buffer that is read into or written."""

    pipeline: Any
    batch: Batch
    layout: PipelineLayout
    array: npt.NDArray[Any]
    buffer: Any  # of zarr-python
    drop_axes: Axes

    @property
    def size(self) -> int:
        """The bytes by which the time of the call is estimated."""
        return len(self.batch) * (ROW + self.layout.unit)


async def read(pipeline: Any, batch: Batch, out: Any, drop_axes: Axes) -> Any:
    """Fill `out` and return the status of each chunk."""
    layout = pipeline_layouts.find(pipeline, batch[0][1])
    array = _memory(out, layout, convert=False)
    if layout.unreadable is not None or array is None:
        _tell("reads", layout.unreadable or f"a buffer {type(out).__name__} of {out.dtype}")
        return await pipeline.read_with_zarr(batch, out, drop_axes)
    groups = _groups(batch, layout)
    if len(groups) < 2:
        return await _read(PipelineCall(pipeline, batch, layout, array, out, drop_axes))
    results: list[Any] = [PRESENT] * len(batch)
    for numbers in groups:
        found = await read(pipeline, [batch[n] for n in numbers], out, drop_axes)
        for number, result in zip(numbers, found or (), strict=False):
            results[number] = result
    return tuple(results)


async def _read(call: PipelineCall) -> Any:
    batch, layout, out, drop_axes = call.batch, call.layout, call.buffer, call.drop_axes
    place = await find_place(batch)
    if layout.sharded and place.waits and not all(_covers(row[2], layout.shape) for row in batch):
        # zarr-python reads the index and the byte ranges of inner chunks; those come back here.
        return await call.pipeline.read_with_zarr(batch, out, drop_axes)
    source = await place.source()
    strict = getattr(batch[0][1].config, "read_missing_chunks", True) is False
    full = None if drop_axes else _full(call.array, batch, writing=False)
    inline = place.inside or call.size + call.array.nbytes <= INLINE
    found: Any = None
    if full is not None:
        kernel = partial(rows.read, layout.capsule, batch, source, full)
        found = await _run(partial(kernel, skip_missing=strict, tell_missing=True), inline)
    if found is None and layout.sharded:
        return await call.pipeline.read_with_zarr(batch, out, drop_axes)
    if found is None:
        found = await _run(partial(_read_elements, call, source, strict), inline)
    left, missing = found
    results: list[Any] = [PRESENT] * len(batch)
    for number in missing:
        results[number] = MISSING
    if left:
        again = await call.pipeline.read_with_zarr([batch[n] for n in left], out, drop_axes)
        for number, result in zip(left, again or (), strict=False):
            results[number] = result
    return tuple(results)


async def write(pipeline: Any, batch: Batch, value: Any, drop_axes: Axes) -> None:
    """Store `value` in chunks."""
    layout = pipeline_layouts.find(pipeline, batch[0][1])
    array = _memory(value, layout, convert=True)
    reason = layout.unreadable or layout.unwritable
    if reason is not None or array is None:
        _tell("writes", reason or f"a value {type(value).__name__} of {value.dtype}")
        await _write_with_zarr(pipeline, batch, value, drop_axes)
        return
    groups = _groups(batch, layout)
    if len(groups) < 2:
        await _write(PipelineCall(pipeline, batch, layout, array, value, drop_axes))
        return
    for numbers in groups:
        await write(pipeline, [batch[n] for n in numbers], value, drop_axes)


async def _write(call: PipelineCall) -> None:
    place = await find_place(call.batch)
    if place.root is not None:
        place.store._check_writable()
    if call.layout.sharded:
        shape = call.layout.shape
        changed = [n for n, row in enumerate(call.batch) if not _covers(row[2], shape)]
    else:
        changed = [n for n, row in enumerate(call.batch) if not row[4]]
    await _drive(_steps(call, place, changed), place, changed, call.size <= INLINE)


def _steps(call: PipelineCall, place: ChunkPlace, changed: list[int]) -> Steps:
    batch, layout, drop_axes = call.batch, call.layout, call.drop_axes
    source = yield place.source(changed)
    full = None if drop_axes else _full(call.array, batch, writing=True)
    left = None
    if full is not None:
        left = yield partial(rows.write, layout.capsule, batch, source, full)
    if left is None and layout.sharded:
        left = [*range(len(batch))]
    if left is None:
        left = yield partial(_write_elements, call, source)
    if isinstance(source, rows.Buffers):
        yield place.put(source.values, left)
    if left:
        yield call.pipeline.write_with_zarr([batch[n] for n in left], call.buffer, drop_axes)


async def _write_with_zarr(pipeline: Any, batch: Batch, value: Any, drop_axes: Axes) -> None:
    """Have zarr-python write a batch, with chunks locked that are changed in part."""
    place = await find_place(batch)
    shards = any(isinstance(codec, ShardingCodec) for codec in pipeline)
    changed = [n for n, row in enumerate(batch) if shards or not row[4]]

    def steps() -> Steps:
        yield pipeline.write_with_zarr(batch, value, drop_axes)

    await _drive(steps(), place, changed, inline=True)


async def _drive(steps: Steps, place: ChunkPlace, changed: list[int], inline: bool) -> None:
    """Do the steps of a write.

    If chunks are changed in part, this is in a thread that holds their locks, so that the event
    loop does not wait.
    """
    if changed and not place.inside:
        await aio.run(_drive_locked, steps, place, changed, asyncio.get_running_loop())
        return
    result = None
    with suppress(StopIteration):
        while True:
            step = steps.send(result)
            if asyncio.iscoroutine(step):
                result = await step
            else:
                result = await _run(step, inline or place.inside)


def _drive_locked(
    steps: Steps, place: ChunkPlace, changed: list[int], loop: asyncio.AbstractEventLoop
) -> None:
    result = None
    with place.lock(changed), suppress(StopIteration):
        while True:
            step = steps.send(result)
            if asyncio.iscoroutine(step):
                result = asyncio.run_coroutine_threadsafe(step, loop).result()
            else:
                result = step()


async def _run(call: Callable[[], T], inline: bool) -> T:
    return call() if inline else await aio.run(call)


def _read_elements(call: PipelineCall, source: Any, strict: bool) -> tuple[list[int], list[int]]:
    """Fill the array, where rows select single elements, which NumPy picks out of whole chunks.

    Return the rows left to zarr-python, and the rows without a value.
    """
    layout, drop_axes = call.layout, call.drop_axes
    left: list[int] = []
    missing: list[int] = []
    for numbers in _that_fit(layout, len(call.batch)):
        chunks = np.empty((len(numbers), *layout.shape), layout.dtype)
        failed, absent = _decode(layout, source, numbers, chunks, strict)
        left += failed
        missing += absent
        for k, number in enumerate(numbers):
            if number not in failed:
                _, _, inside, outside, _ = call.batch[number]
                part = chunks[k, ...][inside]
                if drop_axes:
                    part = part.reshape([s for i, s in enumerate(part.shape) if i not in drop_axes])
                call.array[outside] = part
    return sorted(left), sorted(missing)


def _write_elements(call: PipelineCall, source: Any) -> list[int]:
    """Store the array; return the rows left to zarr-python. The caller has locked all rows."""
    layout, batch, array, drop_axes = call.layout, call.batch, call.array, call.drop_axes
    left: list[int] = []
    for numbers in _that_fit(layout, len(batch)):
        chunks = np.empty((len(numbers), *layout.shape), layout.dtype)
        chunks[...] = layout.fill
        old = [k for k, number in enumerate(numbers) if not batch[number][4]]
        if old:
            before = np.empty((len(old), *layout.shape), layout.dtype)
            left += _decode(layout, source, [numbers[k] for k in old], before, False)[0]
            chunks[old] = before
        done = [k for k, number in enumerate(numbers) if number not in left]
        for k in done:
            _, _, inside, outside, _ = batch[numbers[k]]
            value = array if inside == () or not array.ndim else array[outside]
            if drop_axes and array.ndim:
                kept = (None if i in drop_axes else slice(None) for i in range(len(inside)))
                value = value[tuple(kept)]
            chunks[k, ...][inside] = value
        stored = [numbers[k] for k in done]
        listed, flat = _listed(layout, chunks[done])
        part = source.part(stored)
        found = rows.write(layout.capsule, listed, part, flat) if listed else None
        if isinstance(source, rows.Buffers):
            for number, value in zip(stored, part.values, strict=True):
                source.values[number] = value
        left += stored if found is None else [stored[k] for k in found]
    return sorted(left)


def _that_fit(layout: PipelineLayout, count: int) -> Iterator[list[int]]:
    """Yield the numbers of some rows at a time, so that their chunks fit into memory."""
    size = max(1, LIMIT // max(1, layout.dtype.itemsize * math.prod(layout.shape)))
    for start in range(0, count, size):
        yield [*range(start, min(start + size, count))]


def _decode(
    layout: PipelineLayout,
    source: Any,
    numbers: list[int],
    chunks: npt.NDArray[Any],
    strict: bool,
) -> tuple[list[int], list[int]]:
    """Decode rows into chunks; return the rows left to zarr-python, and rows without a value."""
    listed, flat = _listed(layout, chunks)
    flags = {"skip_missing": strict, "tell_missing": True}
    found = listed and rows.read(layout.capsule, listed, source.part(numbers), flat, **flags)
    failed, absent = found or ([*range(len(numbers))], [])
    return [numbers[k] for k in failed], [numbers[k] for k in absent]


def _listed(layout: PipelineLayout, chunks: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[Any]]:
    """Return rows of whole chunks for the kernel, and the chunks stacked along the first axis."""
    if not layout.shape:
        return [], chunks
    height, *widths = layout.shape
    inside = tuple(slice(0, n) for n in layout.shape)
    listed = [
        (inside, (slice(k * height, (k + 1) * height), *inside[1:]), True)
        for k in range(len(chunks))
    ]
    return listed, chunks.reshape(len(chunks) * height, *widths)


def _memory(buffer: Any, layout: PipelineLayout, convert: bool) -> npt.NDArray[Any] | None:
    """Return the memory of a buffer with the items that chunks have, or None.

    With `convert`, items of the same kind in another byte order are copied.
    """
    data = buffer.as_ndarray_like()
    if not isinstance(data, np.ndarray) or layout.unreadable is not None:
        return None
    if data.dtype != layout.dtype:
        if not convert:
            return None
        if (data.dtype.kind, data.itemsize) != (layout.dtype.kind, layout.dtype.itemsize):
            return None
        if data.dtype.newbyteorder("=") != layout.dtype.newbyteorder("="):
            return None
        return np.asarray(data, layout.dtype)
    return np.asarray(data)


def _full(array: npt.NDArray[Any], batch: Batch, *, writing: bool) -> npt.NDArray[Any] | None:
    """Return the array with an axis for each axis of chunks; None if rows are not boxes."""
    index = batch[0][2]
    if not isinstance(index, tuple):
        return None
    if not array.ndim and writing:
        return array  # one value for all elements
    kept = sum(type(part) is slice for part in index)
    if kept == len(index):
        return array if array.ndim == kept else None
    if array.ndim != kept:
        return None
    return array[tuple(slice(None) if type(part) is slice else np.newaxis for part in index)]


def _covers(index: Any, shape: tuple[int, ...]) -> bool:
    """Return True if an index selects every element of a chunk, each once and in order."""
    if not isinstance(index, tuple) or len(index) != len(shape):
        return False
    for part, length in zip(index, shape, strict=True):
        if type(part) is slice:
            if part.indices(length) != (0, length, 1):
                return False
        elif length != 1 or not isinstance(part, int):
            return False
    return True


def _groups(batch: Batch, layout: PipelineLayout) -> list[list[int]]:
    """Return the numbers of the rows to read or write together; a single list has all rows.

    They have equal specifications. Where stored values are held in memory between the store and
    the kernel, each group is limited in size.
    """
    groups: dict[Any, list[int]] = {}
    for number, (_, spec, *_) in enumerate(batch):
        own = id(spec.dtype), id(spec.fill_value), id(spec.config), id(spec.prototype)
        groups.setdefault((spec.shape, *own), []).append(number)
    getter = batch[0][0]
    in_place = type(getter) is not StorePath or type(getter.store) in (LocalStore, MemoryStore)
    if len(groups) > 1 or in_place:
        return [*groups.values()]
    size = max(ROWS, LIMIT // max(1, math.prod(layout.shape) * layout.dtype.itemsize))
    return [[*range(n, min(n + size, len(batch)))] for n in range(0, len(batch), size)]


@functools.cache  # once for each reason
def _tell(what: str, reason: str) -> None:
    logging.getLogger("omnizarr.zarr_pipeline").warning(
        "zarr-python itself %s these arrays: omnizarr's kernel does not know %s", what, reason
    )
