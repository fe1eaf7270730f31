"""Key locks: threads that change one value wait for each other and never deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import key_locks
from omnizarr.hierarchy.attributes import lock_shape
from omnizarr.storage_transformers import indexed_shards
from omnizarr.stores.sqlite import SQLiteStore
from tests.parallel import together


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_locks, "OUT_OF_ORDER_WAIT", 0.2)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_deadlock_of_threads_is_an_error(count: int) -> None:
    """Finalisers can run in the middle of a change and need keys of another thread."""
    keys = [f"c/{n}" for n in range(count)]
    assert len({hash(key) % key_locks.SLOTS for key in keys}) == count
    all_have_one = threading.Barrier(count)
    reported: dict[str, str] = {}
    done: list[str] = []

    def work(number: int) -> None:
        with key_locks.locked(key_locks.CHUNKS, [keys[number]]):
            all_have_one.wait()
            wanted = keys[(number + 1) % count]
            try:
                with key_locks.locked(key_locks.CHUNKS, [wanted]):
                    done.append(wanted)
            except oz.StoreError as e:
                reported[wanted] = str(e)

    together(*(lambda n=n: work(n) for n in range(count)))  # type: ignore[misc]  # n is bound
    assert reported
    assert sorted([*reported, *done]) == keys
    assert all(f"cannot change {key!r}: another thread" in words for key, words in reported.items())


def test_locking_in_order_never_fails_even_if_a_finaliser_waits() -> None:
    both = threading.Barrier(2)
    reported: list[str] = []
    first, second = sorted(("c/0", "c/1"), key=lambda key: hash(key) % key_locks.SLOTS)

    def in_order() -> None:
        with key_locks.locked(key_locks.SHAPE, ["x"]):
            both.wait()
            with key_locks.locked(key_locks.CHUNKS, [first, second]):
                reported.append("done")

    def finaliser() -> None:
        with key_locks.locked(key_locks.CHUNKS, [second]):
            both.wait()
            try:
                with key_locks.locked(key_locks.SHAPE, ["x"]):
                    reported.append("not reported")
            except oz.StoreError:
                reported.append("reported")

    together(in_order, finaliser)
    assert reported == ["reported", "done"]


def test_locking_in_order_waits_without_a_limit() -> None:
    has_it, asked = threading.Event(), threading.Event()
    order: list[str] = []

    def slow() -> None:
        with key_locks.locked(key_locks.CHUNKS, ["c/1"]):
            has_it.set()
            asked.wait(60)
            threading.Event().wait(3 * key_locks.OUT_OF_ORDER_WAIT)
            order.append("slow")

    def waits() -> None:
        with key_locks.locked(key_locks.SHAPE, ["c/0"]):
            has_it.wait(60)
            asked.set()
            with key_locks.locked(key_locks.CHUNKS, ["c/1"]):
                order.append("waited")

    together(slow, waits)
    assert order == ["slow", "waited"]


@pytest.mark.parametrize("kind", ["memory", "directory", "sqlite"])
def test_a_finaliser_cannot_append_to_an_array_its_thread_appends_to(
    kind: str, tmp_path: Path
) -> None:
    stores: dict[str, Callable[[], oz.Store]] = {
        "memory": oz.storage.MemoryStore,
        "directory": lambda: oz.storage.LocalStore(tmp_path),
        "sqlite": lambda: SQLiteStore(tmp_path / "x.sqlite"),
    }
    store = stores[kind]()
    array = oz.create_array(store, shape=4, chunks=4, dtype="i4")
    with (
        lock_shape(array._location),  # as if it struck here
        pytest.raises(oz.StoreError, match="in the middle of changing it"),
    ):
        array.append([1, 2])
    array.append([1, 2])
    assert array[...].tolist() == [0, 0, 0, 0, 1, 2]


def test_a_finaliser_in_the_middle_of_a_shard_of_the_draft_needs_no_help() -> None:
    """Threads that helped it would wait for the turn that its own thread has."""
    data = np.arange(64).reshape(8, 8)
    arrays = [
        oz.create_array(
            oz.storage.MemoryStore(), path="a", data=data, chunks=(2, 2), zarr_format="3-draft",
            storage_transformers=[indexed_shards((2, 2))],
        )
        for _ in range(2)
    ]  # fmt: skip
    shards = [key for key in arrays[0].store.list() if "/c" in key]
    assert len(shards) == 4
    found: list[list[int]] = []

    def strike() -> None:
        with oz.configure(threads=4), key_locks.locked(1, shards):  # as if it struck here
            for array in arrays:
                array[1:7, 1:7] = 0
                found.append(array[...].sum(axis=1).tolist())

    together(strike)
    data[1:7, 1:7] = 0
    assert found == [data.sum(axis=1).tolist()] * 2
