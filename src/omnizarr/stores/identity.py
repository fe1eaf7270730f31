"""Identify the storage behind a store, so that two ways to the same data are recognised.

A storage identity is a tuple of typed, hashable values: the innermost container first, then those
that contain it. Two stores share their storage if their first containers are equal; one is part of
another if the other's first container is among its own.

A cache needs more (`portable_key`): a wrapper may change values, a server may depend on headers,
and an inode may be used again by another file. A class declares by its own method
`identity_details` what else its values depend on, and its subclasses declare that again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from weakref import ref

from omnizarr.concurrency.cache import Key, typed_key
from omnizarr.concurrency.fork import on_fork
from omnizarr.errors import StoreError
from omnizarr.stores.base import Store

StorageIdentity: TypeAlias = tuple[Hashable, ...]
FileNumber: TypeAlias = tuple[int, int]  # device and inode


@dataclass(slots=True, eq=False)  # not frozen: one is made for many reads
class ObjectIdentity:
    """An object by its identity, kept alive so that no other object can take it."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def storage_identity(store: Store, prefix: str = "") -> StorageIdentity:
    """Return the identity of the storage of a prefix; by default the store shares it with none."""
    identify: Callable[[str], StorageIdentity] | None = getattr(store, "identity", None)
    if identify is not None:
        return identify(prefix)
    return inside((type(store).__qualname__, ObjectIdentity(store)), prefix)


def check_disjoint(
    source: Store,
    target: Store,
    remedy: str = "; give another destination",
    prefixes: tuple[str, str] = ("", ""),
) -> None:
    """Raise if writing to one store, below a prefix, would change or erase the other."""
    one, other = map(storage_identity, (source, target), prefixes)
    if one[0] == other[0]:
        raise StoreError(f"source and destination are both {source!r}{remedy}")
    if overlap(one, other):
        raise StoreError(
            f"of {source!r} and {target!r}, source and destination, one is inside the other{remedy}"
        )


def overlap(one: StorageIdentity, other: StorageIdentity) -> bool:
    """Return True if two identities are equal, or one contains the other."""
    return one[0] in other or other[0] in one


def inside(container: Hashable, prefix: str, outer: StorageIdentity = ()) -> StorageIdentity:
    """Return the identity of a prefix in a container, which `outer` containers hold."""
    parts = tuple(part for part in prefix.split("/") if part)
    return (*((container, parts[:n]) for n in range(len(parts), -1, -1)), *outer)


def directory(path: str | os.PathLike[str]) -> StorageIdentity:
    """Return the identity of a directory, by device and inode as far as it exists."""
    return tuple(_folders(os.path.realpath(path)))


def file(path: str | os.PathLike[str], prefix: str = "") -> StorageIdentity:
    """Return the identity of a prefix in a database or archive that is one file or folder."""
    first, *outer = directory(path)
    return inside(first, prefix, tuple(outer))


def file_number(path: str | os.PathLike[str]) -> FileNumber | None:
    """Return the device and inode of the file at a path, or None if there is none."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise StoreError(f"cannot open {os.fspath(path)!r}: {e.strerror or e}") from e
    return status.st_dev, status.st_ino


def address(url: str) -> tuple[str, str, int | None]:
    """Return the normalised scheme, host and port of a server; of no URL, empty ones."""
    parts = urlsplit(url)
    ports = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}
    return parts.scheme, parts.hostname or "", parts.port or ports.get(parts.scheme)


def bucket(kind: str, endpoint: str, name: str, prefix: str) -> StorageIdentity:
    """Return the identity of a prefix in a bucket; the endpoint is empty for the cloud's own."""
    return inside((kind, address(endpoint), name), prefix)


def _folders(path: str) -> Iterator[Hashable]:
    """Yield a folder and all above it; missing ones relative to the closest existing one."""
    missing: tuple[str, ...] = ()
    while True:
        parent, name = os.path.split(path)
        try:
            status = os.stat(path)
        except OSError:
            if parent == path:
                yield "directory", path
                return
            missing = name, *missing
        else:
            for n in range(len(missing), -1, -1):
                yield "directory", status.st_dev, status.st_ino, missing[:n]
            if parent == path:
                return
            missing = ()
        path = parent


_count = itertools.count()
_numbers: dict[int, tuple[ref[Any], int]] = {}  # of objects, by their ids; dead ones may stay
_process = os.urandom(16).hex()


def portable_key(store: Store) -> Key | None:
    """Return a key of a store's values for every process, or None if only the object is one."""
    parts = _parts(store)
    return None if parts is None else typed_key(parts, max_size=None)


def unique_key(store: Store) -> Key:
    """Return the `portable_key`, or a key that no other object of any process ever has."""
    found = portable_key(store)
    return f"object {_process} {_number(store)}".encode() if found is None else found


def key_digest(*parts: Any) -> str:
    """Return a digest of keys and plain values, the same in every process."""
    return blake2b(typed_key(parts, max_size=None) or os.urandom(16), digest_size=20).hexdigest()


def _parts(store: Any) -> tuple[Any, ...] | None:
    kind = type(store)
    if "identity_details" not in vars(kind):
        return None
    inner = getattr(store, "inner", None)
    inside = () if inner is None else _parts(inner)
    container = _plain(storage_identity(store)[0])
    if inside is None or container is None:
        return None
    return kind.__module__, kind.__qualname__, container, store.identity_details(), inside


def _plain(part: Any) -> Any:
    """Return part of an identity as plain data, or None if it is an object."""
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
    if known is None or known[0]() is not thing:  # a callback may fail before it removes anything
        try:
            known = ref(thing, lambda _: _numbers.pop(key, None)), next(_count)
        except TypeError:  # it has no weak references, so it gets another number next time
            return next(_count)
        _numbers[key] = known
    return known[1]


def _in_child() -> None:
    """Get a new process identity, since a forked child continues the parent's numbers."""
    global _process
    _process = os.urandom(16).hex()


on_fork(in_child=_in_child)
