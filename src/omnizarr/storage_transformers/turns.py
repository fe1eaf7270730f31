"""Turns: threads of one process that use the same shard do so one after the other.

Changing one chunk of a shard rewrites the shard, and reading one takes two requests, for the
index and for the chunk. Both would go wrong if another thread replaced the shard in between.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakValueDictionary

_Name = tuple[int, str]
_locks: WeakValueDictionary[_Name, threading.RLock] = WeakValueDictionary()
_guard = threading.Lock()


@contextmanager
def turn(level: int, shards: Iterable[str]) -> Iterator[None]:
    """Wait until no other thread uses these shards, and keep them until the block ends.

    `level` counts the transformers below: locks are always taken from the highest level down
    and in the order of keys, so that no two threads wait for each other.
    """
    with ExitStack() as held:
        for shard in sorted(set(shards)):
            held.enter_context(_lock((level, shard)))
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
