"""`omnizarr convert`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli import rechunk
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
    checksum_option,
    chunks_option,
    codecs_option,
    destination_option,
    json_option,
    memory_option,
    no_shards_option,
    overwrite_option,
    shards_option,
    shards_or_none,
    storage_option,
)
from omnizarr.cli.terminal import (
    OK,
    PROBLEMS,
    confirm,
    counted,
    examples,
    listed,
    run_each,
    say,
    say_json,
    show_left_out,
)
from omnizarr.extension import size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.bulk.convert import Report
    from omnizarr.bulk.job import Job

# Options that keep or check stored chunks, which --chunks, --shards and --codecs write anew.
_WITH_CHUNKS = ("in_place", "link", "checksum", "skip_damaged", "verify")


@click.command(
    epilog=examples(
        "omnizarr convert old.zarr new.zarr --zarr-format 3",
        "omnizarr convert old.zarr new.zarr --chunks 1,100,100 --shards 64MB --codecs zstd:5",
        "omnizarr convert lake/ new-lake/            # every hierarchy in the folder",
        "omnizarr convert big.zarr linked.zarr --link --dry-run",
        "omnizarr convert big.zarr --in-place        # and back: convert --undo big.zarr",
        "omnizarr convert s3://bucket/a.zarr b.zarr --resume --skip-damaged",
    )
)
@click.argument("source")
@click.argument("destination", required=False)
@click.option(
    "--zarr-format",
    "--to",
    "zarr_format",
    type=click.Choice(["1", "2", "3-draft", "3"]),
    default="3",
    show_default=True,
    help="Zarr version to write.",
)
@chunks_option
@shards_option
@no_shards_option
@codecs_option
@overwrite_option
@click.option("--in-place", is_flag=True, help="Add metadata of the new version; keep chunks.")
@click.option(
    "--undo",
    is_flag=True,
    help="Remove the metadata of the new version that --in-place added to SOURCE.",
)
@click.option("--remove-old", is_flag=True, help="With --in-place, remove the old metadata.")
@click.option("--link", is_flag=True, help="Make hard links to chunks that keep their bytes.")
@click.option(
    "--consolidated/--no-consolidated",
    default=None,
    help="Consolidate the metadata, or not; by default as SOURCE.",
)
@checksum_option
@click.option("--skip-damaged", is_flag=True, help="Skip damaged chunks and list them.")
@click.option("--verify", is_flag=True, help="Read what was written, and compare it with SOURCE.")
@memory_option
@writing_job_options
@json_option
@storage_option
@destination_option
def convert(
    source: str,
    destination: str | None,
    zarr_format: str,
    chunks: Any,
    shards: Any,
    no_shards: bool,
    codecs: list[Any] | None,
    overwrite: bool,
    undo: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
    destination_options: Options,
    **given: Any,
) -> None:
    """Convert SOURCE to another Zarr version at DESTINATION.

    By convention, the name of DESTINATION ends in .zarr. Chunks keep their bytes if the new
    version can describe them, and are re-encoded otherwise; --dry-run shows which, and why.
    DESTINATION becomes visible when it is complete. A damaged chunk is an error; with
    --skip-damaged, the exit code is 1 if chunks were skipped.

    SOURCE may be a folder: each hierarchy in it is converted to the same path below DESTINATION,
    also after others have failed, and --resume repeats none that is complete. With --chunks,
    --shards or --codecs, arrays are written anew as by `omnizarr rechunk`, which has more options.

    With --in-place, metadata of the new version is added to SOURCE, and no chunk is touched.
    --undo removes it again, --remove-old the old metadata. With --link, the files of chunks get a
    second name in DESTINATION instead of a copy; omnizarr replaces files and never writes into
    them, so that neither hierarchy changes the other, but some other programs do write into them.
    """
    if undo:
        _undo(source, destination, zarr_format, where, as_json, storage_options)
        return
    layout = {"chunks": chunks, "shards": shards_or_none(shards, no_shards), "codecs": codecs}
    layout = {name: value for name, value in layout.items() if value is not None}
    _check(destination, layout, given)
    pairs = find_pairs(source, destination, storage_options, destination_options)
    if not where.dry_run and given["remove_old"]:
        many = "" if pairs is None else f" the {counted(len(pairs), 'hierarchy')} in"
        confirm(
            f"The metadata of{many} {source} in the present Zarr version will be erased; that"
            " cannot be undone.",
            overwrite,
        )

    def describe(pair: Pair, replaces: bool) -> Job[Any]:
        about = {
            "zarr_format": zarr_format,
            "overwrite": replaces and pair.destination is not None,
            "memory": given["memory"],
            "storage_options": storage_options,
            "destination_options": destination_options,
        }
        if layout:
            return omnizarr.jobs.Rechunk(pair.source, pair.destination, **layout, **about)
        measure = where.dry_run or where.log is not None or sys.stderr.isatty()
        return omnizarr.jobs.Convert(
            pair.source, pair.destination, measure=measure, **{**given, **about}
        )

    def work(job: Job[Any], pair: Pair) -> Done:
        if where.dry_run:
            return planned(job, where)
        report: Any = run_job(job, where)
        about = {"source": pair.source, "destination": pair.target, "zarr_format": zarr_format}
        brief = pairs is not None
        shows = partial(show, report, zarr_format, pair.target, where, brief=brief)
        if layout:
            what = f"zarr {zarr_format} to "
            shows = partial(rechunk.show, report, pair.target, where, what, brief=brief)
        problem = bool(getattr(report, "damaged", False))
        return Done({**about, **report.to_json()}, shows, problem)

    options = destination_options or storage_options
    if pairs is not None:
        sys.exit(
            run_pairs(
                pairs, describe, work, where, given=(source, destination), verb="converted",
                overwrite=overwrite, as_json=as_json, options=options,
            )
        )  # fmt: skip
    if destination is not None:
        overwrite = may_replace(destination, overwrite, where, options)
    pair = Pair(source, destination)
    job = describe(pair, overwrite)
    if where.dry_run:
        run_job(job, where, as_json)
        return
    done = work(job, pair)
    if as_json:
        say_json(done.data)
    else:
        done.show()
    sys.exit(PROBLEMS if done.is_problem else OK)


def _check(destination: str | None, layout: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise if options exclude each other."""
    in_place = given["in_place"]
    if (destination is None) != in_place:
        both = ", not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")
    if given["remove_old"] and not in_place:
        raise click.UsageError("--remove-old needs --in-place; a copy does not change SOURCE")
    if given["link"] and in_place:
        raise click.UsageError("give --link or --in-place, not both")
    wrong = [name for name in _WITH_CHUNKS if given[name]]
    if layout and (wrong or given["consolidated"] is not None):
        option = "--no-shards" if layout.get("shards") is False else f"--{next(iter(layout))}"
        other = wrong[0].replace("_", "-") if wrong else "consolidated"
        raise click.UsageError(
            f"{option} writes all chunks anew, which --{other} is not for; give one of them, and"
            " run two commands if both are needed"
        )


def _undo(
    source: str,
    destination: str | None,
    zarr_format: str,
    where: Where,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Remove the metadata that a conversion in place added."""
    if destination is not None:
        raise click.UsageError("--undo takes one path: where --in-place added metadata")
    verb = "would remove" if where.dry_run else "removed"

    def work(path: str) -> dict[str, Any]:
        keys = omnizarr.undo_conversion(
            path, zarr_format=zarr_format, dry_run=where.dry_run, storage_options=storage_options
        )
        return {"source": path, "erased": keys, "dry_run": where.dry_run}

    def show(done: dict[str, Any]) -> None:
        documents = counted(len(done["erased"]), "document")
        say(f"{verb} {documents} of zarr {zarr_format} from {done['source']}")

    pairs = find_pairs(source, None, storage_options, None)
    if pairs is not None:
        paths = [pair.source for pair in pairs]
        sys.exit(
            run_each(paths, work, show, as_json=as_json, folders=False, several=True, headed=False)
        )
    done = work(source)
    if as_json:
        say_json(done)
    else:
        show(done)


def show(
    report: Report, zarr_format: str, target: str, where: Where, *, brief: bool = False
) -> None:
    """Print the result of a conversion: if it is brief, in one line and one per damaged chunk."""
    parts = [
        counted(report.groups, "group"),
        counted(report.arrays, "array"),
        f"{counted(report.chunks_copied, 'chunk')} copied",
        f"{report.chunks_encoded} re-encoded",
    ]
    others = ((report.chunks_linked, "linked"), (report.chunks_kept, "kept from before"),
              (report.chunks_verified, "verified"))  # fmt: skip
    parts += [f"{number} {what}" for number, what in others if number]
    say(f"{where.title}wrote zarr {zarr_format} to {target}: {', '.join(parts)}, "
        f"{size_text(report.bytes_written)}", problem=bool(report.damaged))  # fmt: skip
    if not brief:
        _show_decisions(report)
    for key, reason in report.damaged.items():
        say(f"  skipped damaged chunk {key!r}: {reason}", problem=True)


def _show_decisions(report: Report) -> None:
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
