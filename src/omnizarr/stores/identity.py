"""Where the values of a store really are, so that two ways to one place are recognised.

A place is a tuple of typed, hashable values: the innermost container first, then those that it
lies in. Two stores are the same place where their first containers are equal; one lies inside
another where the other's first container is among its own.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit

from omnizarr.errors import StoreError
from omnizarr.stores.store import Store

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
