"""Threads that use something which can be closed: closing waits for them, and keeps others out.

A library may crash if a connection or file is closed that another thread is using.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakSet

from omnizarr.concurrency.fork import on_fork
from omnizarr.errors import StoreError

WAIT = 120.0  # seconds; a thread that uses a store longer than this is not waited for
_all: WeakSet[Usage] = WeakSet()


class Usage:
    """A context in which something is open; once it is closed, the context cannot be entered."""

    def __init__(self, message: str = "the store is closed") -> None:
        self.closed = False
        self._message = message
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # how often each thread is inside
        self._release: Callable[[], object] | None = None
        _all.add(self)

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
        """Keep all threads out, wait for those that are inside, and call `release`.

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
    for usage in list(_all):
        usage._changed = threading.Condition()
        usage._inside = {mine: usage._inside[mine]} if mine in usage._inside else {}


on_fork(in_child=_forget_threads)
