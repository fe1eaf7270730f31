"""The model of OME-Zarr metadata, and its conversion from and to JSON of the newest version.

Every object keeps unknown members in `extra`, so that rewriting metadata loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Extra = Mapping[str, Any]
_HEX = set("0123456789abcdefABCDEF")


def _no_extra() -> Extra:
    return {}


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
    extra: Extra = field(default_factory=_no_extra)

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
class Dataset:
    """One resolution level: the path of its array, and its transform or None."""

    path: str
    transform: Transform | None = None
    extra: Extra = field(default_factory=_no_extra)


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
    datasets: tuple[Dataset, ...]
    name: str | None = None
    type: str | None = None
    metadata: Any = None
    transform: Transform | None = None  # for all levels, after their own
    extra: Extra = field(default_factory=_no_extra)


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
    window: Mapping[str, float] | None = None  # min, max, start, end
    active: bool | None = None
    extra: Extra = field(default_factory=_no_extra)


def is_colour(text: str) -> bool:
    """Return True if `text` is six hexadecimal digits."""
    return len(text) == 6 and set(text) <= _HEX


@dataclass(frozen=True, slots=True)
class Omero:
    """Rendering settings of OMERO."""

    channels: tuple[Channel, ...]
    extra: Extra = field(default_factory=_no_extra)


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
    extra: Extra = field(default_factory=_no_extra)


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
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class WellPlace:
    """A well on a plate: its path, row and column."""

    path: str
    row: int
    column: int
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class PlateLayout:
    """The rows, columns and wells of a plate."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    wells: tuple[WellPlace, ...]
    name: str | None = None
    field_count: int | None = None
    acquisitions: tuple[Acquisition, ...] = ()
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of view: its path in the well, and the id of its acquisition."""

    path: str
    acquisition: int | None = None
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class WellLayout:
    """The fields of view of a well."""

    fields: tuple[FieldPlace, ...]
    extra: Extra = field(default_factory=_no_extra)


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
    extra: Extra = field(default_factory=_no_extra)


def from_json(members: Json) -> Metadata:
    """Return the model of metadata that passed validation without errors."""
    several = members.get("multiscales", [])
    omero, label = members.get("omero"), members.get("image-label")
    plate, well = members.get("plate"), members.get("well")
    labels, series = members.get("labels"), members.get("series")
    return Metadata(
        multiscales=tuple(_multiscale(m) for m in several),
        omero=None if omero is None else _omero(omero),
        image_label=None if label is None else _image_label(label),
        plate=None if plate is None else _plate(plate),
        well=None if well is None else _well(well),
        labels=None if labels is None else tuple(labels),
        series=None if series is None else tuple(series),
        bioformats2raw=members.get("bioformats2raw.layout"),
        extra=_rest(members, "multiscales", "omero", "image-label", "plate", "well", "labels",
                    "series", "bioformats2raw.layout"),
    )  # fmt: skip


def to_json(metadata: Metadata) -> Json:
    """Return metadata as JSON of the newest version, without the version number."""
    m = metadata
    return _present(
        {
            "bioformats2raw.layout": m.bioformats2raw,
            "multiscales": [_multiscale_json(s) for s in m.multiscales] or None,
            "omero": None if m.omero is None else _omero_json(m.omero),
            "image-label": None if m.image_label is None else _image_label_json(m.image_label),
            "plate": None if m.plate is None else _plate_json(m.plate),
            "well": None if m.well is None else _well_json(m.well),
            "labels": None if m.labels is None else list(m.labels),
            "series": None if m.series is None else list(m.series),
        },
        m.extra,
    )


def _rest(values: Json, *names: str) -> Json:
    return {k: v for k, v in values.items() if k not in names}


def _present(values: Json, extra: Mapping[str, Any]) -> Json:
    return {**{k: v for k, v in values.items() if v is not None}, **extra}


def _multiscale(values: Json) -> Multiscale:
    return Multiscale(
        axes=tuple(_axis(a) for a in values["axes"]),
        datasets=tuple(_dataset(d) for d in values["datasets"]),
        name=values.get("name"),
        type=values.get("type"),
        metadata=values.get("metadata"),
        transform=_transform(values.get("coordinateTransformations")),
        extra=_rest(
            values, "axes", "datasets", "name", "type", "metadata", "coordinateTransformations"
        ),
    )


def _multiscale_json(m: Multiscale) -> Json:
    return _present(
        {
            "name": m.name,
            "axes": [_present({"name": a.name, "type": a.type, "unit": a.unit}, a.extra)
                     for a in m.axes],
            "datasets": [_dataset_json(d) for d in m.datasets],
            "coordinateTransformations": _transform_json(m.transform),
            "type": m.type,
            "metadata": m.metadata,
        },
        m.extra,
    )  # fmt: skip


def _axis(values: Json) -> Axis:
    rest = _rest(values, "name", "type", "unit")
    return Axis(values["name"], values.get("type"), values.get("unit"), rest)


def _dataset(values: Json) -> Dataset:
    transform = _transform(values.get("coordinateTransformations"))
    return Dataset(values["path"], transform, _rest(values, "path", "coordinateTransformations"))


def _dataset_json(d: Dataset) -> Json:
    transform = _transform_json(d.transform)
    return _present({"path": d.path, "coordinateTransformations": transform}, d.extra)


def _transform(several: list[Json] | None) -> Transform | None:
    if not several:
        return None
    found = {t["type"]: tuple(float(n) for n in t[t["type"]]) for t in several}
    return Transform(found["scale"], found.get("translation"))


def _transform_json(transform: Transform | None) -> list[Json] | None:
    if transform is None:
        return None
    found: list[Json] = [{"type": "scale", "scale": list(transform.scale)}]
    if transform.translation is not None:
        found.append({"type": "translation", "translation": list(transform.translation)})
    return found


def _omero(values: Json) -> Omero:
    channels = tuple(
        Channel(
            c.get("label"),
            c.get("color"),
            c.get("window"),
            c.get("active"),
            _rest(c, "label", "color", "window", "active"),
        )
        for c in values["channels"]
    )
    return Omero(channels, _rest(values, "channels"))


def _omero_json(omero: Omero) -> Json:
    channels = [
        _present(
            {
                "label": c.label,
                "color": c.color,
                "window": None if c.window is None else dict(c.window),
                "active": c.active,
            },
            c.extra,
        )
        for c in omero.channels
    ]
    return {"channels": channels, **omero.extra}


def _image_label(values: Json) -> ImageLabel:
    colors: dict[int, Any] = {}
    extra = _rest(values, "colors", "properties", "source")
    for color in values.get("colors", []):
        rgba = color.get("rgba")
        colors[color["label-value"]] = None if rgba is None else tuple(rgba)
        if _rest(color, "label-value", "rgba"):  # more than a colour: kept unchanged
            extra["colors"] = values["colors"]
    properties = {p["label-value"]: _rest(p, "label-value") for p in values.get("properties", [])}
    source = values.get("source", {})
    if _rest(source, "image"):
        extra["source"] = source
    return ImageLabel(colors, properties, source.get("image"), extra)


def _image_label_json(label: ImageLabel) -> Json:
    colors = [
        _present({"label-value": v, "rgba": None if c is None else list(c)}, {})
        for v, c in label.colors.items()
    ]
    properties = [{"label-value": v, **p} for v, p in label.properties.items()]
    source = None if label.source is None else {"image": label.source}
    members = {"colors": colors or None, "properties": properties or None, "source": source}
    return _present(members, label.extra)


def _names(values: Iterable[Json]) -> tuple[str, ...]:
    return tuple(v["name"] for v in values)


def _plate(values: Json) -> PlateLayout:
    wells = tuple(
        WellPlace(w["path"], w["rowIndex"], w["columnIndex"],
                  _rest(w, "path", "rowIndex", "columnIndex"))
        for w in values["wells"]
    )  # fmt: skip
    acquisitions = tuple(
        Acquisition(a["id"], a.get("name"), _rest(a, "id", "name"))
        for a in values.get("acquisitions", [])
    )
    known = ["rows", "columns", "wells", "name", "field_count", "acquisitions"]
    extra = _rest(values, *known)
    for axis in ("rows", "columns"):
        if any(_rest(v, "name") for v in values[axis]):  # more than names: kept unchanged
            extra[axis] = values[axis]
    return PlateLayout(
        rows=_names(values["rows"]),
        columns=_names(values["columns"]),
        wells=wells,
        name=values.get("name"),
        field_count=values.get("field_count"),
        acquisitions=acquisitions,
        extra=extra,
    )


def _plate_json(plate: PlateLayout) -> Json:
    wells = [
        {"path": w.path, "rowIndex": w.row, "columnIndex": w.column, **w.extra} for w in plate.wells
    ]
    acquisitions = [_present({"id": a.id, "name": a.name}, a.extra) for a in plate.acquisitions]
    return _present(
        {
            "name": plate.name,
            "rows": [{"name": name} for name in plate.rows],
            "columns": [{"name": name} for name in plate.columns],
            "wells": wells,
            "field_count": plate.field_count,
            "acquisitions": acquisitions or None,
        },
        plate.extra,
    )


def _well(values: Json) -> WellLayout:
    fields = tuple(
        FieldPlace(i["path"], i.get("acquisition"), _rest(i, "path", "acquisition"))
        for i in values["images"]
    )
    return WellLayout(fields, _rest(values, "images"))


def _well_json(well: WellLayout) -> Json:
    images = [_present({"path": f.path, "acquisition": f.acquisition}, f.extra)
              for f in well.fields]  # fmt: skip
    return {"images": images, **well.extra}
