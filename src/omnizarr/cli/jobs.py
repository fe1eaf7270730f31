"""Run a job of the command line: its options, its progress, and where its tasks run.

A command that runs a job takes `job_options`, which give it the parameters `where` and
`storage_options`, and ``--json`` and ``--quiet``::

    @click.command(...)
    @click.argument("source")
    @click.argument("destination")
    @options_of(CopyOptions)
    @job_options
    def copy(source: str, destination: str, where: Where, **given: Any) -> int:
        job = omnizarr.jobs.Copy(source, destination, **given)
        if where.dry_run:
            return planned(job, where).give()
        report = run_job(job, where)
        return answer(report.to_json(), partial(say, report))

A command with a source and a destination takes folders of hierarchies, too: `find_pairs` returns
the hierarchies with their destinations, and `run_pairs` does the work for each.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
from omnizarr.cli.options import Options, dry_run_option, json_option, quiet_option, storage_option
from omnizarr.cli.terminal import counted, progress_bar, remark, say
from omnizarr.errors import InvalidArgument, MissingPackage, NodeExists
from omnizarr.extension import is_archive, resolve, size_text, stores, tasks_at_once

if TYPE_CHECKING:
    from omnizarr.bulk.job import Job, Progress
    from omnizarr.bulk.journal import Outcome

O = TypeVar("O", bound="Outcome")  # noqa: E741 - the outcome of one kind of job
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Where:
    """The options of a job: where its tasks run, and which of them."""

    workers: int | None = None
    processes: bool = False
    dask: str | None = None
    part: tuple[int, int] | None = None
    resume: bool = False
    dry_run: bool = False

    @property
    def begins(self) -> bool:
        """True for a run that starts anew: neither resumed nor one of several parts."""
        return not self.resume and self.part is None

    @property
    def title(self) -> str:
        """The start of a line about the result: the part that was run."""
        return "" if self.part is None else f"part {self.part[0]} of {self.part[1]}: "


def _parse_part(context: click.Context, parameter: click.Parameter, given: str | None) -> Any:
    if given is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"expected K/N such as 3/100, got {given!r}", context, parameter)
    return int(found[1]), int(found[2])


_OPTIONS = (
    click.option("--workers", type=click.IntRange(1), help=option_help(RunOptions)["workers"]),
    click.option("--processes", is_flag=True, help="Run tasks in processes, not in threads."),
    click.option("--dask", metavar="ADDRESS", help="Run tasks on this Dask cluster (tcp://...)."),
    click.option(
        "--part", metavar="K/N", callback=_parse_part,
        help="Run only part K of N, such as one job of a Slurm array.",
    ),
    click.option("--resume", is_flag=True, help="Continue an interrupted run."),
    dry_run_option,
)  # fmt: skip


def job_options(command: F) -> F:
    """Add the options of jobs, which arrive as one parameter `where`, and the output options."""
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
    plan = job.plan(tasks_at_once("processes" if where.processes else None, where.workers))

    def show() -> None:
        say(plan)
        if alone:
            say("nothing was written (--dry-run)")

    return Answer({"dry_run": True, "plan": plan.to_json()}, show)


def run_job(job: Job[O], where: Where) -> O:
    """Run a job with progress, and return its result."""
    import omnizarr  # noqa: PLC0415 - loaded when a job runs

    with _place(where) as on, progress_bar("bytes") as bar:

        def step(now: Progress) -> None:
            if bar is not None:
                phase = f" ({now.phase} of {now.phases})" if now.phases > 1 else ""
                bar(now.size, now.size_total or 0, f"{now.label or now.operation}{phase}")

        return omnizarr.run(
            job,
            on,
            workers=where.workers,
            resume=where.resume,
            part=where.part,
            progress=None if bar is None else step,
        )


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


# Folders of hierarchies


class PathPair(NamedTuple):
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
    stores.check_disjoint(
        resolve(source, read_only=True, storage_options=options),
        resolve(destination, read_only=True, storage_options=there),
    )
    start = destination.rstrip("/") or "/"
    return [PathPair(path, f"{start}/{name}") for name, path in found.items()]


def run_pairs(
    pairs: Sequence[PathPair],
    work: Callable[[PathPair, bool], Answer],
    where: Where,
    *,
    verb: str,
    overwrite: bool,
    several: bool,
    asks: bool = True,
    options: Options = None,
) -> int:
    """Run a job for one hierarchy, or for each of several, and return the exit code.

    `work` runs the job of a pair, or returns its plan, given whether the destination may be
    replaced. `options` are those of the destination. With `asks`, the user is asked before what
    exists is replaced. Of several, none is replaced without ``--overwrite``, and the others go on
    after an error. With ``--resume``, a complete destination is left as it is.
    """

    def resume(pair: PathPair) -> Answer:
        try:
            return work(pair, overwrite)
        except NodeExists:
            # What is unfinished has another source or other options: an error.
            if not where.resume or not is_complete(pair.target, options):
                raise
            text = f"{pair.target}: exists already, not written again"
            data = {"source": pair.source, "destination": pair.target, "existed": True}
            return Answer(data, partial(say, text))

    if not several:
        pair = pairs[0]
        if asks and pair.destination is not None:
            overwrite = may_replace(pair.destination, overwrite, where, options)
        return resume(pair).give()
    [(target, most)] = Counter(pair.target for pair in pairs).most_common(1)
    if most > 1:
        raise click.UsageError(f"several SOURCEs would become {target}; write them one by one")
    places = {pair.source: pair for pair in pairs}
    refused: list[str] = []

    def each(path: str) -> Answer:
        pair = places[path]
        if asks and where.dry_run and pair.destination is not None:
            may_replace(pair.destination, overwrite, where, options)
        try:
            return resume(pair)
        except NodeExists:
            if not where.resume:
                refused.append(path)
            raise

    def summary(every: list[Answer]) -> tuple[Any, str]:
        if where.dry_run:
            text = f"{counted(len(every), 'hierarchy')}; nothing was written (--dry-run)"
            return {"hierarchies": len(every), "dry_run": True}, text
        totals: Counter[str] = Counter()
        for done in every:
            totals.update({k: n for k, n in done.data.items() if type(n) is int})
        written = [done for done in every if "existed" not in done.data]
        ok = sum(not done.is_problem for done in written)
        size = size_text(totals["bytes_written"] + totals["bytes_copied"])
        arrays = f"{counted(totals['arrays'], 'array')}, " if "arrays" in totals else ""
        text = f"{where.title}{ok} of {counted(len(pairs), 'hierarchy')} {verb}: {arrays}{size}"
        existed = len(every) - len(written)
        failed = len(pairs) - len(every) - len(refused)
        ends = (
            (existed, "existed already"),
            (len(refused), "not replaced"),
            (failed, "failed: --resume tries only these again"),
        )
        text += "".join(f"; {amount} {what}" for amount, what in ends if amount)
        return {"hierarchies": len(every), "ok": ok, "existed": existed, **totals}, text

    return run_each(
        [*places], each, summary=summary, folders=False, several=True, headed=where.dry_run
    )
