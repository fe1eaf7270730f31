"""A reader for napari: OME-Zarr images, labels, wells, plates and series, and any Zarr array.

napari finds it by the manifest ``napari.yaml``; nothing of napari is needed here. Every channel
becomes a layer, all resolutions of it lazily; the fields of a plate lie side by side in one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from omnizarr import ome
from omnizarr.conventions.ome.model import is_colour
from omnizarr.conventions.ome.region import unit_kind, unit_name
from omnizarr.conventions.ome.versions import stated
from omnizarr.errors import OmnizarrError
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.create import open as open_zarr
from omnizarr.hierarchy.view import View
from omnizarr.integrations.napari.levels import Shown, mosaic, part

# Data (levels, the finest first), how to show them, and the type of layer, as napari wants them.
Layer = tuple[Shown | list[Shown], dict[str, Any], str]
Show = Callable[[int, tuple[Any, ...]], Shown]  # part of the level with a number
Find = Callable[[int, int], ome.Image | None]  # the image in a row and column

_COLOURS = ("magenta", "green", "cyan", "yellow", "red", "blue")  # where none are stated


def get_reader(path: str | Sequence[str]) -> Callable[[str], list[Layer]] | None:
    """The function that reads `path`, or None where there is neither OME-Zarr nor an array."""
    if not isinstance(path, str):
        return None
    try:
        found = open_zarr(path)
    except OmnizarrError:
        return None
    return read if isinstance(found, Array) or stated(found.attrs) is not None else None


def read(path: str) -> list[Layer]:
    """The layers of what is at an address; pixels are read when they are shown."""
    found = open_zarr(path)
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if isinstance(found, Array):
        return [_plain(found, name)]
    return [*_layers(ome.open(path), name)]


def _plain(array: Array, name: str) -> Layer:
    shown: dict[str, Any] = {"name": name}
    if all(array.dimension_names or (None,)):
        shown["axis_labels"] = array.dimension_names
    return part(array.view[...]), shown, "image"


def _layers(found: Any, name: str) -> Iterator[Layer]:
    if isinstance(found, ome.Image):
        yield from _image(found, found.name or name, _alone(found))
        for key, labels in found.labels.items():
            yield from _image(labels, key, _alone(labels))
    elif isinstance(found, ome.Plate):
        yield from _plate(found, name)
    elif isinstance(found, ome.Well):
        across, down = _layout(found)
        yield from _fields(name, found[0], partial(_field, found, across), down, across)
    elif isinstance(found, ome.Series):
        for path, image in zip(found.paths, found, strict=True):
            yield from _layers(image, f"{name} {path}")
    else:  # labels
        for key, image in found.items():
            yield from _layers(image, key)


def _alone(image: ome.Image) -> Show:
    return lambda level, at: part(image.levels[level].view[at])


def _plate(plate: ome.Plate, name: str) -> Iterator[Layer]:
    wells = {(w.row, w.column): w.path for w in plate.layout.wells}
    if not wells:
        return
    first = plate[next(iter(plate))]
    across, down = _layout(first)
    well = cache(plate.__getitem__)

    @cache
    def find(row: int, column: int) -> ome.Image | None:
        place = wells.get((row // down, column // across))
        return None if place is None else _field(well(place), across, row % down, column % across)

    rows, columns = len(plate.rows) * down, len(plate.columns) * across
    yield from _fields(plate.layout.name or name, first[0], find, rows, columns)


def _layout(well: ome.Well) -> tuple[int, int]:
    """How many fields lie side by side and one below the other, as square as it can be."""
    across = math.isqrt(max(1, len(well)) - 1) + 1
    return across, -(-len(well) // across)


def _field(well: ome.Well, across: int, row: int, column: int) -> ome.Image | None:
    number = row * across + column
    return well[number] if number < len(well) else None


def _fields(name: str, first: ome.Image, find: Find, rows: int, columns: int) -> Iterator[Layer]:
    """Fields side by side; all are like the first."""
    yield from _image(first, name, _side_by_side(first, find, rows, columns))
    for key, labels in first.labels.items():
        yield from _image(labels, key, _side_by_side(labels, _labels(find, key), rows, columns))


def _labels(find: Find, key: str) -> Find:
    def found(row: int, column: int) -> ome.Image | None:
        image = find(row, column)
        return None if image is None else image.labels.get(key)

    return cache(found)


def _side_by_side(first: ome.Image, find: Find, rows: int, columns: int) -> Show:
    def show(level: int, at: tuple[Any, ...]) -> Shown:
        def tile(row: int, column: int) -> View | None:
            image = find(row, column)
            return None if image is None else image.levels[level].view[at]

        return mosaic(tile, first.levels[level].view[at], rows, columns)

    return show


def _image(image: ome.Image, name: str, show: Show) -> Iterator[Layer]:
    """A layer for every channel."""
    axis = next((i for i, a in enumerate(image.axes) if a.type == "channel"), None)
    count = 1 if axis is None else image.shape[axis]
    for channel in range(count):
        at = (...,) if axis is None else (*(slice(None),) * axis, channel)
        levels = [show(i, at) for i in range(len(image.levels))]
        how = {"name": name if count == 1 else f"{name} {channel}", **_place(image, axis)}
        if image.label is not None:
            how.update(_meaning(image.label))
        else:
            how.update(_rendering(image, channel, count))
        if len(levels) > 1:
            how["multiscale"] = True
        kind = "image" if image.label is None else "labels"
        yield levels if len(levels) > 1 else levels[0], how, kind


def _place(image: ome.Image, without: int | None) -> dict[str, Any]:
    """Where the pixels lie, along the axes that are left when channels are taken apart."""
    transform = image.transform()
    kept = [i for i in range(len(image.axes)) if i != without]
    known = [a.unit if unit_kind(a.unit) else None for a in image.axes]
    return {
        "scale": [transform.scale[i] for i in kept],
        "translate": [transform.offset[i] for i in kept],
        "axis_labels": [image.axes[i].name for i in kept],
        "units": [unit_name(known[i] or "pixel") for i in kept],
    }


def _rendering(image: ome.Image, number: int, count: int) -> dict[str, Any]:
    """How OMERO would show a channel; several are added up."""
    how: dict[str, Any] = {}
    if count > 1:
        how = {"blending": "additive", "colormap": _COLOURS[number % len(_COLOURS)]}
    if number >= len(image.channels):
        return how
    channel = image.channels[number]
    if channel.label:
        how["name"] = channel.label
    if channel.color and is_colour(channel.color):
        how["colormap"] = f"#{channel.color}"
    if channel.active is not None:
        how["visible"] = channel.active
    window = channel.window or {}
    if window.get("start", 0) < window.get("end", 0):
        how["contrast_limits"] = (window["start"], window["end"])
    return how


def _meaning(label: ome.ImageLabel) -> dict[str, Any]:
    """Colours and properties by value; values without a colour are grey."""
    how: dict[str, Any] = {}
    colours = {n: [c / 255 for c in rgba] for n, rgba in label.colors.items() if rgba is not None}
    if colours:
        how["colormap"] = {None: (0.5, 0.5, 0.5, 1.0), 0: (0.0, 0.0, 0.0, 0.0), **colours}
    if label.properties:
        names = dict.fromkeys(k for each in label.properties.values() for k in each)
        how["features"] = {
            "index": [*label.properties],
            **{k: [each.get(k) for each in label.properties.values()] for k in names},
        }
    return how
