"""Bulk operations as jobs: described once, planned before anything is written, run anywhere.

A `Job` is a description that can be pickled. Its `Plan` has stages, which run one after the other,
each of independent tasks that run in any order, on threads, processes or a cluster. A task can be
repeated without harm. A journal of the tasks that are done is kept beside the output, so that a job
that was killed is finished by the same call with ``resume=True``; what a job writes is not visible
as a node before it is complete.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from omnizarr import config
from omnizarr.bulk.checks.checksums import write_checksums
from omnizarr.bulk.options import RunOptions, option_help
from omnizarr.bulk.output import Output, join_above
from omnizarr.errors import InvalidArgument, NodeExists, OmnizarrError, StoreError, warn
from omnizarr.extension import (
    Begun,
    LocalStore,
    MemoryStore,
    On,
    Part,
    Store,
    can_list,
    card,
    counted,
    erase_prefix,
    for_each_on,
    get_many,
    is_process_local,
    key_digest,
    list_prefix,
    marker,
    preformatted,
    publication,
    redact_urls,
    report_card,
    runs_in_process,
    size_text,
    tasks_at_once,
)

MEMORY = "512MB"  # of one process, unless the user says otherwise
FLUSH, MAX_FLUSH = 1.0, 60.0  # seconds between two entries of a journal
EXPIRES = 30 * 86400  # seconds after which nobody resumes a job that only reads


@dataclass
class Outcome:
    """The result of a task or of a job: numbers are added, lists and dictionaries are joined.

    Every field has a default, so that there is an empty result.

    Examples:
        >>> oz.run(oz.jobs.Stats(oz.create_array(shape=3, fill_value=1))).to_json()["errors"]
        {}
    """

    def merge(self, other: Self) -> None:
        """Add the result of another part of the same job.

        Args:
            other: The other result.

        Examples:
            >>> from dataclasses import dataclass
            >>> @dataclass
            ... class Count(oz.jobs.Outcome):
            ...     done: int = 0
            >>> count = Count(2)
            >>> count.merge(Count(3))
            >>> count.done
            5
        """
        for each in dataclasses.fields(other):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                mine.update(theirs)
            elif isinstance(mine, list):
                mine.extend(theirs)
            elif isinstance(mine, (int, float)) and not isinstance(mine, bool):
                setattr(self, each.name, mine + theirs)

    def _repr_html_(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.repr}
        return report_card(type(self).__name__, shown)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `from_json` reads it.

        Examples:
            >>> oz.save("a.zarr", np.arange(3))
            >>> oz.verify("a.zarr").to_json()["arrays"]
            1
        """
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote.

        Args:
            stored: The JSON.

        Examples:
            >>> oz.save("a.zarr", np.arange(3))
            >>> report = oz.verify("a.zarr")
            >>> type(report).from_json(report.to_json()) == report
            True
        """
        return cls(**stored)


O = TypeVar("O", bound=Outcome)  # noqa: E741 - the outcome of one kind of job


@dataclass(frozen=True, slots=True)
class Task(Generic[O]):
    """An independent part of a job, which can be pickled, run anywhere, and be repeated."""

    id: int  # a digest of what it does, see `task_id`
    work: Callable[[], O]
    size: int = 0  # bytes that it handles, for the progress
    label: str = ""  # the path of the array, for the progress


def task_id(*parts: Any) -> int:
    """Return the id of a task from everything that distinguishes it from others of its job."""
    try:
        text = json.dumps(parts, separators=(",", ":")).encode()  # quick, also for 1,000 keys
    except TypeError:
        return int(key_digest(*parts)[:16], 16)
    return int.from_bytes(blake2b(text, digest_size=8).digest())


@dataclass
class Stage(Generic[O]):
    """Tasks that are independent of each other; None stands for what is not known beforehand."""

    name: str
    tasks: Callable[[], Iterator[Task[O]]]  # called after `Output.begin`, perhaps several times
    count: int | None = None  # tasks
    size: int | None = None  # the sum of their sizes
    reads: int | None = None  # requests
    writes: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    at_once: int | None = None  # tasks at a time in one process, if fewer than there are threads

    def __str__(self) -> str:
        parts = [] if self.count is None else [counted(self.count, "task")]
        pairs = (self.reads, self.bytes_read, "read"), (self.writes, self.bytes_written, "write")
        for requests, nbytes, verb in pairs:
            amount = "" if nbytes is None else f" {size_text(nbytes)}"
            many = "" if requests is None else f" {counted(requests, 'value')}"
            if amount or many:
                parts.append(f"{verb}{many}{' of' if many and amount else ''}{amount}")
        return f"{self.name}: {', '.join(parts)}" if parts else self.name

    def to_json(self) -> dict[str, Any]:
        """Return the expected numbers as JSON.

        Examples:
            >>> plan = oz.jobs.Rechunk(oz.create_array(shape=6), "b.zarr", chunks=3).plan()
            >>> plan.stages[0].to_json()["name"]
            'rechunk'
        """
        names = "name", "count", "size", "reads", "writes", "bytes_read", "bytes_written"
        return {name: getattr(self, name) for name in names}


@dataclass
class Plan(Generic[O]):
    """The stages of a job, what was decided and why, and its output.

    Attributes:
        operation: The operation, such as "rechunk a.zarr to b.zarr".
        digest: A digest of everything that the job depends on; a job is resumed by the same plan
            only.
        stages: The stages, which run one after another.
        outcome: The result so far: what is known without running the tasks.
        output: The output; None for a job that only reads.
        decisions: The choices that were made, and the reasons.
        memory: The bytes that the tasks need at a time in one process.
    """

    operation: str  # such as "rechunk a.zarr to b.zarr"
    digest: str  # of everything that the job depends on; a job is resumed by the same plan only
    stages: list[Stage[O]]
    outcome: O  # the result so far: what is known without running the tasks
    output: Output | None = None  # None for a job that only reads
    decisions: list[str] = field(default_factory=list)  # what was chosen, and the reason
    memory: int | None = None  # bytes that the tasks need at a time in one process

    def __str__(self) -> str:
        """Return the plan as text, as ``--dry-run`` prints it."""
        lines = [self.operation, *(f"  {line}" for line in self.decisions)]
        numbered = len(self.stages) > 1
        for number, stage in enumerate(self.stages, 1):
            lines.append(f"  {f'stage {number}: ' if numbered else ''}{stage}")
        if self.memory is not None:
            lines.append(f"  memory: at most {size_text(self.memory)} for each process")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        operation, _, rest = str(self).partition("\n")
        return card(f"{operation}  ·  plan", {}, folded={"steps": preformatted(rest)}, opened=True)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON.

        Examples:
            >>> plan = oz.jobs.Rechunk(oz.create_array(shape=6), "b.zarr", chunks=3).plan()
            >>> len(plan.to_json()["stages"])
            1
        """
        return {
            "operation": self.operation,
            "decisions": self.decisions,
            "stages": [stage.to_json() for stage in self.stages],
            "memory": self.memory,
        }


def _shown(job: Any) -> str:
    """Return the fields of a job, without secrets of its URLs and storage options."""
    shown = {each.name for each in dataclasses.fields(job) if each.repr}
    values = {name: getattr(job, name) for name in option_help(type(job)) if name in shown}
    parts = (
        f"{name}={sorted(value)}" if value and name.endswith("_options") else f"{name}={value!r}"
        for name, value in values.items()
    )
    return f"{type(job).__name__}({redact_urls(', '.join(parts))})"


class Job(ABC, Generic[O]):
    """The description of a bulk operation; it can be pickled if its stores can.

    A subclass has a method `plan`, which reads metadata, decides what to do and writes nothing.

    Examples:
        >>> job = oz.jobs.Rechunk(oz.create_array(shape=6), "b.zarr", chunks=3)
        >>> isinstance(job, oz.jobs.Job)
        True
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = _shown  # type: ignore[method-assign]  # in place of that of the dataclass

    @abstractmethod
    def plan(self, tasks_at_once: int = 1) -> Plan[O]:
        """Read the metadata and decide what to do; nothing is written.

        So many tasks run at a time in one process and share its memory.
        """

    def settle(self, resume: bool) -> None:
        """Prepare for `plan`: a job that replaces nodes of its source may find them in part."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running job."""

    operation: str
    stage: int  # from 1
    stages: int
    label: str  # the array of the last task
    tasks: int  # of this stage, done
    tasks_total: int | None
    size: int  # bytes of this stage, done
    size_total: int | None
    outcome: Outcome  # the result so far


class TaskIds:
    """A set of ids of tasks: eight bytes for each of them, where a set of integers needs 70."""

    def __init__(self, ids: NDArray[np.uint64]) -> None:
        self._sorted = memoryview(np.unique(ids).data)  # whose items are integers

    def __contains__(self, id: int) -> bool:
        at = bisect_left(self._sorted, id)
        return at < len(self._sorted) and self._sorted[at] == id

    def __len__(self) -> int:
        return len(self._sorted)


NONE = TaskIds(np.empty(0, np.uint64))


class Journal(Generic[O]):
    """The tasks of a job that are done, and their merged result, as small values in a store.

    Each process that runs a part of a job writes entries of its own, so that none waits for
    another. An entry is written every second, later every minute; tasks after the last one are
    repeated on resume. `outcome` is the result before the first task.
    """

    def __init__(self, store: Store, prefix: str, outcome: O, *, optional: bool = False) -> None:
        self.store, self.prefix, self.outcome = store, prefix, outcome
        self.optional = optional  # a job that only reads goes on where no journal can be written
        self._writer = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._number = 0
        self.used = False  # there is an entry
        self._new = array("Q")
        self._result = type(outcome)()
        self._began = self._written = time.monotonic()

    def read(self) -> tuple[TaskIds, O]:
        """Return the ids of all tasks that are done, and the result of the job so far."""
        keys = sorted(list_prefix(self.store, self.prefix)) if can_list(self.store) else []
        entries = []
        for key, text in zip(keys, get_many(self.store, [(k, None) for k in keys]), strict=True):
            try:
                entry = json.loads(text or b"")
                ids = np.frombuffer(base64.b64decode(entry["tasks"]), "<u8").astype(np.uint64)
                entries.append((ids, type(self.outcome).from_json(entry["outcome"])))
            except (ValueError, KeyError, TypeError) as e:
                raise StoreError(f"the journal entry {key!r} in {self.store!r} is damaged") from e
        self.used = bool(entries)
        done = TaskIds(np.concatenate([np.empty(0, np.uint64), *(ids for ids, _ in entries)]))
        if len(done) < sum(len(ids) for ids, _ in entries):
            entries = _without_repeated(entries)
        total = copy.deepcopy(self.outcome)
        for _, result in entries:
            total.merge(result)
        return done, total

    def add(self, task: Task[O], result: O) -> None:
        """Note that a task is done."""
        self._new.append(task.id)
        self._result.merge(result)
        now = time.monotonic()
        # So a day of work has hundreds of entries rather than 86,400.
        if now - self._written >= min(max(FLUSH, (now - self._began) / 100), MAX_FLUSH):
            self.flush()

    def flush(self, quiet: bool = False) -> None:
        """Store what was noted since the last entry; `quiet` where nobody may need it."""
        if self._new:
            self.used = True
            ids = np.array(self._new, "<u8").tobytes()
            entry = {"tasks": base64.b64encode(ids).decode(), "outcome": self._result.to_json()}
            key = f"{self.prefix}{self._writer}-{self._number:06d}"
            try:
                self.store.set(key, json.dumps(entry).encode())
            except OmnizarrError as e:
                if not self.optional:
                    raise
                if not quiet:
                    warn(f"the job cannot be resumed if it is interrupted: {e}")
                self.store = MemoryStore()
            self._number += 1
            self._new, self._result = array("Q"), type(self.outcome)()
        self._written = time.monotonic()

    def end_part(self, part: Part, rounds: int) -> bool:
        """Note that a part of a job has ended; return True if all have, in so many rounds."""
        entry = {"tasks": "", "outcome": type(self.outcome)().to_json()}
        key = f"{self.prefix}part-{part[0]}-of-{part[1]}-{self._writer}"
        self.store.set(key, json.dumps(entry).encode())
        keys = list_prefix(self.store, self.prefix) if can_list(self.store) else ()
        runs = Counter(key[len(self.prefix) :].split("-of-")[0] for key in keys)
        return all(runs[f"part-{number}"] >= rounds for number in range(1, part[1] + 1))

    def erase(self) -> None:
        """Erase all entries."""
        if can_list(self.store):
            erase_prefix(self.store, self.prefix)


def _without_repeated(entries: list[tuple[NDArray[np.uint64], O]]) -> list[Any]:
    """Leave out entries with tasks that another one has: results count once."""
    seen: set[int] = set()
    kept = []
    for ids, result in entries:
        if seen.isdisjoint(ids.tolist()):
            kept.append((ids, result))
        seen.update(ids.tolist())
    return kept


def run(
    job: Job[O],
    on: On = None,
    *,
    workers: int | None = None,
    resume: bool = False,
    part: Part | None = None,
    progress: Callable[[Progress], object] | None = None,
    checksums: str | os.PathLike[str] | None = None,
) -> O:
    """Run a job.

    With ``part=(3, 100)`` this call runs the third of a hundred parts, as one of the jobs of a
    batch system may do; the part that completes the job makes its result visible. A job of several
    stages needs one round of all parts for each stage.

    Args:
        job: A job of `omnizarr.jobs`.
        on: Where the tasks run: threads by default, ``"processes"``, an executor of
            `concurrent.futures`, or a Dask client.
        workers: The largest number of threads or processes.
        resume: True to finish what an interrupted call began.
        part: The number of the part to run, from 1, and the number of parts.
        progress: A function that is called with a `jobs.Progress` now and then.
        checksums: A file for the SHA-256 of all values that the job has written, which are read for
            that when the result is visible; ``sha256sum -c`` checks them in a directory.

    Returns:
        The result of the job.

    Raises:
        InvalidArgument: If the options do not fit each other or the job.

    Examples:
        >>> oz.save("a.zarr", np.arange(6))
        >>> report = oz.run(oz.jobs.Rechunk("a.zarr", "b.zarr", chunks=3), workers=2)
        >>> oz.open("b.zarr").chunks
        (3,)
    """
    if part is not None and not 1 <= part[0] <= part[1]:
        raise InvalidArgument(f"part must be (number, of) with 1 <= number <= of, got {part}")
    if resume and part is not None:
        raise InvalidArgument("parts of a job are always resumed; leave resume out")
    job.settle(resume)
    plan = job.plan(tasks_at_once(on, workers))
    return _Run(plan, on, workers, part, progress, checksums).run(resume)


_kept: ContextVar[list[Journal[Any]] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_journals() -> Iterator[list[Journal[Any]]]:
    """Keep the journals of jobs that only read until all jobs of the block have ended.

    If the block is interrupted, or removes them from the list, ``resume`` repeats none of the jobs
    that were complete.
    """
    kept: list[Journal[Any]] = []
    token = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(token)
    for journal in kept:
        if journal.used:
            journal.erase()


def launch(describe: Callable[..., Job[O]], given: RunOptions, **more: Any) -> O:
    """Run the job that the arguments of a function describe; `more` are options of the job."""
    values = {each.name: getattr(given, each.name) for each in dataclasses.fields(given)}
    rest: Any = {each.name: values.pop(each.name) for each in dataclasses.fields(RunOptions)}
    return run(describe(**values, **more), **rest)


class _Run(Generic[O]):
    """One call of `run`."""

    def __init__(
        self,
        plan: Plan[O],
        on: On,
        workers: int | None,
        part: Part | None,
        progress: Callable[[Progress], object] | None,
        checksums: str | os.PathLike[str] | None,
    ) -> None:
        self.plan, self.on, self.workers, self.part = plan, on, workers, part
        self.progress, self.checksums = progress, checksums
        self.check: Callable[[], object] = int  # raises if another job may write instead

    def run(self, resume: bool) -> O:
        output = self.plan.output
        self._check_checksums()
        if output is None:
            begun = resume or self.part is not None
            store, prefix = user_journal(self.plan.digest)
            journal = Journal(store, prefix, self.plan.outcome, optional=True)
            if not begun:
                journal.erase()
            total, complete = self._run_stages(journal, begun)
            kept = _kept.get()
            if complete and kept is not None:
                journal.flush(quiet=True)
                kept.append(journal)
            elif complete and journal.used:
                journal.erase()
            return total
        here = next(filter(is_process_local, output.stores), None)
        if here is not None and not runs_in_process(self.on):
            raise StoreError(
                f"{here!r} is only in the memory of this process, so other processes cannot"
                " write to it; run the job on threads, or write to another store"
            )
        with publication.locked_destination(
            *output.place, self.plan.operation, self.part
        ) as self.check:
            total = self._write(output, resume)
        flush = getattr(output.store, "flush", None)
        if flush is not None:  # a ZIP file is complete when its directory is written
            flush()
        return total

    def _write(self, output: Output, resume: bool) -> O:
        """Run a job that writes, while no other one writes to the same place."""
        state = self._begin(output, resume)
        journal = Journal(*output.journal, self.plan.outcome)
        if state == "finished":
            total = journal.read()[1]
        else:
            try:
                total, complete = self._run_stages(journal, state == "resumed")
                if complete:
                    output.finish()
            except BaseException:
                output.abandon()
                raise
            if not complete:
                if output.is_cleared():
                    journal.erase()
                return total
        problem = join_above(*output.place)
        self._end(output, journal, state)
        if problem is not None:
            warn(problem)
        return total

    def _begin(self, output: Output, resume: bool) -> Begun:
        try:
            state = output.begin(resume, self.part is not None)
        except NodeExists as e:
            store, path = output.place
            if not (resume or self.part is not None) or store.get(marker(path)) is not None:
                raise
            raise NodeExists(
                f"{e}. No interrupted job is left there, so that this one may be complete: compare"
                " it with the source by `omnizarr diff`",
                kind=e.kind,
            ) from e
        if state == "new":
            output.clear_intermediate()  # of an earlier job
        return state

    def _end(self, output: Output, journal: Journal[O], state: Begun) -> None:
        """Write the checksums, and erase what parts that come later do not need."""
        if self.checksums is not None:
            known = self.part is not None and state == "finished" and os.path.exists(self.checksums)
            if not known:  # else the part that completed the job has written them
                write_checksums(self.checksums, *output.written(), self.on, self.workers)
        if self.part is None:
            output.clear()
        elif journal.end_part(self.part, len(self.plan.stages)):
            output.clear()
            journal.erase()  # again: another run of a part may have added to it before it could see
        elif output.is_cleared():
            journal.erase()

    def _check_checksums(self) -> None:
        """Raise if the checksums could not be written at the end."""
        if self.checksums is None:
            return
        if self.plan.output is None:
            raise InvalidArgument("checksums are those of what a job writes; this one only reads")
        if not can_list(self.plan.output.store):
            raise InvalidArgument(
                f"checksums: {self.plan.output.store!r} cannot list what was written"
            )
        folder = os.path.dirname(os.path.abspath(self.checksums))
        if not os.path.isdir(folder):
            raise InvalidArgument(f"checksums: there is no directory {folder!r} to write to")

    def _run_stages(self, journal: Journal[O], begun: bool) -> tuple[O, bool]:
        """Return the result, and True if all tasks are done, also those of other parts."""
        part, count = self.part, len(self.plan.stages)
        done, total = journal.read() if begun else (NONE, copy.deepcopy(self.plan.outcome))
        for number, stage in enumerate(self.plan.stages, 1):
            if part is not None and number < count and self._is_complete(stage, done):
                continue
            self._run_stage(number, stage, journal, done, total)
            if part is None:
                continue
            done, total = journal.read()
            complete = number == count and self._is_complete(stage, done)
            if not complete:
                journal.end_part(part, count)
            if number < count:
                warn(
                    f"part {part[0]} of {part[1]} has done its share of stage {number} of {count}:"
                    " when all parts have, run all of them again for the next stage"
                )
            if not complete:
                return total, False
        return total, True

    def _run_stage(
        self, number: int, stage: Stage[O], journal: Journal[O], done: TaskIds, total: O
    ) -> None:
        tasks = sizes = 0

        def tell(label: str) -> None:
            if self.progress is not None:
                self.progress(
                    Progress(
                        self.plan.operation, number, len(self.plan.stages), label,
                        tasks, stage.count, sizes, stage.size, total,
                    )
                )  # fmt: skip

        def pending() -> Iterator[Task[O]]:
            nonlocal tasks, sizes
            for task in stage.tasks():
                if task.id in done:
                    tasks += 1
                    sizes += task.size
                elif self.part is None or task.id % self.part[1] == self.part[0] - 1:
                    yield task

        def note(task: Task[O], result: O) -> None:
            nonlocal tasks, sizes
            tasks += 1
            sizes += task.size
            total.merge(result)
            self.check()
            journal.add(task, result)
            tell(task.label)

        tell("")
        try:
            waits = self.plan.output is not None
            workers = self._workers(stage)
            for_each_on(self.on, workers, pending(), _run_task, note, waits=waits)
        except BaseException:
            with suppress(OmnizarrError):  # the first error is the one to raise
                journal.flush(quiet=True)
            raise
        if waits or self.part is not None:
            # At the end, too: a job that is killed there has all results on resume.
            last = self.part is None and number == len(self.plan.stages)
            with suppress(OmnizarrError) if last else nullcontext():
                journal.flush()
        tell("")

    def _workers(self, stage: Stage[O]) -> int | None:
        """Return the number of workers: of threads, no more than the stage has memory for."""
        if stage.at_once is None or self.on not in (None, "threads"):
            return self.workers
        return min(stage.at_once, tasks_at_once(self.on, self.workers))

    def _is_complete(self, stage: Stage[O], done: TaskIds) -> bool:
        """Return True if all parts of a stage are done."""
        return all(task.id in done for task in stage.tasks())


def _run_task(task: Task[O]) -> O:
    return task.work()


def user_journal(digest: str) -> tuple[Store, str]:
    """Return the place of a journal that is not beside an output: a folder of the user's."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or home
    folder = Path(home) / "omnizarr" / "jobs"
    with suppress(OSError):
        for old in folder.iterdir():
            if time.time() - old.stat().st_mtime > EXPIRES:
                shutil.rmtree(old, ignore_errors=True)
    return LocalStore(folder), f"{digest[:20]}/"


def memory_of(given: int | str | None, tasks: int) -> int:
    """Return the bytes that one of so many concurrent tasks may use."""
    return max(1, config.byte_size(MEMORY if given is None else given, "memory") // max(1, tasks))
