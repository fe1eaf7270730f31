"""The `omnizarr` command: look at, check and convert Zarr data of any version."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import click

import omnizarr
from omnizarr.cli.geo import cf, geo
from omnizarr.cli.ome import ome
from omnizarr.cli.options import (
    Options,
    checksum_option,
    destination_option,
    node_option,
    path_argument,
    storage_option,
)
from omnizarr.cli.screen import (
    console,
    errors,
    show_findings,
    show_left_out,
    show_problems,
    watched,
)
from omnizarr.errors import OmnizarrError
from omnizarr.hierarchy.render import counted, size_text
from omnizarr.stores.resolve import is_archive

# What the library's messages recommend, in the words of the command line.
OPTIONS = {
    "overwrite=True": "--overwrite",
    "in_place=True": "--in-place",
    "checksum=True": "--checksum",
    "resume=True": "--resume",
}


class Command(click.Group):
    """Shows the library's errors as one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        warnings.showwarning = _show_warning
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever reads the output has seen enough
            raise
        except (OmnizarrError, OSError) as e:
            errors.print(f"[bold red]{type(e).__name__}[/]: ", end="")
            message = str(e)
            for argument, option in OPTIONS.items():
                message = message.replace(argument, option)
            errors.print(message, markup=False)
            sys.exit(1)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    errors.print("[yellow]warning[/]: ", end="")
    errors.print(str(message), markup=False)


@click.group(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(omnizarr.__version__, prog_name="omnizarr")
def main() -> None:
    """Every Zarr ever written: version 1, 2, the draft of 3, and 3."""


main.add_command(cf)
main.add_command(geo)
main.add_command(ome)


@main.command()
@path_argument
@node_option
@storage_option
def info(path: str, node: str, storage_options: Options) -> None:
    """Show what PATH is: shape, type, chunks, codecs, sizes."""
    found = omnizarr.open(path, path=node, storage_options=storage_options)
    console.print(str(found.info_complete()), markup=False)
    if found.attrs:
        console.print_json(data=found.attrs.asdict())


@main.command()
@path_argument
@click.option(
    "--depth", type=click.IntRange(0), default=None, help="How many levels to show; all by default."
)
@storage_option
def tree(path: str, depth: int | None, storage_options: Options) -> None:
    """Show all arrays and groups in PATH."""
    found = omnizarr.open(path, storage_options=storage_options)
    if isinstance(found, omnizarr.Group):
        console.print(str(found.tree(level=depth)), markup=False)
    else:
        console.print(repr(found), markup=False)


@main.command()
@path_argument
@storage_option
def validate(path: str, storage_options: Options) -> None:
    """List everything that is wrong with the metadata in PATH.

    PATH is a hierarchy, or a file with one JSON document. The exit code is 1 when there are
    errors; warnings alone do not change it.
    """
    document = Path(path).is_file() and not is_archive(path)
    problems = omnizarr.validate(
        Path(path).read_bytes() if document else path, storage_options=storage_options
    )
    sys.exit(1 if show_problems(problems) else 0)


@main.command()
@path_argument
@click.option("--yes", is_flag=True, help="Remove them; without it they are only listed.")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="Seconds since the last change; younger files may be in use on another machine.",
)
@storage_option
def repair(path: str, yes: bool, older_than: float, storage_options: Options) -> None:
    """List what writers that were killed left in PATH: never data.

    What a running process may still use is left alone.
    """
    found = omnizarr.repair(
        path, dry_run=not yes, older_than=older_than, storage_options=storage_options
    )
    for leftover in found:
        console.print(str(leftover), markup=False)
    if not found:
        console.print("nothing to repair")
    elif not yes and any(leftover.state in ("unused", "out of date") for leftover in found):
        console.print("give --yes to remove what is unused and renew what is out of date")


@main.command()
@path_argument
@node_option
@click.option(
    "--depth",
    type=click.Choice(["present", "checksums", "decode"]),
    default="decode",
    help="How much to look at: sizes and indexes, checksums, or everything (default).",
)
@click.option(
    "--missing",
    type=click.Choice(["count", "warn", "error"]),
    default="count",
    help="What a chunk is that is not stored: counted (default), or told with its key.",
)
@storage_option
def verify(path: str, node: str, depth: Any, missing: Any, storage_options: Options) -> None:
    """Look at everything stored in PATH and list all that is damaged.

    The exit code is 1 when something is; keys that belong to nobody are warnings and do not
    change it.
    """
    with watched() as step:
        report = omnizarr.verify(
            path,
            path=node,
            depth=depth,
            missing=missing,
            progress=step,
            storage_options=storage_options,
        )
    show_findings(report.findings)
    console.print(str(report), markup=False)
    sys.exit(0 if report.ok else 1)


@main.command()
@click.argument("source")
@click.argument("destination", required=False)
@click.option("--to", "to", type=click.Choice(["1", "2", "3-draft", "3"]), default="3")
@click.option("--overwrite", is_flag=True, help="Replace a hierarchy at DESTINATION.")
@click.option("--in-place", is_flag=True, help="Write new documents beside the old; keep chunks.")
@checksum_option
@click.option("--resume", is_flag=True, help="Finish a conversion that was interrupted.")
@click.option("--skip-damaged", is_flag=True, help="Leave damaged chunks out, and list them.")
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
    """Write SOURCE in another format to DESTINATION.

    DESTINATION is best named like data.zarr. Chunks are copied byte for byte where the other format
    can describe them, and encoded again where not. DESTINATION is not seen before it is complete.
    A damaged chunk is an error; the exit code is 1 where --skip-damaged left some out.
    """
    if (destination is None) != in_place:
        both = " and not both" if in_place else ""
        raise click.UsageError(f"give a DESTINATION or --in-place{both}")
    with watched() as step:
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
    place = source if in_place else destination
    console.print(
        f"wrote zarr {to} to {place}: {counted(report.groups, 'group')},"
        f" {counted(report.arrays, 'array')}, {counted(report.chunks_copied, 'chunk')} copied,"
        f" {report.chunks_encoded} encoded again, {size_text(report.bytes_written)}",
        markup=False,
    )
    for path, reason in report.encoded.items():
        console.print(f"  {path} was encoded again: {reason}", markup=False)
    show_left_out(report.left_out)
    for key, reason in report.damaged.items():
        console.print(f"  {key!r} was left out, it is damaged: {reason}", markup=False)
    sys.exit(1 if report.damaged else 0)
