"""A job owns its destination while it runs, and notices that its source has changed."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.concurrency import file_locks
from omnizarr.publish.publication import locked_destination
from omnizarr.stores import leases
from tests.failing import interrupt_after
from tests.parallel import FORK, held

VALUES = np.arange(400.0).reshape(20, 20)
JOBS: dict[str, Callable[..., oz.jobs.Job[Any]]] = {
    "copy": lambda a, b, **o: oz.jobs.Copy(a, b, **o),
    "convert": lambda a, b, **o: oz.jobs.Convert(a, b, zarr_format=2, **o),
    "rechunk": lambda a, b, **o: oz.jobs.Rechunk(a, b, chunks=(7, 20), **o),
    "two passes": lambda a, b, **o: oz.jobs.Rechunk(a, b, chunks=(7, 20), passes=2, **o),
    "pyramid": lambda a, b, **o: oz.jobs.BuildPyramid(a / "x", b, axes="yx", levels=2, **o),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = oz.create_group(tmp_path / "a.zarr")
    group.create_array("x", data=VALUES, chunks=(2, 2))
    return tmp_path / "a.zarr"


def _hold(path: Path, begun: Any) -> None:
    with locked_destination(oz.storage.LocalStore(path), "", "copy this to that", None):
        begun.set()
        time.sleep(60)


@pytest.mark.parametrize("options", [{}, {"resume": True}])
@pytest.mark.parametrize("name", ["copy", "convert", "rechunk"])
def test_a_destination_that_another_process_writes_to_is_refused_until_it_is_killed(
    source: Path, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    target = tmp_path / "b.zarr"
    begun = FORK.Event()
    other = FORK.Process(target=_hold, args=(target, begun))
    other.start()
    try:
        assert begun.wait(60)
        said = rf"written by process {other.pid} of .* since 2.* \(copy this to that\)"
        with pytest.raises(oz.Conflict, match=said):
            oz.run(JOBS[name](source, target), **options)
        assert oz.repair(target, dry_run=False, older_than=0)[0].state == "in use"
    finally:
        os.kill(other.pid or 0, signal.SIGKILL)
        other.join()
    oz.run(JOBS[name](source, target), **options)
    assert np.array_equal(oz.open(target)["x"][...], VALUES)
    assert [each for each in os.listdir(target) if file_locks.NAME in each] == []


def test_threads_of_one_process_and_parts_are_told_apart() -> None:
    def used(path: str, part: Any = None) -> Any:
        return locked_destination(store, path, "copy", part)

    store = oz.storage.MemoryStore()
    with used("a"), used("b"):
        for part in (None, (1, 2)):
            with pytest.raises(oz.Conflict, match="another thread"), used("a", part):
                pass
    with used("a", (1, 2)), used("a", (2, 2)):
        with pytest.raises(oz.Conflict), used("a"):
            pass
        with pytest.raises(oz.Conflict, match="part 2"), used("a", (2, 2)):
            pass
    with used("a"):
        pass


@pytest.mark.parametrize("kind", ["SQLite", "LMDB"])
def test_a_destination_in_a_database_is_refused_as_long_as_its_lease_is_renewed(
    source: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.9)
    store = {"SQLite": oz.storage.SQLiteStore, "LMDB": oz.storage.LMDBStore}[kind](tmp_path / "b")
    name = f"job-{zlib.crc32(b''):08x}"
    lease = leases.leased(store, "", name, said="a machine far away")
    with held(lease), pytest.raises(oz.Conflict, match="a machine far away"):
        oz.copy(source, store)
    oz.copy(source, store)
    assert np.array_equal(oz.open(store)["x"][...], VALUES)


def test_a_whole_job_and_a_part_do_not_run_together_in_a_store_with_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE", 0.6)
    store = oz.storage.SQLiteStore(tmp_path / "b")
    kind = f"job-{zlib.crc32(b''):08x}"
    for lease, part in ((kind, (1, 2)), (f"{kind}-2", None)):
        with leases.leased(store, "", lease):
            for at, other in (("", part), ("", (3, 4)), ("elsewhere", part)):
                allowed: Any = pytest.raises(oz.Conflict, match="another job")
                if at or (part is None and other is not None):
                    allowed = nullcontext()
                with allowed, locked_destination(store, at, "copy", other):
                    pass


def _interrupt(job: oz.jobs.Job[Any], tasks: int = 2) -> None:
    """Run a job until some tasks are done."""
    with pytest.raises(KeyboardInterrupt):
        oz.run(job, workers=1, progress=interrupt_after(tasks))


def _change(source: Path) -> None:
    time.sleep(0.02)  # longer than a tick of the file system's clock
    oz.open(source, mode="r+")["x"][0, 0] = -1.0


@pytest.mark.parametrize("name", ["convert", "rechunk", "two passes", "pyramid"])
def test_a_job_does_not_resume_with_a_source_that_has_changed(
    source: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "b.zarr"
    options = {"memory": "10kB"}
    job = JOBS[name](source, target, **options)
    _interrupt(job, 1)
    _change(source)
    with pytest.raises(oz.NodeExists, match="the source has changed since"):
        oz.run(JOBS[name](source, target, **options), resume=True)
    oz.run(JOBS[name](source, target, overwrite=True, **options), resume=True)
    found = oz.open(target)
    array = found["0"] if name == "pyramid" else found["x"]
    assert array[0, 0] == -1.0
    assert np.array_equal(array[...].ravel()[1:], VALUES.ravel()[1:])
    assert [each for each in os.listdir(target) if each.startswith(".__omnizarr")] == []


@pytest.mark.parametrize("passes", [1, 2])
def test_what_was_written_between_an_in_place_job_and_its_resumption_is_kept(
    source: Path, passes: int
) -> None:
    options: Any = {"in_place": True, "chunks": (7, 20), "passes": passes, "memory": "20kB"}
    _interrupt(oz.jobs.Rechunk(source, **options), 1)
    _change(source)
    oz.rechunk(source, resume=True, **options)
    array = oz.open(source)["x"]
    assert array.chunks == (7, 20)
    assert array[0, 0] == -1.0
    assert np.array_equal(array[...].ravel()[1:], VALUES.ravel()[1:])
    assert [each for each in os.listdir(source) if each.startswith(".__omnizarr")] == []


def test_what_is_written_to_an_array_while_it_is_rechunked_in_place_is_kept(source: Path) -> None:
    changed: list[bool] = []

    def change(progress: oz.jobs.Progress) -> None:
        if progress.tasks and not changed:
            changed.append(True)
            _change(source)

    with pytest.raises(oz.Conflict, match="was written to since"):
        oz.rechunk(source, in_place=True, chunks=(7, 20), progress=change)
    array = oz.open(source)["x"]
    assert (array.chunks, array[0, 0]) == ((2, 2), -1.0)
    oz.rechunk(source, in_place=True, chunks=(7, 20), resume=True)
    array = oz.open(source)["x"]
    assert (array.chunks, array[0, 0]) == ((7, 20), -1.0)
