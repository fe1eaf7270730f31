"""Write OME-Zarr images, labels and plates; the pyramid of an image is built in one pass."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from omnizarr import Array, Group
from omnizarr import open as open_zarr
from omnizarr._version import VERSION
from omnizarr.bulk.pyramid import NAMES, Progress, fill_levels, level_chunks, level_shapes
from omnizarr.conventions.cf.variable import described_values
from omnizarr.conventions.ome.image import Image, load
from omnizarr.conventions.ome.levels import (
    Factors,
    image_axes,
    labels_method,
    labels_options,
    level_factors,
    level_transforms,
    per_axis,
    pixel_sizes,
    with_windows,
)
from omnizarr.conventions.ome.model import (
    Acquisition,
    Axis,
    Channel,
    FieldPlace,
    ImageLabel,
    ImageLevel,
    Metadata,
    Multiscale,
    Omero,
    PlateLayout,
    Transform,
    WellLayout,
    WellPlace,
    is_colour,
    to_json,
)
from omnizarr.conventions.ome.plate import Plate
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.rules import check
from omnizarr.conventions.ome.versions import (
    NEWEST,
    Version,
    find_metadata,
    to_attributes,
    writable_version,
)
from omnizarr.errors import (
    Conflict,
    InvalidArgument,
    InvalidMetadata,
    NodeNotFound,
    WrongNode,
    WrongType,
    known_names,
    warn,
)
from omnizarr.extension import (
    TARGET_BYTES,
    ArrayOptions,
    as_source,
    build,
    by_name,
    check_options,
    document_options,
    guess_chunks,
    key_encoding,
    make_group,
    new_location,
    options_for_two,
    paths,
    stores,
)

Rgba = tuple[int, int, int, int]
_COLOURS = ("FFFFFF", "00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")


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
    own = channels
    if image is not None:
        axes = image.axes if axes is None else axes
        scale = image.scale if scale is None else scale
        translation = image.transform().translation if translation is None else translation
        name, own = name or image.name, channels or image.channels or None
    metadata, steps = new_metadata(
        source.shape, axes, scale, translation, unit, levels, factors, method, names,
        name or image_name(store, path), own,
    )  # fmt: skip
    where = stores.resolve(store, storage_options=here)
    others: Mapping[str, Any] = {}
    if image is not None:
        metadata, others = kept_metadata(metadata, image, channels is None), image.group.attrs
        left = other_members(image)
        if left:
            warn(f"not part of the image {image.group.name}, and not written: {', '.join(left)}")
    return write_levels(
        where,
        source,
        metadata,
        writable_version(version),
        steps,
        path,
        overwrite,
        progress,
        options,
        others,
        [] if image is None else kept_labels(image, metadata, steps),
    )


def kept_metadata(metadata: Metadata, image: Image, rendered: bool) -> Metadata:
    """Return the metadata of a new image with those of the one whose pixels it has.

    With `rendered`, the channels and their settings are those of the old image.
    """
    old, omero = image.metadata, metadata.omero
    if rendered and old.omero is not None:
        omero = old.omero if omero is None else replace(omero, extra=old.omero.extra)
    others = [m.name or "?" for m in old.multiscales if m is not image.multiscale]
    if others:
        names = ", ".join(others)
        warn(f"{image.group.name} has other multiscales, which are not written: {names}")
    (multiscale,) = metadata.multiscales
    return replace(
        metadata,
        multiscales=(replace(multiscale, extra=image.multiscale.extra),),
        omero=omero,
        image_label=None if old.image_label is None else replace(old.image_label, source=None),
        extra=old.extra,
    )


def other_members(image: Image) -> list[str]:
    """Return the members of an image's group that are neither levels nor labels."""
    if not stores.can_list(image.store):
        return []
    listed = [d.path for each in image.metadata.multiscales for d in each.datasets]
    known = {"labels", *(paths.normalize(path).partition("/")[0] for path in listed)}
    return [name for name in image.group if name not in known]


@dataclass(frozen=True)
class KeptLabels:
    """Labels of an image that is written anew: their pixels, metadata and steps of levels."""

    name: str
    image: Image
    metadata: Metadata
    steps: list[Factors]


def kept_labels(image: Image, metadata: Metadata, steps: Sequence[Factors]) -> Iterator[KeptLabels]:
    """Yield the labels of an image as those of a new one, which has other metadata and levels."""
    (new,) = metadata.multiscales
    indices = {axis.name: i for i, axis in enumerate(image.axes)}
    for name, labels in image.labels.items():
        chosen = [indices[axis.name] for axis in labels.axes]
        whole = new.datasets[0].transform or Transform((1.0,) * len(new.axes))
        method = labels_method(labels.multiscale.type)
        own = [tuple(step[i] for i in chosen) for step in steps]
        label = replace(labels.label or ImageLabel(), source="../../")
        found = _labels_metadata(labels.name or name, new.axes, chosen, whole, own, method, label)
        found = replace(kept_metadata(found, labels, True), image_label=label)
        yield KeptLabels(paths.normalize(name), labels, found, own)


def new_metadata(
    shape: Sequence[int],
    axes: Any,
    scale: Any,
    translation: Any,
    unit: str | Mapping[str, str] | None,
    levels: int | None,
    factors: Any,
    method: str,
    names: Sequence[str] | None,
    name: str,
    channels: Sequence[Any] | None,
) -> tuple[Metadata, list[Factors]]:
    """Return the metadata of a new image as `write` describes it, and the factors of its levels."""
    used = image_axes(axes, len(shape), unit)
    sizes = pixel_sizes(scale, used)
    start = None if translation is None else per_axis(translation, used, 0.0, "translation")
    steps = level_factors(shape, used, sizes, levels, factors)
    labels = None if names is None else tuple(names)
    if labels is not None and len(labels) != len(steps) + 1:
        raise InvalidArgument(f"{len(labels)} names were given for {len(steps) + 1} levels")
    labels = labels or tuple(str(i) for i in range(len(steps) + 1))
    transforms = level_transforms(Transform(sizes, start), steps, check_method(method))
    multiscale = Multiscale(
        axes=used,
        datasets=tuple(ImageLevel(p, t) for p, t in zip(labels, transforms, strict=True)),
        name=name,
        type=method,
        metadata={"method": "omnizarr.ome.write", "version": VERSION,
                  "factors": [list(s) for s in steps]},
    )  # fmt: skip
    return Metadata((multiscale,), omero=_omero(channels, shape, used)), steps


def write_levels(
    store: Any,
    source: Any,
    metadata: Metadata,
    version: Version,
    steps: Sequence[Factors],
    path: str | None,
    overwrite: bool,
    progress: Progress | None,
    options: ArrayOptions,
    others: Mapping[str, Any] | None = None,
    labels: Iterable[KeptLabels] = (),
) -> Image:
    """Store an image with the given metadata; it becomes visible when it is complete.

    The group also gets the attributes `others` that are not OME-Zarr, and the labels.
    """
    dtype = np.dtype(source.dtype)
    options = with_separator(options, version)
    check_attributes(image_attributes(with_windows(metadata, dtype), version), "this image")
    check_options(options)
    location = new_location(store, path, version.zarr_format)
    with build(location, overwrite=overwrite, operation="writing an image") as staged:
        group = make_group(staged, None, overwrite=False)
        (multiscale,) = metadata.multiscales
        shapes = level_shapes(source.shape, steps)
        arrays = _create(group, source, multiscale, shapes, version, options)
        packing = described_values(arrays[0], zero_is_missing=False)[1]
        fill_levels(source, arrays, steps, multiscale.type or "nearest", progress, packing)
        own = to_json(with_windows(metadata, dtype, arrays[-1]))
        group.attrs.update(to_attributes(own, version.name, others or {}))
        for each in labels:
            inside = labels_options(options, multiscale.axes, each.metadata.multiscales[0].axes)
            full = paths.join(staged.path, f"labels/{each.name}")
            write_levels(
                staged.store, each.image.levels[0], each.metadata, version, each.steps, full,
                False, progress, inside, each.image.group.attrs,
            )  # fmt: skip
            _add_to_list(staged.store, staged.path, each.name, version.name)
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise Conflict(f"{group.name} in {group.store!r} was changed while it was being written")
    return Image(loaded)


def with_separator(options: ArrayOptions, version: Version) -> ArrayOptions:
    """Return the options with the version's chunk key separator; raise if they have another."""
    if version.separator is None:
        return options
    given = options.get("dimension_separator"), options.get("chunk_key_encoding")
    if given == (None, None):
        return {**options, "dimension_separator": version.separator}
    encoding = key_encoding(by_name(version.zarr_format), options)
    separator = encoding.configuration.get("separator", ".")
    if separator != version.separator:
        raise InvalidArgument(
            f"OME-Zarr {version.name} requires the separator {version.separator!r}, not"
            f" {separator!r}; omit dimension_separator and chunk_key_encoding"
        )
    return options


def image_attributes(metadata: Metadata, version: Version) -> dict[str, Any]:
    """Return metadata as attributes of a version."""
    return to_attributes(to_json(metadata), version.name, {})


def check_attributes(attributes: dict[str, Any], what: str) -> None:
    """Raise if metadata to be written is invalid."""
    found = find_metadata(attributes)
    problems = [] if found is None else [p for p in check(found, "") if p.level == "error"]
    if problems:
        raise InvalidMetadata.of(problems, f"cannot write {what}")


def image_name(store: Any, path: str | None) -> str:
    """Return the last part of an image's path or URL."""
    full = paths.normalize(path)
    if not full and isinstance(store, (str, os.PathLike)):
        full = os.fspath(store).replace("\\", "/").rstrip("/")
    return paths.name(full) or "image"


def check_method(method: str) -> str:
    """Return the name of a downsampling method; raise if there is none."""
    if method not in NAMES:
        raise InvalidArgument(f"unknown method {method!r}; {known_names(method, NAMES)}")
    return method


def open_source(
    data: Any, storage_options: Mapping[str, Any] | None = None
) -> tuple[Any, Image | None]:
    """Return the array to read, and the OME-Zarr image if it is the finest level of one."""
    if isinstance(data, (str, os.PathLike)):
        found = _open(data, storage_options)
        data = open_ome(found.store, path=found.path) if isinstance(found, Group) else found
    if isinstance(data, Image):
        return data.levels[0], data
    if isinstance(data, Group) or (hasattr(data, "group") and not hasattr(data, "shape")):
        raise WrongNode(f"expected an image or an array, got {data!r}")
    return as_source(data if hasattr(data, "__getitem__") else np.asarray(data)), None


def _open(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> Array | Group:
    try:
        found: Array | Group = open_zarr(path, storage_options=storage_options)
        return found
    except NodeNotFound as e:
        if not os.path.isfile(path):
            raise
        raise WrongNode(
            f"{os.fspath(path)!r} is a file, but not Zarr; pass its contents as an array, such as"
            f" tifffile.imread({os.fspath(path)!r})"
        ) from e


def _create(
    group: Group,
    source: Any,
    multiscale: Multiscale,
    shapes: Sequence[tuple[int, ...]],
    version: Version,
    options: ArrayOptions,
) -> list[Array]:
    options = level_options(options, version, multiscale, shapes[0], np.dtype(source.dtype))
    stated = described_values(source, zero_is_missing=False)[0]
    options["attributes"] = {**stated, **(options.get("attributes") or {})}
    arrays: list[Array] = []
    for dataset, shape in zip(multiscale.datasets, shapes, strict=True):
        if arrays:
            first = arrays[0]
            options["chunks"], shards = level_chunks(first.chunks, first.shards, shape)
            if shards is not None:
                options["shards"] = shards
        arrays.append(group.create_array(dataset.path, shape=shape, dtype=source.dtype, **options))
    return arrays


def level_options(
    options: ArrayOptions,
    version: Version,
    multiscale: Multiscale,
    shape: Sequence[int],
    dtype: np.dtype[Any],
) -> ArrayOptions:
    """Return the options of the finest level, with defaults for an image of these axes."""
    options = {**options}
    if version.name == NEWEST:
        options["dimension_names"] = [a.name for a in multiscale.axes]
    if options.get("chunks", "auto") in ("auto", None, True):
        options["chunks"] = _default_chunks(shape, multiscale, dtype.itemsize)
    return options


def _default_chunks(shape: Sequence[int], multiscale: Multiscale, itemsize: int) -> tuple[int, ...]:
    """Return chunks of about a MiB along the spatial axes, and of length 1 along the others."""
    space = tuple(
        n if a.type == "space" else 1 for n, a in zip(shape, multiscale.axes, strict=True)
    )
    return guess_chunks(space, itemsize, TARGET_BYTES)


def _omero(
    channels: Sequence[Any] | None, shape: Sequence[int], axes: Sequence[Any]
) -> Omero | None:
    if channels is None:
        return None
    counts = [n for n, a in zip(shape, axes, strict=True) if a.type == "channel"]
    if counts and counts[0] != len(channels):
        raise InvalidArgument(f"got {len(channels)} channels, but the data has {counts[0]}")
    return Omero(tuple(_channel(c, i) for i, c in enumerate(channels)))


def _channel(label: Any, index: int) -> Channel:
    if isinstance(label, Mapping):
        raise InvalidArgument(f"channel {index} is {label!r}; give its label, or an ome.Channel")
    channel = label if isinstance(label, Channel) else Channel(str(label))
    color = (channel.color or _COLOURS[index % len(_COLOURS)]).removeprefix("#")
    if not is_colour(color):
        raise InvalidArgument(
            f"invalid colour {channel.color!r} of channel {channel.label!r}; use six hexadecimal"
            " digits, such as 'FF0000' for red"
        )
    active = True if channel.active is None else channel.active
    return replace(channel, color=color, active=active)


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
            the length along an axis is that of the image, or 1.
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
    steps = _steps(image, used, source.shape)
    indices = [image.axes.index(a) for a in used]
    label = ImageLabel(
        {int(v): _rgba(c) for v, c in (colors or {}).items()},
        {int(v): dict(p) for v, p in (properties or {}).items()},
        "../../",
    )
    metadata = _labels_metadata(
        name, image.axes, indices, image.transform(), steps, check_method(method), label
    )
    version = writable_version(image.version)
    full = paths.join(image.group.path, f"labels/{paths.normalize(name)}")
    written = write_levels(
        where, source, metadata, version, steps, full, overwrite, progress, options
    )
    _add_to_list(where, image.group.path, paths.normalize(name), version.name)
    return written


def _labels_metadata(
    name: str,
    axes: Sequence[Axis],
    indices: Sequence[int],
    whole: Transform,
    steps: Sequence[Factors],
    method: str,
    label: ImageLabel,
) -> Metadata:
    """Return the metadata of labels with some axes of an image, which has the transform `whole`."""
    offset = tuple(whole.offset[i] for i in indices)
    first = Transform(tuple(whole.scale[i] for i in indices), offset if any(offset) else None)
    transforms = level_transforms(first, steps, method)
    multiscale = Multiscale(
        axes=tuple(axes[i] for i in indices),
        datasets=tuple(ImageLevel(str(i), t) for i, t in enumerate(transforms)),
        name=name,
        type=method,
        metadata={"method": "omnizarr.ome.write_labels", "version": VERSION},
    )
    return Metadata((multiscale,), image_label=label)


def _axes(image: Image, axes: Any, rank: int) -> tuple[Axis, ...]:
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


def _steps(image: Image, axes: Sequence[Axis], shape: Sequence[int]) -> list[Factors]:
    """Return the factors between the image's levels, along the axes of the labels."""
    indices = [image.axes.index(a) for a in axes]
    scales = [image.transform(i).scale for i in range(len(image.multiscale.datasets))]
    for axis, index, n in zip(axes, indices, shape, strict=True):
        if n not in (1, image.shape[index]):
            raise InvalidArgument(
                f"the labels have length {n} along {axis.name!r}, the image {image.shape[index]};"
                " they must be equal, or the labels must have length 1"
            )
    return [tuple(max(1, round(b[i] / a[i])) for i in indices) for a, b in pairwise(scales)]


def _rgba(color: Sequence[int]) -> Rgba:
    if len(color) != 4:
        raise InvalidArgument(f"a label colour needs four numbers from 0 to 255, got {color!r}")
    r, g, b, a = (int(n) for n in color)
    return r, g, b, a


def _add_to_list(where: Any, path: str, name: str, version: str) -> None:
    """Add a name to the list of labels in the group ``labels`` of an image."""

    def add(attributes: dict[str, Any]) -> None:
        found = find_metadata(attributes)
        members = {} if found is None else dict(found.members)
        names = [*members.get("labels", []), name]
        members["labels"] = list(dict.fromkeys(names))
        new = to_attributes(members, version, attributes)
        attributes.clear()
        attributes.update(new)

    group = Group(where, paths.join(path, "labels"))
    group.attrs.edit(add)


@document_options(ArrayOptions)
def write_plate(
    store: Any,
    wells: Mapping[str, Sequence[Any] | Mapping[str, Any]],
    *,
    path: str | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    name: str | None = None,
    acquisition: Acquisition | None = None,
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
        rows: The names of all rows; by default those that occur in `wells`.
        columns: The names of all columns; by default those that occur in `wells`.
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
        InvalidArgument: If a path is not that of a well.

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
    attributes = to_attributes(to_json(Metadata(plate=layout)), target.name, {})
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
            members = Metadata(well=WellLayout(tuple(FieldPlace(f, run) for f in several)))
            inner.attrs.update(to_attributes(to_json(members), target.name, {}))
        group.attrs.update(attributes)
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise Conflict(f"{group.name} in {group.store!r} was changed while it was being written")
    return Plate(loaded)


def _layout(
    fields: Mapping[str, Mapping[str, Any]],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str | None,
    acquisition: Acquisition | None,
) -> PlateLayout:
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
        WellPlace(well, names[0].index(row), names[1].index(column))
        for well, (row, column) in split.items()
    )
    return PlateLayout(
        rows=names[0],
        columns=names[1],
        wells=wells,
        name=name,
        field_count=max((len(several) for several in fields.values()), default=0) or None,
        acquisitions=() if acquisition is None else (acquisition,),
    )


def _sorted(names: set[str]) -> tuple[str, ...]:
    """Return names in natural order: 2 before 10."""
    return tuple(
        sorted(names, key=lambda n: [(p.isdigit(), int(p) if p.isdigit() else 0, p)
                                     for p in re.findall(r"\d+|\D+", n)])
    )  # fmt: skip
