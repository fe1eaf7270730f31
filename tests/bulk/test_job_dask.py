"""Jobs on a real cluster of `dask.distributed`: several worker processes on loopback."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.job import Job, Phase, Plan, run
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.output import HierarchyOutput
from omnizarr.concurrency.executors import tasks_at_once
from omnizarr.errors import StoreError
from omnizarr.formats import by_name
from omnizarr.hierarchy.location import Location
from omnizarr.stores import LocalStore, MemoryStore

distributed: Any = pytest.importorskip("distributed")


@dataclass
class Written(Outcome):
    chunks: int = 0
    workers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WriteChunk:
    store: Any
    number: int
    seconds: float

    def __call__(self) -> Written:
        time.sleep(self.seconds)
        self.store.set(f"c/{self.number}", np.full(4, self.number, "u2").tobytes())
        return Written(1, {str(os.getpid()): 1})


@dataclass
class Fill(Job[Written]):
    """Write an array of numbers chunk by chunk, slowly."""

    store: Any
    count: int
    seconds: float = 0.0

    def plan(self, tasks_at_once: int = 1) -> Plan[Written]:
        options: Any = {"chunks": (4,), "dtype": "u2", "codecs": ["bytes"]}
        model = oz.create_array(MemoryStore(), shape=(4 * self.count,), **options)._model
        output = HierarchyOutput(
            Location(self.store, "", by_name(3)), {"": model}, operation="filling", digest="fill"
        )

        def tasks() -> Iterator[Task[Written]]:
            for n in range(self.count):
                yield Task(task_id(n), WriteChunk(output.chunk_store, n, self.seconds), 8)

        return Plan("fill", "fill", [Phase("fill", tasks, self.count)], Written(), output)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with distributed.LocalCluster(dashboard_address=None, **options) as found:
        yield found


def test_a_job_runs_on_the_workers_of_a_cluster(cluster: Any, tmp_path: Path) -> None:
    with distributed.Client(cluster) as client:
        assert tasks_at_once(client, None) == 1
        result = run(Fill(LocalStore(tmp_path / "a.zarr"), 200), client)
    assert result.chunks == 200
    assert len(result.workers) == 2
    assert str(os.getpid()) not in result.workers
    assert np.array_equal(oz.open(str(tmp_path / "a.zarr"))[:], np.repeat(np.arange(200), 4))


def test_a_killed_worker_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    with distributed.Client(cluster) as client:
        pids = client.run(os.getpid)

        def kill() -> None:
            while len([*(tmp_path / "a.zarr").glob("c/*")]) < 50:
                time.sleep(0.01)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        result = run(Fill(LocalStore(tmp_path / "a.zarr"), 300, 0.01), client)
        killer.join()
        client.wait_for_workers(2)  # the nanny starts another
    assert result.chunks == 300
    assert np.array_equal(oz.open(str(tmp_path / "a.zarr"))[:], np.repeat(np.arange(300), 4))


def test_an_error_of_a_worker_is_that_of_the_job(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "a.zarr" / "c" / "7").mkdir(parents=True)  # where a chunk is to be written
    (tmp_path / "a.zarr" / "c" / "7" / "x").touch()
    with (
        distributed.Client(cluster) as client,
        pytest.raises(StoreError, match="c/7': Is a directory"),
    ):
        run(Fill(LocalStore(tmp_path / "a.zarr"), 20), client)
    with pytest.raises(oz.NodeNotFound, match="incomplete"):
        oz.open(str(tmp_path / "a.zarr"))
