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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

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
    Probe,
    check_disjoint,
    is_archive,
    key_digest,
    portable_key,
    resolve,
    size_text,
    tasks_at_once,
)

if TYPE_CHECKING:
    from omnizarr.bulk.job import Job, Outcome, Progress
    from omnizarr.extension import Store

    O = TypeVar("O", bound=Outcome)  # noqa: E741 - the outcome of one kind of job

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
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
    click.option("--log", metavar="FILE", help="Append the plan and each stage to FILE, as JSON."),
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


def run_job(job: Job[O], where: Where) -> O:
    """Run a job with progress, and return its result."""
    import omnizarr  # noqa: PLC0415 - loaded when a job runs

    with _place(where) as on, progress_bar("bytes") as bar, _log(where.log) as log:
        if log is not None:
            log({"event": "plan", **job.plan().to_json()})

        def step(now: Progress) -> None:
            if bar is not None:
                stage = f" ({now.stage} of {now.stages})" if now.stages > 1 else ""
                bar(now.size, now.size_total or 0, f"{now.label or now.operation}{stage}")
            if log is not None and now.tasks in (0, now.tasks_total):
                log({"event": "progress", "stage": now.stage, "tasks": now.tasks})

        try:
            result = omnizarr.run(
                job,
                on,
                workers=where.workers,
                resume=where.resume,
                part=where.part,
                progress=step if bar is not None or log is not None else None,
                checksums=where.checksums,
            )
        except NodeExists:
            found = _completed(job) if where.resume else None
            if found is None:
                raise
            remark("complete from before")
            result = found
        else:
            if where.part is None:
                _note_completed(job, result)
        if log is not None:
            log({"event": "end", "outcome": result.to_json()})
    return result


def _note_completed(job: Job[O], result: O) -> None:
    """Note the result of a job, for ``--resume`` of one that is complete."""
    if not hasattr(job, "destination"):  # a job that only reads
        return
    with suppress(OmnizarrError, OSError):  # then it is not known
        store, key, place = _record(job)
        record = {"ended": time.time_ns(), "place": place, "outcome": result.to_json()}
        store.set(key, json.dumps(record, default=str).encode())


def _completed(job: Job[O]) -> O | None:
    """Return the result that was noted, unless its source or destination has changed since."""
    try:
        store, key, place = _record(job)
        record = json.loads(store.get(key) or b"null")
        if record is None or record["place"] != place:
            return None
        last = _last_change(job)
        if last is None or last > record["ended"]:
            return None
        outcome = type(job.plan().outcome)
        return outcome.from_json(record["outcome"])
    except (OmnizarrError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _last_change(job: Any) -> int | None:
    """Return when source or result were changed last, in nanoseconds since 1970.

    None if that is not known: databases have no times, and those of buckets are of another clock.
    """
    from omnizarr.extension import list_entries  # noqa: PLC0415 - loaded when a job runs

    given = getattr(job, "files", None) or job.source
    times = [0]
    for each in [*(given if isinstance(given, (list, tuple)) else [given]), job.destination]:
        file = _file(each)
        if file is not None:
            times.append(os.stat(file).st_mtime_ns)
        elif each is not None:
            for entry in list_entries(_opened(each, job), ""):
                if entry.modified is None or entry.tag is not None:
                    return None
                times.append(entry.modified)
    return max(times)


def _file(where: Any) -> str | os.PathLike[str] | None:
    """Return the path of a file, also of one that a job has opened as a store; None for others."""
    path = getattr(where, "path", None) if hasattr(where, "get") else where
    return path if isinstance(path, (str, os.PathLike)) and os.path.isfile(path) else None


def _opened(where: Any, job: Any) -> Store:
    """Open the source or the destination of a job with the options for it."""
    options = getattr(job, "storage_options", None)
    if where is not None and where == getattr(job, "destination", None):
        options = getattr(job, "destination_options", None) or options
    return resolve(where, read_only=True, storage_options=options)


def _record(job: Any) -> tuple[Any, str, str]:
    """Return where the result of a job is noted, and what identifies its destination as it is."""
    from omnizarr.bulk.job import user_journal  # noqa: PLC0415 - loaded when a job runs
    from omnizarr.extension import get_existing  # noqa: PLC0415 - loaded when a job runs

    store, prefix = user_journal(key_digest("complete", _job_key(job)))
    where = job.source if job.destination is None else job.destination
    file = _file(where)
    if file is not None:
        return store, f"{prefix}complete", _state(file, job)
    target = _opened(where, job)
    keys = Probe("").keys()
    known = getattr(target, "entry", None) or getattr(target, "generation", None)
    states: list[Any] = [known(key) for key in keys] if known else []
    states = [tuple(each) if isinstance(each, tuple) else each for each in states]
    states += sorted(get_existing(target, keys).items())
    return store, f"{prefix}complete", key_digest(states)


# What does not change the values of the result, or is for one run only.
_IGNORED = (
    "overwrite", "measure", "memory", "verify", "passes", "temp", "dry_run",
    "storage_options", "destination_options",
)  # fmt: skip


def _job_key(job: Any) -> str:
    """Return a digest of all that decides the result of a job, but for the values of its source."""
    told = {name: value for name, value in vars(job).items() if name not in _IGNORED}
    told |= {name: _absolute(told.get(name)) for name in ("source", "destination")}
    return key_digest(type(job).__name__, [(name, told[name]) for name in sorted(told)])


@contextmanager
def resumed_together() -> Iterator[Callable[[int], int]]:
    """Have ``--resume`` repeat none of several jobs that were complete when another one failed.

    The exit code of all of them goes through the function that is provided.
    """
    from omnizarr.bulk.job import keep_journals  # noqa: PLC0415 - loaded when a job runs

    with keep_journals() as kept:

        def ended(code: int) -> int:
            if code not in (OK, PROBLEMS):
                kept.clear()
            return code

        yield ended


# Folders of hierarchies


@dataclass(frozen=True)
class Pair:
    """A hierarchy, and where a job writes to; None in place."""

    source: str
    destination: str | None

    @property
    def target(self) -> str:
        """The place that is written."""
        return self.source if self.destination is None else self.destination


def find_pairs(
    source: str, destination: str | None, options: Options, destination_options: Options
) -> list[Pair] | None:
    """Return the hierarchies in a folder, each with its place below the destination.

    None if the source is a hierarchy itself, or has none below.
    """
    found = hierarchies_in(source, options)
    if found is None:
        return None
    if destination is None:
        return [Pair(path, None) for path in found.values()]
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
    return [Pair(path, f"{start}/{name}") for name, path in found.items()]


def run_pairs(
    pairs: Sequence[Pair],
    describe: Callable[[Pair, bool], Job[Any]],
    work: Callable[[Any, Pair], Answer],
    where: Where,
    *,
    given: Sequence[str | None],
    verb: str,
    overwrite: bool,
    several: bool,
    asks: bool = True,
    options: Options = None,
) -> int:
    """Run a job for one hierarchy, or for each of several, and return the exit code.

    `describe` makes the job of a pair, given whether its destination may be replaced, and `work`
    runs it, or returns its plan. `given` are the paths that the user gave, `options` those of the
    destination. With `asks`, the user is asked once before what exists is replaced. Of several,
    the others go on after an error, and ``--resume`` does not repeat what was complete before.
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
    journal = _PairJournal(given, where)
    existing: list[str] = []

    def each(path: str) -> Answer:
        pair = places[path]
        try:
            job = describe(pair, overwrite)
            if where.dry_run:
                return work(job, pair)
            return journal.run(job, pair, partial(work, job, pair), options)
        except NodeExists:
            existing.append(path)
            raise

    code = run_each(
        [*places],
        each,
        summary=lambda every: _pairs_summary(every, len(pairs), len(existing), verb, where),
        folders=False,
        several=True,
        headed=where.dry_run,
    )
    if code in (OK, PROBLEMS):
        journal.erase()
    return code


def _may_replace_some(
    pairs: Sequence[Pair], overwrite: bool, where: Where, options: Options
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
    good, kept = sum(not done.is_problem for done in every), sum(done.kept for done in every)
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


class _PairJournal:
    """The hierarchies that are complete, in a folder of the user's, for ``--resume``."""

    def __init__(self, given: Sequence[str | None], where: Where) -> None:
        from omnizarr.bulk.job import user_journal  # noqa: PLC0415 - loaded when a job runs

        self.where = where
        places = [_absolute(each) for each in given]
        self.store, self.prefix = user_journal(key_digest("several", places))
        self.warned = False
        if where.begins and not where.dry_run:
            self.erase()

    def run(
        self, job: Job[Any], pair: Pair, work: Callable[[], Answer], options: Options
    ) -> Answer:
        """Run a job unless it was complete before, and note that it is complete."""
        if self.where.part is not None:  # whose journal is with the output
            return work()
        key, target = self._key(job), pair.target
        known = self._read(key) if self.where.resume else None
        # A hierarchy that is changed in place is its own source.
        source = "" if target == pair.source else _state(pair.source, job)
        same = known is not None and known.get("source") == source
        if known is not None and known["complete"] and is_complete(target, options):
            if same and known.get("result") == _state(target, job):
                return _kept(known["data"], target, known["problem"])
            remark(f"{target} was complete, but it or its source has changed since")
        if known is None and not is_occupied(target, options):
            self._note(key, {}, source=source)
        try:
            done = work()
        except NodeExists:
            # Killed when the result was visible, before that was noted.
            if known is None or known["complete"] or not same or not is_complete(target, options):
                raise
            return _kept({"source": pair.source, "destination": target}, target, False)
        result = _state(target, job)
        self._note(key, done.data, source=source, result=result, problem=done.is_problem)
        return done

    def erase(self) -> None:
        """Forget everything."""
        from omnizarr.extension import erase_prefix  # noqa: PLC0415 - loaded when a job runs

        with suppress(OmnizarrError):
            erase_prefix(self.store, self.prefix)

    def _key(self, job: Job[Any]) -> str:
        return f"{self.prefix}{_job_key(job)}"

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self.store.get(key) or b"null")
        except (OmnizarrError, ValueError):
            return None
        return found if isinstance(found, dict) and "complete" in found else None

    def _note(
        self,
        key: str,
        data: dict[str, Any],
        *,
        source: str,
        result: str | None = None,
        problem: bool = False,
    ) -> None:
        """Note the states of the source and, of a job that is complete, of its result."""
        try:
            states = {"complete": result is not None, "source": source, "result": result}
            entry = {**states, "problem": problem, "data": data}
            self.store.set(key, json.dumps(entry, default=str).encode())
        except OmnizarrError as e:
            if not self.warned:
                remark(f"--resume will not know what is complete: {e}", label="warning")
            self.warned = True


def _state(where: str | os.PathLike[str], job: Any) -> str:
    """Return what differs after a file, or a value of a hierarchy, was changed."""
    from omnizarr.bulk.source_keys import source_state  # noqa: PLC0415 - loaded when a job runs

    if os.path.isfile(where):
        status = os.stat(where)
        return f"{status.st_size} {status.st_mtime_ns}"
    try:
        return source_state(_opened(where, job), "")
    except OmnizarrError:  # the job reports it
        return ""


def _kept(data: dict[str, Any], target: str, problem: bool) -> Answer:
    shows = partial(say, f"{target}: complete from before")
    return Answer({**data, "kept": True}, shows, problem, kept=True)


def _absolute(place: Any) -> Any:
    """Return what identifies a path, URL or store, wherever it is given."""
    if not isinstance(place, str):
        return None if place is None else portable_key(place)
    return place if "://" in place else os.path.abspath(place)


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
