"""Forks: locks are free in children, and no library is inherited in mid-use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial

import pytest

from omnizarr.concurrency import fork
from omnizarr.testing import run_in_fork

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def expect_in_child(check: Callable[[], bool]) -> None:
    """Fail unless a forked child finds that `check` returns True, in time."""

    def expect() -> None:
        assert check()

    run_in_fork(expect)


def test_a_lock_of_another_thread_is_free_in_a_child() -> None:
    lock, held, release = fork.lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    assert not lock.acquire(blocking=False)
    expect_in_child(lambda: lock.acquire(timeout=60))
    release.set()
    thread.join()


def test_a_lock_is_for_the_same_thread_again() -> None:
    """A finaliser may run while its thread has it."""
    lock = fork.lock()
    with lock, lock:
        expect_in_child(lambda: lock.acquire(timeout=60))


@pytest.mark.parametrize("as_finaliser", [False, True])
def test_a_fork_waits_for_those_inside_a_gate_and_closes_before(as_finaliser: bool) -> None:
    gate, inside, seen = fork.LibraryGate(), threading.Event(), list[str]()
    gate.close_before_fork(lambda: seen.append("closed"))

    def use() -> None:
        inside.set()
        threading.Event().wait(0.2)
        seen.append("used")

    def use_inside() -> None:
        with gate:
            use()

    thread = threading.Thread(
        target=partial(gate.call_from_finaliser, use) if as_finaliser else use_inside
    )
    thread.start()
    inside.wait(30)

    def check() -> bool:
        with gate:
            return seen == ["used", "closed"]

    expect_in_child(check)
    thread.join()
    with gate:  # and parents go on
        assert seen == ["used", "closed"]


def test_a_finaliser_that_runs_during_a_fork_is_called_after_it_in_the_parent_only() -> None:
    gate, seen = fork.LibraryGate(), list[str]()
    gate.close_before_fork(lambda: gate.call_from_finaliser(lambda: seen.append("finalised")))
    expect_in_child(lambda: seen == [])
    assert seen == ["finalised"]


def test_inherited_objects_are_not_released_at_the_end_of_the_child() -> None:
    code = """
    import os
    from omnizarr.concurrency import fork
    from omnizarr.testing import run_in_fork
    class Connection:
        def __del__(self):
            print("released", flush=True)
    connection = Connection()
    child = os.fork()
    if not child:
        fork.never_release(connection)
        del connection
        raise SystemExit
    os.waitpid(child, 0)
    print("parent", flush=True)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["parent", "released"]
