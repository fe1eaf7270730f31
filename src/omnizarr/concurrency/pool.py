"""Threads: helpers of one call, and a pool for requests, which mostly wait.

An error of one call drops those that have not begun and is raised when the others have ended, so
that the caller may close what they use. An interrupt (Ctrl-C) waits for calls that may take long,
such as a request to a silent server, at most for `INTERRUPT_WAIT`; a second one leaves at once.

All reads and writes of a process have one budget of threads and of bytes. A call that comes while
others are busy, or from one of their threads, gets fewer threads, so that threads do not multiply
under Dask or in nested calls. Nobody waits: a call always has its own.

No thread keeps the process from ending. Where none can be started, at the end of the interpreter or
at a limit of the system, the caller does the work itself.
"""

from __future__ import annotations

import _thread
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

from omnizarr import config
from omnizarr.concurrency import fork
from omnizarr.concurrency.key_locks import CHUNKS, INTERNAL, holds_below, locked

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")

SMALL = 2**16  # below this many bytes a call stays on its own thread
START = 2.0  # seconds that a thread may take to begin
LEAST_BYTES = 2**20  # that a call may always have in flight
INTERRUPT_WAIT = 1.0  # seconds that an interrupt waits for calls that may take long


# The budget


class _Used:
    """The threads and bytes that are in use now.

    Nothing is called under the lock: a finaliser could run there, and wait for who waits for it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.threads = 0
        self.nbytes = 0


Share: TypeAlias = tuple[_Used, int, int]  # of threads: this one, and others


class Ending:
    """An event that one thread waits for, even again after an interrupt.

    `Thread.join` and `threading.Event` do not survive a signal handler's error after they lock.
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


class Abandoned(BaseException):
    """Nobody waits for the result of this thread any more, so that it goes no further."""


class _CountedThread(threading.local):
    counted = False  # among the threads in use


_used = _Used()
_counted = _CountedThread()


def take_threads(wanted: int, limit: int) -> Share:
    """Take up to `wanted` threads of the `limit`, this one among them.

    Return the share to `return_threads`; its last number is how many threads there are besides.
    """
    used, own, more = _used, 0 if _counted.counted else 1, wanted - 1
    with used.lock:
        free = limit - used.threads - own
        more = free if free < more else more
        more = more if more > 0 else 0
        used.threads += own + more
    _counted.counted = True
    return used, own, more


def return_threads(share: Share) -> None:
    """Return the threads of a share."""
    used, own, more = share
    _counted.counted = not own
    with used.lock:
        used.threads -= own + more


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


_job_slots: dict[tuple[str, int], threading.Semaphore] = {}


def task_of(job: str, limit: int) -> threading.Semaphore:
    """Return a context for a task of a job, of which `limit` run here at a time, for memory."""
    return _job_slots.setdefault((job, limit), threading.Semaphore(limit))


def start_thread(work: Callable[[], object], name: str) -> bool:
    """Run `work` in a thread of its own, or return False where none can be started."""
    # ``Thread.start`` would wait for ever for a thread that has no memory to begin with.
    if sys.is_finalizing():
        return False
    begun, claimed = threading.Lock(), threading.Lock()
    begun.acquire()

    def run() -> None:
        begun.release()
        if claimed.acquire(blocking=False):
            work()

    run.__qualname__ = name  # which the interpreter prints with an error of a thread
    try:
        _thread.start_new_thread(run, ())
    except (RuntimeError, MemoryError):
        return False
    return begun.acquire(timeout=START) or not claimed.acquire(blocking=False)


# Helpers of one call


def useful_threads(count: int, nbytes: int) -> int:
    """Return the number of threads to use for `count` chunks of `nbytes` bytes in all."""
    return min(config.get().threads, count) if nbytes >= SMALL else 1


def run_on_threads(
    work: Callable[[], None], wanted: int, stop: Callable[[], object], *, waits: bool = True
) -> None:
    """Call `work` on up to `wanted` threads at once, this one among them.

    The first error is raised when all of them have ended; `stop` has the others end soon. Without
    `waits` an interrupt (Ctrl-C, not an error) waits for `INTERRUPT_WAIT` only, and the helpers end
    later. They are started for the call and end with it, so that a fork finds none of them.
    """
    settings, errors, endings = config.get(), list[BaseException](), list[Ending]()

    def help_out(ending: Ending) -> None:
        try:
            config.inherit(settings)
            _counted.counted = True  # its call has taken it
            work()
        except BaseException as e:  # raised below, on the calling thread
            errors.append(e)
            stop()
        finally:
            ending.set()

    # The helpers of a finaliser would wait for its own thread.
    share = take_threads(1 if holds_below(CHUNKS) else wanted, settings.threads)
    try:
        for _ in range(share[2]):
            ending = Ending()
            if not start_thread(partial(help_out, ending), "omnizarr-helper"):
                break
            endings.append(ending)
        work()
        for ending in endings:
            ending.wait()
    except BaseException as e:
        stop()
        patient = waits or isinstance(e, (Exception, Abandoned))
        end = math.inf if patient else time.monotonic() + INTERRUPT_WAIT
        for ending in endings:
            ending.wait(max(0.0, end - time.monotonic()))
        if not (isinstance(e, Abandoned) and errors):  # of a helper, which came first
            raise
    finally:
        return_threads(share)
    if errors:
        raise errors[0]


def for_each(
    items: Iterator[A],
    count: int,
    function: Callable[[A], None],
    nbytes: int,
    *,
    waits: bool = True,
) -> None:
    """Call a function for every item, as `run_on_threads` does if `nbytes` is large enough."""
    threads = useful_threads(count, nbytes)
    if threads <= 1:
        for item in items:
            function(item)
        return
    batch = max(1, min(32, count // (4 * threads)))
    share_items(items, function, threads, batch, waits)


def share_items(
    items: Iterator[A], function: Callable[[A], None], threads: int, batch: int, waits: bool
) -> None:
    """Call a function for every item on several threads, each taking a batch at a time."""
    lock, stop = threading.Lock(), threading.Event()

    def work() -> None:
        with abandoned_when(stop.is_set):
            while not stop.is_set():
                with lock:
                    some = list(itertools.islice(items, batch))
                if not some:
                    return
                for item in some:
                    if stop.is_set():
                        return
                    function(item)

    run_on_threads(work, threads, stop.set, waits=waits)


# Requests


class ThreadPool:
    """A pool of at most `size` threads, by default the setting `requests`.

    An executor of the standard library would be waited for when the interpreter ends: a request
    to a server that does not answer, long abandoned, would hold it for minutes. Its locks are also
    not for finalisers, which may run while this thread has them. A forked child starts anew.
    """

    def __init__(self, size: int | None, name: str) -> None:
        self._size, self._name = size, name
        self._reset()
        fork.on_fork(in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._count = self._idle = 0  # threads; those that no job was put for
        self._queued = 0  # jobs that were put for the next thread that ends another one
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Return the future of a call; without a free or new thread it is made here and now."""
        future: Future[R] = Future()
        job = partial(settle, future, partial(function, *args, **kwargs))
        if sys.is_finalizing() or not self._hand_over(job):
            job()
        return future

    def _hand_over(self, job: Callable[[], None]) -> bool:
        with locked(INTERNAL, ()), self._lock:
            if self._idle:
                self._idle -= 1
            elif not self._start():
                if not self._count:
                    return False
                self._queued += 1
            self._waiting.put(job)
            return True

    def _start(self) -> bool:
        """Start a thread unless the pool is full; return True if one was started."""
        if self._count >= (self._size or config.get().requests):
            return False
        self._count += 1
        started = start_thread(self._work, self._name)
        self._count -= not started
        return started

    def _work(self) -> None:
        _request.pool = self
        while True:
            self._waiting.get()()
            with self._lock:
                if self._queued:
                    self._queued -= 1
                else:
                    self._idle += 1


def settle(future: Future[R], function: Callable[[], R]) -> None:
    """Settle a future by calling a function, unless the future is cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as e:  # raised where the result is asked for
        future.set_exception(e)


class _Request(threading.local):
    """The state of a thread that sends requests."""

    pool: ThreadPool | None = None  # that it belongs to
    ends: tuple[Callable[[], bool], ...] = ()  # True of one: nobody waits for the answer


_request = _Request()
_requests = ThreadPool(None, "omnizarr-request")


def in_parallel(
    function: Callable[[A], R], items: Sequence[A], at_once: int | None = None
) -> list[R]:
    """Return the results for all items, in order; `at_once` limits the calls at a time."""
    # Neither the pool's own threads nor a finaliser may wait for what their own thread holds.
    if len(items) < 2 or _request.pool is _requests or holds_below(INTERNAL + 1):
        return [function(item) for item in items]
    return _Batch(function, items).run(at_once)


class _Batch(Generic[A, R]):
    """Calls for many items: threads take the next item themselves, without a hand-over for each."""

    def __init__(self, function: Callable[[A], R], items: Sequence[A]) -> None:
        self._function, self._items = function, items
        self._next = itertools.count()  # atomic
        self._results: list[Any] = [None] * len(items)
        self._errors: list[tuple[int, BaseException]] = []
        self._ended = threading.Event()  # no more calls
        self._ends = (*_request.ends, self._ended.is_set)
        self._settings = config.get()
        self._lock = threading.Lock()
        self._workers = 0  # that have been submitted and have not left
        self._left = Ending()

    def run(self, at_once: int | None) -> list[R]:
        try:
            count = len(self._items)
            self._workers = min(count, self._settings.requests, at_once or count)
            for _ in range(self._workers):
                _requests.submit(self._work)
            self._left.wait()
        except BaseException:  # of a signal handler
            self._ended.set()
            self._left.wait(INTERRUPT_WAIT)
            raise
        if self._errors:
            raise min(self._errors, key=lambda e: (isinstance(e[1], Abandoned), e[0]))[1]
        return cast("list[R]", self._results)

    def _work(self) -> None:
        settings = config.inherit(self._settings)
        try:
            with abandoned_when(*self._ends):
                for number in self._next:
                    if number >= len(self._items) or self._ended.is_set():
                        break
                    self._results[number] = self._function(self._items[number])
                    # Other calls come in between, unless this was the last one.
                    if number + 1 < len(self._items) and not _requests._waiting.empty():
                        _requests.submit(self._work)
                        return
        except BaseException as e:  # raised where the results are asked for
            self._errors.append((number, e))
            self._ended.set()
        finally:
            config.inherit(settings)
        with self._lock:
            self._workers -= 1
            if not self._workers:
                self._left.set()


def interruptible(function: Callable[[], R]) -> R:
    """Return the result of a slow function that ignores signals, but let signals interrupt it."""
    # Only the main thread receives signals, so there another thread makes the call.
    if threading.get_ident() != threading.main_thread().ident:
        return function()
    return _Batch(lambda _: function(), [None]).run(1)[0]


def check_waited_for() -> None:
    """Raise `Abandoned` if nobody waits for this thread's result: it must not store it late."""
    if any(ended() for ended in _request.ends):
        raise Abandoned


@contextmanager
def abandoned_when(*ended: Callable[[], bool]) -> Iterator[None]:
    """Abandon requests of this thread inside the block when one of the functions returns True."""
    before = _request.ends
    _request.ends = (*before, *ended)
    try:
        yield
    finally:
        _request.ends = before


def _reset() -> None:
    global _used, _counted
    _used, _counted = _Used(), _CountedThread()
    _job_slots.clear()
    _request.pool, _request.ends = None, ()


fork.on_fork(in_child=_reset)
