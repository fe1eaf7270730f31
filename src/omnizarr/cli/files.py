"""`omnizarr import`, `export` and `pyramid`."""

from __future__ import annotations

import os
from typing import Any

import click

import omnizarr
from omnizarr.bulk.fill import Filled
from omnizarr.bulk.pyramid import NAMES
from omnizarr.cli.jobs import Where, may_replace, run_job, show_existing, writing_job_options
from omnizarr.cli.options import (
    Options,
    chunks_option,
    codec_options,
    codecs_option,
    destination_option,
    json_option,
    memory_option,
    node_option,
    overwrite_option,
    parse_numbers,
    shards_option,
    storage_option,
    zarr_format_option,
)
from omnizarr.cli.terminal import (
    confirm,
    counted,
    examples,
    is_interactive,
    remark,
    say,
    say_json,
)
from omnizarr.extension import size_text

_dtype_option = click.option(
    "--dtype", metavar="TYPE", help="Type of arrays of numbers, such as f4; values must fit it."
)
_levels_option = click.option(
    "--levels", type=click.IntRange(1), help="Number of levels, including full resolution."
)
_exclude_option = click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Paths to leave out; may be repeated."
)
_strict_option = click.option(
    "--strict", is_flag=True, help="Fail if anything would be left out, instead of listing it."
)


def _show(outcome: Filled, what: str, destination: str, where: Where, as_json: bool) -> None:
    """Print the result of a job, and what it left out."""
    if as_json:
        say_json({"destination": destination, **outcome.to_json()})
        return
    groups = f"{counted(outcome.groups, 'group')}, " if outcome.groups else ""
    say(
        f"{where.title}{what} {destination}: {groups}{counted(outcome.arrays, 'array')},"
        f" {size_text(outcome.bytes_read)}"
    )
    for note in outcome.notes:
        say(f"  {note}")
    for path, reason in outcome.skipped.items():
        remark(f"{path}: {reason}", label="left out")


@click.command(
    "import",
    epilog=examples(
        "omnizarr import ocean.nc ocean.zarr --chunks time=100",
        "omnizarr import scan.ome.tif scan.zarr --levels 5 --shards 64MB",
        "omnizarr import day1.h5 day2.h5 week.zarr --exclude 'raw/*' --dry-run",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.argument("destination")
@click.option("--node", default=None, help="Path of the new node inside DESTINATION.")
@zarr_format_option
@chunks_option
@shards_option
@codecs_option
@_dtype_option
@click.option(
    "--image/--no-image",
    default=None,
    help="Write images with levels, or plain arrays; by default images for OME-TIFF.",
)
@_levels_option
@click.option(
    "--method", type=click.Choice(NAMES), default="mean", show_default=True,
    help="Downsampling method of images.",
)  # fmt: skip
@_exclude_option
@_strict_option
@overwrite_option
@memory_option
@writing_job_options
@json_option
@storage_option
def import_(
    files: tuple[str, ...],
    destination: str,
    node: str | None,
    codecs: list[Any] | None,
    overwrite: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
    **given: Any,
) -> None:
    """Write HDF5, NetCDF4, TIFF, OME-TIFF or NumPy files as Zarr.

    One file becomes an array or group at DESTINATION, several become members with their names.
    Chunks are those of the file unless --chunks is given. What Zarr cannot hold is listed.
    """
    if node is None:
        overwrite = may_replace(destination, overwrite, where, storage_options)
    job = omnizarr.jobs.Import(
        files,
        destination,
        path=node,
        overwrite=overwrite,
        storage_options=storage_options,
        options=codec_options(codecs),
        **given,
    )
    outcome = run_job(job, where, as_json)
    if outcome is not None:
        _show(outcome, "imported to", destination, where, as_json)


@click.command(
    epilog=examples(
        "omnizarr export ocean.zarr ocean.nc",
        "omnizarr export scan.zarr scan.ome.tif --overwrite",
        "omnizarr export ocean.zarr sst.h5 --node surface/sst --dtype f4",
    )
)
@click.argument("source")
@click.argument("file")
@node_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["netcdf", "hdf5", "tiff", "ome-tiff"]),
    help="Format of FILE, if its name does not say it.",
)
@_dtype_option
@click.option(
    "--compression",
    type=click.Choice(["auto", "deflate", "none"]),
    default="auto",
    show_default=True,
    help="Compress; auto means deflate.",
)
@_exclude_option
@_strict_option
@click.option(
    "--overwrite", "--yes", "-y", "overwrite", is_flag=True,
    help="Replace FILE. Without it, ask on a terminal, else refuse.",
)  # fmt: skip
@memory_option
@writing_job_options
@json_option
@storage_option
def export(
    source: str,
    file: str,
    node: str,
    format_: Any,
    compression: str,
    overwrite: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
    **given: Any,
) -> None:
    """Write a Zarr array, group or image to FILE of another format.

    Its name says the format: .nc (NetCDF4), .h5, .tif or .ome.tif. FILE is written under a
    temporary name and renamed when it is complete. An interrupted export starts again.
    """
    if os.path.exists(file) and where.dry_run:
        show_existing(file, overwrite)
    elif os.path.exists(file) and is_interactive() and not overwrite:
        confirm(f"{file} exists. Replace it?", yes=False)
        overwrite = True
    job = omnizarr.jobs.Export(
        source,
        file,
        path=node or None,
        format=format_,
        compression=None if compression == "none" else compression,
        overwrite=overwrite,
        storage_options=storage_options,
        **given,
    )
    outcome = run_job(job, where, as_json)
    if outcome is not None:
        _show(outcome, "exported to", file, where, as_json)


@click.command(
    epilog=examples(
        "omnizarr pyramid image.ome.zarr --levels 6          # add levels",
        "omnizarr pyramid volume.zarr image.ome.zarr --axes zyx --scale 2,0.5,0.5",
    )
)
@click.argument("source")
@click.argument("destination", required=False)
@click.option("--axes", help="Axes, such as zyx; by default the dimension names.")
@click.option("--scale", help="Pixel size along each axis, such as 0.5,0.1,0.1.")
@click.option("--unit", help="Unit of the spatial axes, such as micrometer.")
@_levels_option
@click.option(
    "--method", type=click.Choice(NAMES),
    help="Downsampling method; by default that of the image, or mean.",
)  # fmt: skip
@zarr_format_option
@chunks_option
@shards_option
@codecs_option
@overwrite_option
@memory_option
@writing_job_options
@json_option
@storage_option
@destination_option
def pyramid(
    source: str,
    destination: str | None,
    scale: str | None,
    chunks: Any,
    shards: Any,
    codecs: list[Any] | None,
    overwrite: bool,
    where: Where,
    as_json: bool,
    storage_options: Options,
    destination_options: Options,
    **given: Any,
) -> None:
    """Write SOURCE as an OME-Zarr image with levels, or add levels to it.

    SOURCE is a Zarr array or an OME-Zarr image. Without DESTINATION, coarser levels are added to
    the image SOURCE, until it has that number of levels or is small.
    """
    sizes = None if scale is None else parse_numbers(scale, float, "--scale")
    options = codec_options(codecs)
    options |= {k: v for k, v in (("chunks", chunks), ("shards", shards)) if v is not None}
    if destination is None and (options or given["axes"] or sizes or given["zarr_format"]):
        raise click.UsageError("these options need a DESTINATION; added levels are like the others")
    if destination is not None:
        used = destination_options or storage_options
        overwrite = may_replace(destination, overwrite, where, used)
    job = omnizarr.jobs.BuildPyramid(
        source,
        destination,
        scale=sizes,
        overwrite=overwrite,
        storage_options=storage_options,
        destination_options=destination_options,
        options=options,
        **given,
    )
    outcome = run_job(job, where, as_json)
    if outcome is None:
        return
    if outcome.arrays == 0 and not as_json:
        say(f"{source} has enough levels; nothing was added")
        return
    what = "added levels to" if destination is None else "wrote"
    _show(outcome, what, destination or source, where, as_json)
