"""Stores that fetch many values per call are called few times."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import ChunkError, StoreError
from omnizarr.formats import is_metadata
from omnizarr.stores import Range
from tests.conformance.key_value import SmallestStore


class Far(SmallestStore):
    """Values in memory behind requests that are counted, one list per call."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)
        self.calls: list[list[tuple[str, Range | None]]] = []
        self.broken: set[str] = set()
        self._lock = threading.Lock()

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = list(requests)
        with self._lock:
            self.calls.append(asked)
        if self.broken.intersection(key for key, _ in asked):
            raise StoreError("the network is down")
        return [super(Far, self).get(key, part) for key, part in asked]


def far(data: np.ndarray[Any, Any], **options: Any) -> tuple[Far, oz.Array]:
    values: dict[str, bytes] = {}
    oz.create_array(values, data=data, **options)
    store = Far(values)
    array = oz.open(store)
    store.calls.clear()
    return store, array


DATA = np.random.default_rng(3).integers(0, 1000, (64, 64, 64)).astype("u2")


@pytest.mark.parametrize("threads", [1, 4])
def test_a_full_read_requests_every_chunk_once_in_few_calls(threads: int) -> None:
    store, array = far(DATA, chunks=(8, 16, 16))
    with oz.configure(threads=threads):
        assert np.array_equal(array[...], DATA)
    keys = [key for call in store.calls for key, _ in call]
    assert len(keys) == len(set(keys)) == 8 * 4 * 4
    assert len(store.calls) == 1


def test_the_bytes_in_flight_bound_a_batch() -> None:
    large = np.concatenate([DATA] * 4)
    store, array = far(large, chunks=(8, 32, 32), codecs=["bytes"])
    with oz.configure(in_flight="1 MiB", threads=2):
        assert np.array_equal(array[...], large)
    # Of 128 chunks of 16 KiB, each of two threads fetches half a MiB and decodes it.
    assert [len(call) for call in store.calls] == [32] * 4


@pytest.mark.shows("SH-21")
def test_a_box_in_shards_takes_one_call_for_indexes_and_one_for_ranges() -> None:
    store, array = far(DATA, chunks=(8, 8, 8), shards=(32, 32, 32), codecs=["bytes", "crc32c"])
    box = (slice(20, 50), slice(3, 60), slice(30, 34))
    assert np.array_equal(array[box], DATA[box])
    assert len(store.calls) == 2
    indexes, parts = store.calls
    assert len(indexes) == 8
    assert {part for _, part in indexes} == {Range(-(64 * 16 + 4))}
    assert {key for key, _ in parts} == {key for key, _ in indexes}
    assert len(parts) == len({key for key, _ in parts})  # neighbours are fetched together


@pytest.mark.shows("SH-22")
def test_whole_shards_take_one_request_each_in_one_call() -> None:
    store, array = far(DATA, chunks=(8, 8, 8), shards=(32, 32, 32))
    assert np.array_equal(array[...], DATA)
    assert [len(call) for call in store.calls] == [8]
    assert {part for call in store.calls for _, part in call} == {None}


@pytest.mark.shows("DX-25", "DX-26")
def test_slicing_draft_shards_takes_two_calls() -> None:
    store, array = far(DATA, chunks=(8, 8, 8), shards=(32, 32, 32), zarr_format="3-draft")
    box = (slice(20, 50), slice(3, 60), slice(30, 34))
    assert np.array_equal(array[box], DATA[box])
    assert [len(call) for call in store.calls] == [8, 8]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failed_batch_names_the_chunk_that_failed(threads: int) -> None:
    store, array = far(DATA, chunks=(32, 32, 32))
    store.broken = {"c/1/0/1"}
    with oz.configure(threads=threads):
        with pytest.raises(ChunkError, match=r"chunk \(1, 0, 1\) of /.*the network is down"):
            array[...]
        assert np.array_equal(array[:32], DATA[:32])


@pytest.mark.parametrize("threads", [1, 4])
def test_a_damaged_chunk_in_a_batch_is_named(threads: int) -> None:
    store, array = far(DATA, chunks=(8, 8, 8), shards=(32, 32, 32), codecs=["bytes", "crc32c"])
    value = bytearray(store.values["c/1/1/0"])
    value[-8] ^= 255
    store.values["c/1/1/0"] = bytes(value)
    with (
        oz.configure(threads=threads),
        pytest.raises(ChunkError, match=r"chunk \(1, 1, 0\) of /.*index of the shard.*crc32c"),
    ):
        array[5:60, 5:60, 5:60]


@pytest.mark.shows("DX-26")
def test_a_full_write_sets_every_draft_shard_once() -> None:
    values: dict[str, bytes] = {}
    oz.create_array(
        values, shape=(64, 64), dtype="u2", chunks=(8, 8), shards=(32, 32), zarr_format="3-draft"
    )
    store = Far(values)
    stored: list[str] = []
    plain = store.set
    store.set = lambda key, value: (stored.append(key), plain(key, value))[1]  # type: ignore[method-assign]
    array = oz.open(store, "r+")
    store.calls.clear()
    array[...] = DATA[0]
    assert len(stored) == len(set(stored)) == 4
    assert store.calls == []
    stored.clear()
    array[1:3, 1:50] = 7  # parts of chunks in two shards
    assert len(stored) == len(set(stored)) == 2
    wanted = DATA[0].copy()
    wanted[1:3, 1:50] = 7
    assert np.array_equal(array[...], wanted)


class FarWrites(Far):
    """A store that can also set many values in one call."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)
        self.stored: list[list[str]] = []
        self.single: list[str] = []

    def set(self, key: str, value: Any) -> None:
        self.single.append(key)
        super().set(key, value)

    def set_many(self, values: Iterable[tuple[str, Any]]) -> None:
        given = list(values)
        with self._lock:
            self.stored.append([key for key, _ in given])
        self.values.update((key, bytes(value)) for key, value in given)


@pytest.mark.parametrize("threads", [1, 2])
def test_writes_take_one_call_per_thread(threads: int) -> None:
    store = FarWrites({})
    array = oz.create_array(store, shape=DATA.shape, dtype="u2", chunks=(8, 16, 16))
    store.single.clear()
    store.calls.clear()
    with oz.configure(threads=threads):
        array[...] = DATA
        assert len(store.stored) == threads
        assert sorted(k for keys in store.stored for k in keys) == sorted(
            f"c/{i}/{j}/{k}" for i in range(8) for j in range(4) for k in range(4)
        )
        assert (store.single, store.calls) == ([], [])
        wanted = DATA.copy()
        wanted[3:40, 5:20, 7:60] = 0  # chunks vanish, others are changed in part
        array[3:40, 5:20, 7:60] = 0
        assert np.array_equal(array[...], wanted)
        array[...] = 0
    assert list(store.values) == ["zarr.json"]


def test_a_failed_write_is_reported() -> None:
    class Broken(FarWrites):
        def set(self, key: str, value: Any) -> None:
            if not is_metadata(key):
                raise StoreError("the network is down")
            super().set(key, value)

        def set_many(self, values: Iterable[tuple[str, Any]]) -> None:
            for row in values:
                self.set(*row)

    array = oz.create_array(Broken({}), shape=DATA.shape, dtype="u2", chunks=(8, 16, 16))
    with pytest.raises(ChunkError, match=r"cannot write chunk \(.*the network is down"):
        array[...] = DATA
