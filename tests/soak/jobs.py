"""Jobs killed (kill -9) at random moments and resumed: the same bytes as of one run.

A job runs in a forked process. It is killed after a random time, or just before a random one of its
changes of the destination (open, rename, remove …), so that its beginning and its end are met as
often as its tasks. Then it is resumed, sometimes killed again, until it ends.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr.bulk import journal
from omnizarr.bulk.job import Job, Phase, Plan
from omnizarr.bulk.journal import Outcome, Task, task_id
from omnizarr.bulk.output import HierarchyOutput
from omnizarr.cli.main import main
from omnizarr.concurrency import file_locks
from omnizarr.formats import by_name, is_metadata
from omnizarr.hierarchy.location import Location
from omnizarr.model import GroupModel
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.local.atomic_files import OURS, PARTIAL

OPTIONS: Any = {"chunks": (50,), "dtype": "i4", "codecs": ["bytes", "crc32c"]}
COUNT = 20  # chunks of each array that `Fill` writes
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
FLUSH = 0.002  # seconds between the entries of a journal, as jobs are short here
KILLS = 3  # of one job at most
FAILED, KILLED = -1, -9
Tree = dict[str, bytes]


@dataclass(frozen=True)
class Work:
    """A job from ``in`` to ``out`` in a folder, which a child process runs; it returns 0."""

    prepare: Callable[[Path], object]
    run: Callable[[Path, bool], int]  # the folder; if it is resumed


@dataclass
class Moment:
    """The time or the change of the destination at which a process is killed."""

    seconds: float | None = None
    change: int | None = None


def run(folder: Path, name: str, rounds: int, seed: int = 0) -> dict[str, int]:
    """Count killed processes, what looked complete after a kill, and jobs with wrong results."""
    work, chance = WORKS[name], random.Random(f"{seed} {name}")
    start, whole = folder / "start", folder / "whole"
    start.mkdir(parents=True)
    work.prepare(start)
    shutil.copytree(start, whole)
    began = time.monotonic()
    changes = _fork(work, whole, False, Moment())
    seconds = time.monotonic() - began
    old, new = _tree(start / "out"), _tree(whole / "out")
    found = {"jobs": rounds, "killed": 0, "looked complete": 0, "wrong": 0}
    for number in range(rounds):
        place = folder / f"round-{number}"
        kills: list[Moment] = []
        while not kills:  # unless it has ended before
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(start, place)
            for _ in range(chance.randint(1, KILLS)):
                moment = _moment(chance, seconds, changes)
                if _fork(work, place, bool(kills), moment) != KILLED:
                    break
                kills.append(moment)
                found["looked complete"] += not _is_old_or_new(place / "out", old, new)
        found["killed"] += len(kills)
        ended = _tree(place / "out") == new  # then it may be refused to begin again
        done = _fork(work, place, True, Moment())
        left = [str(path) for path in place.rglob("*") if _is_left(path)]
        if (done < 0 and not ended) or _tree(place / "out") != new or left:
            found["wrong"] += 1
            print(f"{name}, {place}, killed at {kills}: ended with {done}, left {left[:3]}")
        else:
            shutil.rmtree(place)
    return found


def _moment(chance: random.Random, seconds: float, changes: int) -> Moment:
    if chance.random() < 0.5:
        return Moment(seconds=chance.uniform(0, 1.05 * seconds))
    # A third of them at the beginning, a third at the end.
    low, high = chance.choice([(0, 10), (0, changes), (changes - 20, changes)])
    return Moment(change=chance.randint(max(low, 0), high))


def _fork(work: Work, folder: Path, resume: bool, moment: Moment) -> int:
    """Run a job in a child; return how often it changed files, or a negative number."""
    results, output = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(results)
            os.write(output, str(_work(work, folder, resume, moment)).encode())
        except oz.NodeExists:
            pass  # it had ended before
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(output)
    if moment.seconds is not None:
        time.sleep(moment.seconds)
        os.kill(child, signal.SIGKILL)
    with open(results) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return KILLED if os.WIFSIGNALED(status) else int(text or FAILED)


def in_child(act: Callable[[], object], seconds: float | None = None) -> int:
    """Run a function in a forked process; return its exit code, negative if it was killed.

    It is killed after some seconds if they are given.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work(work: Work, folder: Path, resume: bool, moment: Moment) -> int:
    """Run a job, and kill this process at its moment; return the number of changes."""
    journal.FLUSH = FLUSH
    changes = 0

    def count(event: str, given: tuple[Any, ...]) -> None:
        nonlocal changes
        if event in CHANGES and str(folder / "out") in str(given[0]):
            if changes == moment.change:
                os.kill(os.getpid(), signal.SIGKILL)
            changes += 1

    sys.addaudithook(count)
    return changes if work.run(folder, resume) == 0 else FAILED


def _tree(folder: Path) -> Tree:
    """Return all files, except what the library has for itself; metadata with sorted members."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    for key in filter(is_metadata, found):
        found[key] = json.dumps(json.loads(found[key]), sort_keys=True).encode()
    return {key: value for key, value in found.items() if OURS not in key}


def _is_left(path: Path) -> bool:
    """Return True for a file that is not data.

    Locks of killed processes are harmless, and so is a file that one had not renamed to its key:
    any write can be killed there, and `repair` erases it.
    """
    harmless = path.name.startswith(file_locks.NAME) or PARTIAL in path.name
    return OURS in str(path) and path.is_file() and not harmless


def _is_old_or_new(out: Path, old: Tree, new: Tree) -> bool:
    """Return True if every array that has metadata has all of its values, old or new ones."""
    found = _tree(out)
    for key in filter(is_metadata, found):
        folder = key.rpartition("/")[0]
        either = _below(old, folder), _below(new, folder)
        below = filter(is_metadata, {**either[0], **either[1]})
        if any(each.rpartition("/")[0] != folder for each in below):
            continue  # a group
        if _below(found, folder) not in either:
            print(f"{out}: {key} is there, but not all values, or other ones")
            return False
    return True


def _below(tree: Tree, folder: str) -> Tree:
    start = f"{folder}/" if folder else ""
    return {key: value for key, value in tree.items() if key.startswith(start)}


def run_on_dask(folder: Path, rounds: int, seed: int = 0) -> dict[str, int]:
    """Count jobs on three worker processes, one of which is killed in the middle."""
    from distributed import Client, LocalCluster

    chance = random.Random(seed)
    found = {"jobs": rounds, "killed": 0, "looked complete": 0, "wrong": 0}
    options: Any = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}
    oz.run(Fill(str(folder / "whole")))
    new = _tree(folder / "whole")
    connect: Any = Client  # which has no type annotations
    for number in range(rounds):
        out = folder / f"round-{number}"
        with LocalCluster(**options) as cluster, connect(cluster) as client:
            victim = chance.choice([*client.run(os.getpid).values()])
            moment = chance.randrange(1, 2 * COUNT)
            killer = threading.Thread(target=_kill_after, args=(out, moment, victim))
            killer.start()
            oz.run(Fill(str(out), seconds=0.01), client)
            killer.join()
        found["killed"] += 1
        found["wrong"] += _tree(out) != new
    return found


def _kill_after(out: Path, chunks: int, process: int) -> None:
    """Kill a worker when so many chunks are stored."""
    while len([*out.glob("*/c/*")]) < chunks:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)


# A job of two phases, the second of which reads what the first has written.


@dataclass(frozen=True)
class _Write:
    store: Any
    name: str
    number: int
    seconds: float = 0.0

    def __call__(self) -> Outcome:
        time.sleep(self.seconds)
        size = OPTIONS["chunks"][0]
        options: Any = {"shape": (COUNT * size,), **OPTIONS}
        model = oz.create_array(MemoryStore(), **options)
        box = slice(self.number * size, (self.number + 1) * size)
        if self.name == "a":
            model[box] = self.number + 1
        else:
            model.store.set(f"c/{self.number}", self.store.get(f"a/c/{self.number}"))
            model[box] = model[box] * 2
        self.store.set(f"{self.name}/c/{self.number}", model.store.get(f"c/{self.number}"))
        return Outcome()


@dataclass
class Fill(Job[Outcome]):
    """Write one array, then another one from it."""

    path: str
    overwrite: bool = False
    seconds: float = 0.0  # of each task, at least

    def plan(self, tasks_at_once: int = 1) -> Plan[Outcome]:
        shape = (COUNT * OPTIONS["chunks"][0],)
        model = oz.create_array(MemoryStore(), shape=shape, **OPTIONS)._model
        output = HierarchyOutput(
            Location(LocalStore(self.path), "", by_name(3)),
            {"": GroupModel(), "a": model, "b": model},
            operation="filling",
            digest="fill",
            overwrite=self.overwrite,
            consolidate=True,
        )

        def tasks(name: str) -> Iterator[Task[Outcome]]:
            for number in range(COUNT):
                work = _Write(output.chunk_store, name, number, self.seconds)
                yield Task(task_id(name, number), work)

        phases = [Phase(name, lambda name=name: tasks(name), COUNT) for name in "ab"]
        return Plan("fill", "fill", phases, Outcome(), output)


def _run_fill(overwrite: bool) -> Callable[[Path, bool], int]:
    def run_fill(folder: Path, resume: bool) -> int:
        oz.run(Fill(str(folder / "out"), overwrite), workers=2, resume=resume)
        return 0

    return run_fill


def _old_group(folder: Path) -> None:
    group = oz.create_group(folder / "out")
    group.create_array("a", data=np.arange(70), chunks=(10,))
    group.create_array("c", data=np.arange(20), chunks=(10,))


# Commands


def _command(*given: str) -> Callable[[Path, bool], int]:
    def run_command(folder: Path, resume: bool) -> int:
        words = [str(folder / word) if word in ("in", "out") else word for word in given]
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - of a child that ends here
        try:
            main([*words, "--workers", "2", *(["--resume"] if resume else [])])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run_command


def _source(folder: Path) -> None:
    group = oz.create_group(folder / "in", attributes={"title": "a source"})
    values = np.arange(40 * 30).reshape(40, 30)
    group.create_array("a", data=values.astype("f4"), chunks=(4, 30))
    group.create_array("deep/b", data=values.astype("i2"), chunks=(5, 6))
    group.create_array("empty", shape=(10,), chunks=(2,), dtype="u1")
    oz.consolidate_metadata(folder / "in")


def _source_and_old(folder: Path) -> None:
    _source(folder)
    _old_group(folder)


def _source_in_place(folder: Path) -> None:
    _source(folder)
    (folder / "in").rename(folder / "out")


def _image(folder: Path) -> None:
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    oz.ome.write(folder / "out", values, axes="yx", levels=1, chunks=(16, 16))


RECHUNK = ("rechunk", "in", "out", "--chunks", "20,10", "--array", "a", "--array", "deep/b")
TWO_PASSES = (*RECHUNK, "--passes", "2")
COMMANDS = {"copy": ("copy", "in", "out"), "rechunk": RECHUNK, "rechunk in two passes": TWO_PASSES,
            "convert": ("convert", "in", "out", "--to", "2")}  # fmt: skip
WORKS = {
    "a job of two phases": Work(lambda folder: None, _run_fill(overwrite=False)),
    "a job of two phases, overwriting": Work(_old_group, _run_fill(overwrite=True)),
    **{name: Work(_source, _command(*words)) for name, words in COMMANDS.items()},
    **{
        f"{name}, overwriting": Work(_source_and_old, _command(*words, "--overwrite"))
        for name, words in COMMANDS.items()
    },
    "rechunk in place": Work(
        _source_in_place, _command("rechunk", "out", "--in-place", "--yes", *RECHUNK[3:])
    ),
    "levels of an image": Work(_image, _command("pyramid", "out", "--levels", "4")),
}
