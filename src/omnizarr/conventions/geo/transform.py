"""Affine transforms from columns and rows to coordinates, in the forms that files use.

- `spatial:transform` of the convention `spatial:`: ``[a, b, c, d, e, f]``
- `GeoTransform` of a grid mapping variable, GDAL's order: ``"c a b f d e"``
- coordinate variables with a constant step, which may be packed (`scale_factor`, `add_offset`)

The origin is the outer corner of the first pixel, whose centre is at column 0.5, row 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnizarr import Array
from omnizarr.conventions.cf.variable import decode
from omnizarr.conventions.geo.crs import grid_mapping, parent_group, sibling
from omnizarr.errors import InvalidArgument, InvalidMetadata, OmnizarrError

Bounds = tuple[float, float, float, float]
_AXIS_NAMES = (("y", "x"), ("Y", "X"), ("lat", "lon"), ("latitude", "longitude"))
# Coordinates are often stored as 32-bit floats.
_EVEN = 1e-4


@dataclass(frozen=True)
class Affine:
    """``x = a*column + b*row + c``, ``y = d*column + e*row + f``.

    Attributes:
        a: The width of a pixel.
        b: The shift in x from row to row.
        c: The x of the upper left corner.
        d: The shift in y from column to column.
        e: The height of a pixel, negative if north is at the top.
        f: The y of the upper left corner.

    Examples:
        >>> oz.geo.Affine(1, 0, -180, 0, -1, 90).xy(10, 20)
        (-170, 70)
    """

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) for v in self.coefficients):
            raise InvalidMetadata(f"an affine transform needs finite numbers, got {self}")
        if self.a * self.e == self.b * self.d:
            raise InvalidMetadata(f"{self} maps all pixels to a line")

    @classmethod
    def of(cls, given: Any) -> Affine:
        """Return the transform with six numbers in the order of `spatial:transform`.

        Args:
            given: Six numbers ``[a, b, c, d, e, f]``, or an Affine of this or another package.

        Raises:
            InvalidMetadata: If there are not six numbers.

        Examples:
            >>> oz.geo.Affine.of([1, 0, -180, 0, -1, 90]).resolution
            (1.0, 1.0)
        """
        if isinstance(given, Affine):
            return given
        try:
            values = [float(v) for v in given][:6]
            return cls(*values)
        except (TypeError, ValueError) as e:
            raise InvalidMetadata(f"expected six numbers [a, b, c, d, e, f], got {given!r}") from e

    @classmethod
    def from_gdal(cls, given: Any) -> Affine:
        """Return the transform with six numbers in GDAL's order: ``[c, a, b, f, d, e]``.

        Args:
            given: The numbers, or text of them.

        Raises:
            InvalidMetadata: If there are not six numbers.

        Examples:
            >>> oz.geo.Affine.from_gdal("-180 1 0 90 0 -1").c
            -180.0
        """
        values = given.split() if isinstance(given, str) else list(given)
        if len(values) != 6:
            raise InvalidMetadata(f"GeoTransform: expected six numbers, got {given!r}")
        c, a, b, f, d, e = values
        return cls.of([a, b, c, d, e, f])

    @classmethod
    def from_bounds(cls, bounds: Sequence[float], shape: Sequence[int]) -> Affine:
        """Return the north-up transform of an array of shape (rows, columns) with bounds.

        Args:
            bounds: The box ``(xmin, ymin, xmax, ymax)``.
            shape: The numbers of rows and columns.

        Raises:
            InvalidArgument: If a minimum is not less than its maximum.

        Examples:
            >>> oz.geo.Affine.from_bounds((-180, -90, 180, 90), (180, 360)).a
            1.0
        """
        left, bottom, right, top = check_bounds(bounds, InvalidArgument)
        if left == right or bottom == top:
            raise InvalidArgument(f"the bounds {tuple(bounds)} have no area")
        rows, columns = shape
        return cls((right - left) / columns, 0.0, left, 0.0, (bottom - top) / rows, top)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The six numbers ``(a, b, c, d, e, f)``."""
        return (self.a, self.b, self.c, self.d, self.e, self.f)

    @property
    def gdal(self) -> tuple[float, ...]:
        """The six numbers in GDAL's order."""
        return (self.c, self.a, self.b, self.f, self.d, self.e)

    @property
    def resolution(self) -> tuple[float, float]:
        """The width and height of a pixel."""
        return math.hypot(self.a, self.d), math.hypot(self.b, self.e)

    @property
    def upright(self) -> bool:
        """True if rows and columns are parallel to the coordinate axes."""
        return self.b == 0 and self.d == 0

    def xy(self, column: Any, row: Any) -> tuple[Any, Any]:
        """Return the coordinates of a column and row.

        Args:
            column: A column, from 0 at the left edge, or an array of them.
            row: A row, from 0 at the top edge, or an array of them.

        Examples:
            >>> oz.geo.Affine(1, 0, -180, 0, -1, 90).xy(10, 20)
            (-170, 70)
        """
        x = self.a * column + self.b * row + self.c
        return x, self.d * column + self.e * row + self.f

    def column_row(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the column and row of coordinates, with fractions.

        Args:
            x: An x coordinate, or an array of them.
            y: A y coordinate, or an array of them.

        Examples:
            >>> column, row = oz.geo.Affine(1, 0, -180, 0, -1, 90).column_row(-169.5, 70)
            >>> float(column), float(row)
            (10.5, 20.0)
        """
        scale = self.a * self.e - self.b * self.d
        dx, dy = x - self.c, y - self.f
        return (self.e * dx - self.b * dy) / scale, (self.a * dy - self.d * dx) / scale

    def bounds(self, shape: Sequence[int]) -> Bounds:
        """Return ``(xmin, ymin, xmax, ymax)`` of an array of shape (rows, columns).

        Args:
            shape: The numbers of rows and columns.

        Examples:
            >>> tuple(float(n) for n in oz.geo.Affine(1, 0, -180, 0, -1, 90).bounds((180, 360)))
            (-180.0, -90.0, 180.0, 90.0)
        """
        rows, columns = shape
        corners = [self.xy(i, j) for i in (0, columns) for j in (0, rows)]
        xs, ys = zip(*corners, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def scaled(self, columns: float, rows: float) -> Affine:
        """Return the transform for pixels that are larger by these factors.

        Args:
            columns: The factor of the width.
            rows: The factor of the height.

        Examples:
            >>> oz.geo.Affine(1, 0, -180, 0, -1, 90).scaled(2, 2).a
            2
        """
        return Affine(
            self.a * columns, self.b * rows, self.c, self.d * columns, self.e * rows, self.f
        )

    def shifted(self, columns: float, rows: float) -> Affine:
        """Return the transform for an array that starts at another column and row.

        Args:
            columns: The first column.
            rows: The first row.

        Examples:
            >>> oz.geo.Affine(1, 0, -180, 0, -1, 90).shifted(10, 20).c
            -170
        """
        x, y = self.xy(columns, rows)
        return Affine(self.a, self.b, x, self.d, self.e, y)


def check_bounds(bounds: Sequence[float], error: type[OmnizarrError]) -> Bounds:
    """Return a box ``(xmin, ymin, xmax, ymax)``; raise `error` if it is none."""
    given = tuple(bounds)
    if len(given) != 4 or not all(math.isfinite(v) for v in given):
        raise error(f"expected bounds of four numbers (xmin, ymin, xmax, ymax), got {given}")
    left, bottom, right, top = given
    if bottom > top:
        raise error(f"the bounds {given} have ymin > ymax; their order is xmin, ymin, xmax, ymax")
    if left > right:
        raise error(
            f"the bounds {given} have xmin > xmax; their order is xmin, ymin, xmax, ymax; across"
            " the antimeridian, xmax is a full circle larger, such as 190 for -170"
        )
    return left, bottom, right, top


def spatial_axes(array: Array, attributes: Mapping[str, Any] | None = None) -> tuple[int, int]:
    """Return the axes of rows and columns: by `spatial:dimensions`, by name, or the last two."""
    if array.ndim < 2:
        raise InvalidMetadata(f"{array.name} has {array.ndim} axes; a map has at least two")
    return named_axes(array, attributes) or (array.ndim - 2, array.ndim - 1)


def named_axes(array: Array, attributes: Mapping[str, Any] | None = None) -> tuple[int, int] | None:
    """Return the axes of rows and columns that names state; None if they do not."""
    names = array.dimension_names or (None,) * array.ndim
    dimensions = (attributes or {}).get("spatial:dimensions", array.attrs.get("spatial:dimensions"))
    pairs = [tuple(dimensions)] if isinstance(dimensions, list) else []
    for pair in (*pairs, *_AXIS_NAMES):
        if len(pair) == 2 and all(name in names for name in pair):
            return names.index(pair[0]), names.index(pair[1])
    return None


def read_transform(array: Array) -> Affine | None:
    """Return the affine transform of an array, or None.

    Args:
        array: The array.

    Raises:
        InvalidMetadata: If the transform is not valid.

    Examples:
        >>> earth = oz.geo.write("earth.zarr", np.zeros((4, 8)), bounds=(0, 0, 8, 4))
        >>> oz.geo.read_transform(earth.levels[0].array).resolution
        (1.0, 1.0)
    """
    group = parent_group(array)
    for attributes in (array.attrs, {} if group is None else group.attrs):
        found = from_attributes(attributes)
        if found is not None:
            return found
    mapping = grid_mapping(array)
    if mapping is not None and "GeoTransform" in mapping.attrs:
        return Affine.from_gdal(mapping.attrs["GeoTransform"])
    return from_coordinates(array)


def from_attributes(attributes: Mapping[str, Any]) -> Affine | None:
    """Return the transform of `spatial:transform` or `proj:transform`, or None.

    Its origin is the corner of the first pixel.
    """
    if attributes.get("spatial:transform_type", "affine") != "affine":
        return None
    numbers = attributes.get("spatial:transform", attributes.get("proj:transform"))
    found = None if numbers is None else Affine.of(numbers)
    at_centres = found is not None and attributes.get("spatial:registration") == "node"
    return found.shifted(-0.5, -0.5) if found is not None and at_centres else found


def from_coordinates(array: Array) -> Affine | None:
    """Return the transform of the coordinate variables of an array; None if steps vary."""
    if array.ndim < 2 or array.dimension_names is None:
        return None
    row, column = spatial_axes(array)
    along_x, along_y = _steps(array, column), _steps(array, row)
    if along_x is None or along_y is None:
        return None
    (x, dx), (y, dy) = along_x, along_y
    return Affine(dx, 0.0, x - dx / 2, 0.0, dy, y - dy / 2)


def _steps(array: Array, axis: int) -> tuple[float, float] | None:
    """Return the first value of a coordinate variable and its step; None if the step varies."""
    name = (array.dimension_names or ())[axis]
    found = sibling(array, name) if name else None
    length = array.shape[axis]
    if found is None or found.shape != (length,) or length < 2 or found.dtype.kind not in "iuf":
        return None
    # In version 2 the fill value may be a number that no one chose, such as 0.
    stored = decode(found, times=None, fill_value_is_missing=False)
    values = np.asarray(stored[...]).astype("f8")
    step = (values[-1] - values[0]) / (len(values) - 1)
    even = np.abs(np.diff(values) - step).max() <= _EVEN * abs(step)
    return (float(values[0]), float(step)) if even and step else None


def geotiff_transform(tags: dict[str, Any]) -> Affine | None:
    """Return the transform of a GeoTIFF, from the corner of the first pixel; None without one."""
    matrix = np.ravel(tags.get("ModelTransformation", ()))
    scale, tie = np.ravel(tags.get("ModelPixelScale", ())), np.ravel(tags.get("ModelTiepoint", ()))
    if matrix.size == 16:
        a, b, _, c, d, e, _, f = map(float, matrix[:8])
        where = Affine(a, b, c, d, e, f)
    elif scale.size >= 2 and tie.size == 6:
        column, row, _, x, y, _ = map(float, tie)
        width, height = map(float, scale[:2])
        where = Affine(width, 0.0, x - column * width, 0.0, -height, y + row * height)
    else:
        return None
    at_centres = tags.get("GTRasterTypeGeoKey") == 2
    return where.shifted(-0.5, -0.5) if at_centres else where
