"""`omnizarr ome …`: inspect, check, write and migrate OME-Zarr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from omnizarr._json import load_object
from omnizarr.cli.options import (
    CommandGroup,
    Options,
    checksum_option,
    destination_option,
    node_option,
    path_argument,
    storage_option,
)
from omnizarr.cli.terminal import counted, progress_bar, say, show_left_out, show_problems
from omnizarr.conventions.ome.migrate import migrate as migrate_ome
from omnizarr.conventions.ome.migrate import undo_migration
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.rules import ADVICE
from omnizarr.conventions.ome.validate import validate as validate_ome
from omnizarr.conventions.ome.validate import validate_attributes
from omnizarr.conventions.ome.versions import NEWEST, VERSIONS
from omnizarr.conventions.ome.write import open_source
from omnizarr.conventions.ome.write import write as write_ome
from omnizarr.errors import NodeNotFound, OmnizarrError, Problem
from omnizarr.formats import unchecked_attributes
from omnizarr.hierarchy.info import size_text
from omnizarr.ops.pyramid import NAMES
from omnizarr.stores import LocalStore
from omnizarr.stores.resolve import options_for_two

written = click.Choice([v.name for v in VERSIONS if v.writes])


@click.group(cls=CommandGroup)
def ome() -> None:
    """Inspect, check, write and migrate OME-Zarr."""


@ome.command()
def versions() -> None:
    """List the supported versions of OME-Zarr."""
    for version in VERSIONS:
        say(f"{version}, on zarr {version.zarr_format}")


@ome.command()
@path_argument
@node_option
@storage_option
def info(path: str, node: str, storage_options: Options) -> None:
    """Show the axes, levels, channels, labels or wells of PATH."""
    found = open_ome(path, path=node, storage_options=storage_options)
    say(str(getattr(found, "info", found)))


@ome.command()
@path_argument
@node_option
@storage_option
def validate(path: str, node: str, storage_options: Options) -> None:
    """Check the image, plate or well at PATH and list all problems.

    Everything below it is checked too. The exit code is 1 if there are errors, and 0 if there are
    only warnings.
    """
    problems = validate_ome(path, node, storage_options=storage_options)
    sys.exit(1 if show_problems(problems) else 0)


@ome.command()
@click.argument("mode", type=click.Choice(["attributes", "zarr"]))
@click.argument("path", type=click.Path(exists=True))
@click.option("--strict", is_flag=True, help="Treat recommendations as requirements.")
def conformance(mode: str, path: str, strict: bool) -> None:
    """Validate attributes for the ngff-spec suite.

    PATH is a JSON file, or a group. Prints {"valid": …, "message": …}; the exit code is 0 in either
    case.
    """
    try:
        problems = validate_attributes(_attributes(mode, Path(path)))
    except OmnizarrError as e:
        problems = [Problem("", "", str(e))]
    counted = [
        p for p in problems if p.level == "error" or (strict and not p.message.startswith(ADVICE))
    ]
    verdict: dict[str, Any] = {"valid": not counted}
    if counted:
        verdict["message"] = "; ".join(map(str, counted))
    click.echo(json.dumps(verdict))


def _attributes(mode: str, path: Path) -> dict[str, Any]:
    if mode == "attributes":
        return load_object(path.read_bytes(), path.name)
    found = unchecked_attributes(LocalStore(path, read_only=True).get)
    if found is None:
        raise NodeNotFound(f"{path} has no attributes of a Zarr node")
    return found


@ome.command()
@click.argument("source")
@click.argument("destination")
@click.option("--axes", help="Axes, such as zyx; by default those usual for the number of axes.")
@click.option("--scale", help="Pixel size along each axis, such as 0.5,0.1,0.1.")
@click.option("--unit", help="Unit of the spatial axes, such as micrometer.")
@click.option(
    "--levels", type=click.IntRange(1), help="Number of levels, including full resolution."
)
@click.option(
    "--method",
    type=click.Choice(NAMES),
    default="mean",
    show_default=True,
    help="Downsampling method.",
)
@click.option("--chunks", help="Chunk shape, such as 64,64,64.")
@click.option("--shards", help="Shard shape, or a size such as 64MB.")
@click.option(
    "--version", type=written, default=NEWEST, show_default=True, help="OME-Zarr version to write."
)
@click.option("--overwrite", is_flag=True, help="Replace existing data at DESTINATION.")
@storage_option
@destination_option
def write(source: str, destination: str, **given: Any) -> None:
    """Write SOURCE as an OME-Zarr image with downsampled levels.

    SOURCE is a Zarr array or an OME-Zarr image.
    """
    here, there = options_for_two(
        source, destination, given.pop("storage_options"), given.pop("destination_options")
    )
    scale = given.pop("scale")
    if scale is not None:
        given["scale"] = _numbers(scale, float, "--scale")
    for name in ("chunks", "shards"):
        text = given.pop(name)
        if text is not None:
            sized = name == "shards" and text.lower().endswith("b")
            given[name] = text if sized else _numbers(text, int, f"--{name}")
    array, image = open_source(source, here)
    with progress_bar() as step:
        image = write_ome(
            destination, image or array, progress=step, storage_options=there, **given
        )
    say(str(image.info))


def _numbers(text: str, kind: type[int] | type[float], option: str) -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(
            f"{option}: expected numbers separated by commas, got {text!r}"
        ) from None


@ome.command()
@click.argument("source")
@click.argument("destination", required=False)
@click.option(
    "--to", "to", type=written, default=NEWEST, show_default=True, help="OME-Zarr version to write."
)
@click.option("--in-place", is_flag=True, help="Add metadata of the new version; keep chunks.")
@click.option("--remove-old", is_flag=True, help="With --in-place: delete the old metadata.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--undo", is_flag=True, help="Delete the metadata that --in-place added.")
@click.option("--overwrite", is_flag=True, help="Replace an existing hierarchy at DESTINATION.")
@checksum_option
@storage_option
@destination_option
def migrate(
    source: str,
    destination: str | None,
    to: str,
    in_place: bool,
    remove_old: bool,
    dry_run: bool,
    undo: bool,
    overwrite: bool,
    checksum: bool,
    storage_options: Options,
    destination_options: Options,
) -> None:
    """Migrate SOURCE to another version of OME-Zarr.

    Labels, wells and fields are migrated too.
    """
    if undo:
        if destination is not None or in_place or remove_old or dry_run or overwrite:
            raise click.UsageError("--undo can only be combined with --to")
        keys = undo_migration(source, to=to, storage_options=storage_options)
        say(f"deleted {counted(len(keys), 'metadata file')} of {to}")
        return
    if (destination is None) != in_place:
        raise click.UsageError("give a DESTINATION or --in-place, not both")
    if remove_old and not in_place:
        raise click.UsageError("--remove-old requires --in-place")
    with progress_bar() as step:
        done = migrate_ome(
            source,
            destination,
            to=to,
            in_place=in_place,
            remove_old=remove_old,
            overwrite=overwrite,
            dry_run=dry_run,
            checksum=checksum,
            progress=step,
            storage_options=storage_options,
            destination_options=destination_options,
        )
    report = done.report
    would = "would migrate" if dry_run else "migrated"
    say(
        f"{would} {source} from {done.source} to {done.target}:"
        f" {counted(report.groups, 'group')}, {counted(report.arrays, 'array')},"
        f" {counted(len(done.documents), 'metadata file')} added,"
        f" {len(done.removed)} deleted, {counted(report.chunks_copied, 'chunk')} copied,"
        f" {report.chunks_encoded} re-encoded, {size_text(report.bytes_written)}",
    )
    for path, reason in report.encoded.items():
        say(f"  {path} was re-encoded: {reason}")
    show_left_out(report.left_out)
