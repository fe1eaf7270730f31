"""Locks between processes that change parts of one value."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import file_locks
from omnizarr.stores import LocalStore
from tests.parallel import run_processes, together
from tests.sampling import tries

SPAWN = multiprocessing.get_context("spawn")
ROUNDS = tries(40, 400)
FILE = f"{file_locks.NAME}chunks"


def count(path: str, key: str) -> None:
    """Read a number, add one, store it; directly in a group's directory or by way of it."""
    inner = LocalStore(os.path.join(path, "a"))
    outer = LocalStore(path)
    for turn in range(ROUNDS):
        store, prefix = (inner, "") if turn % 2 else (outer, "a/")
        with store.lock_keys(prefix, [prefix + key], "chunks"):
            value = int(store.get(prefix + key) or b"0")
            store.set(prefix + key, str(value + 1).encode())


def hold(path: str, held: Event) -> None:
    with LocalStore(path).lock_keys("", ["k"], "chunks"):
        held.set()
        time.sleep(60)


def set_elements(path: str, first: int) -> None:
    array = oz.open(path, mode="r+")
    for value in range(1, ROUNDS + 1):
        array[first::4] = value


@pytest.fixture(params=["ranges", "whole files"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "whole files":  # as where descriptions own no ranges of bytes
        monkeypatch.setattr(file_locks, "_HAS_RANGES", False)
    return str(request.param)


def test_processes_count_together_and_leave_no_file(tmp_path: Path) -> None:
    run_processes(*[partial(count, str(tmp_path), "n")] * 4)
    assert LocalStore(tmp_path).get("a/n") == str(4 * ROUNDS).encode()
    assert os.listdir(tmp_path / "a") == ["n"]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.shows("SH-26")
@pytest.mark.parametrize("shards", [None, (8,)])
def test_processes_that_change_parts_of_one_chunk_lose_nothing(
    tmp_path: Path, shards: tuple[int] | None
) -> None:
    path = str(tmp_path / "x")
    oz.create_array(path, shape=(8,), chunks=(4,), shards=shards, dtype="i4")
    run_processes(*(partial(set_elements, path, i) for i in range(4)))
    np.testing.assert_array_equal(oz.open(path)[:], np.full(8, ROUNDS))
    assert sorted(os.listdir(path)) == ["c", "zarr.json"]


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    held = SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(str(tmp_path), held))
    process.start()
    assert held.wait(30)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    with LocalStore(tmp_path).lock_keys("", ["k"], "chunks"):
        pass
    assert os.listdir(tmp_path) == []  # what the killed one left is gone too


@pytest.mark.usefixtures("kind")
def test_the_lock_file_exists_only_while_a_lock_is_held(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.lock_keys("a/", ["a/k", "a/l"], "chunks"):
        assert os.listdir(tmp_path / "a") == [FILE]
        assert list(store.list()) == []
        assert store.list_dir("a/") == ([], [])
    assert os.listdir(tmp_path) == []  # nor the folder that it was in


def test_different_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.lock_keys("", ["k"], "chunks"), store.lock_keys("", ["l"], "chunks"):
        assert len(list(tmp_path.iterdir())) == 1
    assert os.listdir(tmp_path) == []


def test_two_that_leave_together_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look for others at the same moment."""
    both, first, lock = threading.Barrier(2, timeout=30), set[int](), file_locks._lock

    def meet(descriptor: int, kind: int, start: int, length: int, *, wait: bool = True) -> None:
        leaves = not wait and descriptor not in first
        if leaves:
            first.add(descriptor)
            both.wait()
        try:
            lock(descriptor, kind, start, length, wait=wait)
        finally:
            if leaves:
                both.wait()

    def hold(key: str) -> None:
        with file_locks.locked_files(str(tmp_path), [key], "chunks"):
            both.wait()

    monkeypatch.setattr(file_locks, "_lock", meet)
    together(partial(hold, "a"), partial(hold, "b"))
    assert len(first) == 2
    assert not list(tmp_path.iterdir())


def test_many_keys_are_one_lock(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.lock_keys("", [f"c/{i}" for i in range(10_000)], "chunks"):
        assert os.listdir(tmp_path) == [FILE]
    assert os.listdir(tmp_path) == []


@contextmanager
def sleeping_child() -> Iterator[None]:
    """Fork a child that does nothing until the end of the block."""
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_forked_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with ExitStack() as children:
        with store.lock_keys("", ["k"], "chunks"):
            children.enter_context(sleeping_child())
        with store.lock_keys("", ["k"], "chunks"):
            pass
        assert os.listdir(tmp_path) == []


def test_a_child_forked_while_a_thread_waits_for_a_lock_does_not_get_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    waiting = threading.Thread(target=lambda: wait_for(store))
    with ExitStack() as children:
        with store.lock_keys("", ["k"], "chunks"):
            waiting.start()
            while len(file_locks._open_files) < 2:
                time.sleep(0.001)
            children.enter_context(sleeping_child())
        waiting.join()
        with store.lock_keys("", ["k"], "chunks"):  # which the child would have by its parent's
            pass
        assert os.listdir(tmp_path) == []


def wait_for(store: LocalStore) -> None:
    with store.lock_keys("", ["k"], "chunks"):
        pass


def test_where_a_file_system_has_no_locks_there_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **options: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    def set_parts(array: oz.Array) -> None:
        array[1:3] = 1
        array[5:7] = 1

    array = oz.create_array(tmp_path, shape=8, chunks=4, dtype="i4")
    monkeypatch.setattr(file_locks, "_lock", refuse)
    with pytest.warns(oz.OmnizarrWarning, match="has no locks between processes") as found:
        set_parts(array)
    assert len(found) == 1
    assert array[...].tolist() == [0, 1, 1, 0] * 2


def test_a_lock_file_that_cannot_be_closed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to store, and what it protects was stored."""
    array = oz.create_array(tmp_path / "a", data=np.arange(6), chunks=4)
    close, failed = os.close, []

    def fail(descriptor: int) -> None:
        close(descriptor)
        failed.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(file_locks.os, "close", fail)
    array[1:3] = 7
    monkeypatch.undo()
    assert failed
    assert array[...].tolist() == [0, 7, 7, 3, 4, 5]


def test_an_error_inside_the_block_is_not_taken_for_one_of_the_lock(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="disk full") as found,
        LocalStore(tmp_path).lock_keys("", ["k"], "chunks"),
    ):
        raise OSError(errno.ENOSPC, "disk full")
    assert type(found.value) is OSError
    assert not os.listdir(tmp_path)


def test_looking_at_a_lock_file_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: True)  # it is removed after this look
    assert file_locks.is_unused(str(tmp_path / "gone" / "lock"), remove=False)
    assert not [*tmp_path.iterdir()]
