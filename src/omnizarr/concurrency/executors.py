"""Call a function for many items: on threads, on processes, or on an executor of the user.

An executor is one of `concurrent.futures`, or a client of a Dask cluster, which offers one. Items
are taken from an iterator as workers become free: never more than a few for each worker are
submitted, so that a million items need no more memory than a thousand.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from omnizarr import config
from omnizarr.concurrency.pool import INTERRUPT_WAIT, Abandoned, settle, share_items
from omnizarr.errors import StoreError, WrongType

A = TypeVar("A")
R = TypeVar("R")

GRACE = 5  # seconds that a worker process goes on after SIGTERM
WINDOW = 4  # items for each worker that are submitted at a time
# Errors of `concurrent.futures` and Dask about workers that died, several times with Dask.
LOST_WORKER = ("BrokenProcessPool", "BrokenExecutor", "KilledWorker")
On: TypeAlias = Any  # None, "threads", "processes", an executor, or a client of a Dask cluster
# Settings that change results, so that workers need those of the caller; the others, such as the
# number of threads, depend on the worker's machine.
SHARED = ("engine", "durability", "fallback", "v1_order", "write_empty_chunks", "codecs")


def for_each_on(
    on: On,
    workers: int | None,
    items: Iterator[A],
    function: Callable[[A], R],
    done: Callable[[A, R], None],
    *,
    waits: bool = True,
) -> None:
    """Call `function` for all items, and `done` with each item and result as they come.

    `on` is None or ``"threads"``, ``"processes"``, an executor, or a Dask client; `workers` is the
    number of threads or processes. `done` is called by one thread at a time. The first error stops
    the rest and is raised when the calls that have begun have ended, except on a Dask cluster,
    which does not tell which have. Without `waits`, or on an executor, an interrupt waits for
    `INTERRUPT_WAIT` only.
    """
    if on is None or on == "threads":
        tell, threads = threading.Lock(), workers or config.get().threads

        def work(item: A) -> None:
            result = function(item)
            with tell:
                done(item, result)

        with config.configure(threads=max(threads, config.get().threads)):
            share_items(items, work, threads, 1, waits)
        return
    with _executor(on, workers) as (executor, count):
        _on_executor(executor, WINDOW * count, items, function, done)


def tasks_at_once(on: On, workers: int | None) -> int:
    """Return how many calls run at a time in one process, which share its memory."""
    if on is None or on == "threads":
        return workers or config.get().threads
    if _is_dask(on):
        return max(on.nthreads().values(), default=1)
    return getattr(on, "_max_workers", 1) if runs_in_process(on) else 1


def runs_in_process(on: On) -> bool:
    """Return True if calls run on threads of this process, so that they share its memory."""
    return on is None or on == "threads" or isinstance(on, ThreadPoolExecutor)


def _is_dask(on: Any) -> bool:
    return hasattr(on, "submit") and hasattr(on, "nthreads")


def _call(function: Callable[[A], R], settings: dict[str, Any], item: A) -> R:
    """Call a function with the settings of the caller, perhaps in another process."""
    with config.configure(**settings):
        return function(item)


def _on_executor(
    executor: Any,
    window: int,
    items: Iterator[A],
    function: Callable[[A], R],
    done: Callable[[A, R], None],
) -> None:
    settings = config.get()
    call = partial(_call, function, {name: getattr(settings, name) for name in SHARED})
    running: dict[Future[R], A] = {}
    # Not `concurrent.futures.wait`, which visits all futures for each one that is done.
    ended: SimpleQueue[Future[R]] = SimpleQueue()
    try:
        for item in items:
            future = executor.submit(call, item)
            running[future] = item
            future.add_done_callback(ended.put)
            while len(running) >= window or not ended.empty():
                _collect(ended.get(), running, done)
        while running:
            _collect(ended.get(), running, done)
    except BaseException as e:
        if not isinstance(executor, _DaskExecutor):  # Dask forgets futures that nobody has
            begun = [future for future in running if not future.cancel()]
            wait(begun, None if isinstance(e, (Exception, Abandoned)) else INTERRUPT_WAIT)
        raise


def _collect(future: Future[R], running: dict[Future[R], A], done: Callable[[A, R], None]) -> None:
    """Pass on the result of a call that has ended."""
    item = running[future]
    try:
        result = future.result()
    except Exception as e:
        if type(e).__name__ not in LOST_WORKER:
            raise
        raise StoreError(f"a worker process was lost: {e}") from e
    del running[future]
    done(item, result)


class _DaskExecutor:
    """A Dask client as an executor; Dask's own takes a result for an error if a worker is lost."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, function: Callable[[A], R], item: A) -> Future[R]:
        """Return the future result of a call on the cluster."""
        found: Future[R] = Future()
        theirs = self._client.submit(function, item, pure=False)
        theirs.add_done_callback(lambda ended: settle(found, ended.result))
        return found


def _start_worker() -> None:
    """Prepare a worker process: use one thread, and leave Ctrl-C to the parent.

    The same holds for SIGTERM, which batch systems send to all processes: a worker may complete
    what it has begun. If the parent is gone, or has sent the signal itself, `GRACE` ends it.
    """
    config.set(threads=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(GRACE))  # which ends the process


@contextmanager
def _executor(on: On, workers: int | None) -> Iterator[tuple[Any, int]]:
    if on == "processes":
        import multiprocessing  # noqa: PLC0415 - slow to load
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

        count = workers or config.processors()
        # A forked child would have a copy of locks that other threads of this process hold.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker) as pool:
            try:
                yield pool, count
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    elif _is_dask(on):
        yield _DaskExecutor(on), workers or max(1, sum(on.nthreads().values()))
    elif isinstance(on, Executor) or hasattr(on, "submit"):
        yield on, workers or getattr(on, "_max_workers", None) or config.processors()
    else:
        raise WrongType(
            f"on must be 'threads', 'processes', an executor of concurrent.futures, or a Dask"
            f" client, got {on!r}"
        )
