"""Writers that end in the middle: at a change of a store, or after some tasks of a job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from omnizarr.errors import StoreError
from omnizarr.jobs import Progress
from omnizarr.testing import FaultyStore

CHANGES = ("set", "set_many", "set_new", "erase", "erase_prefix")


class Killed(BaseException):
    """The end of a process, as far as a store can see it."""


class Killing(FaultyStore):
    """A store in which a change, and all later calls, are those of a process that was killed."""

    def __init__(
        self,
        store: Any,
        at: int = 10**9,
        error: Callable[[], BaseException] = Killed,
        counted: tuple[str, ...] = CHANGES,
    ) -> None:
        super().__init__(store, self._fault)
        self.at, self.changes, self.error, self.counted = at, 0, error, counted

    def _fault(self, what: str, key: str) -> Exception | None:
        self.changes += what in self.counted
        if self.changes < self.at:
            return None
        if threading.current_thread() is threading.main_thread():
            raise self.error()
        return StoreError("its process was killed")  # as a thread that renews a lease goes on


def interrupt_after(tasks: int) -> Callable[[Progress], None]:
    """Return what interrupts a job, as its progress, when some tasks are done."""

    def interrupt(state: Progress) -> None:
        if state.tasks >= tasks:
            raise KeyboardInterrupt

    return interrupt
