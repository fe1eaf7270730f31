"""Pictures of nodes: the values that are read for them, and their colours.

A plane of an image comes from the smallest level that has enough pixels; of an array without
levels, every nth element is read. The chunks that are decoded for it are bounded (`MAX_DECODED`):
a plane of more bytes is sampled more coarsely.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group
from omnizarr import open as open_zarr
from omnizarr.conventions.ome.versions import is_image
from omnizarr.errors import InvalidArgument, OmnizarrError, WrongNode
from omnizarr.extension import open_array, value_text
from omnizarr.viewer.display import (
    TEXT,
    decoding,
    display,
    stored_node,
    transfer_type,
    work,
)

PIXELS = 512  # along the longer side of a plane, by default
POINTS = 4000  # of a plot at most
ROWS = 20  # of a table
MAX_CHANNELS = 6
MAX_DECODED = 2**29  # bytes of chunks that are decoded for one picture
_LOW, _HIGH = 0.5, 99.5  # percentiles of the values that the darkest and brightest colours show

# The colours of the colour map "viridis" of matplotlib at nine places.
_COLORS = np.array(
    [
        (68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141),
        (39, 173, 129), (92, 200, 99), (170, 220, 50), (253, 231, 37),
    ]
)  # fmt: skip
_NOTHING = (127, 127, 127)  # the colour of missing values

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Axis:
    """One axis of a picture: its name and unit, and the places of the values along it."""

    name: str
    unit: str | None
    places: Values

    @property
    def label(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Layer:
    """The values of a plane or plot, and for a channel its name, colour and contrast."""

    values: Values
    label: str = ""
    color: str | None = None  # such as "FF0000"; None for a colour map
    window: tuple[float, float] | None = None


@dataclass(frozen=True)
class Picture:
    """A plane, plot or table of values, with its axes."""

    kind: str  # "plane", "plot" or "table"
    title: str
    layers: list[Layer]
    axes: list[Axis]  # of a plane: rows, columns; of a plot: one
    unit: str = ""  # of the values
    notes: list[str] = field(default_factory=list)  # what is left out
    is_image: bool = False  # shown in grey, without a scale of values

    def to_json(self) -> dict[str, Any]:
        """Return what the picture shows, without its values."""
        return {
            "kind": self.kind,
            "title": self.title,
            "shape": list(self.layers[0].values.shape),
            "axes": [{"name": axis.name, "unit": axis.unit} for axis in self.axes],
            "channels": [layer.label for layer in self.layers if layer.label],
            "unit": self.unit,
            "notes": self.notes,
        }


def choose(node: Any, at: Mapping[str, int] | None = None, pixels: int = PIXELS) -> Picture:
    """Read what a picture shows: of an array, group, image, dataset, map, or what is at a path.

    `at` maps the names of axes that the picture does not have to positions; by default the middle
    of an axis in space, and the start of any other. Of a group, the largest array is shown.
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
    if found["kind"] == "none":
        raise WrongNode(f"{node.name} in {node.store!r} cannot be shown: {found['reason']}")
    if found["kind"] == "plane":
        return _plane(node, found, dict(at or {}), pixels, notes)
    _check_axes(at or {}, {})
    if found["kind"] == "plot":
        return _plot(node, found, notes)
    return _table(node, notes)


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


def _title(node: Array | Group) -> str:
    """Return the path of a node, or of a root the name of its directory or file."""
    root = getattr(node.store, "root", None)
    return node.path or ("/" if root is None else os.path.basename(os.fspath(root)) or "/")


def _read(array: Array, select: tuple[int | slice, ...], how: str = "cf") -> Values:
    """Return selected values as numbers, unpacked by CF attributes if these are valid."""
    values: Values = np.asanyarray(array[select])
    try:
        decoder = decoding(array, how)
        return values if decoder is None else np.asarray(decoder.decode(values))
    except OmnizarrError:
        return values


# Planes


def _plane(
    node: Array | Group, found: Mapping[str, Any], at: dict[str, int], pixels: int, notes: list[str]
) -> Picture:
    rows, columns = found["plane"]
    level = _level(found["levels"], rows, columns, pixels)
    array = _array_at(node, level["path"])
    names = [axis["name"] for axis in found["axes"]]
    channels = found["channels"]
    shown = _shown_channels(found, at, notes)
    fixed = _fixed(found, array, at)
    select: list[Any] = [fixed.get(number, slice(None)) for number in range(array.ndim)]
    if channels is not None:
        select[channels["axis"]] = 0
    step = _step(array, select, (rows, columns), pixels, MAX_DECODED // len(shown))
    if step > 1:
        notes.append(f"1 of {step} rows and columns")
    select[rows], select[columns] = (slice(0, array.shape[n], step) for n in (rows, columns))
    layers = []
    for number in shown:
        if number is not None:
            select[channels["axis"]] = number
        values = _numbers(_read(array, tuple(select)))
        values = values if rows < columns else values.T
        layers.append(_layer(values, channels, number))
    axes = [_axis(array, found["axes"][number], level, number, step) for number in (rows, columns)]
    places = [f"{names[number]} {position}" for number, position in fixed.items()]
    title = ", ".join([_title(node), *places])
    unit = str(array.attrs.get("units", ""))
    is_image = found["channels"] is not None or not isinstance(node, Array)
    return Picture("plane", title, layers, axes, unit, notes, is_image)


def _array_at(node: Array | Group, path: str) -> Array:
    """Return the array of a level, whose path is that in the store."""
    if isinstance(node, Array):
        return node
    inner = path.removeprefix(f"{node.path}/") if node.path else path
    found = node[inner]
    if not isinstance(found, Array):
        raise WrongNode(f"{found.name} in {found.store!r} is not an array")
    return found


def _level(levels: list[Mapping[str, Any]], rows: int, columns: int, pixels: int) -> Any:
    """Return the smallest level with enough pixels, or the largest."""
    enough = [one for one in levels if max(one["shape"][rows], one["shape"][columns]) >= pixels]
    chosen = enough or levels[:1]
    return min(chosen, key=lambda one: one["shape"][rows] * one["shape"][columns])


def _fixed(found: Mapping[str, Any], array: Array, at: Mapping[str, int]) -> dict[int, int]:
    """Return the positions on the axes that the picture does not have."""
    shown = {*found["plane"], *([found["channels"]["axis"]] if found["channels"] else [])}
    names = {axis["name"]: n for n, axis in enumerate(found["axes"]) if n not in shown}
    _check_axes(at, names)
    fixed = {}
    for name, number in names.items():
        size, axis = array.shape[number], found["axes"][number]
        if name in at:
            position = _position(name, at[name], axis["size"])
            fixed[number] = min(position * size // axis["size"], size - 1)
        else:
            fixed[number] = size // 2 if axis["kind"] == "space" else 0
    return fixed


def _position(name: str, position: int, size: int) -> int:
    if not isinstance(position, (int, np.integer)):
        raise InvalidArgument(f"the position on axis {name!r} is an index, got {position!r}")
    if not -size <= position < size:
        raise InvalidArgument(f"axis {name!r} has {size} positions; {position} is not one of them")
    return position % size


def _check_axes(at: Mapping[str, int], known: Mapping[str, int]) -> None:
    for name in at:
        if name not in known:
            others = ", ".join(known) or "none"
            raise InvalidArgument(f"the picture has no other axis {name!r}; its axes: {others}")


def _step(array: Array, select: list[Any], axes: tuple[int, ...], pixels: int, most: int) -> int:
    """Return every how many values along some axes are read, so that few bytes are decoded."""
    longest = max(array.shape[number] for number in axes)
    step = max(1, math.ceil(longest / pixels))
    while True:
        for number in axes:
            select[number] = slice(0, array.shape[number], step)
        if work(array, select)[1] <= most or step >= longest:
            return step
        step *= 2


def _shown_channels(
    found: Mapping[str, Any], at: dict[str, int], notes: list[str]
) -> list[int | None]:
    """Return the channels to show, of which `at` may name one; [None] if there are none."""
    if found["channels"] is None:
        return [None]
    count = len(found["channels"]["labels"])
    name = found["axes"][found["channels"]["axis"]]["name"]
    if name in at:
        return [_position(name, at.pop(name), count)]
    if count > MAX_CHANNELS:
        notes.append(f"{MAX_CHANNELS} of {count} channels")
    return list(range(min(count, MAX_CHANNELS)))


def _layer(values: Values, channels: Mapping[str, Any] | None, number: int | None) -> Layer:
    if channels is None or number is None:
        return Layer(values)
    window = channels["windows"][number]
    limits = None if window is None else (float(window[0]), float(window[1]))
    return Layer(values, channels["labels"][number], channels["colors"][number], limits)


def _axis(
    array: Array, axis: Mapping[str, Any], level: Mapping[str, Any], number: int, step: int
) -> Axis:
    """Return an axis with the coordinate of each position that is read."""
    count = array.shape[number]
    coordinate = _coordinate(array, axis, slice(None, None, step))
    if coordinate is not None:
        return Axis(axis["name"], _unit(axis), coordinate)
    places = np.arange(0, count, step) * level["scale"][number] + level["translation"][number]
    return Axis(axis["name"], axis["unit"], places)


def _unit(axis: Mapping[str, Any]) -> str | None:
    return None if axis["kind"] == "time" else axis["unit"]


def _coordinate(array: Array, axis: Mapping[str, Any], select: slice) -> Values | None:
    """Return the values of the coordinate of an axis, or None if it has none that can be read."""
    if axis["coordinate"] is None:
        return None
    try:
        found = open_array(array.store, path=axis["coordinate"], mode="r")
        values = _read(found, (select,), "time")
    except OmnizarrError:
        return None
    return values if values.ndim == 1 and values.dtype.kind in "iufM" else None


def _numbers(values: Values) -> Values:
    """Return values as numbers; missing ones are NaN."""
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype("f8"), np.nan)
    if values.dtype.kind == "c":
        return np.abs(values)
    if values.dtype.kind in "mM":
        return np.where(np.isnat(values), np.nan, values.astype("i8").astype("f8"))
    if values.dtype.kind == "b":
        return values.astype("u1")
    if values.dtype.kind in "ui":
        return values
    return values.astype("f4" if values.dtype.itemsize < 8 else "f8")


# Plots and tables


def _plot(array: Array, found: Mapping[str, Any], notes: list[str]) -> Picture:
    step = _step(array, [None], (0,), POINTS, MAX_DECODED)
    if step > 1:
        notes.append(f"1 of {step} values")
    values = _numbers(_read(array, (slice(0, array.size, step),)))
    axis = dict(found["axes"][0])
    if axis["coordinate"] == array.path:  # a coordinate is plotted against its own positions
        axis |= {"coordinate": None, "unit": None}
    axes = [_axis(array, axis, found["levels"][0], 0, step)]
    unit = str(array.attrs.get("units", ""))
    return Picture("plot", _title(array), [Layer(values)], axes, unit, notes)


def _table(array: Array, notes: list[str]) -> Picture:
    select = tuple(slice(0, ROWS if axis == 0 else 8) for axis in range(array.ndim))
    if array.size > math.prod(min(n, s.stop) for n, s in zip(array.shape, select, strict=True)):
        notes.append("the first values")
    values = np.asanyarray(array[select])
    return Picture("table", _title(array), [Layer(values)], [], "", notes)


def table_lines(picture: Picture) -> list[str]:
    """Return the values of a table as lines of text."""
    values = np.atleast_1d(picture.layers[0].values)
    names = values.dtype.names
    if names is None:
        rows = [[_short(value_text(v)) for v in np.atleast_1d(row)] for row in values]
    else:
        records = values.reshape(-1)
        rows = [
            list(names),
            *([_short(value_text(record[n])) for n in names] for record in records),
        ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def _short(text: str, most: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


# Colours


def window(layer: Layer) -> tuple[float, float]:
    """Return the values of the darkest and the brightest colour."""
    if layer.window is not None:
        return layer.window
    finite = layer.values[np.isfinite(layer.values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(finite, (_LOW, _HIGH)))
    return (low, high) if high > low else (float(finite.min()), float(finite.max()))


def colors(picture: Picture) -> npt.NDArray[np.uint8]:
    """Return a plane as red, green and blue: one colour map, or the sum of channels."""
    shape = picture.layers[0].values.shape
    total, missing = np.zeros((*shape, 3)), np.zeros(shape, bool)
    for layer in picture.layers:
        low, high = window(layer)
        bad = ~np.isfinite(layer.values)
        values = np.where(bad, low, layer.values).astype("f8")
        share = np.clip((values - low) / ((high - low) or 1.0), 0, 1)[..., None]
        missing |= bad
        if layer.color is not None:
            total += share * [int(layer.color[i : i + 2], 16) for i in (0, 2, 4)]
        elif picture.is_image:
            total += share * 255
        else:
            places = np.linspace(0, 1, len(_COLORS))
            total += np.stack(
                [np.interp(share[..., 0], places, _COLORS[:, i]) for i in range(3)], -1
            )
    result = np.clip(total, 0, 255).astype("u1")
    result[missing] = _NOTHING
    return result
