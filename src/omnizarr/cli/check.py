"""`omnizarr validate`, `verify` and `repair`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.bulk.options import VerifyOptions
from omnizarr.cli.answers import (
    Answer,
    count_errors,
    path_command,
    problems_answer,
    run_each,
    show_findings,
)
from omnizarr.cli.jobs import Where, job_options, resumed_together, run_job
from omnizarr.cli.options import Options, options_of, paths_argument
from omnizarr.cli.terminal import PROBLEMS, command_text, counted, examples, remark, say
from omnizarr.extension import is_archive

if TYPE_CHECKING:
    from omnizarr.bulk.checks.findings import FindingsFile


# validate


def _problems_summary(every: list[Answer]) -> tuple[Any, str]:
    good = sum(not each.is_problem for each in every)
    errors = sum(count_errors(each.value) for each in every)
    warnings = sum(len(each.value) for each in every) - errors
    text = (
        f"{good} of {len(every)} hierarchies are valid;"
        f" {counted(errors, 'error')}, {counted(warnings, 'warning')}"
    )
    return {"hierarchies": len(every), "ok": good, "errors": errors, "warnings": warnings}, text


@path_command(
    "omnizarr validate ocean.zarr",
    "omnizarr validate lake/ --json",
    "omnizarr validate document.json",
    node=False,
    quiet=True,
    summary=_problems_summary,
)
def validate(path: str, storage_options: Options) -> Answer:
    """Check the metadata in each PATH and list all problems.

    PATH is a hierarchy, a folder of hierarchies, or a file with one JSON document. Each problem is
    shown with its document, the field, and the section of the specification. The exit code is 1 if
    there are errors, and 0 if there are only warnings.
    """
    document = Path(path).is_file() and not is_archive(path)
    given = Path(path).read_bytes() if document else path
    return problems_answer(omnizarr.validate(given, storage_options=storage_options), rules=True)


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
@options_of(VerifyOptions)
@click.option("--error", "errors", type=_KIND, multiple=True, help="Findings that are errors, too.")
@click.option("--ignore", type=_KIND, multiple=True, help="Findings to leave out.")
@click.option("--exit-by-kind", is_flag=True, help="Exit codes 10 to 19 by the kind of error.")
@job_options
def verify(
    paths: tuple[str, ...],
    report: str | None,
    errors: tuple[str, ...],
    ignore: tuple[str, ...],
    exit_by_kind: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Check all metadata and chunks in each PATH and list what is wrong.

    PATH is a hierarchy, or a folder of hierarchies. The exit code is 1 if there are errors: damaged
    chunks, metadata that breaks the specification or a declared convention, unknown codecs,
    incomplete nodes, outdated consolidated metadata. Keys that belong to no node, leftovers of
    killed writers and chunks outside the shape are warnings; --error KIND makes them errors.
    """
    file = _findings_file(report, where)
    kinds: set[str] = set()

    def work(path: str) -> Answer:
        job = omnizarr.jobs.Verify(
            path, report=file, resume=where.resume, storage_options=storage_options, **given
        )
        if where.dry_run:
            plan = job.plan()
            return Answer(plan.to_json(), lambda: say(plan))
        found = run_job(job, where)
        if where.resume and not found.complete:
            remark(f"{path} has changed since the interruption: all of it is checked again")
            found = run_job(job, replace(where, resume=False))
        found.finish()
        found = found.select(errors, ignore)
        kinds.update(found.error_counts)
        data = found.to_json()
        for finding in data["findings"]:
            finding["message"] = command_text(finding["message"])

        def show() -> None:
            show_findings(found.findings)
            say(found)

        return Answer(data, show, not found.ok, found)

    summary = None if where.dry_run else _verify_summary
    with resumed_together() as ended:
        code = ended(run_each(paths, work, summary=summary, storage_options=storage_options))
    if code == PROBLEMS and exit_by_kind:
        return next(number for kind, number in EXIT_CODES.items() if kind in kinds)
    return code


def _findings_file(path: str | None, where: Where) -> FindingsFile | None:
    if path is None or where.dry_run:
        return None
    from omnizarr.bulk.checks.findings import FindingsFile  # noqa: PLC0415 - loaded where needed

    return FindingsFile(path, resume=where.resume or where.part is not None)


def _verify_summary(every: list[Answer]) -> tuple[Any, str]:
    names = ("groups", "arrays", "chunks", "absent", "bytes_read", "errors", "warnings")
    total = {name: sum(getattr(each.value, name) for each in every) for name in names}
    good = sum(not each.is_problem for each in every)
    counts: Counter[str] = Counter()
    for each in every:
        counts.update(each.value.counts)
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    text = (
        f"{good} of {len(every)} hierarchies are sound: {counted(total['arrays'], 'array')},"
        f" {counted(total['chunks'], 'chunk')}, {counted(total['bytes_read'], 'byte')} read;"
        f" {counted(total['errors'], 'error')}, {counted(total['warnings'], 'warning')}"
        f"{f' ({kinds})' if kinds else ''}"
    )
    return {"hierarchies": len(every), "ok": good, **total, "counts": counts}, text


# repair


def _leftovers_summary(every: list[Answer]) -> tuple[Any, str]:
    counts = Counter(leftover.state for each in every for leftover in each.value)
    states = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    text = f"{counted(len(every), 'path')} checked: {states or 'nothing to repair'}"
    return {"hierarchies": len(every), "states": counts}, text


@path_command(
    "omnizarr repair ocean.zarr",
    "omnizarr repair lake/ --yes --json",
    "omnizarr repair half-copied.zarr --remove-jobs --yes",
    node=False,
    summary=_leftovers_summary,
)
@click.option("--yes", "-y", is_flag=True, help="Repair; without it, only list.")
@click.option(
    "--remove-jobs", is_flag=True,
    help="Also remove what interrupted jobs have written; they cannot be resumed then.",
)  # fmt: skip
@click.option(
    "--older-than", type=click.FloatRange(0), default=60, show_default=True,
    help="Minimum age of files in seconds; newer files may be in use on another machine.",
)  # fmt: skip
def repair(
    path: str, yes: bool, remove_jobs: bool, older_than: float, storage_options: Options
) -> Answer:
    """List what killed writers left behind in each PATH.

    These are temporary files, locks, unfinished nodes, interrupted jobs and outdated consolidated
    metadata. With --yes, remove them, finish interrupted replacements, and rebuild the consolidated
    metadata. Data is never touched, nor is anything that a running process may still use: damaged
    chunks are found by verify, and restored from a copy by copy --update.

    An interrupted job, such as a copy, is kept: run its command again with --resume to finish it.
    --remove-jobs with --yes removes the job and the chunks that it has written.
    """

    found = omnizarr.repair(
        path,
        dry_run=not yes,
        older_than=older_than,
        remove_jobs=remove_jobs,
        storage_options=storage_options,
    )

    def show() -> None:
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

    return Answer({"leftovers": [each.to_json() for each in found]}, show, value=found)
