"""Closing what several threads use."""

from __future__ import annotations

import os
import threading

import pytest

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import Usage
from omnizarr.errors import StoreError


def test_closing_waits_for_threads_inside_and_keeps_others_out() -> None:
    used, events, inside, leave = Usage(), list[str](), threading.Event(), threading.Event()

    def use() -> None:
        with used, used:
            inside.set()
            leave.wait()
            events.append("used")

    threads = [
        threading.Thread(target=use),
        threading.Thread(target=lambda: used.close(lambda: events.append("released"))),
    ]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while not used.closed:
        pass
    with pytest.raises(StoreError, match="closed"), used:
        events.append("entered")
    leave.set()
    for thread in threads:
        thread.join()
    assert events == ["used", "released"]


def test_a_finaliser_closes_what_its_thread_uses_at_the_end_of_that_use() -> None:
    used, events = Usage(), list[str]()
    with used:
        used.close(lambda: events.append("released"))
        assert events == []
    assert events == ["released"]


def test_a_thread_that_does_not_end_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork, "WAIT", 0.05)
    used, inside, leave = Usage(), threading.Event(), threading.Event()

    def use() -> None:
        with used:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=use)
    thread.start()
    inside.wait()
    with pytest.raises(StoreError, match="another thread"):
        used.close(lambda: None)
    leave.set()
    thread.join()
    used.close(lambda: None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_of_its_parent() -> None:
    used, inside, leave = Usage(), threading.Event(), threading.Event()

    def use() -> None:
        with used:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=use)
    thread.start()
    inside.wait()
    with used:
        child = os.fork()
    if child == 0:
        used.close(lambda: os._exit(0))
        os._exit(1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
