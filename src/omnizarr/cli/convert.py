"""`omnizarr convert`."""

from __future__ import annotations

import sys

import click

import omnizarr
from omnizarr.cli.options import (
    Options,
    checksum_option,
    destination_option,
    resume_option,
    storage_option,
)
from omnizarr.cli.terminal import counted, progress_bar, say, show_left_out
from omnizarr.hierarchy.info import size_text


@click.command()
@click.argument("source")
@click.argument("destination", required=False)
@click.option(
    "--to",
    "to",
    type=click.Choice(["1", "2", "3-draft", "3"]),
    default="3",
    show_default=True,
    help="Zarr version to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing hierarchy at DESTINATION.")
@click.option("--in-place", is_flag=True, help="Add metadata of the new version; keep chunks.")
@checksum_option
@resume_option
@click.option("--skip-damaged", is_flag=True, help="Skip damaged chunks and list them.")
@storage_option
@destination_option
def convert(
    source: str,
    destination: str | None,
    to: str,
    overwrite: bool,
    in_place: bool,
    checksum: bool,
    resume: bool,
    skip_damaged: bool,
    storage_options: Options,
    destination_options: Options,
) -> None:
    """Convert SOURCE to another Zarr version at DESTINATION.

    By convention, the name of DESTINATION ends in .zarr. Chunks are copied byte for byte if the
    new version can describe them, and re-encoded otherwise. DESTINATION becomes visible when it is
    complete. A damaged chunk is an error; with --skip-damaged, the exit code is 1 if chunks were
    skipped.
    """
    if (destination is None) != in_place:
        both = ", not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")
    with progress_bar() as step:
        report = omnizarr.convert(
            source,
            destination,
            zarr_format=to,
            overwrite=overwrite,
            in_place=in_place,
            checksum=checksum,
            resume=resume,
            skip_damaged=skip_damaged,
            progress=step,
            storage_options=storage_options,
            destination_options=destination_options,
        )
    target = source if in_place else destination
    say(
        f"wrote zarr {to} to {target}: {counted(report.groups, 'group')},"
        f" {counted(report.arrays, 'array')}, {counted(report.chunks_copied, 'chunk')} copied,"
        f" {report.chunks_encoded} re-encoded, {size_text(report.bytes_written)}",
    )
    for path, reason in report.encoded.items():
        say(f"  {path} was re-encoded: {reason}")
    show_left_out(report.left_out)
    for key, reason in report.damaged.items():
        say(f"  skipped damaged chunk {key!r}: {reason}")
    sys.exit(1 if report.damaged else 0)
