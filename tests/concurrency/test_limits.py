"""Threads and bytes of all calls together stay within one budget."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import config
from omnizarr.concurrency import limits
from omnizarr.concurrency.pool import for_each, in_parallel, run_on_threads
from omnizarr.stores import Range
from omnizarr.testing import run_in_fork


def nothing() -> None:
    """There is nothing to stop."""


@contextmanager
def threads(wanted: int) -> Iterator[int]:
    """Yield how many threads a call gets until the block ends, its own among them."""
    share = limits.take_threads(wanted, config.get().threads)
    try:
        yield 1 + share[2]
    finally:
        limits.return_threads(share)


class Watched(oz.storage.MemoryStore):
    """Counts the threads that are inside it at the same time, once it has seen some at all."""

    def __init__(self, some: int) -> None:
        super().__init__()
        self.some, self.changed = some, threading.Condition()
        self.now = self.most = 0

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if key.startswith("c/"):
            with self.changed:
                self.now += 1
                self.most = max(self.most, self.now)
                self.changed.notify_all()
                assert self.changed.wait_for(lambda: self.most >= self.some, 60)
            time.sleep(2e-3)
            with self.changed:
                self.now -= 1
        return super().get(key, range)


def watched(some: int) -> tuple[Watched, oz.Array]:
    store = Watched(some)
    data = np.arange(2**18, dtype="u4")
    array = oz.create_array(store, data=data, chunks=(2**13,), codecs=["bytes", "zstd"])
    return store, array


def test_a_call_alone_uses_all_threads_and_not_more() -> None:
    store, array = watched(4)
    with oz.configure(threads=4, engine="reference"):
        assert array[...][-1] == 2**18 - 1
    assert store.most == 4


def test_many_callers_do_not_multiply_threads() -> None:
    store, array = watched(6)
    ready = threading.Barrier(6)

    def read(_: int) -> None:
        with oz.configure(threads=6, engine="reference"):
            ready.wait(60)
            for _ in range(4):
                assert array[...][-1] == 2**18 - 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(read, range(6)))
    # Six callers with six threads each would be 36; a helper may last for one batch.
    assert 6 <= store.most <= 12


@pytest.mark.parametrize(("busy", "most"), [(4, 4), (2, 4), (1, 4)])
def test_a_call_inside_a_worker_gets_the_remaining_threads(busy: int, most: int) -> None:
    seen: list[int] = []
    inside = threading.Barrier(busy)

    def inner() -> None:
        inside.wait(30)
        with threads(8) as count:
            seen.append(count)
            inside.wait(30)  # until all of them are counted

    with oz.configure(threads=most):
        run_on_threads(inner, busy, nothing)
    assert len(seen) == busy
    assert sum(seen) == most


def test_threads_and_bytes_are_released_after_an_error() -> None:
    def fail() -> None:
        raise KeyError("no")

    with oz.configure(threads=3):
        with pytest.raises(KeyError, match="no"):
            run_on_threads(fail, 3, nothing)
        with threads(9) as count:
            assert count == 3
        with limits.bytes_in_flight(100) as granted:
            assert granted == 100
    assert (limits._used.threads, limits._used.nbytes) == (0, 0)


def test_the_byte_budget_is_shared_and_every_call_gets_some() -> None:
    with oz.configure(in_flight=5 * limits.LEAST_BYTES):
        most = 10**12
        with limits.bytes_in_flight(most) as first, limits.bytes_in_flight(most) as second:
            assert (first, second) == (5 * limits.LEAST_BYTES, limits.LEAST_BYTES)
        with limits.bytes_in_flight(10**12) as again:
            assert again == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_all_threads_are_busy_has_its_own() -> None:
    _, array = watched(1)

    def read() -> None:
        with threads(2) as count:
            assert count == 2
        assert array[...][-1] == 2**18 - 1

    with oz.configure(threads=2, engine="reference"), threads(2):
        run_in_fork(read)


def test_a_finaliser_that_runs_while_threads_are_counted_waits_for_no_helper() -> None:
    seen = list[int]()
    with oz.configure(threads=4), limits._used.lock:  # which helpers want when they end
        for_each(iter(range(100)), 100, seen.append, 2**20)
        assert sorted(in_parallel(lambda n: n, range(3))) == [0, 1, 2]
    assert sorted(seen) == [*range(100)]


def test_no_more_tasks_of_a_job_run_at_a_time_than_its_limit() -> None:
    lock, both, running, most = threading.Lock(), threading.Barrier(2), 0, 0

    def work(number: int) -> None:
        nonlocal running, most
        with limits.task_of("mine", 2):
            with lock:
                running += 1
                most = max(most, running)
            both.wait(60)  # breaks, and fails the task, unless two run at a time
            with lock:
                running -= 1

    with ThreadPoolExecutor(8) as executor, limits.task_of("another", 1):
        list(executor.map(work, range(40)))
    assert most == 2
    assert limits._running == {}


def test_an_end_is_found_again_after_an_interrupt_that_came_with_it() -> None:
    """The exception of a signal handler may be raised right after the lock was got."""

    class Interrupt(Exception):
        pass

    def interrupt(_frame: object, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") == "acquire":
            sys.setprofile(None)
            raise Interrupt

    ending = limits.Ending()
    assert not ending.wait(0)
    timer = threading.Timer(0.1, ending.set)
    timer.start()
    sys.setprofile(interrupt)
    with pytest.raises(Interrupt):
        ending.wait()
    assert ending.wait(60)
    timer.join()
