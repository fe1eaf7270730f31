"""Objects of obstore that are no bucket of a cloud: directories, web servers and memory.

Directories and web servers become the stores that this package has for them, which know more of
them than obstore does. Memory stays where it is, in the object.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from omnizarr.errors import StoreError
from omnizarr.stores import identity
from omnizarr.stores.bucket import Bucket
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.local import LocalStore
from omnizarr.stores.retry import Retry
from omnizarr.stores.store import Store

# Options of a client that `Retry` has an own one for, or that need nothing here.
_CLIENT = {"default_headers", "timeout", "connect_timeout", "allow_http", "user_agent"}


def own_store(
    given: Any,
    prefix: str,
    read_only: bool,
    retry: Retry | None,
    absent_status: Collection[int],
) -> Store | None:
    """Return the store of this package for a directory or a web server; None for others."""
    if not type(given).__module__.startswith("obstore"):
        return None
    inside = prefix.strip("/")
    match type(given).__name__:
        case "LocalStore":
            root = os.path.join(given.prefix or os.sep, inside)
            return LocalStore(root, read_only=read_only)
        case "HTTPStore":
            url = f"{given.url.rstrip('/')}/{inside}".rstrip("/")
            headers = _headers(given, url)
            return HTTPStore(url, headers=headers, retry=retry, absent_status=absent_status)
    return None


def _headers(given: Any, url: str) -> dict[str, str]:
    options = dict(given.client_options or {})
    unknown = sorted(options.keys() - _CLIENT)
    if unknown:
        raise StoreError(
            f"client_options {unknown} of the HTTPStore of obstore for {url!r} cannot be kept; give"
            " the URL itself, with storage_options"
        )
    headers = {
        str(name): value.decode() if isinstance(value, bytes) else str(value)
        for name, value in dict(options.get("default_headers") or {}).items()
    }
    agent = options.get("user_agent")
    return headers if agent is None else {"User-Agent": str(agent), **headers}


@dataclass(frozen=True, eq=False)
class MemoryBucket(Bucket):
    """The memory that an object of obstore holds, and that nothing else can reach."""

    given: Any = None
    _process: int = field(default_factory=os.getpid)

    @classmethod
    def around(cls, given: Any) -> MemoryBucket:
        return cls("memory", f"obstore-{id(given):x}", given=given)

    @property
    def client(self) -> Any:
        """The object itself; its threads are those of the process that made it."""
        if self._process != os.getpid():
            raise StoreError(
                f"{self} is memory of the process that this one was forked from; use"
                " omnizarr.MemoryStore, or multiprocessing with 'spawn'"
            )
        return self.given

    def sent(self, value: memoryview | bytes) -> bytes:
        """Return a copy: the object keeps what it is given, which others may change later."""
        return bytes(value)

    def place(self, path: str) -> identity.Place:
        """Return where a path is: in this object and no other."""
        return identity.inside(("memory", identity.Identity(self.given)), path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryBucket) and other.given is self.given

    def __hash__(self) -> int:
        return id(self.given)

    def __reduce__(self) -> Any:
        raise StoreError(f"{self} is memory of this process and cannot be pickled")
