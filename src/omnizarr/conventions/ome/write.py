"""Write OME-Zarr images, labels and plates, with their pyramids."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from omnizarr import Array, Group
from omnizarr import open as open_zarr
from omnizarr.bulk.pyramid import Progress, check_method, fill_levels
from omnizarr.conventions.cf.variable import described_values
from omnizarr.conventions.ome import model
from omnizarr.conventions.ome.image import Image, Plate
from omnizarr.conventions.ome.image import open as open_ome
from omnizarr.conventions.ome.levels import (
    Factors,
    NewImage,
    check_attributes,
    image_axes,
    image_name,
    labels_metadata,
    labels_nodes,
    other_members,
    plan_images,
    plan_levels,
    step_ratios,
)
from omnizarr.conventions.ome.rules import Loaded, load
from omnizarr.conventions.ome.versions import NEWEST, edit_members, to_attributes, writable_version
from omnizarr.errors import Conflict, InvalidArgument, WrongNode, WrongType, warn
from omnizarr.extension import (
    ArrayOptions,
    Location,
    Node,
    as_source,
    build,
    document_options,
    make_group,
    new_location,
    options_for_two,
    paths,
    stores,
)


@document_options(ArrayOptions)
def write(
    store: Any,
    data: Any,
    *,
    path: str | None = None,
    axes: Any = None,
    scale: Sequence[float] | Mapping[str, float] | None = None,
    translation: Sequence[float] | Mapping[str, float] | None = None,
    unit: str | Mapping[str, str] | None = None,
    levels: int | None = None,
    factors: Any = None,
    method: str = "mean",
    names: Sequence[str] | None = None,
    name: str | None = None,
    channels: Sequence[Any] | None = None,
    version: str = NEWEST,
    overwrite: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[ArrayOptions],
) -> Image:
    """Write an image with its levels.

    Each block of the data is read once. An image becomes visible when it is complete; an existing
    one that it replaces stays until then.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        data: An array, a memory map, a Dask array, a Zarr array of any version, or the path of one.
            If it is an OME-Zarr image, its axes, scale, name and channels are the defaults, and its
            labels and other attributes are written, too.
        path: The path of the image in the store; by default the root.
        axes: Axes as ``"zyx"``, names or `Axis` objects.
        scale: The size of a pixel along each axis, or by name.
        translation: The position of the first pixel along each axis, or by name.
        unit: A unit for the axes of its kind, or units by name.
        levels: The number of levels, including full resolution; by default, spatial axes are halved
            until the image is small, the finest axes first.
        factors: The downsampling factor from each level to the next: a number for the spatial axes,
            one for each axis or by name, or a list of those for every step.
        method: ``"mean"``, ``"mode"``, ``"nearest"``, ``"max"`` or ``"gaussian"``.
        names: The paths of the levels; by default ``"0"``, ``"1"``, …
        name: The name of the image.
        channels: The channels as labels or `Channel` objects. The default display window of a
            channel is its value range.
        version: ``"0.5"``, which uses Zarr version 3, or ``"0.4"``, which uses version 2.
        overwrite: True to replace an existing node.
        progress: A function that is called while levels are written.
        storage_options: Options for `store`, and for `data`, if they are URLs.
        **options: Options of `create_array`, for every level.

    Returns:
        The image.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        InvalidArgument: If the options do not fit the data or each other.
        InvalidMetadata: If OME-Zarr does not allow such an image.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 64, 64)), axes="zyx", levels=2)
        >>> [level.shape for level in image.levels]
        [(8, 64, 64), (4, 32, 32)]
    """
    there, here = options_for_two(data, store, storage_options, None)
    source, image = open_source(data, there)
    target = writable_version(version)
    described = {
        "axes": axes, "scale": scale, "translation": translation, "unit": unit, "levels": levels,
        "factors": factors, "method": method, "names": names, "channels": channels,
        "name": name or (image.name if image is not None else None) or image_name(store, path),
    }  # fmt: skip
    where = stores.resolve(store, storage_options=here)
    location = new_location(where, path, target.zarr_format)
    images = plan_images(location, source, image, options, described)
    left = [] if image is None else other_members(image)
    if image is not None and left:
        warn(f"not part of the image {image.group.name}, and not written: {', '.join(left)}")
    _store(location, images, labels_nodes(image, images), overwrite, progress)
    return Image(_written(location))


def _store(
    location: Location,
    images: Sequence[NewImage],
    between: Mapping[str, Node],
    overwrite: bool,
    progress: Progress | None,
) -> None:
    """Write images, and groups between them; all become visible when they are complete."""
    with build(location, overwrite=overwrite, operation="writing an image") as staged:
        for number, image in enumerate(images):
            group = make_group(staged.at(image.path), image.attributes(), overwrite=False)
            for path, node in between.items() if number == 0 else ():
                make_group(staged.at(path), node.attributes, overwrite=False)
            (multiscale,) = image.metadata.multiscales
            levels = zip(multiscale.datasets, image.models.values(), image.options, strict=True)
            arrays = [
                group.create_array(level.path, shape=new.shape, dtype=image.source.dtype, **options)
                for level, new, options in levels
            ]
            packing = described_values(arrays[0], zero_is_missing=False)[1]
            fill_levels(image.source, arrays, image.steps, image.method, progress, packing)
            if image.metadata.omero is not None:
                group.attrs.update(image.attributes(arrays[-1]))


def _written(location: Location) -> Loaded:
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise Conflict(f"{group.name} in {group.store!r} was changed while it was being written")
    return loaded


def open_source(
    data: Any, storage_options: Mapping[str, Any] | None = None
) -> tuple[Any, Image | None]:
    """Return the array to read, and the OME-Zarr image if it is the finest level of one."""
    if isinstance(data, (str, os.PathLike)):
        found: Array | Group = open_zarr(data, storage_options=storage_options)
        data = open_ome(found.store, path=found.path) if isinstance(found, Group) else found
    if isinstance(data, Image):
        return data.levels[0], data
    if isinstance(data, Group) or (hasattr(data, "group") and not hasattr(data, "shape")):
        raise WrongNode(f"expected an image or an array, got {data!r}")
    return as_source(data if hasattr(data, "__getitem__") else np.asarray(data)), None


@document_options(ArrayOptions)
def write_labels(
    store: Any,
    name: str,
    data: Any,
    *,
    path: str | None = None,
    axes: Any = None,
    colors: Mapping[int, Sequence[int]] | None = None,
    properties: Mapping[int, Mapping[str, Any]] | None = None,
    method: str = "mode",
    overwrite: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[ArrayOptions],
) -> Image:
    """Write a label image for an image.

    Labels have the same levels and scales as their image.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        name: The name of the labels.
        data: Integers, with the axes of the image, with or without channels, or those in `axes`;
            the length along an axis is as in the image, or 1.
        path: The path of the image in the store; by default the root.
        axes: The axes of the data, as in `write`.
        colors: Colours (RGBA from 0 to 255) by label value.
        properties: Properties by label value.
        method: ``"mode"`` keeps the most frequent label of a block, ``"nearest"`` is faster.
        overwrite: True to replace an existing node.
        progress: A function that is called while levels are written.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Options of `create_array`, for every level.

    Returns:
        The label image.

    Raises:
        WrongNode: If the node at the path is not an image.
        InvalidMetadata: If it has no OME-Zarr metadata.
        InvalidArgument: If the data are not integers, or do not fit the image.
        WrongType: If the name of the labels is not text.
        NodeExists: If there is a node at the path, and it may not be replaced.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx")
        >>> labels = oz.ome.write_labels("cell.zarr", "nuclei", np.eye(8, dtype="u1"))
        >>> list(oz.ome.open("cell.zarr").labels)
        ['nuclei']
    """
    if not isinstance(name, str):
        raise WrongType(f"the name of the labels comes before the data, got {type(name).__name__}")
    there, here = options_for_two(data, store, storage_options, None)
    where = stores.resolve(store, storage_options=here)
    image = open_ome(where, path=path)
    if not isinstance(image, Image):
        raise WrongNode(f"{image!r} is not an image; labels belong to images")
    source, _ = open_source(data, there)
    if np.dtype(source.dtype).kind not in "iu":
        raise InvalidArgument(
            f"labels must be integers, got {source.dtype}; use labels.astype('uint32') or smaller"
        )
    used = _axes(image, axes, len(source.shape))
    indices = [image.axes.index(a) for a in used]
    steps = _steps(image, indices, source.shape)
    found: dict[int, Any] = {int(v): tuple(int(n) for n in c) for v, c in (colors or {}).items()}
    for color in found.values():
        if len(color) != 4:
            raise InvalidArgument(f"a label colour needs four numbers from 0 to 255, got {color!r}")
    described = {int(v): dict(p) for v, p in (properties or {}).items()}
    label, method = model.ImageLabel(found, described, "../../"), check_method(method)
    metadata = labels_metadata(name, image.axes, indices, image.transform(), steps, method, label)
    inside = paths.normalize(name)
    full = paths.join(image.group.path, f"labels/{inside}")
    version = writable_version(image.version)
    location = new_location(where, full, version.zarr_format)
    new = plan_levels(location, full, source, options, metadata, steps)
    _store(location, [new], {}, overwrite, progress)

    def add(members: dict[str, Any]) -> None:
        members["labels"] = [*dict.fromkeys([*members.get("labels", []), inside])]

    edit_members(Group(where, paths.join(image.group.path, "labels")), version, add)
    return Image(_written(location))


def _axes(image: Image, axes: Any, rank: int) -> tuple[model.Axis, ...]:
    """Return the axes of the labels, which are axes of the image."""
    if axes is None:
        if rank == len(image.axes):
            return image.axes
        used = tuple(a for a in image.axes if a.type != "channel")
        if rank == len(used):
            return used
        names = " ".join(a.name for a in image.axes)
        raise InvalidArgument(f"the labels have {rank} axes, the image has {names}; pass axes=")
    by_name = {a.name: a for a in image.axes}
    asked = [a.name for a in image_axes(axes, rank, None)]
    for name in asked:
        if name not in by_name:
            raise InvalidArgument(f"the image has no axis {name!r}; axes: {', '.join(by_name)}")
    return tuple(by_name[name] for name in asked)


def _steps(image: Image, indices: Sequence[int], shape: Sequence[int]) -> list[Factors]:
    """Return the factors between the image's levels, along the axes of the labels."""
    for index, n in zip(indices, shape, strict=True):
        if n not in (1, image.shape[index]):
            raise InvalidArgument(
                f"the labels have length {n} along {image.axes[index].name!r}, the image"
                f" {image.shape[index]}; they must be equal, or the labels must have length 1"
            )
    return [tuple(step[i] for i in indices) for step in step_ratios(image)]


@document_options(ArrayOptions)
def write_plate(
    store: Any,
    wells: Mapping[str, Sequence[Any] | Mapping[str, Any]],
    *,
    path: str | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    acquisition: model.Acquisition | None = None,
    version: str = NEWEST,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Plate:
    """Write a plate of images.

    Args:
        store: A path, URL, dict, store or `StorePath`; None for memory.
        wells: The fields of view of each well by its path, such as ``"A/1"``: a list of images, or
            images by path.
        path: The path of the plate in the store; by default the root.
        rows: The names of all rows; by default the names in `wells`.
        columns: The names of all columns; by default the names in `wells`.
        name: The name of the plate.
        acquisition: The run of the images.
        version: The version of OME-Zarr, as in `write`.
        overwrite: True to replace an existing node.
        storage_options: Options for the store of a URL, such as credentials.
        **options: Options of `write` for every image.

    Returns:
        The plate.

    Raises:
        NodeExists: If there is a node at the path, and it may not be replaced.
        Conflict: If another writer has changed the plate meanwhile.
        InvalidArgument: If a path is not the path of a well.

    Examples:
        >>> plate = oz.ome.write_plate("plate.zarr", {"A/1": [np.ones((8, 8))]}, axes="yx")
        >>> list(plate), plate.rows
        (['A/1'], ('A',))
    """
    target = writable_version(version)
    fields = {
        well: dict(several) if isinstance(several, Mapping) else
        {str(i): data for i, data in enumerate(several)}
        for well, several in wells.items()
    }  # fmt: skip
    layout = _layout(fields, rows, columns, name, acquisition)
    attributes = to_attributes(model.to_json(model.Metadata(plate=layout)), target.name, {})
    check_attributes(attributes, "this plate")
    where = stores.resolve(store, storage_options=storage_options)
    location = new_location(where, path, target.zarr_format)
    with build(location, overwrite=overwrite, operation="writing a plate") as staged:
        group = make_group(staged, None, overwrite=False)
        for well, several in fields.items():
            inner = group.create_group(well)
            for field, data in several.items():
                at = paths.join(inner.path, field)
                write(staged.store, data, path=at, version=version, **options)
            run = None if acquisition is None else acquisition.id
            members = model.Metadata(
                well=model.WellLayout(tuple(model.FieldPlace(f, run) for f in several))
            )
            inner.attrs.update(to_attributes(model.to_json(members), target.name, {}))
        group.attrs.update(attributes)
    return Plate(_written(location))


def _layout(
    fields: Mapping[str, Mapping[str, Any]],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str | None,
    acquisition: model.Acquisition | None,
) -> model.PlateLayout:
    split = {well: well.split("/") for well in fields}
    for well, parts in split.items():
        if len(parts) != 2:
            raise InvalidArgument(f"expected a well's row and column such as 'A/1', got {well!r}")
    names = [
        tuple(along) if along is not None else _sorted({parts[i] for parts in split.values()})
        for i, along in enumerate((rows, columns))
    ]
    for well, parts in split.items():
        for what, part, known in zip(("row", "column"), parts, names, strict=True):
            if part not in known:
                raise InvalidArgument(f"well {well!r}: the plate has no {what} {part!r}")
    wells = tuple(
        model.WellPlace(well, names[0].index(row), names[1].index(column))
        for well, (row, column) in split.items()
    )
    count = max(map(len, fields.values()), default=0) or None
    runs = () if acquisition is None else (acquisition,)
    return model.PlateLayout(names[0], names[1], wells, name, count, runs)


def _sorted(names: set[str]) -> tuple[str, ...]:
    """Return names in natural order: 2 before 10."""

    def parts(name: str) -> list[tuple[bool, int, str]]:
        found = re.findall(r"\d+|\D+", name)
        return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in found]

    return tuple(sorted(names, key=parts))
