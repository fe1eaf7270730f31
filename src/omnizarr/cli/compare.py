"""`omnizarr stats`, `diff` and `du`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.jobs import (
    Done,
    Where,
    job_options,
    planned,
    resumed_together,
    run_job,
    show_plan,
)
from omnizarr.cli.options import (
    Options,
    json_option,
    memory_option,
    node_option,
    other_option,
    paths_argument,
    quiet_option,
    storage_option,
)
from omnizarr.cli.terminal import (
    FAILED,
    OK,
    PROBLEMS,
    counted,
    examples,
    find_hierarchies,
    hierarchies_in,
    progress_bar,
    remark,
    run_each,
    say,
    say_json,
    show_error,
    show_table,
)
from omnizarr.errors import InvalidArgument, OmnizarrError
from omnizarr.extension import number_text, size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.bulk.analysis.array_stats import ArrayStats
    from omnizarr.bulk.analysis.diff import DiffReport
    from omnizarr.bulk.analysis.stats import StatsReport
    from omnizarr.bulk.analysis.usage import NodeUsage, UsageReport
    from omnizarr.bulk.job import Job

INCOMPLETE = "this is not the whole result; run the other parts, too (--part)"
BAR = 40  # characters of the longest bar of a histogram


@click.command(
    epilog=examples(
        "omnizarr stats ocean.zarr --bins 20",
        "omnizarr stats s3://bucket/scan.zarr --node 0 --skip-fill --json",
    )
)
@paths_argument
@node_option
@click.option("--bins", type=click.IntRange(2), metavar="N", help="Count values in N bins.")
@click.option(
    "--range",
    "ends",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Range of the bins; without it, their width is a power of two.",
)
@click.option("--skip-fill", is_flag=True, help="Leave out elements with the fill value.")
@click.option(
    "--valid-range", type=float, nargs=2, metavar="LOW HIGH", help="Leave out other values."
)
@memory_option
@json_option
@job_options
@storage_option
def stats(
    paths: tuple[str, ...],
    node: str,
    bins: int | None,
    ends: tuple[float, float] | None,
    skip_fill: bool,
    valid_range: tuple[float, float] | None,
    memory: str | None,
    as_json: bool,
    where: Where,
    storage_options: Options,
) -> None:
    """Show extremes, mean and standard deviation of the arrays in PATH.

    PATH is a hierarchy, or a folder with hierarchies. NaN are counted and left out. Missing chunks
    count with the fill value, without being read. Of strings, the lengths are shown.
    """
    if ends is not None and bins is None:
        raise click.UsageError("--range is that of --bins; give both")

    def job(path: str) -> Job[StatsReport]:
        return omnizarr.jobs.Stats(
            path,
            path=node,
            bins=bins,
            range=ends,
            skip_fill=skip_fill,
            valid_range=valid_range,
            memory=memory,
            storage_options=storage_options,
        )

    sys.exit(
        _run_jobs(
            paths,
            job,
            where,
            _show_stats,
            as_json=as_json,
            storage_options=storage_options,
            is_problem=lambda report: bool(report.errors),
        )
    )


def _run_jobs(
    paths: tuple[str, ...],
    job: Callable[[str], Job[Any]],
    where: Where,
    show: Callable[[Any], None],
    *,
    as_json: bool,
    storage_options: Options,
    is_problem: Callable[[Any], bool],
) -> int:
    """Run a job for each path, or show its plan, and return the exit code."""
    if where.dry_run:
        return run_each(
            paths,
            lambda path: job(path).plan(),
            show_plan,
            to_json=lambda plan: {"dry_run": True, "plan": plan.to_json()},
            as_json=as_json,
            storage_options=storage_options,
        )
    with resumed_together() as ended:
        return ended(
            run_each(
                paths,
                lambda path: run_job(job(path), where, as_json),
                show,
                to_json=lambda report: report.summary(),
                is_problem=is_problem,
                as_json=as_json,
                storage_options=storage_options,
            )
        )


def _show_stats(report: StatsReport) -> None:
    if not report.complete:
        remark(INCOMPLETE, label="warning")
    columns = ("path", "type", "count", "min", "max", "mean", "std", "nan", "fill", "missing")
    rows = [
        (
            *(each.path, each.data_type + (" length" if each.kind == "lengths" else "")),
            *(each.count, *map(number_text, (each.min, each.max, each.mean, each.std))),
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
    if found.histogram is None or not found.histogram[0] or found.counts is None:
        return
    counts, edges = found.histogram
    say()
    say(f"{found.path}:")
    labels = [f"{number_text(a)} to {number_text(b)}" for a, b in itertools.pairwise(edges)]
    outside = [("below", found.counts.below), ("above", found.counts.above)]
    rows = [*zip(labels, counts, strict=True), *(row for row in outside if row[1])]
    width, most = max(len(label) for label, _ in rows), max(1, *(n for _, n in rows))
    digits = len(str(most))
    for label, number in rows:
        bar = "#" * (-(-number * BAR // most))
        say(f"  {label:<{width}}  {number:>{digits}}  {bar}".rstrip())


@click.command(
    epilog=examples(
        "omnizarr diff ocean.zarr copy.zarr",
        "omnizarr diff lake/ backup/lake/",
        "omnizarr diff a.zarr s3://bucket/b.zarr --rtol 1e-6 --storage --json",
    )
)
@click.argument("a")
@click.argument("b")
@node_option
@click.option("--other-node", default=None, help="Path of another node inside B.")
@click.option("--rtol", type=click.FloatRange(0), default=0.0, help="Relative tolerance.")
@click.option("--atol", type=click.FloatRange(0), default=0.0, help="Absolute tolerance.")
@click.option("--nan-differs", is_flag=True, help="NaN is different from NaN.")
@click.option("--metadata-only", is_flag=True, help="Do not compare values.")
@click.option("--storage", is_flag=True, help="Format, chunks and codecs are differences, too.")
@click.option(
    "--show",
    type=click.IntRange(0),
    metavar="N",
    help="Number of differences of each array to show with their values; 10 by default.",
)
@memory_option
@json_option
@job_options
@quiet_option
@storage_option
@other_option
def diff(
    a: str,
    b: str,
    node: str,
    other_node: str | None,
    rtol: float,
    atol: float,
    nan_differs: bool,
    metadata_only: bool,
    storage: bool,
    show: int | None,
    memory: str | None,
    as_json: bool,
    where: Where,
    storage_options: Options,
    other_options: Options,
) -> None:
    """Show the differences between A and B, in any two formats.

    A and B are arrays or hierarchies. Nodes, their metadata, and values are compared.
    Values are equal if they differ by at most ATOL + RTOL * abs(b). The exit code is 1 if there are
    differences, or if something could not be compared.

    A and B may also be two folders: each hierarchy in A is compared with that at the same path in
    B, and one that is only in one of them is a difference.
    """

    def job(one: str, other: str) -> Job[DiffReport]:
        return omnizarr.jobs.Diff(
            one, other, path=node, other_path=other_node, rtol=rtol, atol=atol,
            equal_nan=not nan_differs, values=not metadata_only,
            show=omnizarr.jobs.Diff.show if show is None else show, memory=memory,
            storage_options=storage_options, other_options=other_options,
        )  # fmt: skip

    here, there = hierarchies_in(a, storage_options), None
    if here is not None:
        there = hierarchies_in(b, other_options or storage_options)
    if here is not None and there is None:
        raise InvalidArgument(
            f"{a} is a folder of {counted(len(here), 'hierarchy')}, and {b} is not; give two"
            " hierarchies, or two folders of them"
        )
    if here is not None and there is not None:
        sys.exit(_diff_folders(here, there, job, where, storage, as_json))
    report = run_job(job(a, b), where, as_json)
    if report is None:
        return
    equal = report.equal and not (storage and report.storage)
    if as_json:
        say_json({"a": a, "b": b, **report.summary(), "equal": equal})
    else:
        _show_differences(report, storage, equal)
    sys.exit(OK if equal else PROBLEMS)


def _diff_folders(
    here: dict[str, str],
    there: dict[str, str],
    job: Callable[[str, str], Job[DiffReport]],
    where: Where,
    storage: bool,
    as_json: bool,
) -> int:
    """Compare the hierarchies of two folders, and return the exit code."""

    def work(name: str) -> Done:
        one, other = here.get(name), there.get(name)
        places = {"a": one, "b": other}
        if one is None or other is None:
            only = "the second" if one is None else "the first"
            shows = partial(say, f"{name}: only in {only}", colour="red", problem=True)
            return Done({**places, "equal": False}, shows, is_problem=not where.dry_run)
        if where.dry_run:
            return planned(job(one, other), where)
        report: Any = run_job(job(one, other), where)
        equal = report.equal and not (storage and report.storage)

        def show() -> None:
            say(f"{name}: " if equal else f"{name}:", end=not equal, problem=not equal)
            _show_differences(report, storage, equal)

        return Done({**places, **report.summary(), "equal": equal}, show, not equal)

    def summary(every: list[Done]) -> Any:
        equal = sum(not done.is_problem for done in every)
        only_a, only_b = len(here.keys() - there.keys()), len(there.keys() - here.keys())
        counts = {"equal": equal, "only_a": only_a, "only_b": only_b}
        if as_json:
            return {"hierarchies": len(every), **counts}
        text = f"{equal} of {counted(len(names), 'hierarchy')} have no differences"
        others = ((only_a, "only in the first"), (only_b, "only in the second"))
        return text + "".join(f"; {number} {what}" for number, what in others if number)

    names = sorted({*here, *there})
    with resumed_together() as ended:
        return ended(
            run_each(
                names,
                work,
                lambda done: done.show(),
                to_json=lambda done: done.data,
                is_problem=lambda done: done.is_problem,
                summary=None if where.dry_run else summary,
                as_json=as_json,
                folders=False,
                several=True,
                headed=where.dry_run,
            )
        )


def _show_differences(report: DiffReport, storage: bool, equal: bool) -> None:
    for line in report.lines(storage=storage):
        say(line, problem=not equal)
    if not report.complete:
        remark(INCOMPLETE, label="warning")
    if equal:
        more = " but in storage (--storage shows them)" if report.storage else ""
        say(f"no differences{more}")


@click.command(
    epilog=examples(
        "omnizarr du ocean.zarr --depth 1",
        "omnizarr du --summarize lake/ s3://bucket/scan.zarr",
    )
)
@paths_argument
@node_option
@click.option("--depth", type=click.IntRange(0), help="Number of levels to show; all by default.")
@click.option("--summarize", "-s", is_flag=True, help="Show one total for each PATH.")
@click.option(
    "--sort",
    type=click.Choice(["size", "path"]),
    default="size",
    show_default=True,
    help="Order of the lines.",
)
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
    as_json: bool,
    storage_options: Options,
) -> None:
    """Show the stored bytes of PATH and of every node in it.

    PATH is a hierarchy, or a folder with hierarchies. The numbers of a group include all below it.
    "ratio" is the compression ratio of the stored chunks, "memory" the size of all elements.
    """
    levels = 0 if summarize else depth

    def measure(path: str) -> UsageReport:
        return omnizarr.disk_usage(path, path=node, storage_options=storage_options)

    if as_json:
        sys.exit(
            run_each(
                paths,
                measure,
                lambda report: None,
                to_json=lambda report: _usage_json(report, levels),
                summary=lambda reports: _total(reports).summary(),
                as_json=True,
                storage_options=storage_options,
            )
        )
    code = OK
    rows: list[tuple[NodeUsage, str]] = []
    reports: list[UsageReport] = []
    with progress_bar("stores") as step:
        for given in paths:
            for path in find_hierarchies(given, storage_options):
                try:
                    reports.append(measure(path))
                except (OmnizarrError, OSError) as e:
                    show_error(e, path)
                    code = FAILED
                    continue
                rows += _usage_rows(reports[-1], path, levels)
                if step is not None:
                    step(len(reports), 0, path)
    rows.sort(key=lambda row: (-row[0].bytes, row[1]) if sort == "size" else (0, row[1]))
    if len(reports) > 1:
        rows.append((_total(reports), "total"))
    text = str if in_bytes else size_text
    table = [
        (
            text(u.bytes),
            text(u.logical_bytes),
            "-" if u.ratio is None else f"{u.ratio:.1f}",
            u.keys,
            path,
        )
        for u, path in rows
    ]
    if table:
        show_table(
            ("size", "memory", "ratio", "keys", "path"), table, right="size memory ratio keys"
        )
    for report in reports:
        for path, message in report.errors.items():
            remark(f"{path}: {message}", label="warning")
    sys.exit(code)


def _total(reports: list[UsageReport]) -> NodeUsage:
    from omnizarr.bulk.analysis.usage import NodeUsage  # noqa: PLC0415 - loaded by the work

    found = NodeUsage()
    for report in reports:
        found.merge(report.total)
    return found


def _levels(path: str, top: str) -> int:
    return len([part for part in path.removeprefix(top.rstrip("/")).split("/") if part])


def _usage_rows(report: UsageReport, where: str, levels: int | None) -> list[tuple[NodeUsage, str]]:
    """Return the usage of the nodes up to a depth, with the path or URL of each."""
    top = next(iter(report.nodes), "/")
    return [
        (usage, where.rstrip("/") + path if path != "/" else where)
        for path, usage in report.cumulated().items()
        if levels is None or _levels(path, top) <= levels
    ]


def _usage_json(report: UsageReport, levels: int | None) -> dict[str, Any]:
    top = next(iter(report.nodes), "/")
    nodes = [
        {"node": path, **usage.summary()}
        for path, usage in report.cumulated().items()
        if levels is None or _levels(path, top) <= levels
    ]
    return {**report.total.summary(), "nodes": nodes, "errors": report.errors}
