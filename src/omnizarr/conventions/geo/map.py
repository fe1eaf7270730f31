"""Maps: rasters with levels of lower resolution.

The levels of a group are listed in its attribute `multiscales`, in one of these forms:

- the convention "Multiscale Arrays": ``[{"datasets": [{"path": "0"}, …]}]``
- GeoZarr: ``{"layout": [{"asset": "0", …}, …]}``; in drafts ``path`` or ``id`` instead of ``asset``
- drafts of GeoZarr: ``{"tile_matrix_set": …}``, an object of the OGC's Two Dimensional Tile Matrix
  Set 2.0, or its name. Every child named like a tile matrix is a level, whose own coordinates say
  where it is.

A single array is a map of one level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from omnizarr import Array, Group, errors
from omnizarr import open as open_zarr
from omnizarr.conventions.geo.crs import CRS, from_proj, full_circle, read_crs
from omnizarr.conventions.geo.transform import (
    Affine,
    Bounds,
    check_bounds,
    from_attributes,
    from_coordinates,
    read_transform,
    spatial_axes,
)
from omnizarr.extension import as_plain, paths

SET = "tile_matrix_set"
_ASSET = ("asset", "path", "id")  # names of the path of a level, in the order of precedence
_RELATIVE = "transform"  # the key of a level's place in the pixels of another
# Quotients such as 0.3 / 0.1 differ from whole numbers by rounding errors.
_TOLERANCE = 1e-6


def _tile_levels(group: Group, given: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the children of a group that are levels of a tile matrix set."""
    if isinstance(given, str):
        found = sorted((n for n, _ in group.groups() if n.isdigit()), key=int)
    else:
        matrices = given.get("tileMatrices") if isinstance(given, Mapping) else None
        ids = [m.get("id") if isinstance(m, Mapping) else None for m in matrices or ()]
        if not isinstance(matrices, list) or not all(isinstance(id_, str) for id_ in ids):
            raise errors.InvalidMetadata(
                f"{group.name} in {group.store!r}: {SET}: expected a name or an object with"
                f" 'tileMatrices', each with an 'id', got {given!r}"
            )
        stored = {*group.keys()}
        found = [str(id_) for id_ in ids if id_ in stored]
    if not found:
        where = f"{group.name} in {group.store!r}"
        raise errors.InvalidMetadata(f"{where}: no child has the name of a tile matrix of {SET}")
    return [(name, {}) for name in found]


def _tile_crs(multiscales: Any) -> CRS | None:
    """Return the reference system of a tile matrix set, or None."""
    given = multiscales.get(SET) if isinstance(multiscales, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    crs = given.get("crs", given.get("supportedCRS"))
    if isinstance(crs, Mapping):
        crs = crs.get("uri", crs.get("wkt"))
    with errors.error_context("crs", catch=(errors.InvalidArgument,), into=errors.InvalidMetadata):
        return None if crs is None else CRS.of(crs)


@dataclass(frozen=True, eq=False)
class Level:
    """One array of a map, and its transform, which is None if it is unknown."""

    array: Array
    transform: Affine | None
    rows: int  # the axes
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.array.shape[self.rows], self.array.shape[self.columns]

    @property
    def bounds(self) -> Bounds | None:
        """The bounds ``(xmin, ymin, xmax, ymax)``, or None if they are unknown."""
        return None if self.transform is None else self.transform.bounds(self.shape)

    def select(self, bounds: Sequence[float]) -> tuple[slice, ...]:
        """Return the selection of the pixels that a box touches.

        Args:
            bounds: The box ``(xmin, ymin, xmax, ymax)``.

        Raises:
            InvalidMetadata: If the transform is unknown.
            SelectionError: If the box touches no pixel.

        Examples:
            >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), bounds=(0, 0, 8, 4))
            >>> earth.levels[0].select((0, 0, 2, 2))
            (slice(2, 4, None), slice(0, 2, None))
        """
        if self.transform is None:
            raise errors.InvalidMetadata(f"{self.array.name} has no coordinates; read it by index")
        if not self.transform.upright:
            raise errors.InvalidMetadata(
                f"{self.array.name} is rotated against its coordinates; read it by index, using"
                " level.transform"
            )
        left, bottom, right, top = check_bounds(bounds, errors.SelectionError)
        corners = self.transform.column_row(left, bottom), self.transform.column_row(right, top)
        columns, rows = (sorted(axis) for axis in zip(*corners, strict=True))
        found = [slice(None)] * self.array.ndim
        for axis, (low, high) in ((self.columns, columns), (self.rows, rows)):
            start = max(0, math.floor(low + _TOLERANCE))
            stop = min(self.array.shape[axis], math.ceil(high - _TOLERANCE))
            if start >= stop:
                raise errors.SelectionError(f"{tuple(bounds)} is outside the map, {self.bounds}")
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
        transforms = [level.transform for level in self.levels]
        return tuple(None if t is None else max(t.resolution) for t in transforms)

    def level(self, resolution: float) -> Level:
        """Return the coarsest level whose pixels are at most this long, or else the finest.

        Args:
            resolution: The length of a pixel, in the units of the coordinates.

        Raises:
            InvalidMetadata: If the transform of a level is unknown.
            SelectionError: If the resolution is not a positive number.

        Examples:
            >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), bounds=(0, 0, 8, 4), levels=2)
            >>> earth.level(2).shape
            (2, 4)
        """
        if resolution <= 0:
            raise errors.SelectionError(f"resolution must be greater than 0, got {resolution!r}")
        known = [r for r in self.resolutions if r is not None]
        if len(known) != len(self.levels):
            raise errors.InvalidMetadata("the size of the map's pixels is unknown; use .levels[i]")
        good = [i for i, r in enumerate(known) if r <= resolution * (1 + _TOLERANCE)]
        return self.levels[max(good, key=lambda i: known[i]) if good else 0]

    def read(
        self, bounds: Sequence[float] | None = None, *, resolution: float | None = None
    ) -> npt.NDArray[Any]:
        """Return the values in a box, from the level for a resolution.

        Longitudes of a geographic system are the same after a full circle: a box across the edge
        of a map that goes around the Earth is read from both sides and joined.

        Args:
            bounds: The box ``(xmin, ymin, xmax, ymax)``; by default all of the map. Across the
                antimeridian, ``(170, -10, -170, 10)`` and ``(170, -10, 190, 10)`` are the same.
            resolution: The length of a pixel, in the units of the coordinates; by default the
                finest.

        Raises:
            SelectionError: If the box touches no pixel, a minimum is above its maximum, or the map
                has a gap within the box.

        Examples:
            >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), bounds=(0, 0, 8, 4))
            >>> earth.read((0, 0, 2, 2)).shape
            (2, 2)
        """
        level = self.levels[0] if resolution is None else self.level(resolution)
        if bounds is None:
            return as_plain(level.array[...])
        boxes = self._parts(level, tuple(bounds))
        parts = [as_plain(level.array[level.select(box)]) for box in boxes]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, level.columns)

    def _parts(self, level: Level, box: tuple[float, ...]) -> list[tuple[float, ...]]:
        """Return the parts of a box in the order of columns, moved by full circles into a level."""
        extent, transform = level.bounds, level.transform
        if len(box) != 4 or extent is None or transform is None:
            return [box]
        left, bottom, right, top = box
        inside = extent[0] <= left <= right <= extent[2]
        circle = None if inside else full_circle(self.crs)
        if circle is None or not all(map(math.isfinite, box)):
            return [box]
        right += circle if right < left else 0
        little = abs(transform.a) * _TOLERANCE
        if not 0 <= right - left <= circle + little:
            return [box]
        last = math.ceil((extent[0] - right) / circle)
        parts: list[tuple[float, ...]] = []
        for rounds in range(math.floor((extent[2] - left) / circle), last - 1, -1):
            low = max(extent[0], left + rounds * circle)
            high = min(extent[2], right + rounds * circle)
            if high - low > 2 * little:
                parts.append((low, bottom, high, top))
        if len(parts) > 1 and abs(extent[2] - extent[0] - circle) > abs(transform.a) / 100:
            raise errors.SelectionError(
                f"{box} reaches over the edge of the map {extent}, which does not go around the"
                " Earth; read the parts by themselves: " + " and ".join(str(part) for part in parts)
            )
        return (parts if transform.a > 0 else parts[::-1]) or [(left, bottom, right, top)]

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
    """Open a map: a group with multiscales, an array, or a group with one such array.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read, ``"r+"`` to read and write.
        path: The path of the node in the store; by default the root.
        variable: The name of the array if a group has several.
        multiscale: The name or number of one of several pyramids in a group; by default, the first
            is used, with a warning.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        The map.

    Raises:
        NodeNotFound: If there is no such node.
        InvalidMetadata: If the metadata of the map are not valid.

    Examples:
        >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), bounds=(0, 0, 8, 4))
        >>> oz.geo.open("earth.zarr").bounds
        (0.0, 0.0, 8.0, 4.0)
    """
    node = open_zarr(store, mode, path=path, storage_options=storage_options)
    multiscales = None if isinstance(node, Array) else node.attrs.get("multiscales")
    if isinstance(node, Array) or multiscales is None:
        array = node if isinstance(node, Array) else _variable(node, variable)
        return Map((Level(array, read_transform(array), *spatial_axes(array)),), read_crs(array))
    entries = _entries(node, _chosen(node, multiscales, multiscale))
    levels = _levels([(_array(node, path, variable), extra) for path, extra in entries], node)
    return Map(levels, read_crs(levels[0].array) or from_proj(node.attrs) or _tile_crs(multiscales))


def _chosen(group: Group, multiscales: Any, wanted: int | str | None) -> Any:
    """Return the metadata of one pyramid if a group lists several."""
    several = multiscales if isinstance(multiscales, list) else [multiscales]
    if wanted is None and len(several) < 2:
        return multiscales
    names = [m.get("name") if isinstance(m, Mapping) else None for m in several]
    where = f"{group.name} in {group.store!r}"
    shown = ", ".join(f"{i} ({name})" if name else str(i) for i, name in enumerate(names))
    if wanted is None:
        errors.warn(
            f"{where} has several pyramids: {shown}; using the first, pass multiscale= to choose"
        )
        return multiscales
    if isinstance(wanted, str) and names.count(wanted) == 1:
        wanted = names.index(wanted)
    if isinstance(wanted, int) and 0 <= wanted < len(several):
        return [multiscales[wanted]] if several is multiscales else multiscales
    raise errors.NoSuchLabel(f"{where} has no unique pyramid {wanted!r}; known: {shown}")


def _entries(group: Group, multiscales: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the paths of all levels, each with its other metadata."""
    keys: tuple[str, ...] = ("path",)
    listed: Any = None
    if isinstance(multiscales, list) and multiscales and isinstance(multiscales[0], Mapping):
        listed = multiscales[0].get("datasets")
    elif isinstance(multiscales, Mapping) and SET in multiscales and "layout" not in multiscales:
        return _tile_levels(group, multiscales[SET])
    elif isinstance(multiscales, Mapping):
        listed, keys = multiscales.get("layout"), _ASSET
    listed = listed if isinstance(listed, list) else []
    entries = [e if isinstance(e, Mapping) else {} for e in listed]
    found: list[tuple[Any, Mapping[str, Any]]]
    found = [(next((e[key] for key in keys if key in e), None), e) for e in entries]
    if not found or not all(isinstance(p, str) for p, _ in found):
        raise errors.InvalidMetadata(
            f"{group.name} in {group.store!r}: multiscales: expected [{{'datasets': [{{'path':"
            " …}]}] or {'layout': [{'asset': …}]}, got something else"
        )
    return found


def _array(group: Group, path: str, variable: str | None) -> Array:
    if ".." in path.split("/") or path.startswith("/"):
        raise errors.InvalidMetadata(f"multiscales: {path!r} points outside {group.name}")
    node = group[paths.normalize(path)]
    return node if isinstance(node, Array) else _variable(node, variable)


def _variable(group: Group, name: str | None) -> Array:
    if name is not None:
        found = group[name]
        if isinstance(found, Array):
            return found
        raise errors.WrongNode(f"{found.name} is a group; variable must name an array")
    arrays = [array for _, array in group.arrays() if array.ndim >= 2]
    if len(arrays) != 1:
        names = ", ".join(array.path.rpartition("/")[2] for array in arrays) or "none"
        raise errors.WrongNode(
            f"{group.name} in {group.store!r} has {len(arrays)} arrays that could be the map:"
            f" {names}; choose one with variable=NAME"
        )
    return arrays[0]


def _levels(found: list[tuple[Array, Mapping[str, Any]]], group: Group) -> tuple[Level, ...]:
    """Return levels, the finest first; one without a transform is placed relative to the finest."""
    wide = sorted(found, key=lambda item: -math.prod(item[0].shape))
    named = {extra[key]: extra for _, extra in found for key in _ASSET if key in extra}
    levels: list[Level] = []
    for array, extra in wide:
        own = from_attributes(extra) or _own_transform(array, group)
        level = Level(array, own, *spatial_axes(array, group.attrs))
        if own is None and levels:
            fine = levels[0].transform
            with errors.error_context(f"{group.name} in {group.store!r}: multiscales"):
                pixels = _in_pixels(extra, named, level) if _RELATIVE in extra else None
                base = None if pixels is None else _in_pixels(wide[0][1], named, level)
            if fine is None or pixels is None or base is None:
                own = _from_finest(levels[0], level)
            else:
                corner = base.column_row(pixels.c, pixels.f)
                own = fine.shifted(*corner).scaled(pixels.a / base.a, pixels.e / base.e)
        levels.append(replace(level, transform=own if own or levels else read_transform(array)))
    return tuple(levels)


def _in_pixels(
    entry: Mapping[str, Any], named: Mapping[Any, Mapping[str, Any]], level: Level
) -> Affine | None:
    """Return the transform from a level's pixels to pixels of the level it ultimately derives from.

    A level that is derived from another has a `scale`, the size of its pixels in pixels of the
    other, and a `translation`, the position of its corner there. None if one is not stated.
    """
    total = Affine(1, 0, 0, 0, 1, 0)
    for _ in range(len(named) + 1):
        given, source = entry.get(_RELATIVE), entry.get("derived_from")
        if given is None and source is not None:
            return None
        if given is not None:
            sy, sx = _by_axis(given, "scale", 1, level)
            ty, tx = _by_axis(given, "translation", 0, level)
            total = Affine(total.a * sx, 0, total.c * sx + tx, 0, total.e * sy, total.f * sy + ty)
        if source is None:
            return total
        if source not in named:
            return None
        entry = named[source]
    raise errors.InvalidMetadata("the levels are derived from each other in a circle")


def _by_axis(transform: Any, name: str, default: float, level: Level) -> tuple[float, float]:
    """Return the numbers of a relative transform for rows and columns."""
    numbers: Any = transform.get(name, [default] * 2) if isinstance(transform, Mapping) else None
    known = isinstance(numbers, list) and all(
        isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers
    )
    if known and len(numbers) == level.array.ndim:
        return numbers[level.rows], numbers[level.columns]
    if known and len(numbers) == 2:
        return numbers[0], numbers[1]
    raise errors.InvalidMetadata(
        f"{_RELATIVE}: expected an object whose {name!r} has a number for each axis, got"
        f" {transform!r}"
    )


def _own_transform(array: Array, group: Group) -> Affine | None:
    """Return a level's own transform; the transform of the pyramid's group is the finest's."""
    if array.path.rpartition("/")[0] != group.path:
        return read_transform(array)
    return from_attributes(array.attrs) or from_coordinates(array)


def _from_finest(finest: Level, level: Level) -> Affine | None:
    """Return the transform of a level, scaled by a whole number or by the quotient of lengths."""
    if finest.transform is None:
        return None
    factors = []
    for fine, coarse in zip(finest.shape, level.shape, strict=True):
        whole = max(1, round(fine / max(1, coarse)))
        factors.append(float(whole) if -(-fine // whole) == coarse else fine / max(1, coarse))
    return finest.transform.scaled(factors[1], factors[0])
