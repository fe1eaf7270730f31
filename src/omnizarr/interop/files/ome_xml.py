"""OME-XML in the description of an OME-TIFF file: pixel sizes, channels and names of images.

Specification: https://www.openmicroscopy.org/Schemas/OME/2016-06/
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from omnizarr.conventions.ome.model import Channel, unit_name
from omnizarr.interop.files.contents import ImageEntry

_PREFIXES = {
    "Y": "yotta", "Z": "zetta", "E": "exa", "P": "peta", "T": "tera", "G": "giga", "M": "mega",
    "k": "kilo", "h": "hecto", "": "", "d": "deci", "c": "centi", "m": "milli", "µ": "micro",
    "n": "nano", "p": "pico", "f": "femto", "a": "atto", "z": "zepto", "y": "yocto",
}  # fmt: skip
_UNITS = {
    **{f"{short}m": f"{long}meter" for short, long in _PREFIXES.items()},
    **{f"{short}s": f"{long}second" for short, long in _PREFIXES.items()},
    **{"Å": "angstrom", "in": "inch", "ft": "foot", "yd": "yard", "mi": "mile", "pc": "parsec"},
    **{"min": "minute", "h": "hour", "d": "day"},
}
# Lengths that have no name in OME-Zarr, where any text can be a unit; the table has their symbols.
_OTHERS = ("dam", "thou", "li", "ua", "ly", "pt")
_SYMBOLS = {name: symbol for symbol, name in _UNITS.items()} | {text: text for text in _OTHERS}
_NO_UNIT = ("pixel", "reference frame")  # of lengths; the second is for any that are not known
_SIZES = {"x": "PhysicalSizeX", "y": "PhysicalSizeY", "z": "PhysicalSizeZ", "t": "TimeIncrement"}
# What is read of an element, or says how the file is laid out.
_READ = {
    "OME": {"UUID", "Creator", "schemaLocation"},
    "Image": {"ID", "Name"},
    "Pixels": {
        *("ID", "DimensionOrder", "Type", "BigEndian", "Interleaved", "SizeX", "SizeY", "SizeZ"),
        *("SizeC", "SizeT", *_SIZES.values(), *(f"{name}Unit" for name in _SIZES.values())),
    },
    "Channel": {"ID", "Name", "Color", "SamplesPerPixel"},
    "TiffData": {"IFD", "PlaneCount", "FirstZ", "FirstC", "FirstT"},
    "UUID": {"FileName"},
    "MetadataOnly": set[str](),
    "Plane": {"TheZ", "TheC", "TheT"},
}


@dataclass(frozen=True)
class OmeImage:
    """The description of one image."""

    name: str = ""
    sizes: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()

    @property
    def parts(self) -> list[str]:
        """The names of the parts that describe the image."""
        said = {"name": self.name, "pixel sizes": self.sizes, "channels": self.channels}
        return [part for part, value in said.items() if value]

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
    return [_image(e) for e in root if _local_name(e) == "Image"]


def _image(element: ElementTree.Element) -> OmeImage:
    pixels = next((e for e in element if _local_name(e) == "Pixels"), None)
    if pixels is None:
        return OmeImage(element.get("Name", ""))
    sizes: dict[str, float] = {}
    units: dict[str, str] = {}
    for axis, name in _SIZES.items():
        size = _size(pixels.get(name))
        if size is not None:
            sizes[axis] = size
            unit = pixels.get(f"{name}Unit", "s" if axis == "t" else "µm")
            if unit not in _NO_UNIT:
                units[axis] = _UNITS.get(unit) or unit_name(unit)
    channels = [e for e in pixels if _local_name(e) == "Channel"]
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


def _local_name(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _size(text: str | None) -> float | None:
    """Return the size that a text states; None if it is no positive number."""
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def unread(text: str | None) -> list[str]:
    """Return the elements and attributes of OME-XML that `read_images` does not read."""
    try:
        root = ElementTree.fromstring(text or "")
    except ElementTree.ParseError:
        return ["all of it, which is not XML"]
    found: set[str] = set()
    waiting = [root]
    while waiting:
        element = waiting.pop(0)
        name = _local_name(element)
        if name not in _READ:
            if len(element) or element.attrib or (element.text or "").strip():
                found.add(name)
            continue
        waiting.extend(element)
        for attribute, value in element.items():
            short = attribute.rpartition("}")[2]
            if short not in _READ[name] or not _is_kept(short, value):
                found.add(f"{name} {short}")
    if _all_bits(root):
        found.discard("Pixels SignificantBits")
    return sorted(found)


def _is_kept(name: str, value: str) -> bool:
    """Return True if `read_images` keeps the whole value of an attribute."""
    if name in _SIZES.values():
        return _size(value) is not None
    if name == "Color":
        return value.lstrip("-").isdecimal() and int(value) & 0xFF == 0xFF
    return True


def _all_bits(root: ElementTree.Element) -> bool:
    """Return True if all bits of integers are significant, so that nothing needs to be stated."""
    pixels = [e for image in root for e in image if _local_name(e) == "Pixels"]
    stated = [(e.get("SignificantBits"), e.get("Type", "")) for e in pixels]
    return all(bits is None or kind.endswith(f"int{bits}") for bits, kind in stated)


def xml_metadata(
    name: str | None,
    sizes: Mapping[str, float],
    units: Mapping[str, str | None],
    channels: tuple[Channel, ...],
    lost: dict[str, str],
) -> dict[str, Any]:
    """Return the metadata that tifffile writes as OME-XML, without the axes.

    What OME-XML cannot express is added to `lost`, with the reason.
    """
    out: dict[str, Any] = {"Name": name} if name else {}
    unknown = {axis for axis, size in sizes.items() if size == 1 and units.get(axis) is None}
    if not {"x", "y"} <= unknown:  # readers take one of them for both
        unknown -= {"x", "y"}
    for axis, size in sizes.items():
        unit, key = units.get(axis), _SIZES.get(axis)
        if axis in unknown:
            continue
        symbol = _SYMBOLS.get(unit) if unit is not None else _NO_UNIT[1] if axis in "xyz" else None
        what = f"size of a pixel along {axis}"
        if key is None:
            lost[what] = f"OME-XML has no size along {axis}, here {size:g}"
        elif symbol is None:
            why = "no unit" if unit is None else f"the unit {unit!r}, which OME-XML does not have"
            lost[what] = f"{size:g} has {why}"
        else:
            out[key], out[f"{key}Unit"] = size, symbol
    if channels:
        labels = [c.label or "" for c in channels]
        out["Channel"] = {"Name": labels} if any(labels) else {}
        colours = [c.color for c in channels]
        if all(colours):
            out["Channel"]["Color"] = [_signed(c or "") for c in colours]
        elif any(colours):
            lost["colours of channels"] = "some channels have none"
    return out


def _signed(color: str) -> int:
    """Return a colour of six digits as a signed 32-bit number, RGBA."""
    value = (int(color, 16) << 8) | 0xFF
    return value - 2**32 if value >= 2**31 else value
