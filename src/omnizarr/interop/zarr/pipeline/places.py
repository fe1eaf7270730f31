"""Stores of zarr-python that have the chunks of a batch: a directory, a dictionary, or others.

Chunks that are changed in part are locked between the threads of this process, and in a directory
also between processes, with the same locks as this package's own arrays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from zarr.core.common import concurrent_map
from zarr.core.config import config as zarr_config
from zarr.storage import LocalStore, MemoryStore, StorePath, ZipStore

from omnizarr import formats, stores
from omnizarr.concurrency import key_locks
from omnizarr.concurrency.cache import Cache
from omnizarr.engine.rows import Buffers, Files, Source

_FORMATS = tuple(map(formats.by_name, ("3", "2")))
_UTF8 = sys.getfilesystemencoding() == "utf-8"
_prefixes: Cache[tuple[str, str], str] = Cache(1024)


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

    async def source(self, numbers: Iterable[int] | None = None) -> Source:
        """Return the values of all rows, or of some, the others without a value."""
        if self.root is not None and self.keys is not None:
            return Files(self.root, self.keys)
        wanted = range(len(self.getters)) if numbers is None else [*numbers]
        values: list[Any] = [None] * len(self.getters)
        for number, found in zip(wanted, await self._fetch(wanted), strict=True):
            values[number] = None if found is None else found.as_numpy_array()
        return Buffers(values)

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
        """Store the values that the kernel made of rows, all but those that are left."""
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
        prefix = _array_prefix(directory, keys[0])
        own = stores.LocalStore(directory)
        same = all(key.startswith(prefix) for key in keys)
        with (
            key_locks.locked(key_locks.CHUNKS, keys, own),
            stores.lock(own, prefix if same else "", keys, "chunks"),
        ):
            yield


async def find(batch: list[Any]) -> ChunkPlace:
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


def hands_over_values(getter: Any) -> bool:
    """Return True for a store that reads into memory, and writes from it."""
    return type(getter) is StorePath and type(getter.store) not in (LocalStore, MemoryStore)


async def _get(getter: Any, prototype: Any) -> Any:
    return await getter.get(prototype)


async def _set(setter: Any, value: Any) -> None:
    if value is None:
        await setter.delete()
    else:
        await setter.set(value)


def _array_prefix(directory: str, key: str) -> str:
    """Return the prefix of the array that a chunk belongs to: of the metadata nearest above."""
    folder = key.rpartition("/")[0]
    found = _prefixes.get((directory, folder))
    if found is None:
        found, above = "", folder
        while above:
            keys = (key for one in _FORMATS for key in one.keys(above))
            if any(os.path.exists(directory + key) for key in keys):
                found = f"{above}/"
                break
            above = above.rpartition("/")[0]
        _prefixes.put((directory, folder), found)
    return found
