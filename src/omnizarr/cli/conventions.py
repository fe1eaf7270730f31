"""`omnizarr cf …`, `omnizarr geo …` and `omnizarr ome …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import omnizarr
from omnizarr.cli.answers import Answer, path_command, problems_answer, say_lines
from omnizarr.cli.options import CommandGroup, Options
from omnizarr.cli.terminal import say
from omnizarr.conventions.ome.image import Image, Plate

if TYPE_CHECKING:
    from omnizarr.conventions.cf.dataset import Dataset


# CF


@click.group(cls=CommandGroup)
def cf() -> None:
    """Inspect groups as CF and NetCDF datasets."""


@path_command(
    "omnizarr cf info ocean.zarr", "omnizarr cf info --json lake/ --node model", name="info"
)
def cf_info(path: str, node: str, storage_options: Options) -> Answer:
    """Show dimensions, variables and attributes, like ncdump -h.

    Includes all groups below PATH.
    """
    found = omnizarr.cf.open(path, path=node, storage_options=storage_options)
    return Answer(_dataset_json(found), lambda: say(found.header()))


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


@path_command(
    "omnizarr cf validate ocean.zarr", "omnizarr cf validate --json lake/", name="validate"
)
def cf_validate(path: str, node: str, storage_options: Options) -> Answer:
    """List inconsistencies in the dataset at PATH.

    Checks for dimensions of different lengths and for references to missing variables. The exit
    code is 1 if there are errors, and 0 if there are only warnings.
    """
    found = omnizarr.cf.open(path, path=node, storage_options=storage_options)
    return problems_answer(found.problems())


cf.add_command(cf_info)
cf.add_command(cf_validate)


# Maps


@click.group(cls=CommandGroup)
def geo() -> None:
    """Inspect maps: coordinate reference system, bounds and levels."""


@path_command(
    "omnizarr geo info scene.zarr",
    "omnizarr geo info --json scene.zarr --variable red",
    name="info",
)
@click.option("--variable", default=None, help="Name of the array, if the group has several.")
def geo_info(path: str, node: str, variable: str | None, storage_options: Options) -> Answer:
    """Show the coordinate reference system, bounds and levels of the map at PATH."""
    found = omnizarr.geo.open(path, path=node, variable=variable, storage_options=storage_options)
    levels = [*zip(found.levels, found.resolutions, strict=True)]
    data = {
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
            for level, resolution in levels
        ],
    }
    # With all digits that a reader may need, such as millimetres in UTM.
    bounds = "unknown" if found.bounds is None else " ".join(f"{b:.12g}" for b in found.bounds)
    lines = [f"reference system  {found.crs or 'none'}", f"bounds            {bounds}"]
    for level, resolution in levels:
        rows, columns = level.shape
        size = "unknown" if resolution is None else f"{resolution:g}"
        lines.append(
            f"{level.array.name}  {rows} by {columns}  {level.array.dtype}  pixels of {size}"
        )
    return Answer(data, say_lines(*lines))


geo.add_command(geo_info)


# OME-Zarr


@click.group(cls=CommandGroup)
def ome() -> None:
    """Inspect and check OME-Zarr."""


@path_command(
    "omnizarr ome info cell.zarr", "omnizarr ome info --json plate.zarr --node A/1", name="info"
)
def ome_info(path: str, node: str, storage_options: Options) -> Answer:
    """Show the axes, levels, channels, labels or wells of PATH."""
    found = omnizarr.ome.open(path, path=node, storage_options=storage_options)
    return Answer(_ome_json(found), lambda: say(getattr(found, "info", found)))


def _ome_json(found: Any) -> dict[str, Any]:
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


@path_command(
    "omnizarr ome validate cell.zarr", "omnizarr ome validate --json images/", name="validate"
)
def ome_validate(path: str, node: str, storage_options: Options) -> Answer:
    """Check the image, plate or well at PATH and list all problems.

    Everything below it is checked too. The exit code is 1 if there are errors, and 0 if there are
    only warnings.
    """
    return problems_answer(omnizarr.ome.validate(path, node, storage_options=storage_options))


ome.add_command(ome_info)
ome.add_command(ome_validate)
