"""`omnizarr cf …` and `omnizarr geo …`: look at and check datasets and maps."""

from __future__ import annotations

import sys

import click

from omnizarr.cli.screen import console, show_problems
from omnizarr.conventions.cf.dataset import open as open_dataset
from omnizarr.conventions.geo.pyramid import Map
from omnizarr.conventions.geo.pyramid import open as open_map

path_argument = click.argument("path")
node_option = click.option("--node", default="", help="The path of a node inside the hierarchy.")


@click.group()
def cf() -> None:
    """CF and NetCDF: groups seen as datasets."""


@cf.command("info")
@path_argument
@node_option
def cf_info(path: str, node: str) -> None:
    """Show dimensions, variables and attributes, as ncdump -h.

    Those of PATH and of all groups below it.
    """
    console.print(open_dataset(path, path=node).header(), markup=False)


@cf.command("validate")
@path_argument
@node_option
def cf_validate(path: str, node: str) -> None:
    """List what does not fit together in PATH.

    Lengths of dimensions that differ, variables that are named and missing. The exit code is 1 when
    there are errors; warnings alone do not change it.
    """
    sys.exit(1 if show_problems(open_dataset(path, path=node).problems()) else 0)


@click.group()
def geo() -> None:
    """Maps: reference systems, places and levels."""


@geo.command("info")
@path_argument
@node_option
@click.option("--variable", default=None, help="The array, where a group has several.")
def geo_info(path: str, node: str, variable: str | None) -> None:
    """Show the reference system, bounds and levels of the map in PATH."""
    for line in _lines(open_map(path, path=node, variable=variable)):
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
