"""Turns: threads of one process that change the same value do so one after the other.

Changing part of a chunk, or one chunk of a shard, reads the old value and writes a new one; what
another thread wrote in between would be lost. Whole values need no turn.

A finaliser or a signal handler runs in the middle of anything that its thread does. So no lock is
needed here to find the locks, and one that wants to change what its own thread is changing, for
which it could only wait for ever, gets an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from omnizarr.errors import StoreError

ENGINE = 2**31  # the level of the engine
DOCUMENTS = ENGINE + 1  # of documents that are read, changed and stored
SHAPE = DOCUMENTS + 1  # and of shapes that change with chunks

COUNT = 4096  # locks of a level; keys that share one wait for each other without need


class _Mine(threading.local):
    """What this thread is changing: levels, stores and keys."""

    def __init__(self) -> None:
        self.claims: list[tuple[int, Any, set[str]]] = []


_locks: dict[int, list[threading.RLock]] = {}
_mine = _Mine()


@contextmanager
def turn(level: int, keys: Iterable[str], store: Any = None) -> Iterator[None]:
    """Wait until no other thread uses these keys, and keep them until the block ends.

    `level` counts the transformers below; the engine is above them all. Locks are always taken
    from the highest level down and in one order, so that no two threads wait for each other.
    Where a store is given, this thread must not be using the same keys of it already.
    """
    wanted, claims, held = set(keys), _mine.claims, list[threading.RLock]()
    if store is not None:
        _check_new(claims, level, wanted, store)
    claim = level, store, wanted
    claims.append(claim)
    try:
        for lock in _of(level, wanted):
            held.append(lock)  # before it is taken: an interrupt may come right after
            lock.acquire()
        yield
    finally:
        for lock in reversed(held):
            with suppress(RuntimeError):  # the one that an interrupt came before
                lock.release()
        claims[:] = [c for c in claims if c is not claim]


def _check_new(
    claims: list[tuple[int, Any, set[str]]], level: int, wanted: set[str], store: Any
) -> None:
    for other_level, other_store, keys in claims:
        if other_level == level and not wanted.isdisjoint(keys) and other_store == store:
            refuse(min(wanted & keys), store)


def refuse(key: str, where: Any) -> None:
    """Raise for a key that this thread is in the middle of changing."""
    raise StoreError(
        f"cannot change {key!r} in {where!r}: this thread is in the middle of changing it; a"
        " finaliser or signal handler should leave that to another thread"
    )


def _of(level: int, keys: set[str]) -> list[threading.RLock]:
    locks = _locks.get(level)
    if locks is None:
        locks = _locks.setdefault(level, [threading.RLock() for _ in range(COUNT)])
    return [locks[number] for number in sorted({hash(key) % COUNT for key in keys})]


def _forget() -> None:
    """A forked child has none of the threads that may have held a lock."""
    global _locks, _mine
    _locks, _mine = {}, _Mine()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
