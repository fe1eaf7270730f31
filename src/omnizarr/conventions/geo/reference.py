"""Where an array's coordinate reference system stands, and putting one there.

- CF: the attribute `grid_mapping` names a variable whose `crs_wkt` has it; OGC 21-050 endorses it.
- GDAL: the attribute `_CRS`, an object with `url`, `wkt` or `projjson`.
- The convention `proj:`: attributes `proj:code`, `proj:wkt2`, `proj:projjson` of the array or of
  the group directly around it.

Where several say different things, CF wins, then GDAL, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from omnizarr.conventions.geo.crs import (
    CRS,
    from_gdal,
    from_grid_mapping,
    from_proj,
    to_gdal,
    to_grid_mapping,
    to_proj,
)
from omnizarr.errors import CannotExpress, InvalidMetadata, NodeExists, warn
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group, open_node
from omnizarr.model import paths

Way = Literal["cf", "gdal", "both", "proj"]
GRID_MAPPING = "spatial_ref"
PROJ = {
    "schema_url": (
        "https://raw.githubusercontent.com/zarr-conventions/geo-proj/refs/tags/v1/schema.json"
    ),
    "spec_url": "https://github.com/zarr-conventions/geo-proj/blob/v1/README.md",
    "uuid": "f17cb550-5864-4468-aeb7-f3180cfb622f",
    "name": "proj:",
}


def read_crs(array: Array) -> CRS | None:
    """The coordinate reference system of an array; None where none is stated.

    A statement that leads nowhere, or that differs from one which counts more, is told by a
    warning.
    """
    found = [(way, crs) for way, crs in _stated(array) if crs is not None]
    for way, crs in found[1:]:
        if found[0][1].same(crs) is False:
            _warn(
                array,
                f"{found[0][0]} says {found[0][1]}, but {way} says {crs}; the first is used",
            )
    return found[0][1] if found else None


def _stated(array: Array) -> Iterator[tuple[str, CRS | None]]:
    if "grid_mapping" in array.attrs:
        mapping = grid_mapping(array)
        if mapping is None:
            _warn(array, f"grid_mapping names {array.attrs['grid_mapping']!r}, which is not there")
        else:
            yield f"grid_mapping {mapping.name}", from_grid_mapping(mapping.attrs)
    if "_CRS" in array.attrs:
        yield "_CRS", from_gdal(array.attrs["_CRS"])
    own = from_proj(array.attrs)
    parent = None if own is not None else around(array)
    yield "proj:", own if parent is None else from_proj(parent.attrs)


def _warn(array: Array, message: str) -> None:
    warn(f"{array.name} in {array.store!r}: {message}")


def grid_mapping(array: Array) -> Array | None:
    """The grid mapping variable that an array names: beside it, or in a group around it."""
    stated = array.attrs.get("grid_mapping")
    if not isinstance(stated, str) or not stated.split():
        return None
    name = stated.split()[0].rstrip(":")  # "crs: x y" names the coordinates it is for
    return sibling(array, name)


def sibling(array: Array, name: str) -> Array | None:
    """The array of that name beside another, or in the nearest group around that has it."""
    place = "" if name.startswith("/") else array.path
    while True:
        place = place.rpartition("/")[0]
        location = array._location.at(paths.join(place, paths.normalize(name)))
        node = location.find([]) if location.path != array.path else None
        if node is not None:
            found = open_node(location, node)
            return found if isinstance(found, Array) else None
        if not place:
            return None


def around(array: Array) -> Group | None:
    """The group that an array lies in; None for an array at the root."""
    if not array.path:
        return None
    location = array._location.at(array.path.rpartition("/")[0])
    node = location.find([])
    found = None if node is None else open_node(location, node)
    return found if isinstance(found, Group) else None


def write_crs(array: Array, crs: Any, *, way: Way = "cf", name: str = GRID_MAPPING) -> CRS:
    """State the coordinate reference system of an array, and give it back.

    `crs` is whatever `CRS.of` takes. `way` is ``"cf"``: a grid mapping variable `name` beside the
    array; ``"gdal"``: the attribute `_CRS`; ``"both"``; or ``"proj"``: the convention `proj:`. The
    other ways' statements, were there any, are removed, so that none is left that differs.
    """
    if way not in ("cf", "gdal", "both", "proj"):
        raise InvalidMetadata(f"way must be 'cf', 'gdal', 'both' or 'proj', got {way!r}")
    given = CRS.of(crs)
    if not given:
        raise InvalidMetadata(f"there is no coordinate reference system in {crs!r}")
    new: dict[str, Any] = {}
    if way in ("gdal", "both"):
        new["_CRS"] = to_gdal(given)
    if way == "proj":
        new.update(to_proj(given))
        new["zarr_conventions"] = registered(array.attrs.get("zarr_conventions"), PROJ)
    if way in ("cf", "both"):
        new["grid_mapping"] = _write_mapping(array, given, name)

    old = ("_CRS", "grid_mapping", "proj:code", "proj:wkt2", "proj:projjson")

    def stated(attributes: dict[str, Any]) -> None:
        for name in old:
            attributes.pop(name, None)
        attributes.update(new)

    array.attrs.edit(stated)
    return given


def registered(conventions: Any, *new: dict[str, str]) -> list[Any]:
    """A list of `zarr_conventions` with more in it, each once."""
    found = list(conventions) if isinstance(conventions, list) else []
    known = [c.get("uuid") for c in found if isinstance(c, dict)]
    return [*found, *(c for c in new if c["uuid"] not in known)]


def _write_mapping(array: Array, crs: CRS, name: str) -> str:
    """Store a grid mapping variable beside an array, or use the equal one that is there."""
    group = around(array)
    if group is None:
        raise CannotExpress(
            f"{array.name} in {array.store!r} has no group around it for a grid mapping variable;"
            " use way='gdal', or put the array into a group"
        )
    attributes = to_grid_mapping(crs)
    there = group.get(name)
    if there is None:
        group.create_array(
            name, data=np.int32(0), attributes=attributes, dimension_names=[], compressors=None
        )
        return name
    stated = from_grid_mapping(there.attrs) if isinstance(there, Array) else None
    if stated is not None and stated.same(crs):
        return name
    raise NodeExists(
        f"{there.name} is there already and is not {crs}; give another name for the variable"
    )
