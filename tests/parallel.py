"""Threads and processes of tests: what one of them raises is an error of the test."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread

FORK = multiprocessing.get_context("fork")


def together(*works: Callable[[], object]) -> None:
    """Call each on a thread of its own; a thread that hangs or raises fails the test."""
    errors: list[BaseException] = []

    def call(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as e:
            errors.append(e)

    threads = [Thread(target=call, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@contextmanager
def repeating(act: Callable[[], object]) -> Iterator[None]:
    """Do something again and again in another thread until the block ends."""
    stop = Event()
    thread = Thread(target=lambda: [act() for _ in iter(stop.is_set, True)])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def held(block: AbstractContextManager[object]) -> Iterator[Event]:
    """Be inside a block, such as a lock, in another thread until an event is set, or the end."""
    inside, leave = Event(), Event()

    def hold() -> None:
        with block:
            inside.set()
            leave.wait(60)

    thread = Thread(target=hold)
    thread.start()
    try:
        assert inside.wait(60)
        yield leave
    finally:
        leave.set()
        thread.join()


def run_processes(*works: Callable[[], object]) -> None:
    """Call each in a forked process; one that hangs or raises fails the test."""
    processes = [FORK.Process(target=work, daemon=True) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(works)
