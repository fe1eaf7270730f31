"""A reader for napari: OME-Zarr images, labels, wells and series, and any Zarr array.

napari finds it through the manifest ``napari.yaml``; this module does not import napari. Every
channel becomes a layer with all its resolutions, read lazily. Plates are left to other readers.
Decoded chunks stay in a cache, because a slider returns to the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array, View, config, ome
from omnizarr import open as open_zarr
from omnizarr.conventions.ome.model import is_colour, unit_kind, unit_name
from omnizarr.conventions.ome.versions import find_metadata
from omnizarr.errors import OmnizarrError

Values = npt.NDArray[Any]
CHUNK_CACHE = config.ByteBudget(min(2**28, (config.memory() or 2**32) // 16))


class LazyArray:
    """A view with a shape and a type whose elements are read when it is indexed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.shape, self.dtype, self.ndim, self.size = view.shape, view.dtype, view.ndim, view.size

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, selection: Any) -> Values:
        with config.configure(chunk_cache=CHUNK_CACHE):
            return np.asarray(self._view[selection])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return self[...].astype(dtype, copy=False) if dtype is not None else self[...]


# Data (levels, the finest first), display options, and the type of layer, as napari expects them.
Layer = tuple[LazyArray | list[LazyArray], dict[str, Any], str]

_COLOURS = ("magenta", "green", "cyan", "yellow", "red", "blue")  # if the metadata has none


def get_reader(path: str | Sequence[str]) -> Callable[[str], list[Layer]] | None:
    """Return the function that reads `path`, or None if it is neither OME-Zarr nor an array."""
    if not isinstance(path, str):
        return None
    try:
        found = open_zarr(path)
    except OmnizarrError:
        return None
    if isinstance(found, Array):
        return read
    described = find_metadata(found.attrs)
    return None if described is None or isinstance(ome.open(path), ome.Plate) else read


def read(path: str) -> list[Layer]:
    """Return the layers of the image, plate or array at `path`; pixels are read when shown."""
    found = open_zarr(path)
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if isinstance(found, Array):
        options: dict[str, Any] = {"name": name}
        if all(found.dimension_names or (None,)):
            options["axis_labels"] = found.dimension_names
        return [(LazyArray(found.view[...]), options, "image")]
    return [*_layers(ome.open(path), name)]


def _layers(found: Any, name: str) -> Iterator[Layer]:
    if isinstance(found, ome.Image):
        yield from _image(found, found.name or name)
        for key, labels in found.labels.items():
            yield from _image(labels, key)
        return
    if isinstance(found, ome.Well):
        images = {f"{name} {number}": found[number] for number in range(len(found))}
    elif isinstance(found, ome.Series):
        images = {f"{name} {p}": image for p, image in zip(found.paths, found, strict=True)}
    else:  # labels
        images = dict(found.items())
    for key, image in images.items():
        yield from _layers(image, key)


def _image(image: ome.Image, name: str) -> Iterator[Layer]:
    """Yield one layer per channel."""
    axis = next((i for i, a in enumerate(image.axes) if a.type == "channel"), None)
    count = 1 if axis is None else image.shape[axis]
    for channel in range(count):
        at = (...,) if axis is None else (*(slice(None),) * axis, channel)
        levels = [LazyArray(level.view[at]) for level in image.levels]
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
