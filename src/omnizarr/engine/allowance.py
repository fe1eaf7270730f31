"""One allowance of threads and of bytes for all reads and writes of this process.

A call that comes while others are busy, or from one of their threads, gets fewer threads, so that
threads do not multiply under Dask or in nested calls; one of a finaliser or signal handler gets no
helpers that would wait for what its own thread has locked. Nobody waits: a call always has its own
thread. Threads are made for a call and end with it, so nothing is left to break at a fork. Where
none can be started, at the end of the interpreter or at a limit of the system, there is less help.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from omnizarr import config
from omnizarr.stores.threads import start
from omnizarr.stores.turns import ENGINE, below

LEAST = 2**20  # bytes that a call may always have in flight


class _Used:
    """What is in use now."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finaliser may strike while this thread has it
        self.threads = 0
        self.nbytes = 0


class _Place:
    """The place of a helping thread among those in use, given back once."""

    def __init__(self, used: _Used) -> None:
        self._used, self._taken = used, True
        self._ended = threading.Lock()
        self._ended.acquire()

    def give_back(self) -> None:
        with self._used.lock:
            if self._taken:
                self._taken = False
                self._used.threads -= 1

    def end(self) -> None:
        self.give_back()
        self._ended.release()

    def wait(self) -> None:
        """Return when the thread has ended; `Thread.join` does not survive an interrupt."""
        with self._ended:
            pass


class _Mark(threading.local):
    """What this thread is: counted already, and one of those that help a call."""

    counted = False
    locks = 0  # that it has and that helpers want, see `alone`
    place: _Place | None = None


_used = _Used()
_mark = _Mark()


class _Alone:
    """While a thread has locks that helpers want, calls on that thread have none."""

    def __enter__(self) -> None:
        _mark.locks += 1

    def __exit__(self, *exception: object) -> None:
        _mark.locks -= 1


alone = _Alone()


def _take(used: _Used, wanted: int) -> tuple[int, int]:
    """Whether this thread is to be counted, and how many may help it."""
    own = 0 if _mark.counted else 1
    with used.lock:
        more = max(0, min(wanted - 1, config.get().threads - used.threads - own))
        used.threads += own + more
    return own, more


class threads:
    """How many threads a call may use until the block ends, its own among them."""

    __slots__ = ("_more", "_own", "_used", "_wanted")

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    def __enter__(self) -> int:
        self._used = _used
        self._own, self._more = _take(_used, self._wanted)
        _mark.counted = True
        return 1 + self._more

    def __exit__(self, *exception: object) -> None:
        _mark.counted = not self._own
        with self._used.lock:
            self._used.threads -= self._own + self._more


def surplus() -> bool:
    """Whether this thread only helps, and should end, since other calls have begun."""
    if _mark.place is None or _used.threads <= config.get().threads:
        return False
    with _used.lock:
        if _used.threads <= config.get().threads:
            return False
        _mark.place.give_back()
    _mark.place = None
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


def on_threads(
    work: Callable[[], None], wanted: int, stop: Callable[[], object], *, waits: bool = True
) -> None:
    """Call `work` on up to `wanted` threads at once, this one among them.

    The first error is raised when all of them have ended; `stop` has the others end soon. Between
    its parts `work` may ask `surplus` and return early. Without `waits` an interrupt (Ctrl-C, not
    an error) is raised at once, and they end behind the caller's back.
    """
    used, settings, errors = _used, config.get(), list[BaseException]()
    own, more = _take(used, 1 if _mark.locks or below(ENGINE) else wanted)
    places = [_Place(used) for _ in range(more)]
    before, _mark.counted, _mark.place = _mark.place, True, None  # nobody else does this work
    started = 0

    def help_out(place: _Place) -> None:
        try:
            config.inherit(settings)
            _mark.counted, _mark.place = True, place
            work()
        except BaseException as e:  # raised below, on the calling thread
            errors.append(e)
            stop()
        finally:
            place.end()

    try:
        for place in places:
            if not start(partial(help_out, place), "omnizarr-helper"):
                break
            started += 1
        work()
        for place in places[:started]:
            place.wait()
    except BaseException as e:
        stop()
        for place in places[:started] if waits or isinstance(e, Exception) else ():
            place.wait()
        raise
    finally:
        _mark.counted, _mark.place = not own, before
        for place in places[started:]:
            place.give_back()
        with used.lock:
            used.threads -= own
    if errors:
        raise errors[0]


def _forget() -> None:
    """A forked child has none of the threads that were counted."""
    global _used, _mark
    _used, _mark = _Used(), _Mark()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
