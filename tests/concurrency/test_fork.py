"""Forks: locks are free in children, no library is inherited in mid-use; closing what is in use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest

from omnizarr.concurrency import fork, pool
from omnizarr.concurrency.fork import Usage
from omnizarr.errors import StoreError
from omnizarr.testing import run_in_fork
from tests.parallel import held

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
    lock = fork.lock()
    with held(lock):
        assert not lock.acquire(blocking=False)
        expect_in_child(lambda: lock.acquire(timeout=60))


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


@pytest.fixture
def busy() -> Any:
    """Return a usage, which another thread is inside of until an event is set."""
    used = Usage()

    @contextmanager
    def twice() -> Iterator[None]:
        with used, used:
            yield

    with held(twice()) as leave:
        yield used, leave


def test_closing_waits_for_threads_inside_and_keeps_others_out(
    busy: tuple[Usage, threading.Event],
) -> None:
    (used, leave), events = busy, list[str]()
    closing = threading.Thread(target=lambda: used.close(lambda: events.append("released")))
    closing.start()
    while not used.closed:
        pass
    with pytest.raises(StoreError, match="closed"), used:
        events.append("entered")
    assert events == []
    leave.set()
    closing.join()
    assert events == ["released"]


def test_a_finaliser_closes_what_its_thread_uses_at_the_end_of_that_use() -> None:
    used, events = Usage(), list[str]()
    with used:
        used.close(lambda: events.append("released"))
        assert events == []
    assert events == ["released"]


def test_a_thread_that_does_not_end_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch, busy: tuple[Usage, threading.Event]
) -> None:
    monkeypatch.setattr(fork, "WAIT", 0.05)
    with pytest.raises(StoreError, match="another thread"):
        busy[0].close(lambda: None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_of_its_parent(
    busy: tuple[Usage, threading.Event],
) -> None:
    with busy[0]:
        child = os.fork()
    if child == 0:
        busy[0].close(lambda: os._exit(0))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("make", [lambda: fork.gate, Usage, lambda: pool.bytes_in_flight(1)])
def test_a_finaliser_may_wait_for_another_thread_wherever_its_own_was_interrupted(
    make: Callable[[], AbstractContextManager[Any]],
) -> None:
    """No lock is held at any call of the way in and out, where the interpreter may interrupt."""
    mine, strikes = make(), list[bool]()
    modules = {fork.__file__, pool.__file__}

    def use() -> None:
        with mine if isinstance(mine, Usage | fork.LibraryGate) else make():
            pass

    def strike(frame: Any, event: str, called: object) -> None:
        if frame.f_code.co_filename not in modules:
            return
        if getattr(called, "__name__", "") in ("__enter__", "__exit__"):
            return  # of the lock: the interpreter runs no finaliser before and after these
        sys.setprofile(None)
        other = threading.Thread(target=use, daemon=True)
        other.start()
        other.join(5)
        strikes.append(not other.is_alive())
        sys.setprofile(strike)

    sys.setprofile(strike)
    try:
        with mine:
            pass
    finally:
        sys.setprofile(None)
    assert len(strikes) > 3
    assert all(strikes)
