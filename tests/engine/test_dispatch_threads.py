"""Threads that write different parts of one chunk or shard all succeed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.parallel import repeating

LAYOUTS: dict[str, dict[str, Any]] = {
    "one chunk": {"chunks": (64,)},
    "one shard": {"chunks": (8,), "shards": (64,)},
    "one shard of the draft": {"chunks": (8,), "shards": (64,), "zarr_format": "3-draft"},
}


@pytest.mark.shows("SH-26")
@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("where", ["memory", "directory"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_concurrent_updates_are_not_lost(
    layout: str, where: str, engine: str, tmp_path: Path
) -> None:
    store = oz.storage.MemoryStore() if where == "memory" else oz.storage.LocalStore(tmp_path)
    array = oz.create_array(store, shape=64, dtype="i4", **LAYOUTS[layout])
    rounds = 12

    def work(number: int) -> None:
        own = oz.open(store, "r+")
        with oz.configure(engine=engine):
            for value in range(1, rounds + 1):
                own[number * 8 : number * 8 + 8] = value * (number + 1)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, n) for n in range(8)]:
            done.result()
    wanted = np.repeat(np.arange(1, 9) * rounds, 8)
    assert np.array_equal(array[...], wanted)


def test_concurrent_scattered_writes_are_not_lost() -> None:
    array = oz.create_array(None, shape=(16, 16), dtype="i4", chunks=(16, 16))

    def work(number: int) -> None:
        for _ in range(10):
            array.oindex[[number, number + 8, (number + 4) % 8], :] = number + 1
            array.vindex[[number] * 16, list(range(16))] = number + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert set(array[8:, 0].tolist()) == set(range(1, 9))
    assert (array[...] > 0).all()


def test_a_shard_in_memory_that_is_replaced_while_it_is_read_in_parts_is_read_again() -> None:
    """Of other stores: tests/faults/test_concurrent_writers.py."""
    store = oz.storage.MemoryStore()
    array = oz.create_array(store, shape=64, dtype="i4", chunks=8, shards=64, compressors=None)
    array[...] = expected = np.repeat(np.arange(1, 9), 8)
    own = oz.open(store, "r+")

    def rewrite() -> None:
        own[:8] = 0  # the fill value: the others move to the front of the shard
        own[:8] = 1

    with repeating(rewrite), oz.configure(engine="reference"):
        for _ in range(100):
            assert np.array_equal(array[20:60], expected[20:60])


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", ["SQLiteStore", "LMDBStore"])
def test_a_shorter_shard_after_the_index_was_read_is_no_damage(
    name: str, cached: bool, tmp_path: Path
) -> None:
    if name == "LMDBStore":
        pytest.importorskip("lmdb")
    made: Any = getattr(oz.storage, name)
    later: list[bytes] = []

    class Replaced(made):  # type: ignore[misc]
        """A database in which somebody replaces the shard after each read of a part."""

        def get_many(self, requests: Any) -> Any:
            wanted = [*requests]
            found = super().get_many(wanted)
            self._replace(*wanted[0])
            return found

        def get_versioned(self, key: str, range: Any = None) -> Any:
            found = super().get_versioned(key, range)
            self._replace(key, range)
            return found

        def _replace(self, key: str, part: Any) -> None:
            if part is not None and later:
                self.set(key, later.pop(0))

    store = Replaced(tmp_path / "a.db")
    options: Any = {"shape": 512, "dtype": "i4", "chunks": 64, "shards": 512, "compressors": None}
    array = oz.create_array(store, **options)
    shards = []
    for version in range(6):  # each has an inner chunk less, which is larger than the index
        array[...] = version + 1
        array[: 64 * version] = 0
        shards.append(store.get("c/0"))
    sizes = [*map(len, shards)]
    assert sizes == sorted(sizes, reverse=True)
    store.set("c/0", shards[0])
    later[:] = shards[1:]
    with oz.configure(engine="reference", chunk_cache="1MB" if cached else None):
        found = array[448:].tolist()
    assert not later  # all of them were stored meanwhile
    assert found == [6] * 64
    store.set("c/0", shards[0][:-500] + shards[0][-132:])  # this one is damaged
    with (
        oz.configure(chunk_cache="1MB" if cached else None),
        pytest.raises(oz.errors.ChunkError, match="shard is shorter"),
    ):
        _ = array[448:]
    store.close()
