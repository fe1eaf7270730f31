"""Run a job of the command line: its options, its progress, and where its tasks run.

A command that runs a job takes `job_options`, or `writing_job_options` if the job writes, which
give it the parameters `where` and `storage_options`, and ``--json`` and ``--quiet``::

    @click.command(...)
    @click.argument("source")
    @click.argument("destination")
    @options_of(CopyOptions)
    @writing_job_options
    def copy(source: str, destination: str, where: Where, **given: Any) -> int:
        job = omnizarr.jobs.Copy(source, destination, **given)
        if where.dry_run:
            return planned(job, where).give()
        report = run_job(job, where)
        return answer(report.to_json(), partial(say, report))

A command with a source and a destination takes folders of hierarchies, too: `find_pairs` returns
the hierarchies with their destinations, and `run_pairs` runs a job for each.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import click

from omnizarr.bulk.options import RunOptions, option_help
from omnizarr.cli.answers import (
    Answer,
    hierarchies_in,
    is_complete,
    is_occupied,
    may_overwrite,
    run_each,
)
from omnizarr.cli.options import (
    Options,
    dry_run_option,
    json_option,
    quiet_option,
    storage_option,
)
from omnizarr.cli.terminal import (
    OK,
    PROBLEMS,
    confirm,
    counted,
    is_interactive,
    listed,
    progress_bar,
    remark,
    say,
)
from omnizarr.errors import InvalidArgument, MissingPackage, NodeExists, OmnizarrError
from omnizarr.extension import (
    Entry,
    can_list,
    check_disjoint,
    is_archive,
    key_digest,
    resolve,
    size_text,
    tasks_at_once,
)

if TYPE_CHECKING:
    from omnizarr.bulk.job import Job, Progress
    from omnizarr.bulk.journal import Outcome

O = TypeVar("O", bound="Outcome")  # noqa: E741 - the outcome of one kind of job
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Where:
    """The options of a job: where its tasks run, which of them, and what is shown."""

    workers: int | None = None
    processes: bool = False
    dask: str | None = None
    part: tuple[int, int] | None = None
    resume: bool = False
    dry_run: bool = False
    log: str | None = None
    checksums: str | None = None  # only of jobs that write
    several: bool = False  # jobs, for the hierarchies of a folder
    kept: int = 0  # jobs that were complete before

    @property
    def begins(self) -> bool:
        """True for a run that begins: not resumed, and no part of several."""
        return not self.resume and self.part is None

    @property
    def title(self) -> str:
        """The start of a line about the result: the part that was run."""
        return "" if self.part is None else f"part {self.part[0]} of {self.part[1]}: "

    @property
    def at_once(self) -> int:
        """The number of tasks that run at a time in one process."""
        return tasks_at_once("processes" if self.processes else None, self.workers)


def _parse_part(context: click.Context, parameter: click.Parameter, given: str | None) -> Any:
    if given is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"expected K/N such as 3/100, got {given!r}", context, parameter)
    return int(found[1]), int(found[2])


_HELP = option_help(RunOptions)
_OPTIONS = (
    click.option("--workers", type=click.IntRange(1), help=_HELP["workers"]),
    click.option("--processes", is_flag=True, help="Run tasks in processes, not in threads."),
    click.option("--dask", metavar="ADDRESS", help="Run tasks on this Dask cluster (tcp://...)."),
    click.option(
        "--part", metavar="K/N", callback=_parse_part,
        help="Run only part K of N, such as one job of a Slurm array.",
    ),
    click.option("--resume", is_flag=True, help="Go on with an interrupted run."),
    dry_run_option,
    click.option("--log", metavar="FILE", help="Append the plan and each phase to FILE, as JSON."),
)  # fmt: skip
_CHECKSUMS = click.option(
    "--checksums", metavar="FILE",
    help="Write SHA-256 lines of all that was written, for sha256sum -c.",
)  # fmt: skip


def job_options(command: F) -> F:
    """Add the options of jobs, which become one parameter, `where`, and those of the output."""
    names = [each.name for each in fields(Where)]

    @wraps(command)
    def with_where(**given: Any) -> Any:
        where = Where(**{name: given.pop(name) for name in names if name in given})
        if where.processes and where.dask is not None:
            raise click.UsageError("give --processes or --dask, not both")
        if where.part is not None and where.resume:
            raise click.UsageError("--part always goes on where it was; leave out --resume")
        return command(where=where, **given)

    found: Any = with_where
    for option in (storage_option, json_option, quiet_option, *reversed(_OPTIONS)):
        found = option(found)
    return found  # type: ignore[no-any-return]  # a decorated function, as click's are


def writing_job_options(command: F) -> F:
    """Add the options of jobs that write."""
    return job_options(_CHECKSUMS(command))


def may_replace(destination: str, overwrite: bool, where: Where, options: Options = None) -> bool:
    """Return `overwrite`, or True if the user agrees to replace what is at the destination.

    A dry run asks nothing, and says that the destination exists.
    """
    if where.begins and not where.dry_run:
        return may_overwrite(destination, overwrite, options)
    if where.begins and is_occupied(destination, options):
        show_existing(destination, overwrite)
    return overwrite


def show_existing(destination: str, overwrite: bool) -> None:
    """Tell in a dry run what would become of an existing destination."""
    fate = "would be replaced" if overwrite else "is replaced only with --overwrite"
    remark(f"{destination} exists, and {fate}", label="note")


def planned(job: Job[Any], where: Where, alone: bool = True) -> Answer:
    """Return the plan of a job, for ``--dry-run``."""
    plan = job.plan(where.at_once)

    def show() -> None:
        say(plan)
        if alone:
            say("nothing was written (--dry-run)")

    return Answer({"dry_run": True, "plan": plan.to_json()}, show)


def run_job(job: Job[O], where: Where, given: Job[O] | None = None) -> O:
    """Run a job with progress, and return its result.

    `given` is the job as the user described it, if this one has open stores.
    """
    import omnizarr  # noqa: PLC0415 - loaded when a job runs

    with _place(where) as on, progress_bar("bytes") as bar, _log(where.log) as log:
        if log is not None:
            log({"event": "plan", **job.plan().to_json()})

        def step(now: Progress) -> None:
            if bar is not None:
                phase = f" ({now.phase} of {now.phases})" if now.phases > 1 else ""
                bar(now.size, now.size_total or 0, f"{now.label or now.operation}{phase}")
            if log is not None and now.tasks in (0, now.tasks_total):
                log({"event": "progress", "phase": now.phase, "tasks": now.tasks})

        def work() -> O:
            return omnizarr.run(
                job,
                on,
                workers=where.workers,
                resume=where.resume,
                part=where.part,
                progress=step if bar is not None or log is not None else None,
                checksums=where.checksums,
            )

        # A job that only reads, or a part of one, has its journal elsewhere.
        writes = hasattr(job, "destination") and where.part is None
        result = _JobRecord[O](given or job).run(work, where) if writes else work()
        if log is not None:
            log({"event": "end", "outcome": result.to_json()})
    return result


class _JobRecord(Generic[O]):
    """Remember a job that writes in a folder of the user's, for ``--resume``.

    A job that is complete is not run again, unless its source or its result has changed since.
    """

    warned: ClassVar[bool] = False

    def __init__(self, job: Any) -> None:
        from omnizarr.bulk.journal import user_journal  # noqa: PLC0415 - loaded when a job runs

        self.job = job
        told = {name: value for name, value in vars(job).items() if name not in _IGNORED}
        told |= {name: _absolute(told.get(name)) for name in ("source", "destination")}
        key = key_digest("complete", type(job).__name__, [*sorted(told.items())])
        self.store, prefix = user_journal(key)
        self.key = f"{prefix}complete"
        self.target = job.destination
        self.source = getattr(job, "files", None) or job.source
        if self.target is None:  # in place
            self.target, self.source = self.source, None

    def run(self, work: Callable[[], O], where: Where) -> O:
        """Run the job unless it was complete before, and note that it is complete."""
        known = self._read() if where.resume else None
        source = _state(self.source, self.job)
        same = known is not None and source is not None and known["source"] == source
        if known is not None and known["result"] is not None:
            if same and known["result"] == _state(self.target, self.job):
                return self._kept(known["outcome"], where)
            if where.several:
                remark(f"{self.target} was complete, but it or its source has changed since")
        if known is None and not is_occupied(self.target, _options(self.target, self.job)):
            self._write(source)
        try:
            outcome = work()
        except NodeExists:
            # Of a folder: killed when the result was visible, before that was noted. A single job
            # is refused, because others may have written there since.
            if not where.several or known is None or known["result"] is not None or not same:
                raise
            if not is_complete(self.target, _options(self.target, self.job)):
                raise
            return self._kept(None, where)
        self._write(source, _state(self.target, self.job), outcome.to_json())
        return outcome

    def _kept(self, outcome: dict[str, Any] | None, where: Where) -> O:
        where.kept += 1
        if not where.several:
            remark("complete from before")
        planned: O = self.job.plan().outcome
        return planned if outcome is None else type(planned).from_json(outcome)

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.store.get(self.key) or b"null")
        except (OmnizarrError, ValueError):
            return None
        return found if isinstance(found, dict) and "result" in found else None

    def _write(self, source: str | None, result: str | None = None, outcome: Any = None) -> None:
        entry = {"source": source, "result": result, "outcome": outcome}
        try:
            self.store.set(self.key, json.dumps(entry, default=str).encode())
        except (OmnizarrError, OSError) as e:
            if not _JobRecord.warned:
                remark(f"--resume will not know what is complete: {e}", label="warning")
            _JobRecord.warned = True


# What does not change the values of the result, or is for one run only.
_IGNORED = (
    "overwrite", "measure", "memory", "verify", "passes", "temp", "dry_run",
    "storage_options", "destination_options",
)  # fmt: skip


def _state(place: Any, job: Any) -> str | None:
    """Return what differs after a file, or a value of a hierarchy, was changed.

    None if that is not known: databases have no times, and web servers list nothing.
    """
    from omnizarr.bulk.source_keys import source_keys  # noqa: PLC0415 - loaded when a job runs

    if place is None:
        return ""
    if isinstance(place, (list, tuple)):
        states = [_state(each, job) for each in place]
        return None if None in states else key_digest(states)
    if os.path.isfile(place):
        status = os.stat(place)
        return f"{status.st_size} {status.st_mtime_ns}"
    digest = blake2b(digest_size=16)
    try:
        store = resolve(place, read_only=True, storage_options=_options(place, job))
        for entry in sorted(source_keys(store, "", True)) if can_list(store) else [Entry("", None)]:
            if entry.modified is None and entry.tag is None:
                return None
            digest.update(repr(tuple(entry)).encode("utf-8", "surrogatepass"))
    except OmnizarrError:  # which the job reports
        return None
    return digest.hexdigest()


def _options(place: Any, job: Any) -> Options:
    """Return the options for the store of the source or the destination of a job."""
    options: Options = getattr(job, "storage_options", None)
    if place == getattr(job, "destination", None):
        options = getattr(job, "destination_options", None) or options
    return options


def _absolute(place: str | None) -> str | None:
    """Return what identifies a path or URL in every working directory."""
    return place if place is None or "://" in place else os.path.abspath(place)


@contextmanager
def resumed_together() -> Iterator[Callable[[int], int]]:
    """Have ``--resume`` repeat none of several jobs that were complete when another one failed.

    The exit code of all of them goes through the function that is provided.
    """
    from omnizarr.bulk.journal import keep_journals  # noqa: PLC0415 - loaded when a job runs

    with keep_journals() as kept:

        def ended(code: int) -> int:
            if code not in (OK, PROBLEMS):
                kept.clear()
            return code

        yield ended


# Folders of hierarchies


@dataclass(frozen=True)
class PathPair:
    """A hierarchy, and where a job writes to; None in place."""

    source: str
    destination: str | None

    @property
    def target(self) -> str:
        """The place that is written."""
        return self.source if self.destination is None else self.destination


def find_pairs(
    source: str, destination: str | None, options: Options, destination_options: Options
) -> list[PathPair] | None:
    """Return the hierarchies in a folder, each with its place below the destination.

    None if the source is a hierarchy itself, or has none below.
    """
    found = hierarchies_in(source, options)
    if found is None:
        return None
    if destination is None:
        return [PathPair(path, None) for path in found.values()]
    there = destination_options or options
    file = is_archive(destination) or os.path.isfile(destination)
    if file or is_complete(destination, there):
        what = "a file" if file else "a hierarchy itself"
        raise InvalidArgument(
            f"{source} is a folder of {counted(len(found), 'hierarchy')}, and {destination} is"
            f" {what}; give a folder as DESTINATION"
        )
    check_disjoint(
        resolve(source, read_only=True, storage_options=options),
        resolve(destination, read_only=True, storage_options=there),
    )
    start = destination.rstrip("/") or "/"
    return [PathPair(path, f"{start}/{name}") for name, path in found.items()]


def run_pairs(
    pairs: Sequence[PathPair],
    describe: Callable[[PathPair, bool], Job[Any]],
    work: Callable[[Any, PathPair], Answer],
    where: Where,
    *,
    verb: str,
    overwrite: bool,
    several: bool,
    asks: bool = True,
    options: Options = None,
) -> int:
    """Run a job for one hierarchy, or for each of several, and return the exit code.

    `describe` makes the job of a pair, given whether its destination may be replaced, and `work`
    runs it, or returns its plan. `options` are those of the destination. With `asks`, the user is
    asked once before what exists is replaced. Of several, the others go on after an error.
    """
    if not several:
        pair = pairs[0]
        if asks and pair.destination is not None:
            overwrite = may_replace(pair.destination, overwrite, where, options)
        return work(describe(pair, overwrite), pair).give()
    if where.checksums is not None:
        raise click.UsageError("--checksums needs a single SOURCE, not several hierarchies")
    names = [pair.target for pair in pairs]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise click.UsageError(f"several SOURCEs would become {twice}; write them one by one")
    if asks:
        overwrite = _may_replace_some(pairs, overwrite, where, options)
    places = {pair.source: pair for pair in pairs}
    existing: list[str] = []
    where.several = True

    def each(path: str) -> Answer:
        pair, before = places[path], where.kept
        try:
            done = work(describe(pair, overwrite), pair)
        except NodeExists:
            existing.append(path)
            raise
        if where.kept == before:
            return done
        shows = partial(say, f"{pair.target}: complete from before")
        return replace(done, data={**done.data, "kept": True}, show=shows)

    return run_each(
        [*places],
        each,
        summary=lambda every: _pairs_summary(every, len(pairs), len(existing), verb, where),
        folders=False,
        several=True,
        headed=where.dry_run,
    )


def _may_replace_some(
    pairs: Sequence[PathPair], overwrite: bool, where: Where, options: Options
) -> bool:
    """Return `overwrite`, or True if the user agrees to replace the destinations that exist."""
    if not where.begins or not (where.dry_run or (is_interactive() and not overwrite)):
        return overwrite
    targets = [pair.destination for pair in pairs if pair.destination is not None]
    found = [target for target in targets if is_occupied(target, options)]
    if where.dry_run:
        for target in found:
            show_existing(target, overwrite)
    elif found:
        some = f"{len(found)} of {counted(len(targets), 'destination')}"
        verb, them = ("exists", "it") if len(found) == 1 else ("exist", "them")
        confirm(f"{some} {verb}: {listed(found)}. Replace {them}?", yes=False)
        return True
    return overwrite


def _pairs_summary(
    every: Sequence[Answer], number: int, existing: int, verb: str, where: Where
) -> tuple[Any, str]:
    """Return the total of the results for JSON and as text, with the number that exist already."""
    if where.dry_run:
        text = f"{counted(len(every), 'hierarchy')}; nothing was written (--dry-run)"
        return {"hierarchies": len(every), "dry_run": True}, text
    totals: dict[str, int] = {}
    for done in every:
        for name, value in done.data.items():
            if type(value) is int:
                totals[name] = totals.get(name, 0) + value
    good, kept = sum(not done.is_problem for done in every), where.kept
    size = totals.get("bytes_written", 0) + totals.get("bytes_copied", 0)
    arrays = f"{counted(totals['arrays'], 'array')}, " if "arrays" in totals else ""
    text = (
        f"{where.title}{good} of {counted(number, 'hierarchy')} {verb}: {arrays}{size_text(size)}"
    )
    failed = number - len(every) - existing
    ends = (
        (kept, "complete from before"),
        (existing, "not replaced"),
        (failed, "failed: --resume tries only these again"),
    )
    text += "".join(f"; {amount} {what}" for amount, what in ends if amount)
    return {"hierarchies": len(every), "ok": good, "kept": kept, **totals}, text


@contextmanager
def _place(where: Where) -> Iterator[Any]:
    """Provide what `omnizarr.run` takes as `on`."""
    if where.dask is None:
        yield "processes" if where.processes else None
        return
    try:
        from dask.distributed import Client  # noqa: PLC0415 - optional
    except ImportError as e:
        raise MissingPackage("--dask needs Dask: pip install 'dask[distributed]'") from e
    try:
        connect: Any = Client  # which has no type annotations
        client = connect(where.dask, timeout=10)
    except (OSError, ValueError, TimeoutError) as e:
        raise click.UsageError(f"cannot connect to the Dask scheduler {where.dask!r}: {e}") from e
    with client:
        yield client


@contextmanager
def _log(path: str | None) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """Provide a function that appends an event to a file, one line of JSON each."""
    if path is None:
        yield None
        return
    with open(path, "a", encoding="utf-8") as file:

        def write(event: dict[str, Any]) -> None:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            file.write(json.dumps({"time": stamp, **event}) + "\n")
            file.flush()

        yield write
