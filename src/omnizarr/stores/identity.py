"""Identify the storage behind a store, so that two ways to the same data are recognised.

A place is a tuple of typed, hashable values: the innermost container first, then those that it
lies in. Two stores are the same place where their first containers are equal; one lies inside
another where the other's first container is among its own.
Where values are (`identity`) is not enough for that: a wrapper may change them, a server may
answer by headers, and an inode may be used again by another file. A class whose objects can be told
apart says so by a method `answers_by` of its own: what their values depend on beside their place.
A subclass, which may change anything, has to say it again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit
from weakref import ref

from omnizarr.concurrency.cache import Key, typed_key
from omnizarr.concurrency.fork import on_fork
from omnizarr.errors import StoreError
from omnizarr.stores.base import Store

Place: TypeAlias = tuple[Hashable, ...]
FileNumber: TypeAlias = tuple[int, int]  # device and inode


@runtime_checkable
class TellsPlace(Protocol):
    """Can tell where its keys below a prefix really are."""

    def place(self, prefix: str = "") -> Place: ...


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """An object by its identity, kept alive so that no other object can take it."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def place_of(store: Store, prefix: str = "") -> Place:
    """Return where the keys of a store below a prefix are.

    A store that cannot tell is a place of its own.
    """
    if isinstance(store, TellsPlace):
        return store.place(prefix)
    return inside((type(store).__qualname__, Identity(store)), prefix)


def same_place(one: Store, other: Store) -> bool:
    """Return True if two stores hold the same values, however they are reached."""
    return place_of(one)[0] == place_of(other)[0]


def check_apart(source: Store, target: Store, remedy: str = "; give another place") -> None:
    """Raise where writing the one would change or erase the other."""
    one, other = place_of(source), place_of(target)
    if one[0] == other[0]:
        raise StoreError(f"source and destination are both {source!r}{remedy}")
    if overlap(one, other):
        raise StoreError(
            f"of {source!r} and {target!r}, source and destination, one lies inside the"
            f" other{remedy}"
        )


def overlap(one: Place, other: Place) -> bool:
    """Return True if two places are the same, or one lies inside the other."""
    return one[0] in other or other[0] in one


def inside(container: Hashable, prefix: str, around: Place = ()) -> Place:
    """Return the place of a prefix in a container, which itself lies in others."""
    parts = tuple(part for part in prefix.split("/") if part)
    return (*((container, parts[:n]) for n in range(len(parts), -1, -1)), *around)


def directory(path: str | os.PathLike[str]) -> Place:
    """Return the place of a directory, by device and inode as far as it exists."""
    return tuple(_folders(os.path.realpath(path)))


def file(path: str | os.PathLike[str], prefix: str = "") -> Place:
    """Return the place of a prefix in a database or an archive that is one file, or one folder."""
    first, *around = directory(path)
    return inside(first, prefix, tuple(around))


def file_number(path: str | os.PathLike[str]) -> FileNumber | None:
    """Return the device and inode of the file that a path leads to now, or None without one."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise StoreError(f"cannot open {os.fspath(path)!r}: {e.strerror or e}") from e
    return status.st_dev, status.st_ino


def address(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of a server, in one spelling; a missing URL is empty."""
    parts = urlsplit(url)
    ports = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}
    return parts.scheme, parts.hostname or "", parts.port or ports.get(parts.scheme)


def bucket(kind: str, endpoint: str, name: str, prefix: str) -> Place:
    """Return the place of a prefix in a bucket; the endpoint is empty for the cloud's own."""
    return inside((kind, address(endpoint), name), prefix)


def _folders(path: str) -> Iterator[Hashable]:
    """Yield a folder and all above it; one that is not there yet by the nearest one above."""
    missing: tuple[str, ...] = ()
    while True:
        try:
            status = os.stat(path)
        except OSError:
            parent, name = os.path.split(path)
            if parent == path:
                yield "directory", path
                return
            missing, path = (name, *missing), parent
            continue
        here = status.st_dev, status.st_ino
        for n in range(len(missing), -1, -1):
            yield "directory", *here, missing[:n]
        missing = ()
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


_count = itertools.count()
_numbers: dict[int, tuple[ref[Any], int]] = {}  # of objects that live, by their ids
_process = os.urandom(16).hex()


def source_of(store: Store) -> Key | None:
    """Return what tells the values of a store from those of all others, in every process.

    None where nothing but the object itself does: it is in memory, or of a class whose objects
    may differ in more than is known here.
    """
    parts = _parts(store)
    return None if parts is None else typed_key(parts, max_size=None)


def own_source(store: Store) -> Key:
    """Return what `source_of` does, or what no other object has, now or later, in any process."""
    found = source_of(store)
    return ("object", _process, _number(store)) if found is None else found


def digest(*parts: Any) -> str:
    """Return a text that other keys and plain values do not have; equal in every process."""
    out = blake2b(digest_size=20)
    for token in typed_key(parts, max_size=None) or (os.urandom(16).hex(),):
        data = token if isinstance(token, bytes) else str(token).encode("utf-8", "surrogatepass")
        out.update(f"{type(token).__name__} {len(data)} ".encode() + data)
    return out.hexdigest()


def _parts(store: Any) -> tuple[Any, ...] | None:
    kind = type(store)
    if "answers_by" not in vars(kind):
        return None
    inner = getattr(store, "inner", None)
    inside = () if inner is None else _parts(inner)
    place = _plain(place_of(store)[0])
    if inside is None or place is None:
        return None
    return kind.__module__, kind.__qualname__, place, store.answers_by(), inside


def _plain(part: Any) -> Any:
    """Return part of a place as plain data, or None where it is an object."""
    if isinstance(part, tuple):
        parts = tuple(map(_plain, part))
        lost = any(a is None and b is not None for a, b in zip(parts, part, strict=True))
        return None if lost else parts
    if part is None or type(part) in (str, int, bool, bytes):
        return part
    return "file system" if hasattr(part, "storage_options") else None  # see `FsspecStore`


def _number(thing: object) -> int:
    """Return a number that no other object of this process has or will have."""
    key = id(thing)
    known = _numbers.get(key)
    if known is not None and known[0]() is thing:
        return known[1]
    number = next(_count)
    with suppress(TypeError):  # it cannot be followed, so it gets another number next time
        _numbers[key] = ref(thing, lambda gone: _drop(key, gone)), number
    return number


def _drop(key: int, gone: ref[Any]) -> None:
    known = _numbers.get(key)
    if known is not None and known[0] is gone:
        del _numbers[key]


def _in_child() -> None:
    """Parent and child go on with the same numbers."""
    global _process
    _process = os.urandom(16).hex()


on_fork(in_child=_in_child)
