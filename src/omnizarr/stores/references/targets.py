"""The files that references lead to, and which of them may be read.

A file of references may be anybody's, and can name any file that its reader may read. So targets
are read without being asked only from the folder of the references, or below it: the real folder,
whatever links and ``..`` the names have. Any other place has to be allowed by the user.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from omnizarr import config
from omnizarr.errors import InvalidArgument, TargetError
from omnizarr.stores.base import Store, redact_url
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import is_key
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
        """Read a URL; that of a web page has a query, others have names with any character."""
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
        self.folder, self._store = folder, store
        self._allow = allow
        self._options = _checked_options(options)
        self._stores: dict[TargetPlace | str, Store] = {}  # also of local folders
        self._own: Store | None = None  # of the folder

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
        """Return a target without a scheme: in the folder of the references, or a local file."""
        if self._store is None or os.path.isabs(path):
            if self.folder is None and not os.path.isabs(path):
                raise TargetError(
                    f"the target {path!r} of {key!r} is relative to a file of references, and"
                    " these are in memory; use absolute paths or URLs"
                )
            folder = self.folder if self._store is None else None
            return self._local(os.path.join(folder or "", path), path, key)
        home = TargetPlace.of(self.folder or "")
        name = posixpath.normpath(f"{home.key}/{path}").lstrip("/")
        return self._remote(home._replace(key=name), path, key)

    def _local(self, path: str, url: str, key: str) -> tuple[Store, str]:
        real = os.path.realpath(path)
        places = [] if self.folder is None or self._store is not None else [self.folder]
        places += [p for p in self._allowed() if _SCHEME.match(p) is None]
        places += [_file_path(p, key) for p in self._allowed() if p.startswith("file:")]
        if config.ANY_TARGET not in places and not any(_is_below(real, place) for place in places):
            raise self._refused(url, f"the reference {key!r} leads", os.path.dirname(real))
        folder, name = os.path.split(real)
        if not name:
            raise TargetError(f"the target {url!r} of {key!r} is a folder, not a file")
        return self._known(folder, lambda: LocalStore(folder, read_only=True)), name

    def _remote(self, place: TargetPlace, url: str, key: str) -> tuple[Store, str]:
        if not is_key(place.key):
            raise TargetError(f"the target {shown_url(url)!r} of {key!r} has an empty or '..' part")
        if self._store is not None and self.folder is not None:
            home = TargetPlace.of(self.folder)
            if home.contains(place) and home[3:] == place[3:]:
                return self._home(self._store), place.key[len(home.key) :].lstrip("/")
        if not self._is_allowed(place):
            raise self._refused(url, f"the reference {key!r} leads", _server_url(place))
        return self._server(place), place.key

    def _is_allowed(self, place: TargetPlace) -> bool:
        allowed = self._allowed()
        urls = (TargetPlace.of(p) for p in allowed if "://" in p)
        return config.ANY_TARGET in allowed or any(p.contains(place) for p in urls)

    def _check_redirect(self, url: str) -> None:
        """Raise if a URL that a server redirects to is none that a reference might name."""
        place = TargetPlace.of(url)
        home = TargetPlace.of(self.folder) if self._store is not None and self.folder else None
        inside = home is not None and home.contains(place) and is_key(place.key)
        if not inside and not self._is_allowed(place):
            raise self._refused(url, "the server redirects", _server_url(place))

    def _home(self, store: Store) -> Store:
        """Return the store of the folder of the references, for targets in it."""
        if self._own is None:
            self._own = self._with_consent(store)
        return self._own

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
        where = "" if self.folder is None else f", outside {shown_url(self.folder)!r}"
        return TargetError(
            f"{what} to {shown_url(url)!r}{where}, which is read only"
            f" with your consent: storage_options={{'allow_targets': [{place!r}]}}, or"
            f" omnizarr.configure(allow_targets=[{place!r}])"
        )

    def close(self) -> None:
        """Close the stores of servers."""
        stores = [*self._stores.values(), *([] if self._own is None else [self._own])]
        self._stores, self._own = {}, None
        for store in stores:
            close_store(store)


def _server_url(place: TargetPlace) -> str:
    """Return the URL of a server without a password."""
    url = f"{place.scheme}://{place.server}"
    return redact_url(url) if ":" in place.server.rpartition("@")[0] else url


def shown_url(text: str) -> str:
    """Return a path, or a URL without its secrets."""
    return redact_url(text) if "://" in text else text


def _checked_options(options: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, Any]]:
    for scheme, given in (options or {}).items():
        if not isinstance(given, Mapping):
            raise InvalidArgument(
                "remote_options are the storage options of targets by scheme, such as"
                f" {{'s3': {{'anonymous': True}}}}; got {given!r} for {scheme!r}"
            )
    return {_ALIASES.get(s.lower(), s.lower()): given for s, given in (options or {}).items()}


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


def _is_below(real: str, folder: str) -> bool:
    top = os.path.realpath(folder)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)
