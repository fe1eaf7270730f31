"""Concurrent writers lose no change in any kind of store; the long run is `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import reference
from omnizarr.storage import ZipStore
from omnizarr.stores import get_many
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.sampling import sample
from tests.soak import writers
from tests.stores.test_sqlite import redis_url

__all__ = ["redis_url"]


@pytest.fixture(params=["directory", "zip", "sqlite", "lmdb", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    make: dict[str, Callable[[], Any]] = {
        "directory": lambda: str(tmp_path / "x.zarr"),
        "zip": lambda: ZipStore(tmp_path / "x.zip", mode="a"),
        "sqlite": lambda: SQLiteStore(tmp_path / "x.sqlite"),
        "lmdb": lambda: LMDBStore(tmp_path / "x.lmdb"),
        "redis": lambda: RedisStore(request.getfixturevalue("redis_url"), prefix=str(tmp_path)),
    }
    return make[kind]()


@pytest.mark.parametrize("task", sample(writers.TASKS, 2))
def test_concurrent_changes_are_not_lost(store: Any, kind: str, task: str) -> None:
    processes = 1 if kind == "zip" else 2
    found = writers.run(store, task, processes, threads=2, rounds=10)
    assert (found["changes"], found["lost"], found["errors"]) == (processes * 20, 0, 0)


def test_concurrent_changes_to_a_bucket_are_not_lost(s3: Any) -> None:
    for task in writers.TASKS:
        store = oz.open(f"{s3.url}/{task}", storage_options=s3.options, mode="a").store
        found = writers.run(store, task, processes=1, threads=4, rounds=3)
        assert (found["changes"], found["lost"], found["errors"]) == (12, 0, 0)


@pytest.mark.parametrize("kind", ["directory", "zip", "sqlite", "lmdb", "redis"])
def test_a_shard_replaced_during_a_read_is_read_again(store: Any) -> None:
    options: dict[str, Any] = {"chunks": (2,), "shards": (8,), "compressors": None}
    array = oz.create_array(store, path="x", shape=(8,), dtype="i4", fill_value=0, **options)
    array[4:6] = 2
    bound = array._data
    steps = reference._read_part(bound, (0,), (slice(4, 6, 1),))
    index = get_many(bound.store, next(steps))
    array[:] = [1, 1, 1, 1, 2, 2, 3, 3]  # where the third chunk was, the first is now
    wanted = steps.send(index)
    assert decoded(steps, wanted, bound.store) == [2, 2]


def decoded(steps: Any, wanted: Any, store: Any) -> list[int]:
    try:
        while True:
            wanted = steps.send(get_many(store, wanted))
    except StopIteration as end:
        found = np.empty(2, "i4")
        end.value(found)
        return found.tolist()
