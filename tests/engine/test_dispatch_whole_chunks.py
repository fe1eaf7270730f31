"""Whole chunks are written without a lock and without other requests."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import key_locks
from omnizarr.stores import LocalStore
from omnizarr.testing import RecordingStore

_events: Counter[str] | None = None


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _events is None:
        return
    if event == "open" and ".__omnizarr_lock__" in str(args[0]):
        _events["lock file"] += 1
    elif event.startswith("fcntl."):
        _events["lock"] += 1


sys.addaudithook(_hear)


@contextmanager
def heard() -> Iterator[Counter[str]]:
    """Record the lock calls of this process while the block runs."""
    global _events
    _events = Counter()
    try:
        yield _events
    finally:
        _events = None


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return the keys whose locks threads take, as they take them."""
    taken: list[set[str]] = []
    find = key_locks._find

    def noted(level: int, keys: set[str]) -> Any:
        taken.append(keys)
        return find(level, keys)

    monkeypatch.setattr(key_locks, "_find", noted)
    return taken


OPTIONS: list[dict[str, Any]] = [{"chunks": (10,)}, {"chunks": (5,), "shards": (10,)}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_whole_chunks_take_no_lock_and_parts_do(
    tmp_path: Path, turned: list[set[str]], options: dict[str, Any], engine: str
) -> None:
    array = oz.create_array(tmp_path / "x", shape=(95,), dtype="i4", **options)
    with oz.configure(engine=engine):
        with heard() as whole:
            array[:90] = np.arange(90)
            array[20:50] = 1
        assert (whole, turned) == (Counter(), [])
        for part, key in ((slice(3, 8), "c/0"), (slice(90, None), "c/9")):
            with heard() as locks:
                array[part] = 3  # others may append to the last chunk
            assert locks["lock"] >= 2
            assert locks["lock file"] == 1
            assert turned.pop(0) == {key}
            turned.clear()


@pytest.mark.parametrize("options", OPTIONS)
def test_writing_a_whole_chunk_makes_no_other_request(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    store = RecordingStore(LocalStore(tmp_path / "x"))
    array = oz.create_array(store, shape=(40,), dtype="i4", **options)
    before = store.counts()
    array[:] = np.arange(40)
    assert sum((store.counts() - before)[kind] for kind in ("set", "set_many")) in range(1, 5)
    assert set(store.counts() - before) <= {"set", "set_many"}
