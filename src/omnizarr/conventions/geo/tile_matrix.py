"""Levels by a tile matrix set, as drafts of GeoZarr had them before December 2025; read only.

``{"multiscales": {"tile_matrix_set": …, "tile_matrix_limits": …}}``: every child that is named like
a tile matrix is a level. The set is an object of the OGC's Two Dimensional Tile Matrix Set 2.0, or
its name or address, which is not looked up: such levels lie where their own coordinates say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr.conventions.geo.crs import CRS
from omnizarr.conventions.geo.transform import Affine
from omnizarr.errors import InvalidMetadata
from omnizarr.hierarchy.group import Group

SET = "tile_matrix_set"
PLACE = "tile matrix"  # the key of a level's transform, where its set has one
_LIMITS = ("tile_matrix_limits", "tile_matrix_set_limits")
_NORTH_FIRST = ("lat", "y", "n")


def tile_levels(group: Group, stated: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The children of a group that are levels, each with its place."""
    given = stated[SET]
    if isinstance(given, str):
        names = sorted((n for n in group.group_keys() if n.isdigit()), key=int)
        found: list[tuple[str, Mapping[str, Any]]] = [(name, {}) for name in names]
    else:
        matrices = given.get("tileMatrices") if isinstance(given, Mapping) else None
        good = isinstance(matrices, list) and all(
            isinstance(m, Mapping) and isinstance(m.get("id"), str) for m in matrices
        )
        if not good or matrices is None:
            raise InvalidMetadata(
                f"{group.name} in {group.store!r}: {SET}: expected a name or an object with"
                f" 'tileMatrices', each with an 'id', got {given!r}"
            )
        limits: Any = next(
            (stated[key] for key in _LIMITS if isinstance(stated.get(key), dict)), {}
        )
        stored = set(group.keys())
        found = [
            (m["id"], {PLACE: _place(m, limits.get(m["id"]), given.get("orderedAxes"))})
            for m in matrices
            if m["id"] in stored
        ]
    if not found:
        raise InvalidMetadata(
            f"{group.name} in {group.store!r}: no child is named like a tile matrix of {SET}"
        )
    return found


def tile_crs(stated: Any) -> CRS | None:
    """The reference system of a tile matrix set, where it is an object that states one."""
    given = stated.get(SET) if isinstance(stated, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    crs = given.get("crs", given.get("supportedCRS"))
    if isinstance(crs, Mapping):
        crs = crs.get("uri", crs.get("wkt"))
    return None if crs is None else CRS.of(crs)


def _place(matrix: Mapping[str, Any], limits: Any, axes: Any) -> Affine | None:
    """Where the first pixel lies: the corner of the matrix, or of its first tile with data."""
    if matrix.get("cornerOfOrigin", "topLeft") != "topLeft":
        return None  # rows of tiles count upwards there, and rows of arrays need not
    size, origin = matrix.get("cellSize"), matrix.get("pointOfOrigin")
    if not isinstance(size, (int, float)) or not isinstance(origin, list) or len(origin) != 2:
        return None
    if isinstance(axes, list) and axes and str(axes[0]).lower().startswith(_NORTH_FIRST):
        origin = origin[::-1]
    first = limits if isinstance(limits, Mapping) else {}
    column = first.get("min_tile_col", 0) * matrix.get("tileWidth", 0)
    row = first.get("min_tile_row", 0) * matrix.get("tileHeight", 0)
    return Affine.of([size, 0, origin[0] + column * size, 0, -size, origin[1] - row * size])
