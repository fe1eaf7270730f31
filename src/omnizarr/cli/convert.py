"""`omnizarr convert`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

import omnizarr
from omnizarr.cli.jobs import Where, may_replace, run_job, writing_job_options
from omnizarr.cli.options import (
    Options,
    checksum_option,
    destination_option,
    json_option,
    memory_option,
    overwrite_option,
    storage_option,
)
from omnizarr.cli.terminal import (
    OK,
    PROBLEMS,
    confirm,
    counted,
    examples,
    listed,
    say,
    say_json,
    show_left_out,
)
from omnizarr.hierarchy.info import size_text

if TYPE_CHECKING:  # slow to import, and not needed for the help
    from omnizarr.ops.convert import Report


@click.command(
    epilog=examples(
        "omnizarr convert old.zarr new.zarr --zarr-format 3",
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
    overwrite: bool,
    in_place: bool,
    undo: bool,
    remove_old: bool,
    link: bool,
    consolidated: bool | None,
    checksum: bool,
    skip_damaged: bool,
    verify: bool,
    memory: str | None,
    where: Where,
    as_json: bool,
    storage_options: Options,
    destination_options: Options,
) -> None:
    """Convert SOURCE to another Zarr version at DESTINATION.

    By convention, the name of DESTINATION ends in .zarr. Chunks keep their bytes if the new
    version can describe them, and are re-encoded otherwise; --dry-run shows which, and why.
    DESTINATION becomes visible when it is complete. A damaged chunk is an error; with
    --skip-damaged, the exit code is 1 if chunks were skipped.

    With --in-place, metadata of the new version is added to SOURCE, and no chunk is touched.
    --undo removes it again, --remove-old the old metadata. With --link, the files of chunks get a
    second name in DESTINATION instead of a copy; omnizarr replaces files and never writes into
    them, so that neither hierarchy changes the other, but some other programs do write into them.
    """
    if undo:
        _undo(source, destination, zarr_format, where, as_json, storage_options)
        return
    if (destination is None) != in_place:
        both = ", not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")
    if remove_old and not in_place:
        raise click.UsageError("--remove-old needs --in-place; a copy does not change SOURCE")
    if link and in_place:
        raise click.UsageError("give --link or --in-place, not both")
    if not where.dry_run and remove_old:
        confirm(
            f"The metadata of {source} in its present Zarr version will be erased; that cannot be"
            " undone.",
            overwrite,
        )
    if destination is not None:
        options = destination_options or storage_options
        overwrite = may_replace(destination, overwrite, where, options)
    job = omnizarr.jobs.Convert(
        source,
        destination,
        zarr_format=zarr_format,
        overwrite=overwrite and not in_place,
        in_place=in_place,
        remove_old=remove_old,
        link=link,
        consolidated=consolidated,
        checksum=checksum,
        skip_damaged=skip_damaged,
        verify=verify,
        memory=memory,
        storage_options=storage_options,
        destination_options=destination_options,
        measure=where.dry_run or where.log is not None or sys.stderr.isatty(),
    )
    report = run_job(job, where, as_json)
    if report is None:
        return
    target = source if destination is None else destination
    if as_json:
        about = {"source": source, "destination": target, "zarr_format": zarr_format}
        say_json({**about, **report.to_json()})
    else:
        _show(report, zarr_format, target, where)
    sys.exit(PROBLEMS if report.damaged else OK)


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
    keys = omnizarr.undo_conversion(
        source, zarr_format=zarr_format, dry_run=where.dry_run, storage_options=storage_options
    )
    if as_json:
        say_json({"source": source, "erased": keys, "dry_run": where.dry_run})
        return
    verb = "would remove" if where.dry_run else "removed"
    say(f"{verb} {counted(len(keys), 'document')} of zarr {zarr_format} from {source}")


def _show(report: Report, zarr_format: str, target: str, where: Where) -> None:
    """Print the result of a conversion."""
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
        f"{size_text(report.bytes_written)}")  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for path, reason in report.encoded.items():
        reasons.setdefault(reason, []).append(path)
    for reason, found in reasons.items():
        say(f"  re-encoded {listed(found)}: {reason}")
    show_left_out(report.left_out)
    if report.consolidated:
        say(f"  consolidated metadata of {listed(report.consolidated)}")
    for key, reason in report.damaged.items():
        say(f"  skipped damaged chunk {key!r}: {reason}")
