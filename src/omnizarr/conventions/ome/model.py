"""The model of OME-Zarr metadata, and its conversion from and to JSON of the newest version.

Every object keeps unknown members in `extra`, so that rewriting metadata loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

Json = dict[str, Any]
Extra = Mapping[str, Any]
M = TypeVar("M")
_HEX = set("0123456789abcdefABCDEF")


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

    Examples:
        >>> oz.ome.Transform((0.5, 0.1)).offset
        (0.0, 0.0)
    """

    scale: tuple[float, ...]
    translation: tuple[float, ...] | None = None

    def after(self, first: Transform) -> Transform:
        """Return the transform that applies `first`, then this one.

        Args:
            first: The transform that is applied first.

        Examples:
            >>> oz.ome.Transform((2.0,), (1.0,)).after(oz.ome.Transform((3.0,))).scale
            (6.0,)
        """
        scale = tuple(a * b for a, b in zip(first.scale, self.scale, strict=True))
        if first.translation is None and self.translation is None:
            return Transform(scale)
        moved = tuple(t * s for t, s in zip(first.offset, self.scale, strict=True))
        return Transform(scale, tuple(a + b for a, b in zip(moved, self.offset, strict=True)))

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

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx", name="cell")
        >>> image.multiscale.name
        'cell'
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


def is_colour(text: str) -> bool:
    """Return True if `text` is six hexadecimal digits."""
    return len(text) == 6 and set(text) <= _HEX


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

    Examples:
        >>> oz.ome.ImageLabel(colors={1: (255, 0, 0, 255)}).colors[1]
        (255, 0, 0, 255)
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
    """Return the JSON of a value; that of a member depends on its name."""
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
