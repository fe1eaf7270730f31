"""`omnizarr ome …`: inspect, check, write and migrate OME-Zarr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from omnizarr.bulk.pyramid import NAMES, level_shapes
from omnizarr.cli.options import (
    CommandGroup,
    Options,
    checksum_option,
    destination_option,
    dry_run_option,
    json_option,
    node_option,
    overwrite_option,
    parse_numbers,
    paths_argument,
    storage_option,
)
from omnizarr.cli.terminal import (
    counted,
    examples,
    has_errors,
    may_overwrite,
    problems_json,
    progress_bar,
    run_each,
    say,
    say_json,
    show_left_out,
    show_problems,
)
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.levels import image_name, new_metadata
from omnizarr.conventions.ome.migrate import Migration, undo_migration
from omnizarr.conventions.ome.migrate import migrate as migrate_ome
from omnizarr.conventions.ome.plate import Plate
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.rules import ADVICE
from omnizarr.conventions.ome.validate import validate as validate_ome
from omnizarr.conventions.ome.validate import validate_attributes
from omnizarr.conventions.ome.versions import NEWEST, VERSIONS
from omnizarr.conventions.ome.write import open_source
from omnizarr.conventions.ome.write import write as write_ome
from omnizarr.errors import NodeNotFound, OmnizarrError, Problem
from omnizarr.extension import (
    LocalStore,
    load_object,
    options_for_two,
    size_text,
    unchecked_attributes,
)

written = click.Choice([v.name for v in VERSIONS if v.writes])


@click.group(cls=CommandGroup)
def ome() -> None:
    """Inspect, check, write and migrate OME-Zarr."""


@ome.command(epilog=examples("omnizarr ome versions", "omnizarr ome versions --json"))
@json_option
def versions(as_json: bool) -> None:
    """List the supported versions of OME-Zarr."""
    if as_json:
        listed = [
            {"version": v.name, "zarr_format": v.zarr_format, "writable": v.writes}
            for v in VERSIONS
        ]
        say_json({"versions": listed})
        return
    for version in VERSIONS:
        say(f"{version}, on zarr {version.zarr_format}")


@ome.command(
    epilog=examples("omnizarr ome info cell.zarr", "omnizarr ome info --json plate.zarr --node A/1")
)
@paths_argument
@node_option
@json_option
@storage_option
def info(paths: tuple[str, ...], node: str, as_json: bool, storage_options: Options) -> None:
    """Show the axes, levels, channels, labels or wells of PATH."""

    def work(path: str) -> Any:
        return open_ome(path, path=node, storage_options=storage_options)

    sys.exit(
        run_each(
            paths,
            work,
            lambda found: say(getattr(found, "info", found)),
            to_json=describe,
            as_json=as_json,
            storage_options=storage_options,
        )
    )


def describe(found: Any) -> dict[str, Any]:
    """Return an image, a plate, a well or a series for JSON."""
    facts: dict[str, Any] = {
        "kind": type(found).__name__.lower(),
        "version": found.version,
        "node": found.group.name,
        "zarr_format": found.group.zarr_format,
    }
    if isinstance(found, Plate):
        return {**facts, "rows": found.rows, "columns": found.columns, "wells": list(found)}
    if not isinstance(found, Image):
        return {**facts, "images": list(getattr(found, "paths", found))}
    levels = []
    for i, array in enumerate(found.levels):
        transform = found.transform(i)
        levels.append(
            {
                "path": found.multiscale.datasets[i].path,
                "shape": array.shape,
                "chunks": array.chunks,
                "shards": array.shards,
                "scale": transform.scale,
                "translation": transform.translation,
            }
        )
    return {
        **facts,
        "name": found.name,
        "dtype": str(found.dtype),
        "axes": [{"name": a.name, "type": a.type, "unit": a.unit} for a in found.axes],
        "levels": levels,
        "channels": [{"label": c.label, "color": c.color} for c in found.channels],
        "labels": list(found.labels),
    }


@ome.command(
    epilog=examples("omnizarr ome validate cell.zarr", "omnizarr ome validate --json images/")
)
@paths_argument
@node_option
@json_option
@storage_option
def validate(paths: tuple[str, ...], node: str, as_json: bool, storage_options: Options) -> None:
    """Check the image, plate or well at PATH and list all problems.

    Everything below it is checked too. The exit code is 1 if there are errors, and 0 if there are
    only warnings.
    """

    def work(path: str) -> list[Problem]:
        return validate_ome(path, node, storage_options=storage_options)

    def show(problems: list[Problem]) -> None:
        show_problems(problems)

    sys.exit(
        run_each(
            paths,
            work,
            show,
            to_json=problems_json,
            is_problem=has_errors,
            as_json=as_json,
            storage_options=storage_options,
        )
    )


@ome.command(
    epilog=examples(
        "omnizarr ome conformance attributes attributes.json",
        "omnizarr ome conformance zarr cell.zarr --strict",
    )
)
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


@ome.command(
    epilog=examples(
        "omnizarr ome write raw.zarr cell.zarr --axes zyx --scale 0.5,0.1,0.1 --unit micrometer",
        "omnizarr ome write raw.zarr cell.zarr --levels 4 --method median --shards 64MB",
    )
)
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
@overwrite_option
@dry_run_option
@json_option
@storage_option
@destination_option
def write(
    source: str, destination: str, overwrite: bool, dry_run: bool, as_json: bool, **given: Any
) -> None:
    """Write SOURCE as an OME-Zarr image with downsampled levels.

    SOURCE is a Zarr array or an OME-Zarr image.
    """
    here, there = options_for_two(
        source, destination, given.pop("storage_options"), given.pop("destination_options")
    )
    scale = given.pop("scale")
    if scale is not None:
        given["scale"] = parse_numbers(scale, float, "--scale")
    for name in ("chunks", "shards"):
        text = given.pop(name)
        if text is not None:
            sized = name == "shards" and text.lower().endswith("b")
            given[name] = text if sized else parse_numbers(text, int, f"--{name}")
    array, image = open_source(source, here)
    if dry_run:
        _show_planned_levels(destination, array, image, given, as_json)
        return
    overwrite = may_overwrite(destination, overwrite, dict(there) if there else None)
    with progress_bar() as step:
        image = write_ome(
            destination, image or array, overwrite=overwrite, progress=step,
            storage_options=there, **given,
        )  # fmt: skip
    if as_json:
        say_json({"path": destination, **describe(image)})
    else:
        say(image.info)


def _show_planned_levels(
    destination: str, array: Any, image: Image | None, given: dict[str, Any], as_json: bool
) -> None:
    """Print the levels that would be written."""
    axes = given["axes"] if image is None or given["axes"] is not None else image.axes
    scale = image.scale if image is not None and "scale" not in given else given.get("scale")
    metadata, steps = new_metadata(
        array.shape, axes=axes, scale=scale, unit=given["unit"], levels=given["levels"],
        method=given["method"], name=image_name(destination, None),
    )  # fmt: skip
    (multiscale,) = metadata.multiscales
    names = [dataset.path for dataset in multiscale.datasets]
    shapes = level_shapes(array.shape, steps)
    labels = [] if image is None else [*image.labels]
    if as_json:
        pairs = zip(names, shapes, strict=True)
        levels = [{"path": name, "shape": shape} for name, shape in pairs]
        say_json({"path": destination, "dry_run": True, "levels": levels, "labels": labels})
        return
    say(f"would write {counted(len(shapes), 'level')} to {destination}")
    for name, shape in zip(names, shapes, strict=True):
        say(f"  {name}: {shape}, {array.dtype}")
    if labels:
        say(f"  labels, with as many levels: {', '.join(labels)}")


@ome.command(
    epilog=examples(
        "omnizarr ome migrate cell.zarr new.zarr --to 0.5",
        "omnizarr ome migrate cell.zarr --in-place --dry-run",
    )
)
@click.argument("source")
@click.argument("destination", required=False)
@click.option(
    "--to", "to", type=written, default=NEWEST, show_default=True, help="OME-Zarr version to write."
)
@click.option("--in-place", is_flag=True, help="Add metadata of the new version; keep chunks.")
@click.option("--remove-old", is_flag=True, help="With --in-place: delete the old metadata.")
@dry_run_option
@click.option("--undo", is_flag=True, help="Delete the metadata that --in-place added.")
@overwrite_option
@checksum_option
@json_option
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
    as_json: bool,
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
        if as_json:
            say_json({"path": source, "to": to, "deleted": keys})
            return
        say(f"deleted {counted(len(keys), 'metadata file')} of {to}")
        return
    if (destination is None) != in_place:
        raise click.UsageError("give a DESTINATION or --in-place, not both")
    if remove_old and not in_place:
        raise click.UsageError("--remove-old requires --in-place")
    if destination is not None and not dry_run:
        overwrite = may_overwrite(destination, overwrite, destination_options or storage_options)
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
    if as_json:
        say_json({"source": source, "destination": destination, **_migration_json(done)})
    else:
        _show_migration(source, done)


def _migration_json(done: Migration) -> dict[str, Any]:
    return {
        "from": done.source,
        "to": done.target,
        "dry_run": done.dry_run,
        "added": done.documents,
        "deleted": done.removed,
        **done.report.to_json(),
    }


def _show_migration(source: str, done: Migration) -> None:
    report = done.report
    would = "would migrate" if done.dry_run else "migrated"
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
