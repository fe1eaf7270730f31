"""The store interface: bytes at keys.

The smallest store has `get`, `set` and `erase`. Other methods are optional, and found by their
presence; the functions of `stores.operations` use them or fall back. The protocols below have those
that give a store an ability; these make it quicker or safer, each on its own:

- `get_many(requests)`, `set_many(pairs)`: several values, or parts of them, at once;
  `get_many_versioned(requests)`: each with its generation, or None if the server has none.
- `set_partial(key, start, value)`: overwrites part of a value, from an offset of at least 0 on.
- `parents()`: yields the larger stores that contain this one, the innermost first.
- `get_each(keys, use)`: calls `use` for every key with its number and its value, any buffer, or
  None; calls run in parallel, in any order; an error ends the others and is raised.
- `snapshot()`: a context with a `get_many` for parts of values as of the first, even if replaced.
- `set_parts(key, parts)`: stores what the function `parts` yields, as one value that appears when
  it is complete; the function is called again after an error that may pass.
- `set_new(key, value)`: stores a value unless the key exists, also by concurrent writers.
- `set_first(key, value)`: stores a value if its prefix has no keys, else returns False.
- `check_new_key(key)`: raises for a key that the store cannot have, or not beside another.
- `erase_prefix(prefix)`, `has_keys(prefix)`: all keys below a prefix at once, by one request.
- `list()`, `list_prefix(prefix)`, `list_dir(prefix)`: keys, in no particular order; the last one
  returns the keys and the prefixes, which end in ``/``, one level below.
- `lock_keys(prefix, keys, kind)`: a context that keeps other processes from changing keys below the
  prefix of a node; the prefix itself stands for all. Locks of different kinds never wait for each
  other: a thread that holds one may take one of another kind, but none of the same.
- `file_root`: a path below which every value is a file whose name is the key. Two further
  attributes count only in the class that declares them, since a subclass may do more:
  `direct_file_root`, the same as bytes with a final slash, allows compiled code to read and replace
  the files; `direct_values`, a mapping, allows looking up values.

What else is to be known of a store are its `Traits`. Names and meaning follow the abstract store
interface of the version 3 draft. At the end is what most stores share.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable
from urllib.parse import unquote, urlsplit, urlunsplit

from omnizarr import registry
from omnizarr.errors import InvalidArgument, StoreError

Bytes: TypeAlias = bytes | bytearray | memoryview
B = TypeVar("B", bytes, memoryview)
# What a lock is for.
LockKind: TypeAlias = Literal["chunks", "documents", "copies", "shape", "replace"]
Names: TypeAlias = list[str]  # in classes that have a method `list`
Values: TypeAlias = list[bytes | None]
ListKeys: TypeAlias = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a value: `length` bytes, or all for None, from `start`, if negative from the end."""

    start: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 0:
            raise StoreError(
                f"no part of a value has {self.length} bytes; give a length of at least 0, or None"
                " for all to the end"
            )

    def of(self, data: B) -> B:
        """Return this part of a whole value."""
        start = max(0, len(data) + self.start) if self.start < 0 else self.start
        return data[start:] if self.length is None else data[start : start + self.length]

    def within(self, span: Range) -> Range:
        """Return this range of the part `span` as a range of the whole value."""
        size = span.length or 0
        start = max(0, size + self.start) if self.start < 0 else min(self.start, size)
        length = size - start if self.length is None else min(self.length, size - start)
        return Range(span.start + start, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a store, given as its attribute `traits`; the defaults hold for any store."""

    low_latency: bool = False  # two requests cost little more than one
    cheap_requests: bool = False  # one costs a system call at most, so that joining gains nothing
    sends_values: bool = False  # away before `set` returns, so that a value may be any buffer
    process_local: bool = False  # values are in memory, where no other process can change them
    commits_changes: bool = False  # shown when committed; chunks outside an array are refused
    lists_all: bool = True  # not only metadata, say
    erases: bool = True  # else every key is kept for good
    default_format: str | None = None  # of new nodes
    separator: str = "."  # of chunk keys whose metadata state none
    to_write: str | None = None  # what to do about a store that no mode makes writable

    def behind_wrapper(self) -> Traits:
        """Return the traits that a wrapper shares with the store that it wraps."""
        shared = ("process_local", "commits_changes", "lists_all", "erases", "to_write")
        return Traits(**{name: getattr(self, name) for name in shared})


_ANY = Traits()


def traits(store: object) -> Traits:
    """Return the traits of a store; the defaults if it states none."""
    found: Traits = getattr(store, "traits", _ANY)
    return found


@runtime_checkable
class Store(Protocol):
    """Bytes at keys. `get` returns None only for a key that is proven absent.

    A class with these methods and `read_only` is a store.

    Examples:
        >>> isinstance(oz.storage.MemoryStore(), oz.storage.Store)
        True
    """

    read_only: bool

    def get(self, key: str, range: Range | None = None) -> bytes | None: ...
    def set(self, key: str, value: Bytes) -> None: ...
    def erase(self, key: str) -> None: ...


Requests: TypeAlias = Iterable[tuple[str, Range | None]]
GetMany: TypeAlias = Callable[[Requests], list[bytes | None]]
VersionedValue: TypeAlias = tuple[bytes | None, str | None]  # with its generation


class OpenValue(Protocol):
    """A value that is read in parts, which are of one value even if it is replaced meanwhile."""

    @property
    def size(self) -> int: ...
    @property
    def generation(self) -> str | None: ...
    def read(self, start: int, length: int) -> bytes: ...
    def close(self) -> None: ...


@runtime_checkable
class OpensValues(Protocol):
    """Can keep a value open, to read it in parts."""

    def open_value(self, key: str) -> OpenValue | None: ...


@runtime_checkable
class Versioned(Protocol):
    """Can tell one value of a key from another without fetching it.

    A generation is a text that differs whenever the value may differ (an ETag; the inode, times
    and size of a file). None means that there is no such key; for a read-only store it may also
    mean that the server has no generation for an existing value.
    """

    def generation(self, key: str) -> str | None: ...
    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue: ...


@runtime_checkable
class HasSizes(Protocol):
    """Can return the sizes of values without fetching them."""

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the bytes of existing values by key."""


@runtime_checkable
class SetsIf(Store, Versioned, Protocol):
    """Can store a value only if the key still has a known generation: compare-and-set."""

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        """Store a value, and return True, if the generation is the same; None: no such key."""


@runtime_checkable
class ChangesIf(Protocol):
    """Can compare several keys and change several values in one step."""

    def change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        """Store values, or erase keys for None; False, and no change, if a generation differs."""


@runtime_checkable
class ExcludesThreads(Protocol):
    """Belongs to one process, and can keep its other threads from storing chunks for a while."""

    def changing(self) -> AbstractContextManager[None]: ...


class KeyChanges(NamedTuple):
    """Keys to erase, then others to rename, old and new key, then values to set."""

    erased: Iterable[str] = ()
    renamed: Iterable[tuple[str, str]] = ()
    values: Iterable[tuple[str, Bytes]] = ()


@runtime_checkable
class ChangesKeys(Protocol):
    """Can erase, rename and set keys in one transaction."""

    def change_keys(self, find: Callable[[ListKeys], KeyChanges | None]) -> bool:
        """Make the changes that `find` returns, all or nothing; return False if that is None.

        `find` is called in the transaction, with a function that lists the keys below a prefix.
        """


class LeadsOutside(StoreError):
    """A symbolic link leads out of the enclosure of a store."""


@runtime_checkable
class EnclosesFiles(Protocol):
    """Can refuse symbolic links that lead out of a folder."""

    enclosure: str | None  # the real folder that no link may lead out of

    def enclosed(self, folder: str | None = None) -> Self:
        """Return this store, in which links that lead out of a folder are errors."""

    def check_links(self, keys: Iterable[str]) -> None:
        """Raise if a key leads out of the enclosure."""

    def without_enclosure(self) -> Self:
        """Return an enclosed store without its checks, for keys that have been checked."""


class Entry(NamedTuple):
    """A key in a listing with what is known of its value; None where a store does not say."""

    key: str
    size: int | None = None  # bytes
    modified: int | None = None  # nanoseconds since 1970
    tag: str | None = None  # the ETag of an object


@runtime_checkable
class ListsEntries(Protocol):
    """Can list the keys below a prefix with sizes, times and tags, without more requests."""

    def list_entries(self, prefix: str) -> Iterator[Entry]: ...


def flat(value: Bytes) -> bytes | memoryview:
    """Return the bytes of a value without a copy; TypeError for a buffer with gaps."""
    if isinstance(value, bytes):
        return value
    view = memoryview(value)
    return view.cast("B") if view.nbytes else b""


def value_digest(value: Bytes | None) -> str | None:
    """Return a digest of a value, as a generation for databases that have none; None of None."""
    return None if value is None else blake2b(value, digest_size=16).hexdigest()


class Closeable:
    """Base of stores: a context manager, equal to others with the same `_values_at`."""

    def close(self) -> None:
        """Close files and connections; most stores keep none open."""

    # True if a shallow copy of the object has the same values.
    _copies_share_values = False

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return a store with the same values that is writable, or read-only.

        One that was opened read-only may have to be opened again to be changed.
        """
        now = bool(getattr(self, "read_only", False))
        if self._copies_share_values:
            other = copy.copy(self)
            other.read_only = read_only  # type: ignore[attr-defined]  # stores have it
            return other
        if read_only == now:
            return self
        if read_only:
            return registry.load("omnizarr.stores.wrappers:ReadOnlyStore")(self)
        raise StoreError(f"{self!r} was opened read-only; open it again to change it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _values_at(self) -> tuple[Any, ...]:
        """Return what equal stores have in common; by default, the object itself."""
        return (id(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closeable) and self._values_at() == other._values_at()

    def __hash__(self) -> int:
        return hash(self._values_at())


class ListedStore(Closeable):
    """Base of stores with a listing; some methods follow from others."""

    get_many: Any
    set_many: Any
    list_prefix: Any

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        found: bytes | None = self.get_many([(key, range)])[0]
        return found

    def set(self, key: str, value: Bytes) -> None:
        self.set_many([(key, value)])

    def list(self) -> Iterator[str]:
        found: Iterator[str] = self.list_prefix("")
        return found


_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>|]+")
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|head|body|title|script|meta|!--)", re.IGNORECASE)


def redact_url(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "…" if parts.query else ""
    if not parts.netloc and parts.path.startswith("/"):
        return f"{parts.scheme}://{parts.path}" + (query and "?…")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def split_path(url: str) -> tuple[str, str]:
    """Return host and path of a file's URL, unquoted; raise for what would be lost of the name."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise StoreError(
            f"{redact_url(url)!r} has a '?' or '#', which are not part of a path in a URL;"
            " write %3F or %23 where they belong to the name"
        )
    return unquote(parts.netloc), unquote(parts.path)


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return a path that stays the same when the working directory changes."""
    text = os.fspath(path)
    if "\0" in text or re.search("[\ud800-\udc7f\udd00-\udfff]", text):  # half of a pair
        raise InvalidArgument(f"the path {text!r} has a character that no disk has in names")
    return text if os.path.isabs(text) else os.path.join(os.getcwd(), text)


def redact_urls(text: str) -> str:
    """Return a message with every URL redacted."""
    return _URL.sub(lambda match: redact_url(match[0]), text)


def is_web_page(content_type: str | None, data: bytes, start: int = 0) -> bool:
    """Return True if a response is a web page, such as a login form, rather than a value."""
    # Some servers call every response text/html, so its first bytes must look like HTML too.
    kind = (content_type or "").lower().partition(";")[0].strip()
    if kind not in ("text/html", "application/xhtml+xml"):
        return False
    return start != 0 or _PAGE.match(data) is not None
