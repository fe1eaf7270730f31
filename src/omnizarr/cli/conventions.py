"""`omnizarr cf …` and `omnizarr geo …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

import omnizarr
from omnizarr.cli.options import CommandGroup, Options, node_option, path_argument, storage_option
from omnizarr.cli.terminal import say, show_problems

if TYPE_CHECKING:
    from omnizarr.conventions.geo.map import Map


@click.group(cls=CommandGroup)
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
    found = omnizarr.cf.open(path, path=node, storage_options=storage_options)
    say(found.header())


@cf.command("validate")
@path_argument
@node_option
@storage_option
def cf_validate(path: str, node: str, storage_options: Options) -> None:
    """List inconsistencies in the dataset at PATH.

    Checks for dimensions of different lengths and for references to missing variables. The exit
    code is 1 if there are errors, and 0 if there are only warnings.
    """
    found = omnizarr.cf.open(path, path=node, storage_options=storage_options)
    sys.exit(1 if show_problems(found.problems()) else 0)


@click.group(cls=CommandGroup)
def geo() -> None:
    """Inspect maps: coordinate reference system, bounds and levels."""


@geo.command("info")
@path_argument
@node_option
@click.option("--variable", default=None, help="Name of the array, if the group has several.")
@storage_option
def geo_info(path: str, node: str, variable: str | None, storage_options: Options) -> None:
    """Show the coordinate reference system, bounds and levels of the map at PATH."""
    found = omnizarr.geo.open(path, path=node, variable=variable, storage_options=storage_options)
    for line in _map_lines(found):
        say(line)


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
