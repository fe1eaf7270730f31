"""Stores: from what a program gives to zarr-python to ours, and back.

With zarr-python, a program sees its stores (`group.store` is the one that was given); the data go
through ours. A directory and a dictionary have stores of ours; any other store of zarr-python is
adapted.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnizarr import registry
from omnizarr.errors import InvalidArgument, MissingModule
from omnizarr.extension import Store, paths, stores
from omnizarr.interop.zarr import library

try:
    from zarr.abc import store as abc
    from zarr.core.buffer import Buffer, BufferPrototype
except ImportError as e:
    raise MissingModule(
        "zarr-python's names and stores need it: pip install 'zarr>=3.1'; repositories of icechunk:"
        " pip install 'omnizarr[icechunk]'"
    ) from e

# Our stores by those of zarr-python; what they have in common (locks, caches) is kept that way.
_adapted: weakref.WeakKeyDictionary[Any, Store] = weakref.WeakKeyDictionary()
# Those of memory, by the identity of their dictionary, which they keep; and if they are read-only.
_in_memory = weakref.WeakValueDictionary[tuple[int, bool, bool], Store]()


@dataclass(frozen=True)
class ZarrPlace:
    """A store and a path in it."""

    store: Any
    path: str


@dataclass(frozen=True)
class ZarrTarget:
    """A place for a node: our store, the path in it, and the store that the program sees."""

    store: Store
    path: str
    given: Any

    def below(self, name: str | None) -> ZarrTarget:
        """Return the place at a relative path."""
        return ZarrTarget(self.store, paths.join(self.path, paths.normalize(name)), self.given)

    def remove_empty_directories(self) -> None:
        """Remove directories that hold nothing, if a program replaces their contents."""
        root = stores.direct_file_root(self.store)
        if root is not None and not self.store.read_only:
            _remove_empty(Path(os.fsdecode(root)) / self.path)


def _remove_empty(folder: Path) -> None:
    """Remove empty directories below one that holds directories only."""
    with suppress(OSError):  # such as of another user, or no longer there
        entries = list(folder.iterdir())
        if all(entry.is_dir() and not entry.is_symlink() for entry in entries):
            for entry in entries:
                _remove_empty(entry)
                entry.rmdir()


def locate(
    store: Any,
    path: str | None = None,
    mode: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ZarrTarget:
    """Return the place that arguments of a program mean, as zarr-python understands them."""
    if mode not in (None, "r", "r+", "a", "w", "w-"):
        raise InvalidArgument(f"mode {mode!r} is not known; use r, r+, a, w or w-")
    start = ""
    if (
        hasattr(store, "store")
        and hasattr(store, "path")
        and not isinstance(store, Store | abc.Store)
    ):
        store, start = store.store, store.path
    given = _with_mode(_zarr_store(store, mode, storage_options), mode)
    node_path = paths.join(paths.normalize(start), paths.normalize(path))
    return ZarrTarget(adapt(given), node_path, given)


def _zarr_store(store: Any, mode: str | None, storage_options: Mapping[str, Any] | None) -> Any:
    """Return the store of zarr-python for a path, URL, dictionary or store."""
    theirs: Any = abc.Store
    if isinstance(store, Store) and not isinstance(store, theirs):
        return to_zarr(store)
    if isinstance(store, theirs) and storage_options is None:
        return store
    if isinstance(store, dict) and not library.replaced:  # zarr-python itself would store buffers
        return to_zarr(_memory(store, False, as_bytes=True))
    make = library.original("zarr.storage._common", "make_store")
    # It makes the directory unless the node must exist.
    read = mode if mode in ("r", "r+") else None
    return library.sync(make(store, mode=read, storage_options=storage_options))


def _with_mode(store: Any, mode: str | None) -> Any:
    """Return the store, read-only for mode ``r``; raise if it cannot be used with the mode."""
    if store.read_only:
        if mode not in (None, "r"):
            raise InvalidArgument(
                f"Store is read-only but mode is {mode!r}. Create a writable store or use 'r' mode."
            )
        return store
    if mode != "r":
        return store
    try:
        return store.with_read_only(True)
    except NotImplementedError as e:
        raise InvalidArgument(
            "Store is not read-only but mode is 'r'. Unable to create a read-only copy of the"
            " store. Please use a read-only store or a storage class that implements"
            " .with_read_only()."
        ) from e


def adapt(store: Any) -> Store:
    """Return our store for one of zarr-python, the same each time."""
    if type(store) is library.module("zarr.storage").MemoryStore:  # which cannot be hashed
        return _memory(store._store_dict, bool(store.read_only), as_bytes=False)
    try:
        found = _adapted.get(store)
    except TypeError:  # it cannot be hashed
        return _make(store)
    root = None if found is None else stores.file_root(found)
    was_moved = root is not None and root != Path(getattr(store, "root", root))
    if found is None or found.read_only != store.read_only or was_moved:
        found = _adapted[store] = _make(store)
    return found


def _memory(values: Any, read_only: bool, as_bytes: bool) -> Store:
    """Return our store for a dictionary, the same each time."""
    key = id(values), read_only, as_bytes
    found = _in_memory.get(key)
    if found is None:
        found = _in_memory[key] = stores.MemoryStore(
            BufferMapping(values, as_bytes), read_only=read_only
        )
    return found


def _make(store: Any) -> Store:
    inner = getattr(store, "store", None)
    if library.is_ours(type(store)) and isinstance(inner, Store):
        if inner.read_only or not store.read_only:
            return inner
        kept: Store = registry.load("omnizarr.stores.wrappers:ReadOnlyStore")(inner)
        return kept
    if type(store) is library.module("zarr.storage").LocalStore:
        return stores.LocalStore(store.root, read_only=store.read_only)
    found: Store = registry.lookup("store_adapter", "zarr-python")(store, read_only=store.read_only)
    return found


def to_zarr(store: Store) -> Any:
    """Return the store of zarr-python for one of ours."""
    root = stores.direct_file_root(store)
    if root is not None:
        theirs = library.module("zarr.storage").LocalStore
        return theirs(Path(os.fsdecode(root)), read_only=store.read_only)
    return OmnizarrStore(store)


class BufferMapping(MutableMapping[str, bytes]):
    """A dictionary whose values are, or become, bytes or buffers of zarr-python, as bytes."""

    def __init__(self, values: MutableMapping[str, Any], as_bytes: bool) -> None:
        self._values, self._as_bytes = values, as_bytes

    def __getitem__(self, key: str) -> bytes:
        value = self._values[key]
        found: bytes = value.to_bytes() if hasattr(value, "to_bytes") else bytes(value)
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        buffers = library.module("zarr.core.buffer.cpu").Buffer
        self._values[key] = bytes(value) if self._as_bytes else buffers.from_bytes(bytes(value))

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)


class OmnizarrStore(abc.Store):
    """A store of this package, adapted to zarr-python; calls run in worker threads."""

    supports_writes = True
    supports_deletes = True

    def __init__(self, store: Store, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only or store.read_only)
        self.store = store

    @property
    def supports_listing(self) -> bool:
        return stores.can_list(self.store)

    def with_read_only(self, read_only: bool = False) -> OmnizarrStore:
        return type(self)(self.store, read_only=read_only)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: abc.ByteRequest | None = None
    ) -> Buffer | None:
        return (await self.get_partial_values(prototype, [(key, byte_range)]))[0]

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, abc.ByteRequest | None]],
    ) -> list[Buffer | None]:
        await self._ensure_open()
        asked = [(key, _range(part)) for key, part in key_ranges]
        values = await asyncio.to_thread(stores.get_many, self.store, asked)
        return [None if v is None else prototype.buffer.from_bytes(v) for v in values]

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self.store.get, key, stores.Range(0, 1)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self.store.set, key, value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await asyncio.to_thread(stores.set_new, self.store, key, value.to_bytes())

    async def delete(self, key: str) -> None:
        self._check_writable()
        await asyncio.to_thread(self.store.erase, key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await asyncio.to_thread(stores.erase_prefix, self.store, _folder(prefix))

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        folder = prefix[: prefix.rfind("/") + 1]  # the rest is the start of a name
        for key in await asyncio.to_thread(lambda: [*stores.list_prefix(self.store, folder)]):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = _folder(prefix)
        keys, prefixes = await asyncio.to_thread(stores.list_dir, self.store, folder)
        for name in (*keys, *prefixes):
            yield name[len(folder) :].rstrip("/")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OmnizarrStore):
            return False
        return other.store == self.store and other.read_only == self.read_only

    def __hash__(self) -> int:
        return hash(self.store)

    def __str__(self) -> str:
        return f"omnizarr:{self.store!r}"

    def __repr__(self) -> str:
        return f"OmnizarrStore({self.store!r})"


def _folder(prefix: str) -> str:
    return prefix.rstrip("/") + "/" if prefix else ""


def _range(part: abc.ByteRequest | None) -> stores.Range | None:
    match part:
        case None:
            return None
        case abc.RangeByteRequest(start, end):
            return stores.Range(start, end - start)
        case abc.OffsetByteRequest(offset):
            return stores.Range(offset)
        case abc.SuffixByteRequest(suffix):
            return stores.Range(-suffix) if suffix else stores.Range(0, 0)
        case _:
            raise ValueError(f"Unexpected byte_range, got {part!r}")
