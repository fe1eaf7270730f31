"""``python -m benchmarks.scale [measure | bucket | simulate]``: what large jobs need.

`measure` runs jobs whose tasks do nothing, on this machine: tasks per second and memory of the
coordinator, journal, resume, listing. `bucket` measures operations that list many objects, of a
server that makes them up. `simulate` takes plans of arrays of 1 TB, 100 TB and 10^9 chunks (only
their metadata is created) and simulates them on clusters of several sizes.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.servers.processes import simple_storage

import omnizarr as oz
from benchmarks.simulation import Cluster, ObjectStore, Result, Work, simulate
from omnizarr.bulk import copy
from omnizarr.bulk import verify as checks
from omnizarr.bulk.job import Job, Phase, Plan, run
from omnizarr.bulk.journal import Journal, Outcome, Task, task_id
from omnizarr.stores import LocalStore, list_prefix, resolve

# What a task costs the coordinator, in seconds, as `measure` found it.
DISPATCH = {"threads": 0.00002, "processes": 0.0003, "Dask": 0.009}
TB = 10**12


# Measurements


@dataclass
class Count(Outcome):
    """The number of tasks."""

    tasks: int = 0


def _nothing() -> Count:
    return Count(1)


@dataclass
class Nothing(Job[Count]):
    """Many tasks that do nothing."""

    count: int
    name: str

    def plan(self, tasks_at_once: int = 1) -> Plan[Count]:
        """Return one phase."""

        def tasks() -> Iterator[Task[Count]]:
            for number in range(self.count):
                yield Task(task_id("a/b", number, (number, 0, 0)), _nothing, 1, "a/b")

        phase = Phase("nothing", tasks, self.count)
        return Plan("nothing", f"{self.name}{self.count}".ljust(20, "-"), [phase], Count())


def _in_child(function: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the result of a forked process, and the MiB that it needed at most."""
    results, output = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(output, repr(_with_memory(function)).encode())
        finally:
            os._exit(0)
    os.close(output)
    with open(results) as file:
        text = file.read()
    os.waitpid(child, 0)
    found = eval(text)
    return tuple(found)


def _with_memory(function: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the result of a function, and by how many MiB the process has grown."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = function()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return (*found, round(used / 1024))


def _timed(job: Nothing, on: Any, workers: int) -> tuple[Any, ...]:
    with ExitStack() as stack:
        if on == "Dask":
            from distributed import Client, LocalCluster  # noqa: PLC0415 - optional

            options: Any = {"threads_per_worker": 1, "dashboard_address": None}
            cluster = stack.enter_context(LocalCluster(n_workers=workers, **options))
            on = stack.enter_context(Client(cluster))
        began = time.perf_counter()
        found = run(job, on, workers=None if on not in (None, "processes") else workers)
        _check(found, job)
        return (time.perf_counter() - began,)


def _check(found: Count, job: Nothing) -> None:
    if found.tasks != job.count:
        raise RuntimeError(f"{found.tasks} tasks were run, not {job.count}")


def measure(most: int, folder: Path) -> None:
    """Print the tables of measurements."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    print("| run on | tasks | seconds | tasks per second | memory added (MiB) |")
    print("| --- | --- | --- | --- | --- |")
    for on, limit in (None, most), ("processes", most // 10), ("Dask", most // 100):
        for count in sorted({limit // 10, limit}):
            job = Nothing(count, str(on))
            timed = partial(_timed, job, on, 2)
            seconds, used = _with_memory(timed) if on == "Dask" else _in_child(timed)
            name = "threads" if on is None else on
            print(f"| {name} | {count:,} | {seconds:.1f} | {count / seconds:,.0f} | {used} |")
    print()
    _measure_journal(most, folder)
    _measure_listing(folder)


def _measure_journal(count: int, folder: Path) -> None:
    print(
        "| tasks done | journal bytes | entries | read (s) | resumed and ended (s) | memory (MiB) |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for number in (count // 10, count):
        job = Nothing(number, "resumed")
        plan = job.plan()
        store = LocalStore(folder / "omnizarr" / "jobs")
        journal = Journal(store, f"{plan.digest[:20]}/", Count())
        for position, task in enumerate(plan.phases[0].tasks()):
            journal.add(task, Count(1))
            if position % (number // 100) == 0:
                journal.flush()
        journal.flush()
        entries = [*list_prefix(store, journal.prefix)]
        size = sum(len(store.get(key) or b"") for key in entries)

        def resume(job: Nothing = job, journal: Any = journal) -> tuple[float, float]:
            began = time.perf_counter()
            journal.read()
            read = time.perf_counter() - began
            _check(run(job, resume=True), job)
            return read, time.perf_counter() - began - read

        read, ended, used = _in_child(resume)
        print(f"| {number:,} | {size:,} | {len(entries)} | {read:.2f} | {ended:.1f} | {used} |")
    print()


def _measure_listing(folder: Path) -> None:
    count = 100_000
    store = LocalStore(folder / "keys")
    for number in range(0, count, 1000):
        store.set_many((f"c/{number}/{n}", b"x") for n in range(1000))
    began = time.perf_counter()
    found = sum(1 for _ in list_prefix(store, ""))
    print(f"keys listed per second in a directory: {found / (time.perf_counter() - began):,.0f}")


def measure_bucket(most: int) -> None:
    """Print what operations need that list a bucket."""
    calls: dict[str, Callable[[str, dict[str, Any]], object]] = {
        "list": lambda url, options: sum(
            1 for _ in list_prefix(resolve(url, storage_options=options), "")
        ),
        "du": lambda url, options: oz.disk_usage(url, storage_options=options),
        "verify": lambda url, options: oz.verify(url, depth="present", storage_options=options),
        "copy --update --dry-run": lambda url, options: run(
            oz.jobs.Copy(url, f"{url}-copy", update=True, dry_run=True, storage_options=options)
        ),
    }
    print("| operation | objects | seconds | objects per second | memory added (MiB) |")
    print("| --- | --- | --- | --- | --- |")
    for name, call in calls.items():
        for count in (most // 100, most // 10, most):
            with simple_storage(str(count)) as port:
                options = {
                    "endpoint": f"http://127.0.0.1:{port}",
                    "region": "us-east-1",
                    "access_key_id": "key",
                    "secret_access_key": "secret",
                }

                def timed(call: Any = call, options: Any = options) -> tuple[float]:
                    began = time.perf_counter()
                    call("s3://bucket/data", options)
                    return (time.perf_counter() - began,)

                seconds, used = _in_child(timed)
            print(f"| {name} | {count:,} | {seconds:.1f} | {count / seconds:,.0f} | {used} |")


# Simulation


@dataclass(frozen=True)
class Data:
    """An array: its shape and chunks, those that it is rechunked to, and its compression."""

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    new: tuple[int, ...]
    ratio: float = 2.0
    itemsize: int = 4

    @property
    def count(self) -> int:
        """The number of chunks."""
        return math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    @property
    def nbytes(self) -> int:
        """The bytes in memory."""
        return math.prod(self.shape) * self.itemsize


DATA = (
    Data("1 TB", (5000, 10_000, 5000), (1, 1000, 1000), (1000, 100, 100)),
    Data("100 TB", (50_000, 50_000, 10_000), (1, 1000, 1000), (1000, 100, 100)),
    Data("10⁹ chunks (65 TB)", (10_000, 40_000, 40_960), (1, 128, 128), (500, 256, 256)),
)
CLUSTERS = (("1 machine", 1, 8), ("20 workers", 20, 4), ("200 workers", 200, 4))


def copy_work(data: Data, memory: int = 512_000_000) -> list[Work]:
    """Return the phase of a copy between buckets: values as they are."""
    stored = data.nbytes / data.ratio
    each = stored / data.count
    tasks = -(-data.count // max(1, min(copy.BATCH, int(memory // each))))
    return [Work(tasks, data.count, data.count, stored, stored)]


def verify_work(data: Data) -> list[Work]:
    """Return the phase of a verification that decodes every chunk."""
    stored = data.nbytes / data.ratio
    each = data.nbytes // data.count
    tasks = -(-data.count // max(1, min(checks.TASK_KEYS, checks.TASK_BYTES // each)))
    return [Work(tasks, data.count, 0, stored, 0.0, data.nbytes)]


def rechunk_work(data: Data, folder: Path, passes: int, memory: str) -> tuple[list[Work], int]:
    """Return the phases that the planner plans, and the memory of a process."""
    path = folder / "a.zarr"
    shutil.rmtree(path, ignore_errors=True)
    oz.create_array(path, shape=data.shape, chunks=data.chunks, dtype=f"f{data.itemsize}")
    job = oz.jobs.Rechunk(path, folder / "b.zarr", chunks=data.new, passes=passes, memory=memory)
    plan = job.plan(1)
    return [Work.of(phase, data.ratio) for phase in plan.phases], plan.memory or 0


def simulations(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for data in DATA:
        jobs = {
            "copy": (copy_work(data), 512_000_000),
            "verify": (verify_work(data), 512_000_000),
            "rechunk, one pass": rechunk_work(data, folder, 1, "2GB"),
            "rechunk, two passes": rechunk_work(data, folder, 2, "2GB"),
        }
        for name, (phases, memory) in jobs.items():
            yield _row(data.name, name, phases, memory)


def _row(data: str, name: str, phases: list[Work], memory: int) -> tuple[str, ...]:
    store = ObjectStore()
    found: list[Result] = []
    for _, workers, slots in CLUSTERS:
        cluster = Cluster(
            workers, slots if "rechunk" not in name else 1, lifetime=86400.0, spread=0.3,
            dispatch=DISPATCH["threads" if workers == 1 else "Dask"],
        )  # fmt: skip
        found.append(simulate(phases, store, cluster))
    reads, writes = sum(s.reads for s in phases), sum(s.writes for s in phases)
    tasks = sum(s.tasks for s in phases)
    ids = tasks * 11  # bytes of the journal
    return (
        data, name, f"{reads:,}", f"{writes:,}", f"{tasks:,}", f"{memory / 1e9:.1f} GB",
        f"{ids / 1e6:.1f} MB", f"${found[0].cost:,.0f}", *(_duration(r.seconds) for r in found),
    )  # fmt: skip


def _duration(seconds: float) -> str:
    for unit, size in ("days", 86400), ("h", 3600), ("min", 60):
        if seconds >= 2 * size:
            return f"{seconds / size:.{0 if seconds >= 10 * size else 1}f} {unit}"
    return f"{seconds:.0f} s"


def show_simulations(folder: Path) -> None:
    """Print the table of simulations."""
    head = ("data", "job", "GET", "PUT", "tasks", "memory of a process", "journal", "requests cost",
            *(name for name, _, _ in CLUSTERS))  # fmt: skip
    print("| " + " | ".join(head) + " |")
    print("| --- " * len(head) + "|")
    for row in simulations(folder):
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["measure", "bucket", "simulate"])
    parser.add_argument("--tasks", type=int, default=10**6, help="of the largest measured job")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.what in (None, "measure"):
            measure(given.tasks, Path(folder))
        if given.what in (None, "bucket"):
            measure_bucket(10 * given.tasks)
        if given.what in (None, "simulate"):
            show_simulations(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
