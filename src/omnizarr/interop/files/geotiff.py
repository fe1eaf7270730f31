"""Tags of GeoTIFF and GDAL, read and written: the place of a map and the meaning of its numbers.

The place of a GeoTIFF (OGC 19-008r4) becomes attributes of the array: `spatial:transform`, `_CRS`
and `proj:code`, as `geo.write` and `geo.write_crs` have them; its no-data value the fill value. Of
GDAL's metadata, the scale, offset, unit and name that all bands share become attributes of CF; the
rest is listed as left out.
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, unescape

import numpy as np

from omnizarr import Array
from omnizarr.conventions.cf.variable import described_values
from omnizarr.conventions.geo.crs import (
    CRS,
    GEOTIFF_KEYS,
    PROJ,
    SPATIAL,
    epsg_number,
    geotiff_crs,
    registered,
    to_gdal,
    to_proj,
)
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.transform import geotiff_transform
from omnizarr.errors import InvalidMetadata, MissingPackage, OmnizarrError
from omnizarr.interop.files.contents import ArrayEntry, Contents, native, required

tifffile = required("tifffile", "tiff")

ERRORS = (
    tifffile.TiffFileError, ValueError, TypeError, OSError, RuntimeError, KeyError, IndexError,
    struct.error, zlib.error,
)  # fmt: skip
_NODATA, _METADATA, _DIRECTORY = 42113, 42112, 34735  # tags of GDAL, and of GeoTIFF
_PLACES = {"ModelPixelScale": 33550, "ModelTiepoint": 33922, "ModelTransformation": 34264}
_MASK = 4  # the bit of a page that says which pixels of another one are valid
# The attributes of what GDAL says of a band, by its role, and the value of bands without it.
_ROLES = {
    "scale": ("scale_factor", 1.0), "offset": ("add_offset", 0.0), "unittype": ("units", ""),
    "description": ("long_name", ""),
}  # fmt: skip


def with_gdal(entry: ArrayEntry, series: Any, number: int, found: Contents) -> ArrayEntry:
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
    first = {code: keyframe.tags[code].value for code in tags}
    pages = [page.aspage() for page in series.pages[1:] if page is not None]
    if any(page.tags.valueof(code) != v for page in pages for code, v in first.items()):
        found.skipped["places and metadata of pages"] = "only those of the first are imported"
    stated = _gdal_attributes(
        keyframe, dict(zip(series.axes, series.shape, strict=True)).get("S", 1), found
    )
    if entry.image is not None:
        return replace(
            entry, missing=missing_value(series, found), attributes={**entry.attributes, **stated}
        )
    image = entry.as_image
    if image is not None:
        attributes = {**image.attributes, **stated}
        image = replace(image, missing=entry.missing, attributes=attributes)
    return replace(entry, attributes={**entry.attributes, **stated}, as_image=image)


def _gdal_attributes(keyframe: Any, count: int, found: Contents) -> dict[str, Any]:
    """Return the metadata of GDAL that all bands share as attributes of CF; report the rest."""
    text = keyframe.tags.valueof(_METADATA) or "<GDALMetadata/>"
    bands: list[dict[str, Any]] = [{} for _ in range(count)]
    lost: set[str] = set()
    try:
        for item in ElementTree.fromstring(str(text)):
            sample, role = int(item.get("sample", -1)), item.get("role")
            if 0 <= sample < count and role in _ROLES and not len(item):
                name, default = _ROLES[role]
                value = unescape(item.text or "", {"&quot;": '"', "&apos;": "'"})
                bands[sample][name] = value if default == "" else float(value)
            else:
                lost.add(item.get("name") or item.get("domain") or item.tag)
    except (ElementTree.ParseError, ValueError) as e:
        found.skipped["GDAL metadata"] = f"they cannot be read: {e}"
        return {}
    attributes: dict[str, Any] = {}
    for name, default in _ROLES.values():
        first, *others = [band.get(name, default) for band in bands]
        odd = default != "" and (not math.isfinite(first) or (default and not first))
        if odd or any(other != first for other in others):
            lost.add(f"{name}, which differs from band to band or is no number")
        elif first != default:
            attributes[name] = first
    if lost:
        found.skipped["GDAL metadata"] = f"not imported: {'; '.join(sorted(lost))}"
    return attributes


def place_attributes(
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
    except (*ERRORS, OmnizarrError) as e:
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


def missing_value(series: Any, found: Contents) -> Any:
    """Return GDAL's no-data value as the type of the pixels; None if there is none."""
    tag = series.keyframe.tags.get(_NODATA)
    if tag is None:
        return None
    text, dtype = str(tag.value).strip().rstrip("\0"), native(series.dtype)
    value = number_in_text(text, dtype)
    if value is None:
        found.skipped["no-data value"] = f"{text!r} is no value of type {dtype}"
    return value


def number_in_text(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the number in a text as a value of a type; None if the type cannot hold it."""
    try:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
        with np.errstate(over="raise"):
            return dtype.type(value) if dtype.kind == "f" or _fits(value, dtype) else None
    except (ValueError, OverflowError, FloatingPointError):
        return None


def place_tags(found: Map, skipped: dict[str, str]) -> list[Any]:
    """Return the tags of a map's transform and reference system."""
    tags: list[Any] = []
    where = found.levels[0].transform
    if where is not None and where.b == where.d == 0 and where.a > 0 > where.e:
        tags.append((_PLACES["ModelPixelScale"], "d", 3, (where.a, -where.e, 0.0), False))
        corner = (0.0, 0.0, 0.0, where.c, where.f, 0.0)
        tags.append((_PLACES["ModelTiepoint"], "d", 6, corner, False))
    elif where is not None:
        a, b, c, d, e, f = where.coefficients
        matrix = (a, b, 0.0, c, d, e, 0.0, f, *(0.0,) * 7, 1.0)
        tags.append((_PLACES["ModelTransformation"], "d", 16, matrix, False))
    keys = [] if found.crs is None else _geo_keys(found.crs)
    if keys:
        keys = [(1025, 0, 1, 1), *keys]
        directory = [1, 1, 0, len(keys), *(n for key in sorted(keys) for n in key)]
        tags.append((_DIRECTORY, "H", len(directory), tuple(directory), False))
    elif found.crs is not None:
        skipped["coordinate reference system"] = (
            f"{found.crs} has no EPSG code that a tag can hold; pyproj may know one, and GDAL can"
            " add the system to the file"
        )
    return tags


def value_tags(
    array: Array, dtype: np.dtype[Any], bands: int, skipped: dict[str, str]
) -> list[Any]:
    """Return the tags of GDAL for missing values, packing, units, names and further metadata."""
    tags: list[Any] = []
    attributes, packing = described_values(array)
    missing, *others = packing.missing or (None,)
    if missing is not None and _fits(missing, dtype):
        tags.append((_NODATA, "s", 0, repr(missing), False))
    elif missing is not None:
        skipped["no-data value"] = f"{missing} is no value of type {dtype}"
    if others:
        skipped["missing values"] = f"a file has one: {missing}, not also {others}"
    if packing.signed is not None:
        skipped["_Unsigned"] = f"numbers are written as {dtype}, without their sign"
    if packing.valid:
        skipped["valid range"] = "a TIFF file has none; it is kept in its description"
    text = _gdal_metadata(attributes, bands)
    if text:
        tags.append((_METADATA, "s", 0, text.encode(), False))
    return tags


def _fits(number: Any, dtype: np.dtype[Any]) -> bool:
    """Return True if a type can hold a number exactly."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(number != number or np.asarray(number, dtype) == number)
    if dtype.kind not in "iu" or not math.isfinite(number) or number != int(number):
        return False
    return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)


def _geo_keys(crs: CRS) -> list[tuple[int, int, int, int]]:
    """Return the keys of a reference system with an EPSG code; none if they cannot say it."""
    authority, _, number = (crs.code or "").partition(":")
    if authority != "EPSG" or not number.isdigit() or not 1024 <= int(number) < 32767:
        return []
    try:
        system = crs.to_pyproj()
    except (MissingPackage, InvalidMetadata):
        return []
    if system.is_compound or system.is_bound:
        return []
    if system.is_projected:
        return [(1024, 0, 1, 1), (3072, 0, 1, int(number))]
    kind = 3 if system.is_geocentric else 2
    return [(1024, 0, 1, kind), (2048, 0, 1, int(number))]


def is_colour(array: Array) -> bool:
    """Return True for an array whose last axis are the samples of colours."""
    names = array.dimension_names or ()
    is_like_colour = array.ndim > 2 and array.shape[-1] in (3, 4) and array.dtype.kind == "u"
    return is_like_colour and names[-1:] == ("s",)


def _gdal_metadata(attributes: Mapping[str, Any], bands: int) -> str:
    """Return attributes as GDAL's metadata; empty if there are none."""
    lines: list[str] = []
    for sample, (role, (name, default)) in itertools.product(range(bands), _ROLES.items()):
        value = attributes.get(name)
        if isinstance(value, str if default == "" else int | float):
            text = escape(escape(str(value)))  # GDAL escapes the text and then the document
            about = f'name="{role.upper()}" sample="{sample}" role="{role}"'
            lines.append(f"<Item {about}>{text}</Item>")
    return f"<GDALMetadata>{''.join(lines)}</GDALMetadata>" if lines else ""
