"""Pictures of planes: the values that are read for them, and what is said about them.

A plane comes from the smallest level that has enough pixels, or from every nth element; one whose
chunks have more than `MAX_DECODED` bytes is sampled more coarsely.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from omnizarr import Array, Group
from omnizarr import open as open_zarr
from omnizarr.conventions.ome.versions import is_image
from omnizarr.errors import InvalidArgument, OmnizarrError, WrongNode
from omnizarr.extension import as_plain
from omnizarr.interop.files.png import Layer, PictureAxis, Preview
from omnizarr.viewer.describe import Json, display, stored_node
from omnizarr.viewer.values import TEXT, decoding, read_numbers, transfer_type, work

PIXELS = 512  # along the longer side of a plane, by default
MAX_CHANNELS = 6
MAX_DECODED = 2**29  # bytes of chunks that are decoded for one picture


def preview(node: Any, *, at: Mapping[str, int] | None = None, pixels: int = PIXELS) -> Preview:
    """Return a picture of an array, group, image, dataset, variable or map, or of a path.

    It is a plane of two axes, read from the smallest level that is large enough, or with a step. Of
    a group, it shows the largest array of numbers.

    Args:
        node: A path, URL, store, array, group, image, dataset, variable or map.
        at: The position along other axes by name, such as ``{"t": 3}``; by default the middle of an
            axis in space, and the start of any other.
        pixels: The least number of pixels along the longer side, if there are as many elements.

    Raises:
        InvalidArgument: If `pixels` is less than 1.
        NodeNotFound: If there is nothing at the path.
        WrongNode: If there is no plane of numbers to show.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(64).reshape(8, 8))
        >>> oz.preview("ocean.zarr").save("ocean.png")
    """
    if pixels < 1:
        raise InvalidArgument(f"a picture has at least one pixel, not {pixels}")
    node = stored_node(node)
    if not isinstance(node, (Array, Group)):
        node = open_zarr(node)
    notes: list[str] = []
    found = display(node)
    if found["kind"] == "none" and isinstance(node, Group):
        if is_image(node.attrs, node.zarr_format):
            notes.append(f"not shown as an image: {found['reason']}")
        node = _largest_array(node, found["reason"])
        notes.append(f"the largest array: {node.path}")
        found = display(node)
    if found["kind"] != "plane":
        reason = found.get("reason", "there is no plane of numbers; print or plot its values")
        raise WrongNode(f"{node.name} in {node.store!r} cannot be shown: {reason}")
    return _read_picture(node, found, dict(at or {}), pixels, notes)


# Values


def _largest_array(group: Group, reason: str) -> Array:
    """Return the array to show of a group: with numbers, a plane rather than a line, and large."""

    def rank(array: Array) -> tuple[bool, int, int]:
        return transfer_type(array.dtype) != TEXT, min(array.ndim, 2), array.size

    arrays = [array for _, array in group.arrays()]
    if not any(rank(array)[0] for array in arrays):
        arrays += [node for _, node in group.members(max_depth=3) if isinstance(node, Array)]
    if not arrays:
        raise WrongNode(f"{group.name} in {group.store!r} cannot be shown: {reason}")
    return max(arrays, key=rank)


def _read_picture(
    node: Array | Group, found: Json, at: dict[str, int], pixels: int, notes: list[str]
) -> Preview:
    shown, channels = found["plane"], found["channels"]  # the axes of the picture
    levels = found["levels"]
    enough = [one for one in levels if max(one["shape"][n] for n in shown) >= pixels]
    level = min(enough or levels[:1], key=lambda one: math.prod(one["shape"][n] for n in shown))
    array = node
    if not isinstance(array, Array):
        array = open_zarr(node.store, path=level["path"], mode="r")
    numbers = _shown_channels(found, at, notes)
    fixed = _fixed_positions(found, array, at)
    ranges = [range(fixed.get(n, 0), fixed.get(n, 0) + 1) for n in range(array.ndim)]
    step = _step(array, ranges, shown, pixels, MAX_DECODED // len(numbers))
    if step > 1:
        notes.append(f"1 of {step} rows and columns")
    layers = []
    for number in numbers:
        if number is not None:
            ranges[channels["axis"]] = range(number, number + 1)
        values = read_numbers(array, ranges).reshape([len(ranges[n]) for n in sorted(shown)])
        values = values if shown == sorted(shown) else values.T
        about = ("labels", "colors", "windows") if number is not None else ()
        layers.append(Layer(values, *(channels[name][number] for name in about)))
    root = getattr(node.store, "root", None)
    name = node.path or ("/" if root is None else os.path.basename(os.fspath(root)) or "/")
    return Preview(
        ", ".join([name, *(f"{found['axes'][n]['name']} {place}" for n, place in fixed.items())]),
        layers,
        [_picture_axis(array, found["axes"][n], level, n, step) for n in shown],
        str(array.attrs.get("units", "")),
        notes,
        is_image=channels is not None or array is not node,
    )


def _fixed_positions(found: Json, array: Array, at: Mapping[str, int]) -> dict[int, int]:
    """Return the positions along the axes that are not part of the picture."""
    shown = {*found["plane"], *([found["channels"]["axis"]] if found["channels"] else [])}
    names = {axis["name"]: n for n, axis in enumerate(found["axes"]) if n not in shown}
    for name in at:
        if name not in names:
            others = ", ".join(names) or "none"
            raise InvalidArgument(f"no axis {name!r} to choose a position on; axes: {others}")
    fixed = {}
    for name, number in names.items():
        size, axis = array.shape[number], found["axes"][number]
        fixed[number] = size // 2 if axis["kind"] == "space" else 0
        if name in at:
            position = _position(name, at[name], axis["size"])
            fixed[number] = min(position * size // axis["size"], size - 1)
    return fixed


def _position(name: str, position: int, size: int) -> int:
    if not isinstance(position, (int, np.integer)):
        raise InvalidArgument(f"the position on axis {name!r} is an index, got {position!r}")
    if not -size <= position < size:
        raise InvalidArgument(f"axis {name!r} has {size} positions; {position} is not one of them")
    return int(position) % size


def _step(array: Array, ranges: list[range], shown: list[int], pixels: int, most: int) -> int:
    """Set the positions along a picture's axes so that few bytes are decoded; return the step."""
    longest = max(array.shape[number] for number in shown)
    step = max(1, math.ceil(longest / pixels))
    while True:
        for number in shown:
            ranges[number] = range(0, array.shape[number], step)
        if work(array, tuple(ranges))[1] <= most or step >= longest:
            return step
        step *= 2


def _shown_channels(found: Json, at: dict[str, int], notes: list[str]) -> list[int | None]:
    """Return the channels to show, or only the channel in `at`; [None] without channels."""
    if found["channels"] is None:
        return [None]
    count = len(found["channels"]["labels"])
    name = found["axes"][found["channels"]["axis"]]["name"]
    if name in at:
        return [_position(name, at.pop(name), count)]
    if count > MAX_CHANNELS:
        notes.append(f"{MAX_CHANNELS} of {count} channels")
    return list(range(min(count, MAX_CHANNELS)))


def _picture_axis(array: Array, axis: Json, level: Json, number: int, step: int) -> PictureAxis:
    """Return an axis with the coordinate of each position that is read, if it has any."""
    if axis["coordinate"] is not None and axis["coordinate"] != array.path:
        try:
            coordinate: Any = open_zarr(array.store, path=axis["coordinate"], mode="r")
            decoder = decoding(coordinate, "time")
            places = as_plain(coordinate[::step])
            places = places if decoder is None else np.asarray(decoder.decode(places))
            if places.dtype.kind in "iufM":
                unit = None if axis["kind"] == "time" else axis["unit"]
                return PictureAxis(axis["name"], unit, places)
        except OmnizarrError:
            pass  # the positions are shown instead
    unit = None if axis["coordinate"] == array.path else axis["unit"]
    positions = np.arange(0, array.shape[number], step)
    places = positions * level["scale"][number] + level["translation"][number]
    return PictureAxis(axis["name"], unit, places)
