"""Jobs: tasks on every kind of executor, journals, resume, parts, and outputs."""

from __future__ import annotations

import base64
import gc
import json
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.job import Job, Phase, Plan, run
from omnizarr.bulk.journal import Journal, Outcome, Task, task_id
from omnizarr.bulk.output import HierarchyOutput
from omnizarr.errors import InvalidArgument, NodeExists, NodeNotFound, StoreError
from omnizarr.formats import by_name
from omnizarr.hierarchy.location import Location
from omnizarr.model import GroupModel
from omnizarr.publish.publication import Publication
from omnizarr.publish.stage import FOLDER, JOURNAL
from omnizarr.stores import LocalStore, MemoryStore, list_prefix


@dataclass
class Sum(Outcome):
    numbers: int = 0
    total: int = 0
    seen: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Add:
    """Write a number to a file, and fail while another file exists."""

    folder: str
    number: int

    def __call__(self) -> Sum:
        if (Path(self.folder) / f"fail-{self.number}").exists():
            raise StoreError(f"no {self.number}")
        with (Path(self.folder) / f"log-{self.number}").open("a") as file:
            file.write("ran\n")
        return Sum(1, self.number, [self.number])


@dataclass
class AddAll(Job[Sum]):
    folder: str
    count: int
    phases: int = 1

    def plan(self, tasks_at_once: int = 1) -> Plan[Sum]:
        def tasks(phase: int) -> Iterator[Task[Sum]]:
            for number in range(phase * self.count, (phase + 1) * self.count):
                yield Task(task_id(number), Add(self.folder, number), 8, "numbers")

        names = [f"add numbers {phase}" for phase in range(self.phases)]
        phases = [
            Phase(name, lambda phase=phase: tasks(phase), self.count, 8 * self.count)
            for phase, name in enumerate(names)
        ]
        return Plan("add", f"add {self.folder} {self.count}".encode().hex(), phases, Sum())

    def runs(self) -> dict[int, int]:
        found = Path(self.folder).glob("log-*")
        return {int(path.name[4:]): len(path.read_text().splitlines()) for path in found}


def executors() -> dict[str, Any]:
    return {
        "none": lambda: nullcontext(None),
        "threads": lambda: nullcontext("threads"),
        "processes": lambda: nullcontext("processes"),
        "ThreadPoolExecutor": lambda: ThreadPoolExecutor(2),
        "ProcessPoolExecutor": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    }


@pytest.mark.parametrize("name", executors())
def test_a_job_runs_on_every_executor(name: str, tmp_path: Path, state: Path) -> None:
    job = AddAll(str(tmp_path), 40, phases=2)
    with executors()[name]() as on:
        result = run(pickle.loads(pickle.dumps(job)), on, workers=2)
    assert (result.numbers, result.total) == (80, sum(range(80)))
    assert sorted(result.seen) == list(range(80))
    assert set(job.runs().values()) == {1}
    assert [*state.rglob("*-0*")] == []  # the journal is gone


def test_anything_else_is_no_executor(tmp_path: Path) -> None:
    with pytest.raises(oz.WrongType, match="on must be 'threads', 'processes', an executor"):
        run(AddAll(str(tmp_path), 1), on="cluster")


class Counting(Executor):
    """Runs nothing before it is asked for, and counts what is submitted and not yet done."""

    def __init__(self) -> None:
        self.inner = ThreadPoolExecutor(1)
        self._max_workers = 2
        self.waiting = self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        future = self.inner.submit(fn, *args, **kwargs)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: Any) -> None:
        self.waiting -= 1


def test_few_tasks_are_submitted_at_a_time(tmp_path: Path) -> None:
    with Counting() as executor:
        assert run(AddAll(str(tmp_path), 500), executor).numbers == 500
    assert executor.most <= 8


@pytest.mark.parametrize("on", [None, "processes"])
def test_a_failed_job_is_resumed_with_the_tasks_that_are_left(
    on: Any, tmp_path: Path, state: Path
) -> None:
    job = AddAll(str(tmp_path), 30, phases=2)
    (tmp_path / "fail-45").touch()
    with pytest.raises(StoreError, match="no 45"):
        run(job, on, workers=1)
    assert len([*state.rglob("*-0*")]) >= 1
    before = job.runs()
    assert set(range(30)) <= before.keys()
    (tmp_path / "fail-45").unlink()
    result = run(job, on, workers=1, resume=True)
    assert (result.numbers, result.total) == (60, sum(range(60)))
    assert sorted(result.seen) == list(range(60))
    after = job.runs()
    repeated = [n for n in before if after[n] > 1]
    if on is None:
        assert repeated == []
    assert set(repeated).isdisjoint(range(30))


def test_without_resume_a_job_starts_again(tmp_path: Path) -> None:
    job = AddAll(str(tmp_path), 10)
    (tmp_path / "fail-5").touch()
    with pytest.raises(StoreError, match="no 5"):
        run(job, workers=1)
    (tmp_path / "fail-5").unlink()
    assert run(job, workers=1).numbers == 10
    assert job.runs()[0] == 2


def test_parts_complete_a_job_together(tmp_path: Path) -> None:
    job = AddAll(str(tmp_path), 50, phases=2)
    with pytest.warns(match="share of phase 1 of 2: when all parts have, run all of them again"):
        results = [run(job, part=(n, 7)) for n in range(1, 8)]
    assert job.runs().keys() >= set(range(50))
    results += [run(job, part=(n, 7)) for n in range(1, 8)]
    assert results[-1].numbers == 100
    assert set(job.runs().values()) == {1}


@pytest.mark.parametrize("part", [(0, 3), (4, 3), (1, 0)])
def test_impossible_parts_are_refused(part: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="part must be"):
        run(AddAll(str(tmp_path), 1), part=part)


def test_progress_counts_tasks_and_bytes(tmp_path: Path) -> None:
    seen = []
    run(AddAll(str(tmp_path), 10, phases=2), progress=seen.append)
    last = seen[-1]
    assert (last.phase, last.phases, last.tasks, last.tasks_total) == (2, 2, 10, 10)
    assert (last.size, last.size_total) == (80, 80)
    assert all(p.tasks <= 10 for p in seen)


def test_a_damaged_journal_is_an_error(tmp_path: Path) -> None:
    store = MemoryStore()
    store.set("j/1", b"{")
    with pytest.raises(StoreError, match=r"journal entry 'j/1' .* is damaged"):
        Journal(store, "j/", Sum()).read()


def test_repeated_tasks_in_a_journal_count_once_and_others_are_not_lost() -> None:
    """Two runs of one part at the same time: entry b has a task of a, so its task 3 is repeated."""
    store = MemoryStore()
    for writer, tasks in {"a": [1, 2], "b": [2, 3], "c": [1, 2], "d": [4]}.items():
        ids = base64.b64encode(np.array(tasks, "<u8").tobytes()).decode()
        entry = {"tasks": ids, "outcome": Sum(len(tasks), sum(tasks), tasks).to_json()}
        store.set(f"j/{writer}", json.dumps(entry).encode())
    done, total = Journal(store, "j/", Sum()).read()
    assert [id for id in range(5) if id in done] == [1, 2, 4]
    assert total == Sum(3, 7, [1, 2, 4])


def test_what_a_plan_knows_counts_once_whatever_is_resumed() -> None:
    store = MemoryStore()
    for number in range(3):
        journal = Journal(store, "j/", Sum(10, 100, [7]))
        for id in (2 * number, 2 * number + 1):
            journal.add(Task(2**64 - 1 - id, Sum), Sum(1, 1))
        journal.flush()
    done, total = Journal(store, "j/", Sum(10, 100, [7])).read()
    assert total == Sum(16, 106, [7])
    assert [id for id in range(10) if 2**64 - 1 - id in done] == [*range(6)]


def test_a_job_that_only_reads_does_not_need_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("omnizarr.bulk.journal.FLUSH", 0.0)
    with pytest.warns(oz.OmnizarrWarning, match="cannot be resumed if it is interrupted"):
        assert run(AddAll(str(tmp_path), 10)).numbers == 10


def test_a_part_whose_result_cannot_be_kept_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError):
        run(AddAll(str(tmp_path), 3), part=(1, 1))


def test_old_journals_of_jobs_that_only_read_are_erased(tmp_path: Path, state: Path) -> None:
    old, new = (state / "omnizarr" / "jobs" / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "entry").touch()
    os.utime(old, (0, 0))
    run(AddAll(str(tmp_path), 1))
    assert not old.exists()
    assert new.exists()


def test_the_ids_of_tasks_differ_with_what_they_do() -> None:
    parts: list[tuple[Any, ...]] = [
        (), ("a",), ("a", "b"), ("a,b",), (["a"], "b"), (1,), ("1",), (True,), (1.5,), (None,),
        (b"a",), (("a", 1), 2), ("a", 1, 2), ("a", (1, 2)), ("\udc80",),
    ]  # fmt: skip
    ids = [task_id(*each) for each in parts]
    assert len({*ids}) == len(parts)
    assert ids == [task_id(*pickle.loads(pickle.dumps(each))) for each in parts]
    assert all(0 <= id < 2**64 for id in ids)


# Outputs


@dataclass(frozen=True)
class WriteChunk:
    store: Any
    folder: str
    number: int

    def __call__(self) -> Sum:
        if (Path(self.folder) / f"fail-{self.number}").exists():
            raise StoreError(f"no {self.number}")
        array = np.full(2, self.number, "u1")
        self.store.set(f"a/c/{self.number}", array.tobytes())
        return Sum(1, self.number)


class Fill(Job[Sum]):
    """Write an array of numbers chunk by chunk."""

    def __init__(self, store: Any, folder: Path, overwrite: bool = False) -> None:
        self.store, self.folder, self.overwrite = store, str(folder), overwrite

    def plan(self, tasks_at_once: int = 1) -> Plan[Sum]:
        options: Any = {"chunks": (2,), "dtype": "u1", "codecs": ["bytes"]}
        model = oz.create_array(MemoryStore(), shape=(20,), **options)._model
        output = HierarchyOutput(
            Location(self.store, "", by_name(3)),
            {"": GroupModel(), "a": model},
            operation="filling an array",
            digest="0123456789abcdef0123",
            overwrite=self.overwrite,
        )

        def tasks() -> Iterator[Task[Sum]]:
            for number in range(10):
                work = WriteChunk(output.chunk_store, self.folder, number)
                yield Task(task_id(number), work)

        return Plan("fill", output.digest, [Phase("fill", tasks)], Sum(), output)


EXPECTED = np.repeat(np.arange(10), 2)
PLACES: dict[str, Any] = {
    "directory": lambda folder: LocalStore(folder / "out.zarr"),
    "memory": lambda folder: MemoryStore(),
    "zip": lambda folder: oz.storage.ZipStore(folder / "out.zip", mode="w"),
    "sqlite": lambda folder: oz.storage.SQLiteStore(folder / "out.sqlite"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_an_output_is_invisible_until_it_is_complete(kind: str, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)
    (tmp_path / "fail-7").touch()
    with pytest.raises(StoreError, match="no 7"):
        run(Fill(store, tmp_path), workers=1)
    with pytest.raises(NodeNotFound, match=r"since filling .* run that again with resume=True"):
        oz.open(store)
    with pytest.raises(NodeExists, match=r"incomplete.* give resume=True to finish it, or overw"):
        run(Fill(store, tmp_path))
    (tmp_path / "fail-7").unlink()
    assert run(Fill(store, tmp_path), resume=True).numbers == 10
    assert np.array_equal(oz.open(store)["a"][:], EXPECTED)
    assert [key for key in list_prefix(store, "") if JOURNAL in key] == []


@pytest.mark.parametrize("kind", ["directory", "memory", "sqlite"])
def test_a_node_is_replaced_when_the_new_one_is_complete(kind: str, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)
    old = np.arange(5)
    oz.create_array(store, path="a", data=old)
    with pytest.raises(NodeExists, match="overwrite=True"):
        run(Fill(store, tmp_path))
    (tmp_path / "fail-7").touch()
    with pytest.raises(StoreError, match="no 7"):
        run(Fill(store, tmp_path, overwrite=True), workers=1)
    assert np.array_equal(oz.open(store)["a"][:], old)
    (tmp_path / "fail-7").unlink()
    if kind != "memory":  # which keeps nothing of a failed writer
        (tmp_path / "fail-2").touch()  # which is done: it must not run again
    assert run(Fill(store, tmp_path, overwrite=True), resume=True).numbers == 10
    assert np.array_equal(oz.open(store)["a"][:], EXPECTED)
    left = [key for key in list_prefix(store, "") if JOURNAL in key or FOLDER in key]
    assert left == []


@pytest.mark.parametrize("when", ["begun", "ending"])
def test_a_part_that_runs_again_while_the_job_ends_leaves_no_journal(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last part ends the job when the other has begun, or the other runs while it does that."""
    parts, store = 40, LocalStore(tmp_path / "out.zarr")
    for number in range(1, parts):
        run(Fill(store, tmp_path), part=(number, parts))
    where, name, first, second = (
        (HierarchyOutput, "begin", 1, 40)
        if when == "begun"
        else (Publication, "erase_journal", 40, 1)
    )
    original = getattr(where, name)

    def overtaken(*args: Any) -> Any:
        found = original(*args)
        monkeypatch.undo()
        run(Fill(store, tmp_path), part=(second, parts))
        return found

    monkeypatch.setattr(where, name, overtaken)
    run(Fill(store, tmp_path), part=(first, parts))
    assert getattr(where, name) is original  # it was called
    assert [*(tmp_path / "out.zarr").glob(".__omnizarr*")] == []
    assert np.array_equal(oz.open(str(tmp_path / "out.zarr"))["a"][:], EXPECTED)


def test_a_part_that_comes_late_finds_its_work_done(tmp_path: Path) -> None:
    parts = 40  # of ten tasks
    results = []
    for number in range(1, parts + 1):
        results.append(run(Fill(LocalStore(tmp_path / "out.zarr"), tmp_path), part=(number, parts)))
    complete = [each.numbers == 10 for each in results]
    assert complete == sorted(complete)
    assert sum(complete) > 1
    assert np.array_equal(oz.open(str(tmp_path / "out.zarr"))["a"][:], EXPECTED)
    assert [*(tmp_path / "out.zarr").glob(".__omnizarr*")] == []


def test_a_plan_shows_stages_and_decisions(tmp_path: Path) -> None:
    plan = AddAll(str(tmp_path), 3, phases=2).plan()
    plan.decisions.append("numbers are added, as there is nothing else to do with them")
    plan.memory = 2**20
    assert str(plan).splitlines() == [
        "add",
        "  numbers are added, as there is nothing else to do with them",
        "  phase 1: add numbers 0: 3 tasks",
        "  phase 2: add numbers 1: 3 tasks",
        "  memory: at most 1.0 MiB for each process",
    ]
    phase: Phase[Sum] = Phase("copy", lambda: iter(()), 1, None, 2, 1, 2048, None)
    assert str(phase) == "copy: 1 task, read 2 values of 2.0 KiB, write 1 value"
    assert json.loads(json.dumps(plan.to_json()))["phases"][0]["count"] == 3


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of open files")
@pytest.mark.parametrize("url", ["{}.zip", "sqlite://{}.sqlite", "lmdb://{}.lmdb"])
@pytest.mark.parametrize("job", [oz.jobs.Copy, oz.jobs.Convert, oz.jobs.Rechunk])
def test_a_job_closes_the_stores_that_it_opened(job: Any, url: str, tmp_path: Path) -> None:
    if "lmdb" in url:
        pytest.importorskip("lmdb")
    source, target = (url.format(tmp_path / name) for name in "ab")
    oz.save(source, np.arange(6))
    options = {"chunks": 2} if job is oz.jobs.Rechunk else {}
    described = job(source, target, **options)

    def open_files() -> list[str]:
        links = (os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return [link for link in links if str(tmp_path) in link]

    gc.collect()
    gc.disable()
    try:
        run(described, workers=1)
        assert open_files() == []
        with pytest.raises(NodeExists) as error:  # which is kept, with all that it refers to
            run(described)
        assert error is not None
        assert open_files() == []
    finally:
        gc.enable()


def test_a_job_is_shown_without_secrets() -> None:
    url, options = "https://me:secret@host/x.zarr?sig=secret", {"secret_access_key": "secret"}
    for job in (
        oz.jobs.Copy(url, url, storage_options=options, destination_options=options),
        oz.jobs.Convert(url, url, storage_options=options),
    ):
        assert repr(job).startswith(f"{type(job).__name__}(source='https://host/x.zarr?…', ")
        assert "storage_options=['secret_access_key']" in repr(job)
        assert "=secret" not in repr(job).replace("='secret_", "")
        assert ":secret" not in repr(job)
