"""Maps: overviews of a raster, and tile matrix sets.

``{"multiscales": {"tile_matrix_set": …, "tile_matrix_limits": …}}``: every child that is named like
a tile matrix is a level. The set is an object of the OGC's Two Dimensional Tile Matrix Set 2.0, or
its name or address, which is not looked up: such levels lie where their own coordinates say.
Levels are found by the multiscales convention, ``[{"datasets": [{"path": "0"}, …]}]``, or by that
of GeoZarr, ``{"layout": [{"asset": "0", …}, …]}``, or by what its drafts had: a layout of ``path``
or ``id``, and tile matrix sets. A single array is a map of one level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnizarr.conventions.geo.crs import CRS, from_proj, read_crs
from omnizarr.conventions.geo.transform import (
    Affine,
    Bounds,
    from_attributes,
    from_coordinates,
    read_transform,
    spatial_axes,
)
from omnizarr.errors import (
    InvalidArgument,
    InvalidMetadata,
    NoSuchLabel,
    SelectionError,
    WrongNode,
    error_context,
    warn,
)
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.open import open as open_zarr
from omnizarr.model import paths

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
    with error_context("crs", catch=(InvalidArgument,), into=InvalidMetadata):
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


# Positions such as 0.3 / 0.1 miss whole numbers by some rounding.
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Level:
    """One array of a map, and where it lies; `transform` is None where nothing states it."""

    array: Array
    transform: Affine | None
    rows: int  # the axes
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns it has."""
        return self.array.shape[self.rows], self.array.shape[self.columns]

    @property
    def bounds(self) -> Bounds | None:
        """``(xmin, ymin, xmax, ymax)``."""
        return None if self.transform is None else self.transform.bounds(self.shape)

    def select(self, bounds: Sequence[float]) -> tuple[slice, ...]:
        """The selection of the pixels that a box touches; raises where there are none."""
        if self.transform is None:
            raise InvalidMetadata(f"{self.array.name} does not say where it lies; read it by index")
        if not self.transform.upright:
            raise InvalidMetadata(
                f"{self.array.name} is turned against its coordinates; read it by index, with"
                " level.transform"
            )
        left, bottom, right, top = bounds
        corners = [self.transform.column_row(x, y) for x, y in ((left, bottom), (right, top))]
        (columns, rows) = (sorted(axis) for axis in zip(*corners, strict=True))
        found = [slice(None)] * self.array.ndim
        for axis, (low, high) in ((self.columns, columns), (self.rows, rows)):
            start = max(0, math.floor(low + _TOLERANCE))
            stop = min(self.array.shape[axis], math.ceil(high - _TOLERANCE))
            if start >= stop:
                raise SelectionError(f"{tuple(bounds)} is outside the map, {self.bounds}")
            found[axis] = slice(start, stop)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Map:
    """Levels, the finest first, in one coordinate reference system."""

    levels: tuple[Level, ...]
    crs: CRS | None

    @property
    def bounds(self) -> Bounds | None:
        """``(xmin, ymin, xmax, ymax)`` of the finest level."""
        return self.levels[0].bounds

    @property
    def resolutions(self) -> tuple[float | None, ...]:
        """The longer side of a pixel of each level, in the units of the coordinates."""
        return tuple(None if t is None else max(t.resolution) for t in self._transforms())

    def _transforms(self) -> list[Affine | None]:
        return [level.transform for level in self.levels]

    def level(self, resolution: float) -> Level:
        """The coarsest level whose pixels are at most so long; the finest where none is."""
        if resolution <= 0:
            raise SelectionError(f"resolution must be greater than 0, got {resolution!r}")
        known = [r for r in self.resolutions if r is not None]
        if len(known) != len(self.levels):
            raise InvalidMetadata("the map does not say how large its pixels are; take .levels[i]")
        good = [i for i, r in enumerate(known) if r <= resolution * (1 + _TOLERANCE)]
        return self.levels[max(good, key=lambda i: known[i]) if good else 0]

    def read(
        self, bounds: Sequence[float] | None = None, *, resolution: float | None = None
    ) -> npt.NDArray[Any]:
        """The stored values of a box ``(xmin, ymin, xmax, ymax)``, of a level by its resolution."""
        level = self.levels[0] if resolution is None else self.level(resolution)
        selection = ... if bounds is None else level.select(bounds)
        return np.asarray(level.array[selection])

    def __repr__(self) -> str:
        shapes = ", ".join("×".join(map(str, level.shape)) for level in self.levels)
        name = self.levels[0].array.name
        return f"<Map {name}  {self.crs or 'no CRS'}  {len(self.levels)} levels: {shapes}>"


def open(
    store: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str | None = None,
    variable: str | None = None,
    multiscale: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Map:
    """The map at an address: a multiscale group, an array, or a group with one array of a map.

    `store` is as in `omnizarr.open`; `variable` names the array where a group has several.
    `multiscale` chooses one of several pyramids that a group lists, by its name or place in the
    list; without, the first is taken, with a warning that there are others.
    """
    node = open_zarr(store, mode, path=path, storage_options=storage_options)
    if isinstance(node, Array):
        return Map((_level(node),), read_crs(node))
    stated = node.attrs.get("multiscales")
    if stated is None:
        array = _variable(node, variable)
        return Map((_level(array),), read_crs(array))
    entries = _entries(node, _chosen(node, stated, multiscale))
    levels = _placed([(_array(node, path, variable), extra) for path, extra in entries], node)
    return Map(levels, read_crs(levels[0].array) or from_proj(node.attrs) or tile_crs(stated))


def _chosen(group: Group, stated: Any, wanted: int | str | None) -> Any:
    """The metadata of one pyramid, where a group lists several."""
    several = stated if isinstance(stated, list) else [stated]
    if wanted is None and len(several) < 2:
        return stated
    names = [m.get("name") if isinstance(m, Mapping) else None for m in several]
    place = f"{group.name} in {group.store!r}"
    shown = ", ".join(f"{i} ({name})" if name else str(i) for i, name in enumerate(names))
    if wanted is None:
        warn(f"{place} has several pyramids: {shown}; the first is taken, give multiscale= for one")
        return stated
    if isinstance(wanted, str) and names.count(wanted) == 1:
        wanted = names.index(wanted)
    if isinstance(wanted, int) and 0 <= wanted < len(several):
        return [stated[wanted]] if several is stated else stated
    raise NoSuchLabel(f"{place} has no one pyramid {wanted!r}; known: {shown}")


def _entries(group: Group, stated: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Paths of levels, each with what else is said about it."""
    keys: tuple[str, ...] = ()
    listed: Any = None
    if isinstance(stated, list) and stated and isinstance(stated[0], Mapping):
        listed, keys = stated[0].get("datasets"), ("path",)
    elif isinstance(stated, Mapping) and SET in stated and "layout" not in stated:
        return tile_levels(group, stated)
    elif isinstance(stated, Mapping):
        listed, keys = stated.get("layout"), ("asset", "path", "id")
    good = isinstance(listed, list) and listed and all(
        isinstance(e, Mapping) and isinstance(_first(e, keys), str) for e in listed
    )  # fmt: skip
    if not good:
        raise InvalidMetadata(
            f"{group.name} in {group.store!r}: multiscales: expected [{{'datasets': [{{'path':"
            " …}]}] or {'layout': [{'asset': …}]}, got something else"
        )
    return [(_first(entry, keys), entry) for entry in listed]


def _first(entry: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((entry[key] for key in keys if key in entry), None)


def _array(group: Group, path: str, variable: str | None) -> Array:
    if ".." in path.split("/") or path.startswith("/"):
        raise InvalidMetadata(f"multiscales: {path!r} leads out of {group.name}")
    node = group[paths.normalize(path)]
    return node if isinstance(node, Array) else _variable(node, variable)


def _variable(group: Group, name: str | None) -> Array:
    if name is not None:
        found = group[name]
        if isinstance(found, Array):
            return found
        raise WrongNode(f"{found.name} is a group; variable must name an array")
    arrays = [array for _, array in group.arrays() if array.ndim >= 2]
    if len(arrays) != 1:
        names = ", ".join(array.basename for array in arrays) or "none"
        raise WrongNode(
            f"{group.name} in {group.store!r} has {len(arrays)} arrays that could be the map;"
            f" name one with variable=: {names}"
        )
    return arrays[0]


def _level(array: Array, transform: Affine | None = None, of: Any = None) -> Level:
    rows, columns = spatial_axes(array, of)
    return Level(array, transform or read_transform(array), rows, columns)


def _placed(found: list[tuple[Array, Mapping[str, Any]]], group: Group) -> tuple[Level, ...]:
    """Levels, finest first; one that does not say where it lies covers what the finest covers."""
    wide = sorted(found, key=lambda item: -math.prod(item[0].shape))
    levels: list[Level] = []
    for array, extra in wide:
        stated = from_attributes(extra) or _own_transform(array, group) or extra.get(PLACE)
        if stated is None and levels:
            level = _level(array, Affine(1, 0, 0, 0, 1, 0), group.attrs)
            transform = _from_finest(levels[0], level)
            levels.append(Level(array, transform, level.rows, level.columns))
        else:
            levels.append(_level(array, stated, group.attrs))
    return tuple(levels)


def _own_transform(array: Array, group: Group) -> Affine | None:
    """Where a level lies by itself; what the group of all levels says is about the finest."""
    if array.path.rpartition("/")[0] != group.path:
        return read_transform(array)
    return from_attributes(array.attrs) or from_coordinates(array)


def _from_finest(finest: Level, level: Level) -> Affine | None:
    """Pixels a whole number of times larger where the lengths were rounded up, else stretched."""
    if finest.transform is None:
        return None
    factors = []
    for fine, coarse in zip(finest.shape, level.shape, strict=True):
        whole = max(1, round(fine / max(1, coarse)))
        factors.append(float(whole) if -(-fine // whole) == coarse else fine / max(1, coarse))
    return finest.transform.scaled(factors[1], factors[0])
