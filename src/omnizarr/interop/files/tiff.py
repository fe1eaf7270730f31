"""TIFF and OME-TIFF files: each series of pages becomes an array, or for OME-TIFF an image.

Specifications: TIFF 6.0, BigTIFF, and https://ome-model.readthedocs.io for OME-TIFF.

Only the strips and tiles that a box needs are read and decoded. Axes have the letters of tifffile
in lower case; OME-TIFF images are brought to the order of OME-Zarr: time, channel, z, y, x. Levels
of a pyramid are computed anew from full resolution.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.ome.model import unit_name
from omnizarr.errors import InvalidArgument, MissingModule, OmnizarrError
from omnizarr.extension import DEFAULT_FILL
from omnizarr.interop.files.contents import ArrayEntry, Box, Contents, ImageEntry, native, required
from omnizarr.interop.files.geotiff import ERRORS, missing_value, place_attributes, with_gdal
from omnizarr.interop.files.ome_xml import OmeImage, read_images, unread

tifffile = required("tifffile", "tiff")

_PAGE = {"S": 4, "Z": 1, "Y": 2, "X": 3}  # the place of an axis in the shape that pages decode to
_ORDER = "TCZYX"
_SMALL_TILE = 2**14  # bytes; smaller tiles would make too many chunks
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
_NO_UNITS = ("pixel", "pixels", "frame", "frames")  # the numbers are no lengths
OWN_DESCRIPTION = '{"array_shape":'  # the start of what the export of maps writes
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
    except (OmnizarrError, FileNotFoundError):
        raise
    except ERRORS as e:
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
            entry = _Series(file, opened, number, each, image, found).entry()
            found.arrays[path] = with_gdal(entry, each, number, found)
        if len(series) > 1:
            found.groups[""] = {}
        if opened.is_ome:
            lost = ["all of it: it has another number of images than the file"]
            if len(series) == len(images):
                lost = unread(opened.ome_metadata)
            if lost:
                found.skipped["OME-XML"] = f"an image has no place for: {', '.join(lost)}"
    stem = os.path.splitext(file)[0]
    for beside in (f"{file}.msk", f"{file}.aux.xml", f"{stem}.tfw", f"{stem}.wld"):
        if os.path.isfile(beside):
            found.skipped[os.path.basename(beside)] = "what GDAL reads from it is left out"
    return found


@dataclass(frozen=True)
class _Series:
    """A series of an open file, and what OME-XML says of it; `found` gets the reports."""

    file: str
    opened: Any
    number: int
    series: Any
    image: OmeImage | None
    found: Contents

    def lose(self, what: str, why: str) -> None:
        """Report something of the series that is left out."""
        self.found.skipped[f"{what} of series {self.number}"] = why

    def entry(self) -> ArrayEntry:
        """Return the series as an image if OME-XML describes it, otherwise as an array."""
        series, number, found = self.series, self.number, self.found
        keyframe = series.keyframe
        if series.dtype is None or 0 in series.shape:
            raise InvalidArgument(
                f"series {number} of {self.file!r} has no pixels that can be read"
            )
        if len(series.levels) > 1:
            found.notes.append(
                f"series {number} has {len(series.levels)} levels; the finest one is imported"
            )
        if keyframe.photometric == 3 and keyframe.colormap is not None:
            self.lose("colour map", "pixels are imported as indices")
        meaning = _MEANINGS.get(keyframe.tags.valueof(_PHOTOMETRIC))
        if meaning is not None:
            found.notes.append(f"pixels of series {number} are imported as stored: {meaning}")
        used = _RESOLUTION if series.kind == "imagej" else ()
        tags = [tag for tag in keyframe.tags if tag.code not in (*_READ_TAGS, *used)]
        lost = sorted(tag.name for tag in tags if not _says_nothing(tag))
        if lost:
            self.lose("tags", f"not imported: {', '.join(lost)}")
        own = self.attributes()
        arranged = self.arranged(own)
        if self.image is None:
            return self.plain(own, arranged)
        if arranged is not None:
            self.report_image(self.image, arranged.image or ImageEntry(""))
            return arranged
        found.notes.append(
            f"series {number} has the axes {series.axes}, which OME-Zarr does not allow; it is"
            " imported as an array"
        )
        if self.image.parts:
            self.lose("image", f"an array has no {' and '.join(self.image.parts)}")
        return self.plain(own, None)

    def plain(self, own: dict[str, Any], arranged: ArrayEntry | None) -> ArrayEntry:
        """Return the series as an array with its axes in the order of the file."""
        series = self.series
        described = _description(series)
        stated = described.get("array_shape") or described.get("shape")
        shape, added = _full_shape(stated, series.shape)
        axes = series.axes.lower() if len(series.axes) == len(shape) else None
        names: tuple[str | None, ...] | None = None
        if axes is not None and len(set(axes)) == len(axes):
            names = tuple(axes)
        given = described.get("dimension_names")
        if isinstance(given, list) and len(given) == len(shape):
            names, axes = tuple(None if n is None else str(n) for n in given), None
        nodata = missing_value(series, self.found)
        return ArrayEntry(
            SeriesValues(self.file, self.number, tuple(range(len(series.shape))), shape, added),
            shape,
            native(series.dtype),
            chunks=None if added else _tiles(series),
            fill_value=DEFAULT_FILL if nodata is None else nodata,
            missing=nodata,
            attributes={**own, **place_attributes(series, shape, names, self.found)},
            dimension_names=names,
            stated_axes=axes,
            as_image=None if added and series.kind == "shaped" else arranged,
        )

    def report_image(self, image: OmeImage, kept: ImageEntry) -> None:
        """Report what OME-XML says of an image and its axes have no place for."""
        axes = [axis for axis in image.sizes if axis not in kept.axes]
        if axes:
            self.lose("pixel size", f"the image has no axis {' or '.join(axes)}")
        if image.channels and not kept.channels:
            count = len(image.channels)
            self.lose("channels", f"there are {count}, which is not the length of the axis")

    def arranged(self, attributes: dict[str, Any]) -> ArrayEntry | None:
        """Return the series as an image, in the order of OME-Zarr; None if it has other axes.

        Colour samples are channels, unless there are channels as well.
        """
        named = self.series.axes.replace("S", "C")
        if len(set(named)) != len(named) or not set("YX") <= set(named) <= set(_ORDER):
            return None
        order = tuple(sorted(range(len(named)), key=lambda i: _ORDER.index(named[i])))
        axes = "".join(named[i] for i in order).lower()
        shape = tuple(self.series.shape[i] for i in order)
        chunks = _tiles(self.series)
        return ArrayEntry(
            SeriesValues(self.file, self.number, order, shape),
            shape,
            native(self.series.dtype),
            chunks=None if chunks is None else tuple(chunks[i] for i in order),
            attributes=attributes,
            dimension_names=tuple(axes),
            image=self.imagej_image(axes) if self.image is None else self.image.entry(axes, shape),
        )

    def imagej_image(self, axes: str) -> ImageEntry:
        """Return the description of an image with the pixel sizes that ImageJ states, if any."""
        stated = (self.opened.imagej_metadata or {}) if self.series.kind == "imagej" else {}
        interval = stated.get("finterval") or (1 / stated["fps"] if stated.get("fps") else None)
        own = _resolution(self.series) if stated else {}
        scale: dict[str, float] = {}
        units: dict[str, str] = {}
        for axis, size in {**own, "z": stated.get("spacing"), "t": interval}.items():
            if axis not in axes or not isinstance(size, (int, float)) or not 0 < size < math.inf:
                continue
            given = stated.get(f"{axis}unit", "" if axis == "t" else stated.get("unit", "pixel"))
            text = str(given).strip()
            if text.lower() in _NO_UNITS or not (text or axis == "t"):
                continue
            scale[axis] = float(size)
            units[axis] = _IMAGEJ_UNITS.get(text.lower()) or unit_name(text)
        return ImageEntry(axes, scale, units)

    def attributes(self) -> dict[str, Any]:
        """Return metadata of ImageJ and tifffile as attributes; report what JSON cannot hold."""
        described = _description(self.series)
        if described:
            own = described.get("attributes", {} if "array_shape" in described else None)
            others = {k: v for k, v in described.items() if k not in _OWN}
            return own if isinstance(own, dict) else others
        if self.series.kind != "imagej" or not self.opened.imagej_metadata:
            return {}
        kept: dict[str, Any] = {}
        for name, value in self.opened.imagej_metadata.items():
            try:
                kept[str(name)] = json.loads(json.dumps(value, default=methodcaller("tolist")))
            except (TypeError, AttributeError):
                self.lose(f"ImageJ {name}", "attributes cannot hold bytes")
        sizes = _resolution(self.series).items()
        return {"imagej": {**kept, **{f"pixel size {a}": size for a, size in sizes if size != 1}}}


def _says_nothing(tag: Any) -> bool:
    """Return True for a tag with a default value, or a description that is read elsewhere."""
    if tag.code == _DESCRIPTION:
        text = str(tag.value).strip()
        known = "ImageJ=", '{"shape":', OWN_DESCRIPTION
        return not text or text.startswith(known) or text.endswith("OME>")
    return bool(
        (tag.code in _RESOLUTION and tag.value[0] == tag.value[1])
        or (tag.code == _ORIENTATION and tag.value == 1)
    )


def _resolution(series: Any) -> dict[str, float]:
    """Return the width and height of a pixel, which the tags have as pixels per unit."""
    tags = {
        axis: series.keyframe.tags.get(code) for axis, code in zip("xy", _RESOLUTION, strict=True)
    }
    return {
        axis: t.value[1] / t.value[0] for axis, t in tags.items() if t is not None and t.value[0]
    }


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
