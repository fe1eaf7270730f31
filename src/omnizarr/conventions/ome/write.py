"""Write OME-Zarr images, labels and plates, each with its pyramid made in one pass."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from omnizarr import stores
from omnizarr._version import VERSION
from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.image import Image, load
from omnizarr.conventions.ome.levels import (
    Factors,
    image_axes,
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
    Dataset,
    FieldPlace,
    ImageLabel,
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
from omnizarr.conventions.ome.versions import NEWEST, Version, attributes_of, stated, writable
from omnizarr.errors import (
    Conflict,
    InvalidArgument,
    InvalidMetadata,
    NodeNotFound,
    WrongNode,
    known_names,
)
from omnizarr.formats import by_name
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.build import build
from omnizarr.hierarchy.create import new_location
from omnizarr.hierarchy.group import Group, make_group
from omnizarr.hierarchy.open import open as open_zarr
from omnizarr.hierarchy.options import (
    TARGET_BYTES,
    ArrayOptions,
    check_options,
    guess_chunks,
    key_encoding,
    shows,
)
from omnizarr.hierarchy.selection import as_source
from omnizarr.model import paths
from omnizarr.ops.pyramid import NAMES, Progress, fill_levels, level_chunks, level_shapes
from omnizarr.stores.resolve import options_for_two

_COLOURS = ("FFFFFF", "00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF")


@shows(ArrayOptions)
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
    """Write an image with its levels, and give it back opened.

    `data` is an array, a memory map, a Dask array, an array of any Zarr, or the path of one; of
    an OME-Zarr image, axes and scale are taken over. Each block of it is read once.

    axes, scale, translation, unit
        ``"zyx"``, names or `Axis` objects; the size of a pixel and the place of the first one
        along each axis, or by name; a unit for the axes of its kind, or by name.
    levels, factors, method
        How many levels there are, the full one included; how many times smaller each is than the
        one before: a number for the axes of space, one per axis or by name, or a list of those
        for every step. By default axes of space are halved until the image is small, and pixels
        become as long along every axis. `mean`, `mode`, `nearest`, `max` or `gaussian`.
    names, name, channels
        The levels' paths (``"0"``, ``"1"``, …), the image's name, the channels: labels or
        `Channel` objects. One without a window is shown from its least to its largest value.
    version
        ``"0.5"``, on Zarr version 3, or ``"0.4"``, on version 2.

    storage_options
        For `store`, and for `data`, where they are URLs.

    The other options are those of `create_array`, for every level. An image is not
    seen before it is complete, and one that it replaces stays until then.
    """
    there, here = options_for_two(data, store, storage_options, None)
    source, given = open_source(data, there)
    if given is not None:
        axes = given.axes if axes is None else axes
        scale = given.scale if scale is None else scale
        translation = given.transform().translation if translation is None else translation
    used = image_axes(axes, len(source.shape), unit)
    sizes = pixel_sizes(scale, used)
    start = None if translation is None else per_axis(translation, used, 0.0, "translation")
    steps = level_factors(source.shape, used, sizes, levels, factors)
    labels = None if names is None else tuple(names)
    if labels is not None and len(labels) != len(steps) + 1:
        raise InvalidArgument(f"{len(labels)} names were given for {len(steps) + 1} levels")
    labels = labels or tuple(str(i) for i in range(len(steps) + 1))
    transforms = level_transforms(Transform(sizes, start), steps, _known(method))
    multiscale = Multiscale(
        axes=used,
        datasets=tuple(Dataset(p, t) for p, t in zip(labels, transforms, strict=True)),
        name=name or _name(store, path),
        type=method,
        metadata={"method": "omnizarr.ome.write", "version": VERSION,
                  "factors": [list(s) for s in steps]},
    )  # fmt: skip
    metadata = Metadata((multiscale,), omero=_omero(channels, source, used))
    where = stores.resolve(store, storage_options=here)
    return write_levels(
        where, source, metadata, writable(version), steps, path, overwrite, progress, options
    )


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
) -> Image:
    """Store an image whose metadata are known; it is seen when it is complete."""
    dtype = np.dtype(source.dtype)
    options = _with_keys(options, version)
    check_attributes(_attributes(with_windows(metadata, dtype), version), "this image")
    check_options(options)
    location = new_location(store, path, version.zarr_format)
    with build(location, overwrite=overwrite, operation="writing an image") as place:
        group = make_group(place, None, overwrite=False)
        (multiscale,) = metadata.multiscales
        shapes = level_shapes(source.shape, steps)
        arrays = _create(group, source, multiscale, shapes, version, options)
        fill_levels(source, arrays, steps, multiscale.type or "nearest", progress)
        group.attrs.update(_attributes(with_windows(metadata, dtype, arrays[-1]), version))
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise Conflict(f"{group.name} in {group.store!r} was changed while it was written")
    return Image(loaded)


def _with_keys(options: ArrayOptions, version: Version) -> ArrayOptions:
    """The options with the chunk keys of the version; raises where they ask for others."""
    if version.separator is None:
        return options
    given = options.get("dimension_separator"), options.get("chunk_key_encoding")
    if given == (None, None):
        return {**options, "dimension_separator": version.separator}
    encoding = key_encoding(by_name(version.zarr_format), options)
    separator = encoding.configuration.get("separator", ".")
    if separator != version.separator:
        raise InvalidArgument(
            f"the chunk keys of OME-Zarr {version.name} have {version.separator!r}, not"
            f" {separator!r}; leave dimension_separator and chunk_key_encoding out"
        )
    return options


def _attributes(metadata: Metadata, version: Version) -> dict[str, Any]:
    return attributes_of(to_json(metadata), version.name, {})


def check_attributes(attributes: dict[str, Any], what: str) -> None:
    """Raise where metadata that shall be written are not valid."""
    found = stated(attributes)
    problems = [] if found is None else [p for p in check(found, "") if p.level == "error"]
    if problems:
        raise InvalidMetadata.of(problems, f"cannot write {what}")


def _name(store: Any, path: str | None) -> str:
    """The last part of an image's address."""
    place = paths.normalize(path)
    if not place and isinstance(store, (str, os.PathLike)):
        place = os.fspath(store).replace("\\", "/").rstrip("/")
    return paths.name(place) or "image"


def _known(method: str) -> str:
    if method not in NAMES:
        raise InvalidArgument(f"method {method!r} is not known; {known_names(method, NAMES)}")
    return method


def open_source(
    data: Any, storage_options: Mapping[str, Any] | None = None
) -> tuple[Any, Image | None]:
    """What to slice, and the image that it is the finest level of."""
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
            f"{os.fspath(path)!r} is a file that is not Zarr; read it first and give the array,"
            f" such as tifffile.imread({os.fspath(path)!r})"
        ) from e


def _create(
    group: Group,
    source: Any,
    multiscale: Multiscale,
    shapes: Sequence[tuple[int, ...]],
    version: Version,
    options: ArrayOptions,
) -> list[Array]:
    options = {**options}
    if version.name == NEWEST:
        options["dimension_names"] = [a.name for a in multiscale.axes]
    if options.get("chunks", "auto") in ("auto", None, True):
        options["chunks"] = _default_chunks(shapes[0], multiscale, np.dtype(source.dtype).itemsize)
    arrays: list[Array] = []
    for dataset, shape in zip(multiscale.datasets, shapes, strict=True):
        if arrays:
            first = arrays[0]
            options["chunks"], shards = level_chunks(first.chunks, first.shards, shape)
            if shards is not None:
                options["shards"] = shards
        arrays.append(group.create_array(dataset.path, shape=shape, dtype=source.dtype, **options))
    return arrays


def _default_chunks(shape: Sequence[int], multiscale: Multiscale, itemsize: int) -> tuple[int, ...]:
    """About a MiB of space; one point of time and one channel."""
    space = tuple(
        n if a.type == "space" else 1 for n, a in zip(shape, multiscale.axes, strict=True)
    )
    return guess_chunks(space, itemsize, TARGET_BYTES)


def _omero(channels: Sequence[Any] | None, source: Any, axes: Sequence[Any]) -> Omero | None:
    if channels is None:
        return None
    counts = [n for n, a in zip(source.shape, axes, strict=True) if a.type == "channel"]
    if counts and counts[0] != len(channels):
        raise InvalidArgument(f"{len(channels)} channels were given, but the data have {counts[0]}")
    return Omero(tuple(_channel(c, i) for i, c in enumerate(channels)))


def _channel(given: Any, index: int) -> Channel:
    channel = given if isinstance(given, Channel) else Channel(str(given))
    color = (channel.color or _COLOURS[index % len(_COLOURS)]).removeprefix("#")
    if not is_colour(color):
        raise InvalidArgument(
            f"the colour of channel {channel.label!r} is {channel.color!r}; give six hexadecimal"
            " digits, such as 'FF0000' for red"
        )
    return replace(
        channel,
        color=color,
        active=True if channel.active is None else channel.active,
    )


Rgba = tuple[int, int, int, int]


@shows(ArrayOptions)
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
    """Write a label image for the image at `path`, and give it back opened.

    `data` are integers; they have as many axes as the image, or all but its channel, or those
    that `axes` names. An axis that does not matter has length 1. Colours are RGBA from 0 to 255,
    properties anything, both by label value. Labels have as many levels as their image, of the
    same scales; `mode` keeps the most frequent label of a block, `nearest` is quicker.
    """
    there, here = options_for_two(data, store, storage_options, None)
    where = stores.resolve(store, storage_options=here)
    image = open_ome(where, path=path)
    if not isinstance(image, Image):
        raise WrongNode(f"{image!r} is not an image; labels belong to images")
    source, _ = open_source(data, there)
    if np.dtype(source.dtype).kind not in "iu":
        raise InvalidArgument(
            f"labels are integers, got {source.dtype}; give labels.astype('uint32') or smaller"
        )
    used = _axes(image, axes, len(source.shape))
    steps = _steps(image, used, source.shape)
    places = [image.axes.index(a) for a in used]
    whole = image.transform()
    offset = tuple(whole.offset[i] for i in places)
    first = Transform(tuple(whole.scale[i] for i in places), offset if any(offset) else None)
    transforms = level_transforms(first, steps, method)
    multiscale = Multiscale(
        axes=used,
        datasets=tuple(Dataset(str(i), t) for i, t in enumerate(transforms)),
        name=name,
        type=method,
        metadata={"method": "omnizarr.ome.write_labels", "version": VERSION},
    )
    meaning = ImageLabel(
        {int(v): _rgba(c) for v, c in (colors or {}).items()},
        {int(v): dict(p) for v, p in (properties or {}).items()},
        "../../",
    )
    version = writable(image.version)
    place = paths.join(image.group.path, f"labels/{paths.normalize(name)}")
    metadata = Metadata((multiscale,), image_label=meaning)
    written = write_levels(
        where, source, metadata, version, steps, place, overwrite, progress, options
    )
    _list(where, image, paths.normalize(name), version.name)
    return written


def _axes(image: Image, axes: Any, rank: int) -> tuple[Axis, ...]:
    """The image's axes that the labels have."""
    if axes is None:
        if rank == len(image.axes):
            return image.axes
        used = tuple(a for a in image.axes if a.type != "channel")
        if rank == len(used):
            return used
        names = " ".join(a.name for a in image.axes)
        raise InvalidArgument(f"the labels have {rank} axes, the image has {names}; give axes=")
    by_name = {a.name: a for a in image.axes}
    asked = [a.name for a in image_axes(axes, rank, None)]
    for name in asked:
        if name not in by_name:
            raise InvalidArgument(f"the image has no axis {name!r}; axes: {', '.join(by_name)}")
    return tuple(by_name[name] for name in asked)


def _steps(image: Image, axes: Sequence[Axis], shape: Sequence[int]) -> list[Factors]:
    """The factors between the image's levels, along the labels' axes."""
    places = [image.axes.index(a) for a in axes]
    scales = [image.transform(i).scale for i in range(len(image.multiscale.datasets))]
    for axis, place, n in zip(axes, places, shape, strict=True):
        if n not in (1, image.shape[place]):
            raise InvalidArgument(
                f"the labels have length {n} along {axis.name!r}, the image {image.shape[place]};"
                " it must be the same, or 1"
            )
    return [tuple(max(1, round(b[p] / a[p])) for p in places) for a, b in pairwise(scales)]


def _rgba(color: Sequence[int]) -> Rgba:
    if len(color) != 4:
        raise InvalidArgument(f"a label's colour has four numbers from 0 to 255, got {color!r}")
    r, g, b, a = (int(n) for n in color)
    return r, g, b, a


def _list(where: Any, image: Image, name: str, version: str) -> None:
    """Add a name to the list in the group of labels."""

    def listed(attributes: dict[str, Any]) -> None:
        found = stated(attributes)
        members = {} if found is None else dict(found.members)
        names = [*members.get("labels", []), name]
        members["labels"] = list(dict.fromkeys(names))
        new = attributes_of(members, version, attributes)
        attributes.clear()
        attributes.update(new)

    group = Group(where, paths.join(image.group.path, "labels"))
    group.attrs.edit(listed)


@shows(ArrayOptions)
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
    """Write a plate of images, and give it back opened.

    `wells` has, for a well such as ``"A/1"``, its fields of view: a list of images, or images by
    path; each as `write` takes it, with the same `options`. Rows and columns are those that the
    wells name unless all of them are given.
    """
    target = writable(version)
    fields = {
        well: dict(several) if isinstance(several, Mapping) else
        {str(i): data for i, data in enumerate(several)}
        for well, several in wells.items()
    }  # fmt: skip
    layout = _layout(fields, rows, columns, name, acquisition)
    attributes = attributes_of(to_json(Metadata(plate=layout)), target.name, {})
    check_attributes(attributes, "this plate")
    where = stores.resolve(store, storage_options=storage_options)
    location = new_location(where, path, target.zarr_format)
    with build(location, overwrite=overwrite, operation="writing a plate") as place:
        group = make_group(place, None, overwrite=False)
        for well, several in fields.items():
            inner = group.create_group(well)
            for field, data in several.items():
                at = paths.join(inner.path, field)
                write(place.store, data, path=at, version=version, **options)
            run = None if acquisition is None else acquisition.id
            members = Metadata(well=WellLayout(tuple(FieldPlace(f, run) for f in several)))
            inner.attrs.update(attributes_of(to_json(members), target.name, {}))
        group.attrs.update(attributes)
    group = Group.at(location, location.load())
    loaded = load(group)
    if loaded is None:
        raise Conflict(f"{group.name} in {group.store!r} was changed while it was written")
    return Plate(loaded)


def _layout(
    fields: Mapping[str, Mapping[str, Any]],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str | None,
    acquisition: Acquisition | None,
) -> PlateLayout:
    places = {well: well.split("/") for well in fields}
    for well, parts in places.items():
        if len(parts) != 2:
            raise InvalidArgument(f"a well is named by its row and column, as 'A/1', got {well!r}")
    names = [
        tuple(given) if given is not None else _sorted({parts[i] for parts in places.values()})
        for i, given in enumerate((rows, columns))
    ]
    for well, parts in places.items():
        for what, part, known in zip(("row", "column"), parts, names, strict=True):
            if part not in known:
                raise InvalidArgument(f"well {well!r}: the plate has no {what} {part!r}")
    wells = tuple(
        WellPlace(well, names[0].index(row), names[1].index(column))
        for well, (row, column) in places.items()
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
    """Names in the order of people: 2 before 10."""
    return tuple(
        sorted(names, key=lambda n: [(p.isdigit(), int(p) if p.isdigit() else 0, p)
                                     for p in re.findall(r"\d+|\D+", n)])
    )  # fmt: skip
