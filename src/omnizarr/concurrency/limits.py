"""One budget of threads and of bytes for all reads and writes of this process.

A call that comes while others are busy, or from one of their threads, gets fewer threads, so that
threads do not multiply under Dask or in nested calls. Nobody waits: a call always has its own.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from omnizarr import config
from omnizarr.concurrency.fork import on_fork

LEAST_BYTES = 2**20  # that a call may always have in flight


class _Used:
    """The threads and bytes that are in use now.

    Nothing is called where the lock is held: the interpreter could run a finaliser there, and that
    wait for a thread which waits for this lock.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
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


class _Thread(threading.local):
    counted = False  # among the threads in use


_used = _Used()
_thread = _Thread()


def take_threads(wanted: int, limit: int) -> Share:
    """Take up to `wanted` threads of the `limit`, this one among them.

    Return the share to `return_threads`; its last number is how many threads there are besides.
    """
    used, own, more = _used, 0 if _thread.counted else 1, wanted - 1
    with used.lock:
        free = limit - used.threads - own
        more = free if free < more else more
        more = more if more > 0 else 0
        used.threads += own + more
    _thread.counted = True
    return used, own, more


def return_threads(share: Share) -> None:
    """Return the threads of a share."""
    used, own, more = share
    _thread.counted = not own
    with used.lock:
        used.threads -= own + more


def count_as_taken() -> None:
    """Note that this thread belongs to the share of a call."""
    _thread.counted = True


def thread_slots() -> threading.Semaphore:
    """Return a semaphore that limits the threads of one call to the setting `threads`."""
    return threading.Semaphore(config.get().threads)


@contextmanager
def bytes_in_flight(wanted: int) -> Iterator[int]:
    """Yield how many bytes a call may hold; at least `LEAST_BYTES` or all that it wants."""
    used, limit = _used, config.get().in_flight
    with used.lock:
        granted = limit - used.nbytes
        granted = granted if granted > LEAST_BYTES else LEAST_BYTES
        granted = granted if granted < wanted else wanted
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
        tasks.wait_for(lambda: running[job] < limit)
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
