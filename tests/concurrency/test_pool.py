"""Threads: concurrent requests, errors that cancel the rest, forks, coroutines, one budget."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import config, configure
from omnizarr.concurrency import pool
from omnizarr.concurrency.executors import for_each_on
from omnizarr.concurrency.pool import (
    Abandoned,
    ThreadPool,
    abandoned_when,
    check_waited_for,
    for_each,
    in_parallel,
    interruptible,
    run_on_threads,
)
from omnizarr.errors import StoreError
from omnizarr.stores import Range
from omnizarr.testing import run_in_fork
from tests.parallel import together


@pytest.mark.parametrize(
    "call",
    [
        in_parallel,
        lambda work, items: for_each(iter(items), len(items), work, 2**20),
        lambda work, items: for_each_on("threads", 4, iter(items), work, lambda *_: None),
        lambda work, items: for_each_on(
            ThreadPoolExecutor(4), 4, iter(items), work, lambda *_: None
        ),
    ],
    ids=["in_parallel", "for_each", "threads", "executor"],
)
def test_an_error_ends_the_rest_and_is_raised_when_the_calls_that_have_begun_have_ended(
    call: Callable[[Callable[[int], None], range], object],
) -> None:
    begun, running, started = threading.Event(), set[int](), list[int]()

    def work(number: int) -> None:
        started.append(number)
        running.add(number)
        try:
            if number == 0:
                begun.wait(60)
                raise StoreError("broken")
            begun.set()
            time.sleep(0.2)
        finally:
            running.discard(number)

    for _ in range(3):
        begun.clear()
        with pytest.raises(StoreError, match="broken"), configure(threads=4):
            call(work, range(2000))
        assert running == set()
    assert len(started) < 3 * 2000


@contextmanager
def interrupted_after(begun: threading.Event) -> Iterator[None]:
    """Press Ctrl-C in the block soon after an event, and take the exception of it."""

    def interrupt() -> None:
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "call",
    [
        lambda work: in_parallel(lambda _: work(), range(4)),
        interruptible,
        lambda work: for_each(iter(range(8)), 8, lambda _: work(), 2**20, waits=False),
        lambda work: for_each_on(
            ThreadPoolExecutor(2), 2, iter(range(8)), lambda _: work(), lambda *_: None
        ),
    ],
    ids=["in_parallel", "interruptible", "for_each", "for_each_on"],
)
@pytest.mark.parametrize(("seconds", "ended"), [(0.3, True), (60.0, False)])
def test_an_interrupt_waits_for_calls_that_have_begun_but_not_for_long(
    call: Callable[[Callable[[], None]], object], seconds: float, ended: bool
) -> None:
    running, begun, over = list[int](), threading.Event(), threading.Event()

    def work() -> None:
        running.append(1)
        begun.set()
        try:
            over.wait(seconds)
        finally:
            running.pop()

    try:
        with interrupted_after(begun), configure(threads=2):
            call(work)
        assert (running == []) == ended
    finally:
        over.set()


def test_requests_inside_requests_do_not_wait_for_themselves() -> None:
    def inner(number: int) -> int:
        return sum(in_parallel(lambda n: n * number, [1, 2]))

    results: list[list[int]] = []
    thread = threading.Thread(target=lambda: results.append(in_parallel(inner, range(200))))
    thread.daemon = True
    thread.start()
    thread.join(30)
    assert results == [[3 * n for n in range(200)]]


def test_calls_at_a_time_are_limited_and_have_the_settings_of_the_caller() -> None:
    running, most = list[int](), list[int]()

    def work(number: int) -> int:
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)
        running.pop()
        return config.get().max_unpacked

    with configure(max_unpacked=12345):
        assert in_parallel(work, range(30), 3) == [12345] * 30
    assert max(most) <= 3
    assert 12345 not in in_parallel(work, range(30))


def test_a_request_is_abandoned_with_those_that_asked_for_it() -> None:
    ended = threading.Event()
    with abandoned_when(ended.is_set):
        in_parallel(lambda _: check_waited_for(), range(3))
        ended.set()
        with pytest.raises(Abandoned):
            in_parallel(lambda _: check_waited_for(), range(3))
        run_in_fork(check_waited_for)
    check_waited_for()


@pytest.mark.parametrize("failing", range(4))
def test_an_abandoned_call_has_no_result_and_hides_no_error(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "INTERRUPT_WAIT", 0.0)
    together, done, ended = threading.Barrier(4), list[int](), list[int]()

    def work(number: int) -> None:
        together.wait()
        if number == failing:
            raise KeyError(number)
        with suppress(Abandoned):
            while True:  # as a request does that is repeated, or a read of many values
                check_waited_for()
        time.sleep(0.02 * number)
        ended.append(number)
        raise Abandoned

    with pytest.raises(KeyError):
        for_each_on("threads", 4, iter(range(4)), work, lambda number, _: done.append(number))
    assert not done
    assert len(ended) == 3
    with pytest.raises(KeyError):
        in_parallel(work, range(4))


def test_a_signal_handler_that_comes_while_a_call_is_handed_over_sends_requests_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []

    def interrupted(work: Callable[[], object], name: str) -> bool:
        sent.extend(in_parallel(lambda _: threading.get_ident(), range(3)))
        return False

    monkeypatch.setattr(pool, "start_thread", interrupted)
    assert ThreadPool(2, "threads").submit(lambda: 5).result() == 5
    assert sent == [threading.get_ident()] * 3


def test_a_thread_that_does_not_begin_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may begin later, and does nothing then."""
    late, done = [], []
    monkeypatch.setattr(pool, "START", 0.01)
    monkeypatch.setattr(pool._thread, "start_new_thread", lambda run, _: late.append(run))
    assert not pool.start_thread(lambda: done.append(1), "test")
    late[0]()
    assert done == []


def test_work_runs_in_the_calling_thread_if_none_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool._thread, "start_new_thread", refuse)
    mine = threading.get_ident()
    assert ThreadPool(4, "test").submit(threading.get_ident).result() == mine
    seen: list[int] = []
    pool.run_on_threads(lambda: seen.append(threading.get_ident()), 4, lambda: None)
    assert seen == [mine]


def test_threads_that_finish_while_others_are_handed_calls_do_not_wait_for_each_other() -> None:
    threads, interval = ThreadPool(3, "test"), sys.getswitchinterval()

    def submit() -> None:
        for _ in range(4000):
            for future in [threads.submit(int) for _ in range(2)]:
                future.result(timeout=20)

    sys.setswitchinterval(1e-6)
    try:
        together(*[submit] * 3)
    finally:
        sys.setswitchinterval(interval)


# The budget


def nothing() -> None:
    """There is nothing to stop."""


@contextmanager
def threads(wanted: int) -> Iterator[int]:
    """Yield how many threads a call gets until the block ends, its own among them."""
    share = pool.take_threads(wanted, config.get().threads)
    try:
        yield 1 + share[2]
    finally:
        pool.return_threads(share)


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

    with ThreadPoolExecutor(6) as callers:
        list(callers.map(read, range(6)))
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
        with pool.bytes_in_flight(100) as granted:
            assert granted == 100
    assert (pool._used.threads, pool._used.nbytes) == (0, 0)


def test_the_byte_budget_is_shared_and_every_call_gets_some() -> None:
    with oz.configure(in_flight=5 * pool.LEAST_BYTES):
        most = 10**12
        with pool.bytes_in_flight(most) as first, pool.bytes_in_flight(most) as second:
            assert (first, second) == (5 * pool.LEAST_BYTES, pool.LEAST_BYTES)
        with pool.bytes_in_flight(10**12) as again:
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
    with oz.configure(threads=4), pool._used.lock:  # which helpers want when they end
        for_each(iter(range(100)), 100, seen.append, 2**20)
        assert sorted(in_parallel(lambda n: n, range(3))) == [0, 1, 2]
    assert sorted(seen) == [*range(100)]


def test_no_more_tasks_of_a_job_run_at_a_time_than_its_limit() -> None:
    lock, both, running, most = threading.Lock(), threading.Barrier(2), 0, 0

    def work(number: int) -> None:
        nonlocal running, most
        with pool.task_of("mine", 2):
            with lock:
                running += 1
                most = max(most, running)
            both.wait(60)  # breaks, and fails the task, unless two run at a time
            with lock:
                running -= 1

    with ThreadPoolExecutor(8) as executor, pool.task_of("another", 1):
        list(executor.map(work, range(40)))
    assert most == 2


def test_an_end_is_found_again_after_an_interrupt_that_came_with_it() -> None:
    """The exception of a signal handler may be raised right after the lock was got."""

    class Interrupt(Exception):
        pass

    def interrupt(_frame: object, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") == "acquire":
            sys.setprofile(None)
            raise Interrupt

    ending = pool.Ending()
    assert not ending.wait(0)
    timer = threading.Timer(0.1, ending.set)
    timer.start()
    sys.setprofile(interrupt)
    with pytest.raises(Interrupt):
        ending.wait()
    assert ending.wait(60)
    timer.join()
