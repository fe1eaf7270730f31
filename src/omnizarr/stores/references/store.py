"""Kerchunk references as a read-only store: JSON files, and folders of Parquet files.

Values are in the references themselves, or are parts of other files, which are read from the local
disk or through the stores of their URLs. A file of references may be anybody's, and can name any
file that its reader may read. So targets are read without being asked only from the folder of the
references, or below it: the real folder, whatever links and ``..`` the names have. Any other place
has to be allowed by the user.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from omnizarr import config
from omnizarr.errors import InvalidArgument, NodeNotFound, StoreError, TargetError
from omnizarr.stores import identity, operations
from omnizarr.stores.base import (
    Bytes,
    Closeable,
    Names,
    Range,
    Requests,
    Store,
    Traits,
    Values,
    Versioned,
    absolute_path,
    redact_url,
    split_path,
    value_digest,
)
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import check_key, check_prefix, check_writable, is_key
from omnizarr.stores.references import PREFIX
from omnizarr.stores.references.document import (
    ZMETADATA,
    Document,
    ParquetReferences,
    ReferenceTarget,
)
from omnizarr.stores.resolve import resolve
from omnizarr.stores.wrappers import close_store

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")  # one letter is a Windows drive
_WEB = ("http", "https")
_ALIASES = {"s3a": "s3", "gcs": "gs", "local": "file"}
# Stores that are files or chains themselves: no part of them is a target.
_NOT_FILES = {"zip", "sqlite", "lmdb", "redis", "rediss", "unix", "reference", "simplecache",
              "filecache", "blockcache", "data", "icechunk"}  # fmt: skip
_MAX_STORES = 64


class TargetPlace(NamedTuple):
    """A file on a server: the store of the server, and the key there."""

    scheme: str
    server: str
    key: str
    query: str = ""
    login: str = ""  # of a web server

    @classmethod
    def of(cls, url: str) -> TargetPlace:
        """Parse a URL; only web URLs have a query, other names may contain any character."""
        scheme, _, rest = url.partition("://")
        scheme = scheme.lower()
        scheme = _ALIASES.get(scheme, scheme)
        if scheme in _WEB:
            parts = urlsplit(url)
            login, _, host = parts.netloc.rpartition("@")
            key = unquote(parts.path).strip("/")
            return cls(scheme, host.lower(), key, parts.query, login)
        server, _, key = rest.partition("/")
        return cls(scheme, server, key.strip("/"))

    def contains(self, other: TargetPlace) -> bool:
        """Return True if the other place is this one or below it."""
        if self.scheme != other.scheme or (self.server and self.server != other.server):
            return False
        return not self.key or other.key == self.key or other.key.startswith(f"{self.key}/")


class _TargetFolder(LocalStore):
    """The real folder of targets; symbolic links in place of files are not followed."""

    _flags = LocalStore._flags | getattr(os, "O_NOFOLLOW", 0)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_versioned(key, range)[0]

    def get_many(self, requests: Requests) -> Values:
        return [self.get(key, range) for key, range in requests]


class Targets:
    """The stores of the targets of one set of references.

    `folder` is where the references are: the path of a directory, or a URL with the store of its
    files. Relative targets are below it.
    """

    def __init__(
        self,
        folder: str | None,
        store: Store | None = None,
        *,
        allow: tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._local_folder = folder if store is None else None
        self._where = folder
        self._home = None if store is None else TargetPlace.of(folder or "")
        self._home_store = None if store is None else self._with_consent(store)
        self._allow = allow
        for scheme, given in (options or {}).items():
            if not isinstance(given, Mapping):
                raise InvalidArgument(
                    "remote_options are the storage options of targets by scheme, such as"
                    f" {{'s3': {{'anonymous': True}}}}; got {given!r} for {scheme!r}"
                )
        self._options = {_ALIASES.get(s.lower(), s.lower()): o for s, o in (options or {}).items()}
        self._stores: dict[TargetPlace | str, Store] = {}  # also of local folders

    def locate(self, url: str, key: str) -> tuple[Store, str]:
        """Return the store of a target, and its key there; raise if it may not be read.

        `key` is that of the reference, for messages.
        """
        if "\0" in url or "::" in url:
            raise TargetError(
                f"the target {url!r} of {key!r} is a chain of URLs or has a NUL; neither is read"
            )
        match = _SCHEME.match(url)
        if match is None:
            return self._relative(url, key)
        scheme = _ALIASES.get(match[1].lower(), match[1].lower())
        if scheme == "file":
            return self._local(_file_path(url, key), url, key)
        if scheme in _NOT_FILES or "://" not in url:
            raise TargetError(f"the target {shown_url(url)!r} of {key!r} is no URL of a file")
        return self._remote(TargetPlace.of(url), url, key)

    def _relative(self, path: str, key: str) -> tuple[Store, str]:
        """Locate a target without a scheme: in the folder of the references, or a local file."""
        if self._home is not None and not os.path.isabs(path):
            name = posixpath.normpath(f"{self._home.key}/{path}").lstrip("/")
            return self._remote(self._home._replace(key=name), path, key)
        if self._local_folder is None and not os.path.isabs(path):
            raise TargetError(
                f"the target {path!r} of {key!r} is relative to a file of references, and"
                " these are in memory; use absolute paths or URLs"
            )
        return self._local(os.path.join(self._local_folder or "", path), path, key)

    def _local(self, path: str, url: str, key: str) -> tuple[Store, str]:
        real, allowed = os.path.realpath(path), self._allowed()
        places = [] if self._local_folder is None else [self._local_folder]
        places += [p for p in allowed if _SCHEME.match(p) is None]
        places += [_file_path(p, key) for p in allowed if p.startswith("file:")]
        tops = [os.path.realpath(place).rstrip(os.sep) + os.sep for place in places]
        if config.ANY_TARGET not in places and not any(
            f"{real}{os.sep}".startswith(t) for t in tops
        ):
            raise self._refused(url, f"the reference {key!r} leads", os.path.dirname(real))
        folder, name = os.path.split(real)
        if not name:
            raise TargetError(f"the target {url!r} of {key!r} is a folder, not a file")
        return self._known(folder, lambda: _TargetFolder(folder, read_only=True)), name

    def _remote(self, place: TargetPlace, url: str, key: str) -> tuple[Store, str]:
        if not is_key(place.key):
            raise TargetError(f"the target {shown_url(url)!r} of {key!r} has an empty or '..' part")
        home, store = self._home, self._home_store
        own = home is not None and home.contains(place) and home[3:] == place[3:]
        if store is not None and home is not None and own:
            return store, place.key[len(home.key) :].lstrip("/")
        if not self._is_allowed(place):
            raise self._refused(url, f"the reference {key!r} leads", _server_url(place))
        return self._server(place), place.key

    def _is_allowed(self, place: TargetPlace) -> bool:
        allowed = self._allowed()
        urls = (TargetPlace.of(p) for p in allowed if "://" in p)
        return config.ANY_TARGET in allowed or any(p.contains(place) for p in urls)

    def _check_redirect(self, url: str) -> None:
        """Raise if a server redirects to a URL that a reference may not name."""
        place = TargetPlace.of(url)
        inside = self._home is not None and self._home.contains(place) and is_key(place.key)
        if not inside and not self._is_allowed(place):
            raise self._refused(url, "the server redirects", _server_url(place))

    def _with_consent(self, store: Store) -> Store:
        """Return a store whose redirects need the same consent as targets."""
        if isinstance(store, HTTPStore):
            return store.checking_redirects(self._check_redirect)
        return store

    def _server(self, place: TargetPlace) -> Store:
        def connect() -> Store:
            host = f"{place.login}@{place.server}" if place.login else place.server
            root = f"{place.scheme}://{host}/" + (f"?{place.query}" if place.query else "")
            options = self._options.get(place.scheme)
            return self._with_consent(resolve(root, read_only=True, storage_options=options))

        return self._known(place._replace(key=""), connect)

    def _known(self, where: TargetPlace | str, make: Callable[[], Store]) -> Store:
        """Return the store of a server or folder, the same one each time."""
        known = self._stores.get(where)
        if known is None:
            if len(self._stores) >= _MAX_STORES:
                self._stores = {}  # others may be using them
            known = self._stores[where] = make()
        return known

    def _allowed(self) -> tuple[str, ...]:
        return (*self._allow, *config.get().allow_targets)

    def _refused(self, url: str, what: str, place: str) -> TargetError:
        where = "" if self._where is None else f", outside {shown_url(self._where)!r}"
        return TargetError(
            f"{what} to {shown_url(url)!r}{where}, which is read only"
            f" with your consent: storage_options={{'allow_targets': [{place!r}]}}, or"
            f" omnizarr.configure(allow_targets=[{place!r}])"
        )

    def close(self) -> None:
        """Close the stores of servers; they can still be used."""
        for store in (*self._stores.values(), self._home_store):
            close_store(store)


def _server_url(place: TargetPlace) -> str:
    """Return the URL of a server without a password."""
    url = f"{place.scheme}://{place.server}"
    return redact_url(url) if ":" in place.server.rpartition("@")[0] else url


def shown_url(text: str) -> str:
    """Return a path, or a URL without its secrets."""
    return redact_url(text) if "://" in text else text


def _file_path(url: str, key: str) -> str:
    """Return the path of a URL of a file; writers may or may not have quoted it."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise TargetError(f"the target {url!r} of {key!r} is on another host")
        rest = slash + path
    if not os.path.isabs(rest):
        raise TargetError(f"the target {url!r} of {key!r} is not the full path of a file")
    return unquote(rest) if "%" in rest and not os.path.lexists(rest) else rest


class ReferenceStore(Closeable):
    """The keys of kerchunk references.

    `references` is the path or URL of a JSON file, or of a folder of Parquet files, or a dictionary
    as kerchunk makes it. Targets in the folder of the file and below it are read; others only if
    they are below one of the folders and URLs in `allow_targets`; True allows any. Relative targets
    are those of the folder. `remote_options` are the storage options of targets by scheme,
    ``{"s3": {"anonymous": True}}``, and `storage_options` those of the references themselves.
    """

    read_only = True
    traits = Traits(
        to_write="copy the data: omnizarr convert REFERENCES NEW.zarr; references are never written"
    )

    def __init__(
        self,
        references: str | os.PathLike[str] | Mapping[str, Any],
        *,
        allow_targets: Any = (),
        remote_options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._given = {
            "references": references,
            "allow_targets": allow_targets,
            "remote_options": remote_options,
            "storage_options": storage_options,
        }
        self._path: str | None = None
        if isinstance(references, Mapping):
            self._name, folder, store = "in memory", None, None
            self._references: Document | ParquetReferences = Document(references, self._name)
        else:
            folder, store = self._open(os.fspath(references), storage_options)
        allow = config.target_places(allow_targets)
        self._targets = Targets(folder, store, allow=allow, options=remote_options)

    def _open(self, where: str, options: Mapping[str, Any] | None) -> tuple[str, Store | None]:
        """Read the references; return the folder that they are in, and its store if it is a URL."""
        where = where.removeprefix(PREFIX).rstrip("/")
        query = ""
        if where.startswith("file:"):
            where = "".join(split_path(where))
        if "://" not in where:
            if options:
                raise StoreError(f"storage_options {sorted(options)} are for URLs, got {where!r}")
            self._path = where = absolute_path(where)
            folder, _, name = where.rpartition(os.sep)
            store: Store = LocalStore(folder or os.sep, read_only=True)
        else:
            if where.startswith(("http://", "https://")):
                where, question, query = where.partition("?")
                query = question + query
            folder, _, name = where.rpartition("/")
            store = resolve(folder + query, read_only=True, storage_options=options)
        self._name = shown_url(where)
        self._references = self._read(store, name)
        return folder + query, store if self._path is None else None

    def _read(self, store: Store, name: str) -> Document | ParquetReferences:
        if not name:
            raise StoreError(f"{self._name!r} is not the name of a file of references")
        if not name.lower().endswith(".json"):
            data = store.get(f"{name}/{ZMETADATA}")
            if data is not None:
                return ParquetReferences(store, f"{name}/", self._name, data)
        data = store.get(name)
        if data is None:
            raise NodeNotFound(f"there are no references at {self._name!r}")
        return Document.read(data, self._name)

    @classmethod
    def from_path(
        cls, where: str, storage_options: Mapping[str, Any] | None = None
    ) -> ReferenceStore:
        """Return the store of a path or URL; `storage_options` include the options of targets."""
        options = dict(storage_options or {})
        own = {k: options.pop(k) for k in ("allow_targets", "remote_options") if k in options}
        return cls(where, storage_options=options, **own)

    # Reading: a target that does not exist, or is too short, is an error, since its key exists

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Requests) -> Values:
        asked = [(check_key(key), part) for key, part in requests]
        values: Values = [None] * len(asked)
        rows: dict[int, tuple[Store, list[Any]]] = {}
        for number, (key, part) in enumerate(asked):
            found = self._references.find(key)
            if isinstance(found, bytes):
                values[number] = found if part is None else part.of(found)
            elif found is not None:
                store, at = self._targets.locate(found.url, key)
                row = number, at, _part(found, part), found
                rows.setdefault(id(store), (store, []))[1].append(row)
        for store, wanted in rows.values():
            with _reading_target():
                fetched = operations.get_many(store, [(at, part) for _, at, part, _ in wanted])
            for (number, at, part, found), data in zip(wanted, fetched, strict=True):
                values[number] = _checked(asked[number][0], found, store, at, part, data)
        return values

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for key in map(check_key, keys):
            reference = self._references.find(key)
            if isinstance(reference, bytes):
                found[key] = len(reference)
            elif reference is not None:
                found[key] = self._size(key, reference)
        return found

    def _size(self, key: str, target: ReferenceTarget) -> int:
        if target.span is not None and target.span.length is not None:
            return target.span.length
        store, at = self._targets.locate(target.url, key)
        with _reading_target():
            known = operations.sizes(store, [at]).get(at)
        if known is None:
            raise _missing(key, store, at)
        return known

    def generation(self, key: str) -> str | None:
        reference = self._references.find(check_key(key))
        if not isinstance(reference, ReferenceTarget):
            return value_digest(reference)
        store, at = self._targets.locate(reference.url, key)
        with _reading_target():
            found = store.generation(at) if isinstance(store, Versioned) else None
        return _generation(reference, found)

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        reference = self._references.find(check_key(key))
        if not isinstance(reference, ReferenceTarget):
            value = reference if reference is None or range is None else range.of(reference)
            return value, value_digest(reference)
        store, at = self._targets.locate(reference.url, key)
        part = _part(reference, range)
        with _reading_target():
            if isinstance(store, Versioned):
                data, found = store.get_versioned(at, part)
            else:
                data, found = store.get(at, part), None
        return _checked(key, reference, store, at, part, data), _generation(reference, found)

    # Listing

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        yield from self._references.keys_below(prefix)

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        return self._references.list_dir(prefix)

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)

    def erase(self, key: str) -> None:
        check_writable(self)

    # What it is

    def close(self) -> None:
        """Close the connections to targets."""
        self._targets.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._given), ()

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        if self._path is not None:
            return identity.file(self._path, prefix)
        first = ("references", identity.ObjectIdentity(self))
        return identity.inside(first, prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReferenceStore) and self._given == other._given

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"references {self._name}"


@contextmanager
def _reading_target() -> Iterator[None]:
    try:
        yield
    except TargetError:
        raise
    except StoreError as e:
        raise TargetError(str(e)) from e


def _part(target: ReferenceTarget, part: Range | None) -> Range | None:
    """Return the range of the target for a range of the value."""
    if target.span is None:
        return part
    return target.span if part is None else part.within(target.span)


def _checked(
    key: str, target: ReferenceTarget, store: Store, at: str, part: Range | None, data: bytes | None
) -> bytes:
    """Return the data read from a target; raise if it is missing or too short."""
    if data is None:
        raise _missing(key, store, at)
    wanted = None if target.span is None or part is None else part.length
    if wanted is not None and len(data) != wanted:
        raise TargetError(
            f"the target {at!r} in {store!r} of the reference {key!r} has only {len(data)} of"
            f" {wanted} bytes there; it has changed, or the reference is wrong"
        )
    return data


def _missing(key: str, store: Store, at: str) -> TargetError:
    return TargetError(
        f"the target {at!r} in {store!r} of the reference {key!r} does not exist; it was moved or"
        " deleted, or the reference is wrong"
    )


def _generation(target: ReferenceTarget, found: str | None) -> str | None:
    if found is None:
        return None
    span = target.span
    return value_digest(repr((found, span and (span.start, span.length))).encode())
