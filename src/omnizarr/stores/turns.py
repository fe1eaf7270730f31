"""Turns: threads of one process that change the same value do so one after the other.

Changing part of a chunk, or one chunk of a shard, reads the old value and writes a new one; what
another thread wrote in between would be lost. Whole values need no turn.

A finaliser or a signal handler runs in the middle of anything that its thread does. So no lock is
needed here to find the locks, and one that wants to change what its own thread is changing, for
which it could only wait for ever, gets an error. So does one that waits for a thread that waits,
over however many others, for its own.
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
REPLACE = SHAPE + 1  # of nodes that are put in the place of others

COUNT = 4096  # locks of a level; keys that share one wait for each other without need
LOOK = 0.5  # seconds after which one that waits in the middle of a change looks around


class _Mine(threading.local):
    """What this thread is changing: levels, stores and keys."""

    def __init__(self) -> None:
        self.claims: list[tuple[int, Any, set[str]]] = []


class _Turn:
    """A lock that a thread may take again, who took it last, and how often it was taken."""

    __slots__ = ("count", "lock", "owner")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner = 0
        self.count = 0

    def release(self) -> None:
        """Give it back, unless an interrupt came before it was taken."""
        with suppress(RuntimeError):
            self.lock.release()


_turns: dict[int, list[_Turn]] = {}
_waits: dict[int, _Turn] = {}  # what threads wait for
_mine = _Mine()


@contextmanager
def turn(level: int, keys: Iterable[str], store: Any = None) -> Iterator[None]:
    """Wait until no other thread uses these keys, and keep them until the block ends.

    `level` counts the transformers below; the engine is above them all. Locks are always taken
    from the highest level down and in one order, so that no two threads wait for each other.
    Where a store is given, this thread must not be using the same keys of it already.
    """
    wanted, claims, held = set(keys), _mine.claims, list[_Turn]()
    if store is not None:
        _check_new(claims, level, wanted, store)
    in_order = all(level < other for other, _, _ in claims)
    claim = level, store, wanted
    claims.append(claim)
    try:
        for one in _of(level, wanted):
            held.append(one)  # before it is taken: an interrupt may come right after
            if not _take(one, for_ever=in_order):
                _refuse_circle(min(wanted))
        yield
    finally:
        for one in reversed(held):
            one.release()
        claims[:] = [c for c in claims if c is not claim]


def below(level: int) -> bool:
    """Whether this thread has a turn of a lower level."""
    return any(other < level for other, _, _ in _mine.claims)


def mark(level: int, keys: Iterable[str]) -> list[int] | None:
    """What stays the same until a thread takes a turn at these keys; None while another has one."""
    counts: list[int] = []
    for one in _of(level, set(keys)):
        try:
            if not one.lock.acquire(blocking=False):
                return None
            counts.append(one.count)
        finally:
            one.release()
    return counts


def _take(one: _Turn, *, for_ever: bool) -> bool:
    """Wait for a lock; not where its owner waits for this thread.

    Those who take locks in order never wait in a circle unless somebody out of order does too, so
    it is enough if these look. Owners and waits change while they are looked at: what shows
    twice is true.
    """
    me = threading.get_ident()
    if not one.lock.acquire(blocking=False):
        before, seen = _waits.get(me), list[_Turn]()
        _waits[me] = one
        try:
            while not one.lock.acquire(timeout=-1 if for_ever else LOOK):
                circle = _circle(me)
                if circle and circle == seen:
                    return False
                seen = circle
        finally:
            if before is None:
                _waits.pop(me, None)
            else:  # a handler in the middle of waiting
                _waits[me] = before
    one.owner = me
    one.count += 1
    return True


def _circle(me: int) -> list[_Turn]:
    """The locks between a thread and itself, each owned by the one that waits for the next."""
    found: list[_Turn] = []
    thread = me
    while (one := _waits.get(thread)) is not None and one not in found:
        found.append(one)
        thread = one.owner
        if thread == me:
            return found
    return []


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


def _refuse_circle(key: str) -> None:
    raise StoreError(
        f"cannot change {key!r}: another thread is changing it, and waits for what this one is in"
        " the middle of; a finaliser or signal handler should leave that to another thread"
    )


def _of(level: int, keys: set[str]) -> list[_Turn]:
    turns = _turns.get(level)
    if turns is None:
        turns = _turns.setdefault(level, [_Turn() for _ in range(COUNT)])
    return [turns[number] for number in sorted({hash(key) % COUNT for key in keys})]


def _forget() -> None:
    """A forked child has none of the threads that may have held a lock."""
    global _turns, _waits, _mine
    _turns, _waits, _mine = {}, {}, _Mine()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
