"""The `omnizarr` command: inspect, check and convert Zarr data of any version."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import click

import omnizarr
from omnizarr.cli.ome import ome
from omnizarr.cli.terminal import (
    Options,
    checksum_option,
    console,
    destination_option,
    errors,
    node_option,
    path_argument,
    progress_bar,
    show_findings,
    show_left_out,
    show_problems,
    storage_option,
)
from omnizarr.conventions.cf.dataset import open as open_dataset
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.errors import OmnizarrError
from omnizarr.hierarchy.info import counted, size_text
from omnizarr.stores.resolve import is_archive

# Arguments that the library's messages recommend, and the options that replace them.
OPTIONS = {
    "overwrite=True": "--overwrite",
    "in_place=True": "--in-place",
    "checksum=True": "--checksum",
    "resume=True": "--resume",
}


class Command(click.Group):
    """Print the library's errors as one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        warnings.showwarning = _show_warning
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader, such as head, has closed the pipe
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
    """Inspect, check and convert Zarr data of version 1, 2, the draft of 3, and 3."""


main.add_command(ome)


@main.command()
@path_argument
@node_option
@storage_option
def info(path: str, node: str, storage_options: Options) -> None:
    """Show the metadata, codecs, sizes and attributes of PATH."""
    found = omnizarr.open(path, path=node, storage_options=storage_options)
    console.print(str(found.info_complete()), markup=False)
    if found.attrs:
        console.print_json(data=found.attrs.asdict())


@main.command()
@path_argument
@click.option(
    "--depth",
    type=click.IntRange(0),
    default=None,
    help="Number of levels to show; all by default.",
)
@storage_option
def tree(path: str, depth: int | None, storage_options: Options) -> None:
    """Show the arrays and groups in PATH as a tree."""
    found = omnizarr.open(path, storage_options=storage_options)
    if isinstance(found, omnizarr.Group):
        console.print(str(found.tree(level=depth)), markup=False)
    else:
        console.print(repr(found), markup=False)


@main.command()
@path_argument
@storage_option
def validate(path: str, storage_options: Options) -> None:
    """Check the metadata in PATH and list all problems.

    PATH is a hierarchy, or a file with one JSON document. The exit code is 1 if there are errors,
    and 0 if there are only warnings.
    """
    document = Path(path).is_file() and not is_archive(path)
    problems = omnizarr.validate(
        Path(path).read_bytes() if document else path, storage_options=storage_options
    )
    sys.exit(1 if show_problems(problems) else 0)


@main.command()
@path_argument
@click.option("--yes", is_flag=True, help="Repair; without it, only list.")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="Minimum age of files in seconds; newer files may be in use on another machine.",
)
@storage_option
def repair(path: str, yes: bool, older_than: float, storage_options: Options) -> None:
    """List what killed writers left behind in PATH.

    These are temporary files, locks, unfinished nodes and outdated consolidated metadata. With
    --yes, remove them, finish interrupted replacements, and rebuild the consolidated metadata. Data
    is never touched, nor is anything that a running process may still use.
    """
    found = omnizarr.repair(
        path, dry_run=not yes, older_than=older_than, storage_options=storage_options
    )
    for leftover in found:
        console.print(str(leftover), markup=False)
    if not found:
        console.print("nothing to repair")
    elif not yes and any(leftover.state in ("unused", "out of date") for leftover in found):
        console.print("give --yes to remove what is unused and rebuild what is out of date")


@main.command()
@path_argument
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
@storage_option
def verify(path: str, node: str, depth: Any, missing: Any, storage_options: Options) -> None:
    """Check all chunks in PATH and list what is damaged.

    The exit code is 1 if anything is damaged. Keys that belong to no node are only warnings.
    """
    with progress_bar() as step:
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
@click.option("--resume", is_flag=True, help="Finish an interrupted conversion.")
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
    console.print(
        f"wrote zarr {to} to {target}: {counted(report.groups, 'group')},"
        f" {counted(report.arrays, 'array')}, {counted(report.chunks_copied, 'chunk')} copied,"
        f" {report.chunks_encoded} re-encoded, {size_text(report.bytes_written)}",
        markup=False,
    )
    for path, reason in report.encoded.items():
        console.print(f"  {path} was re-encoded: {reason}", markup=False)
    show_left_out(report.left_out)
    for key, reason in report.damaged.items():
        console.print(f"  skipped damaged chunk {key!r}: {reason}", markup=False)
    sys.exit(1 if report.damaged else 0)


@main.group()
def cf() -> None:
    """Inspect groups as CF and NetCDF datasets."""


@cf.command("info")
@path_argument
@node_option
@storage_option
def cf_info(path: str, node: str, storage_options: Options) -> None:
    """Show dimensions, variables and attributes, like ncdump -h.

    Includes all groups below PATH.
    """
    found = open_dataset(path, path=node, storage_options=storage_options)
    console.print(found.header(), markup=False)


@cf.command("validate")
@path_argument
@node_option
@storage_option
def cf_validate(path: str, node: str, storage_options: Options) -> None:
    """List inconsistencies in the dataset at PATH.

    Checks for dimensions of different lengths and for references to missing variables. The exit
    code is 1 if there are errors, and 0 if there are only warnings.
    """
    found = open_dataset(path, path=node, storage_options=storage_options)
    sys.exit(1 if show_problems(found.problems()) else 0)


@main.group()
def geo() -> None:
    """Inspect maps: coordinate reference system, bounds and levels."""


@geo.command("info")
@path_argument
@node_option
@click.option("--variable", default=None, help="Name of the array, if the group has several.")
@storage_option
def geo_info(path: str, node: str, variable: str | None, storage_options: Options) -> None:
    """Show the coordinate reference system, bounds and levels of the map at PATH."""
    found = open_map(path, path=node, variable=variable, storage_options=storage_options)
    for line in _map_lines(found):
        console.print(line, markup=False)


def _map_lines(found: Map) -> list[str]:
    bounds = found.bounds
    lines = [
        f"reference system  {found.crs or 'none'}",
        f"bounds            {'unknown' if bounds is None else ' '.join(f'{v:g}' for v in bounds)}",
    ]
    for level, resolution in zip(found.levels, found.resolutions, strict=True):
        rows, columns = level.shape
        size = "unknown" if resolution is None else f"{resolution:g}"
        lines.append(
            f"{level.array.name}  {rows} by {columns}  {level.array.dtype}  pixels of {size}"
        )
    return lines
