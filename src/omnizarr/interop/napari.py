"""A reader for napari: OME-Zarr images, labels, wells, plates and series, and any Zarr array.

napari finds it through the manifest ``napari.yaml``; this module does not import napari. Every
channel becomes a layer with all its resolutions, read lazily; the fields of a plate are shown side
by side in one layer. Decoded chunks stay in a cache, because a slider returns to the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array, View, config, ome
from omnizarr import open as open_zarr
from omnizarr.conventions.ome.model import is_colour, unit_kind, unit_name
from omnizarr.conventions.ome.versions import find_metadata
from omnizarr.errors import OmnizarrError, SelectionError
from omnizarr.extension import Shaped

Values = npt.NDArray[Any]
Box = tuple[slice, ...]
Tile = Callable[[int, int], View | None]  # the data at a row and column of a mosaic
CHUNK_CACHE = config.ByteBudget(min(2**28, (config.memory() or 2**32) // 16))


class LazyArray(Shaped):
    """An array with a shape and a type whose elements are read by a function when indexed."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], read: Callable[[Any], Values]
    ) -> None:
        self._shape = shape
        self.dtype = dtype
        self._read = read

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self._shape

    def __getitem__(self, selection: Any) -> Values:
        with config.configure(chunk_cache=CHUNK_CACHE):
            return self._read(selection)

    def _values(self) -> Values:
        return np.asarray(self[...])


def part(view: View) -> LazyArray:
    """Return a view of one array as a lazy array."""
    return LazyArray(view.shape, view.dtype, view.__getitem__)


def mosaic(tile: Tile, first: View, rows: int, columns: int) -> LazyArray:
    """Arrange tiles along the last two axes; a missing tile reads as zeros.

    All tiles have the shape of `first`.
    """
    *others, height, width = first.shape
    shape = (*others, rows * height, columns * width)
    return LazyArray(shape, first.dtype, partial(_read_mosaic, tile, first, shape))


def _read_mosaic(tile: Tile, first: View, shape: tuple[int, ...], selection: Any) -> Values:
    box, rest = _whole(selection, shape)
    out = np.zeros([s.stop - s.start for s in box], first.dtype)
    height, width = first.shape[-2:]
    for row, y, to_y in _cuts(box[-2], height):
        for column, x, to_x in _cuts(box[-1], width):
            view = tile(row, column)
            if view is None:
                continue
            if view.shape != first.shape:
                raise SelectionError(
                    f"{view.array.name} has shape {view.shape}, but {first.array.name} has"
                    f" {first.shape}: they cannot be shown side by side; open its well instead"
                )
            out[..., to_y, to_x] = view[(*box[:-2], y, x)]
    return np.asarray(out[rest])


def _cuts(along: slice, length: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield each tile along an axis: its number, the part to read, and its target slice."""
    for number in range(along.start // length, -(-along.stop // length)):
        start = max(along.start, number * length)
        stop = min(along.stop, (number + 1) * length)
        inside = slice(start - number * length, stop - number * length)
        yield number, inside, slice(start - along.start, stop - along.start)


def _whole(selection: Any, shape: tuple[int, ...]) -> tuple[Box, tuple[Any, ...]]:
    """Return the bounding box of a selection, and the same selection relative to that box."""
    given = selection if isinstance(selection, tuple) else (selection,)
    at = next((i for i, s in enumerate(given) if s is Ellipsis), len(given))
    after = given[at + 1 :]
    middle = (slice(None),) * (len(shape) - at - len(after))
    box: list[slice] = []
    rest: list[Any] = []
    for each, n in zip((*given[:at], *middle, *after), shape, strict=True):
        if isinstance(each, slice):
            chosen = range(n)[each]
        else:
            index = range(n)[int(each)]
            chosen = range(index, index + 1)
        low, high = (min(chosen), max(chosen) + 1) if chosen else (0, 0)
        box.append(slice(low, high))
        rest.append(slice(None, None, chosen.step) if isinstance(each, slice) else 0)
    return tuple(box), tuple(rest)


# Data (levels, the finest first), display options, and the type of layer, as napari expects them.
Layer = tuple[LazyArray | list[LazyArray], dict[str, Any], str]
ReadLevel = Callable[[int, tuple[Any, ...]], LazyArray]  # a selection from a level, by its number
FindImage = Callable[[int, int], ome.Image | None]  # the image at a row and column

_COLOURS = ("magenta", "green", "cyan", "yellow", "red", "blue")  # if the metadata has none


def get_reader(path: str | Sequence[str]) -> Callable[[str], list[Layer]] | None:
    """Return the function that reads `path`, or None if it is neither OME-Zarr nor an array."""
    if not isinstance(path, str):
        return None
    try:
        found = open_zarr(path)
    except OmnizarrError:
        return None
    return read if isinstance(found, Array) or find_metadata(found.attrs) is not None else None


def read(path: str) -> list[Layer]:
    """Return the layers of the image, plate or array at `path`; pixels are read when shown."""
    found = open_zarr(path)
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if isinstance(found, Array):
        return [_array_layer(found, name)]
    return [*_layers(ome.open(path), name)]


def _array_layer(array: Array, name: str) -> Layer:
    options: dict[str, Any] = {"name": name}
    if all(array.dimension_names or (None,)):
        options["axis_labels"] = array.dimension_names
    return part(array.view[...]), options, "image"


def _layers(found: Any, name: str) -> Iterator[Layer]:
    if isinstance(found, ome.Image):
        yield from _image(found, found.name or name, _single(found))
        for key, labels in found.labels.items():
            yield from _image(labels, key, _single(labels))
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


def _single(image: ome.Image) -> ReadLevel:
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
        path = wells.get((row // down, column // across))
        return None if path is None else _field(well(path), across, row % down, column % across)

    rows, columns = len(plate.rows) * down, len(plate.columns) * across
    yield from _fields(plate.layout.name or name, first[0], find, rows, columns)


def _layout(well: ome.Well) -> tuple[int, int]:
    """Return the number of columns and rows for the fields of a well, as square as possible."""
    across = math.isqrt(max(1, len(well)) - 1) + 1
    return across, -(-len(well) // across)


def _field(well: ome.Well, across: int, row: int, column: int) -> ome.Image | None:
    number = row * across + column
    return well[number] if number < len(well) else None


def _fields(
    name: str, first: ome.Image, find: FindImage, rows: int, columns: int
) -> Iterator[Layer]:
    """Yield the layers of fields shown side by side; all have the axes and levels of the first."""
    yield from _image(first, name, _side_by_side(first, find, rows, columns))
    for key, labels in first.labels.items():
        yield from _image(labels, key, _side_by_side(labels, _labels(find, key), rows, columns))


def _labels(find: FindImage, key: str) -> FindImage:
    def found(row: int, column: int) -> ome.Image | None:
        image = find(row, column)
        return None if image is None else image.labels.get(key)

    return cache(found)


def _side_by_side(first: ome.Image, find: FindImage, rows: int, columns: int) -> ReadLevel:
    def read_level(level: int, at: tuple[Any, ...]) -> LazyArray:
        def tile(row: int, column: int) -> View | None:
            image = find(row, column)
            return None if image is None else image.levels[level].view[at]

        return mosaic(tile, first.levels[level].view[at], rows, columns)

    return read_level


def _image(image: ome.Image, name: str, read_level: ReadLevel) -> Iterator[Layer]:
    """Yield one layer per channel."""
    axis = next((i for i, a in enumerate(image.axes) if a.type == "channel"), None)
    count = 1 if axis is None else image.shape[axis]
    for channel in range(count):
        at = (...,) if axis is None else (*(slice(None),) * axis, channel)
        levels = [read_level(i, at) for i in range(len(image.levels))]
        options = {"name": name if count == 1 else f"{name} {channel}", **_position(image, axis)}
        if image.label is not None:
            options.update(_label_options(image.label))
        else:
            options.update(_channel_options(image, channel, count))
        if len(levels) > 1:
            options["multiscale"] = True
        kind = "image" if image.label is None else "labels"
        yield levels if len(levels) > 1 else levels[0], options, kind


def _position(image: ome.Image, without: int | None) -> dict[str, Any]:
    """Return scale, translation and units of the pixels, without the channel axis."""
    transform = image.transform()
    kept = [i for i in range(len(image.axes)) if i != without]
    known = [a.unit if unit_kind(a.unit) else None for a in image.axes]
    return {
        "scale": [transform.scale[i] for i in kept],
        "translate": [transform.offset[i] for i in kept],
        "axis_labels": [image.axes[i].name for i in kept],
        "units": [unit_name(known[i] or "pixel") for i in kept],
    }


def _channel_options(image: ome.Image, number: int, count: int) -> dict[str, Any]:
    """Return OMERO's rendering settings of a channel; several channels are blended additively."""
    options: dict[str, Any] = {}
    if count > 1:
        options = {"blending": "additive", "colormap": _COLOURS[number % len(_COLOURS)]}
    if number >= len(image.channels):
        return options
    channel = image.channels[number]
    if channel.label:
        options["name"] = channel.label
    if channel.color and is_colour(channel.color):
        options["colormap"] = f"#{channel.color}"
    if channel.active is not None:
        options["visible"] = channel.active
    window = channel.window or {}
    if window.get("start", 0) < window.get("end", 0):
        options["contrast_limits"] = (window["start"], window["end"])
    return options


def _label_options(label: ome.ImageLabel) -> dict[str, Any]:
    """Return colours and properties by label value; values without a colour are grey."""
    options: dict[str, Any] = {}
    colours = {n: [c / 255 for c in rgba] for n, rgba in label.colors.items() if rgba is not None}
    if colours:
        options["colormap"] = {None: (0.5, 0.5, 0.5, 1.0), 0: (0.0, 0.0, 0.0, 0.0), **colours}
    if label.properties:
        names = dict.fromkeys(k for each in label.properties.values() for k in each)
        options["features"] = {
            "index": [*label.properties],
            **{k: [each.get(k) for each in label.properties.values()] for k in names},
        }
    return options
