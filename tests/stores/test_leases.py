"""Leases: writers that were paused, lost answers, and what a lock leaves behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import leases
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.object.store import ObjectStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.hierarchy.test_attributes import ComparingStore
from tests.parallel import FORK
from tests.sampling import ALL, SEED
from tests.servers.processes import s3_options, simple_storage
from tests.servers.redis import redis_server

CHANGES = ("set", "set_many", "set_if", "change_if", "erase")
WAKE = 5  # seconds until a writer that may hold a lock goes on
OLD, OURS, THEIRS = np.arange(1, 7), np.arange(101, 111), np.arange(201, 211)


KINDS = ("SQLite", "LMDB", "Redis", "S3")


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Return a function that opens the same empty store again."""
    with ExitStack() as servers:
        if request.param == "SQLite":
            yield lambda: SQLiteStore(tmp_path / "x.sqlite")
        elif request.param == "LMDB":
            yield lambda: LMDBStore(tmp_path / "x.lmdb")
        elif request.param == "Redis":
            url = servers.enter_context(redis_server(tmp_path))
            yield lambda: RedisStore(url)
        else:
            port = servers.enter_context(simple_storage("bucket"))
            yield lambda: ObjectStore.from_url("s3://bucket", **s3_options(port))


def _stop_before(kind: type, number: int) -> None:
    """Have this process stop itself before one of the changes that it makes in a store."""
    left = [number]
    for name in CHANGES:
        method = getattr(kind, name, None)
        if method is None:
            continue

        def stopping(self: Any, *args: Any, method: Any = method) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
            return method(self, *args)

        setattr(kind, name, stopping)


def _change(opened: Callable[[], Any], number: int, change: Any, answers: Any) -> None:
    store = opened()
    array = oz.open(store, "r+", path="x")
    _stop_before(type(store), number)
    try:
        change(array)
    except Exception as e:
        answers.put((type(e).__name__, str(e)))
    else:
        answers.put(("done", ""))


def _paused(opened: Callable[[], Any], number: int, change: Any, meanwhile: Any) -> Any:
    """Return the answer of a writer that was stopped before a change, or None if it has fewer."""
    answers = FORK.SimpleQueue()
    writer = FORK.Process(target=_change, args=(opened, number, change, answers))
    writer.start()
    assert writer.pid is not None
    try:
        while True:
            pid, status = os.waitpid(writer.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                break
            if pid:
                assert os.waitstatus_to_exitcode(status) == 0
                return None
            time.sleep(0.01)
        # The thread that renews the lease may be stopped in a transaction: of SQLite, which says
        # so, or of LMDB, for which others would wait without end.
        woken = threading.Timer(WAKE, os.kill, (writer.pid, signal.SIGCONT))
        woken.start()
        began = time.monotonic()
        try:
            meanwhile()
        except oz.StoreError as e:
            if "database is locked" not in str(e):
                raise
            return "stopped in a transaction", str(e)
        finally:
            woken.cancel()
        if time.monotonic() - began >= WAKE:
            return "stopped in a transaction", ""
        os.kill(writer.pid, signal.SIGCONT)
        answer = answers.get()
        os.waitpid(writer.pid, 0)
        return answer
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(writer.pid, signal.SIGKILL)


def _pauses(
    opened: Callable[[], Any], change: Any, meanwhile: Callable[[Any], None], chunks: int = 4
) -> Iterator[tuple[str, list[int], list[str]]]:
    """Yield the answer of a writer, the values and the locks, after a pause before a change.

    Before every third change, from one that differs from run to run; in `make soak` before all.
    """
    step = 1 if ALL else 3
    for number in range(1 + SEED % step, 30, step):
        with opened() as store:
            oz.create_array(store, path="x", data=OLD, chunks=chunks, overwrite=True)

        def use() -> None:
            with opened() as store:
                meanwhile(store)

        answer = _paused(opened, number, change, use)
        if answer is None:
            break
        if answer[0] == "stopped in a transaction":
            continue
        with opened() as store:
            left = [key for key in store.list() if "lock" in key]
            yield answer[0], oz.open(store, path="x")[:].tolist(), left
    assert number > 3


def _append_ours(store: Any) -> None:
    oz.open(store, "r+", path="x").append(OURS)


def test_a_paused_append_never_writes_over_what_another_appended(
    opened: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.3)
    ours, theirs = [*OLD, *OURS], [*THEIRS]
    allowed = {"done": ([*ours, *theirs], [*OLD, *theirs, *OURS]), "Conflict": (ours,)}
    for answer, found, left in _pauses(opened, lambda a: a.append(THEIRS), _append_ours):
        assert found in allowed[answer]
        assert left == []


@pytest.mark.parametrize("opened", [k for k in KINDS if k != "S3"], indirect=True)
def test_a_paused_resize_erases_nothing_that_another_appended(
    opened: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.3)
    seen: list[int] = []

    def append(store: Any) -> None:
        _append_ours(store)
        seen[:] = oz.open(store, path="x")[:].tolist()

    for answer, found, _ in _pauses(opened, _shrink, append, 2):
        if answer == "Conflict" or len(seen) < len(OLD) + len(OURS):  # it had shrunk before
            assert found == seen
        else:
            assert (answer, found) == ("done", OLD[:2].tolist())


def _shrink(array: oz.Array) -> None:
    array.resize(2, outside="erase")


def _write_all(array: oz.Array) -> None:
    with array.writer() as writer:
        writer[:] = 9


def test_a_paused_writer_of_complete_chunks_keeps_what_another_appended(
    opened: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.3)
    for _, found, _ in _pauses(opened, _write_all, _append_ours):
        assert found == [9] * 6 + OURS.tolist()


def test_an_append_that_was_paused_alone_goes_on(
    opened: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.2)
    with opened() as store:
        oz.create_array(store, path="x", data=OLD, chunks=4)
    answer = _paused(opened, 3, lambda array: array.append(THEIRS), lambda: time.sleep(0.5))
    assert answer == ("done", "")
    with opened() as store:
        assert oz.open(store, path="x")[:].tolist() == [*OLD, *THEIRS]
        assert [key for key in store.list() if "lock" in key] == []


class Forgetful(ComparingStore):
    """Stores a renewal of a lock, and then says nothing, or that it has not."""

    def __init__(self, error: type[Exception] | None) -> None:
        super().__init__()
        self.error, self.lost = error, 0

    def set_if(self, key: str, value: Any, generation: str | None) -> bool:
        done = super().set_if(key, value, generation)
        if "lock" in key and b'"count": 2' in value:
            self.lost += 1
            if self.error is not None:
                raise self.error("the connection was closed")
            return False
        return done


@pytest.mark.parametrize("error", [None, ConnectionError, oz.StoreError])
def test_a_renewal_whose_answer_is_lost_is_no_conflict(
    error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.3)
    store = Forgetful(error)
    with leases.leased(store, "x/", "shape"):
        time.sleep(0.5)
    assert store.lost == 1
    assert [*store.list()] == []


def test_a_lock_that_cannot_be_removed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ComparingStore()
    oz.create_array(store, data=OLD, chunks=4)
    array = oz.open(store, "r+")
    monkeypatch.setattr(store, "erase", lambda key: (_ for _ in ()).throw(ConnectionError("gone")))
    with pytest.warns(oz.OmnizarrWarning, match="was not removed, other writers wait 15 s: gone"):
        array.append(THEIRS)
    assert array[:].tolist() == [*OLD, *THEIRS]
