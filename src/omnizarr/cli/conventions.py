"""`omnizarr cf …` and `omnizarr geo …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.options import (
    CommandGroup,
    Options,
    json_option,
    node_option,
    paths_argument,
    storage_option,
)
from omnizarr.cli.terminal import (
    examples,
    has_errors,
    problems_json,
    run_each,
    say,
    show_problems,
)

if TYPE_CHECKING:
    from omnizarr.conventions.cf.dataset import Dataset
    from omnizarr.conventions.geo.map import Map
    from omnizarr.errors import Problem


@click.group(cls=CommandGroup)
def cf() -> None:
    """Inspect groups as CF and NetCDF datasets."""


@cf.command(
    "info",
    epilog=examples("omnizarr cf info ocean.zarr", "omnizarr cf info --json lake/ --node model"),
)
@paths_argument
@node_option
@json_option
@storage_option
def cf_info(paths: tuple[str, ...], node: str, as_json: bool, storage_options: Options) -> None:
    """Show dimensions, variables and attributes, like ncdump -h.

    Includes all groups below PATH.
    """

    def work(path: str) -> Dataset:
        return omnizarr.cf.open(path, path=node, storage_options=storage_options)

    sys.exit(
        run_each(
            paths,
            work,
            lambda found: say(found.header()),
            to_json=_dataset_json,
            as_json=as_json,
            storage_options=storage_options,
        )
    )


def _dataset_json(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset and its groups for JSON."""
    return {
        "dimensions": dataset.dimensions,
        "variables": [
            {
                "name": name,
                "dtype": str(variable.dtype),
                "stored_dtype": str(variable.array.dtype),
                "dimensions": variable.dimensions,
                "shape": variable.shape,
                "attributes": variable.attributes,
            }
            for name, variable in dataset.items()
        ],
        "attributes": dataset.attributes,
        "groups": [
            {"name": name, **_dataset_json(group)} for name, group in dataset.groups.items()
        ],
    }


@cf.command(
    "validate",
    epilog=examples("omnizarr cf validate ocean.zarr", "omnizarr cf validate --json lake/"),
)
@paths_argument
@node_option
@json_option
@storage_option
def cf_validate(paths: tuple[str, ...], node: str, as_json: bool, storage_options: Options) -> None:
    """List inconsistencies in the dataset at PATH.

    Checks for dimensions of different lengths and for references to missing variables. The exit
    code is 1 if there are errors, and 0 if there are only warnings.
    """

    def work(path: str) -> list[Problem]:
        return omnizarr.cf.open(path, path=node, storage_options=storage_options).problems()

    sys.exit(
        run_each(
            paths,
            work,
            _show,
            to_json=problems_json,
            is_problem=has_errors,
            as_json=as_json,
            storage_options=storage_options,
        )
    )


def _show(problems: list[Problem]) -> None:
    show_problems(problems)


@click.group(cls=CommandGroup)
def geo() -> None:
    """Inspect maps: coordinate reference system, bounds and levels."""


@geo.command(
    "info",
    epilog=examples(
        "omnizarr geo info scene.zarr", "omnizarr geo info --json scene.zarr --variable red"
    ),
)
@paths_argument
@node_option
@click.option("--variable", default=None, help="Name of the array, if the group has several.")
@json_option
@storage_option
def geo_info(
    paths: tuple[str, ...],
    node: str,
    variable: str | None,
    as_json: bool,
    storage_options: Options,
) -> None:
    """Show the coordinate reference system, bounds and levels of the map at PATH."""

    def work(path: str) -> Map:
        return omnizarr.geo.open(
            path, path=node, variable=variable, storage_options=storage_options
        )

    def show(found: Map) -> None:
        for line in _map_lines(found):
            say(line)

    sys.exit(
        run_each(
            paths, work, show, to_json=_map_json, as_json=as_json, storage_options=storage_options
        )
    )


def _map_json(found: Map) -> dict[str, Any]:
    return {
        "crs": None if found.crs is None else str(found.crs),
        "bounds": found.bounds,
        "levels": [
            {
                "node": level.array.name,
                "rows": level.shape[0],
                "columns": level.shape[1],
                "dtype": str(level.array.dtype),
                "resolution": resolution,
            }
            for level, resolution in zip(found.levels, found.resolutions, strict=True)
        ],
    }


def _shown(coordinate: float) -> str:
    """Return a coordinate with all digits that a reader may need, such as millimetres in UTM."""
    return f"{coordinate:.12g}"


def _map_lines(found: Map) -> list[str]:
    bounds = found.bounds
    lines = [
        f"reference system  {found.crs or 'none'}",
        f"bounds            {'unknown' if bounds is None else ' '.join(map(_shown, bounds))}",
    ]
    for level, resolution in zip(found.levels, found.resolutions, strict=True):
        rows, columns = level.shape
        size = "unknown" if resolution is None else f"{resolution:g}"
        lines.append(
            f"{level.array.name}  {rows} by {columns}  {level.array.dtype}  pixels of {size}"
        )
    return lines
