"""What tells the values of one store from those of any other, for tables that keep values.

Where values are (`identity`) is not enough for that: a wrapper may change them, a server may
answer by headers, and an inode may be used again by another file. A class whose objects can be told
apart says so by a method `answers_by` of its own: what their values depend on beside their place.
A subclass, which may change anything, has to say it again.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from weakref import ref

from omnizarr.model.typed_key import Key, typed_key
from omnizarr.stores.identity import place_of
from omnizarr.stores.store import Store

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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
