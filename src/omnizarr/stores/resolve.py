"""Turn what a user gives (a path, a URL, a dictionary, an object) into a store."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from omnizarr import registry
from omnizarr.concurrency.cache import cached
from omnizarr.errors import InvalidArgument, StoreError, known_names
from omnizarr.stores.base import Bytes, Closeable, Range, Store, redact_url, redact_urls, traits
from omnizarr.stores.identity import StorageIdentity, storage_identity
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import check_key, check_offset, check_writable
from omnizarr.stores.references import REFERENCE_ENDINGS, WEB, is_references

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(/?)")  # one letter is a Windows drive
_memories: dict[str, dict[str, bytes]] = {}
_ends: ContextVar[ExitStack | None] = ContextVar("ends", default=None)


def memory(url: str, *, read_only: bool = False) -> MemoryStore:
    """Return the store in memory that a URL names, shared in the process; a new one for no name."""
    name = unquote(url.partition(":")[2].strip("/"))
    if not name:
        return MemoryStore(read_only=read_only)
    return MemoryStore(_memories.setdefault(name, {}), read_only=read_only)


_OBJECT = "omnizarr.stores.object.store:ObjectStore.from_url"
_FSSPEC = "omnizarr.stores.fsspec:FsspecStore.from_url"
registry.register("store", "file", LocalStore.from_url)
registry.register("store", "memory", memory)
registry.register("store", "zip", "omnizarr.stores.zip:ZipStore.from_url")
registry.register("store_adapter", "zip", "omnizarr.stores.zip:ZipStore")
_ICECHUNK = "omnizarr.interop.zarr.zarr_python:RepositoryStore.from_url"
registry.register("store_adapter", "references", "omnizarr.stores.references.store:ReferenceStore")
registry.register("store", "sqlite", "omnizarr.stores.sqlite:SQLiteStore.from_url")
registry.register("store", "lmdb", "omnizarr.stores.lmdb:LMDBStore.from_url")
registry.register("store", "redis", "omnizarr.stores.redis:RedisStore.from_url", "rediss", "unix")
registry.register("store", "http", "omnizarr.stores.http:HTTPStore.from_url", "https")
registry.register("store", "s3", _OBJECT, "s3a")
registry.register("store", "gs", _OBJECT, "gcs")
registry.register("store", "az", _OBJECT, "abfs", "abfss", "adl", "azure")
# fsspec has more, which are found if it is installed; these are known without it.
registry.register("store", "ftp", _FSSPEC, "sftp", "ssh", "smb", "webdav", "hdfs")
registry.register("store", "github", _FSSPEC, "git", "hf", "reference")
registry.register("store", "simplecache", _FSSPEC, "filecache", "blockcache")
registry.register("store", "icechunk", _ICECHUNK)
registry.register("store_adapter", "zarr-python", "omnizarr.interop.zarr.zarr_python:from_zarr")

_PARTIAL = ("get_partial_values", "set_partial_values", "erase_values")
_ARCHIVE_ENDINGS = (".zip", ".ozx")
_ARCHIVE = re.compile(r"zip::|.*\.(zip|ozx)/?\Z", re.IGNORECASE | re.DOTALL)
_ENDINGS = _ARCHIVE_ENDINGS + REFERENCE_ENDINGS  # of what is not a plain folder


def resolve(
    where: Any, *, read_only: bool = False, storage_options: Mapping[str, Any] | None = None
) -> Store:
    """Return the store for a path, URL, dictionary or object; for None a new one in memory."""
    if not storage_options and isinstance(where, (str, PurePath)):
        text = where if isinstance(where, str) else os.fspath(where)
        if ":" not in text and not text.rstrip("/").lower().endswith(_ENDINGS):
            return LocalStore(text, read_only=read_only)  # as nearly all are
    found = _resolve(where, read_only, storage_options)
    ends = _ends.get()
    if ends is not None and isinstance(where, (str, os.PathLike)) and hasattr(found, "close"):
        ends.callback(found.close)
    return found


@contextmanager
def close_later(ends: ExitStack) -> Iterator[None]:
    """Let `ends` close the stores that `resolve` opens by path or URL in the block."""
    token = _ends.set(ends)
    try:
        yield
    finally:
        _ends.reset(token)


def _resolve(where: Any, read_only: bool, storage_options: Mapping[str, Any] | None) -> Store:
    options = dict(storage_options or {})
    if isinstance(where, (str, os.PathLike)) and is_references(os.fspath(where)):
        references = registry.lookup("store_adapter", "references")
        found: Store = references.from_path(os.fspath(where), options)
        return found
    if isinstance(where, str) and "://" in where and not {*"\t\r\n"}.isdisjoint(where):
        raise InvalidArgument(f"the URL {where!r} has a tab or a line break; write %09, %0D or %0A")
    make = _store_factory(where) if isinstance(where, str) else None
    archive = isinstance(where, (str, os.PathLike)) and is_archive(os.fspath(where))
    if options and not (takes_options(where) if archive else make):
        raise StoreError(
            f"storage_options {sorted(options)} are for URLs such as 's3://…', got {where!r}"
        )
    if where is None:
        return MemoryStore()
    if archive:
        return _archive(os.fspath(where), read_only, storage_options)
    if make is not None:
        try:
            made = make(where, read_only=read_only, **options)
        except TypeError as e:
            given = "storage_options" if options else "the URL and read_only="
            raise StoreError(
                f"cannot open {redact_url(where)!r}, whose function gets {given}: {e}"
            ) from e
        if isinstance(made, (str, os.PathLike, type(None))):
            raise StoreError(f"cannot open {redact_url(where)!r}: its function gave {made!r}")
        where = made  # may be as simple as a store that is given directly
    if isinstance(where, (str, os.PathLike)):
        return LocalStore(os.fspath(where), read_only=read_only)
    if isinstance(where, Store) and takes_range(type(where)):
        return where
    if is_zarr_python_store(where):
        adapt = registry.lookup("store_adapter", "zarr-python")
        adapted: Store = adapt(where, read_only=read_only)
        return adapted
    if isinstance(where, MutableMapping):
        return MemoryStore(where, read_only=read_only)
    if all(hasattr(where, name) for name in _PARTIAL) and not hasattr(where, "get"):
        return StoreWithPartialAccess(where, read_only=read_only)
    if is_minimal_store(where):
        return MinimalStore(where, read_only=read_only)
    raise StoreError(
        f"{type(where).__name__} is not a store; give a path, a dict,"
        " or an object with get, and to write with set and erase"
    )


def takes_options(where: Any) -> bool:
    """Return True for a URL of a store that takes storage options."""
    if not isinstance(where, str):
        return False
    if is_references(where):
        return True
    inner = where.removeprefix("zip::") if is_archive(where) else where
    scheme = _SCHEME.match(inner)
    local = scheme is None or scheme[1].lower() in ("file", "memory")
    return not local and (is_archive(where) or _store_factory(where) is not None)


def options_for_two(
    source: Any,
    destination: Any,
    storage_options: Mapping[str, Any] | None,
    destination_options: Mapping[str, Any] | None,
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return options of a source and a destination: `storage_options` are for those with a URL."""
    if destination_options is not None or not storage_options:
        return storage_options, destination_options
    both = takes_options(source), takes_options(destination)
    if not any(both):
        return storage_options, None  # which `resolve` refuses
    return storage_options if both[0] else None, storage_options if both[1] else None


def is_archive(text: str) -> bool:
    """Return True if a path or URL names a ZIP file, by its ending or ``zip::`` in front."""
    if WEB.match(text):
        text = text.partition("?")[0]
    return bool(_ARCHIVE.match(text)) and not text.startswith("zip://") and not os.path.isdir(text)


def _archive(text: str, read_only: bool, options: Mapping[str, Any] | None) -> Store:
    """Return the store in a ZIP file; one inside another store is read-only."""
    text = text.removeprefix("zip::").rstrip("/")
    scheme = _SCHEME.match(text)
    kind = registry.lookup("store_adapter", "zip")
    if scheme is None or scheme[1].lower() == "file":
        path = text if scheme is None else str(LocalStore.from_url(text).root)
        found: Store = kind(path, mode="r" if read_only else "a")
    else:
        path, question, query = text.partition("?") if WEB.match(text) else (text, "", "")
        parent, _, name = path.rpartition("/")
        outer = resolve(parent + question + query, read_only=True, storage_options=options)
        found = kind.inside(outer, unquote(name) if WEB.match(text) else name)
    return found


def is_zarr_python_store(where: object) -> bool:
    """Return True for a store of zarr-python 3, or a path in one, by its class or methods."""
    inner = getattr(where, "store", where) if hasattr(where, "path") else where
    theirs = getattr(sys.modules.get("zarr.abc.store"), "Store", None)
    if theirs is not None and isinstance(inner, theirs):
        return True  # also if its methods are functions that return awaitables
    needed = ("get", "set", "delete", "list_prefix", "supports_listing", "supports_writes")
    return all(hasattr(inner, name) for name in needed) and inspect.iscoroutinefunction(
        getattr(type(inner), "get", None)
    )


def _store_factory(text: str) -> Any | None:
    """Return the function that makes the store of a URL; None for a path."""
    if "::" in text:  # a chain of URLs, the outermost first
        first = text.partition("::")[0].partition("://")[0].lower()
        return registry.find("store", first) or _fsspec_factory(first)
    match = _SCHEME.match(text)
    if match is None:
        return None
    scheme = match[1].lower()
    make = registry.find("store", scheme)
    if make is None and match[2]:
        make = _fsspec_factory(scheme)
    if make is None and match[2]:
        known = known_names(scheme, sorted({*registry.names("store"), *_fsspec_schemes()}))
        more = "" if _fsspec_schemes() else " (pip install 'omnizarr[fsspec]' has more)"
        raise StoreError(
            f"unknown kind of store {scheme!r} in {redact_urls(text)!r}{more}; {known}"
        )
    return make


def _fsspec_factory(scheme: str) -> Any | None:
    return registry.find("store", "simplecache") if scheme in _fsspec_schemes() else None


def _fsspec_schemes() -> list[str]:
    """Return the schemes of fsspec, also of file systems that need one more package."""
    try:
        from fsspec.registry import available_protocols  # noqa: PLC0415 - optional
    except ImportError:
        return []
    return list(available_protocols())


class StoreWithPartialAccess:
    """A complete store on top of the partial and bulk operations of the version 3 draft.

    To replace a value it is erased first, since writing a part leaves the end of a longer value;
    a reader may find the key missing for a moment.
    """

    def __init__(self, inner: Any, *, read_only: bool = False) -> None:
        self.inner = inner
        self.read_only = read_only

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        requested = [(check_key(key), range or Range()) for key, range in requests]
        # The draft has no ranges from the end: fetch the whole value and cut it.
        ranges = [(key, (0, None) if r.start < 0 else (r.start, r.length)) for key, r in requested]
        values = self.inner.get_partial_values(ranges)
        return [
            range.of(value) if value is not None and range.start < 0 else value
            for (_, range), value in zip(requested, values, strict=True)
        ]

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        self.inner.erase_values([check_key(key)])
        self.inner.set_partial_values([(key, 0, value)])

    def set_partial(self, key: str, start: int, value: Bytes) -> None:
        check_writable(self)
        check_offset(check_key(key), start)
        self.inner.set_partial_values([(key, start, value)])

    def erase(self, key: str) -> None:
        check_writable(self)
        self.inner.erase_values([check_key(key)])

    def __repr__(self) -> str:
        return f"StoreWithPartialAccess({self.inner!r})"


_OPTIONAL = ("list", "list_prefix", "list_dir", "erase_prefix", "set_many", "set_partial", "sizes")


class MinimalStore(Closeable):
    """A store for an object that has `get`, and perhaps `set`, and `erase` or `delete`."""

    def __init__(self, inner: Any, *, read_only: bool = False) -> None:
        self.inner = inner
        can_write = callable(getattr(inner, "set", None))
        self.read_only = read_only or not can_write or bool(getattr(inner, "read_only", False))
        self._takes_range = takes_range(type(inner))
        self._erase = getattr(inner, "erase", None) or getattr(inner, "delete", None)
        self.traits = replace(traits(inner).behind_wrapper(), erases=self._erase is not None)
        for name in _OPTIONAL:
            if callable(getattr(inner, name, None)):
                setattr(self, name, getattr(inner, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(MinimalStore, read_only=self.read_only), (self.inner,)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        check_key(key)
        whole = range is None or not self._takes_range
        try:
            value = self.inner.get(key) if whole else self.inner.get(key, range)
        except KeyError:
            return None
        if value is None:
            return None
        found = value if isinstance(value, bytes) else bytes(memoryview(value))
        return range.of(found) if range is not None and whole else found

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        self.inner.set(check_key(key), bytes(value))

    def erase(self, key: str) -> None:
        check_writable(self)
        if self._erase is None:
            raise StoreError(f"cannot erase {key!r}: {self.inner!r} has no method erase or delete")
        try:
            self._erase(check_key(key))
        except KeyError:
            return  # it does not exist, which is the goal

    def identity(self, prefix: str = "") -> StorageIdentity:
        return storage_identity(self.inner, prefix)

    def _values_at(self) -> tuple[str, int]:
        return "object", id(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)


def is_minimal_store(where: object) -> bool:
    """Return True for an object that `MinimalStore` can wrap, not for tables and arrays."""
    get = getattr(where, "get", None)
    if isinstance(where, type) or not callable(get) or inspect.iscoroutinefunction(get):
        return False
    return callable(getattr(where, "set", None)) or not hasattr(where, "__getitem__")


@cached(256)
def takes_range(kind: Any) -> bool:
    """Return True if the method `get` of a class takes a range besides the key."""
    try:
        parameters = list(inspect.signature(kind.get).parameters.values())
    except (AttributeError, TypeError, ValueError):  # an object's own method, or one of C
        return True
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    bound = isinstance(inspect.getattr_static(kind, "get"), (staticmethod, classmethod))
    return open_ended or len(placed) > (1 if bound else 2)
