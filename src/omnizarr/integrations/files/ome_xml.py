"""OME-XML in the description of an OME-TIFF file: pixel sizes, channels and names of images.

Specification: https://www.openmicroscopy.org/Schemas/OME/2016-06/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from omnizarr.conventions.ome.model import Channel
from omnizarr.conventions.ome.region import unit_kind, unit_name
from omnizarr.errors import OmnizarrError
from omnizarr.integrations.files.contents import ImageEntry

_UNITS = {"µm": "micrometer", "nm": "nanometer", "mm": "millimeter", "pm": "picometer",
          "cm": "centimeter", "m": "meter", "Å": "angstrom", "s": "second", "ms": "millisecond",
          "µs": "microsecond", "ns": "nanosecond", "min": "minute", "h": "hour"}  # fmt: skip
_SYMBOLS = {name: symbol for symbol, name in _UNITS.items()}


@dataclass(frozen=True)
class OmeImage:
    """The description of one image."""

    name: str = ""
    sizes: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()

    def entry(self, axes: str, shape: tuple[int, ...]) -> ImageEntry:
        """Return the description of an array of these axes."""
        names = axes.lower()
        sizes, units = dict(self.sizes), dict(self.units)
        for one, other in ("xy", "yx"):  # pixels are square unless it is said otherwise
            if one in sizes and other not in sizes:
                sizes[other] = sizes[one]
                units.update({other: units[one]} if one in units else {})
        count = shape[names.index("c")] if "c" in names else 1
        return ImageEntry(
            names,
            {a: v for a, v in sizes.items() if a in names},
            {a: u for a, u in units.items() if a in names},
            self.channels if len(self.channels) == count else (),
            self.name,
        )


def read_images(text: str | None) -> list[OmeImage]:
    """Return the images that OME-XML describes, in its order; an empty list if it is not XML."""
    if not text:
        return []
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return []
    return [_image(e) for e in root if _tag(e) == "Image"]


def _image(element: ElementTree.Element) -> OmeImage:
    pixels = next((e for e in element if _tag(e) == "Pixels"), None)
    if pixels is None:
        return OmeImage(element.get("Name", ""))
    sizes: dict[str, float] = {}
    units: dict[str, str] = {}
    for axis, name, default in (
        ("x", "PhysicalSizeX", "µm"),
        ("y", "PhysicalSizeY", "µm"),
        ("z", "PhysicalSizeZ", "µm"),
        ("t", "TimeIncrement", "s"),
    ):
        size = _number(pixels.get(name))
        if size is not None and 0 < size < float("inf"):
            sizes[axis] = size
            unit = _unit(pixels.get(f"{name}Unit", default))
            if unit is not None:
                units[axis] = unit
    channels = [e for e in pixels if _tag(e) == "Channel"]
    named = any(c.get("Name") or c.get("Color") for c in channels)
    found = tuple(_channel(c, i) for i, c in enumerate(channels)) if named else ()
    return OmeImage(element.get("Name", ""), sizes, units, found)


def _channel(element: ElementTree.Element, number: int) -> Channel:
    color = element.get("Color")
    try:  # a signed 32-bit number, RGBA
        rgb = None if color is None else f"{(int(color) >> 8) & 0xFFFFFF:06X}"
    except ValueError:
        rgb = None
    return Channel(element.get("Name") or f"channel {number}", color=rgb)


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _unit(text: str) -> str | None:
    """Return the name of a unit in OME-Zarr; None if it has none, such as "pixel"."""
    if text in _UNITS:
        return _UNITS[text]
    try:
        return unit_name(text) if unit_kind(text) is not None else None
    except OmnizarrError:
        return None


def xml_metadata(
    name: str | None,
    sizes: Mapping[str, float],
    units: Mapping[str, str | None],
    channels: tuple[Channel, ...],
) -> dict[str, Any]:
    """Return the metadata that tifffile writes as OME-XML, without the axes."""
    out: dict[str, Any] = {"Name": name} if name else {}
    for axis, key in (("x", "PhysicalSizeX"), ("y", "PhysicalSizeY"), ("z", "PhysicalSizeZ"),
                      ("t", "TimeIncrement")):  # fmt: skip
        unit = units.get(axis)
        if axis in sizes and unit in _SYMBOLS:
            out[key], out[f"{key}Unit"] = sizes[axis], _SYMBOLS[unit]
    if channels:
        out["Channel"] = {"Name": [c.label for c in channels]}
        if all(c.color for c in channels):
            out["Channel"]["Color"] = [_signed(c.color or "FFFFFF") for c in channels]
    return out


def _signed(color: str) -> int:
    """Return a colour of six digits as a signed 32-bit number, RGBA."""
    value = (int(color, 16) << 8) | 0xFF
    return value - 2**32 if value >= 2**31 else value
