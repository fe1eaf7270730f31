"""`omnizarr import`, `export` and `pyramid`."""

from __future__ import annotations

import os
from typing import Any

import click

import omnizarr
from omnizarr.bulk.pyramid import NAMES
from omnizarr.bulk.transfer import Filled
from omnizarr.cli.answers import answer, command
from omnizarr.cli.jobs import Where, job_options, may_replace, planned, run_job, show_existing
from omnizarr.cli.options import Options, codec_options, options_of, shared_option
from omnizarr.cli.terminal import confirm, counted, is_interactive, remark, say
from omnizarr.conventions.ome.pyramid import PyramidOptions
from omnizarr.extension import size_text
from omnizarr.interop.files.exporting import ExportOptions

_METHOD = {"type": click.Choice(NAMES)}


def _run(job: Any, where: Where, what: str, destination: str) -> int:
    """Run a job, or show its plan; print its result and the skipped items."""
    if where.dry_run:
        return planned(job, where).give()
    outcome: Filled = run_job(job, where)

    def show() -> None:
        if not outcome.arrays and what == _ADDED:
            say(f"{destination} has enough levels; nothing was added")
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

    return answer({"destination": destination, **outcome.to_json()}, show)


_ADDED = "added levels to"


@command(
    "omnizarr import ocean.nc ocean.zarr --chunks time=100",
    "omnizarr import scan.ome.tif scan.zarr --levels 5 --shards 64MB",
    "omnizarr import day1.h5 day2.h5 week.zarr --exclude 'raw/*' --dry-run",
    name="import",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.argument("destination")
@options_of(omnizarr.jobs.Import, "options", method=_METHOD)
@shared_option("codecs")
@job_options
def import_(
    files: tuple[str, ...],
    destination: str,
    codecs: list[Any] | None,
    overwrite: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Write HDF5, NetCDF4, TIFF, OME-TIFF or NumPy files as Zarr.

    One file becomes an array or group at DESTINATION, several become members with their names.
    The chunks of the file are kept unless --chunks is set. What Zarr cannot hold is listed.
    """
    if given["path"] is None:
        overwrite = may_replace(destination, overwrite, where, storage_options)
    job = omnizarr.jobs.Import(
        files,
        destination,
        overwrite=overwrite,
        storage_options=storage_options,
        options=codec_options(codecs),
        **given,
    )
    return _run(job, where, "imported to", destination)


@command(
    "omnizarr export ocean.zarr ocean.nc",
    "omnizarr export scan.zarr scan.ome.tif --overwrite",
    "omnizarr export ocean.zarr sst.h5 --node surface/sst --dtype f4",
)
@click.argument("source")
@click.argument("file")
@options_of(
    ExportOptions,
    compression={
        "type": click.Choice(["auto", "deflate", "none"]),
        "help": "Compress; auto means deflate.",
    },
)
@job_options
def export(
    source: str,
    file: str,
    compression: str,
    overwrite: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
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
        compression=None if compression == "none" else compression,
        overwrite=overwrite,
        storage_options=storage_options,
        **given,
    )
    return _run(job, where, "exported to", file)


@command(
    "omnizarr pyramid image.ome.zarr --levels 6          # add levels",
    "omnizarr pyramid volume.zarr image.ome.zarr --axes zyx --scale 2,0.5,0.5",
)
@click.argument("source")
@click.argument("destination", required=False)
@options_of(PyramidOptions, "path", "factors", "options", method=_METHOD)
@shared_option("chunks")
@shared_option("shards")
@shared_option("codecs")
@job_options
def pyramid(
    source: str,
    destination: str | None,
    chunks: Any,
    shards: Any,
    codecs: list[Any] | None,
    overwrite: bool,
    where: Where,
    storage_options: Options,
    **given: Any,
) -> int:
    """Write SOURCE as an OME-Zarr image with levels, or add levels to it.

    SOURCE is a Zarr array or an OME-Zarr image. Without DESTINATION, coarser levels are added to
    the image SOURCE, until it has that number of levels or is small.
    """
    options = codec_options(codecs)
    options |= {k: v for k, v in (("chunks", chunks), ("shards", shards)) if v is not None}
    wrong = options or given["axes"] or given["scale"] or given["zarr_format"]
    if destination is None and wrong:
        raise click.UsageError("these options need a DESTINATION; added levels are like the others")
    if destination is not None:
        used = given["destination_options"] or storage_options
        overwrite = may_replace(destination, overwrite, where, used)
    job = omnizarr.jobs.BuildPyramid(
        source,
        destination,
        overwrite=overwrite,
        storage_options=storage_options,
        options=options,
        **given,
    )
    return _run(job, where, "wrote" if destination else _ADDED, destination or source)
