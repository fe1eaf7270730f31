"""Write a map with its pyramid; every block of the source is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np

from omnizarr import Array, Group, View, config
from omnizarr.bulk import pyramid
from omnizarr.conventions.cf.packing import Packing
from omnizarr.conventions.cf.variable import described_values
from omnizarr.conventions.geo.crs import (
    CRS,
    MULTISCALES,
    PROJ,
    SPATIAL,
    Way,
    read_crs,
    registered,
    to_gdal,
    to_proj,
    write_crs,
)
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.geo.transform import Affine, named_axes, read_transform, spatial_axes
from omnizarr.errors import InvalidArgument, warn
from omnizarr.extension import (
    TARGET_BYTES,
    ArrayOptions,
    as_source,
    build,
    document_options,
    guess_chunks,
    location_of,
    make_group,
    new_location,
)

# By default, levels are added until both sides are at most this long.
SMALL = 256
_COMPRESSION = {"codecs", "compressors", "serializer"}
Convention = Literal["multiscales", "geozarr"]

LIST_VERSION = "0.1"  # of "Multiscale Arrays", the convention of lists of datasets


@document_options(ArrayOptions)
def write(
    store: Any,
    data: Any,
    *,
    path: str | None = None,
    variable: str | None = None,
    crs: Any = None,
    transform: Any = None,
    bounds: Sequence[float] | None = None,
    levels: int | None = None,
    factor: int = 2,
    method: str = "mean",
    convention: Convention = "multiscales",
    way: Way = "cf",
    zarr_format: int | str | None = None,
    overwrite: bool = False,
    progress: pyramid.Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[ArrayOptions],
) -> Map:
    """Write a map with its levels; the last two axes are rows and columns.

    A Zarr array, or a view of one, brings the attributes of its values, such as `_FillValue`,
    `scale_factor` and `units`, and its place, unless you set others. If the names of its axes tell
    which are rows and columns, these are moved to the end. Missing values are left out of the means
    and maxima of coarser levels; a pixel is missing if all of its finer pixels are.

    The default compression is one that GDAL can read. A map becomes visible when it is complete; an
    existing map that it replaces stays until then.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        data: The values of the finest level.
        path: The path of the map in the store; by default the root.
        variable: With a name, every level is a group with an array of that name and its
            coordinates, as xarray and GDAL expect; otherwise, every level is an array.
        crs: Anything that `CRS.of` accepts; by default from the array `data`, if it has one.
        transform: The position of the map: six numbers ``[a, b, c, d, e, f]`` from columns and rows
            to coordinates; by default from the array `data`, if it has one.
        bounds: The same as a box ``(xmin, ymin, xmax, ymax)`` with the first row at its top.
        levels: The number of levels, including full resolution; by default, levels are added until
            both sides are at most 256 long.
        factor: The downsampling factor from each level to the next.
        method: ``"mean"``, ``"mode"``, ``"nearest"``, ``"max"`` or ``"gaussian"``.
        convention: ``"multiscales"``: a list of `datasets`; ``"geozarr"``: a `layout` with
            `spatial:transform` for every level.
        way: The way to state the system, as in `write_crs`.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default as in the hierarchy, or 3.
        overwrite: True to replace an existing node.
        progress: A function that is called while levels are written.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Options of `create_array`, for every level.

    Returns:
        The map.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        InvalidArgument: If the options do not fit the data or each other.

    Examples:
        >>> heights = np.zeros((4, 8))
        >>> earth = oz.geo.write("earth.zarr", heights, crs=4326, bounds=(0, 0, 8, 4), levels=2)
        >>> [level.shape for level in earth.levels]
        [(4, 8), (2, 4)]
    """
    source, given = _arranged(as_source(data), options.pop("dimension_names", None))
    _check(source, factor, method, convention)
    attributes = {**described_values(source)[0], **(options.get("attributes") or {})}
    options["attributes"] = attributes
    packing = Packing.of(np.dtype(source.dtype), attributes)
    pyramid.check_packing(method, packing)
    affine = _transform(transform, bounds, source.shape[-2:])
    if isinstance(source, (Array, View)):
        affine = affine or _own_transform(source)
        array = source.array if isinstance(source, View) else source
        crs = read_crs(array) if crs is None else crs
    system = None if crs is None else CRS.of(crs)
    if system is not None:  # raise before anything is written
        if way in ("cf", "both") and system.parameters is None:
            system = replace(system, wkt=system.to_wkt2())
        _ = to_gdal(system) if way in ("gdal", "both") else None
        _ = to_proj(system) if way == "proj" else None
    steps = _steps(source.shape, levels, factor)
    names = list(given or _names(source))
    if len(names) != len(source.shape) or None in names[-2:]:
        raise InvalidArgument(
            f"dimension_names must name the rows and columns of {len(source.shape)} axes,"
            f" got {names}"
        )
    if variable is not None and affine is not None and (affine.b or affine.d):
        raise InvalidArgument(
            f"{affine} is rotated, so that no coordinates can be stored; omit variable"
        )
    location = new_location(store, path, zarr_format, storage_options)
    with build(location, overwrite=overwrite, operation="writing a map") as staged:
        group = make_group(staged, None, overwrite=False)
        paths = [f"{i}/{variable}" if variable else str(i) for i in range(len(steps) + 1)]
        shapes = dict(zip(paths, pyramid.level_shapes(source.shape, steps), strict=True))
        arrays = _create(group, source, shapes, names, options, packing)
        pyramid.fill_levels(source, arrays, steps, method, progress, described_values(arrays[0])[1])

        transforms = [
            None if affine is None else affine.scaled(factor**i, factor**i)
            for i in range(len(arrays))
        ]
        for array, where in zip(arrays, transforms, strict=True):
            if where is not None:
                conventions = registered(array.attrs.get("zarr_conventions"), SPATIAL)
                place = {"spatial:dimensions": names[-2:], **_place(array, where)}
                array.attrs.update({"zarr_conventions": conventions, **place})
                if variable is not None:
                    _write_coordinates(group, array, where, names[-2:])
            if system is not None and (convention == "multiscales" or way != "proj"):
                write_crs(array, system, way=way)
        if convention == "multiscales":
            listed = {"datasets": [{"path": path} for path in paths], "type": method}
            group.attrs["multiscales"] = [{"version": LIST_VERSION, **listed}]
        else:
            levels_ = list(zip(paths, arrays, transforms, strict=True))
            group.attrs.update(_layout(levels_, factor, method, system, names[-2:]))
    return open_map(location.store, path=location.path)


def _check(source: Any, factor: int, method: str, convention: str) -> None:
    if len(source.shape) < 2:
        raise InvalidArgument(f"a map has at least two axes, got shape {source.shape}")
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 2:
        raise InvalidArgument(f"factor must be an integer of at least 2, got {factor!r}")
    pyramid.check_method(method)
    if convention not in ("multiscales", "geozarr"):
        raise InvalidArgument(f"convention must be 'multiscales' or 'geozarr', got {convention!r}")


def _arranged(source: Any, names: Any) -> tuple[Any, Any]:
    """Return a source and its axis names, with the axes named as rows and columns moved last."""
    if not isinstance(source, (Array, View)):
        return source, names
    view = source.view[...]
    places = named_axes(view.array)
    found = [axis for axis, _ in view.axes or ()]
    if places is None or not {*places} <= {*found} or found[-2:] == [*places]:
        return source, names
    order = [i for i, axis in enumerate(found) if axis not in places]
    order += [found.index(axis) for axis in places]
    if names is not None and len(names) == len(order):
        names = [names[i] for i in order]
    return view.transpose(order), names


def _own_transform(source: Array | View) -> Affine | None:
    """Return the transform of an array, or of the part in a view; warn if the part has none."""
    view = source.view[...]
    array = view.array
    found = read_transform(array)
    if found is None:
        return None
    last = (view.axes or ())[-2:]
    sides = [side for _, side in last if isinstance(side, range)]
    if tuple(axis for axis, _ in last) != spatial_axes(array) or len(sides) < 2:
        warn(
            f"the transform of {array.name} is left out: the last two axes of the view are not rows"
            " and columns in slices; give transform= or bounds="
        )
        return None
    # A pixel has the centre that it had, so that it begins half a step before.
    row, column = (side.start + 0.5 - side.step / 2 for side in sides)
    return found.shifted(column, row).scaled(sides[1].step, sides[0].step)


def _transform(
    transform: Any, bounds: Sequence[float] | None, shape: Sequence[int]
) -> Affine | None:
    if transform is not None and bounds is not None:
        raise InvalidArgument("transform and bounds are mutually exclusive; pass one of them")
    if bounds is not None:
        return Affine.from_bounds(bounds, shape)
    if transform is None:
        return None
    affine = Affine.of(transform)
    if affine.c == affine.e == 0 and affine.a and affine.b and affine.d:
        raise InvalidArgument(
            f"the transform {transform!r} seems to be in GDAL's order; pass"
            f" omnizarr.geo.Affine.from_gdal({transform!r})"
        )
    return affine


def _steps(shape: Sequence[int], levels: int | None, factor: int) -> list[tuple[int, ...]]:
    if levels is None:
        levels, longest = 1, max(shape[-2:])
        while longest > SMALL:
            longest = -(-longest // factor)
            levels += 1
    if levels < 1:
        raise InvalidArgument(f"levels must be at least 1, got {levels!r}")
    return [(*(1 for _ in shape[:-2]), factor, factor)] * (levels - 1)


def _names(source: Any) -> list[str | None]:
    """Return a Zarr array's axis names if they are distinct, else the default names for a map."""
    rank = len(source.shape)
    if isinstance(source, (Array, View)):
        view = source.view[...]
        own = view.array.dimension_names or (None,) * view.array.ndim
        named = [own[axis] for axis, _ in view.axes or ()]
        if None not in named and len({*named}) == rank:
            return named
    return [*(("band",) if rank == 3 else (f"dim_{i}" for i in range(rank - 2))), "y", "x"]


def _create(
    group: Group,
    source: Any,
    shapes: Mapping[str, tuple[int, ...]],
    names: Sequence[str | None],
    options: ArrayOptions,
    packing: Packing,
) -> list[Array]:
    format = location_of(group).format
    options = {**options, "dimension_names": names}
    if "fill_value" not in options:  # readers of maps interpret a fill value as "no data"
        zero = np.nan if np.dtype(source.dtype).kind == "f" else 0
        none = None if format.undefined_fill else zero
        options["fill_value"] = packing.missing[0] if packing.missing else none
    if not _COMPRESSION & options.keys() and isinstance(config.get().codecs, str):
        codecs = format.default_codecs(np.dtype(source.dtype).itemsize, None, "portable")
        options["compressors"] = list(codecs[1:])  # without the serializer
    if options.get("chunks", "auto") in ("auto", None, True):
        flat = (*(1 for _ in source.shape[:-2]), *source.shape[-2:])
        options["chunks"] = guess_chunks(flat, np.dtype(source.dtype).itemsize, TARGET_BYTES)
    arrays: list[Array] = []
    for path, shape in shapes.items():
        chunks: Any = pyramid.level_chunks(arrays[0], shape) if arrays else {}
        options = {**options, **chunks}
        arrays.append(group.create_array(path, shape=shape, dtype=source.dtype, **options))
    return arrays


def _write_coordinates(
    group: Group, array: Array, where: Affine, names: Sequence[str | None]
) -> None:
    """Store the centres of rows and columns in the group of a level's array."""
    level = array.path.removeprefix(group.path).strip("/").rpartition("/")[0]
    rows, columns = array.shape[-2:]
    _, y = where.xy(0.5, np.arange(rows) + 0.5)
    x, _ = where.xy(np.arange(columns) + 0.5, 0.5)
    for name, values in zip(names, (y, x), strict=True):
        group.create_array(
            f"{level}/{name}",
            data=values,
            dimension_names=[name],
            compressors=None,
            fill_value=None,  # in version 2, xarray takes any other for missing
        )


def _place(array: Array, where: Affine) -> dict[str, Any]:
    """Return the attributes that say where a level is."""
    return {
        "spatial:shape": list(array.shape[-2:]),
        "spatial:transform": list(where.coefficients),
    }


def _layout(
    levels: Sequence[tuple[str, Array, Affine | None]],
    factor: int,
    method: str,
    crs: CRS | None,
    names: Sequence[str | None],
) -> dict[str, Any]:
    layout: list[dict[str, Any]] = []
    for path, array, where in levels:
        scale = float(factor) if layout else 1.0
        entry: dict[str, Any] = {"asset": path}
        if layout:
            entry["derived_from"] = layout[-1]["asset"]
        entry["transform"] = {"scale": [scale, scale], "translation": [0.0, 0.0]}
        layout.append(entry if where is None else entry | _place(array, where))
    resampling = {"mean": "average", "gaussian": "gauss"}.get(method, method)
    found: dict[str, Any] = {"multiscales": {"layout": layout, "resampling_method": resampling}}
    used = [MULTISCALES]
    _, finest, affine = levels[0]
    if affine is not None:
        found["spatial:dimensions"] = list(names)
        found["spatial:bbox"] = list(affine.bounds(finest.shape[-2:]))
        used.append(SPATIAL)
    if crs is not None:
        found.update(to_proj(crs))
        used.append(PROJ)
    return {"zarr_conventions": registered(None, *used), **found}
