"""TIFF and OME-TIFF files: each series of pages becomes an array, those of OME-TIFF an image.

Specifications: TIFF 6.0, BigTIFF, and https://ome-model.readthedocs.io for OME-TIFF.

Only the strips and tiles that a box needs are read and decoded. Axes have the letters of tifffile
in lower case; OME-TIFF images are brought to the order of OME-Zarr: time, channel, z, y, x. Levels
of a pyramid are computed anew from full resolution.

The place of a GeoTIFF (OGC 19-008r4) becomes attributes of the array: `spatial:transform`, `_CRS`
and `proj:code`, as `geo.write` and `geo.write_crs` have them; its no-data value the fill value. Of
GDAL's metadata, the scale, offset, unit and name that all bands share become attributes of CF; what
differs from band to band, and the tags, are in the attribute `gdal`.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.geo.crs import (
    GEOTIFF_KEYS,
    PROJ,
    epsg_number,
    geotiff_crs,
    registered,
    to_gdal,
    to_proj,
)
from omnizarr.conventions.geo.transform import POINT, geotiff_transform
from omnizarr.conventions.geo.write import SPATIAL
from omnizarr.conventions.ome.region import unit_name
from omnizarr.errors import InvalidArgument, MissingModule, OmnizarrError
from omnizarr.extension import DEFAULT_FILL
from omnizarr.interop.files.contents import (
    ArrayEntry,
    Box,
    Contents,
    ImageEntry,
    native,
    number_in_text,
    plain_value,
)
from omnizarr.interop.files.ome_xml import OmeImage, read_images, unread

try:
    import tifffile
except ImportError as e:
    raise MissingModule(f"TIFF files need tifffile: pip install 'omnizarr[tiff]' ({e})") from e

_PAGE = {"S": 4, "Z": 1, "Y": 2, "X": 3}  # the place of an axis in the shape that pages decode to
_ORDER = "TCZYX"
_SMALL_TILE = 2**14  # bytes; smaller tiles would make too many chunks
_ERRORS = (
    tifffile.TiffFileError, ValueError, TypeError, OSError, RuntimeError, KeyError, IndexError,
    struct.error, zlib.error,
)  # fmt: skip
_IMAGEJ_UNITS = {
    **dict.fromkeys(("um", "µm", "μm", "micron", "microns", "micrometers"), "micrometer"),
    **dict.fromkeys((r"\u00b5m", r"\\u00b5m"), "micrometer"),  # as ImageJ escapes it
    **{"nanometers": "nanometer", "millimeters": "millimeter", "meters": "meter", "in": "inch"},
    **dict.fromkeys(("", "sec", "secs", "seconds"), "second"),  # "" only of time
    **{"msec": "millisecond", "usec": "microsecond", "µsec": "microsecond"},
    **dict.fromkeys(("mins", "minutes"), "minute"),
    **dict.fromkeys(("hr", "hrs", "hours"), "hour"),
    **{"days": "day"},
}
# What tifffile and the export add to the metadata of a file.
_OWN = {"shape", "axes", "truncated", "dimension_names", "array_shape"}
_DESCRIPTION, _RESOLUTION, _ORIENTATION, _PHOTOMETRIC = 270, (282, 283), 274, 262
# What values mean that are neither grey, with 0 as black, nor red, green and blue.
_MEANINGS = {
    0: "0 is white, the largest value black", 5: "samples are inks, such as CMYK",
    **dict.fromkeys((8, 9, 10), "samples are L*a*b*"),
}  # fmt: skip
# Tags that say how pixels are stored, and those that are read elsewhere, such as of GeoTIFF.
_READ_TAGS = frozenset(
    {*range(254, 260), 262, 266, 273, 277, 278, 279, 284, 292, 293, 296, 305, 317, *range(320, 331)}
    | {332, 334, 336, 338, 339, 347, *range(512, 533), 32997, 32998, 50838, 50839}
    | {33550, 33922, 34264, *range(34735, 34738), 42112, 42113}
)


@dataclass(frozen=True)
class SeriesValues:
    """The values of one series of pages, with its axes in another order."""

    file: str
    series: int
    order: tuple[int, ...]  # axes of the series, in the order of the array
    shape: tuple[int, ...]  # of the array
    added: tuple[int, ...] = ()  # axes of the array, of length 1, that the series does not have

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box."""
        with open_file(self.file) as opened:
            series = opened.series[self.series]
            sides = [b.indices(n)[:2] for b, n in zip(box, self.shape, strict=True)]
            inner = [slice(0)] * len(series.shape)
            own = [side for i, side in enumerate(sides) if i not in self.added]
            for place, (start, stop) in zip(self.order, own, strict=True):
                inner[place] = slice(start, stop)
            values = read_box(opened, series, tuple(inner))
        values = values.transpose(self.order)
        return values.reshape([stop - start for start, stop in sides])


@contextmanager
def open_file(file: str) -> Iterator[Any]:
    """Open a file for reading; raise InvalidArgument if it is damaged."""
    try:
        with tifffile.TiffFile(file) as opened:
            yield opened
    except OmnizarrError:
        raise
    except FileNotFoundError:
        raise
    except _ERRORS as e:
        if "imagecodecs" in str(e):
            raise MissingModule(f"{file!r}: {e}; pip install imagecodecs") from e
        raise InvalidArgument(f"{file!r} is damaged or no TIFF file: {e}") from e


def read_box(opened: Any, series: Any, box: Box) -> npt.NDArray[Any]:
    """Return the values in a box of a series, in the order of its axes."""
    keyframe = series.keyframe
    rank = len(keyframe.shape)
    leading = series.shape[: len(series.shape) - rank]
    if series.transform is not None or series.shape[len(leading) :] != keyframe.shape:
        return np.array(series.asarray(out="memmap")[box])  # a temporary file, not memory
    if series.dataoffset is not None:
        kind = opened.byteorder + series.dtype.char
        mapped = opened.filehandle.memmap_array(kind, series.shape, series.dataoffset)
        return np.array(mapped[box]).astype(native(series.dtype), copy=False)
    out = np.zeros([b.stop - b.start for b in box], native(series.dtype))
    ranges = [range(b.start, b.stop) for b in box[: len(leading)]]
    for index in itertools.product(*ranges):
        page = series[int(np.ravel_multi_index(index, leading))] if leading else series[0]
        place = tuple(i - b.start for i, b in zip(index, box, strict=False))
        if page is None:  # not in the file; OME-TIFF allows that
            out[place] = keyframe.nodata
        else:
            out[place] = _read_page(page, box[len(leading) :])
    return out


def _read_page(page: Any, box: Box) -> npt.NDArray[Any]:
    """Return a part of a page; only the strips or tiles that it touches are decoded."""
    keyframe = page.keyframe
    handle = page.parent.filehandle
    if handle.closed:
        handle.open()
    if keyframe.is_contiguous:
        if keyframe.is_memmappable:
            kind = keyframe.parent.byteorder + keyframe.dtype.char
            return np.array(handle.memmap_array(kind, keyframe.shape, page.dataoffsets[0])[box])
        return np.asarray(page.asarray()[box])
    places = [0 if a == "S" and keyframe.planarconfig == 2 else _PAGE[a] for a in keyframe.axes]
    region = [slice(0, n) for n in keyframe.shaped]
    for place, side in zip(places, box, strict=True):
        region[place] = side
    out = np.zeros([r.stop - r.start for r in region], keyframe.dtype)
    for number in _segments(keyframe, region):
        _copy_segment(page, number, region, out)
    return out.reshape([b.stop - b.start for b in box])


def _segments(keyframe: Any, region: list[slice]) -> Iterator[int]:
    """Yield the numbers of the strips or tiles that intersect a region of a page."""
    _, depth, length, width, _ = keyframe.shaped
    if keyframe.is_tiled:
        sizes = max(1, keyframe.tiledepth), keyframe.tilelength, keyframe.tilewidth
    else:
        sizes = 1, keyframe.rowsperstrip, width
    lengths = depth, min(length, keyframe.imagelength), width
    counts = [-(-n // max(1, s)) for n, s in zip(lengths, sizes, strict=True)]
    touched = [
        range(r.start // s, -(-r.stop // s)) for r, s in zip(region[1:4], sizes, strict=True)
    ]
    for s in range(region[0].start, region[0].stop):
        for d, h, w in itertools.product(*touched):
            yield ((s * counts[0] + d) * counts[1] + h) * counts[2] + w


def _copy_segment(page: Any, number: int, region: list[slice], out: npt.NDArray[Any]) -> None:
    keyframe, handle = page.keyframe, page.parent.filehandle
    if number >= len(page.dataoffsets):
        raise tifffile.TiffFileError(f"strip or tile {number} is missing")
    offset, size = page.dataoffsets[number], page.databytecounts[number]
    data = None
    if size:
        handle.seek(offset)
        data = handle.read(size)
        if len(data) != size:
            raise tifffile.TiffFileError(f"strip or tile {number} ends after the end of the file")
    segment, (s, *start, _), shape = keyframe.decode(
        data, number, jpegtables=page.jpegtables, jpegheader=keyframe.jpegheader
    )
    limits = keyframe.imagedepth, keyframe.imagelength, keyframe.imagewidth
    source: list[slice] = []
    target: list[slice] = []
    for begin, n, limit, side in zip(start, shape, limits, region[1:4], strict=False):
        low, high = max(begin, side.start), min(begin + n, limit, side.stop)
        if low >= high:
            return
        source.append(slice(low - begin, high - begin))
        target.append(slice(low - side.start, high - side.start))
    plane = out[s - region[0].start]
    if segment is None:
        plane[tuple(target)] = keyframe.nodata
    else:
        plane[tuple(target)] = segment[tuple(source)][..., region[4]]


def contents(file: str) -> Contents:
    """Return the series of a TIFF file: one at the root, or several by number."""
    found = Contents()
    with open_file(file) as opened:
        series = list(opened.series)
        if not series:
            raise InvalidArgument(f"{file!r} has no images")
        images = read_images(opened.ome_metadata) if opened.is_ome else []
        for number, each in enumerate(series):
            path = "" if len(series) == 1 else str(number)
            image = images[number] if len(images) == len(series) else None
            entry = _entry(file, opened, number, each, image, found)
            found.arrays[path] = _with_gdal(entry, each, number, found)
        if len(series) > 1:
            found.groups[""] = {}
        if opened.is_ome:
            _report_xml(opened.ome_metadata, len(series) == len(images), found)
    stem = os.path.splitext(file)[0]
    for beside in (f"{file}.msk", f"{file}.aux.xml", f"{stem}.tfw", f"{stem}.wld"):
        if os.path.isfile(beside):
            found.skipped[os.path.basename(beside)] = "what GDAL reads from it is left out"
    return found


def _report_xml(text: str | None, known: bool, found: Contents) -> None:
    """Report what OME-XML says and images do not keep."""
    lost = unread(text) if known else ["all of it: it has another number of images than the file"]
    if lost:
        found.skipped["OME-XML"] = f"an image has no place for: {', '.join(lost)}"


def _entry(
    file: str, opened: Any, number: int, series: Any, image: OmeImage | None, found: Contents
) -> ArrayEntry:
    if series.dtype is None or 0 in series.shape:
        raise InvalidArgument(f"series {number} of {file!r} has no pixels that can be read")
    if len(series.levels) > 1:
        found.notes.append(
            f"series {number} has {len(series.levels)} levels; the finest one is imported"
        )
    if series.keyframe.photometric == 3 and series.keyframe.colormap is not None:
        found.skipped[f"colour map of series {number}"] = "pixels are imported as indices"
    meaning = _MEANINGS.get(series.keyframe.tags.valueof(_PHOTOMETRIC))
    if meaning is not None:
        found.notes.append(f"pixels of series {number} are imported as stored: {meaning}")
    _report_tags(series, number, found)
    order = tuple(range(len(series.shape)))
    chunks = _tiles(series)
    own = _attributes(opened, series, number, found)
    arranged = _arranged(file, opened, number, series, image, own)
    if image is not None and arranged is not None:
        _report_image(image, arranged, number, found)
        return arranged
    if image is not None:
        found.notes.append(
            f"series {number} has the axes {series.axes}, which OME-Zarr does not allow; it is"
            " imported as an array"
        )
        if image.parts:
            text = f"an array has no {' and '.join(image.parts)}"
            found.skipped[f"image of series {number}"] = text
    described = _description(series)
    shape, added = _full_shape(described.get("array_shape") or described.get("shape"), series.shape)
    axes = series.axes.lower() if len(series.axes) == len(shape) else None
    names: tuple[str | None, ...] | None = None
    if axes is not None and len(set(axes)) == len(axes):
        names = tuple(axes)
    given = described.get("dimension_names")
    if isinstance(given, list) and len(given) == len(shape):
        names, axes = tuple(None if n is None else str(n) for n in given), None
    nodata = _nodata(series, found)
    return ArrayEntry(
        SeriesValues(file, number, order, shape, added),
        shape,
        native(series.dtype),
        chunks=None if added else chunks,
        fill_value=DEFAULT_FILL if nodata is None else nodata,
        missing=nodata,
        attributes={**own, **_place(series, shape, names, found)},
        dimension_names=names,
        stated_axes=axes,
        as_image=None if added and series.kind == "shaped" else arranged,
    )


def _report_tags(series: Any, number: int, found: Contents) -> None:
    """Report the tags of a series that say more than how its pixels are stored."""
    tags = [tag for tag in series.keyframe.tags if tag.code not in _READ_TAGS]
    used = _RESOLUTION if series.kind == "imagej" else ()
    lost = [tag.name for tag in tags if tag.code not in used and not _says_nothing(tag)]
    if lost:
        found.skipped[f"tags of series {number}"] = f"not imported: {', '.join(sorted(lost))}"


def _says_nothing(tag: Any) -> bool:
    """Return True for a default, and for a description that is read elsewhere."""
    if tag.code == _DESCRIPTION:
        text = str(tag.value).strip()
        known = "ImageJ=", '{"shape":', OWN_DESCRIPTION
        read = text.startswith(known) or text.endswith("OME>")
        return not text or read
    return bool(
        (tag.code in _RESOLUTION and tag.value[0] == tag.value[1])
        or (tag.code == _ORIENTATION and tag.value == 1)
    )


def _report_image(image: OmeImage, entry: ArrayEntry, number: int, found: Contents) -> None:
    """Report what OME-XML says of an image and its axes have no place for."""
    kept = entry.image or ImageEntry("")
    axes = [axis for axis in image.sizes if axis not in kept.axes]
    if axes:
        text = f"the image has no axis {' or '.join(axes)}"
        found.skipped[f"pixel size of series {number}"] = text
    if image.channels and not kept.channels:
        text = f"there are {len(image.channels)}, which is not the length of the axis"
        found.skipped[f"channels of series {number}"] = text


def _arranged(
    file: str,
    opened: Any,
    number: int,
    series: Any,
    image: OmeImage | None,
    attributes: dict[str, Any],
) -> ArrayEntry | None:
    """Return a series as an image, in the order of OME-Zarr; None if its axes do not allow it."""
    arranged = _ome_order(series.axes, series.shape)
    if arranged is None:
        return None
    order, axes = arranged
    shape = tuple(series.shape[i] for i in order)
    chunks = _tiles(series)
    return ArrayEntry(
        SeriesValues(file, number, order, shape),
        shape,
        native(series.dtype),
        chunks=None if chunks is None else tuple(chunks[i] for i in order),
        attributes=attributes,
        dimension_names=tuple(axes.lower()),
        image=_imagej_image(opened, series, axes) if image is None else image.entry(axes, shape),
    )


def _imagej_image(opened: Any, series: Any, axes: str) -> ImageEntry:
    """Return the description of an image with the pixel sizes that ImageJ states, if it does."""
    stated = (opened.imagej_metadata or {}) if series.kind == "imagej" else {}
    interval = stated.get("finterval") or (1 / stated["fps"] if stated.get("fps") else None)
    sizes = {**_resolution(series), "z": stated.get("spacing"), "t": interval} if stated else {}
    scale: dict[str, float] = {}
    units: dict[str, str] = {}
    for axis, size in sizes.items():
        if (
            axis.upper() not in axes
            or not isinstance(size, (int, float))
            or not 0 < size < math.inf
        ):
            continue
        given = stated.get(f"{axis}unit", "" if axis == "t" else stated.get("unit", "pixel"))
        text = str(given).strip()
        if text.lower() in ("pixel", "pixels", "frame", "frames") or not (text or axis == "t"):
            continue  # the numbers are no lengths
        scale[axis], units[axis] = float(size), _IMAGEJ_UNITS.get(text.lower()) or unit_name(text)
    return ImageEntry(axes.lower(), scale, units)


def _resolution(series: Any) -> dict[str, float]:
    """Return the width and height of a pixel, which the tags have as pixels per unit."""
    found = {}
    for axis, code in zip("xy", _RESOLUTION, strict=True):
        tag = series.keyframe.tags.get(code)
        if tag is not None and tag.value[0]:
            found[axis] = tag.value[1] / tag.value[0]
    return found


def _full_shape(stated: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape with the axes of length 1 that tifffile leaves out, and those axes."""
    if not isinstance(stated, list) or not all(isinstance(n, int) for n in stated):
        return shape, ()
    rest, added = list(shape), []
    for i, n in enumerate(stated):
        if rest and rest[0] == n:
            rest.pop(0)
        elif n == 1:
            added.append(i)
        else:
            return shape, ()
    return (shape, ()) if rest else (tuple(stated), tuple(added))


def _description(series: Any) -> dict[str, Any]:
    """Return the JSON metadata that tifffile or the export has written; empty if there are none."""
    known = ('{"shape":', OWN_DESCRIPTION) if series.kind == "shaped" else OWN_DESCRIPTION
    for tag in series.keyframe.tags:
        if tag.code == _DESCRIPTION and str(tag.value).startswith(known):
            found = json.loads(tag.value)
            return found if isinstance(found, dict) else {}
    return {}


def _tiles(series: Any) -> tuple[int, ...] | None:
    """Return chunks for a tiled series: one tile, along the other axes one element."""
    keyframe = series.keyframe
    if not keyframe.is_tiled or keyframe.tilelength * keyframe.tilewidth < _SMALL_TILE:
        return None
    sizes = {"Y": keyframe.tilelength, "X": keyframe.tilewidth}
    return tuple(
        n if a == "S" else min(sizes.get(a, 1), n)
        for a, n in zip(series.axes, series.shape, strict=True)
    )


def _ome_order(axes: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str] | None:
    """Return the axes of a series in the order of OME-Zarr, and their names; None if impossible.

    Colour samples are channels, unless there are channels as well.
    """
    named = axes
    if "S" in axes:
        if "C" in axes:
            return None
        named = axes.replace("S", "C")
    if len(set(named)) != len(named) or not set(named) <= set(_ORDER) or len(named) < 2:
        return None
    if not {"Y", "X"} <= set(named):
        return None
    order = tuple(sorted(range(len(named)), key=lambda i: _ORDER.index(named[i])))
    return order, "".join(named[i] for i in order)


def _attributes(opened: Any, series: Any, number: int, found: Contents) -> dict[str, Any]:
    """Return metadata of ImageJ and tifffile as attributes; report what JSON cannot hold."""
    described = _description(series)
    if described:
        own = described.get("attributes", {} if "array_shape" in described else None)
        others = {k: v for k, v in described.items() if k not in _OWN}
        return own if isinstance(own, dict) else others
    if series.kind != "imagej" or not opened.imagej_metadata:
        return {}
    kept: dict[str, Any] = {}
    for name, value in opened.imagej_metadata.items():
        try:
            kept[str(name)] = plain_value(value)
        except TypeError:
            found.skipped[f"ImageJ {name} of series {number}"] = "attributes cannot hold bytes"
    sizes = {f"pixel size {axis}": size for axis, size in _resolution(series).items() if size != 1}
    return {"imagej": {**kept, **sizes}}


# GeoTIFF

_NODATA, _METADATA, _DIRECTORY = 42113, 42112, 34735  # tags of GDAL, and of GeoTIFF
_PLACES = {"ModelPixelScale": 33550, "ModelTiepoint": 33922, "ModelTransformation": 34264}
COLOUR = "colorinterp"  # the role of the name of a band's colour
_RGB, _ALPHA = 2, (1, 2)  # what the samples of a pixel are
_MASK = 4  # the bit of a page that says which pixels of another one are valid
OWN_DESCRIPTION = '{"array_shape":'  # the start of what the export of maps writes
# The attributes of what GDAL says of a band, by its role, and the value of bands without it.
ROLES = {
    "scale": ("scale_factor", 1.0), "offset": ("add_offset", 0.0), "unittype": ("units", ""),
    "description": ("long_name", ""),
}  # fmt: skip


def _with_gdal(entry: ArrayEntry, series: Any, number: int, found: Contents) -> ArrayEntry:
    """Return an array with what GDAL, or the export of a map, says of it."""
    keyframe = series.keyframe
    if int(keyframe.subfiletype) & _MASK:
        found.notes.append(
            f"array {number} is the mask of the array before it: 0 where pixels are not valid"
        )
        return entry
    tags = {code for code in (_NODATA, _METADATA, _DIRECTORY, *_PLACES.values())
            if code in keyframe.tags}  # fmt: skip
    if not tags:
        return entry
    if len(series.pages) > 1 and _pages_differ(series, tags):
        found.skipped["places and metadata of pages"] = "only those of the first are imported"
    stated = _gdal_attributes(keyframe, dict(zip(series.axes, series.shape, strict=True)), found)
    if entry.image is not None:
        return replace(
            entry, missing=_nodata(series, found), attributes={**entry.attributes, **stated}
        )
    image = entry.as_image
    if image is not None:
        attributes = {**image.attributes, **stated}
        image = replace(image, missing=entry.missing, attributes=attributes)
    return replace(entry, attributes={**entry.attributes, **stated}, as_image=image)


def _pages_differ(series: Any, tags: set[int]) -> bool:
    """Return True if a page has another place or other metadata than the first one."""
    first = {code: series.keyframe.tags[code].value for code in tags}
    pages = [page.aspage() for page in series.pages[1:] if page is not None]
    return any(page.tags.valueof(code) != value for page in pages for code, value in first.items())


def _gdal_attributes(keyframe: Any, shape: dict[str, int], found: Contents) -> dict[str, Any]:
    """Return GDAL's metadata as attributes: those of CF that all bands share, and `gdal`."""
    text = keyframe.tags.valueof(_METADATA) or "<GDALMetadata/>"
    tags: dict[str, dict[str, str]] = {}
    bands: list[dict[str, Any]] = [{} for _ in range(shape.get("S", 1))]
    try:
        for item in ElementTree.fromstring(str(text)):
            sample = int(item.get("sample", -1))
            into: Any = tags
            value: Any = unescape(item.text or "", {"&quot;": '"', "&apos;": "'"})
            name, role = item.get("name", ""), item.get("role")
            if len(item) or sample >= len(bands):
                found.skipped[f"GDAL metadata {name or item.get('domain')}"] = "it is no plain text"
            elif sample >= 0 and role in ROLES:
                default = ROLES[role][1]
                bands[sample][ROLES[role][0]] = float(value) if default != "" else value
            elif sample >= 0 and role == COLOUR:
                bands[sample][COLOUR] = value
            else:
                into = tags if sample < 0 else bands[sample].setdefault("tags", {})
                into.setdefault(item.get("domain", ""), {})[name] = value
    except (ElementTree.ParseError, ValueError) as e:
        found.skipped["GDAL metadata"] = f"they cannot be read: {e}"
        return {}
    if int(keyframe.photometric) == _RGB:
        for band, colour in zip(bands, ("Red", "Green", "Blue"), strict=False):
            band.setdefault(COLOUR, colour)
    elif len(bands) in (3, 4):  # without this, the export would take them for colours
        for band, colour in zip(bands, ("Gray", *("Undefined",) * 3), strict=False):
            band.setdefault(COLOUR, colour)
    for band, kind in zip(reversed(bands), reversed(keyframe.extrasamples), strict=False):
        if int(kind) in _ALPHA:
            band[COLOUR] = "Alpha"
    attributes: dict[str, Any] = {}
    for name, default in ROLES.values():
        first, *others = [band.get(name, default) for band in bands]
        number = default != ""
        odd = number and (not math.isfinite(first) or (name == "scale_factor" and first == 0))
        if not odd and all(other == first for other in others):
            if first != default:
                attributes[name] = first
            for band in bands:
                band.pop(name, None)
    if any("scale_factor" in band or "add_offset" in band for band in bands):
        found.notes.append(
            "the scale or offset differs from band to band, or is no number; it is kept in the"
            " attribute gdal, and not applied when values are decoded"
        )
    if (keyframe.geotiff_tags or {}).get("GTRasterTypeGeoKey") == POINT:
        tags.setdefault("", {})["AREA_OR_POINT"] = "Point"
    gdal = {"tags": tags, "bands": bands if any(bands) else []}
    if any(gdal.values()):
        attributes["gdal"] = {name: value for name, value in gdal.items() if value}
    return attributes


def _place(
    series: Any, shape: tuple[int, ...], names: tuple[str | None, ...] | None, found: Contents
) -> dict[str, Any]:
    """Return the attributes of a GeoTIFF's transform and reference system; note what is lost."""
    keyframe = series.keyframe
    try:
        tags = dict(keyframe.geotiff_tags or {}) if keyframe.is_geotiff else {}
        tags |= {n: keyframe.tags[c].value for n, c in _PLACES.items() if c in keyframe.tags}
        if not tags:
            return {}
        path = keyframe.parent.filehandle.path
        where, crs = geotiff_transform(tags), geotiff_crs(tags, path)
    except (*_ERRORS, OmnizarrError) as e:
        found.skipped["coordinate system"] = f"the GeoTIFF tags cannot be read: {e}"
        return {}
    attributes: dict[str, Any] = {}
    used = []
    if where is None and not tags.keys() & _PLACES.keys():
        pass  # there is a reference system only
    elif where is None or names is None or not {"y", "x"} <= {*names}:
        found.skipped["coordinates of the pixels"] = (
            "the file has control points instead of a transform" if where is None
            else f"the axes {series.axes} have no rows and columns"
        )  # fmt: skip
    else:
        attributes["spatial:dimensions"] = ["y", "x"]
        attributes["spatial:shape"] = [shape[names.index(name)] for name in ("y", "x")]
        attributes["spatial:transform"] = list(where.coefficients)
        used.append(SPATIAL)
    if crs is not None:
        attributes |= {"_CRS": to_gdal(crs), **to_proj(crs)}
        used.append(PROJ)
    elif tags.keys() & GEOTIFF_KEYS:
        about = tags.get("PCSCitationGeoKey") or tags.get("GTCitationGeoKey")
        text = f"{about!r} " if isinstance(about, str) else ""
        found.skipped["coordinate reference system"] = (
            f"{text}has no EPSG code in the file; install rasterio, or add one as the attribute"
            " proj:code"
        )
    if epsg_number(tags.get("VerticalCSTypeGeoKey")) is not None:
        found.skipped["vertical reference system"] = "only the horizontal one is imported"
    if used:
        kept = ["the transform" if each is SPATIAL else str(crs) for each in used]
        found.notes.append(f"kept as attributes: {' and '.join(kept)}")
        attributes["zarr_conventions"] = registered(None, *used)
    return attributes


def _nodata(series: Any, found: Contents) -> Any:
    """Return GDAL's no-data value as the type of the pixels; None if there is none."""
    tag = series.keyframe.tags.get(_NODATA)
    if tag is None:
        return None
    text, dtype = str(tag.value).strip().rstrip("\0"), native(series.dtype)
    value = number_in_text(text, dtype)
    if value is None:
        found.skipped["no-data value"] = f"{text!r} is no value of type {dtype}"
    return value
