"""What OME-Zarr metadata say, in the terms of the newest version.

Every object keeps members that it does not know in `extra`, so that a rewrite loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Extra = Mapping[str, Any]
_HEX = set("0123456789abcdefABCDEF")


def _no_extra() -> Extra:
    return {}


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image: ``space``, ``time``, ``channel``, another type, or None."""

    name: str
    type: str | None = None
    unit: str | None = None
    extra: Extra = field(default_factory=_no_extra)

    def __repr__(self) -> str:
        words = [w for w in (self.type, self.unit) if w is not None]
        return f"Axis({self.name}{': ' if words else ''}{', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Transform:
    """From positions in an array to positions in space: times `scale`, plus `translation`."""

    scale: tuple[float, ...]
    translation: tuple[float, ...] | None = None

    def after(self, first: Transform) -> Transform:
        """One transform that does what `first` and then this one do."""
        scale = tuple(a * b for a, b in zip(first.scale, self.scale, strict=True))
        if first.translation is None and self.translation is None:
            return Transform(scale)
        moved = tuple(t * s for t, s in zip(first.offset, self.scale, strict=True))
        return Transform(scale, tuple(a + b for a, b in zip(moved, self.offset, strict=True)))

    @property
    def offset(self) -> tuple[float, ...]:
        """The translation, zeros where none is stated."""
        return self.translation or (0.0,) * len(self.scale)


@dataclass(frozen=True, slots=True)
class Dataset:
    """One level: the path of its array, and where its pixels lie; None where not stated."""

    path: str
    transform: Transform | None = None
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class Multiscale:
    """An image at several resolutions, the finest first."""

    axes: tuple[Axis, ...]
    datasets: tuple[Dataset, ...]
    name: str | None = None
    type: str | None = None
    metadata: Any = None
    transform: Transform | None = None  # for all levels, after their own
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class Channel:
    """How to show one channel: a colour as ``"RRGGBB"``, the window of values to stretch."""

    label: str | None = None
    color: str | None = None
    window: Mapping[str, float] | None = None  # min, max, start, end
    active: bool | None = None
    extra: Extra = field(default_factory=_no_extra)


def is_colour(text: str) -> bool:
    """Whether a text is six hexadecimal digits."""
    return len(text) == 6 and set(text) <= _HEX


@dataclass(frozen=True, slots=True)
class Omero:
    """Rendering hints of OMERO."""

    channels: tuple[Channel, ...]
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class ImageLabel:
    """What the values of a label image mean: colours as RGBA bytes, and properties, by value."""

    colors: Mapping[int, tuple[int, int, int, int] | None] = field(default_factory=dict)
    properties: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    source: str | None = None
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class Acquisition:
    """One run of the microscope over a plate."""

    id: int
    name: str | None = None
    extra: Extra = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class WellPlace:
    """Where a well is: its path, and its row and column on the plate."""

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
    """A field of view: its path in the well, and its acquisition's id."""

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
    """All that a group says about itself."""

    multiscales: tuple[Multiscale, ...] = ()
    omero: Omero | None = None
    image_label: ImageLabel | None = None
    plate: PlateLayout | None = None
    well: WellLayout | None = None
    labels: tuple[str, ...] | None = None
    series: tuple[str, ...] | None = None
    bioformats2raw: int | None = None
    extra: Extra = field(default_factory=_no_extra)
