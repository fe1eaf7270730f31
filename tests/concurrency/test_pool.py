"""The thread pool: concurrent requests, errors that cancel the rest, and forks."""

from __future__ import annotations

import os
import threading
import time

import pytest

from omnizarr.concurrency import pool
from omnizarr.concurrency.pool import ThreadPool, abandoned_when, in_parallel, is_abandoned
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


def test_requests_inside_requests_do_not_wait_for_themselves() -> None:
    def inner(number: int) -> int:
        return sum(in_parallel(lambda n: n * number, [1, 2]))

    results: list[list[int]] = []
    thread = threading.Thread(target=lambda: results.append(in_parallel(inner, range(200))))
    thread.daemon = True
    thread.start()
    thread.join(30)
    assert results == [[3 * n for n in range(200)]]


def test_results_come_in_order() -> None:
    def work(number: int) -> int:
        time.sleep(0.001 * (20 - number))
        return number

    assert in_parallel(work, range(20)) == list(range(20))


def test_a_request_is_abandoned_with_those_that_asked_for_it() -> None:
    ended = threading.Event()
    with abandoned_when(ended.is_set):
        assert in_parallel(lambda _: is_abandoned(), range(3)) == [False] * 3
        ended.set()
        assert in_parallel(lambda _: is_abandoned(), range(3)) == [True] * 3
    assert not is_abandoned()


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_its_own_pool() -> None:
    assert in_parallel(lambda n: n, range(8)) == list(range(8))
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = in_parallel(lambda n: n, range(8)) == list(range(8))
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
