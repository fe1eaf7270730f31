"""Run a job of the command line: its options, its progress, and where its tasks run.

A command that runs a job takes `job_options`, or `writing_job_options` if the job writes, which
give it the parameter `where`::

    @click.command(...)
    @json_option
    @writing_job_options
    def rechunk(..., as_json: bool, where: Where) -> None:
        outcome = run_job(omnizarr.jobs.Rechunk(...), where, as_json)
        if outcome is None:  # --dry-run has shown the plan
            return
        ...
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnizarr.cli.options import Options, dry_run_option, resume_option
from omnizarr.cli.terminal import (
    OK,
    PROBLEMS,
    is_occupied,
    may_overwrite,
    progress_bar,
    remark,
    say,
    say_json,
)
from omnizarr.concurrency.executors import tasks_at_once
from omnizarr.errors import MissingPackage

if TYPE_CHECKING:
    from omnizarr.ops.job import Job, Outcome, Plan, Progress

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
        """True for a run that begins: no dry run, not resumed, and no part of several."""
        return not (self.dry_run or self.resume or self.part is not None)

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
    click.option("--workers", type=click.IntRange(1), help="Number of threads or processes."),
    click.option("--processes", is_flag=True, help="Run tasks in processes, not in threads."),
    click.option("--dask", metavar="ADDRESS", help="Run tasks on this Dask cluster (tcp://...)."),
    click.option(
        "--part", metavar="K/N", callback=_parse_part,
        help="Run only part K of N, such as one job of a Slurm array.",
    ),
    resume_option,
    dry_run_option,
    click.option("--log", metavar="FILE", help="Append the plan and each stage to FILE, as JSON."),
)  # fmt: skip


_CHECKSUMS = click.option(
    "--checksums", metavar="FILE",
    help="Write SHA-256 lines of all that was written, for sha256sum -c.",
)  # fmt: skip


def job_options(command: F) -> F:
    """Add the options of jobs, which become one parameter, `where`."""
    return _with_options(command, _OPTIONS)


def writing_job_options(command: F) -> F:
    """Add the options of jobs that write."""
    return _with_options(command, (*_OPTIONS, _CHECKSUMS))


def _with_options(command: F, options: Iterable[Callable[[Any], Any]]) -> F:
    names = [each.name for each in fields(Where)]

    @wraps(command)
    def with_where(**given: Any) -> Any:
        where = Where(**{name: given.pop(name) for name in names if name in given})
        if sum((where.processes, where.dask is not None)) > 1:
            raise click.UsageError("give --processes or --dask, not both")
        if where.part is not None and where.resume:
            raise click.UsageError("--part always goes on where it was; leave out --resume")
        return command(where=where, **given)

    found: Any = with_where
    for option in reversed([*options]):
        found = option(found)
    return found  # type: ignore[no-any-return]  # a decorated function, as click's are


def may_replace(destination: str, overwrite: bool, where: Where, options: Options = None) -> bool:
    """Return `overwrite`, or True if the user agrees to replace what is at the destination.

    A dry run asks nothing, and says that the destination exists.
    """
    if where.begins:
        return may_overwrite(destination, overwrite, options)
    fresh = where.dry_run and where.part is None and not where.resume
    if fresh and is_occupied(destination, options):
        show_existing(destination, overwrite)
    return overwrite


def show_existing(destination: str, overwrite: bool) -> None:
    """Tell in a dry run what would become of an existing destination."""
    fate = "would be replaced" if overwrite else "is replaced only with --overwrite"
    remark(f"{destination} exists, and {fate}", label="note")


def run_job(job: Job[O], where: Where, as_json: bool = False) -> O | None:
    """Run a job with progress, and return its result; with ``--dry-run``, show its plan only."""
    import omnizarr  # noqa: PLC0415 - loaded when a job runs

    if where.dry_run:
        at_once = tasks_at_once("processes" if where.processes else None, where.workers)
        show_plan(job.plan(at_once), as_json)
        return None
    with _place(where) as on, progress_bar("bytes") as bar, _log(where.log) as log:
        if log is not None:
            log({"event": "plan", **job.plan().to_json()})

        def step(now: Progress) -> None:
            if bar is not None:
                stage = f" ({now.stage} of {now.stages})" if now.stages > 1 else ""
                bar(now.size, now.size_total or 0, f"{now.label or now.operation}{stage}")
            if log is not None and now.tasks in (0, now.tasks_total):
                log({"event": "progress", "stage": now.stage, "tasks": now.tasks})

        result = omnizarr.run(
            job,
            on,
            workers=where.workers,
            resume=where.resume,
            part=where.part,
            progress=step if bar is not None or log is not None else None,
            checksums=where.checksums,
        )
        if log is not None:
            log({"event": "end", "outcome": result.to_json()})
    return result


@contextmanager
def resumed_together() -> Iterator[Callable[[int], int]]:
    """Have ``--resume`` repeat none of several jobs that were complete when another one failed.

    The exit code of all of them goes through the function that is provided.
    """
    from omnizarr.ops.job import keep_journals  # noqa: PLC0415 - loaded when a job runs

    with keep_journals() as kept:

        def ended(code: int) -> int:
            if code not in (OK, PROBLEMS):
                kept.clear()
            return code

        yield ended


def show_plan(plan: Plan[Any], as_json: bool = False) -> None:
    """Print a plan."""
    if as_json:
        say_json({"dry_run": True, "plan": plan.to_json()})
    else:
        say(plan)
        say("nothing was written (--dry-run)")


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
