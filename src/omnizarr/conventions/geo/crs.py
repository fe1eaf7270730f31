"""Coordinate reference systems: their definitions, and how arrays refer to them.

A definition is a code (``EPSG:4326``), an OGC URL, well-known text of either generation, PROJJSON,
or the parameters of a CF grid mapping. pyproj, if installed, converts between them. Arrays refer to
a reference system in one of these ways:

- CF: the attribute `grid_mapping` names a variable with the attribute `crs_wkt`; OGC 21-050
  endorses it.
- GDAL: the attribute `_CRS`, an object with `url`, `wkt` or `projjson`.
- The convention `proj:`: attributes `proj:code`, `proj:wkt2`, `proj:projjson` of the array or its
  parent group.

If several differ, CF has precedence, then GDAL, with a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from omnizarr import Array, Group, errors
from omnizarr.extension import ARRAY_DIMENSIONS, location_of, open_node, paths

_URL = re.compile(r"^https?://www\.opengis\.net/def/crs/([\w.-]+)/([\w.-]+)/([\w.-]+)/?$")
_URN = re.compile(r"^urn:ogc:def:crs:([\w.-]+):([\w.-]*):([\w.-]+)$")
_PROJ_CODE = re.compile(r"^[A-Z]+:[0-9]+$")
_CODE = re.compile(r"^([A-Za-z][\w-]*):([\w.-]+)$")
_WKT = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\s*[\[(]", re.IGNORECASE)
# Keywords at the start of well-known text of the second and of the first generation.
WKT2 = re.compile(
    r"(GEOG|GEOD|GEOGRAPHIC|GEODETIC|PROJ|PROJECTED|DERIVEDPROJ|VERT|VERTICAL|COMPOUND|BOUND|ENG"
    r"|ENGINEERING|TIME|PARAMETRIC)CRS"
)
WKT1 = re.compile(r"(PROJ|GEOG|GEOC|COMPD_|VERT_|LOCAL_|FITTED_)CS")
_GEOGRAPHIC = ("GEOGCRS", "GEOGRAPHICCRS", "GEOGCS")

Way = Literal["cf", "gdal", "both", "proj"]
GRID_MAPPING = "spatial_ref"


def _convention(name: str, repository: str, uuid: str) -> dict[str, str]:
    """Return the entry of a convention in the attribute `zarr_conventions`."""
    schema = "https://raw.githubusercontent.com/zarr-conventions/{}/refs/tags/v1/schema.json"
    specification = "https://github.com/zarr-conventions/{}/blob/v1/README.md"
    return {
        "schema_url": schema.format(repository),
        "spec_url": specification.format(repository),
        "uuid": uuid,
        "name": name,
    }


PROJ = _convention("proj:", "geo-proj", "f17cb550-5864-4468-aeb7-f3180cfb622f")
SPATIAL = _convention("spatial", "spatial", "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4")
MULTISCALES = _convention("multiscales", "multiscales", "d35379db-88df-4056-af3a-620245f8e347")


@dataclass(frozen=True)
class CRS:
    """A coordinate reference system with all known definitions; the others are None.

    Attributes:
        url: A URL, such as that of an EPSG code.
        wkt: Well-known text.
        projjson: PROJJSON.
        parameters: The parameters of a CF grid mapping.
        stated_code: A code, such as ``"EPSG:4326"``.

    Examples:
        >>> oz.geo.CRS.of("EPSG:4326").code
        'EPSG:4326'
    """

    url: str | None = None
    wkt: str | None = None
    projjson: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None  # of a CF grid mapping
    stated_code: str | None = None

    @classmethod
    def of(cls, given: Any) -> CRS:
        """Return the system that a definition states.

        Args:
            given: A code, URL, well-known text, PROJJSON, EPSG number, or pyproj CRS.

        Raises:
            InvalidArgument: If it is none of these.

        Examples:
            >>> oz.geo.CRS.of(32633).code
            'EPSG:32633'
        """
        if isinstance(given, CRS):
            return given
        if isinstance(given, int) and not isinstance(given, bool):
            return cls(stated_code=f"EPSG:{given}")
        if isinstance(given, Mapping):
            if "grid_mapping_name" in given or "crs_wkt" in given:
                return from_grid_mapping(given) or cls()
            return cls(projjson=dict(given))
        if hasattr(given, "to_wkt"):
            return cls(wkt=given.to_wkt())
        if isinstance(given, str):
            if _URL.match(given) or _URN.match(given):
                return cls(url=given)
            if WKT2.fullmatch(_keyword(given)) or WKT1.fullmatch(_keyword(given)):
                return cls(wkt=given)
            if _CODE.match(given):
                return cls(stated_code=given)
        raise errors.InvalidArgument(
            f"{given!r} is not a coordinate reference system; use a code such as 'EPSG:4326', an"
            " opengis.net URL, well-known text, PROJJSON or a pyproj CRS"
        )

    def __bool__(self) -> bool:
        return self.definition is not None

    @property
    def definition(self) -> Any:
        """The preferred definition: URL or code, else well-known text, PROJJSON or parameters."""
        return self.url or self.stated_code or self.wkt or self.projjson or self.parameters

    @property
    def code(self) -> str | None:
        """The code, such as ``"EPSG:32633"``, from whichever definition has one."""
        if self.stated_code is not None:
            return self.stated_code.upper()
        found = _URL.match(self.url or "") or _URN.match(self.url or "")
        if found is not None:
            return f"{found[1]}:{found[3]}".upper()
        if self.wkt is not None:
            return _wkt_code(self.wkt)
        if self.projjson is not None:
            named = self.projjson.get("id")
            if isinstance(named, Mapping) and "authority" in named and "code" in named:
                return f"{named['authority']}:{named['code']}".upper()
        return None

    def same(self, other: CRS) -> bool | None:
        """Return True if both are the same system; None if that cannot be decided.

        Args:
            other: Another system.

        Examples:
            >>> oz.geo.CRS.of(4326).same(oz.geo.CRS.of("EPSG:4326"))
            True
        """
        if self.definition == other.definition:
            return True
        if self.code is not None and other.code is not None:
            return self.code == other.code
        if self.wkt and other.wkt and "".join(self.wkt.split()) == "".join(other.wkt.split()):
            return True
        try:
            return bool(self.to_pyproj() == other.to_pyproj())
        except (errors.MissingPackage, errors.InvalidMetadata):
            return None

    def to_pyproj(self) -> Any:
        """Return the system as a CRS of pyproj.

        Raises:
            InvalidMetadata: If pyproj does not understand it.
            MissingModule: If pyproj is not installed.

        Examples:
            >>> oz.geo.CRS.of(4326).to_pyproj().to_epsg()
            4326
        """
        try:
            import pyproj  # noqa: PLC0415 - an optional package
        except ImportError as e:
            raise errors.MissingModule("to_pyproj needs pyproj; pip install 'omnizarr[geo]'") from e
        definition = self.definition
        try:
            if definition is self.parameters and definition is not None:
                return pyproj.CRS.from_cf(dict(definition))
            if definition is self.projjson and definition is not None:
                return pyproj.CRS.from_json_dict(dict(definition))
            return pyproj.CRS.from_user_input(self.code if definition == self.url else definition)
        except (pyproj.exceptions.CRSError, KeyError) as e:
            raise errors.InvalidMetadata(f"pyproj does not understand {definition!r}: {e}") from e

    def to_wkt2(self) -> str:
        """Return the system as WKT:2019, converted by pyproj if necessary.

        Raises:
            InvalidArgument: If there is no definition.
            CannotExpress: If pyproj is needed and not installed.
            InvalidMetadata: If pyproj does not understand it.

        Examples:
            >>> oz.geo.CRS.of(4326).to_wkt2()[:6]
            'GEOGCR'
        """
        if self.wkt is not None and WKT2.fullmatch(_keyword(self.wkt)):
            return self.wkt
        if not self:
            raise errors.InvalidArgument("there is no coordinate reference system to write")
        try:
            return str(self.to_pyproj().to_wkt("WKT2_2019"))
        except errors.MissingPackage as e:
            raise errors.CannotExpress(
                f"{self.definition!r} is not WKT:2019, and converting it needs pyproj;"
                " pip install 'omnizarr[geo]', or pass WKT:2019"
            ) from e

    def __str__(self) -> str:
        quoted = re.search(r'"([^"]*)"', self.wkt or "")  # the name in well-known text
        return self.code or (quoted[1] if quoted else str(self.definition))


def full_circle(crs: CRS | None) -> float | None:
    """Return the length of a circle of latitude in the units of x; None if x is no longitude."""
    if crs is None:
        return None
    try:
        system = crs.to_pyproj()
    except (errors.MissingPackage, errors.InvalidMetadata):
        mapping = (crs.parameters or {}).get("grid_mapping_name", "")
        known = _keyword(crs.wkt or "") in _GEOGRAPHIC or crs.code in ("EPSG:4326", "OGC:CRS84")
        return 360.0 if known or mapping.endswith("latitude_longitude") else None
    if not system.is_geographic or not system.axis_info:
        return None
    return 2 * math.pi / float(system.axis_info[0].unit_conversion_factor)


def from_grid_mapping(attributes: Mapping[str, Any]) -> CRS | None:
    """Return the system of a CF grid mapping variable, or None."""
    for text in (attributes.get("crs_wkt"), attributes.get("spatial_ref")):
        if isinstance(text, str) and text.strip():
            return CRS(wkt=text)
    if isinstance(attributes.get("grid_mapping_name"), str):
        skipped = (ARRAY_DIMENSIONS, "GeoTransform")
        return CRS(parameters={k: v for k, v in attributes.items() if k not in skipped})
    return None


def from_gdal(value: Any) -> CRS | None:
    """Return the system of GDAL's `_CRS`, an object with `url`, `wkt` or `projjson`, or None."""
    if not isinstance(value, Mapping):
        raise errors.InvalidMetadata(
            f"_CRS: expected an object with url, wkt or projjson, got {value!r}"
        )
    return _stated(value, url="url", wkt="wkt", projjson="projjson")


def _stated(attributes: Mapping[str, Any], **names: str) -> CRS | None:
    """Return the system of definitions under these names; None if all are missing or invalid."""
    kinds: dict[str, Any] = {"projjson": Mapping}
    found = {field: attributes.get(name) for field, name in names.items()}
    valid = {k: v for k, v in found.items() if isinstance(v, kinds.get(k, str)) and v}
    return CRS(**valid) or None


def from_proj(attributes: Mapping[str, Any]) -> CRS | None:
    """Return the system of the attributes `proj:code`, `proj:wkt2`, `proj:projjson`, or None."""
    return _stated(attributes, stated_code="proj:code", wkt="proj:wkt2", projjson="proj:projjson")


def to_gdal(crs: CRS) -> dict[str, Any]:
    """Return the value of `_CRS`; its well-known text is WKT:2019."""
    found: dict[str, Any] = {} if crs.url is None else {"url": crs.url}
    if crs.url is None and crs.stated_code is not None:
        authority, _, number = crs.stated_code.upper().partition(":")
        found["url"] = f"http://www.opengis.net/def/crs/{authority}/0/{number}"
    if crs.wkt is not None or not (found or crs.projjson):
        found["wkt"] = crs.to_wkt2()
    if crs.projjson is not None:
        found["projjson"] = dict(crs.projjson)
    return found


def to_proj(crs: CRS) -> dict[str, Any]:
    """Return the attribute of the convention `proj:`, whose schema allows exactly one."""
    by_code = crs.url is not None or crs.stated_code is not None
    if by_code and _PROJ_CODE.match(crs.code or ""):
        return {"proj:code": crs.code}
    if crs.wkt is None and crs.projjson is not None:
        return {"proj:projjson": dict(crs.projjson)}
    return {"proj:wkt2": crs.to_wkt2()}


def to_grid_mapping(crs: CRS) -> dict[str, Any]:
    """Return the attributes of a CF grid mapping variable; with pyproj, also its parameters."""
    if crs.wkt is None and crs.parameters is not None:
        return dict(crs.parameters)
    wkt = crs.wkt if crs.wkt is not None else crs.to_wkt2()
    try:
        found = {k: v for k, v in CRS(wkt=wkt).to_pyproj().to_cf().items() if v is not None}
    except (errors.MissingPackage, errors.InvalidMetadata):
        found = {}
    return {**found, "crs_wkt": wkt, "spatial_ref": wkt}


def _keyword(text: str) -> str:
    found = _WKT.match(text)
    return "" if found is None else found[1].upper()


def _wkt_code(text: str) -> str | None:
    """Return the code of the whole system: ID or AUTHORITY inside the outermost brackets."""
    outside = re.sub(r'"[^"]*"', lambda quoted: "\0" * len(quoted[0]), text)
    for found in re.finditer(r"\b(?:ID|AUTHORITY)\s*[\[(]", outside):
        before = outside[: found.start()]
        depth = sum(before.count(c) for c in "[(") - sum(before.count(c) for c in "])")
        values = re.match(r'\s*"([^"]*)"\s*,\s*"?([\w.-]+)"?', text[found.end() :])
        if depth == 1 and values is not None:
            return f"{values[1]}:{values[2]}".upper()
    return None


def read_crs(array: Array) -> CRS | None:
    """Return the coordinate reference system of an array, or None.

    A reference to a missing variable, or one that differs from a preferred one, is a warning.

    Args:
        array: The array.

    Raises:
        InvalidMetadata: If the system is not valid.

    Examples:
        >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), crs="EPSG:4326", variable="height")
        >>> oz.geo.read_crs(earth.levels[0].array).code
        'EPSG:4326'
    """
    found = [(way, crs) for way, crs in _systems(array) if crs is not None]
    for way, crs in found[1:]:
        first, chosen = found[0]
        if chosen.same(crs) is False:
            _warn(array, f"{first} says {chosen}, but {way} says {crs}; the first is used")
    return found[0][1] if found else None


def _systems(array: Array) -> Iterator[tuple[str, CRS | None]]:
    if "grid_mapping" in array.attrs:
        mapping = grid_mapping(array)
        if mapping is None:
            _warn(array, f"grid_mapping names {array.attrs['grid_mapping']!r}, which is missing")
        else:
            yield f"grid_mapping {mapping.name}", from_grid_mapping(mapping.attrs)
    if "_CRS" in array.attrs:
        yield "_CRS", from_gdal(array.attrs["_CRS"])
    own = from_proj(array.attrs)
    parent = None if own is not None else parent_group(array)
    yield "proj:", own if parent is None else from_proj(parent.attrs)


def _warn(array: Array, message: str) -> None:
    errors.warn(f"{array.name} in {array.store!r}: {message}")


def grid_mapping(array: Array) -> Array | None:
    """Return the grid mapping variable of an array: in its group, or in a parent group."""
    reference = array.attrs.get("grid_mapping")
    names = reference.split() if isinstance(reference, str) else ()
    return sibling(array, names[0].rstrip(":")) if names else None  # "crs: x y": also coordinates


def sibling(array: Array, name: str) -> Array | None:
    """Return the array with a name in the group of another, or in the nearest parent group."""
    parent = "" if name.startswith("/") else array.path
    while True:
        parent = parent.rpartition("/")[0]
        path = paths.join(parent, paths.normalize(name))
        found = _node_at(array, path) if path != array.path else None
        if found is not None or not parent:
            return found if isinstance(found, Array) else None


def parent_group(array: Array) -> Group | None:
    """Return the parent group of an array; None for an array at the root."""
    if not array.path:
        return None
    found = _node_at(array, array.path.rpartition("/")[0])
    return found if isinstance(found, Group) else None


def _node_at(array: Array, path: str) -> Array | Group | None:
    location = location_of(array).at(path)
    node = location.find([])
    return None if node is None else open_node(location, node)


def write_crs(array: Array, crs: Any, *, way: Way = "cf", name: str = GRID_MAPPING) -> CRS:
    """Set the coordinate reference system of an array.

    References in other ways are removed, so that none contradicts it.

    Args:
        array: The array.
        crs: Anything that `CRS.of` accepts.
        way: ``"cf"``: a grid mapping variable in the group of the array; ``"gdal"``: the attribute
            `_CRS`; ``"both"``; or ``"proj"``: the convention `proj:`.
        name: The name of the grid mapping variable.

    Returns:
        The system.

    Raises:
        InvalidArgument: If `crs` or `way` is not understood.
        CannotExpress: If the array has no group for the variable.
        ReadOnly: If the node or its store is read-only.

    Examples:
        >>> a = oz.open("earth.zarr", "a").create_array("height", shape=(4, 8), dtype="f4")
        >>> oz.geo.write_crs(a, "EPSG:4326").code
        'EPSG:4326'
    """
    if way not in ("cf", "gdal", "both", "proj"):
        raise errors.InvalidArgument(f"way must be 'cf', 'gdal', 'both' or 'proj', got {way!r}")
    given = CRS.of(crs)
    if not given:
        raise errors.InvalidArgument(f"there is no coordinate reference system in {crs!r}")
    new: dict[str, Any] = {}
    if way in ("gdal", "both"):
        new["_CRS"] = to_gdal(given)
    if way == "proj":
        new.update(to_proj(given))
        new["zarr_conventions"] = registered(array.attrs.get("zarr_conventions"), PROJ)
    if way in ("cf", "both"):
        new["grid_mapping"] = _write_mapping(array, given, name)

    def change(attributes: dict[str, Any]) -> None:
        for name in ("_CRS", "grid_mapping", "proj:code", "proj:wkt2", "proj:projjson"):
            attributes.pop(name, None)
        attributes.update(new)

    array.attrs.edit(change)
    return given


def registered(conventions: Any, *new: dict[str, str]) -> list[Any]:
    """Return a list of `zarr_conventions` with others added, without duplicates."""
    found = list(conventions) if isinstance(conventions, list) else []
    known = [c.get("uuid") for c in found if isinstance(c, dict)]
    return [*found, *(c for c in new if c["uuid"] not in known)]


def _write_mapping(array: Array, crs: CRS, name: str) -> str:
    """Store a grid mapping variable in the group of an array, or use an existing equal one."""
    group = parent_group(array)
    if group is None:
        raise errors.CannotExpress(
            f"{array.name} in {array.store!r} has no parent group for a grid mapping variable;"
            " use way='gdal', or put the array into a group"
        )
    attributes = to_grid_mapping(crs)
    existing = group.get(name)
    if existing is None:
        group.create_array(
            name,
            data=np.int32(0),
            attributes=attributes,
            dimension_names=[],
            compressors=None,
            fill_value=None,  # in version 2, xarray takes 0 for missing if it is the fill value
        )
        return name
    system = from_grid_mapping(existing.attrs) if isinstance(existing, Array) else None
    if system is not None and system.same(crs):
        return name
    raise errors.NodeExists(
        f"{existing.name} exists already and is not {crs}; use another variable name"
    )


_USER_DEFINED = 32767  # a reference system that is described by parameters, not by a code
GEOTIFF_KEYS = {"GTModelTypeGeoKey", "GeographicTypeGeoKey"}  # a system has one of them


def epsg_number(value: Any) -> int | None:
    """Return the EPSG code in a GeoTIFF key; None if it has none."""
    return int(value) if isinstance(value, int) and 1024 <= value < _USER_DEFINED else None


def geotiff_crs(tags: dict[str, Any], path: str) -> CRS | None:
    """Return the reference system of a code; of parameters, if rasterio is installed to read it."""
    model, projected = tags.get("GTModelTypeGeoKey"), tags.get("ProjectedCSTypeGeoKey")
    code = None
    if model == 1 or projected is not None:
        code = epsg_number(projected)
    elif model != _USER_DEFINED and (model or not any(n.startswith("Proj") for n in tags)):
        code = epsg_number(tags.get("GeographicTypeGeoKey"))  # not only the base of another one
    if code is not None:
        return CRS.of(f"EPSG:{code}")
    if not tags.keys() & GEOTIFF_KEYS:
        return None
    try:
        with import_module("rasterio").open(path) as opened:
            crs = opened.crs
            known = crs is not None and (crs.is_projected or crs.is_geographic)
            return CRS.of(crs.to_wkt(version="WKT2_2019")) if known else None
    except ImportError:
        return None
