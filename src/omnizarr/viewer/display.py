"""Ways to show a node: as a plane, a plot or a table, along which axes, in which units.

The page of the server and pictures show the same, so both ask here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from omnizarr import Array, Group
from omnizarr.conventions.cf.dataset import Dataset
from omnizarr.conventions.cf.times import is_time
from omnizarr.conventions.cf.variable import Decoding, Variable, decode
from omnizarr.conventions.geo.crs import parent_group, sibling
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.geo.transform import Affine, read_transform, spatial_axes
from omnizarr.conventions.ome.image import Image, OmeGroup, load
from omnizarr.conventions.ome.versions import is_image
from omnizarr.errors import InvalidMetadata, OmnizarrError
from omnizarr.extension import paths, type_name

Json: TypeAlias = dict[str, Any]
TEXT = "text"

# Colours of channels that state none, as OMERO has them.
_COLORS = ("0000FF", "00FF00", "FF0000", "FFFF00", "FF00FF", "00FFFF")
_SPACE = re.compile(
    r"(x|y|z|lat|lon|latitude|longitude|height|depth|altitude|level|lev|plev|easting|northing"
    r"|row|col|column|projection_[xy]_coordinate|grid_(latitude|longitude))\d*",
    re.IGNORECASE,
)
_TIME = re.compile(r"(t|time|date|valid_time|step)\d*", re.IGNORECASE)
_CHANNEL = re.compile(r"(c|channels?|bands?|samples?|rgba?)", re.IGNORECASE)


def nothing(reason: str) -> Json:
    """Return the display of a node that cannot be shown."""
    return {"kind": "none", "reason": reason}


def stored_node(found: Any) -> Any:
    """Return the array or group behind an image, dataset, variable or map; others as they are."""
    if isinstance(found, (OmeGroup, Dataset)):
        return found.group
    if isinstance(found, Variable):
        return found.array
    if isinstance(found, Map):
        finest = found.levels[0].array
        group = parent_group(finest)
        return finest if group is None or len(found.levels) == 1 else group
    return found


def display(node: Array | Group, message: Callable[[OmnizarrError], str] = str) -> Json:
    """Return how the values of a node can be shown; "none" with a reason if they cannot.

    `message` makes the reason from an error.
    """
    try:
        if isinstance(node, Array):
            return _display_array(node)
        if is_image(node.attrs, node.zarr_format):
            return _display_image(node)
        if "multiscales" in node.attrs:
            return _display_map(open_map(node.store, path=node.path))
    except OmnizarrError as e:
        return nothing(message(e))
    return nothing("a group has no values of its own; choose one of its members")


def _display_array(array: Array) -> Json:
    array._check_codecs()
    axes = [_axis(array, number) for number in range(array.ndim)]
    scale, translation = [1.0] * array.ndim, [0.0] * array.ndim
    plane = None
    in_color = _is_rgb(array)
    if array.ndim >= 2:
        rows, columns = spatial_axes(array)
        if in_color and array.ndim - 1 in (rows, columns):
            rows, columns = array.ndim - 3, array.ndim - 2
        plane = [rows, columns]
        if array.dimension_names is not None:
            _place(scale, translation, rows, columns, _quietly(lambda: read_transform(array)))
    level = _level(array, scale, translation)
    found = _common(array, [level], axes, plane)
    if found.get("transfer") == TEXT:
        found["kind"] = "table" if array.ndim else "scalar"
        if array.dtype.names is not None:
            found["fields"] = list(array.dtype.names)
    if in_color and "levels" in found:
        axes[-1]["kind"] = "channel"
        found["channels"] = {**_RGB, "axis": array.ndim - 1}
    return found


# The channels of a photograph.
_RGB: Json = {
    "labels": ["red", "green", "blue"],
    "colors": ["FF0000", "00FF00", "0000FF"],
    "windows": [[0, 255]] * 3,
}


def _is_rgb(array: Array) -> bool:
    """Return True for an array that looks like a photograph: red, green and blue as its last axis.

    A fourth value is taken for the opacity.
    """
    if array.dtype != np.uint8 or array.ndim < 3 or array.shape[-1] not in (3, 4):
        return False
    name = (array.dimension_names or (None,))[-1]
    if name is None:
        return min(array.shape[-3:-1]) > 4
    return bool(_CHANNEL.fullmatch(name))


def _common(array: Array, levels: list[Json], axes: list[Json], plane: list[int] | None) -> Json:
    if not array.size:
        return nothing(f"the array has no elements: its shape is {array.shape}")
    kinds = {0: "scalar", 1: "plot"}
    try:
        decoder = decoding(array, "cf")
    except InvalidMetadata:  # values are then shown as they are stored
        decoder = None
    return {
        "kind": kinds.get(array.ndim, "plane"),
        "levels": levels,
        "axes": axes,
        "plane": plane,
        "channels": None,
        "dtype": type_name(array._model.data_type),
        "transfer": transfer_type(array.dtype if decoder is None else decoder.dtype),
        "decode": None if decoder is None else "cf",  # how values shall be asked for
    }


def _level(array: Array, scale: list[float], translation: list[float]) -> Json:
    return {
        "path": array.path,
        "shape": array.shape,
        "chunks": largest_sizes(array.chunks),
        "scale": scale,
        "translation": translation,
    }


def _quietly(read: Callable[[], Affine | None]) -> Affine | None:
    """Return what a function does, or None if what it reads is not valid."""
    try:
        return read()
    except OmnizarrError:
        return None


def _place(
    scale: list[float], translation: list[float], rows: int, columns: int, found: Affine | None
) -> None:
    """Note where the centres of pixels are, for a map that is not rotated."""
    if found is not None and found.upright:
        x, y = found.xy(0.5, 0.5)
        scale[columns], scale[rows] = found.a, found.e
        translation[columns], translation[rows] = float(x), float(y)


def _axis(array: Array, number: int) -> Json:
    """Return the name, kind, unit and coordinate of an axis, by CF where it applies."""
    name = (array.dimension_names or (None,) * array.ndim)[number]
    found: Json = {
        "name": name or f"axis {number}",
        "kind": _kind_by_name(name),
        "unit": None,
        "size": array.shape[number],
        "coordinate": None,
    }
    coordinate = sibling(array, name) if name else None
    if name and array.ndim == 1 and paths.name(array.path) == name:
        coordinate = array
    if coordinate is None or coordinate.shape != (array.shape[number],):
        return found
    attributes = coordinate.attrs.asdict()
    found["coordinate"] = coordinate.path
    unit = attributes.get("units")
    found["unit"] = unit if isinstance(unit, str) else None
    if is_time(attributes) or coordinate.dtype.kind == "M":
        found["kind"] = "time"
    elif attributes.get("axis") in ("X", "Y", "Z"):
        found["kind"] = "space"
    elif attributes.get("axis") == "T":
        found["kind"] = "time"
    return found


def _kind_by_name(name: str | None) -> str:
    for kind, pattern in (("space", _SPACE), ("time", _TIME), ("channel", _CHANNEL)):
        if name and pattern.fullmatch(name):
            return kind
    return "other"


def _display_map(found: Map) -> Json:
    levels = []
    for level in found.levels:
        scale, translation = [1.0] * level.array.ndim, [0.0] * level.array.ndim
        _place(scale, translation, level.rows, level.columns, level.transform)
        levels.append(_level(level.array, scale, translation))
    finest = found.levels[0]
    axes = [_axis(finest.array, number) for number in range(finest.array.ndim)]
    for number in (finest.rows, finest.columns):
        axes[number]["kind"] = "space"
    plane = [finest.rows, finest.columns]
    return _common(finest.array, levels, axes, plane)


def _display_image(group: Group) -> Json:
    loaded = load(group)
    if loaded is None or not loaded.metadata.multiscales:
        return nothing("the group has no OME-Zarr image")
    image = Image(loaded)
    finest = image.levels[0]
    levels = []
    for number, array in enumerate(image.levels):
        transform = image.transform(number)
        levels.append(_level(array, list(transform.scale), list(transform.offset)))
    axes: list[Json] = []
    for axis, size in zip(image.axes, finest.shape, strict=True):
        kind = axis.type if axis.type in ("space", "time", "channel") else "other"
        axes.append(
            {
                "name": axis.name,
                "kind": kind,
                "unit": axis.unit,
                "size": size,
                "coordinate": None,
            }
        )
    spatial = [n for n, axis in enumerate(axes) if axis["kind"] == "space"]
    plane = spatial[-2:] if len(spatial) >= 2 else [finest.ndim - 2, finest.ndim - 1]
    found = _common(finest, levels, axes, plane)
    if "levels" in found:
        found["channels"] = _channels(image, axes)
    return found


def _channels(image: Image, axes: list[Json]) -> Json | None:
    axis = next((n for n, axis in enumerate(axes) if axis["kind"] == "channel"), None)
    if axis is None:
        return None
    count = axes[axis]["size"]
    stated = [*image.channels, *[None] * count][:count]
    windows: list[list[float] | None] = []
    for channel in stated:
        window = (None if channel is None else channel.window) or {}
        low, high = window.get("start", window.get("min")), window.get("end", window.get("max"))
        windows.append(None if low is None or high is None else [low, high])
    return {
        "axis": axis,
        "labels": [
            (channel and channel.label) or f"channel {n}" for n, channel in enumerate(stated)
        ],
        "colors": [
            (channel and channel.color) or (_COLORS[n % len(_COLORS)] if count > 1 else "FFFFFF")
            for n, channel in enumerate(stated)
        ],
        "windows": windows,
    }


# Values


def transfer_type(dtype: np.dtype[Any]) -> str:
    """Return the name of the type that values of a NumPy type are sent as; "text" for JSON.

    >>> transfer_type(np.dtype(">i2")), transfer_type(np.dtype("i8")), transfer_type(np.dtype("O"))
    ('int16', 'float64', 'text')
    """
    if dtype.kind == "b":
        return "uint8"
    if dtype.kind in "iu":
        return "float64" if dtype.itemsize > 4 else dtype.newbyteorder("=").name
    if dtype.kind == "f":
        return "float32" if dtype.itemsize <= 4 else "float64"
    if dtype.kind == "c":
        return "float32"
    if dtype.kind in "mM":
        return "float64"
    if dtype.kind == "V" and dtype.names is None and dtype.type is not np.void:  # of ml_dtypes
        return _small_type(dtype)
    return TEXT


def _small_type(dtype: np.dtype[Any]) -> str:
    if dtype.name.startswith(("int", "uint")):
        return "int8" if dtype.name.startswith("int") else "uint8"
    return "float32"


# Attributes of CF that change what the stored numbers mean.
_PACKED = {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"}
_PACKED |= {"valid_range", "valid_min", "valid_max"}


def decoding(array: Array, how: str) -> Decoding | None:
    """Return how numbers are decoded: "cf" unpacks them, "time" reads dates; None: as stored."""
    if array.dtype.kind not in "iuf":
        return None
    if how == "time" and is_time(array.attrs):
        return decode(array).decoding
    if how == "cf" and not _PACKED.isdisjoint(array.attrs):
        return decode(array, times=None).decoding
    return None


def work(array: Array, selection: Iterable[int | slice]) -> tuple[int, int]:
    """Return how many chunks have one of the selected values, and at most how many bytes.

    A slice has a start and a stop of at least 0.
    """
    total = 1
    for item, sizes in zip(selection, array.chunks, strict=True):
        span = slice(item, item + 1) if isinstance(item, int) else item
        total *= touched(range(span.start, span.stop, span.step or 1), sizes)
    return total, total * chunk_bytes(array)


def chunk_bytes(array: Array) -> int:
    """Return the bytes of the largest chunk of an array, decoded."""
    return int(math.prod(largest_sizes(array.chunks)) * array.dtype.itemsize)


def touched(positions: range, sizes: Any) -> int:
    """Return the number of chunks along an axis that have one of the positions."""
    if not positions:
        return 0
    start, step = positions.start, positions.step
    if isinstance(sizes, int):
        return positions[-1] // sizes - start // sizes + 1 if step <= sizes else len(positions)
    ends = np.cumsum(sizes)
    first, last = np.searchsorted(ends, [start, positions[-1]], side="right")
    inside = slice(first, last + 1)
    ends = ends[inside]
    begins = np.maximum(ends - np.asarray(sizes)[inside], start)
    places = start - (start - begins) // step * step  # the first in or after each chunk
    return int(np.count_nonzero(places < np.minimum(ends, positions.stop)))


def largest_sizes(sizes: Iterable[Any]) -> list[Any]:
    """Return a chunk shape for JSON; of chunks that differ along an axis, the largest."""
    return [
        int(n) if isinstance(n, (int, np.integer)) else max(map(int, n), default=0) for n in sizes
    ]
