"""Adapters between zarr-python's stores and this package's stores.

``from_zarr`` adapts any `zarr.abc.store.Store`: those of zarr-python, icechunk, VirtualiZarr and
others. `open`, `create_array` and the like call it themselves. ``to_zarr`` makes a store for
zarr-python.
"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from omnizarr import extension, registry
from omnizarr.errors import MissingModule, StoreError
from omnizarr.extension import StorageIdentity, base, stores
from omnizarr.interop.zarr.stores import OmnizarrStore

try:
    from zarr import storage as zarr_stores
    from zarr.abc import store as abc
    from zarr.core.buffer.cpu import buffer_prototype
    from zarr.core.common import concurrent_map
except ImportError as e:
    raise MissingModule("stores of zarr-python need it: pip install zarr") from e

# Inside the classes `list` is a method.
Names: TypeAlias = list[str]
Values: TypeAlias = list[bytes | None]
T = TypeVar("T")
identity = stores.identity

_MAX_CONCURRENT = 64
INTERRUPT_WAIT = 1.0  # seconds that an interrupt waits for a coroutine to end
# Storage options, and the parameters of `Repository.readonly_session` that they are.
_REFERENCES = {"branch": "branch", "tag": "tag", "snapshot": "snapshot_id"}
_BUCKETS = {
    "s3": ("s3_storage", "bucket"),
    **dict.fromkeys(("gs", "gcs"), ("gcs_storage", "bucket")),
    "az": ("azure_storage", "container"),
}
# Packages whose stores list all their keys; those of tifffile list only metadata.
_LIST_ALL = ("zarr", "icechunk", "omnizarr")


def from_zarr(store: Any, *, read_only: bool = False) -> extension.Store:
    """Adapt a store of zarr-python, or a part of one (`StorePath`), to this package."""
    inner = getattr(store, "store", None)
    is_part = isinstance(inner, abc.Store) and hasattr(store, "path")
    whole: Any = inner if is_part else store
    kind = ListedZarrPythonStore if whole.supports_listing else ZarrPythonStore
    if hasattr(getattr(_innermost(whole), "session", None), "commit"):
        kind = SessionStore
    made = kind(whole, read_only=read_only)
    return extension.PrefixStore(made, store.path) if is_part and store.path else made


def _innermost(store: Any) -> Any:
    """Return the store that wrappers of zarr-python are around."""
    while isinstance(getattr(store, "_store", None), abc.Store):
        store = store._store
    return store


def to_zarr(
    store: Any, *, read_only: bool = False, storage_options: Mapping[str, Any] | None = None
) -> OmnizarrStore:
    """Adapt a store, path or URL of this package to zarr-python."""
    return OmnizarrStore(
        stores.resolve(store, storage_options=storage_options), read_only=read_only
    )


def _storage_identity(store: Any, prefix: str) -> StorageIdentity:
    """Return the physical location of the values of a store of zarr-python."""
    if isinstance(store, OmnizarrStore):
        return stores.storage_identity(store.store, prefix)
    if isinstance(store, zarr_stores.LocalStore):
        return identity.directory(Path(store.root) / prefix)
    if isinstance(store, zarr_stores.MemoryStore):
        return identity.inside(("memory", identity.ObjectIdentity(store._store_dict)), prefix)
    if isinstance(store, zarr_stores.ZipStore):
        return identity.file(store.path, prefix)
    if isinstance(store, zarr_stores.FsspecStore):
        fs, path = getattr(store.fs, "sync_fs", store.fs), f"{store.path}/{prefix}"
        found: StorageIdentity = registry.load("omnizarr.stores.fsspec:path_identity")(fs, path)
        return found
    wrapped = getattr(store, "_store", None)
    if isinstance(wrapped, abc.Store):
        return _storage_identity(wrapped, prefix)
    return identity.inside(("zarr-python", identity.ObjectIdentity(store)), prefix)


class ZarrPythonStore(base.Closeable):
    """A store of zarr-python, whose coroutines run in a thread of their own."""

    _commits_changes = False
    _to_write: str | None = None

    def __init__(self, inner: abc.Store, *, read_only: bool = False) -> None:
        self.inner = inner
        self._lists = _for_listing(inner)
        self.read_only = read_only or inner.read_only or not inner.supports_writes

        made_by = type(_innermost(inner)).__module__.partition(".")[0]
        self.traits = stores.base.Traits(
            lists_all=made_by in _LIST_ALL,
            erases=bool(inner.supports_deletes),  # not ZIP files
            commits_changes=self._commits_changes,
            to_write=self._to_write,
        )

    def _run(self, verb: str, what: object, work: Coroutine[Any, Any, T]) -> T:
        with stores.operations.translated_errors(verb, what, self, (Exception,)):
            return run_coroutine(self._opened(work))

    async def _opened(self, work: Coroutine[Any, Any, T]) -> T:
        """Open the store if necessary, then await `work`; zip stores do not open themselves."""
        try:
            await self.inner._ensure_open()
        except BaseException:
            work.close()
            raise
        return await work

    def get(self, key: str, range: stores.Range | None = None) -> bytes | None:
        return self._run("read", stores.check_key(key), self._get(key, range))

    def get_many(self, requests: Iterable[tuple[str, stores.Range | None]]) -> Values:
        asked = [(stores.check_key(key), range) for key, range in requests]
        return self._run(
            "read",
            ", ".join(key for key, _ in asked[:3]),
            concurrent_map(asked, self._get, _MAX_CONCURRENT),
        )

    async def _get(self, key: str, range: stores.Range | None) -> bytes | None:
        failure = None
        if range is not None and range.length != 0:
            try:
                part = await self.inner.get(key, buffer_prototype, _request(range))
            except NotImplementedError:
                part = None
            except Exception as e:  # many refuse a range beyond the end
                part, failure = None, e
            # Stores differ in what they return for a range beyond the end.
            inside = -range.start if range.start < 0 else range.length or 0
            if part is not None and len(part) >= inside:
                return stores.Range(0, range.length).of(part.to_bytes())
        try:
            found = await self.inner.get(key, buffer_prototype)
        except Exception as e:
            if _cannot_be(e, key):
                return None
            raise
        value = None if found is None else found.to_bytes()
        if value is None or range is None:
            return value
        end = -range.start if range.start < 0 else range.start + (range.length or 1)
        if failure is not None and end <= len(value):
            raise failure  # the range is inside the value
        return range.of(value)

    async def _is_key(self, key: str) -> bool:
        """Return True if there is a value, by reading a byte of it: `exists` accepts folders."""
        try:
            found = await self.inner.get(key, buffer_prototype, abc.RangeByteRequest(0, 1))
        except Exception:  # many refuse a range of an empty value: read the whole value
            return await self._get(key, None) is not None
        return found is not None

    def set(self, key: str, value: base.Bytes) -> None:
        self.set_many([(key, value)])

    def set_many(self, values: Iterable[tuple[str, base.Bytes]]) -> None:
        stores.check_writable(self)
        rows = {stores.check_key(key): bytes(memoryview(value)) for key, value in values}
        self._run(
            "write",
            ", ".join([*rows][:3]),
            concurrent_map(rows.items(), self._set, _MAX_CONCURRENT),
        )

    async def _set(self, key: str, value: bytes) -> None:
        await self.inner.set(key, buffer_prototype.buffer.from_bytes(value))

    def erase(self, key: str) -> None:
        stores.check_writable(self)
        self._run_erase(stores.check_key(key), self._erase(key))

    async def _erase(self, key: str) -> bool:
        """Erase a key; return False if it exists and the store cannot delete."""
        there = await self._is_key(key)  # otherwise, some stores remove everything below it
        if there and self.inner.supports_deletes:
            await self._delete(key)
        return not there or self.inner.supports_deletes

    async def _delete(self, key: str) -> None:
        if not self._is_pattern(key):
            await self.inner.delete(key)
            return
        inner: Any = self.inner
        root = inner.path.rstrip("/")
        with suppress(FileNotFoundError):
            await inner.fs._rm_file(f"{root}/{key}" if root else key)

    def _is_pattern(self, key: str) -> bool:
        """Return True if FsspecStore would take a key, or its own path, for a glob pattern."""
        path = f"{getattr(self.inner, 'path', '')}/{key}"
        return hasattr(self.inner, "fs") and any(mark in path for mark in "*?[")

    def erase_prefix(self, prefix: str) -> None:
        stores.check_writable(self)
        extension.check_prefix(prefix)
        self._run_erase(prefix, self._erase_prefix(prefix))

    def _run_erase(self, what: str, work: Coroutine[Any, Any, bool]) -> None:
        if not self._run("erase", what, work):
            cause = NotImplementedError("the store does not support deleting")
            raise StoreError(f"cannot erase {what!r}: {self!r} cannot delete") from cause

    async def _erase_prefix(self, prefix: str) -> bool:
        if not self.inner.supports_deletes:
            return self.inner.supports_listing and not await self._below(prefix)
        if self._is_pattern(prefix):
            for key in await self._below(prefix):
                await self._delete(key)
            return True
        if prefix:
            if not await self._is_key(prefix[:-1]):  # nothing is below a key
                await self.inner.delete_dir(prefix[:-1])
            return True
        with suppress(FileNotFoundError):  # the directory does not exist yet
            await self.inner.clear()
        if self.inner.supports_listing:  # FsspecStore.clear leaves some keys
            keys, prefixes = await self._list_dir("")
            for key in keys:
                await self._delete(key)
            for left in prefixes:
                await self._erase_prefix(left)
        return True

    async def _below(self, prefix: str) -> Names:
        """Return the keys below a prefix.

        Some stores also list names that only start with it, and ZIP files replaced keys twice.
        """
        names = dict.fromkeys(await _collect(self._lists.list_prefix(prefix)))
        return [name for name in names if name.startswith(prefix) and name[-1:] != "/"]

    async def _list_dir(self, prefix: str) -> tuple[Names, Names]:
        """Return keys and prefixes; zarr-python does not distinguish them, so check every name."""
        names = {name.rstrip("/") for name in await _collect(self._lists.list_dir(prefix))}
        # For a file, fsspec lists the file itself.
        found = sorted(prefix + name for name in names if name and "/" not in name)
        itself = prefix + prefix[:-1].rpartition("/")[2]
        if found == [itself] and await self._is_key(prefix[:-1]):
            return [], []
        there = await concurrent_map([(name,) for name in found], self._is_key, _MAX_CONCURRENT)
        keys = [name for name, is_key in zip(found, there, strict=True) if is_key]
        return keys, [f"{name}/" for name, key in zip(found, there, strict=True) if not key]

    def close(self) -> None:
        """Close the store of zarr-python."""
        self.inner.close()

    def identity(self, prefix: str = "") -> StorageIdentity:
        return _storage_identity(self.inner, prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrPythonStore) and other.inner == self.inner

    def __hash__(self) -> int:
        return hash(str(self.inner))

    def __repr__(self) -> str:
        return str(self.inner)


class ListedZarrPythonStore(ZarrPythonStore):
    """A store of zarr-python that can list its keys."""

    def list(self) -> Iterator[str]:
        yield from self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        extension.check_prefix(prefix)
        yield from self._run("list", prefix, self._below(prefix))

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        extension.check_prefix(prefix)
        return self._run("list", prefix, self._list_dir(prefix))


class SessionStore(ListedZarrPythonStore):
    """The store of a session of icechunk, whose changes are visible when it is committed.

    It accepts only keys of nodes, and no chunks outside of their array.
    """

    _commits_changes = True

    async def _below(self, prefix: str) -> Names:
        return await self._listed(prefix, super()._below(prefix), [])

    async def _list_dir(self, prefix: str) -> tuple[Names, Names]:
        return await self._listed(prefix, super()._list_dir(prefix), ([], []))

    async def _listed(self, prefix: str, listing: Coroutine[Any, Any, T], nothing: T) -> T:
        """Return a listing, or `nothing` if there is no node, which icechunk refuses to list."""
        try:
            return await listing
        except Exception:  # icechunk has one class for all its errors
            for key in extension.by_name(3).keys(prefix[:-1]):
                if await self._is_key(key):
                    raise
            return nothing

    def identity(self, prefix: str = "") -> StorageIdentity:
        return identity.inside(("session", Session(self.inner)), prefix)

    def stage(self, path: str | None = None, name: str | None = None) -> extension.Stage:
        """Return a stage outside of the store."""
        return SessionStage(self, path, name)


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """The identity of a store's session: equal for all stores of the same session."""

    store: abc.Store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and other.store == self.store

    def __hash__(self) -> int:
        return hash(Session)


class SessionStage(extension.Stage):
    """A temporary directory for new values of a session.

    Others see the changes of a session when it is committed, so what is replaced may go first; of a
    process that is killed they see nothing.
    """

    def __init__(
        self, target: SessionStore, path: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(target, path, name)
        self._directory = TemporaryDirectory(prefix="omnizarr-")
        self.store = stores.LocalStore(self._directory.name)

    def check(self, old: extension.Extent) -> None:
        """Do nothing: everything in a session can be replaced."""

    def replace(self, old: extension.Extent, new: extension.Extent) -> None:
        try:
            self._put(old, new)
        except BaseException:  # an interrupt must not lose anything
            with suppress(StoreError):
                self._put(old, new)
            raise

    def _put(self, old: extension.Extent, new: extension.Extent) -> None:
        for prefix in old.prefixes:
            stores.erase_prefix(self.target, prefix)
        stores.erase_values(self.target, [*old.metadata, *old.keys])
        staged = [key for key in stores.list_prefix(self.store, "") if new.has(key)]
        for key in sorted(staged, key=lambda key: (not extension.is_metadata(key), key.count("/"))):
            self.target.set(key, (Path(self._directory.name) / key).read_bytes())

    def discard(self) -> None:
        self._directory.cleanup()


class RepositoryStore(SessionStore):
    """A snapshot of a repository of icechunk: of a branch when it was opened, or another."""

    _to_write = "give the store of an icechunk session, repository.writable_session('main').store"

    def __init__(self, session: Any, url: str, path: str | None) -> None:
        super().__init__(session.store, read_only=True)
        self.url, self.snapshot, self._path = url, session.snapshot_id, path

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = True, **options: Any) -> RepositoryStore:
        """Return the store of a branch (main if none is named), a tag or a snapshot.

        ``icechunk:///path/to/repository`` is in a directory, ``icechunk::s3://bucket/prefix`` in a
        bucket (also ``gs://`` and ``az://``), with the options of icechunk's storage.
        """
        try:
            icechunk = import_module("icechunk")
        except ImportError as e:
            raise MissingModule("icechunk: URLs need it: pip install 'omnizarr[icechunk]'") from e
        named = {name: options.pop(name) for name in _REFERENCES if name in options}
        reference = {_REFERENCES[name]: value for name, value in named.items()}
        shown, inner = extension.redact_urls(url), url.partition("::")[2] or url
        parts = urlsplit(inner)
        path = None
        try:
            if parts.scheme in _BUCKETS:
                kind, place = _BUCKETS[parts.scheme]
                prefix = unquote(parts.path).strip("/")
                storage = getattr(icechunk, kind)(**{place: parts.netloc}, prefix=prefix, **options)
            elif parts.scheme in ("icechunk", "file") and not options:
                path = stores.base.absolute_path("".join(stores.base.split_path(inner)))
                os.listdir(path)  # icechunk would create it
                storage = icechunk.local_filesystem_storage(path)
            else:
                raise ValueError(f"unknown storage, or options {sorted(options)}")
            repository = icechunk.Repository.open(storage)
            session = repository.readonly_session(**reference or {"branch": "main"})
        except (icechunk.IcechunkError, ValueError, TypeError, OSError) as e:
            reason = str(getattr(e, "message", e)).strip().partition("\n")[0]
            of = f" with {named}" if named else ""
            raise StoreError(f"cannot open the icechunk repository {shown!r}{of}: {reason}") from e
        return cls(session, url, path)

    def identity(self, prefix: str = "") -> StorageIdentity:
        if self._path is None:
            return identity.inside(("icechunk", self.url, self.snapshot), prefix)
        return identity.inside(("icechunk", self.snapshot), prefix, identity.directory(self._path))

    def __repr__(self) -> str:
        return f"{extension.redact_urls(self.url)} at snapshot {self.snapshot}"


def _cannot_be(error: Exception, key: str) -> bool:
    """Return True if the error says that the store cannot have such a key.

    icechunk and VirtualiZarr accept only keys of version 3, and have no class for this error;
    tifffile raises KeyError for keys that are neither metadata nor chunks.
    """
    named = isinstance(error, KeyError) and error.args == (key,)
    refusals = (
        "invalid zarr key format",
        "did not match the expected pattern for nodes",
        "is a group but the key does not end in",
        "there is not an array at",
    )
    return named or any(refusal in str(error) for refusal in refusals)


def _request(range: stores.Range) -> abc.ByteRequest:
    if range.start < 0:
        return abc.SuffixByteRequest(-range.start)
    if range.length is None:
        return abc.OffsetByteRequest(range.start)
    return abc.RangeByteRequest(range.start, range.start + range.length)


def _for_listing(store: abc.Store) -> abc.Store:
    """Return a store for listing: an FsspecStore whose path ends in a slash lists wrong names."""
    if type(store) is not zarr_stores.FsspecStore or not store.path.endswith("/"):
        return store
    other = copy.copy(store)
    other.path = store.path.rstrip("/")
    return other


async def _collect(names: AsyncIterator[str]) -> Names:
    return [name async for name in names]


# Coroutines


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; the caller's own event loop has no part in it.

    One loop in a thread of its own serves all. An interrupt cancels the coroutine, and waits for it
    to end for `INTERRUPT_WAIT`.
    """
    global _loop
    with _loop_lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            if not extension.start_thread(loop.run_forever, "omnizarr-loop"):
                raise RuntimeError("cannot start a thread for an event loop")
            _loop = loop
    ended = threading.Event()

    async def whole() -> T:
        try:
            return await work
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(whole(), _loop)
    try:
        return future.result()
    except BaseException:  # of the coroutine, or of a signal handler
        if not future.done():
            future.cancel()
            ended.wait(INTERRUPT_WAIT)
        raise


_loop: asyncio.AbstractEventLoop | None = None
_loop_lock = extension.fork.lock()


def _forget_loop() -> None:
    """Let a forked child, which has no thread that runs the loop, make its own."""
    global _loop
    _loop = None


extension.fork.on_fork(in_child=_forget_loop)
