"""The simulation of jobs agrees with closed forms, and counts what real runs count."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.simulation import Cluster, ObjectStore, Work, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from tests.servers.web import Web

FAST = ObjectStore(latency=0.0)


def seconds(work: Work, cluster: Cluster, store: ObjectStore = FAST) -> float:
    return simulate([work], store, cluster).seconds


@given(st.integers(1, 500), st.integers(1, 20), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_equal_tasks_take_whole_rounds(tasks: int, workers: int, slots: int) -> None:
    work = Work(tasks, decoded=800e6 * tasks)
    cluster = Cluster(workers, slots)  # the slots share a worker's processors
    rounds = math.ceil(tasks / (workers * slots))
    assert seconds(work, cluster) == pytest.approx(rounds * slots)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_lost_workers_repeat_their_tasks_and_nothing_else(seed: int) -> None:
    work = Work(200, reads=400, writes=200, decoded=200 * 800e6)
    cluster = Cluster(5, lifetime=20.0, restart=3.0)
    found = simulate([work], FAST, cluster, seed)
    assert found.tasks == 200
    assert 200 <= found.attempts <= 200 + found.lost_workers
    assert found.reads == pytest.approx(2 * found.attempts)
    assert found.seconds >= 40
    # With one slot a loss costs at most a task and the restart.
    assert found.seconds <= 41 + found.lost_workers * 4


@pytest.mark.parametrize("passes", [1, 2])
def test_a_simulated_job_makes_the_requests_of_a_real_one(passes: int, tmp_path: Path) -> None:
    data = np.arange(40 * 60).reshape(40, 60)
    oz.create_array(tmp_path / "a", data=data, chunks=(2, 60), dtype="i4")
    files = {p.relative_to(tmp_path).as_posix(): p for p in (tmp_path / "a").rglob("*")}
    web = Web({key: path.read_bytes() for key, path in files.items() if path.is_file()})
    web.start()
    try:
        job = oz.jobs.Rechunk(
            f"{web.url}/a", tmp_path / "b", chunks=(40, 10), passes=passes, memory="128MB"
        )
        phases = job.plan(2).phases
        steps: list[oz.jobs.Progress] = []
        oz.run(job, workers=2, progress=steps.append)
    finally:
        web.stop()
    found = simulate([Work.of(phase) for phase in phases], ObjectStore(), Cluster(2))
    tasks = [max(step.tasks for step in steps if step.phase == n + 1) for n in range(len(phases))]
    assert sum(tasks) == found.tasks == found.attempts
    chunks = [path for method, path, _ in web.log if method == "GET" and "/c/" in path]
    assert len(chunks) == phases[0].reads
    assert len([*(tmp_path / "b" / "c").rglob("*/*")]) == phases[-1].writes
    assert found.reads == sum(phase.reads or 0 for phase in phases)
    assert np.array_equal(oz.open(tmp_path / "b")[:], data)
