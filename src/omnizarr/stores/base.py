"""The store interface: bytes at keys, as small protocols; and URLs in messages.

The smallest store has `get`, `set` and `erase`. Everything else is an ability that a store may
have, found by the presence of a method; the free functions of `stores.abilities` use it or fall
back. Names and meaning follow the abstract store interface of the version 3 draft.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, overload, runtime_checkable
from urllib.parse import unquote, urlsplit, urlunsplit

from omnizarr import registry
from omnizarr.errors import StoreError

Bytes: TypeAlias = bytes | bytearray | memoryview
B = TypeVar("B", bytes, memoryview)
Kind: TypeAlias = Literal["chunks", "documents", "copies", "shape", "replace"]  # what a lock is for


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a value: `length` bytes from `start`; None means to the end.

    A negative `start` counts from the end; a negative `length` is an error.
    """

    start: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 0:
            raise StoreError(
                f"no part of a value has {self.length} bytes; give a length of at least 0, or None"
                " for all to the end"
            )

    def of(self, data: B) -> B:
        """That part of a whole value."""
        start = max(0, len(data) + self.start) if self.start < 0 else self.start
        return data[start:] if self.length is None else data[start : start + self.length]

    def within(self, span: Range) -> Range:
        """The same part, of a value that is itself the part `span` of a larger one."""
        size = span.length or 0
        start = max(0, size + self.start) if self.start < 0 else min(self.start, size)
        length = size - start if self.length is None else min(self.length, size - start)
        return Range(span.start + start, length)


@runtime_checkable
class Store(Protocol):
    """Bytes at keys. `get` answers None only for a key that is proven absent."""

    read_only: bool

    def get(self, key: str, range: Range | None = None) -> bytes | None: ...
    def set(self, key: str, value: Bytes) -> None: ...
    def erase(self, key: str) -> None: ...


@runtime_checkable
class GetsMany(Protocol):
    """Can fetch several values, or parts of them, in one go."""

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]: ...


GetMany: TypeAlias = Callable[[Iterable[tuple[str, Range | None]]], list[bytes | None]]


@runtime_checkable
class Holds(Protocol):
    """Can read a value in several steps as it was at the first, whoever replaces it meanwhile."""

    def holding(self) -> AbstractContextManager[GetMany]: ...


@runtime_checkable
class SetsMany(Protocol):
    """Can store several values in fewer steps than one by one."""

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None: ...


@runtime_checkable
class SetsNew(Protocol):
    """Can store a value only where there is none, whoever else tries at the same time."""

    def set_new(self, key: str, value: Bytes) -> bool:
        """Whether it was stored: no such key was there."""


@runtime_checkable
class SetsPartially(Protocol):
    """Can overwrite part of a value, from an offset of at least 0 on."""

    def set_partial(self, key: str, start: int, value: Bytes) -> None: ...


@runtime_checkable
class Versioned(Protocol):
    """Can tell one value of a key from another without fetching it.

    A generation is a text that differs whenever the value may differ (an ETag; a file's number,
    times and size). None means that there is no such key; of a store that is only read, it may
    also mean that a value is there and its server does not tell.
    """

    def generation(self, key: str) -> str | None: ...
    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]: ...


@runtime_checkable
class GetsManyVersioned(Protocol):
    """Can say of every part that it fetches which value it is of, without asking once more."""

    def get_many_versioned(
        self, requests: Iterable[tuple[str, Range | None]]
    ) -> list[tuple[bytes | None, str | None]]:
        """As `get_many`, each with its generation; None also where a server does not tell."""


@runtime_checkable
class TellsSizes(Protocol):
    """Can tell how long values are without fetching them."""

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Bytes of those values that are there, by key."""


@runtime_checkable
class SetsIf(Protocol):
    """Can store a value only if the key has had no other since: compare and replace."""

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        """Whether it was stored; generation None: only where there is no such key."""


@runtime_checkable
class Locks(Protocol):
    """Can keep other processes from changing some keys for a while."""

    def lock_keys(
        self, prefix: str, keys: Iterable[str], kind: Kind
    ) -> AbstractContextManager[None]:
        """Keys below a prefix, which is the array's or group's own whatever the store's root.

        Locks of different kinds never wait for each other: a thread that has one may take one
        of another kind, though none of the same.
        """


@runtime_checkable
class ChecksSpelling(Protocol):
    """Can tell that it takes a new key for one that differs in spelling only."""

    def check_spelling(self, key: str) -> None: ...


@runtime_checkable
class ErasesPrefix(Protocol):
    """Can remove all keys below a prefix at once."""

    def erase_prefix(self, prefix: str) -> None: ...


@runtime_checkable
class Inside(Protocol):
    """Can name the larger stores that it is a part of, the nearest first."""

    def around(self) -> Iterator[Store]: ...


class LowLatency(Protocol):
    """Answers a request so quickly that two requests cost little more than one."""

    low_latency: bool


class CheapRequests(Protocol):
    """Answers a request, or one for a generation, for the price of a system call at most.

    Nothing is gained by joining requests: there is no connection, lock or transaction.
    """

    cheap_requests: bool


class ProcessLocal(Protocol):
    """Keeps its values in the memory of this process, where no other process can change them."""

    process_local: bool


class KeepsFiles(Protocol):
    """Keeps every value in a file of its own, whose path below a directory is the key."""

    @property
    def file_root(self) -> Path: ...


class DirectFiles(Protocol):
    """Allows compiled code to read and atomically replace its files without calling the store.

    A class has to declare this itself: a subclass may do more than store files.
    """

    @property
    def direct_file_root(self) -> bytes:
        """The directory as the operating system names it, with a slash at the end."""


class DirectValues(Protocol):
    """Allows others to look up its values in a dictionary without calling the store.

    A class has to declare this itself: a subclass may do more than look up values.
    """

    @property
    def direct_values(self) -> MutableMapping[str, bytes]: ...


@runtime_checkable
class Lists(Protocol):
    """Can list all keys, in no particular order."""

    def list(self) -> Iterator[str]: ...


@runtime_checkable
class ListsPrefix(Protocol):
    """Can list the keys below a prefix."""

    def list_prefix(self, prefix: str) -> Iterator[str]: ...


@runtime_checkable
class ListsDir(Protocol):
    """Can list one level: the keys, and the prefixes (each ending in ``/``)."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]: ...


def flat(value: Bytes) -> bytes | memoryview:
    """The bytes of a value, without a copy; TypeError where it is no contiguous buffer."""
    if isinstance(value, bytes):
        return value
    view = memoryview(value)
    return view.cast("B") if view.nbytes else b""


@overload
def digest(value: None) -> None: ...
@overload
def digest(value: Bytes) -> str: ...
@overload
def digest(value: Bytes | None) -> str | None: ...
def digest(value: Bytes | None) -> str | None:
    """A generation for databases that keep none: a text that another value does not have."""
    return None if value is None else blake2b(value, digest_size=16).hexdigest()


_READ_ONLY = "omnizarr.stores.wrappers:ReadOnlyStore"


class Closes:
    """Has its `close` called when a ``with`` block ends."""

    def close(self) -> None:
        """Nothing is kept open that this store alone uses; other stores have this too."""

    # True where a copy of the object is another way to the same values.
    _can_be_copied = False

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return a store with the same values that can be changed, or only be read.

        One that was opened to be read only may have to be opened anew to be changed.
        """
        now = bool(getattr(self, "read_only", False))
        if self._can_be_copied:
            other = copy.copy(self)
            other.read_only = read_only  # type: ignore[attr-defined]  # stores have it
            return other
        if read_only == now:
            return self
        if read_only:
            return registry.load(_READ_ONLY)(self)
        raise StoreError(f"{self!r} was opened to be read only; open it anew to change it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>|]+")
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|head|body|title|script|meta|!--)", re.IGNORECASE)


def shown(url: str) -> str:
    """A URL without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "…" if parts.query else ""
    if not parts.netloc and parts.path.startswith("/"):
        return f"{parts.scheme}://{parts.path}" + (query and "?…")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def split_path(url: str) -> tuple[str, str]:
    """Return host and path of a URL that names a file or directory, both unquoted.

    Raise for a query or fragment: such URLs have none, so part of the name would be lost.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise StoreError(
            f"{url!r} has a '?' or '#', which are not part of a path in a URL;"
            " write %3F or %23 where they belong to the name"
        )
    return unquote(parts.netloc), unquote(parts.path)


def without_secrets(text: str) -> str:
    """A message in which every URL is `shown`."""
    return _URL.sub(lambda match: shown(match[0]), text)


def is_page(content_type: str | None, data: bytes, start: int = 0) -> bool:
    """Whether an answer is a web page, such as a login form, rather than a value.

    Some servers call every answer text/html, so its beginning must look like it too, if it is
    there to be seen.
    """
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind not in ("text/html", "application/xhtml+xml"):
        return False
    return start != 0 or _PAGE.match(data) is not None
