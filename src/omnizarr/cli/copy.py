"""`omnizarr copy`, `convert` and `rechunk`."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.bulk.options import ConvertOptions, CopyOptions, RechunkOptions
from omnizarr.cli.answers import Answer, command, run_each
from omnizarr.cli.jobs import PathPair, Where, find_pairs, job_options, planned, run_job, run_pairs
from omnizarr.cli.options import SHARDS_OR_NONE, Options, options_of
from omnizarr.cli.terminal import confirm, counted, listed, say, show_left_out
from omnizarr.extension import size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.bulk.convert import ConvertReport
    from omnizarr.bulk.copy import Copied, Copy
    from omnizarr.bulk.rechunk.job import RechunkReport

# copy


@command(
    "omnizarr copy ocean.zarr s3://bucket/ocean.zarr --verify",
    "omnizarr copy ocean.zarr backup/ocean.zarr --update --delete --dry-run",
    "omnizarr copy run.zarr small.zarr --include 'temp*' --exclude 'temp_raw'",
    "omnizarr copy a.zarr b.zarr archive/        # each below archive/",
    "omnizarr copy lake/ s3://bucket/lake/       # everything in a folder",
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.argument("destination")
@options_of(CopyOptions)
@job_options
def copy(
    sources: tuple[str, ...],
    destination: str,
    overwrite: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Copy SOURCE to DESTINATION byte for byte; both are paths or URLs.

    All keys are copied, also files that are not Zarr, so SOURCE may be a folder of several
    hierarchies and other files. DESTINATION becomes visible when it is complete; with --overwrite,
    it replaces the old data at that moment. Several SOURCEs are copied below DESTINATION, by their
    names, also after others have failed. `omnizarr convert` writes another Zarr version.

    With --update, DESTINATION stays visible while values that differ are copied into it. Chunks
    that arrays of SOURCE no longer have are erased there; --delete also erases other keys that
    SOURCE does not have.
    """
    several = len(sources) > 1
    pairs = [PathPair(s, _below(destination, s) if several else destination) for s in sources]

    def work(pair: PathPair, replaces: bool) -> Answer:
        job = omnizarr.jobs.Copy(
            pair.source,
            pair.destination,
            overwrite=replaces and not given["update"],
            storage_options=storage_options,
            **given,
        )
        if where.dry_run:
            return _compared(job, alone=not several)
        if given["delete"] and not where.resume:
            extra = omnizarr.run(replace(job, dry_run=True)).erased
            if extra:
                confirm(f"{counted(extra, 'key')} of {pair.target} will be erased.", overwrite)
        result = run_job(job, where)
        others = ((result.same, "were the same"), (result.erased, "erased"),
                  (result.verified, "verified"))  # fmt: skip
        parts = [_amount(result), *(f"{number} {what}" for number, what in others if number)]
        text = f"{where.title}copied to {pair.target}: {', '.join(parts)}"
        data = {"source": pair.source, "destination": pair.target, **result.to_json()}
        return Answer(data, partial(say, text))

    return run_pairs(
        pairs, work, where, verb="copied", overwrite=overwrite, several=several,
        asks=not given["update"], options=given["destination_options"] or storage_options,
    )  # fmt: skip


def _below(destination: str, source: str) -> str:
    """Return the path of a copy below a folder, by the name of its source."""
    name = source.rstrip("/").rpartition("/")[2]
    if not name or name in (".", ".."):
        raise click.UsageError(f"{source!r} has no name; copy it alone to a DESTINATION")
    return f"{destination.rstrip('/')}/{name}"


def _compared(job: Copy, alone: bool) -> Answer:
    """Return what would be done; for an update, after comparing everything."""
    counting = replace(job, dry_run=True)
    plan = counting.plan()
    found = omnizarr.run(counting)
    names = ("copied", "same", "erased", "bytes_copied")
    outcome = {name: getattr(found, name) for name in names}

    def show() -> None:
        same = f"; {found.same} are the same" if found.same else ""
        erased = f"; would erase {found.erased}" if found.erased else ""
        say(plan)
        say(f"would copy {_amount(found)}{same}{erased}")
        if alone:
            say("nothing was written (--dry-run)")

    return Answer({"dry_run": True, "plan": plan.to_json(), "outcome": outcome}, show)


def _amount(found: Copied) -> str:
    return f"{counted(found.copied, 'value')}, {size_text(found.bytes_copied)}"


# convert


@command(
    "omnizarr convert old.zarr new.zarr --zarr-format 3",
    "omnizarr convert lake/ new-lake/            # every hierarchy in the folder",
    "omnizarr convert big.zarr --in-place        # and back: convert --undo big.zarr",
    "omnizarr convert s3://bucket/a.zarr b.zarr --resume --skip-damaged",
)
@click.argument("source")
@click.argument("destination", required=False)
@options_of(
    ConvertOptions,
    "dimension_separator",
    zarr_format={"opts": ("--zarr-format", "--to", "zarr_format")},
)
@click.option(
    "--undo", is_flag=True,
    help="Remove the metadata of the new version that --in-place added to SOURCE.",
)  # fmt: skip
@job_options
def convert(
    source: str,
    destination: str | None,
    overwrite: bool,
    undo: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Convert SOURCE to another Zarr version at DESTINATION.

    By convention, the name of DESTINATION ends in .zarr. Chunks keep their bytes if the new
    version can describe them, and are re-encoded otherwise; --dry-run shows which, and why.
    DESTINATION becomes visible when it is complete. A damaged chunk is an error; with
    --skip-damaged, the exit code is 1 if chunks were skipped.

    SOURCE may be a folder: each hierarchy in it is converted to the same path below DESTINATION,
    also after others have failed. `omnizarr rechunk --zarr-format` changes chunks and codecs, too.

    With --in-place, metadata of the new version is added to SOURCE, and no chunk is touched.
    --undo removes it again, --remove-old the old metadata.
    """
    if undo:
        return _undo(source, destination, given["zarr_format"], where, storage_options)
    in_place = given["in_place"]
    _check_place(destination, in_place)
    if given["remove_old"] and not in_place:
        raise click.UsageError("--remove-old needs --in-place; a copy does not change SOURCE")
    there, zarr_format = given["destination_options"], given["zarr_format"]
    pairs = find_pairs(source, destination, storage_options, there)
    if not where.dry_run and given["remove_old"]:
        confirm(
            f"The metadata of{_all_of(pairs)} {source} in the present Zarr version will be erased;"
            " that cannot be undone.",
            overwrite,
        )

    def work(pair: PathPair, replaces: bool) -> Answer:
        job = omnizarr.jobs.Convert(
            pair.source,
            pair.destination,
            overwrite=replaces and pair.destination is not None,
            measure=where.dry_run or sys.stderr.isatty(),
            storage_options=storage_options,
            **given,
        )
        if where.dry_run:
            return planned(job, where, alone=pairs is None)
        return _converted(run_job(job, where), zarr_format, pair, where, brief=pairs is not None)

    return run_pairs(
        pairs or [PathPair(source, destination)], work, where, verb="converted",
        overwrite=overwrite, several=pairs is not None, options=there or storage_options,
    )  # fmt: skip


def _all_of(pairs: list[PathPair] | None) -> str:
    return "" if pairs is None else f" the {counted(len(pairs), 'hierarchy')} in"


def _check_place(destination: str | None, in_place: bool) -> None:
    if (destination is None) != in_place:
        both = ", not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")


def _undo(
    source: str, destination: str | None, zarr_format: str, where: Where, options: Options
) -> int:
    """Remove the metadata that a conversion in place added."""
    if destination is not None:
        raise click.UsageError("--undo takes one path: where --in-place added metadata")
    verb = "would remove" if where.dry_run else "removed"

    def work(path: str) -> Answer:
        keys = omnizarr.undo_conversion(
            path, zarr_format=zarr_format, dry_run=where.dry_run, storage_options=options
        )
        text = f"{verb} {counted(len(keys), 'document')} of zarr {zarr_format} from {path}"
        data = {"source": path, "erased": keys, "dry_run": where.dry_run}
        return Answer(data, partial(say, text))

    pairs = find_pairs(source, None, options, None)
    if pairs is None:
        return work(source).give()
    paths = [pair.source for pair in pairs]
    return run_each(paths, work, folders=False, several=True, headed=False)


def _converted(
    report: ConvertReport, zarr_format: str, pair: PathPair, where: Where, *, brief: bool
) -> Answer:
    """Return the result of a conversion; a brief one says only which chunks are damaged."""

    def show() -> None:
        parts = [
            counted(report.groups, "group"),
            counted(report.arrays, "array"),
            f"{counted(report.chunks_copied, 'chunk')} copied",
            f"{report.chunks_encoded} re-encoded",
        ]
        if report.chunks_verified:
            parts.append(f"{report.chunks_verified} verified")
        say(f"{where.title}wrote zarr {zarr_format} to {pair.target}: {', '.join(parts)}, "
            f"{size_text(report.bytes_written)}", problem=bool(report.damaged))  # fmt: skip
        if not brief:
            _show_decisions(report)
        for key, reason in report.damaged.items():
            say(f"  skipped damaged chunk {key!r}: {reason}", problem=True)

    about = {"source": pair.source, "destination": pair.target, "zarr_format": zarr_format}
    return Answer({**about, **report.to_json()}, show, bool(report.damaged))


def _show_decisions(report: ConvertReport) -> None:
    """Print what became of chunks, checksums and consolidated metadata."""
    reasons: dict[str, list[str]] = {}
    for path, reason in report.encoded.items():
        reasons.setdefault(reason, []).append(path)
    for reason, found in reasons.items():
        say(f"  re-encoded {listed(found)}: {reason}")
    show_left_out(report.left_out)
    for path, note in report.notes.items():
        say(f"  {path}: {note}")
    if report.consolidated:
        say(f"  consolidated metadata of {listed(report.consolidated)}")


# rechunk


@command(
    "omnizarr rechunk by-time.zarr by-place.zarr --chunks time=-1,lat=100,lon=100",
    "omnizarr rechunk raw.zarr small.zarr --codecs zstd:5 --dtype f4 --dry-run",
    "omnizarr rechunk old.zarr sharded.zarr --zarr-format 3 --shards 64MB",
    "omnizarr rechunk lake/ small-lake/ --codecs zstd:9    # every hierarchy in the folder",
    "omnizarr rechunk a.zarr --in-place --array 'temp*' --chunks 1,100,100",
)
@click.argument("source")
@click.argument("destination", required=False)
@options_of(RechunkOptions, "rules", shards=SHARDS_OR_NONE)
@click.option(
    "--array", "patterns", multiple=True, metavar="PATTERN",
    help="Apply the options to these arrays only; may be repeated.",
)  # fmt: skip
@job_options
def rechunk(
    source: str,
    destination: str | None,
    patterns: tuple[str, ...],
    overwrite: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Write SOURCE with other chunks, shards, compression or data types to DESTINATION.

    SOURCE is an array or a group; groups, attributes and the bytes of arrays that do not change are
    carried over. Dimensions that are not named keep their chunk length. --dry-run shows the plan:
    one pass or two, what is read and written, and the memory.

    SOURCE may be a folder: each hierarchy in it is written to the same path below DESTINATION, also
    after others have failed.
    """
    in_place, there = given["in_place"], given["destination_options"]
    _check_place(destination, in_place)
    if patterns:
        layout = {name: given.pop(name) for name in _LAYOUT}
        chosen = {name: value for name, value in layout.items() if value is not None}
        given["rules"] = dict.fromkeys(patterns, chosen)
    pairs = find_pairs(source, destination, storage_options, there)
    if in_place and where.begins and not where.dry_run:
        confirm(
            f"The arrays of{_all_of(pairs)} {source} will be replaced when the new ones are"
            " complete.",
            overwrite,
        )

    def work(pair: PathPair, replaces: bool) -> Answer:
        job = omnizarr.jobs.Rechunk(
            pair.source,
            pair.destination,
            overwrite=replaces and not in_place,
            storage_options=storage_options,
            **given,
        )
        if where.dry_run:
            return planned(job, where, alone=pairs is None)
        return _rechunked(run_job(job, where), pair, where, brief=pairs is not None)

    return run_pairs(
        pairs or [PathPair(source, destination)], work, where, verb="rechunked",
        overwrite=overwrite, several=pairs is not None,
        asks=not given["merge"], options=there or storage_options,
    )  # fmt: skip


_LAYOUT = ("chunks", "shards", "codecs", "dtype", "fill_value")


def _rechunked(report: RechunkReport, pair: PathPair, where: Where, *, brief: bool) -> Answer:
    """Return the result: in one line if it is brief, else with the layout of each array."""

    def show() -> None:
        parts = [
            counted(report.groups, "group"),
            counted(report.arrays, "array"),
            f"{len(report.rechunked)} with a new layout",
            f"{size_text(report.bytes_read)} read",
            f"{size_text(report.bytes_written)} written",
        ]
        if report.chunks_copied:
            parts.append(f"{counted(report.chunks_copied, 'chunk')} copied")
        say(f"{where.title}wrote {pair.target}: {', '.join(parts)}")
        for notes in () if brief else (report.rechunked, report.kept, report.notes):
            for path, text in notes.items():
                say(f"  {path}: {text}")

    about = {"source": pair.source, "destination": pair.target}
    return Answer({**about, **report.to_json()}, show)
