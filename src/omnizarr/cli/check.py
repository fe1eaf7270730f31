"""Commands that examine data: validate, verify, repair, stats, diff and du."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.bulk.options import DiffOptions, StatsOptions, VerifyOptions
from omnizarr.cli.answers import (
    Answer,
    command,
    count_errors,
    hierarchies_in,
    path_below,
    path_command,
    problems_answer,
    run_each,
    show_finding,
)
from omnizarr.cli.jobs import Where, job_options, planned, run_job
from omnizarr.cli.options import (
    Options,
    json_option,
    node_option,
    options_of,
    paths_argument,
    storage_option,
)
from omnizarr.cli.terminal import command_text, counted, remark, say, show_table, wants_json
from omnizarr.errors import InvalidArgument
from omnizarr.extension import info, is_archive, redact_urls, size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.bulk.analysis.diff import DiffReport
    from omnizarr.bulk.analysis.stats import ArrayStats, StatsReport
    from omnizarr.bulk.analysis.usage import NodeUsage, UsageReport

INCOMPLETE = "this is not the whole result; run the other parts, too (--part)"
_RESTORE = "omnizarr copy --update --compare checksum"
BAR = 40  # characters of the longest bar of a histogram


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

_KIND = click.Choice(
    [
        *("metadata", "unsupported", "damaged-chunk", "missing-chunk", "outside-chunk"),
        *("incomplete", "stale-consolidated", "convention", "orphan", "leftover"),
    ]
)


@command(
    "omnizarr verify ocean.zarr --depth checksums",
    "omnizarr verify lake/ --quiet               # only what is damaged",
    "omnizarr verify lake/ --json",
    "omnizarr verify s3://bucket/big.zarr --sample 0.01 --missing error",
    "omnizarr verify huge.zarr --dask tcp://10.0.0.1:8786 --resume",
)
@paths_argument
@options_of(VerifyOptions)
@click.option("--error", "errors", type=_KIND, multiple=True, help="Findings to treat as errors.")
@click.option("--ignore", type=_KIND, multiple=True, help="Findings to leave out.")
@job_options
def verify(
    paths: tuple[str, ...],
    errors: tuple[str, ...],
    ignore: tuple[str, ...],
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

    def work(path: str) -> Answer:
        job = omnizarr.jobs.Verify(path, storage_options=storage_options, **given)
        if where.dry_run:
            plan = job.plan()
            return Answer(plan.to_json(), lambda: say(plan))
        found = run_job(job, where)
        if where.resume and not found.complete:
            remark(f"{path} has changed since the interruption: all of it is checked again")
            found = run_job(job, replace(where, resume=False))
        found.finish()
        found = found.select(errors, ignore)
        data = found.to_json()
        for finding in data["findings"]:
            finding["message"] = command_text(finding["message"])

        def show() -> None:
            for finding in found.findings:
                show_finding(finding)
            say(found)
            if "damaged-chunk" in found.counts:
                say(f"restore damaged chunks from a copy: {_RESTORE} COPY {path}")

        return Answer(data, show, not found.ok, found)

    summary = None if where.dry_run else _verify_summary
    return run_each(paths, work, summary=summary, storage_options=storage_options)


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
    chunks are found by verify, and restored from a copy by copy --update --compare checksum.

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
            remark(f"damaged chunks are found by verify, and restored by {_RESTORE} COPY {path}")
        if not yes and states & {"unused", "out of date"}:
            say("give --yes to remove unused files and rebuild outdated metadata")
        if "resumable" in states:
            remove = "--yes" if remove_jobs else "--remove-jobs --yes"
            say(
                "run the command of a resumable job again with --resume to finish it, or give"
                f" {remove} to remove its output"
            )

    return Answer({"leftovers": [each.to_json() for each in found]}, show, value=found)


# stats, diff and du


@command(
    "omnizarr stats ocean.zarr --bins 20 --range 0 40",
    "omnizarr stats s3://bucket/scan.zarr --node 0 --skip-fill --json",
)
@paths_argument
@options_of(StatsOptions)
@job_options
def stats(paths: tuple[str, ...], where: Where, storage_options: Options, **given: Any) -> int:
    """Show extremes, mean and standard deviation of the arrays in PATH.

    PATH is a hierarchy, or a folder with hierarchies. NaN are counted and left out. Missing chunks
    count as the fill value.
    """
    if (given["range"] is None) != (given["bins"] is None):
        raise click.UsageError("a histogram needs --bins and --range; give both")

    def work(path: str) -> Answer:
        job = omnizarr.jobs.Stats(path, storage_options=storage_options, **given)
        if where.dry_run:
            return planned(job, where)
        report = run_job(job, where)
        return Answer(report.summary(), partial(_show_stats, report), bool(report.errors))

    return run_each(paths, work, storage_options=storage_options)


def _show_stats(report: StatsReport) -> None:
    if not report.complete:
        remark(INCOMPLETE, label="warning")
    columns = ("path", "type", "count", "min", "max", "mean", "std", "nan", "fill", "missing")
    rows = [
        (
            *(
                each.path,
                each.data_type,
                each.count,
                *map(info.number_text, (each.min, each.max, each.mean, each.std)),
            ),
            *(each.nan, each.fill, f"{each.missing_chunks} of {each.chunks} chunks"),
        )
        for each in report.arrays.values()
    ]
    if rows:
        show_table(columns, rows, right="count min max mean std nan fill missing")
    else:
        say("no arrays")
    for each in report.arrays.values():
        _show_histogram(each)
    for path, message in report.errors.items():
        say(f"{path}: {message}", colour="red")


def _show_histogram(found: ArrayStats) -> None:
    if found.histogram is None:
        return
    counts, edges = found.histogram
    labels = [
        f"{info.number_text(a)} to {info.number_text(b)}" for a, b in itertools.pairwise(edges)
    ]
    outside = [("below", found.below), ("above", found.above)]
    rows = [*zip(labels, counts, strict=True), *(row for row in outside if row[1])]
    most = max(1, *(number for _, number in rows))
    say()
    columns, bars = (found.path, "count", ""), ("#" * (-(-n * BAR // most)) for _, n in rows)
    show_table(columns, [(*row, bar) for row, bar in zip(rows, bars, strict=True)], right="count")


@command(
    "omnizarr diff ocean.zarr copy.zarr",
    "omnizarr diff lake/ backup/lake/",
    "omnizarr diff a.zarr s3://bucket/b.zarr --rtol 1e-6 --storage --json",
)
@click.argument("a")
@click.argument("b")
@options_of(DiffOptions)
@click.option("--storage", is_flag=True, help="Also compare formats, chunks and codecs.")
@job_options
def diff(
    a: str, b: str, storage: bool, where: Where, storage_options: Options, **given: Any
) -> int:
    """Show the differences between A and B, in any two formats.

    A and B are arrays or hierarchies. Nodes, their metadata, and values are compared.
    Values are equal if they differ by at most ATOL + RTOL * abs(b). The exit code is 1 if there are
    differences, or if something could not be compared.

    A and B may also be two folders: each hierarchy in A is compared with the one at the same
    path in B; a hierarchy without counterpart is a difference.
    """

    def compare(one: str, other: str, name: str = "") -> Answer:
        job = omnizarr.jobs.Diff(one, other, storage_options=storage_options, **given)
        if where.dry_run:
            return planned(job, where, alone=not name)
        return _compared(run_job(job, where), {"a": one, "b": other}, storage, name)

    here = hierarchies_in(a, storage_options)
    if here is None:
        return compare(a, b).give()
    there = hierarchies_in(b, given["other_options"] or storage_options)
    if there is None:
        raise InvalidArgument(
            f"{a} is a folder of {counted(len(here), 'hierarchy')}, and {b} is not; give two"
            " hierarchies, or two folders of them"
        )
    names = sorted({*here, *there})
    only_a, only_b = here.keys() - there.keys(), there.keys() - here.keys()

    def work(name: str) -> Answer:
        if name in here and name in there:
            return compare(here[name], there[name], name)
        text = f"{name}: only in {'the first' if name in here else 'the second'}"
        places = {"a": here.get(name), "b": there.get(name), "equal": False}
        return Answer(places, partial(say, text, colour="red", problem=True), not where.dry_run)

    def summary(every: list[Answer]) -> tuple[Any, str]:
        equal = sum(not found.is_problem for found in every)
        text = f"{equal} of {counted(len(names), 'hierarchy')} have no differences"
        others = ((only_a, "only in the first"), (only_b, "only in the second"))
        text += "".join(f"; {len(found)} {what}" for found, what in others if found)
        counts = {"equal": equal, "only_a": len(only_a), "only_b": len(only_b)}
        return {"hierarchies": len(every), **counts}, text

    return run_each(
        names,
        work,
        summary=None if where.dry_run else summary,
        folders=False,
        several=True,
        headed=where.dry_run,
    )


def _compared(report: DiffReport, places: dict[str, str], storage: bool, name: str) -> Answer:
    """Return the differences of two hierarchies; in two folders, both have the `name`."""
    equal = report.equal and not (storage and report.storage)

    def show() -> None:
        if name:
            say(f"{name}: " if equal else f"{name}:", end=not equal, problem=not equal)
        for line in report.lines(storage=storage):
            say(line, problem=not equal)
        if not report.complete:
            remark(INCOMPLETE, label="warning")
        if equal:
            differs = "same data; storage layout differs (--storage shows it)"
            say(differs if report.storage else "no differences")

    return Answer({**places, **report.summary(), "equal": equal}, show, not equal)


@command(
    "omnizarr du ocean.zarr --depth 1",
    "omnizarr du --summarize lake/ s3://bucket/scan.zarr",
)
@paths_argument
@node_option
@click.option("--depth", type=click.IntRange(0), help="Number of levels to show; all by default.")
@click.option("--summarize", "-s", is_flag=True, help="Show one total for each PATH.")
@click.option(
    "--sort", type=click.Choice(["size", "path"]), default="size", show_default=True,
    help="Order of the lines.",
)  # fmt: skip
@click.option("--bytes", "-b", "in_bytes", is_flag=True, help="Show exact numbers of bytes.")
@json_option
@storage_option
def du(
    paths: tuple[str, ...],
    node: str,
    depth: int | None,
    summarize: bool,
    sort: str,
    in_bytes: bool,
    storage_options: Options,
) -> int:
    """Show the stored bytes of PATH and of every node in it.

    PATH is a hierarchy, or a folder with hierarchies. The numbers of a group include all below it.
    "ratio" is the compression ratio of the stored chunks, "memory" the size of all elements.
    """
    from omnizarr.bulk.analysis.usage import NodeUsage  # noqa: PLC0415 - loaded by the work

    levels = 0 if summarize else depth
    reports: list[UsageReport] = []
    rows: list[tuple[NodeUsage, str]] = []
    total = NodeUsage()

    def work(path: str) -> Answer:
        report = omnizarr.disk_usage(path, path=node, storage_options=storage_options)
        reports.append(report)
        total.merge(report.total)
        top, nodes = next(iter(report.nodes), "/").rstrip("/"), []
        for name, usage in report.cumulated().items():
            below = name.removeprefix(top).strip("/")
            if levels is None or below.count("/") + bool(below) <= levels:
                rows.append(
                    (usage, redact_urls(path if name == "/" else path_below(path, name[1:])))
                )
                nodes.append({"node": name, **usage.summary()})
        facts = {**report.total.summary(), "nodes": nodes, "errors": report.errors}
        return Answer(facts, lambda: None)

    code = run_each(
        paths,
        work,
        summary=lambda every: (total.summary(), ""),
        storage_options=storage_options,
        several=True,  # one table of all
        headed=False,
    )
    if wants_json():
        return code
    rows.sort(key=lambda row: (-row[0].bytes, row[1]) if sort == "size" else (0, row[1]))
    if len(reports) > 1:
        rows.append((total, "total"))
    text = str if in_bytes else size_text
    table = []
    for u, path in rows:
        ratio = "-" if u.ratio is None else f"{u.ratio:.1f}"
        table.append((text(u.bytes), text(u.logical_bytes), ratio, u.keys, path))
    if table:
        columns = ("size", "memory", "ratio", "keys", "path")
        show_table(columns, table, right="size memory ratio keys")
    for report in reports:
        for path, message in report.errors.items():
            remark(f"{path}: {message}", label="warning")
    return code
