"""`omnizarr copy`."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import Any

import click

import omnizarr
from omnizarr.bulk.convert import Convert
from omnizarr.bulk.copy_batches import Copied
from omnizarr.bulk.copy_store import Copy, complete
from omnizarr.cli import convert
from omnizarr.cli.jobs import (
    Done,
    Pair,
    Where,
    find_pairs,
    may_replace,
    planned,
    run_job,
    run_pairs,
    writing_job_options,
)
from omnizarr.cli.options import (
    Options,
    destination_option,
    json_option,
    memory_option,
    node_option,
    overwrite_option,
    storage_option,
    zarr_format_option,
)
from omnizarr.cli.terminal import confirm, counted, examples, say, say_json
from omnizarr.extension import size_text

_PATTERN = "'temp*' for nodes of that name, 'a/b' for a path, '*.json' for other files"


@click.command(
    epilog=examples(
        "omnizarr copy ocean.zarr s3://bucket/ocean.zarr --verify",
        "omnizarr copy ocean.zarr backup/ocean.zarr --update --delete --dry-run",
        "omnizarr copy run.zarr small.zarr --include 'temp*' --exclude 'temp_raw'",
        "omnizarr copy a.zarr b.zarr archive/        # each below archive/",
        "omnizarr copy lake/ s3://bucket/lake/       # everything in a folder",
    )
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.argument("destination")
@node_option
@zarr_format_option
@click.option("--update", is_flag=True, help="Copy what differs into an existing copy.")
@click.option(
    "--compare",
    type=click.Choice(["time", "size", "checksum"]),
    default="time",
    show_default=True,
    help="What tells --update that a value differs: size and time or ETag, size, or all bytes.",
)
@click.option(
    "--delete", is_flag=True, help="With --update, erase what SOURCE does not have; asks before."
)
@click.option("--verify", is_flag=True, help="Read every value back after writing, and compare.")
@click.option("--include", multiple=True, metavar="PATTERN", help=f"Copy only these: {_PATTERN}.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave these out.")
@overwrite_option
@memory_option
@writing_job_options
@json_option
@storage_option
@destination_option
def copy(
    sources: tuple[str, ...],
    destination: str,
    node: str,
    zarr_format: str | None,
    update: bool,
    compare: Any,
    delete: bool,
    verify: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    overwrite: bool,
    memory: str | None,
    where: Where,
    as_json: bool,
    storage_options: Options,
    destination_options: Options,
) -> None:
    """Copy SOURCE to DESTINATION, a path or URL each, byte for byte.

    All keys are copied, also those that are not Zarr, so that SOURCE may be a folder of several
    hierarchies and other files. DESTINATION becomes visible when it is complete; with --overwrite,
    what is there is replaced at that moment. Several SOURCEs are copied below DESTINATION, by their
    names, also after others have failed. With another --zarr-format, each hierarchy is converted as
    by `omnizarr convert`, and other files of a folder are left out.

    With --update, DESTINATION stays visible while what differs is copied into it. Chunks that
    arrays of SOURCE no longer have are erased there; --delete erases all else that SOURCE does not
    have.
    """
    pairs = []
    several = len(sources) > 1
    for source in sources:
        target = destination if len(sources) == 1 else _below(destination, source)
        found = None
        if zarr_format is not None:
            found = find_pairs(source, target, storage_options, destination_options)
        several = several or found is not None
        pairs += [Pair(source, target)] if found is None else found

    def describe(pair: Pair, replaces: bool) -> Copy | Convert:
        job = omnizarr.jobs.Copy(
            pair.source,
            pair.destination,
            path=node,
            update=update,
            compare=compare,
            overwrite=replaces and not update,
            delete=delete,
            verify=verify,
            include=include,
            exclude=exclude,
            memory=memory,
            storage_options=storage_options,
            destination_options=destination_options,
        )
        if zarr_format is not None and job.converts(zarr_format):
            return job.conversion(zarr_format)
        return job

    def work(job: Copy | Convert, pair: Pair) -> Done:
        if where.dry_run:
            return _dry_run(job) if isinstance(job, Copy) else planned(job, where)
        about = {"source": pair.source, "destination": pair.target}
        if not isinstance(job, Copy):
            report: Any = run_job(job, where)
            shows = partial(convert.show, report, str(zarr_format), pair.target, where)
            return Done({**about, "zarr_format": zarr_format, **report.to_json()}, shows)
        if delete and not where.resume:
            extra = omnizarr.run(dataclasses.replace(job, dry_run=True)).erased
            if extra:
                confirm(f"{counted(extra, 'key')} of {pair.target} will be erased.", overwrite)
        result: Any = _run(job, where)
        return Done({**about, **result.to_json()}, partial(_show, result, pair.target, where))

    options = destination_options or storage_options
    if several:
        sys.exit(
            run_pairs(
                pairs, describe, work, where, given=(*sources, destination), verb="copied",
                overwrite=overwrite, asks=not update, as_json=as_json, options=options,
            )
        )  # fmt: skip
    if not update:
        overwrite = may_replace(destination, overwrite, where, options)
    done = work(describe(pairs[0], overwrite), pairs[0])
    if as_json:
        say_json(done.data)
        return
    done.show()
    if where.dry_run:
        say("nothing was written (--dry-run)")


def _below(destination: str, source: str) -> str:
    """Return the path of a copy below a folder, by the name of its source."""
    name = source.rstrip("/").rpartition("/")[2]
    if not name or name in (".", ".."):
        raise click.UsageError(f"{source!r} has no name; copy it alone to a DESTINATION")
    return f"{destination.rstrip('/')}/{name}"


def _run(job: Copy, where: Where) -> Copied | None:
    opened = job.opened()
    try:
        return run_job(opened, where)
    finally:
        complete(opened.destination, job.destination)


def _dry_run(job: Copy) -> Done:
    """Return what would be done; for an update, after comparing everything."""
    counting = dataclasses.replace(job, dry_run=True)
    plan = counting.plan()
    found = omnizarr.run(counting)
    outcome = {
        "copied": found.copied,
        "same": found.same,
        "erased": found.erased,
        "bytes_copied": found.bytes_copied,
    }

    def show() -> None:
        say(plan)
        say(f"would copy {_amount(found)}")

    return Done({"dry_run": True, "plan": plan.to_json(), "outcome": outcome}, show)


def _amount(found: Copied) -> str:
    amount = f"{counted(found.copied, 'value')}, {size_text(found.bytes_copied)}"
    same = f"; {found.same} are the same" if found.same else ""
    return amount + same + (f"; would erase {found.erased}" if found.erased else "")


def _show(result: Copied, target: str, where: Where) -> None:
    """Print the result of a copy."""
    parts = [f"{counted(result.copied, 'value')}, {size_text(result.bytes_copied)}"]
    others = (
        (result.same, "were the same"),
        (result.erased, "erased"),
        (result.verified, "verified"),
    )
    parts += [f"{number} {what}" for number, what in others if number]
    say(f"{where.title}copied to {target}: {', '.join(parts)}")
