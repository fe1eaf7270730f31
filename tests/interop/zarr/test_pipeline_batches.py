"""Stores of zarr-python under the pipeline, and writers that meet in one chunk."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
import zarr
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.memory import MemoryFileSystem
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

import omnizarr as oz
from omnizarr.engine import rows
from omnizarr.interop.zarr import pipeline_batches as batches
from tests.interop.zarr.pipeline_arrays import OURS, THEIRS, create, reopened, using
from tests.soak import writers
from tests.soak.jobs import in_child

STORES = ("local", "memory", "zip", "fsspec", "object", "logging", "wrapper")


def make(kind: str, folder: Path) -> Any:
    """Return an empty store."""
    if kind == "local":
        return LocalStore(folder / "a.zarr")
    if kind == "zip":
        return ZipStore(folder / "a.zip", mode="w")
    if kind == "fsspec":
        system = MemoryFileSystem(skip_instance_cache=True)
        system.store, system.pseudo_dirs = {}, [""]  # of the class otherwise
        return FsspecStore(AsyncFileSystemWrapper(system, asynchronous=True), path="/a")
    if kind == "object":
        return ObjectStore(obstore.store.MemoryStore())
    if kind == "logging":
        return LoggingStore(MemoryStore())
    return WrapperStore(MemoryStore()) if kind == "wrapper" else MemoryStore()


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("shards", [None, (8, 6)])
@pytest.mark.parametrize("kind", STORES)
def test_every_store_reads_what_was_written(kind: str, shards: Any, tmp_path: Path) -> None:
    array = create(
        OURS, make(kind, tmp_path), shape=(17, 13), chunks=(4, 3), shards=shards, dtype="i4"
    )
    expected = np.zeros((17, 13), "i4")
    for box in (np.s_[:, :], np.s_[3:9, 2:11], np.s_[16, ::5]):
        expected[box] = np.arange(expected[box].size).reshape(expected[box].shape) + 1
        array[box] = expected[box]
    assert np.array_equal(array[:], expected)
    assert np.array_equal(array[5:15:3, 12], expected[5:15:3, 12])
    assert np.array_equal(array.oindex[[16, 0, 5], :], expected[[16, 0, 5]])
    assert np.array_equal(array.vindex[[16, 0, 5], [1, 2, 12]], expected[[16, 0, 5], [1, 2, 12]])
    if kind != "zip":  # which is open for writing
        assert np.array_equal(reopened(THEIRS, array)[:], expected)


@pytest.mark.parametrize(("kind", "most"), [("object", 32), ("zip", 32), ("local", 100)])
def test_values_that_pass_through_memory_are_few_at_a_time(
    kind: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = create(OURS, make(kind, tmp_path), shape=(300,), chunks=(3,), dtype="i4")
    monkeypatch.setattr(batches, "LIMIT", 1)
    counts: list[int] = []
    for name in ("read", "write"):
        plain = getattr(rows, name)

        def counted(capsule: Any, listed: Any, *args: Any, plain: Any = plain, **more: Any) -> Any:
            counts.append(len(listed))
            return plain(capsule, listed, *args, **more)

        monkeypatch.setattr(rows, name, counted)
    array[:] = np.arange(300)
    assert array[:].tolist() == list(range(300))
    assert sum(counts) == 200
    assert max(counts) == most


@pytest.mark.parametrize("kind", ["local", "memory", "object", "wrapper"])
@pytest.mark.parametrize("shards", [None, (64,)])
def test_threads_that_change_one_chunk_lose_nothing(kind: str, shards: Any, tmp_path: Path) -> None:
    array = create(
        OURS,
        make(kind, tmp_path),
        shape=(64,),
        chunks=(64 if shards is None else 4,),
        shards=shards,
        dtype="i4",
    )

    def change(number: int) -> None:
        array[number] = number + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(64)))
    assert array[:].tolist() == list(range(1, 65))


def test_a_directory_has_no_lock_files_and_no_temporary_files_afterwards(tmp_path: Path) -> None:
    array = create(OURS, LocalStore(tmp_path), name="a/b", shape=(9,), chunks=(4,), dtype="i4")
    array[1:8] = 1
    array[0:9] = 0  # the fill value, so that chunks are erased
    array[3] = 5
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["a/b/c/0", "a/b/zarr.json", "a/zarr.json", "zarr.json"]


def test_writers_of_both_libraries_share_their_locks(tmp_path: Path) -> None:
    array = create(OURS, LocalStore(tmp_path), name="x", shape=(60,), chunks=(60,), dtype="i4")
    own = oz.open(tmp_path, "r+", path="x")

    def change(number: int) -> None:
        (array if number % 2 else own)[number] = number + 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(change, range(60)))
    assert array[:].tolist() == list(range(1, 61))


def test_a_read_only_store_refuses_writes(tmp_path: Path) -> None:
    array = create(OURS, LocalStore(tmp_path), shape=(4,), chunks=(2,), dtype="i4")
    with using(OURS):
        closed = zarr.open_array(LocalStore(tmp_path, read_only=True))
    with pytest.raises(ValueError, match="read-only"):
        closed[:] = 1
    assert not array[:].any()


def test_the_event_loop_of_a_program_can_use_arrays(tmp_path: Path) -> None:
    async def program() -> list[int]:
        with using(OURS):
            array = await zarr.api.asynchronous.create_array(
                store=LocalStore(tmp_path), shape=(40,), chunks=(40,), dtype="i4"
            )
        await asyncio.gather(*(array.setitem(n, n) for n in range(40)))
        return list(await array.getitem(slice(None)))

    assert asyncio.run(program()) == list(range(40))


def opened(store: Any) -> Any:
    """Open the array in a process of its own, which uses no other pipeline."""
    zarr.config.set({"codec_pipeline.path": OURS})
    return zarr.open_array(store, path="x", mode="r+")


@pytest.mark.parametrize("task", ["chunk", "shard"])
def test_processes_that_change_one_chunk_lose_nothing(task: str, tmp_path: Path) -> None:
    found = writers.run(str(tmp_path), task, 2, 2, 10, opened)
    assert found == {"changes": 40, "lost": 0, "misread": 0, "errors": 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_killed_child_of_a_parent_that_used_the_array_leaves_old_or_new_values(
    tmp_path: Path,
) -> None:
    array = create(OURS, LocalStore(tmp_path), shape=(2**20,), chunks=(2**18,), dtype="i4")
    array[:] = 1

    def work() -> None:
        for value in range(2, 10**6):
            array[:] = value

    for tenths in range(4):
        assert in_child(work, 0.05 + tenths / 10) < 0
        found = array[:].reshape(4, -1)
        assert (found == found[:, :1]).all()
        assert (found > 0).all()
    assert in_child(lambda: array[:].tolist()) == 0
