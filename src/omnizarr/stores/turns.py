"""Turns: threads of one process that change the same value do so one after the other.

Changing part of a chunk, or one chunk of a shard, reads the old value and writes a new one; what
another thread wrote in between would be lost. Whole values need no turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakValueDictionary

ENGINE = 2**31  # the level of the engine
DOCUMENTS = ENGINE + 1  # of documents that are read, changed and stored
SHAPE = DOCUMENTS + 1  # and of shapes that change with chunks

_Name = tuple[int, str]
_locks: WeakValueDictionary[_Name, threading.RLock] = WeakValueDictionary()
_guard = threading.Lock()


@contextmanager
def turn(level: int, keys: Iterable[str]) -> Iterator[None]:
    """Wait until no other thread uses these keys, and keep them until the block ends.

    `level` counts the transformers below; the engine is above them all. Locks are always taken
    from the highest level down and in the order of keys, so that no two threads wait for each
    other.
    """
    with ExitStack() as held:
        for key in sorted(set(keys)):
            held.enter_context(_lock((level, key)))
        yield


def _lock(name: _Name) -> threading.RLock:
    with _guard:
        lock = _locks.get(name)
        if lock is None:
            lock = _locks[name] = threading.RLock()
        return lock


def _forget() -> None:
    """A forked child has none of the threads that may have held a lock."""
    global _locks, _guard
    _locks, _guard = WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
