"""Threads that never keep the process from ending, and none where the process can start none."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar
from weakref import ref

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 5.0  # seconds that a thread may take to begin


def start(work: Callable[[], object], name: str) -> bool:
    """Whether `work` runs in a thread of its own now.

    None can be started while the interpreter ends (`atexit`, finalisers), nor at a limit of the
    system; then the caller does the work itself. ``Thread.start`` would wait for ever for a thread
    that finds no memory to begin with; here it is known that it has gone.
    """
    if sys.is_finalizing():
        return False
    thread = _Thread(work, name)
    run = partial(thread.begin)
    gone = ref(run, thread.news.put)  # which needs no memory of its own
    try:
        _thread.start_new_thread(run, ())
    except (RuntimeError, MemoryError):
        return False
    del run  # the thread has it alone
    return thread.has_begun(gone)


class _Thread:
    """Work that its thread does, if that begins before it is given up."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work, self._name = work, name
        self._taken = threading.Lock()
        self.news: SimpleQueue[object] = SimpleQueue()

    def begin(self) -> None:
        self.news.put("begun")
        if self._taken.acquire(blocking=False):
            self._work()

    def has_begun(self, gone: object) -> bool:
        """Whether the thread is at work; otherwise it will not be."""
        try:
            news = self.news.get(timeout=PATIENCE)
        except Empty:
            news = gone
        return news is not gone or not self._taken.acquire(blocking=False)

    def __repr__(self) -> str:
        """What an error says that a thread meets before it has begun."""
        return self._name


class Crew:
    """Up to so many threads that do what is submitted, and wait for more.

    An executor of the standard library would be waited for when the interpreter ends: a request
    to a server that does not answer, long given up, would hold it for minutes. Its locks are also
    not for finalisers, which may strike while this thread has them.
    """

    def __init__(self, most: int, name: str, begin: Callable[[], object] = tuple) -> None:
        """Threads begin with `begin`."""
        self._most, self._name, self._begin = most, name, begin
        self._lock = threading.RLock()
        self._count = self._idle = 0
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """What `function` will give; called here and now where there is no thread for it."""
        future: Future[T] = Future()
        job = partial(_do, future, partial(function, *args, **kwargs))
        if sys.is_finalizing() or not self._hand_over(job):
            job()
        return future

    def _hand_over(self, job: Callable[[], None]) -> bool:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count < self._most:
                self._count += 1
                if not start(self._work, self._name):
                    self._count -= 1
            if self._count:
                self._waiting.put(job)
            return self._count > 0

    def _work(self) -> None:
        self._begin()
        self._waiting.get()()
        while True:
            with self._lock:
                if not (free := self._waiting.empty()):
                    job = self._waiting.get()
                else:
                    self._idle += 1
            if free:
                self._waiting.get()()
            else:
                job()
                del job  # a thread that waits must not keep the store of its last job


def _do(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as e:  # raised where the result is asked for
        future.set_exception(e)
