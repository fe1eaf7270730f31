"""Forks: the hooks of all modules, locks that a child finds free, and libraries in mid-use.

A forked child has a copy of the memory of its parent but none of the other threads. A lock that one
of them held would stay locked, a library that one was inside of may be in any state, and closing an
inherited connection would take it from the parent. A library may also crash if a connection or file
is closed that another thread is using (`Usage`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from omnizarr.errors import StoreError

_locks: WeakSet[Any] = WeakSet()
WAIT = 120.0  # seconds; a thread that uses a store longer than this is not waited for
POLL = 0.001  # seconds between two looks at the threads that are waited for
_all_inside: WeakSet[_Inside] = WeakSet()


def on_fork(
    *,
    before: Callable[[], object] | None = None,
    in_parent: Callable[[], object] | None = None,
    in_child: Callable[[], object] | None = None,
) -> None:
    """Have functions called around every fork of this process; nothing where there is no fork."""
    given = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{name: hook for name, hook in given.items() if hook is not None})


def lock() -> threading.RLock:
    """Return a lock that is free in forked children; re-entrant, as finalisers need it to be."""
    made = threading.RLock()
    _locks.add(made)
    return made


def never_release(inherited: Any) -> None:
    """Keep an object that was inherited from the parent until this process ends.

    A connection is watched for both processes; closed here, it would have the parent wait for ever.
    """
    import ctypes  # noqa: PLC0415 - slow, and needed in few forked children only

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


class _Inside:
    """Counts how often each thread is inside a block.

    It has no lock: a finaliser may run at any point of a thread, even where it has just
    taken a lock, and may wait there for another thread that waits for the same lock. A finaliser
    leaves whatever it enters, so that the count of its thread is right again.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}  # by thread
        _all_inside.add(self)

    def add(self, change: int) -> int:
        """Change the count of this thread, and return it."""
        mine = threading.get_ident()
        count = self._counts.get(mine, 0) + change
        if count:
            self._counts[mine] = count
        else:
            self._counts.pop(mine, None)
        return count

    def wait_for_others(self, seconds: float = math.inf) -> bool:
        """Return True once no other thread is inside, False if that takes longer."""
        mine, end = threading.get_ident(), time.monotonic() + seconds
        while any(thread != mine for thread in [*self._counts]):
            if time.monotonic() > end:
                return False
            time.sleep(POLL)
        return True


class LibraryGate:
    """Lets many threads use a library at once, and a fork happen while none does.

    SQLite and LMDB have locks of their own, and what is open in a process must not be used in
    its children. So a fork waits until no thread is inside such a library, and all files are closed
    before it; parent and child open them again when they need them.
    """

    def __init__(self) -> None:
        self._closers: list[Callable[[], None]] = []
        self._postponed: list[Callable[[], None]] = []
        self._inside = _Inside()
        self._closing = False
        on_fork(before=self._close, in_parent=self._open, in_child=self._reset)

    def _close(self) -> None:
        self._closing = True
        self._inside.wait_for_others()
        if not self._inside.add(0):  # else a finaliser forks inside
            for close in self._closers:
                close()

    def _open(self) -> None:
        self._closing = False
        while self._postponed:
            self.call_from_finaliser(self._postponed.pop())

    def _reset(self) -> None:
        self._closing = False
        if self._postponed:  # files of the parent
            never_release(self._postponed)
            self._postponed = []

    def close_before_fork(self, close: Callable[[], None]) -> Callable[[], None]:
        """Have `close` called before every fork, while no thread is inside."""
        self._closers.append(close)
        return close

    def call_from_finaliser(self, close: Callable[[], None]) -> None:
        """Call a function as a user of the library; never wait for a fork, but do it afterwards."""
        try:
            if self._inside.add(1) == 1 and self._closing:
                self._postponed.append(close)
            else:
                close()
        finally:
            self._inside.add(-1)

    def __enter__(self) -> None:
        # Counted before the look, so that a fork either sees this thread or is seen by it.
        while self._inside.add(1) == 1 and self._closing:
            self._inside.add(-1)
            time.sleep(POLL)

    def __exit__(self, *exception: object) -> None:
        self._inside.add(-1)


class Usage:
    """A context in which something is open; once it is closed, the context cannot be entered."""

    def __init__(self, message: str = "the store is closed") -> None:
        self.closed = False
        self._message = message
        self._inside = _Inside()
        self._release: Callable[[], object] | None = None

    def __enter__(self) -> None:
        self._inside.add(1)
        if self.closed:
            self.__exit__()
            raise StoreError(self._message)

    def __exit__(self, *exception: object) -> None:
        if not self._inside.add(-1) and self._release is not None:
            release, self._release = self._release, None
            release()

    def close(self, release: Callable[[], object]) -> None:
        """Let no more threads in, wait until all have left, and call `release`.

        A finaliser may close what its own thread uses: then `release` is called after that use.
        """
        self.closed = True
        if not self._inside.wait_for_others(WAIT):
            raise StoreError(f"another thread still uses it after {WAIT:g} s; close it again")
        if self._inside.add(0):
            self._release = release
        else:
            release()


def _in_child() -> None:
    for one in [*_locks]:
        one._at_fork_reinit()
    mine = threading.get_ident()  # the only thread that is in the child, too
    for inside in [*_all_inside]:
        inside._counts = {mine: inside._counts[mine]} if mine in inside._counts else {}


on_fork(in_child=_in_child)
gate = LibraryGate()
