"""`omnizarr validate`, `verify` and `repair`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.jobs import Where, job_options, resumed_together, run_job
from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    paths_argument,
    quiet_option,
    storage_option,
)
from omnizarr.cli.terminal import (
    PROBLEMS,
    command_text,
    counted,
    examples,
    remark,
    run_each,
    say,
    show_findings,
)
from omnizarr.errors import Problem
from omnizarr.extension import is_archive

if TYPE_CHECKING:
    from omnizarr.bulk.checks.findings import FindingsFile, VerifyReport
    from omnizarr.bulk.job import Plan
    from omnizarr.bulk.repair import Leftover


# validate


@click.command(
    epilog=examples(
        "omnizarr validate ocean.zarr",
        "omnizarr validate lake/ --json",
        "omnizarr validate document.json",
    )
)
@paths_argument
@quiet_option
@json_option
@storage_option
def validate(paths: tuple[str, ...], as_json: bool, storage_options: Options) -> None:
    """Check the metadata in each PATH and list all problems.

    PATH is a hierarchy, a folder of hierarchies, or a file with one JSON document. Each problem is
    shown with its document, the field, and the section of the specification. The exit code is 1 if
    there are errors, and 0 if there are only warnings.
    """

    def work(path: str) -> list[Problem]:
        document = Path(path).is_file() and not is_archive(path)
        return omnizarr.validate(
            Path(path).read_bytes() if document else path, storage_options=storage_options
        )

    sys.exit(
        run_each(
            paths,
            work,
            _show_problems,
            to_json=_problems_json,
            is_problem=lambda found: _errors(found) > 0,
            summary=lambda every: _problems_summary(every, as_json),
            as_json=as_json,
            storage_options=storage_options,
        )
    )


def _errors(problems: list[Problem]) -> int:
    return sum(problem.level == "error" for problem in problems)


def _show_problems(problems: list[Problem]) -> None:
    from omnizarr.extension import section_of  # noqa: PLC0415 - loaded where needed

    for problem in problems:
        wrong = problem.level == "error"
        say(problem.level, colour="red" if wrong else "yellow", end=False, problem=wrong)
        say(f" {command_text(str(problem))} [{section_of(problem)}]", problem=wrong)
    bad = _errors(problems)
    say(f"{counted(bad, 'error')}, {counted(len(problems) - bad, 'warning')}")


def _problems_json(problems: list[Problem]) -> dict[str, Any]:
    from omnizarr.extension import section_of  # noqa: PLC0415 - loaded where needed

    bad = _errors(problems)
    listed = [
        {
            "level": problem.level,
            "key": problem.key,
            "field": problem.field,
            "pointer": problem.pointer,
            "rule": section_of(problem),
            "message": command_text(problem.message),
        }
        for problem in problems
    ]
    return {"ok": not bad, "errors": bad, "warnings": len(problems) - bad, "problems": listed}


def _problems_summary(every: list[list[Problem]], as_json: bool) -> Any:
    good = sum(not _errors(each) for each in every)
    errors = sum(map(_errors, every))
    warnings = sum(map(len, every)) - errors
    if as_json:
        return {"hierarchies": len(every), "ok": good, "errors": errors, "warnings": warnings}
    return (
        f"{good} of {len(every)} hierarchies are valid;"
        f" {counted(errors, 'error')}, {counted(warnings, 'warning')}"
    )


# verify

# In the order of importance: the first kind with an error decides with --exit-by-kind.
EXIT_CODES = {
    "metadata": 10,
    "unsupported": 11,
    "damaged-chunk": 12,
    "missing-chunk": 13,
    "incomplete": 14,
    "stale-consolidated": 15,
    "convention": 16,
    "orphan": 17,
    "leftover": 18,
    "outside-chunk": 19,
}
_KIND = click.Choice(list(EXIT_CODES))


@click.command(
    epilog=examples(
        "omnizarr verify ocean.zarr --depth checksums",
        "omnizarr verify lake/ --quiet               # only what is damaged",
        "omnizarr verify lake/ --json --report findings.jsonl",
        "omnizarr verify s3://bucket/big.zarr --sample 0.01 --missing error",
        "omnizarr verify huge.zarr --dask tcp://10.0.0.1:8786 --resume",
    )
)
@paths_argument
@node_option
@click.option(
    "--depth",
    type=click.Choice(["present", "checksums", "decode"]),
    default="decode",
    help="Check sizes and shard indexes, checksums too, or decode everything (default).",
)
@click.option(
    "--missing",
    type=click.Choice(["count", "warn", "error"]),
    default="count",
    help="Count missing chunks (default), or report each with its key.",
)
@click.option(
    "--conventions/--no-conventions",
    default=True,
    help="Check OME-Zarr, CF and GeoZarr where they are declared (default), or not.",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    help="Check only this fraction of the stored values, always the same ones.",
)
@click.option("--report", metavar="FILE", help="Write all findings to FILE, as JSON lines.")
@click.option("--error", "errors", type=_KIND, multiple=True, help="Findings that are errors, too.")
@click.option("--ignore", type=_KIND, multiple=True, help="Findings to leave out.")
@click.option("--exit-by-kind", is_flag=True, help="Exit codes 10 to 19 by the kind of error.")
@job_options
@quiet_option
@json_option
@storage_option
def verify(
    paths: tuple[str, ...],
    node: str,
    depth: Any,
    missing: Any,
    conventions: bool,
    sample: float | None,
    report: str | None,
    errors: tuple[str, ...],
    ignore: tuple[str, ...],
    exit_by_kind: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Check all metadata and chunks in each PATH and list what is wrong.

    PATH is a hierarchy, or a folder of hierarchies. The exit code is 1 if there are errors: damaged
    chunks, metadata that breaks the specification or a declared convention, unknown codecs,
    incomplete nodes, outdated consolidated metadata. Keys that belong to no node, leftovers of
    killed writers and chunks outside the shape are warnings; --error KIND makes them errors.
    """
    file = _findings_file(report, where)

    def work(path: str) -> VerifyReport | Plan[Any]:
        job = omnizarr.jobs.Verify(
            path,
            path=node,
            depth=depth,
            missing=missing,
            conventions=conventions,
            sample=sample,
            report=file,
            resume=where.resume,
            storage_options=storage_options,
        )
        if where.dry_run:
            return job.plan()
        found = run_job(job, where, as_json)
        if found is not None and where.resume and not found.complete:
            remark(f"{path} has changed since the interruption: all of it is checked again")
            found = run_job(job, replace(where, resume=False), as_json)
        if found is None:
            raise click.UsageError("nothing was verified")
        found.finish()
        return found.select(errors, ignore)

    reports: list[Any] = []
    with resumed_together() as ended:
        code = ended(
            run_each(
                paths,
                lambda path: _kept(reports, work(path)),
                _show_report,
                to_json=_report_json,
                is_problem=lambda found: not where.dry_run and not found.ok,
                summary=None if where.dry_run else lambda every: _summary(every, as_json),
                as_json=as_json,
                storage_options=storage_options,
            )
        )
    if code == PROBLEMS and exit_by_kind:
        kinds = {kind for found in reports for kind in found.error_counts}
        code = next(number for kind, number in EXIT_CODES.items() if kind in kinds)
    sys.exit(code)


def _kept(reports: list[Any], report: Any) -> Any:
    reports.append(report)
    return report


def _findings_file(path: str | None, where: Where) -> FindingsFile | None:
    if path is None or where.dry_run:
        return None
    from omnizarr.bulk.checks.findings import FindingsFile  # noqa: PLC0415 - loaded where needed

    return FindingsFile(path, resume=where.resume or where.part is not None)


def _report_json(found: Any) -> dict[str, Any]:
    data: dict[str, Any] = found.to_json()
    for finding in data.get("findings", ()):
        finding["message"] = command_text(finding["message"])
    return data


def _show_report(found: Any) -> None:
    show_findings(getattr(found, "findings", ()))
    say(found)


def _summary(every: list[Any], as_json: bool) -> Any:
    names = ("groups", "arrays", "chunks", "absent", "bytes_read", "errors", "warnings")
    total = {name: sum(getattr(found, name) for found in every) for name in names}
    good = sum(found.ok for found in every)
    counts: dict[str, int] = {}
    for found in every:
        for kind, number in found.counts.items():
            counts[kind] = counts.get(kind, 0) + number
    if as_json:
        return {"hierarchies": len(every), "ok": good, **total, "counts": counts}
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return (
        f"{good} of {len(every)} hierarchies are sound: {counted(total['arrays'], 'array')},"
        f" {counted(total['chunks'], 'chunk')}, {counted(total['bytes_read'], 'byte')} read;"
        f" {counted(total['errors'], 'error')}, {counted(total['warnings'], 'warning')}"
        f"{f' ({kinds})' if kinds else ''}"
    )


# repair


@click.command(
    epilog=examples(
        "omnizarr repair ocean.zarr",
        "omnizarr repair lake/ --yes --json",
        "omnizarr repair half-copied.zarr --remove-jobs --yes",
    )
)
@paths_argument
@click.option("--yes", "-y", is_flag=True, help="Repair; without it, only list.")
@click.option(
    "--remove-jobs",
    is_flag=True,
    help="Also remove what interrupted jobs have written; they cannot be resumed then.",
)
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="Minimum age of files in seconds; newer files may be in use on another machine.",
)
@json_option
@storage_option
def repair(
    paths: tuple[str, ...],
    yes: bool,
    remove_jobs: bool,
    older_than: float,
    as_json: bool,
    storage_options: Options,
) -> None:
    """List what killed writers left behind in each PATH.

    These are temporary files, locks, unfinished nodes, interrupted jobs and outdated consolidated
    metadata. With --yes, remove them, finish interrupted replacements, and rebuild the consolidated
    metadata. Data is never touched, nor is anything that a running process may still use: damaged
    chunks are found by verify, and restored from a copy by copy --update.

    An interrupted job, such as a copy, is kept: run its command again with --resume to finish it.
    --remove-jobs with --yes removes the job and the chunks that it has written.
    """

    def work(path: str) -> list[Leftover]:
        return omnizarr.repair(
            path,
            dry_run=not yes,
            older_than=older_than,
            remove_jobs=remove_jobs,
            storage_options=storage_options,
        )

    sys.exit(
        run_each(
            paths,
            work,
            _shows_leftovers(yes, remove_jobs),
            to_json=lambda found: {"leftovers": [each.to_json() for each in found]},
            summary=lambda every: _leftovers_summary(every, as_json),
            as_json=as_json,
            storage_options=storage_options,
        )
    )


def _shows_leftovers(yes: bool, remove_jobs: bool) -> Callable[[list[Leftover]], None]:
    """Return the function that prints what was found in one hierarchy, and what to do."""

    def show(found: list[Leftover]) -> None:
        for leftover in found:
            say(leftover)
        states = {leftover.state for leftover in found}
        if not found:
            say("nothing to repair")
        if not yes and states & {"unused", "out of date"}:
            say("give --yes to remove what is unused and rebuild what is out of date")
        if "resumable" in states:
            remove = "--yes" if remove_jobs else "--remove-jobs --yes"
            say(
                "run the command of a resumable job again with --resume to finish it, or give"
                f" {remove} to remove what it has written"
            )

    return show


def _leftovers_summary(every: list[list[Leftover]], as_json: bool) -> Any:
    counts: dict[str, int] = {}
    for found in every:
        for leftover in found:
            counts[leftover.state] = counts.get(leftover.state, 0) + 1
    if as_json:
        return {"hierarchies": len(every), "states": counts}
    states = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    return f"{counted(len(every), 'path')} checked: {states or 'nothing to repair'}"
