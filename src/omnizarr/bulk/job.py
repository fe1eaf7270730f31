"""Bulk operations as jobs: described once, planned before anything is written, run anywhere.

A `Job` is a description that can be pickled. Its `Plan` has phases, which run one after the other,
each of independent tasks that run in any order, on threads, processes or a cluster. A task can be
repeated without harm. A journal of the tasks that are done is kept beside the output, so that a job
that was killed is finished by the same call with ``resume=True``; what a job writes is not visible
as a node before it is complete.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any, Generic

from omnizarr import config, extension
from omnizarr.bulk.journal import NONE, Journal, O, Outcome, Task, TaskIds, user_journal
from omnizarr.bulk.options import RunOptions, option_help
from omnizarr.bulk.output import Output
from omnizarr.errors import InvalidArgument, OmnizarrError, StoreError, warn
from omnizarr.extension import On, counted, info, publication, size_text, stores, tasks_at_once

MEMORY = "512MB"  # of one process, unless the user says otherwise


@dataclass
class Phase(Generic[O]):
    """Tasks that are independent of each other; numbers not known beforehand are None."""

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
            >>> plan.phases[0].to_json()["name"]
            'rechunk'
        """
        unknown = ("tasks", "at_once")
        return {name: value for name, value in vars(self).items() if name not in unknown}


@dataclass
class Plan(Generic[O]):
    """The phases of a job, its decisions with their reasons, and its output.

    Attributes:
        operation: The operation, such as "rechunk a.zarr to b.zarr".
        digest: A digest of everything that the job depends on; a job is resumed by the same plan
            only.
        phases: The phases, which run one after another.
        outcome: The result so far: what is known without running the tasks.
        output: The output; None for a job that only reads.
        decisions: The choices that were made, and the reasons.
        memory: The bytes that the tasks need at a time in one process.
    """

    operation: str  # such as "rechunk a.zarr to b.zarr"
    digest: str  # of everything that the job depends on; a job is resumed by the same plan only
    phases: list[Phase[O]]
    outcome: O  # the result so far: what is known without running the tasks
    output: Output | None = None  # None for a job that only reads
    decisions: list[str] = field(default_factory=list)  # what was chosen, and the reason
    memory: int | None = None  # bytes that the tasks need at a time in one process

    def __str__(self) -> str:
        """Return the plan as text, as ``--dry-run`` prints it."""
        lines = [self.operation, *(f"  {line}" for line in self.decisions)]
        numbered = len(self.phases) > 1
        for number, phase in enumerate(self.phases, 1):
            lines.append(f"  {f'phase {number}: ' if numbered else ''}{phase}")
        if self.memory is not None:
            lines.append(f"  memory: at most {size_text(self.memory)} for each process")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        operation, _, rest = str(self).partition("\n")
        return info.card(
            f"{operation}  ·  plan",
            {},
            folded={"steps": info.preformatted(rest)},
            opened=True,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON.

        Examples:
            >>> plan = oz.jobs.Rechunk(oz.create_array(shape=6), "b.zarr", chunks=3).plan()
            >>> len(plan.to_json()["phases"])
            1
        """
        return {
            "operation": self.operation,
            "decisions": self.decisions,
            "phases": [phase.to_json() for phase in self.phases],
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
    return f"{type(job).__name__}({extension.redact_urls(', '.join(parts))})"


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
        cls.__repr__ = _shown  # type: ignore[method-assign]  # not the dataclass's

    @abstractmethod
    def plan(self, tasks_at_once: int = 1) -> Plan[O]:
        """Read the metadata and decide what to do; nothing is written.

        `tasks_at_once` tasks run at a time in one process and share its memory.
        """

    def settle(self, resume: bool) -> None:
        """Prepare for `plan`: settle interrupted replacements of nodes of the source."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running job."""

    operation: str
    phase: int  # from 1
    phases: int
    label: str  # the array of the last task
    tasks: int  # of this phase, done
    tasks_total: int | None
    size: int  # bytes of this phase, done
    size_total: int | None
    outcome: Outcome  # the result so far


def run(
    job: Job[O],
    on: On = None,
    *,
    workers: int | None = None,
    resume: bool = False,
    part: publication.Part | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> O:
    """Run a job.

    With ``part=(3, 100)`` this call runs the third of a hundred parts, as one of the jobs of a
    batch system may do; the part that completes the job makes its result visible. A job of several
    phases needs one round of all parts for each phase.

    Args:
        job: A job of `omnizarr.jobs`.
        on: Where the tasks run: threads by default, ``"processes"``, an executor of
            `concurrent.futures`, or a Dask client.
        workers: The largest number of threads or processes.
        resume: True to finish what an interrupted call began.
        part: The number of the part to run, from 1, and the number of parts.
        progress: A function that is called with a `jobs.Progress` now and then.

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
    with ExitStack() as ends:
        with stores.close_later(ends):
            job.settle(resume)
            plan = job.plan(tasks_at_once(on, workers))
        try:
            return _Run(plan, on, workers, part, progress).run(resume)
        except KeyboardInterrupt:
            if plan.output is None or hasattr(on, "submit"):
                ends.pop_all()  # threads that an interrupt does not wait for may still use them
            raise


def launch(describe: Callable[..., Job[O]], given: RunOptions, **more: Any) -> O:
    """Run the job that the arguments of a function describe; `more` are options of the job."""
    values = {each.name: getattr(given, each.name) for each in dataclasses.fields(given)}
    rest: Any = {each.name: values.pop(each.name) for each in dataclasses.fields(RunOptions)}
    return run(describe(**values, **more), **rest)


@dataclass
class _Run(Generic[O]):
    """One call of `run`."""

    plan: Plan[O]
    on: On
    workers: int | None
    part: publication.Part | None
    progress: Callable[[Progress], object] | None
    check: Callable[[], object] = int  # raises if another job may write instead

    def run(self, resume: bool) -> O:
        output = self.plan.output
        if output is None:
            return self._read(resume or self.part is not None)
        here = next((s for s in output.stores if stores.traits(s).process_local), None)
        if hasattr(output.store, "compact"):  # a ZIP file has one writer
            here = output.store
        if here is not None and not extension.runs_in_process(self.on):
            raise StoreError(
                f"{here!r} can be used by one process only; leave `on` out to run the job on"
                " threads, or use another store"
            )
        flush = getattr(output.store, "flush", lambda: None)
        try:
            with publication.locked_destination(
                *output.place, self.plan.operation, self.part
            ) as self.check:
                total = self._write(output, resume)
        except BaseException:
            with suppress(OmnizarrError):  # the first error is the one to raise
                flush()
            raise
        flush()  # a ZIP file is complete when its directory is written
        return total

    def _read(self, begun: bool) -> O:
        """Run a job that only reads, whose journal is in a folder of the user's."""
        # The result of a part is in its journal only, so that a part needs one.
        place, alone = user_journal(self.plan.digest), self.part is None
        journal = Journal(*place, self.plan.outcome, optional=alone)
        if not begun:
            journal.erase()
        total, complete = self._run_phases(journal, begun)
        if complete and journal.used:
            journal.erase()
        return total

    def _write(self, output: Output, resume: bool) -> O:
        """Run a job that writes, while no other one writes to the same place."""
        state = output.begin(resume, self.part is not None)
        if state == "new":
            output.clear_intermediate()  # of an earlier job
        journal = Journal(*output.journal, self.plan.outcome)
        if state == "finished":
            total = journal.read()[1]
        else:
            try:
                total, complete = self._run_phases(journal, state == "resumed")
                if complete:
                    output.finish()
            except BaseException:
                output.abandon()
                raise
            if not complete:
                if output.is_cleared():
                    journal.erase()
                return total
        problem = _join_above(*output.place)
        if self.part is None:
            output.clear()
        elif journal.end_part(self.part, len(self.plan.phases)):
            output.clear()
            journal.erase()  # again: another run of a part may have added to it before it could see
        elif output.is_cleared():
            journal.erase()
        if problem is not None:
            warn(problem)
        return total

    def _run_phases(self, journal: Journal[O], begun: bool) -> tuple[O, bool]:
        """Return the result, and True if all tasks are done, in other parts too."""
        part, count = self.part, len(self.plan.phases)
        done, total = journal.read() if begun else (NONE, copy.deepcopy(self.plan.outcome))

        def is_complete(phase: Phase[O]) -> bool:  # in all parts
            return all(task.id in done for task in phase.tasks())

        for number, phase in enumerate(self.plan.phases, 1):
            if part is not None and number < count and is_complete(phase):
                continue
            self._run_phase(number, phase, journal, done, total)
            if part is None:
                continue
            done, total = journal.read()
            complete = number == count and is_complete(phase)
            if not complete:
                journal.end_part(part, count)
            if number < count:
                warn(
                    f"part {part[0]} of {part[1]} has done its share of phase {number} of {count}:"
                    " when all parts have, run all of them again for the next phase"
                )
            if not complete:
                return total, False
        return total, True

    def _run_phase(
        self, number: int, phase: Phase[O], journal: Journal[O], done: TaskIds, total: O
    ) -> None:
        tasks = sizes = 0

        def tell(label: str) -> None:
            if self.progress is not None:
                self.progress(
                    Progress(
                        self.plan.operation, number, len(self.plan.phases), label,
                        tasks, phase.count, sizes, phase.size, total,
                    )
                )  # fmt: skip

        def pending() -> Iterator[Task[O]]:
            nonlocal tasks, sizes
            for task in phase.tasks():
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
            workers = self.workers
            if phase.at_once is not None and self.on in (None, "threads"):
                workers = min(phase.at_once, tasks_at_once(self.on, workers))
            extension.for_each_on(
                self.on, workers, pending(), methodcaller("work"), note, waits=waits
            )
        except BaseException:
            with suppress(OmnizarrError):  # the first error is the one to raise
                journal.flush(quiet=True)
            raise
        if waits or self.part is not None:
            # At the end, too: a job that is killed there has all results on resume.
            last = self.part is None and number == len(self.plan.phases)
            with suppress(OmnizarrError) if last else nullcontext():
                journal.flush()
        tell("")


def _join_above(store: extension.Store, path: str) -> str | None:
    """Update the consolidated metadata of a larger hierarchy that the root is a part of.

    Returns a warning if that hierarchy does not list it, being of another format, or if its
    consolidated metadata could not be changed.
    """
    above = [] if path else [*extension.lookup.hierarchies_above(store)]
    own = extension.lookup.root_formats(store) if above else []
    if not above or not own:
        return None
    nearest, names = above[0][0], [format.name for format in above[0][1]]
    listed = [format for format in own if format.name in names]
    if not listed:
        return (
            f"{store!r} is zarr {own[0].name} inside {nearest!r}, which is zarr"
            f" {' and '.join(names)} and does not list it; write it in that format to make it a"
            " member"
        )
    try:
        for format in listed:
            same = (each for each, formats in above if format.name in [f.name for f in formats])
            *_, outermost = map(stores.file_root, same)
            root = stores.file_root(store)
            if root is not None and outermost is not None:
                inside = Path(os.path.realpath(root)).relative_to(outermost).as_posix()
                extension.update_consolidated_above(
                    extension.Location(extension.LocalStore(outermost), inside, format), None
                )
    except StoreError as e:
        return str(e)
    return None


def store_options(job: Any) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the options for the stores of the source and of the destination of a job."""
    given = job.storage_options, job.destination_options
    return extension.options_for_two(job.source, job.destination, *given)


def memory_of(given: int | str | None, tasks: int) -> int:
    """Return the bytes that each of `tasks` concurrent tasks may use."""
    return max(1, config.byte_size(MEMORY if given is None else given, "memory") // max(1, tasks))
