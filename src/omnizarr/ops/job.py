"""Bulk operations as jobs: described once, planned before anything is written, run anywhere.

A `Job` is a description that can be pickled. Its `Plan` has stages, which run one after the other,
each of independent tasks that run in any order, on threads, processes or a cluster. A task can be
repeated without harm. A journal of the tasks that are done is kept beside the output, so that a job
that was killed is finished by the same call with ``resume=True``; what a job writes is not visible
as a node before it is complete.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from omnizarr import config
from omnizarr.concurrency.executors import On, for_each_on, runs_in_process, tasks_at_once
from omnizarr.errors import InvalidArgument, NodeExists, OmnizarrError, StoreError, warn
from omnizarr.formats import consolidated
from omnizarr.hierarchy.build import Build, build_resumable
from omnizarr.hierarchy.info import counted, size_text
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.open import consolidate_metadata
from omnizarr.model import Node
from omnizarr.stores import (
    LocalStore,
    MemoryStore,
    Store,
    can_list,
    erase_prefix,
    get_many,
    is_process_local,
    list_prefix,
)
from omnizarr.stores.identity import key_digest
from omnizarr.stores.local.atomic_files import OURS
from omnizarr.stores.staging import marker

MEMORY = "512MB"  # of one process, unless the user says otherwise
JOURNAL = f"{OURS}journal__"  # in the root of a store: one prefix for each job
FLUSH = 1.0  # seconds between two entries of a journal
Part: TypeAlias = tuple[int, int]  # the number of this part, from 1, and of all parts


@dataclass
class Outcome:
    """The result of a task or of a job: numbers are added, lists and dictionaries are joined.

    Every field has a default, so that there is an empty result.
    """

    def merge(self, other: Self) -> None:
        """Add the result of another part of the same job."""
        for each in dataclasses.fields(other):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                mine.update(theirs)
            elif isinstance(mine, list):
                mine.extend(theirs)
            elif isinstance(mine, (int, float)) and not isinstance(mine, bool):
                setattr(self, each.name, mine + theirs)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `from_json` reads it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` wrote."""
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
    return int(key_digest(*parts)[:16], 16)


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
        """Return the expected numbers as JSON."""
        names = "name", "count", "size", "reads", "writes", "bytes_read", "bytes_written"
        return {name: getattr(self, name) for name in names}


class Output(Protocol):
    """The output of a job: complete and visible after `finish`, and not before."""

    @property
    def store(self) -> Store:
        """The store that the job writes to."""

    @property
    def journal(self) -> tuple[Store, str]:
        """The store and prefix of the journal, once the output has begun."""

    def begin(self, resume: bool, shared: bool) -> bool:
        """Prepare the destination; return True if an interrupted job is resumed or joined.

        With `shared`, other processes run other parts of the same job.
        """

    def finish(self) -> None:
        """Make the result visible."""

    def abandon(self) -> None:
        """Leave the destination after an error so that the job can be resumed."""


@dataclass
class Plan(Generic[O]):
    """The stages of a job, what was decided and why, and its output."""

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

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "operation": self.operation,
            "decisions": self.decisions,
            "stages": [stage.to_json() for stage in self.stages],
            "memory": self.memory,
        }


class Job(ABC, Generic[O]):
    """The description of a bulk operation; it can be pickled if its stores can."""

    @abstractmethod
    def plan(self, tasks_at_once: int = 1) -> Plan[O]:
        """Read the metadata and decide what to do; nothing is written.

        So many tasks run at a time in one process and share its memory.
        """


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


class Journal(Generic[O]):
    """The tasks of a job that are done, and their merged result, as small values in a store.

    Each process that runs a part of a job writes entries of its own, so that none waits for
    another. An entry is written every second; tasks after the last one are repeated on resume.
    """

    def __init__(self, store: Store, prefix: str, outcome: O, *, optional: bool = False) -> None:
        self.store, self.prefix = store, prefix
        self.optional = optional  # a job that only reads goes on where no journal can be written
        self._kind = type(outcome)
        self._writer = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._number = 0
        self.used = False  # there is an entry
        self._new: list[int] = []
        self._result = self._nothing()
        self._written = time.monotonic()

    def _nothing(self) -> O:
        """Return an empty result; what a plan knows without running tasks is added once."""
        return self._kind()

    def read(self) -> tuple[set[int], O]:
        """Return the ids of all tasks that are done, and their merged result."""
        done: set[int] = set()
        total = self._nothing()
        keys = sorted(list_prefix(self.store, self.prefix)) if can_list(self.store) else []
        for key, text in zip(keys, get_many(self.store, [(k, None) for k in keys]), strict=True):
            try:
                entry = json.loads(text or b"")
                ids = [int(each, 16) for each in entry["tasks"]]
                result = self._kind.from_json(entry["outcome"])
            except (ValueError, KeyError, TypeError) as e:
                raise StoreError(f"the journal entry {key!r} in {self.store!r} is damaged") from e
            self.used = True
            if done.isdisjoint(ids):  # else tasks were repeated: their results count once
                total.merge(result)
            done.update(ids)
        return done, total

    def add(self, task: Task[O], result: O) -> None:
        """Note that a task is done."""
        self._new.append(task.id)
        self._result.merge(result)
        if time.monotonic() - self._written >= FLUSH:
            self.flush()

    def flush(self) -> None:
        """Store what was noted since the last entry."""
        if self._new:
            self.used = True
            entry = {"tasks": [f"{i:x}" for i in self._new], "outcome": self._result.to_json()}
            key = f"{self.prefix}{self._writer}-{self._number:06d}"
            try:
                self.store.set(key, json.dumps(entry).encode())
            except OmnizarrError as e:
                if not self.optional:
                    raise
                warn(f"the job cannot be resumed if it is interrupted: {e}")
                self.store = MemoryStore()
            self._number += 1
            self._new, self._result = [], self._nothing()
        self._written = time.monotonic()

    def erase(self) -> None:
        """Erase all entries."""
        if can_list(self.store):
            erase_prefix(self.store, self.prefix)


def run(
    job: Job[O],
    on: On = None,
    *,
    workers: int | None = None,
    resume: bool = False,
    part: Part | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> O:
    """Run a job and return its result.

    `on` is where the tasks run: on threads of this process by default, on ``"processes"``, on any
    executor of `concurrent.futures`, or on a Dask cluster, given its client. `workers` limits the
    number of threads or processes. An interrupted job is finished by the same call with
    ``resume=True``.

    With ``part=(3, 100)`` this call runs the third of a hundred parts, as one of the jobs of a
    batch system may do; the part that completes the job makes its result visible. A job of several
    stages needs one round of all parts for each stage. `progress` is called with a `Progress` now
    and then.
    """
    if part is not None and not 1 <= part[0] <= part[1]:
        raise InvalidArgument(f"part must be (number, of) with 1 <= number <= of, got {part}")
    if resume and part is not None:
        raise InvalidArgument("parts of a job are always resumed; leave resume out")
    return _Run(job.plan(tasks_at_once(on, workers)), on, workers, part, progress).run(resume)


class _Run(Generic[O]):
    """One call of `run`."""

    def __init__(
        self,
        plan: Plan[O],
        on: On,
        workers: int | None,
        part: Part | None,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self.plan, self.on, self.workers, self.part = plan, on, workers, part
        self.progress = progress

    def run(self, resume: bool) -> O:
        output = self.plan.output
        if output is None:
            begun = resume or self.part is not None
            return self._run_stages(self._journal(*_state(), optional=True), begun)
        if is_process_local(output.store) and not runs_in_process(self.on):
            raise StoreError(
                f"{output.store!r} is only in the memory of this process, so other processes cannot"
                " write to it; run the job on threads, or write to another store"
            )
        begun = output.begin(resume, self.part is not None)
        try:
            result = self._run_stages(self._journal(*output.journal), begun)
        except BaseException:
            output.abandon()
            raise
        return result

    def _journal(self, store: Store, prefix: str, optional: bool = False) -> Journal[O]:
        prefix = f"{prefix}{self.plan.digest[:20]}/"
        return Journal(store, prefix, self.plan.outcome, optional=optional)

    def _run_stages(self, journal: Journal[O], begun: bool) -> O:
        shared = self.part is not None
        done, total = set[int](), self.plan.outcome
        if begun:
            done, total = journal.read()
            total.merge(self.plan.outcome)
        else:
            journal.erase()
        for number, stage in enumerate(self.plan.stages, 1):
            if shared and number < len(self.plan.stages) and self._is_complete(stage, done):
                continue
            self._run_stage(number, stage, journal, done, total)
            if not shared:
                continue
            done, total = journal.read()
            total.merge(self.plan.outcome)
            if number < len(self.plan.stages) or not self._is_complete(stage, done):
                return total
        if self.plan.output is not None:
            self.plan.output.finish()
        if journal.used:
            journal.erase()
        return total

    def _run_stage(
        self, number: int, stage: Stage[O], journal: Journal[O], done: set[int], total: O
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
            done.add(task.id)
            total.merge(result)
            journal.add(task, result)
            tell(task.label)

        tell("")
        try:
            waits = self.plan.output is not None
            workers = self._workers(stage)
            for_each_on(self.on, workers, pending(), _run_task, note, waits=waits)
        except BaseException:
            with suppress(OmnizarrError):  # the first error is the one to raise
                journal.flush()
            raise
        if self.part is not None or number < len(self.plan.stages):
            journal.flush()
        tell("")

    def _workers(self, stage: Stage[O]) -> int | None:
        """Return the number of workers: of threads, no more than the stage has memory for."""
        if stage.at_once is None or self.on not in (None, "threads"):
            return self.workers
        return min(stage.at_once, tasks_at_once(self.on, self.workers))

    def _is_complete(self, stage: Stage[O], done: set[int]) -> bool:
        """Return True if all parts of a stage are done."""
        return all(task.id in done for task in stage.tasks())


def _run_task(task: Task[O]) -> O:
    return task.work()


def _state() -> tuple[Store, str]:
    """Return the place of the journal of a job that writes nothing: a folder of the user's."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or home
    return LocalStore(Path(home) / "omnizarr" / "jobs"), ""


class HierarchyOutput:
    """The nodes that a job writes: chunks first, metadata when all of them are complete.

    They are written at their keys, beside a marker that says that the node is incomplete; where a
    node is replaced, they are staged beside it, and swapped at the end.
    """

    def __init__(
        self,
        location: Location,
        nodes: Mapping[str, Node],
        *,
        operation: str,
        digest: str,
        overwrite: bool = False,
        consolidate: bool = False,
    ) -> None:
        self.location, self.nodes = location, nodes  # by path in the store
        self.operation, self.digest = operation, digest
        self.overwrite, self.consolidate = overwrite, consolidate
        self._build: Build | None = None

    @property
    def store(self) -> Store:
        """The store of the destination."""
        return self.location.store

    @property
    def journal(self) -> tuple[Store, str]:
        """The journal, in the root of the destination, or with what is staged.

        What is staged in memory is gone after an error, and so is its journal.
        """
        if not self._begun.resumable:
            return MemoryStore(), ""
        stage = self._begun.stage
        return self.location.store, f"{JOURNAL if stage is None else stage.prefix + JOURNAL}/"

    @property
    def chunk_store(self) -> Store:
        """The store that takes the chunks, at the keys that they have in the end."""
        return self._begun.chunk_store

    @property
    def _begun(self) -> Build:
        if self._build is None:
            raise StoreError(f"{self.operation} has not begun")
        return self._build

    def begin(self, resume: bool, shared: bool) -> bool:
        """Prepare the destination; return True if an interrupted job is resumed or joined."""
        self._build = build_resumable(
            self.location,
            overwrite=self.overwrite,
            operation=self.operation,
            plan=self.digest,
            resume=resume,
            shared=shared,
        )
        try:
            for path, node in sorted(self.nodes.items()):
                where = self._build.location.at(path)
                if not self._build.resumed or existing_node(where.store, path) is None:
                    where.create(node)
        except BaseException as e:
            self._build.__exit__(type(e), e, e.__traceback__)
            raise
        return self._build.resumed

    def finish(self) -> None:
        """Store the metadata, or swap the old node and the new."""
        try:
            self._begun.commit()
        except NodeExists:
            # Another process that shares the job has just made it visible.
            if self.location.store.get(marker(self.location.path)) is not None:
                raise
        if self.consolidate and consolidated.key(self.location.format, "") is not None:
            consolidate_metadata(self.location.store, path=self.location.path)

    def abandon(self) -> None:
        """Keep the chunks for a job that resumes this one; the error that ended it says so."""
        error = sys.exception()
        if error is None:
            self._begun.discard()
        else:
            self._begun.__exit__(type(error), error, error.__traceback__)


def memory_of(given: int | str | None, tasks: int) -> int:
    """Return the bytes that one of so many concurrent tasks may use."""
    return max(1, config.byte_size(MEMORY if given is None else given, "memory") // max(1, tasks))
