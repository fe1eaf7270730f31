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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from omnizarr import config
from omnizarr.errors import InvalidArgument, NodeNotFound, StoreError, TargetError
from omnizarr.stores import base, identity, operations
from omnizarr.stores.base import Names, Range, Requests, Store, Values, redact_url, value_digest
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import NeverWritten, check_key, check_prefix, is_key
from omnizarr.stores.references import PREFIX, SCHEME, document
from omnizarr.stores.references.document import Document, ParquetReferences, ReferenceTarget
from omnizarr.stores.resolve import resolve
from omnizarr.stores.wrappers import close_store

_ALIASES = {"s3a": "s3", "gcs": "gs", "local": "file"}
# Stores that are files or chains themselves: no part of them is a target.
_NOT_FILES = {"zip", "sqlite", "lmdb", "redis", "rediss", "unix", "reference", "simplecache",
              "filecache", "blockcache", "data", "icechunk"}  # fmt: skip
T = TypeVar("T")


class TargetPlace(NamedTuple):
    """A file: its server and the key there, or its real path on the local disk."""

    scheme: str
    server: str
    key: str
    query: str = ""
    login: str = ""  # of a web server

    @classmethod
    def of(cls, url: str) -> TargetPlace:
        """Parse a path or URL; only web URLs have a query, other names may be anything."""
        scheme = _scheme(url)
        if scheme == "file":
            path = os.path.realpath(_file_path(url) if SCHEME.match(url) else url)
            return cls(scheme, "", path.replace(os.sep, "/").rstrip("/"))
        if scheme in ("http", "https"):
            parts = urlsplit(url)
            login, _, host = parts.netloc.rpartition("@")
            return cls(scheme, host.lower(), unquote(parts.path).strip("/"), parts.query, login)
        server, _, key = url.partition("://")[2].partition("/")
        return cls(scheme, server, key.strip("/"))

    def contains(self, other: TargetPlace) -> bool:
        """Return True if the other place is this one or below it."""
        if self.scheme != other.scheme or (self.server and self.server != other.server):
            return False
        return not self.key or other.key == self.key or other.key.startswith(f"{self.key}/")


def _scheme(url: str) -> str:
    match = SCHEME.match(url)
    scheme = "file" if match is None else match[1].lower()
    return _ALIASES.get(scheme, scheme)


def _file_path(url: str) -> str:
    """Return the path of a URL of a file; writers may or may not have quoted it."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise TargetError(f"the target {url!r} is on another host")
        rest = slash + path
    if not os.path.isabs(rest):
        raise TargetError(f"the target {url!r} is not the full path of a file")
    return unquote(rest) if "%" in rest and not os.path.lexists(rest) else rest


class _TargetFolder(LocalStore):
    """The real folder of targets; symbolic links in place of files are not followed."""

    _flags = LocalStore._flags | getattr(os, "O_NOFOLLOW", 0)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_versioned(key, range)[0]

    def get_many(self, requests: Requests) -> Values:
        return [self.get(key, range) for key, range in requests]


class Targets:
    """The stores of the targets of one set of references.

    Relative targets are below `folder`: the path of a directory, or a URL with the store of files.
    """

    def __init__(
        self,
        folder: str | None,
        store: Store | None = None,
        *,
        allow: tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._where, self._allow = folder, allow
        self._home = None if folder is None else TargetPlace.of(folder)
        self._home_store = None if store is None else self._with_consent(store)
        for scheme, given in (options or {}).items():
            if not isinstance(given, Mapping):
                raise InvalidArgument(
                    "remote_options are the storage options of targets by scheme, such as"
                    f" {{'s3': {{'anonymous': True}}}}; got {given!r} for {scheme!r}"
                )
        self._options = {_ALIASES.get(s.lower(), s.lower()): o for s, o in (options or {}).items()}
        self._stores: dict[TargetPlace, Store] = {}  # of servers and local folders

    def locate(self, url: str, key: str) -> tuple[Store, str]:
        """Return the store of the target of the reference `key`, and its key there, or raise."""
        place, home = self._place(url, key), self._home
        at_home = home is not None and home.contains(place) and home[3:] == place[3:]
        if home is not None and self._home_store is not None and at_home:
            return self._home_store, place.key[len(home.key) :].lstrip("/")
        if not at_home and not self._is_allowed(place):
            raise self._refused(url, f"the reference {key!r} leads", place)
        folder, name = "", place.key
        if place.scheme == "file":
            folder, _, name = place.key.rpartition("/")
        where = place._replace(key=folder)
        if where not in self._stores:
            self._stores[where] = self._connect(where)
        return self._stores[where], name

    def _place(self, url: str, key: str) -> TargetPlace:
        """Return the place that the target of a reference names, relative to the references."""
        if "\0" in url or "::" in url:
            raise TargetError(
                f"the target {url!r} of {key!r} is a chain of URLs or has a NUL; neither is read"
            )
        scheme, has_scheme, home = _scheme(url), SCHEME.match(url) is not None, self._home
        if has_scheme and scheme != "file" and (scheme in _NOT_FILES or "://" not in url):
            raise TargetError(f"the target {shown_url(url)!r} of {key!r} is no URL of a file")
        relative = not has_scheme and not os.path.isabs(url)
        if relative and home is None:
            raise TargetError(
                f"the target {url!r} of {key!r} is relative to a file of references, and"
                " these are in memory; use absolute paths or URLs"
            )
        if relative and home is not None and home.scheme != "file":
            place = home._replace(key=posixpath.normpath(f"{home.key}/{url}").lstrip("/"))
        else:
            place = TargetPlace.of(f"{home.key}/{url}" if relative and home is not None else url)
        if not is_key(place.key.removeprefix("/" if place.scheme == "file" else "")):
            raise TargetError(f"the target {shown_url(url)!r} of {key!r} has an empty or '..' part")
        return place

    def _is_allowed(self, place: TargetPlace) -> bool:
        allowed = (*self._allow, *config.get().allow_targets)
        places = map(TargetPlace.of, allowed)
        return config.ANY_TARGET in allowed or any(each.contains(place) for each in places)

    def _check_redirect(self, url: str) -> None:
        place = TargetPlace.of(url)
        inside = self._home is not None and self._home.contains(place) and is_key(place.key)
        if not inside and not self._is_allowed(place):
            raise self._refused(url, "the server redirects", place)

    def _with_consent(self, store: Store) -> Store:
        """Return a store whose redirects need the same consent as targets."""
        if isinstance(store, HTTPStore):
            return store.checking_redirects(self._check_redirect)
        return store

    def _connect(self, place: TargetPlace) -> Store:
        if place.scheme == "file":
            return _TargetFolder(place.key or os.sep, read_only=True)
        host = f"{place.login}@{place.server}" if place.login else place.server
        root = f"{place.scheme}://{host}/" + (f"?{place.query}" if place.query else "")
        options = self._options.get(place.scheme)
        return self._with_consent(resolve(root, read_only=True, storage_options=options))

    def _refused(self, url: str, what: str, place: TargetPlace) -> TargetError:
        where = "" if self._where is None else f", outside {shown_url(self._where)!r}"
        allow = f"{place.scheme}://{place.server}"
        if place.scheme == "file":
            allow = os.path.dirname(place.key)
        elif ":" in place.server.rpartition("@")[0]:  # a password
            allow = redact_url(allow)
        return TargetError(
            f"{what} to {shown_url(url)!r}{where}, which is read only"
            f" with your consent: storage_options={{'allow_targets': [{allow!r}]}}, or"
            f" omnizarr.configure(allow_targets=[{allow!r}])"
        )

    def close(self) -> None:
        """Close the stores of servers; they can still be used."""
        for store in (*self._stores.values(), self._home_store):
            close_store(store)


def shown_url(text: str) -> str:
    """Return a path, or a URL without its secrets."""
    return redact_url(text) if "://" in text else text


class ReferenceStore(NeverWritten, base.ListedStore):
    """The keys of kerchunk references.

    `references` is the path or URL of a JSON file, or of a folder of Parquet files, or a dictionary
    as kerchunk makes it. Targets in the folder of the file and below it are read; others only if
    they are below one of the folders and URLs in `allow_targets`; True allows any. Relative targets
    start at the folder. `remote_options` are the storage options of targets by scheme, ``{"s3":
    {"anonymous": True}}``; `storage_options` apply to the references themselves.
    """

    traits = base.Traits(
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
            where = "".join(base.split_path(where))
        if "://" not in where:
            if options:
                raise StoreError(f"storage_options {sorted(options)} are for URLs, got {where!r}")
            self._path = where = base.absolute_path(where)
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
        if not name.lower().endswith(".json"):
            data = store.get(f"{name}/{document.ZMETADATA}")
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
                rows.setdefault(id(store), (store, []))[1].append(
                    (number, at, found, found.part(part))
                )
        for store, wanted in rows.values():
            with _reading_target():
                fetched = operations.get_many(store, [(at, part) for _, at, _, part in wanted])
            for (number, at, found, part), data in zip(wanted, fetched, strict=True):
                values[number] = _checked(asked[number][0], store, at, found, part, data)
        return values

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for key in map(check_key, keys):
            reference = self._references.find(key)
            if isinstance(reference, bytes):
                found[key] = len(reference)
            elif reference is not None and reference.span is not None:
                found[key] = reference.span.length or 0
            elif reference is not None:
                store, at = self._targets.locate(reference.url, key)
                with _reading_target():
                    known = operations.sizes(store, [at]).get(at)
                found[key] = _checked(key, store, at, reference, None, known)
        return found

    def generation(self, key: str) -> str | None:
        return self.get_versioned(key, Range(0, 0))[1]

    def get_versioned(self, key: str, range: Range | None = None) -> base.VersionedValue:
        reference = self._references.find(check_key(key))
        if not isinstance(reference, ReferenceTarget):
            value = reference if reference is None or range is None else range.of(reference)
            return value, value_digest(reference)
        store, at = self._targets.locate(reference.url, key)
        part, found = reference.part(range), None
        with _reading_target():
            if isinstance(store, base.Versioned):
                data, found = store.get_versioned(at, part)
            else:
                data = store.get(at, part)
        return _checked(key, store, at, reference, part, data), reference.generation(found)

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        yield from self._references.keys_below(prefix)

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        return self._references.list_dir(prefix)

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


def _checked(
    key: str, store: Store, at: str, target: ReferenceTarget, part: Range | None, found: T | None
) -> T:
    """Return the facts about a target; raise if it is missing or too short."""
    if found is None:
        raise TargetError(
            f"the target {at!r} in {store!r} of the reference {key!r} does not exist; it was moved"
            " or deleted, or the reference is wrong"
        )
    wanted = None if target.span is None or part is None else part.length
    if isinstance(found, bytes) and wanted is not None and len(found) != wanted:
        raise TargetError(
            f"the target {at!r} in {store!r} of the reference {key!r} has only {len(found)} of"
            f" {wanted} bytes there; it has changed, or the reference is wrong"
        )
    return found
