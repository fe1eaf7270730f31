"""Chunks of arrays transferred in tasks: all ways, packing, and damage."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.bulk.journal import Task
from omnizarr.bulk.transfer import (
    Method,
    Transfer,
    Transferred,
    TransferTask,
    _equal,
    transfer_tasks,
)
from omnizarr.engine import BoundArray
from omnizarr.testing import RecordingStore


def bound(store: Any, **options: Any) -> BoundArray:
    return oz.create_array(store, **options)._bound


def tasks(*transfers: Transfer, memory: int = 2**20, **options: Any) -> Iterator[Task[Transferred]]:
    return transfer_tasks(transfers, TransferTask((), Transferred, **options), memory)


def total(found: Iterator[Task[Transferred]]) -> Transferred:
    """Run tasks as another process would, some of them twice."""
    result = Transferred()
    for number, task in enumerate(found):
        work = pickle.loads(pickle.dumps(task.work))
        if number % 2:
            work()
        result.merge(work())
    return result


shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@given(shape=shapes, data=st.data(), method=st.sampled_from(["copy", "encode", "values"]))
def test_every_way_gives_the_same_values(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], data: Any, method: Method
) -> None:
    where = tmp_path_factory.mktemp("transfer")
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    values = np.arange(np.prod(shape)).reshape(shape) % data.draw(st.integers(1, 5))
    source = bound(where / "a", data=values, chunks=chunks)
    options: dict[str, Any] = {"chunks": chunks}
    if method == "encode":
        options["compressors"] = ["gzip"]
    if method == "values":
        options["chunks"] = tuple(data.draw(st.integers(1, n)) for n in shape)
    target = bound(where / "b", shape=shape, dtype=values.dtype, **options)
    result = total(tasks(Transfer(source, target, method), verify=True))
    assert np.array_equal(oz.open(where / "b")[...], values)
    assert result.chunks_verified == result.chunks == result.chunks_copied + result.chunks_encoded
    assert result.damaged == {}


def test_small_arrays_share_a_task_and_large_ones_are_split() -> None:
    old, new = oz.storage.MemoryStore(), oz.storage.MemoryStore()
    small = [
        Transfer(
            bound(old, path=f"a{i}", data=np.arange(4), chunks=2),
            bound(new, path=f"a{i}", shape=4, dtype="i8", chunks=2),
            "copy",
        )
        for i in range(20)
    ]
    assert len([*tasks(*small)]) == 1
    assert total(tasks(*small)).chunks_copied == 40
    large = Transfer(
        bound({}, data=np.arange(4000), chunks=1000),
        bound({}, shape=4000, dtype="i8", chunks=1000),
        "encode",
    )
    sizes = [len(task.work.parts[0][1]) for task in tasks(large, memory=60_000)]  # type: ignore[attr-defined]
    assert sizes == [2, 2]
    assert [len(task.work.parts[0][1]) for task in tasks(large, memory=1)] == [1] * 4  # type: ignore[attr-defined]
    assert large.largest == 3 * 8000


def test_the_ids_of_tasks_depend_on_what_they_do_only() -> None:
    source, target = ({}, {})  # type: dict[str, bytes], dict[str, bytes]
    one = Transfer(
        bound(source, data=np.arange(900), chunks=1), bound(target, shape=900, chunks=1), "copy"
    )
    first = [task.id for task in tasks(one)]
    assert len({*first}) == 4
    assert [task.id for task in tasks(one, skip_damaged=True)] == first


def test_a_grid_that_does_not_fit_is_read_by_the_chunks_of_the_target() -> None:
    source = bound({}, data=np.arange(12), chunks=[[5, 7]])
    target = bound({}, shape=12, dtype="i8", chunks=4)
    way = Transfer(source, target, "values")
    assert not way.by_source
    assert [coords for coords, _ in way.units()] == [(0,), (1,), (2,)]
    shards = bound({}, data=np.arange(12), chunks=2, shards=6)
    sparse = bound({}, shape=12, dtype="i8", chunks=2)
    fitting = Transfer(shards, sparse, "values")
    assert fitting.by_source
    assert [fitting.count(coords) for coords, _ in fitting.units()] == [3, 3]


def test_a_large_sparse_array_of_shards_takes_no_longer_than_its_shards() -> None:
    source: dict[str, bytes] = {}
    array = oz.create_array(source, shape=(10**9,), dtype="u1", chunks=100, shards=1000)
    array[5000:5100] = 1
    target: dict[str, bytes] = {}
    report = oz.convert(source, target, zarr_format=2)
    assert report.chunks_encoded == 10
    assert oz.open(target)[5000:5100].tolist() == [1] * 100


def test_a_chunk_that_is_erased_meanwhile_is_missing_in_the_copy(tmp_path: Path) -> None:
    source = bound(tmp_path / "a", data=np.arange(1, 7), chunks=1)
    methods: tuple[Method, ...] = ("copy", "encode")
    for method in methods:
        target = bound(tmp_path / method, shape=6, dtype="i8", chunks=1)
        found = [*tasks(Transfer(source, target, method, check=False))]
        gone = (tmp_path / "a/c/4").read_bytes()
        (tmp_path / "a/c/4").unlink()
        assert found[0].work().chunks == 5
        (tmp_path / "a/c/4").write_bytes(gone)


def test_a_damaged_unit_that_becomes_one_chunk_is_read_once() -> None:
    store = RecordingStore(oz.storage.MemoryStore({}))
    source = bound(store, data=np.arange(4), chunks=2)
    store.set("c/0", b"")
    (task,) = tasks(Transfer(source, bound({}, shape=4, chunks=4), "values"), skip_damaged=True)
    store.calls.clear()
    assert task.work().damaged.keys() == {"c/0"}
    assert [call.keys for call in store.calls].count(("c/0", "c/1")) == 1


def test_nan_in_objects_is_what_was_written() -> None:
    values = np.array([np.array([1.0, np.nan]), np.array([])], object)
    options: Any = {"dtype": object, "filters": [{"id": "vlen-array", "dtype": "f8"}]}
    source = bound({}, data=values, chunks=1, zarr_format=2, **options)
    target = bound({}, shape=2, chunks=2, zarr_format=2, **options)
    assert total(tasks(Transfer(source, target, "values"), verify=True)).chunks_verified == 1
    assert not _equal(values, values[::-1])
    assert _equal(np.array([None, "a", np.nan]), np.array([None, "a", np.nan]))


def test_a_failed_read_back_is_no_damage_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    source = bound({}, data=np.arange(4), chunks=2)
    target = bound({}, shape=4, dtype="i8", chunks=4)
    monkeypatch.setattr("omnizarr.bulk.transfer._equal", lambda one, other: False)
    with pytest.raises(oz.StoreError, match="is not what was written there"):
        total(tasks(Transfer(source, target, "values"), verify=True, skip_damaged=True))
