"""Forks wait for calls into libraries that a forked child could not use otherwise.

SQLite and LMDB have locks of their own, and what is open in a process must not be used in its
children. So a fork waits until no thread is inside such a library, and everything is closed
before; parent and child open it again when they need it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType


class Gate:
    """Many threads may be inside at once; a fork happens while none is."""

    def __init__(self) -> None:
        self._clear()
        self._closers: list[Callable[[], None]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._close, after_in_parent=self._open, after_in_child=self._clear
            )

    def _clear(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closing = False
        self._mine = threading.local()  # how often this thread is inside

    def _close(self) -> None:
        with self._changed:
            self._closing = True
            while self._inside > getattr(self._mine, "depth", 0):  # a finaliser may fork inside
                self._changed.wait()
        if not getattr(self._mine, "depth", 0):
            for close in self._closers:
                close()

    def _open(self) -> None:
        with self._changed:
            self._closing = False
            self._changed.notify_all()

    def before_fork(self, close: Callable[[], None]) -> None:
        """Have `close` called before every fork, while no thread is inside."""
        self._closers.append(close)

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            while self._closing and not depth:
                self._changed.wait()
            self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._inside -= 1
            if self._closing:
                self._changed.notify_all()
        self._mine.depth -= 1


gate = Gate()
