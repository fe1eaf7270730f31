"""Locks between the threads of this process: who changes part of a value holds the lock of its key.

Changing part of a chunk, or one chunk of a shard, reads the old value and stores a new one; what
another thread stored in between would be lost. Whole values need no lock.

Every thread takes its locks from the highest level down and in one order, so that no two wait for
each other. Only a finaliser or a signal handler, which runs in the middle of what its thread does,
can come out of order. If it wants what its own thread is changing, it gets an error at once; if
another thread holds what it wants, it waits for a limited time and gets an error then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any

from omnizarr import config
from omnizarr.concurrency.fork import on_fork
from omnizarr.errors import StoreError, log

# Levels. Storage transformers count from 0 upwards, the engine is above them all.
CHUNKS = 2**31
INTERNAL = -1  # without keys: this thread holds a lock of a pool or cache
VALUES = CHUNKS - 1  # all of one store, while some of them are put in place
METADATA = CHUNKS + 1
SHAPE = METADATA + 1  # with the chunks that a new shape shows or hides
NODES = SHAPE + 1  # that replace others

SLOTS = 4096  # locks of a level at most; keys that share one wait for each other without need
OUT_OF_ORDER_WAIT = 10.0  # seconds
SLOW = 5.0  # seconds of a wait for a lock, after which it is logged


class _Held(threading.local):
    """The levels, stores and keys that this thread is changing."""

    def __init__(self) -> None:
        self.claims: list[tuple[int, Any, set[str]]] = []


_locks: dict[tuple[int, int], threading.RLock] = {}  # by level and slot, made when needed
_held = _Held()


class locked:
    """Hold the locks of keys in a block; raise if this thread holds one of a given store."""

    __slots__ = ("_claim", "_claims", "_taken")

    def __init__(self, level: int, keys: Iterable[str], store: Any = None) -> None:
        self._claim = level, store, set(keys)
        self._taken: list[threading.RLock] = []

    def __enter__(self) -> None:
        level, store, wanted = self._claim
        self._claims = claims = _held.claims
        if store is not None and claims:
            for other_level, other_store, keys in claims:
                if other_level == level and not wanted.isdisjoint(keys) and other_store == store:
                    refuse_reentry(min(wanted & keys), store)
        in_order = not claims or all(level < other for other, _, _ in claims)
        claims.append(self._claim)
        try:
            for one in _find(level, wanted):
                self._taken.append(one)  # before it is taken: an interrupt may come right after
                if one.acquire(blocking=False):
                    continue
                began = perf_counter()
                if not one.acquire(timeout=-1 if in_order else OUT_OF_ORDER_WAIT):
                    raise StoreError(
                        f"cannot change {min(wanted)!r}: another thread is changing it for more"
                        f" than {OUT_OF_ORDER_WAIT:g} s, and this one is in the middle of another"
                        " change; a finaliser or signal handler should leave that to another thread"
                    )
                waited(repr(min(wanted, default="a cache")), began)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        for one in reversed(self._taken):
            try:  # noqa: SIM105 - with fewer calls
                one.release()
            except RuntimeError:
                pass  # an interrupt came before it was taken
        self._claims[:] = [c for c in self._claims if c is not self._claim]


def waited(what: str, began: float) -> None:
    """Count a wait for a lock that `began` then; log it if it was long."""
    seconds = perf_counter() - began
    config.count(lock_waits=1, lock_seconds=seconds)
    if seconds > SLOW:
        log(f"waited {seconds:.1f} s for the lock of {what}")


def holds_below(level: int) -> bool:
    """Return True if this thread holds a lock of a lower level."""
    return any(other < level for other, _, _ in _held.claims)


def is_free(level: int, keys: Iterable[str]) -> bool:
    """Return True if no other thread holds a lock of one of the keys."""
    for one in _find(level, set(keys)):
        taken = False
        try:
            taken = one.acquire(blocking=False)
        finally:
            with suppress(RuntimeError):  # it was not taken
                one.release()
        if not taken:
            return False
    return True


def refuse_reentry(key: str, where: Any) -> None:
    """Raise for a key that this thread is in the middle of changing."""
    raise StoreError(
        f"cannot change {key!r} in {where!r}: this thread is in the middle of changing it; a"
        " finaliser or signal handler should leave that to another thread"
    )


def _find(level: int, keys: set[str]) -> list[threading.RLock]:
    """Return the locks of keys, in the order in which they are to be taken."""
    slots = sorted({hash(key) % SLOTS for key in keys})
    return [_locks.setdefault((level, n), threading.RLock()) for n in slots]


def _reset() -> None:
    global _locks, _held
    _locks, _held = {}, _Held()


on_fork(in_child=_reset)
