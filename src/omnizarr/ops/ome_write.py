"""Writing OME-Zarr: images, labels and plates, each with its pyramid made in one pass."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from omnizarr import stores
from omnizarr._version import VERSION
from omnizarr.conventions.ome import documents
from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.load import load
from omnizarr.conventions.ome.model import (
    Channel,
    Dataset,
    Metadata,
    Multiscale,
    Omero,
    Transform,
    is_colour,
)
from omnizarr.conventions.ome.open import open as open_ome
from omnizarr.conventions.ome.versions import NEWEST, Version, attributes_of, stated, writable
from omnizarr.errors import InvalidMetadata, NodeNotFound, WrongNode, known_names
from omnizarr.formats import by_name
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.build import build
from omnizarr.hierarchy.chunking import TARGET_BYTES, guess_chunks
from omnizarr.hierarchy.create import new_location
from omnizarr.hierarchy.create import open as open_zarr
from omnizarr.hierarchy.foreign import as_source
from omnizarr.hierarchy.group import Group, make_group
from omnizarr.hierarchy.options import ArrayOptions, check_options, key_encoding
from omnizarr.hierarchy.signatures import shows
from omnizarr.model import paths
from omnizarr.ops.downsample import NAMES
from omnizarr.ops.ome_levels import (
    Factors,
    image_axes,
    level_chunks,
    level_factors,
    level_transforms,
    per_axis,
    pixel_sizes,
)
from omnizarr.ops.ome_window import with_windows
from omnizarr.ops.pyramid import Progress, fill_levels, level_shapes
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
        raise InvalidMetadata(f"{len(labels)} names were given for {len(steps) + 1} levels")
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
        raise InvalidMetadata(f"{group.name} in {group.store!r} was changed while it was written")
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
        raise InvalidMetadata(
            f"the chunk keys of OME-Zarr {version.name} have {version.separator!r}, not"
            f" {separator!r}; leave dimension_separator and chunk_key_encoding out"
        )
    return options


def _attributes(metadata: Metadata, version: Version) -> dict[str, Any]:
    return attributes_of(documents.write(metadata), version.name, {})


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
        raise InvalidMetadata(f"method {method!r} is not known; {known_names(method, NAMES)}")
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
        raise InvalidMetadata(f"{len(channels)} channels were given, but the data have {counts[0]}")
    return Omero(tuple(_channel(c, i) for i, c in enumerate(channels)))


def _channel(given: Any, index: int) -> Channel:
    channel = given if isinstance(given, Channel) else Channel(str(given))
    color = (channel.color or _COLOURS[index % len(_COLOURS)]).removeprefix("#")
    if not is_colour(color):
        raise InvalidMetadata(
            f"the colour of channel {channel.label!r} is {channel.color!r}; give six hexadecimal"
            " digits, such as 'FF0000' for red"
        )
    return replace(
        channel,
        color=color,
        active=True if channel.active is None else channel.active,
    )
