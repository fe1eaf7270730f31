"""One allowance of threads and of bytes for all reads and writes of this process.

A call that comes while others are busy, or from one of their threads, gets fewer threads, so that
threads do not multiply under Dask or in nested calls. Nobody waits: a call always has its own
thread. Threads are made for a call and end with it, so nothing is left to break at a fork.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from omnizarr import config

SMALL = 2**16  # below this many bytes a call stays on its own thread
LEAST = 2**20  # bytes that a call may always have in flight

R = TypeVar("R")


class _Used:
    """What is in use now."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads = 0
        self.nbytes = 0


class _Mark(threading.local):
    """What this thread is: counted already, and one of those that help a call."""

    counted = False
    helps = False


_used = _Used()
_mark = _Mark()


def _take(wanted: int) -> tuple[int, int]:
    """Whether this thread is to be counted, and how many may help it."""
    own = 0 if _mark.counted else 1
    with _used.lock:
        more = max(0, min(wanted - 1, config.get().threads - _used.threads - own))
        _used.threads += own + more
    return own, more


def _give_back(count: int) -> None:
    with _used.lock:
        _used.threads -= count


class threads:
    """How many threads a call may use until the block ends, its own among them."""

    __slots__ = ("_more", "_own", "_wanted")

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    def __enter__(self) -> int:
        self._own, self._more = _take(self._wanted)
        _mark.counted = True
        return 1 + self._more

    def __exit__(self, *args: object) -> None:
        _mark.counted = not self._own
        _give_back(self._own + self._more)


def surplus() -> bool:
    """Whether this thread only helps, and should end, since other calls have begun."""
    if not _mark.helps or _used.threads <= config.get().threads:
        return False
    with _used.lock:
        if _used.threads <= config.get().threads:
            return False
        _used.threads -= 1
    _mark.helps = False
    return True


@contextmanager
def bytes_in_flight(wanted: int) -> Iterator[int]:
    """How many bytes a call may hold until the block ends; at least `LEAST` or all it wants."""
    used = _used
    with used.lock:
        granted = min(wanted, max(LEAST, config.get().in_flight - used.nbytes))
        used.nbytes += granted
    try:
        yield granted
    finally:
        with used.lock:
            used.nbytes -= granted


def on_threads(work: Callable[[], None], wanted: int) -> None:
    """Call `work` on up to `wanted` threads at once, this one among them.

    The first error is raised when all of them have ended; `work` must see to it that the others
    stop. Between its parts `work` may ask `surplus` and return early.
    """
    own, more = _take(wanted)
    _mark.counted = True
    settings, errors = config.get(), list[BaseException]()

    def helper() -> None:
        config.inherit(settings)
        _mark.counted = _mark.helps = True
        try:
            work()
        except BaseException as e:  # raised below, on the calling thread
            errors.append(e)
        finally:
            if _mark.helps:  # else it was given back before
                _give_back(1)

    helpers = [threading.Thread(target=helper, daemon=True) for _ in range(more)]
    started = 0
    try:
        for thread in helpers:
            thread.start()
            started += 1
        work()
    finally:
        for thread in helpers[:started]:
            thread.join()
        _mark.counted = not own
        _give_back(own + more - started)
    if errors:
        raise errors[0]


def worthwhile(count: int, nbytes: int) -> int:
    """How many threads are worth it for so many chunks and bytes."""
    return min(config.get().threads, count) if nbytes >= SMALL else 1


def run_rows(rows: Iterator[R], count: int, one: Callable[[R], None], nbytes: int) -> None:
    """Call `one` for every row, on a few threads where that is worth it."""
    threads = worthwhile(count, nbytes)
    if threads <= 1:
        for row in rows:
            one(row)
        return
    lock = threading.Lock()
    batch = max(1, min(32, count // (4 * threads)))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set() and not surplus():
            with lock:
                some = list(itertools.islice(rows, batch))
            if not some:
                return
            try:
                for row in some:
                    one(row)
            except BaseException:
                stop.set()
                raise

    on_threads(work, threads)


def _forget() -> None:
    """A forked child has none of the threads that were counted."""
    global _used, _mark
    _used, _mark = _Used(), _Mark()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
