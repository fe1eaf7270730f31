"""The thread pool: concurrent requests, errors that cancel the rest, and forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnizarr import config, configure
from omnizarr.concurrency import pool
from omnizarr.concurrency.executors import for_each_on
from omnizarr.concurrency.pool import (
    ThreadPool,
    abandoned_when,
    for_each,
    in_parallel,
    interruptible,
    is_abandoned,
)
from omnizarr.errors import StoreError


def test_the_first_error_ends_the_rest() -> None:
    started = []

    def work(number: int) -> int:
        started.append(number)
        if number == 3:
            raise StoreError("broken")
        time.sleep(0.01)
        return number

    with pytest.raises(StoreError, match="broken"):
        in_parallel(work, range(5000))
    assert len(started) < 5000


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
def test_an_error_is_raised_when_the_calls_that_have_begun_have_ended(
    call: Callable[[Callable[[int], None], range], object],
) -> None:
    begun, running = threading.Event(), set[int]()

    def work(number: int) -> None:
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
            call(work, range(200))
        assert running == set()


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

    def interrupt() -> None:
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt), configure(threads=2):
            call(work)
        assert (running == []) == ended
    finally:
        signal.signal(signal.SIGINT, before)
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
        assert in_parallel(lambda _: is_abandoned(), range(3)) == [False] * 3
        ended.set()
        assert in_parallel(lambda _: is_abandoned(), range(3)) == [True] * 3
    assert not is_abandoned()


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

    callers = [threading.Thread(target=submit, daemon=True) for _ in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for each in callers:
            each.start()
        for each in callers:
            each.join(timeout=30)
    finally:
        sys.setswitchinterval(interval)
    assert not any(each.is_alive() for each in callers)
