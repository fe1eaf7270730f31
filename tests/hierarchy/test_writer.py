"""Streaming writes: every chunk or shard is stored once, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz

SHAPE = (20, 17, 13)


class CountingStore(oz.MemoryStore):
    """Counts how often each key is set and read."""

    def __init__(self) -> None:
        super().__init__()
        self.sets: dict[str, int] = {}
        self.gets: dict[str, int] = {}

    def set(self, key: str, value: Any) -> None:
        self.sets[key] = self.sets.get(key, 0) + 1
        super().set(key, value)

    def get(self, key: str, range: Any = None) -> bytes | None:
        self.gets[key] = self.gets.get(key, 0) + 1
        return super().get(key, range)


def fresh(store: Any, **options: Any) -> oz.Array:
    return oz.create_array(
        store, shape=SHAPE, dtype="i4", chunks=(4, 4, 4), shards=(8, 8, 8), **options
    )


def test_planes_are_stored_as_one_write_a_shard_without_reading() -> None:
    store = CountingStore()
    array = fresh(store)
    data = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE) + 1
    store.sets.clear()
    store.gets.clear()
    with array.writer() as writer:
        for z, plane in enumerate(data):
            writer[z] = plane
    assert set(store.sets.values()) == {1}
    assert len(store.sets) == 3 * 3 * 2
    assert store.gets == {}
    assert np.array_equal(array[...], data)


@given(st.data())
def test_any_sequence_of_writes_ends_as_in_numpy(data: Any) -> None:
    array = fresh(None)
    wanted = np.zeros(SHAPE, "i4")
    start = np.full((9, 9, 9), 7)
    array[3:12, 3:12, 3:12] = start
    wanted[3:12, 3:12, 3:12] = start
    budget = data.draw(st.sampled_from([0, 3000, 10**9]))
    with array.writer(budget) as writer:
        for value in range(1, data.draw(st.integers(1, 6))):
            selection = tuple(data.draw(st.slices(n)) for n in SHAPE)
            writer[selection] = value
            wanted[selection] = value
        rows = data.draw(st.lists(st.integers(0, 19), max_size=4))
        writer[rows] = -5
        wanted[rows] = -5
    assert np.array_equal(array[...], wanted)


def test_a_small_budget_stores_early_and_loses_nothing(tmp_path: Path) -> None:
    array = fresh(tmp_path / "x")
    data = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE)
    with array.writer("4kB") as writer:
        for z, plane in enumerate(data):
            writer[z] = plane
            assert writer._stream._nbytes <= 4000
    assert np.array_equal(array[...], data)


def test_what_was_assigned_before_an_error_is_stored() -> None:
    array = fresh(None)
    writer = array.writer()

    def stop_halfway() -> None:
        with writer:
            writer[0] = 3
            raise RuntimeError("the plug was pulled")

    with pytest.raises(RuntimeError, match="plug"):
        stop_halfway()
    assert (array[0] == 3).all()
    assert not array[1:].any()
    with pytest.raises(oz.ReadOnly, match="closed"):
        writer[0] = 1


def test_flush_shows_what_was_assigned_so_far() -> None:
    array = fresh(None)
    with array.writer() as writer:
        writer[2, 3] = 5
        assert not array[2, 3].any()
        writer.flush()
        assert (array[2, 3] == 5).all()


def test_a_read_only_array_has_no_writer() -> None:
    store: dict[str, bytes] = {}
    fresh(store)
    with pytest.raises(oz.ReadOnly):
        oz.open_array(store).writer()


def test_values_that_do_not_fit_are_refused_and_nothing_is_changed() -> None:
    array = fresh(None)
    with array.writer() as writer, pytest.raises(oz.SelectionError, match="shape"):
        writer[0:2] = np.zeros((3, 17, 13))
    assert array.nchunks_initialized == 0
