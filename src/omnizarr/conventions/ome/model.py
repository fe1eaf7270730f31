"""The model of OME-Zarr metadata, its conversion from and to JSON of the newest version, and units.

Every object keeps unknown members in `extra`, so that rewriting metadata loses nothing.

The position of pixel i is ``translation + scale * i``. An interval contains the pixels whose
positions are inside it, its end excluded, so that adjacent intervals have no pixel in common.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, TypeVar

import numpy as np

from omnizarr.errors import InvalidArgument, SelectionError, known_names

Json = dict[str, Any]
Extra = Mapping[str, Any]
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image; its type is ``space``, ``time``, ``channel``, another, or None.

    Attributes:
        name: The name, such as ``"x"``.
        type: The type.
        unit: The unit of positions, such as ``"micrometer"``.
        extra: Further members of the metadata.

    Examples:
        >>> oz.ome.Axis("x", "space", "micrometer").unit
        'micrometer'
    """

    name: str
    type: str | None = None
    unit: str | None = None
    extra: Extra = field(default_factory=dict)

    def __repr__(self) -> str:
        details = [d for d in (self.type, self.unit) if d is not None]
        return f"Axis({self.name}{': ' if details else ''}{', '.join(details)})"


@dataclass(frozen=True, slots=True)
class Transform:
    """Maps array indices to physical positions: multiplies by `scale`, adds `translation`.

    Attributes:
        scale: The factor along each axis.
        translation: The position of the first pixel along each axis; None for zeros.
    """

    scale: tuple[float, ...]
    translation: tuple[float, ...] | None = None

    @property
    def offset(self) -> tuple[float, ...]:
        """The translation; zeros if there is none."""
        return self.translation or (0.0,) * len(self.scale)


@dataclass(frozen=True, slots=True)
class ImageLevel:
    """One resolution level: the path of its array, and its transform or None."""

    path: str
    transform: Transform | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Multiscale:
    """An image at several resolutions, the finest first.

    Attributes:
        axes: The axes, in the order of the arrays.
        datasets: The levels.
        name: The name of the image.
        type: The method of downsampling.
        metadata: Anything about the method.
        transform: A transform for all levels, after their own.
        extra: Further members of the metadata.
    """

    axes: tuple[Axis, ...]
    datasets: tuple[ImageLevel, ...]
    name: str | None = None
    type: str | None = None
    metadata: Any = None
    transform: Transform | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Channel:
    """Rendering settings of one channel.

    Attributes:
        label: The name of the channel.
        color: The colour as ``"RRGGBB"``.
        window: The values to display: ``min``, ``max``, ``start`` and ``end``.
        active: True if the channel is shown.
        extra: Further members of the metadata.

    Examples:
        >>> channels = [oz.ome.Channel("DAPI", "0000FF"), oz.ome.Channel("GFP", "00FF00")]
        >>> image = oz.ome.write("cell.zarr", np.ones((2, 8, 8)), axes="cyx", channels=channels)
        >>> image.channels[1].label
        'GFP'
    """

    label: str | None = None
    color: str | None = None
    window: Mapping[str, float] | None = None
    active: bool | None = None
    extra: Extra = field(default_factory=dict)


_COLOURS = ("00A0FF", "00FF00", "FF4040", "FF00FF", "FFFF00", "00FFFF")
_DYES = re.compile(r"(dapi|hoechst|dna|nucle)|(gfp|fitc|488)|(rfp|cherry|cy3)|(cy5|647)", re.I)


def default_colours(labels: Sequence[Any]) -> list[str]:
    """Return colours for channels: of known dyes, or one that no other has; white for one alone."""
    dyes = [_DYES.search(str(label)) for label in labels]
    taken = {dye.lastindex for dye in dyes if dye}
    free = cycle([c for i, c in enumerate(_COLOURS, 1) if i not in taken])
    found = [_COLOURS[(dye.lastindex or 1) - 1] if dye else next(free) for dye in dyes]
    return found if len(found) > 1 else ["FFFFFF"] * len(found)


def is_colour(text: str) -> bool:
    """Return True if `text` is six hexadecimal digits."""
    return re.fullmatch("[0-9A-Fa-f]{6}", text) is not None


@dataclass(frozen=True, slots=True)
class Omero:
    """Rendering settings of OMERO."""

    channels: tuple[Channel, ...]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageLabel:
    """Colours (RGBA, 0 to 255) and properties of the values of a label image, by value.

    Attributes:
        colors: Colours by value.
        properties: Properties by value.
        source: The path of the image, relative to the labels.
        extra: Further members of the metadata.
    """

    colors: Mapping[int, tuple[int, int, int, int] | None] = field(default_factory=dict)
    properties: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    source: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acquisition:
    """One acquisition run of a plate.

    Attributes:
        id: The number of the run.
        name: Its name.
        extra: Further members of the metadata.

    Examples:
        >>> oz.ome.Acquisition(1, "morning").name
        'morning'
    """

    id: int
    name: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WellPlace:
    """A well on a plate: its path, row and column."""

    path: str
    row: int
    column: int
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlateLayout:
    """The rows, columns and wells of a plate."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    wells: tuple[WellPlace, ...]
    name: str | None = None
    field_count: int | None = None
    acquisitions: tuple[Acquisition, ...] = ()
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of view: its path in the well, and the id of its acquisition."""

    path: str
    acquisition: int | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WellLayout:
    """The fields of view of a well."""

    fields: tuple[FieldPlace, ...]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metadata:
    """All OME-Zarr metadata of a group."""

    multiscales: tuple[Multiscale, ...] = ()
    omero: Omero | None = None
    image_label: ImageLabel | None = None
    plate: PlateLayout | None = None
    well: WellLayout | None = None
    labels: tuple[str, ...] | None = None
    series: tuple[str, ...] | None = None
    bioformats2raw: int | None = None
    extra: Extra = field(default_factory=dict)


def _objects(kind: Callable[..., M]) -> Callable[[list[Json]], tuple[M, ...]]:
    return lambda several: tuple(_read(kind, each) for each in several)


def _object(kind: Callable[..., M]) -> Callable[[Json], M]:
    return lambda members: _read(kind, members)


def _names(several: list[Json]) -> tuple[str, ...]:
    return tuple(each["name"] for each in several)


def _transform(several: list[Json]) -> Transform | None:
    found = {t["type"]: tuple(float(n) for n in t[t["type"]]) for t in several}
    return Transform(found["scale"], found.get("translation")) if several else None


def _image_label(members: Json) -> ImageLabel:
    colors: dict[int, Any] = {}
    extra = _rest(members, "colors", "properties", "source")
    for color in members.get("colors", []):
        rgba = color.get("rgba")
        colors[color["label-value"]] = None if rgba is None else tuple(rgba)
        if _rest(color, "label-value", "rgba"):  # more than a colour: kept unchanged
            extra["colors"] = members["colors"]
    properties = {p["label-value"]: _rest(p, "label-value") for p in members.get("properties", [])}
    source = members.get("source", {})
    if _rest(source, "image"):
        extra["source"] = source
    return ImageLabel(colors, properties, source.get("image"), extra)


def _plate(members: Json) -> PlateLayout:
    several = {axis: members[axis] for axis in ("rows", "columns")}
    kept = {k: v for k, v in several.items() if any(_rest(each, "name") for each in v)}
    plate = _read(PlateLayout, members)
    return replace(plate, extra={**plate.extra, **kept})  # more than names: kept unchanged


# The members of every object in the order in which they are written: the JSON name, the name of the
# field, and the function that reads the value, if it is not the field's value itself.
_MEMBERS: dict[Any, list[tuple[str, str, Callable[[Any], Any]]]] = {}


def _describe(kind: type, text: str, **read: Callable[[Any], Any]) -> None:
    """Record the members of a class; ``json=field`` stands for a field with another name."""
    pairs = [each.partition("=") for each in text.split()]
    _MEMBERS[kind] = [
        (name, field or name, read.get(field or name, lambda value: value))
        for name, _, field in pairs
    ]


_describe(Axis, "name type unit")
_describe(ImageLevel, "path coordinateTransformations=transform", transform=_transform)
_describe(
    Multiscale,
    "name axes datasets coordinateTransformations=transform type metadata",
    axes=_objects(Axis),
    datasets=_objects(ImageLevel),
    transform=_transform,
)
_describe(Channel, "label color window active")
_describe(Omero, "channels", channels=_objects(Channel))
_describe(Acquisition, "id name")
_describe(WellPlace, "path rowIndex=row columnIndex=column")
_describe(
    PlateLayout,
    "name rows columns wells field_count acquisitions",
    rows=_names,
    columns=_names,
    wells=_objects(WellPlace),
    acquisitions=_objects(Acquisition),
)
_describe(FieldPlace, "path acquisition")
_describe(WellLayout, "images=fields", fields=_objects(FieldPlace))
_describe(
    Metadata,
    "bioformats2raw.layout=bioformats2raw multiscales omero image-label=image_label plate well"
    " labels series",
    multiscales=_objects(Multiscale),
    omero=_object(Omero),
    image_label=_image_label,
    plate=_plate,
    well=_object(WellLayout),
    labels=tuple,
    series=tuple,
)


def from_json(members: Json) -> Metadata:
    """Return the model of metadata that passed validation without errors."""
    return _read(Metadata, members)


def _read(kind: Callable[..., M], members: Json) -> M:
    described = _MEMBERS[kind]
    found = {
        field: read(members[name])
        for name, field, read in described
        if members.get(name) is not None
    }
    return kind(**found, extra=_rest(members, *(name for name, _, _ in described)))


def _rest(members: Json, *names: str) -> Json:
    return {k: v for k, v in members.items() if k not in names}


def to_json(metadata: Metadata) -> Json:
    """Return metadata as JSON of the newest version, without the version number."""
    return {k: v for k, v in _json_of(metadata).items() if k != "multiscales" or v}


def _json_of(value: Any, name: str = "") -> Any:
    """Return a value as JSON; for a member, the form depends on its name."""
    if name in ("rows", "columns"):
        return [{"name": each} for each in value]
    if isinstance(value, Transform):
        several: list[Json] = [{"type": "scale", "scale": list(value.scale)}]
        if value.translation is not None:
            several.append({"type": "translation", "translation": list(value.translation)})
        return several
    if isinstance(value, ImageLabel):
        return _label_json(value)
    if type(value) in _MEMBERS:
        stated = ((name, getattr(value, field)) for name, field, _ in _MEMBERS[type(value)])
        present = {n: _json_of(v, n) for n, v in stated if v is not None}
        if present.get("acquisitions") == []:
            del present["acquisitions"]
        return {**present, **value.extra}
    if isinstance(value, Mapping):
        return dict(value)
    return [_json_of(each) for each in value] if isinstance(value, tuple) else value


def _label_json(label: ImageLabel) -> Json:
    found: Json = {}
    if label.colors:
        found["colors"] = [
            {"label-value": v, **({} if c is None else {"rgba": list(c)})}
            for v, c in label.colors.items()
        ]
    if label.properties:
        found["properties"] = [{"label-value": v, **p} for v, p in label.properties.items()]
    if label.source is not None:
        found["source"] = {"image": label.source}
    return {**found, **label.extra}


# Regions in physical units

# Quotients such as 0.3 / 0.1 differ from whole numbers by rounding errors.
_TOLERANCE = 1e-6


def axis_factor(axis: Axis, unit: str | Mapping[str, str] | None) -> float:
    """Return the factor from `unit` to the axis' own unit.

    A single unit applies to the axes of its kind; the others keep their own.
    """
    asked = unit.get(axis.name) if isinstance(unit, Mapping) else unit
    if asked is None:
        return 1.0
    kind = unit_kind(asked)
    if kind is None:
        raise unknown_unit(asked)
    if axis.type != kind and not isinstance(unit, Mapping):
        return 1.0
    if axis.unit is None:
        raise InvalidArgument(
            f"axis {axis.name!r} has no unit, so {asked!r} cannot be converted; omit the unit to"
            " use the scale of the axis"
        )
    return unit_factor(asked, axis.unit)


def select(
    axes: Sequence[Axis],
    shape: Sequence[int],
    transform: Transform,
    region: Mapping[str, Any],
    unit: str | Mapping[str, str] | None,
    channels: Sequence[str | None],
) -> tuple[slice | int, ...]:
    """Return the selection of a region; axes that it does not name are selected whole."""
    known = [axis.name for axis in axes]
    for name in region:
        if name not in known:
            raise SelectionError(f"unknown axis {name!r}; axes: {', '.join(known)}")
    found: list[slice | int] = [slice(None)] * len(axes)
    for i, axis in enumerate(axes):
        if axis.name not in region:
            continue
        wanted = region[axis.name]
        if axis.type == "channel" and not isinstance(wanted, slice):
            found[i] = _channel(axis, shape[i], wanted, channels)
        else:
            scale, offset = transform.scale[i], transform.offset[i]
            found[i] = _along(axis, shape[i], scale, offset, wanted, unit)
    return tuple(found)


def _along(
    axis: Axis,
    length: int,
    scale: float,
    offset: float,
    wanted: Any,
    unit: str | Mapping[str, str] | None,
) -> slice | int:
    if isinstance(wanted, slice):
        if not range(length)[wanted]:
            raise SelectionError(f"no pixel in {wanted!r} of {length} along axis {axis.name!r}")
        return wanted
    factor = axis_factor(axis, unit)
    reach = f"from {offset:g} to {offset + scale * (length - 1):g} {axis.unit or ''}".strip()
    extent = f"axis {axis.name!r}, which reaches {reach}"
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        if all(w is None or _is_number(w) for w in wanted):
            ends = [None if w is None else (float(w) * factor - offset) / scale for w in wanted]
            start = 0 if ends[0] is None else _ceil(ends[0], length)
            stop = length if ends[1] is None else _ceil(ends[1], length)
            if start < stop:
                return slice(start, stop)
            raise SelectionError(f"no pixel in {wanted!r} of {extent}")
    elif _is_number(wanted):
        position = (float(wanted) * factor - offset) / scale
        if -1 < position < length and 0 <= round(position) < length:
            return round(position)
        raise SelectionError(f"{wanted!r} is outside {extent}")
    raise SelectionError(
        f"axis {axis.name!r}: expected (start, stop), one position, or a slice of pixels,"
        f" got {wanted!r}"
    )


def _is_number(value: Any) -> bool:
    known = isinstance(value, (int, float, np.integer, np.floating))
    return known and not isinstance(value, bool) and not math.isnan(value)


def _ceil(position: float, length: int) -> int:
    """Return the first pixel from a position on, which may be infinite, or the end."""
    return math.ceil(min(max(position - _TOLERANCE, 0), length))


def _channel(axis: Axis, length: int, wanted: Any, channels: Sequence[str | None]) -> slice | int:
    """Return the index of a channel selected by number or label, or a range of numbers."""
    if isinstance(wanted, str):
        if wanted not in channels:
            names = ", ".join(repr(c) for c in channels) or "none have labels"
            raise SelectionError(f"unknown channel {wanted!r}; channels: {names}")
        return list(channels).index(wanted)
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        with suppress(TypeError):
            found = range(*slice(*wanted).indices(length))
            if found:
                return slice(found.start, found.stop)
    known = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    if known and -length <= wanted < length:
        return int(wanted) % length
    raise SelectionError(f"axis {axis.name!r} has {length} channels; {wanted!r} is not one of them")


_PREFIXES = {
    "yotta": 1e24, "zetta": 1e21, "exa": 1e18, "peta": 1e15, "tera": 1e12, "giga": 1e9,
    "mega": 1e6, "kilo": 1e3, "hecto": 1e2, "": 1.0, "deci": 1e-1, "centi": 1e-2, "milli": 1e-3,
    "micro": 1e-6, "nano": 1e-9, "pico": 1e-12, "femto": 1e-15, "atto": 1e-18, "zepto": 1e-21,
    "yocto": 1e-24,
}  # fmt: skip
_UNITS = {  # in metres and seconds
    "space": {
        **{f"{prefix}meter": factor for prefix, factor in _PREFIXES.items()},
        "angstrom": 1e-10,
        "inch": 0.0254,
        "foot": 0.3048,
        "yard": 0.9144,
        "mile": 1609.344,
        "parsec": 3.0856775814913673e16,
    },
    "time": {
        **{f"{prefix}second": factor for prefix, factor in _PREFIXES.items()},
        "minute": 60.0,
        "hour": 3600.0,
        "day": 86400.0,
    },
}
_SHORT = {
    "m": "meter", "cm": "centimeter", "mm": "millimeter", "um": "micrometer", "µm": "micrometer",
    "μm": "micrometer", "micron": "micrometer", "nm": "nanometer", "pm": "picometer",
    "s": "second", "ms": "millisecond", "us": "microsecond", "µs": "microsecond",
    "ns": "nanosecond", "min": "minute", "h": "hour", "d": "day",
}  # fmt: skip


def unit_name(text: str) -> str:
    """Return the OME-Zarr name of a unit, which may be abbreviated as ``um`` or ``µm``."""
    return _SHORT.get(text, text)


def unit_kind(unit: str | None) -> str | None:
    """Return ``space``, ``time``, or None if the unit is unknown."""
    name = None if unit is None else unit_name(unit)
    return next((kind for kind, factors in _UNITS.items() if name in factors), None)


def unknown_unit(name: str) -> InvalidArgument:
    """Return the error for a unit of neither space nor time."""
    known = known_names(name, (*_UNITS["space"], *_UNITS["time"], *_SHORT))
    return InvalidArgument(f"unknown unit {name!r}; {known}")


def unit_factor(source: str, target: str) -> float:
    """Return the factor from one unit to another."""
    a, b = unit_name(source), unit_name(target)
    if a == b:
        return 1.0
    for name in (a, b):
        if unit_kind(name) is None:
            raise unknown_unit(name)
    kind = unit_kind(a) or ""
    if unit_kind(b) != kind:
        message = f"cannot convert {source!r} to {target!r}: one is length, one is time"
        raise InvalidArgument(message)
    return _UNITS[kind][a] / _UNITS[kind][b]
