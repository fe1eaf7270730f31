"""Streaming writes store every chunk or shard once and lose nothing."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.testing import RecordingStore
from tests.memory import peak

SHAPE = (20, 17, 13)


def fresh(store: Any, **options: Any) -> oz.Array:
    return oz.create_array(
        store, shape=SHAPE, dtype="i4", chunks=(4, 4, 4), shards=(8, 8, 8), **options
    )


def test_planes_are_stored_as_one_write_a_shard_without_reading() -> None:
    store = RecordingStore(oz.storage.MemoryStore())
    array = fresh(store)
    data = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE) + 1
    store.calls.clear()
    with array.writer() as writer:
        for z, plane in enumerate(data):
            writer[z] = plane
    keys = [key for call in store.calls if call.operation.startswith("set") for key in call.keys]
    assert len(keys) == len({*keys}) == 3 * 3 * 2
    read = {key for call in store.calls if call.operation.startswith("get") for key in call.keys}
    assert read <= {"zarr.json"}  # A11: the shape may have changed
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


def test_values_assigned_before_an_error_are_stored() -> None:
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


def test_flush_makes_assigned_values_visible() -> None:
    array = fresh(None)
    with array.writer() as writer:
        writer[2, 3] = 5
        assert not array[2, 3].any()
        writer.flush()
        assert (array[2, 3] == 5).all()


def test_values_that_do_not_fit_are_refused_and_nothing_is_changed() -> None:
    array = fresh(None)
    with array.writer() as writer, pytest.raises(oz.SelectionError, match="shape"):
        writer[0:2] = np.zeros((3, 17, 13))
    assert array.nchunks_initialized == 0


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize(
    "selection", [np.s_[...], np.s_[1:-1], np.s_[:, 5:, ::2], np.s_[[3, 900, 1]]], ids=str
)
def test_no_more_than_the_budget_waits_in_memory(
    selection: Any, engine: str, tmp_path: Path
) -> None:
    """A11: one assignment to chunks without end stays within the budget."""
    budget, shape = 2**20, (1024, 64, 64)  # 32 MiB in chunks of 128 KiB
    with oz.configure(engine=engine, threads=1):
        array = oz.create_array(tmp_path / "x", shape=shape, chunks=(16, 64, 64), dtype="u2")

        def write() -> None:
            with array.writer(budget) as writer:
                writer[selection] = 1

        assert peak(write) < budget + 8 * 2**17
        wanted = np.zeros(shape, "u2")
        wanted[selection] = 1
        assert np.array_equal(array[...], wanted)


@given(st.data())
def test_values_appended_by_other_handles_are_kept(data: Any) -> None:
    """A11: a chunk that is complete for an old shape does not erase later values."""
    store: dict[str, bytes] = {}
    length = data.draw(st.integers(1, 12))
    mine = oz.create_array(store, shape=(length, 3), chunks=(5, 2), dtype="i4", shards=None)
    handles = [mine, oz.open(store, mode="r+")]
    wanted = np.zeros((length, 3), "i4")
    budget = data.draw(st.sampled_from([0, 100, 10**6]))
    with mine.writer(budget) as writer:
        for value in range(1, data.draw(st.integers(1, 8))):
            do = data.draw(st.sampled_from(["write", "append", "resize", "flush"]))
            other = data.draw(st.sampled_from(handles))
            rows = data.draw(st.integers(1, 6))
            if do == "append":
                other.append(np.full((rows, 3), -value))
                wanted = np.concatenate([wanted, np.full((rows, 3), -value, "i4")])
            elif do == "resize":
                other.resize((len(wanted) + rows, 3))
                wanted = np.concatenate([wanted, np.zeros((rows, 3), "i4")])
            elif do == "flush":
                writer.flush()
            else:
                start = data.draw(st.integers(0, len(wanted) - 1))
                stop = data.draw(st.integers(start + 1, len(wanted)))
                index = [*range(start, stop)]  # beyond what a handle knows is found out
                writer[index] = value
                wanted[index] = value
    assert np.array_equal(oz.open(store)[...], wanted)


def test_elements_removed_by_another_handle_are_reported() -> None:
    """A11: what can no longer be stored is an error; the rest is stored."""
    store: dict[str, bytes] = {}
    array = oz.create_array(store, shape=(10,), chunks=(4,), dtype="i4")
    writer = array.writer()
    writer[1:3] = 5
    writer[7:9] = 6
    oz.open(store, mode="r+").resize(8, outside="erase")
    with pytest.raises(oz.SelectionError, match=r"smaller, to \(8,\).*: 1 assigned elements"):
        writer.close()
    writer.close()
    assert oz.open(store)[...].tolist() == [0, 5, 5, 0, 0, 0, 0, 6]


def test_a_writer_deleted_without_closing_warns_of_unstored_values() -> None:
    """A11: data are not lost without a word."""
    array = oz.create_array({}, shape=(100,), chunks=(10,), dtype="i4")
    writer = array.writer()
    writer[::3] = 1
    with pytest.warns(ResourceWarning, match=r"not stored: c/0, c/1, c/2, c/3, c/4 and 5 more"):
        del writer
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array.writer()[:10] = 1  # complete, and so stored
        with array.writer() as writer:
            writer[0] = 2
        del writer
        gc.collect()
    assert array[:3].tolist() == [2, 1, 1]
