"""One budget of threads and of bytes for all reads and writes of this process.

A call that comes while others are busy, or from one of their threads, gets fewer threads, so that
threads do not multiply under Dask or in nested calls. Nobody waits: a call always has its own.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from omnizarr import config
from omnizarr.concurrency.fork import on_fork
from omnizarr.concurrency.key_locks import CHUNKS, holds_below

LEAST_BYTES = 2**20  # that a call may always have in flight


class _Used:
    """The threads and bytes that are in use now."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finaliser may run while this thread has it
        self.threads = 0
        self.nbytes = 0


Share: TypeAlias = tuple[_Used, int, int]  # of threads: this one, and others


class Ending:
    """An event that one thread waits for, even again after an interrupt.

    `Thread.join` and `threading.Event` do not survive an exception of a signal handler that comes
    right after they have got a lock.
    """

    def __init__(self) -> None:
        self._come = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set the event, once only."""
        self._come = True
        self._lock.release()

    def wait(self, seconds: float = math.inf) -> bool:
        """Return True once the event is set, False if that takes longer."""
        # Whoever gets the lock keeps it: the end has come by then, and nobody asks for it again.
        return self._come or self._lock.acquire(timeout=-1 if seconds == math.inf else seconds)


class Helper:
    """A thread that helps a call; it counts until it ends or is no longer needed."""

    def __init__(self, used: _Used) -> None:
        self._used, self._counted = used, True
        self._ended = Ending()

    def give_back(self) -> None:
        """Stop counting the thread."""
        with self._used.lock:
            if self._counted:
                self._counted = False
                self._used.threads -= 1

    def begin(self) -> None:
        """Note that this thread is the helper."""
        _thread.counted, _thread.helper = True, self

    def end(self) -> None:
        """Note that the thread has done its work.

        Whoever waits for that may have the lock of the budget, if it is a finaliser.
        """
        self._ended.set()
        self.give_back()

    def wait(self, end: float = math.inf) -> None:
        """Wait for the thread to end, up to a monotonic time."""
        if self._ended.wait(end if end == math.inf else max(0.0, end - time.monotonic())):
            self.give_back()  # for the next call, which may be quicker than that thread


class _Thread(threading.local):
    """The state of one thread."""

    counted = False  # among those in use
    helper: Helper | None = None


_used = _Used()
_thread = _Thread()


def take_threads(wanted: int, limit: int) -> Share:
    """Take up to `wanted` threads of the `limit`, this one among them.

    Return the share to `return_threads`; its last number is how many threads there are besides.
    """
    used, own = _used, 0 if _thread.counted else 1
    with used.lock:
        more = max(0, min(wanted - 1, limit - used.threads - own))
        used.threads += own + more
    _thread.counted = True
    return used, own, more


def return_threads(share: Share) -> None:
    """Return the threads of a share."""
    used, own, more = share
    _thread.counted = not own
    with used.lock:
        used.threads -= own + more


def thread_slots() -> threading.Semaphore:
    """Return a semaphore that limits the threads of one call to the setting `threads`."""
    return threading.Semaphore(config.get().threads)


@contextmanager
def helpers(wanted: int) -> Iterator[list[Helper]]:
    """Yield the helpers that a call on up to `wanted` threads may have."""
    if holds_below(CHUNKS):  # a finaliser, whose helpers would wait for its own thread
        wanted = 1
    used, own, more = take_threads(wanted, config.get().threads)
    before, _thread.helper = _thread.helper, None
    try:
        yield [Helper(used) for _ in range(more)]
    finally:
        _thread.counted, _thread.helper = not own, before
        with used.lock:
            used.threads -= own


def is_superfluous() -> bool:
    """Return True if this helper thread should end, since other calls need its place."""
    used, limit = _used, config.get().threads
    if _thread.helper is None or used.threads <= limit:
        return False
    if not used.lock.acquire(blocking=False):  # by whom this thread helps, perhaps
        return False
    try:
        if used.threads <= limit:
            return False
        _thread.helper.give_back()
    finally:
        used.lock.release()
    _thread.helper = None
    return True


@contextmanager
def bytes_in_flight(wanted: int) -> Iterator[int]:
    """Yield how many bytes a call may hold; at least `LEAST_BYTES` or all that it wants."""
    used = _used
    with used.lock:
        granted = min(wanted, max(LEAST_BYTES, config.get().in_flight - used.nbytes))
        used.nbytes += granted
    try:
        yield granted
    finally:
        with used.lock:
            used.nbytes -= granted


_tasks = threading.Condition()
_running: Counter[str] = Counter()  # tasks by the name of their job


@contextmanager
def task_of(job: str, limit: int) -> Iterator[None]:
    """Count as a task of a job, once fewer than `limit` of its tasks run in this process.

    For executors that may run more tasks at a time than there is memory for.
    """
    tasks, running = _tasks, _running
    with tasks:
        while running[job] >= limit:
            tasks.wait()
        running[job] += 1
    try:
        yield
    finally:
        with tasks:
            running[job] -= 1
            if not running[job]:
                del running[job]
            tasks.notify_all()


def _reset() -> None:
    global _used, _thread, _tasks, _running
    _used, _thread = _Used(), _Thread()
    _tasks, _running = threading.Condition(), Counter()


on_fork(in_child=_reset)
