"""The simulation of jobs agrees with closed forms, and counts what real runs count."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.simulation import Cluster, ObjectStore, Work, simulate, task_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

import omnizarr as oz
from benchmarks import simulation
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


@given(st.integers(1, 500), st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_a_slow_coordinator_limits_any_number_of_workers(tasks: int, workers: int) -> None:
    work = Work(tasks, decoded=800e6 * 1e-3 * tasks)  # a millisecond each
    assert seconds(work, Cluster(workers, dispatch=0.01)) == pytest.approx(tasks * 0.01 + 1e-3)


def test_requests_at_a_time_share_the_latency() -> None:
    work = Work(1, reads=160, writes=1)
    store = ObjectStore(latency=0.05, at_once=16)
    assert task_seconds(work, store, Cluster(1)) == pytest.approx(11 * 0.05)


def test_bytes_need_the_bandwidth_of_requests_or_of_the_worker() -> None:
    store = ObjectStore(latency=0, bandwidth=50e6, at_once=4)
    assert task_seconds(Work(1, 1, 0, 100e6), store, Cluster(1)) == pytest.approx(2)
    assert task_seconds(Work(1, 4, 0, 200e6), store, Cluster(1)) == pytest.approx(1)
    slow = Cluster(1, slots=2, network=100e6)
    assert task_seconds(Work(1, 4, 0, 100e6), store, slow) == pytest.approx(2)


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


def test_tasks_that_are_simulated_together_take_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, cluster = Work(20_000, decoded=20_000 * 8e6), Cluster(10, dispatch=1e-4)
    exact = seconds(work, cluster)
    monkeypatch.setattr(simulation, "EVENTS", 1000)
    assert seconds(work, cluster) == pytest.approx(exact, rel=0.02)


def test_stages_follow_each_other_and_requests_have_a_price() -> None:
    work = Work(10, reads=1000, writes=2000)
    found = simulate([work, work], ObjectStore(latency=1.0), Cluster(10))
    assert found.phases == [pytest.approx(7 + 13)] * 2
    assert found.cost == pytest.approx(2 * (0.0004 + 2 * 0.005))


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
