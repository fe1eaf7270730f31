"""Forks: the hooks of all modules, locks that a child finds free, and libraries in mid-use.

A forked child has a copy of the memory of its parent but none of the other threads. A lock that one
of them held would stay locked, a library that one was inside of may be in any state, and closing an
inherited connection would take it from the parent. A library may also crash if a connection or file
is closed that another thread is using (`Usage`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from omnizarr.errors import StoreError

_locks: WeakSet[Any] = WeakSet()
WAIT = 120.0  # seconds; a thread that uses a store longer than this is not waited for
_usages: WeakSet[Usage] = WeakSet()


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
    """Return a re-entrant lock that is free in forked children, whoever held it in the parent.

    Re-entrant, because a finaliser or a signal handler may run while its thread holds the lock.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


def never_release(inherited: Any) -> None:
    """Keep an object that was inherited from the parent until this process ends.

    The kernel watches a connection for both processes; closing it here would make the parent wait
    for ever.
    """
    import ctypes  # noqa: PLC0415 - slow, and needed in few forked children only

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


class LibraryGate:
    """Lets many threads use a library at once, and a fork happen while none does.

    SQLite and LMDB have locks of their own, and what is open in a process must not be used in
    its children. So a fork waits until no thread is inside such a library, and all files are closed
    before it; parent and child open them again when they need them.
    """

    def __init__(self) -> None:
        self._closers: list[Callable[[], None]] = []
        self._postponed: list[Callable[[], None]] = []
        self._reset()
        on_fork(before=self._close, in_parent=self._open, in_child=self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closing = False
        self._mine = threading.local()  # its depth: how often this thread is inside
        if self._postponed:  # files of the parent
            never_release(self._postponed)
            self._postponed = []

    def _close(self) -> None:
        depth = getattr(self._mine, "depth", 0)  # a finaliser may fork inside
        with self._changed:
            self._closing = True
            self._changed.wait_for(lambda: self._inside <= depth)
        if not depth:
            for close in self._closers:
                close()

    def _open(self) -> None:
        with self._changed:
            self._closing = False
            self._changed.notify_all()
        while self._postponed:
            self.call_from_finaliser(self._postponed.pop())

    def close_before_fork(self, close: Callable[[], None]) -> Callable[[], None]:
        """Have `close` called before every fork, while no thread is inside."""
        self._closers.append(close)
        return close

    def call_from_finaliser(self, close: Callable[[], None]) -> None:
        """Call a function as a user of the library; if a fork is under way, after the fork.

        Never wait: a finaliser may hold a lock that the forking thread waits for.
        """
        with self._changed:
            if self._closing and not getattr(self._mine, "depth", 0):
                self._postponed.append(close)
                return
            self._inside += 1
        try:
            close()
        finally:
            self._leave()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            self._changed.wait_for(lambda: depth or not self._closing)
            self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *exception: object) -> None:
        self._leave()
        self._mine.depth -= 1

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if self._closing:
                self._changed.notify_all()


def _free_locks() -> None:
    for one in list(_locks):
        one._at_fork_reinit()


on_fork(in_child=_free_locks)
gate = LibraryGate()


class Usage:
    """A context in which something is open; once it is closed, the context cannot be entered."""

    def __init__(self, message: str = "the store is closed") -> None:
        self.closed = False
        self._message = message
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # how often each thread is inside
        self._release: Callable[[], object] | None = None
        _usages.add(self)

    def __enter__(self) -> None:
        mine = threading.get_ident()
        with self._changed:
            if self.closed:
                raise StoreError(self._message)
            self._inside[mine] = self._inside.get(mine, 0) + 1

    def __exit__(self, *exception: object) -> None:
        mine, release = threading.get_ident(), None
        with self._changed:
            self._inside[mine] -= 1
            if not self._inside[mine]:
                del self._inside[mine]
                if self.closed:
                    release, self._release = self._release, None
                    self._changed.notify_all()
        if release is not None:
            release()

    def close(self, release: Callable[[], object]) -> None:
        """Let no more threads in, wait until all have left, and call `release`.

        A finaliser may close what its own thread is using: then `release` is called at the end of
        that use.
        """
        mine = threading.get_ident()
        with self._changed:
            self.closed = True
            if not self._changed.wait_for(lambda: not self._inside.keys() - {mine}, WAIT):
                raise StoreError(f"another thread still uses it after {WAIT:g} s; close it again")
            if mine in self._inside:
                self._release = release
                return
        release()


def _forget_threads() -> None:
    """Forget all threads but this one in a forked child, which does not have them."""
    mine = threading.get_ident()
    for usage in list(_usages):
        usage._changed = threading.Condition()
        usage._inside = {mine: usage._inside[mine]} if mine in usage._inside else {}


on_fork(in_child=_forget_threads)
