"""File systems of fsspec: FTP, GitHub, Hugging Face, references, caches, chains of URLs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from omnizarr import registry
from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import in_parallel
from omnizarr.concurrency.retry import REMOVED_DIRECTORY, Retry, TransientError, take_retry
from omnizarr.errors import InvalidArgument, MissingModule, StoreError, WrongType
from omnizarr.stores import base, identity, tracing
from omnizarr.stores.base import Bytes, Entry, Names, Range, Requests, Values, flat, redact_urls
from omnizarr.stores.byte_ranges import each_in_parallel, fetch_together
from omnizarr.stores.local.atomic_files import remove_empty
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import check_key, check_prefix, check_writable

T = TypeVar("T")
Errors: TypeAlias = tuple[type[Exception], ...]
# What a file system raises for a key that is not there.
ABSENT: Errors = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class FsspecStore(base.ListedStore):
    """The files below a path in a file system of fsspec.

    An asynchronous file system is used by its blocking calls. Others may not be thread-safe, so
    they get one request at a time. A directory is not a value: a key that names one is absent.
    """

    _copies_share_values = True

    def __init__(
        self,
        fs: Any,
        read_only: bool = False,
        path: str = "",
        allowed_exceptions: Errors = ABSENT,
        *,
        retry: Retry | None = None,
    ) -> None:
        """`allowed_exceptions` are the exceptions of `fs` that mean a missing key."""
        if not isinstance(read_only, bool):
            raise WrongType(f"read_only must be True or False, got {read_only!r}; path= is another")
        if not all(hasattr(fs, name) for name in ("cat_file", "pipe_file", "find", "ls")):
            raise InvalidArgument(f"{type(fs).__name__} is not a file system of fsspec")
        fs = _blocking(fs)
        self._process_state = os.getpid(), fs, _lock(fs)
        self.path = str(fs._strip_protocol(path)).rstrip("/")
        self._start = f"{self.path}/" if self.path else fs.root_marker
        self._in_urls = self.path.startswith(("http://", "https://"))  # '#' and '?' end a path
        self.read_only = read_only
        self.allowed_exceptions = allowed_exceptions
        self.retry = retry or Retry()

    @classmethod
    def from_mapper(
        cls, fs_map: Any, read_only: bool = False, allowed_exceptions: Errors = ABSENT
    ) -> FsspecStore:
        """Return the store of a mapping of fsspec (`FSMap`)."""
        return cls(fs_map.fs, read_only, fs_map.root, allowed_exceptions)

    @classmethod
    def from_upath(
        cls, upath: Any, read_only: bool = False, allowed_exceptions: Errors = ABSENT
    ) -> FsspecStore:
        """Return the store of a path of universal_pathlib (`UPath`)."""
        return cls(upath.fs, read_only, upath.path, allowed_exceptions)

    @classmethod
    def from_url(
        cls,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        read_only: bool = False,
        allowed_exceptions: Errors = ABSENT,
        **further: Any,
    ) -> FsspecStore:
        """Return the store of a URL, or of a chain of URLs, with options of fsspec."""
        needed = f"{redact_urls(url)!r} needs the package fsspec; pip install 'omnizarr[fsspec]'"
        url_to_fs = registry.load_optional("fsspec.core:url_to_fs", needed)
        options = {**(storage_options or {}), **further}
        retry = take_retry(options)
        try:
            fs, path = url_to_fs(url, **options)
        except ImportError as e:
            raise MissingModule(f"{redact_urls(url)!r}: {e}") from e
        except (ValueError, TypeError, OSError) as e:
            raise StoreError(f"fsspec cannot open {redact_urls(url)!r}: {e}") from e
        return cls(fs, read_only, path, allowed_exceptions, retry=retry)

    @property
    def fs(self) -> Any:
        """The file system; a forked process makes its own."""
        return self._in_process()[1]

    def _in_process(self) -> tuple[int, Any, AbstractContextManager[Any]]:
        mine = self._process_state
        if mine[0] != os.getpid():
            fork.never_release(mine[1])
            self.__setstate__(pickle.loads(pickle.dumps(self.__getstate__())))
            mine = self._process_state
        return mine

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        path, start, end = self._path(key), None, None
        if range is not None:
            start = range.start
            if start >= 0 and range.length is not None:
                end = start + range.length
            if range.length == 0:
                start, end = 0, 1  # this proves that the key exists

        def read() -> bytes:
            data = bytes(self.fs.cat_file(path, start=start, end=end))
            return data if range is None or range.length is None else data[: range.length]

        return self._call("read", key, read, None)

    def get_many(self, requests: Requests) -> Values:
        if not getattr(self.fs, "async_impl", False):
            return [self.get(key, range) for key, range in requests]
        each = each_in_parallel(lambda key, range: (self.get(key, range), None))
        return [data for data, _ in fetch_together(each, list(requests))]

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        found = {}
        for key in keys:
            info = self._call("read", key, partial(self.fs.info, self._path(key)), None)
            if info is None or info["type"] != "file":
                continue
            known = info.get("size")
            found[key] = len(self.get(key) or b"") if known is None else int(known)
        return found

    # Writing

    def check_new_key(self, key: str) -> None:
        """Raise if a local disk cannot store a key, or confuses it with another spelling."""
        if self._is_local:
            LocalStore(self.path).check_new_key(key)

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        path, data = self._path(key), bytes(flat(value))

        def write() -> None:
            try:
                self.fs.pipe_file(path, data)
            except FileNotFoundError:
                REMOVED_DIRECTORY.call(write_with_folder, FileNotFoundError)

        def write_with_folder() -> None:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(path, data)

        self._call("write", key, write, sent_bytes=len(data))

    def erase(self, key: str) -> None:
        check_writable(self)
        path = self._path(key)
        self._call("erase", key, lambda: self.fs.rm_file(path), None)
        self._remove_empty(path)

    def erase_prefix(self, prefix: str) -> None:
        """Erase all keys below a prefix, each by its own name: `rm` takes paths for patterns."""
        check_writable(self)
        check_prefix(prefix)
        top = self._top(prefix)

        def find() -> Mapping[str, dict[str, Any]]:
            self.fs.invalidate_cache()
            if not self.fs.isdir(top):  # a file of that name is not below the prefix
                return {}
            found: Mapping[str, dict[str, Any]] = self.fs.find(top, withdirs=True, detail=True)
            return found

        found = self._call("erase", prefix, find, {})
        folders = [path for path, about in found.items() if about.get("type") == "directory"]
        files = [*(found.keys() - folders)]
        in_parallel(
            lambda path: self._call("erase", prefix, partial(self.fs.rm_file, path), None), files
        )
        rmdir = os.rmdir if self._is_local else self.fs.rmdir
        for path in sorted({*folders, top}, key=len, reverse=True) if found else ():
            if len(path) > len(self.path):
                with suppress(StoreError):  # a bucket has no folders, another writer fills them
                    self._call("erase", prefix, partial(rmdir, path), None)
        self._remove_empty(top)

    @property
    def _is_local(self) -> bool:
        names = self.fs.protocol
        return "file" in ((names,) if isinstance(names, str) else names)

    def _remove_empty(self, path: str) -> None:
        """Remove empty folders of a local disk, since a value may get their name."""
        if self._is_local:
            remove_empty(path, self._start)

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self._files(prefix))

    def list_entries(self, prefix: str) -> Iterator[Entry]:
        for key, about in self._files(prefix):
            size = about.get("size")
            if size is None or about["type"] == "file":
                yield Entry(key, None if size is None else int(size))

    def _files(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the keys below a prefix, with what is known of their values."""
        check_prefix(prefix)
        top = self._top(prefix)

        def find() -> Mapping[str, dict[str, Any]]:
            self.fs.invalidate_cache()
            found: Mapping[str, dict[str, Any]] = self.fs.find(top, detail=True)
            if not found:
                self.fs.ls(top)  # which raises if it cannot be listed
            return found

        for path, about in self._call("list", prefix, find, {}).items():
            key = self._key(path)
            if key.startswith(prefix):
                yield key, about

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)

        def ls() -> Any:
            self.fs.invalidate_cache()
            return self.fs.ls(self._top(prefix), detail=True)

        keys: Names = []
        prefixes: Names = []
        for entry in self._call("list", prefix, ls, ()):
            name = self._key(entry["name"].rstrip("/"))
            if not name.startswith(prefix) or name == prefix.rstrip("/"):
                continue  # some list the directory itself
            if entry["type"] == "directory":
                prefixes.append(f"{name}/")
            else:
                keys.append(name)
        return keys, prefixes

    # What it is

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process_state": self._process_state[1]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._process_state = os.getpid(), state["_process_state"], _lock(state["_process_state"])

    def identity_details(self) -> tuple[Any, ...]:
        """Return all options of the file system, and the directory that relative paths depend on.

        A store with an object among its options has no portable key.
        """
        fs = self._process_state[1]
        kind, given = type(fs), (fs.storage_args, dict(fs.storage_options))
        return kind.__module__, kind.__qualname__, given, os.getcwd(), self.path

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return path_identity(self._process_state[1], f"{self.path}/{prefix}")

    def _values_at(self) -> tuple[Any, ...]:
        return self._process_state[1], self.path

    def __repr__(self) -> str:
        protocol = self._process_state[1].protocol
        name = protocol if isinstance(protocol, str) else protocol[0]
        return redact_urls(self.path) if "://" in self.path else f"{name}://{self.path}"

    # Requests

    def _path(self, key: str) -> str:
        return self._top(check_key(key))

    def _top(self, prefix: str) -> str:
        inside = quote(prefix) if self._in_urls else prefix
        return f"{self._start}{inside}".rstrip("/") or self._start

    def _key(self, path: str) -> str:
        key = path[len(self.path) :].lstrip("/")
        return unquote(key) if self._in_urls else key

    def _call(
        self,
        verb: str,
        key: str,
        request: Callable[[], T],
        absent: Any = ...,
        *,
        sent_bytes: int = 0,
    ) -> T:
        def attempt() -> T:
            try:
                with self._in_process()[2]:
                    return tracing.answer(self, f"{verb} {key!r}", request, sent_bytes)
            except self.allowed_exceptions as e:
                if absent is ...:
                    raise StoreError(_reason(e)) from e
                return absent  # type: ignore[no-any-return]  # of the caller's type
            except (ConnectionError, TimeoutError) as e:
                raise TransientError(_reason(e)) from e
            except Exception as e:  # file systems do not document what they raise
                raise StoreError(_reason(e)) from e

        try:
            return self.retry.call(attempt, store=self)
        except StoreError as e:
            raise StoreError(f"cannot {verb} {key!r} in {self!r}: {e}") from e.__cause__


def path_identity(fs: Any, path: str) -> identity.StorageIdentity:
    """Return the identity of the storage behind a path of a file system of fsspec."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
    if hasattr(fs, "fs") and "dir" in names:
        return path_identity(fs.fs, f"{fs.path}/{path}")
    plain = str(fs._strip_protocol(path))
    if "file" in names or "local" in names:
        return identity.directory(plain)
    if "memory" in names:  # shared by the whole process, and by no other
        values = identity.ObjectIdentity(getattr(fs, "store", fs))
        return identity.inside(("fsspec", "memory", values), plain)
    cloud = next((kind for kind in ("s3", "gs") if kind in names), None)
    if cloud is not None:
        options = {**(getattr(fs, "client_kwargs", None) or {})}
        endpoint = getattr(fs, "endpoint_url", None) or options.get("endpoint_url") or ""
        name, _, rest = plain.strip("/").partition("/")
        return identity.bucket(cloud, endpoint, name, rest)
    return identity.inside(("fsspec", type(fs).__qualname__, fs), plain)


def _blocking(fs: Any) -> Any:
    """Return a file system with blocking calls, also for one with ``asynchronous=True``."""
    if not getattr(fs, "asynchronous", False):
        return fs
    inner = getattr(fs, "sync_fs", None)  # zarr-python wraps some file systems
    if inner is not None:
        return inner
    return type(fs)(*fs.storage_args, **{**fs.storage_options, "asynchronous": False})


def _lock(fs: Any) -> AbstractContextManager[Any]:
    return nullcontext() if getattr(fs, "async_impl", False) else fork.lock()


def _reason(error: Exception) -> str:
    text = redact_urls(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
