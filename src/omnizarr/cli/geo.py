"""`omnizarr cf …` and `omnizarr geo …`: look at and check datasets and maps."""

from __future__ import annotations

import sys

import click

from omnizarr.cli.options import Options, node_option, path_argument, storage_option
from omnizarr.cli.screen import console, show_problems
from omnizarr.conventions.cf.dataset import open as open_dataset
from omnizarr.conventions.geo.pyramid import Map
from omnizarr.conventions.geo.pyramid import open as open_map


@click.group()
def cf() -> None:
    """CF and NetCDF: groups seen as datasets."""


@cf.command("info")
@path_argument
@node_option
@storage_option
def cf_info(path: str, node: str, storage_options: Options) -> None:
    """Show dimensions, variables and attributes, as ncdump -h.

    Those of PATH and of all groups below it.
    """
    found = open_dataset(path, path=node, storage_options=storage_options)
    console.print(found.header(), markup=False)


@cf.command("validate")
@path_argument
@node_option
@storage_option
def cf_validate(path: str, node: str, storage_options: Options) -> None:
    """List what does not fit together in PATH.

    Lengths of dimensions that differ, variables that are named and missing. The exit code is 1 when
    there are errors; warnings alone do not change it.
    """
    found = open_dataset(path, path=node, storage_options=storage_options)
    sys.exit(1 if show_problems(found.problems()) else 0)


@click.group()
def geo() -> None:
    """Maps: reference systems, places and levels."""


@geo.command("info")
@path_argument
@node_option
@click.option("--variable", default=None, help="The array, where a group has several.")
@storage_option
def geo_info(path: str, node: str, variable: str | None, storage_options: Options) -> None:
    """Show the reference system, bounds and levels of the map in PATH."""
    found = open_map(path, path=node, variable=variable, storage_options=storage_options)
    for line in _lines(found):
        console.print(line, markup=False)


def _lines(found: Map) -> list[str]:
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
