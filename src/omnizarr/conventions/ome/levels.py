"""Describe a new image before it is written: its axes, levels, metadata, arrays and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from omnizarr import Array
from omnizarr import __version__ as VERSION
from omnizarr.bulk import pyramid
from omnizarr.conventions.cf.packing import Packing
from omnizarr.conventions.cf.variable import described_values
from omnizarr.conventions.ome import model, versions
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.rules import check
from omnizarr.errors import CannotExpress, InvalidArgument, InvalidMetadata, warn
from omnizarr.extension import (
    TARGET_BYTES,
    ArrayModel,
    ArrayOptions,
    Format,
    GroupModel,
    Location,
    Node,
    array_model,
    as_plain,
    guess_chunks,
    key_encoding,
    paths,
    stores,
    unpublished,
)

Factors = tuple[int, ...]

_DEFAULT_AXES = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
_ORDER = {"time": 0, "space": 2}
_TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel"}
# Options of an image that are for its labels, too; the others depend on the type of the pixels.
_SHARED = ("chunks", "shards", "compressors", "chunk_key_encoding")
# By default, levels are added until the longest spatial axis is at most this long.
SMALL = 256
WINDOW_BYTES = 2**24  # read at most of each channel to find its window


def image_axes(
    axes: Any, rank: int, unit: str | Mapping[str, str] | None
) -> tuple[model.Axis, ...]:
    """Return axes from text such as ``"zyx"``, names, or `Axis` objects; None for the default."""
    if axes is None:
        if rank not in _DEFAULT_AXES:
            raise InvalidArgument(f"an image has 2 to 5 axes, got {rank}")
        axes = _DEFAULT_AXES[rank]
    if isinstance(axes, str):
        axes = axes.lower()
    given = [
        a if isinstance(a, model.Axis) else model.Axis(str(a), _TYPES.get(str(a), "space"))
        for a in axes
    ]
    names = [a.name for a in given]
    if len(given) != rank:
        raise InvalidArgument(f"the data have {rank} axes, but {len(given)} are named: {names}")
    order = sorted(range(rank), key=lambda i: _ORDER.get(given[i].type or "", 1))
    if order != [*range(rank)]:
        raise InvalidArgument(
            f"the axes {names} are not in OME-Zarr order: time, then channel, then space;"
            f" pass numpy.transpose(data, {tuple(order)}) with axes {[names[i] for i in order]}"
        )
    units = {} if unit is None or isinstance(unit, str) else dict(unit)
    for name in units.keys() - set(names):
        raise InvalidArgument(f"unit: unknown axis {name!r}; axes: {', '.join(names)}")
    if isinstance(unit, str):
        kind = model.unit_kind(unit)
        if kind is None:
            raise model.unknown_unit(unit)
        units = {a.name: unit for a in given if a.type == kind}
    return tuple(
        replace(a, unit=model.unit_name(units[a.name])) if a.name in units else a for a in given
    )


def per_axis(
    given: Any, axes: Sequence[model.Axis], default: float, what: str
) -> tuple[float, ...]:
    """Return a number for each axis, from a sequence or a mapping by name."""
    if given is None:
        return (default,) * len(axes)
    names = [a.name for a in axes]
    if isinstance(given, Mapping):
        for name in given.keys() - set(names):
            raise InvalidArgument(f"{what}: unknown axis {name!r}; axes: {', '.join(names)}")
        return tuple(float(given.get(name, default)) for name in names)
    found = tuple(float(n) for n in given) if isinstance(given, Iterable) else (given,)
    if len(found) != len(axes):
        raise InvalidArgument(f"{what} needs a number for each of {len(axes)} axes, got {given!r}")
    return found


def level_factors(
    shape: Sequence[int],
    axes: Sequence[model.Axis],
    scale: Sequence[float],
    levels: int | None,
    factors: Any,
) -> list[Factors]:
    """Return the factors from each level to the next.

    `factors` are one for each step, or one for all. By default, every spatial axis is halved whose
    pixels are less than twice as long as the shortest, so that pixels become isotropic.
    """
    if levels is not None and levels < 1:
        raise InvalidArgument(f"levels must be at least 1, got {levels}")
    if isinstance(factors, Sequence) and factors and not isinstance(factors[0], int):
        if levels is not None and levels != len(factors) + 1:
            raise InvalidArgument(
                f"{len(factors)} steps make {len(factors) + 1} levels, not {levels}"
            )
        return [_step(each, axes) for each in factors]
    fixed = None if factors is None else _step(factors, axes)
    lengths, sizes = list(shape), list(scale)
    found: list[Factors] = []
    while levels is None or len(found) < levels - 1:
        step = fixed or _halves(lengths, axes, sizes)
        longest = max((n for n, f in zip(lengths, step, strict=True) if f > 1), default=0)
        if longest <= (SMALL if levels is None else 1):
            break
        found.append(step)
        lengths = [-(-n // f) for n, f in zip(lengths, step, strict=True)]
        sizes = [s * f for s, f in zip(sizes, step, strict=True)]
    return found


def _step(given: Any, axes: Sequence[model.Axis]) -> Factors:
    if isinstance(given, int):
        given = {a.name: given for a in axes if a.type == "space"}
    found = per_axis(given, axes, 1, "factors")
    if any(f < 1 or f != int(f) for f in found):
        raise InvalidArgument(f"factors must be integers of at least 1, got {given!r}")
    return tuple(int(f) for f in found)


def _halves(lengths: Sequence[int], axes: Sequence[model.Axis], sizes: Sequence[float]) -> Factors:
    def meters(unit: str | None) -> float:
        if unit is None or model.unit_kind(unit) != "space":
            return 1.0
        return model.unit_factor(unit, "meter")

    physical = {
        i: size * meters(a.unit)
        for i, (a, size) in enumerate(zip(axes, sizes, strict=True))
        if a.type == "space" and lengths[i] > 1
    }
    shortest = min(physical.values(), default=1.0)
    close = {i for i, size in physical.items() if size < 2 * shortest * (1 - 1e-9)}
    return tuple(2 if i in close else 1 for i in range(len(axes)))


def level_transforms(
    first: model.Transform, factors: Sequence[Factors], method: str
) -> list[model.Transform]:
    """Return the transform of each level: a pixel is at the centre of the block it represents.

    `nearest` takes the first pixel of a block, so its levels keep the translation of the image.
    """
    found = [first]
    for step in factors:
        last = found[-1]
        scale = tuple(_short(s * f) for s, f in zip(last.scale, step, strict=True))
        shift = [0.0 if method == "nearest" else (f - 1) / 2 * s
                 for s, f in zip(last.scale, step, strict=True)]  # fmt: skip
        moved = tuple(_short(t + d) for t, d in zip(last.offset, shift, strict=True))
        translation = moved if last.translation is not None or any(moved) else None
        found.append(model.Transform(scale, translation))
    return found


def _short(number: float) -> float:
    """Round off the error in the last digit: return 0.15 for 0.15000000000000002."""
    return float(f"{number:.15g}")


def with_windows(
    metadata: model.Metadata, dtype: np.dtype[Any], coarsest: Array | None = None
) -> model.Metadata:
    """Return metadata in which every channel has a window of values to display.

    A missing one has the extremes of `coarsest`, of its middle plane if it is large, or the type's.
    """
    if metadata.omero is None:
        return metadata
    axes = metadata.multiscales[0].axes
    channels = [*metadata.omero.channels]
    for number, channel in enumerate(channels):
        if channel.window is None:
            chosen = None if coarsest is None else _middle(axes, coarsest, number)
            values = np.zeros(0) if coarsest is None else as_plain(coarsest[chosen])
            channels[number] = replace(channel, window=_window(values, dtype))
    return replace(metadata, omero=replace(metadata.omero, channels=tuple(channels)))


def _middle(axes: Sequence[model.Axis], level: Array, number: int) -> tuple[int | slice, ...]:
    """Return the selection of a channel; of a large one, only the middle of some axes."""
    chosen: list[int | slice] = [slice(None)] * level.ndim
    nbytes = level.nbytes
    for i in sorted(range(level.ndim), key=lambda i: axes[i].type != "channel"):
        if axes[i].type == "channel" or nbytes > WINDOW_BYTES:
            chosen[i] = number if axes[i].type == "channel" else level.shape[i] // 2
            nbytes //= max(1, level.shape[i])
    return tuple(chosen)


def _window(values: pyramid.Values, dtype: np.dtype[Any]) -> dict[str, float]:
    whole = dtype.kind in "iu"
    low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if whole else (0, 1)
    found = values[np.isfinite(values)] if dtype.kind in "iuf" else values[:0]
    start, end = (found.min().item(), found.max().item()) if found.size else (low, high)
    if start == end:
        start, end = (start, end + 1) if end < high else (start - 1, end)
    return {"min": min(low, start), "max": max(high, end), "start": start, "end": end}


def image_name(store: Any, path: str | None) -> str:
    """Return the last part of an image's path or URL."""
    full = paths.normalize(path)
    if not full and isinstance(store, (str, os.PathLike)):
        full = os.fspath(store).replace("\\", "/").rstrip("/")
    return paths.name(full) or "image"


def new_metadata(
    shape: Sequence[int],
    *,
    axes: Any = None,
    scale: Any = None,
    translation: Any = None,
    unit: str | Mapping[str, str] | None = None,
    levels: int | None = None,
    factors: Any = None,
    method: str = "mean",
    names: Sequence[str] | None = None,
    name: str = "image",
    channels: Sequence[Any] | None = None,
) -> tuple[model.Metadata, list[Factors]]:
    """Return the metadata of a new image as `write` describes it, and the factors of its levels."""
    used = image_axes(axes, len(shape), unit)
    sizes = per_axis(scale, used, 1.0, "scale")
    for size, axis in zip(sizes, used, strict=True):
        if not 0 < size < float("inf"):
            raise InvalidArgument(f"scale: invalid pixel size {size:g} along {axis.name!r}")
    start = None if translation is None else per_axis(translation, used, 0.0, "translation")
    steps = level_factors(shape, used, sizes, levels, factors)
    labels = tuple(map(str, range(len(steps) + 1))) if names is None else tuple(names)
    if len(labels) != len(steps) + 1:
        raise InvalidArgument(f"{len(labels)} names were given for {len(steps) + 1} levels")
    pyramid.check_method(method)
    transforms = level_transforms(model.Transform(sizes, start), steps, method)
    datasets = tuple(model.ImageLevel(p, t) for p, t in zip(labels, transforms, strict=True))
    about = {"method": "omnizarr.ome.write", "version": VERSION, "factors": [*map(list, steps)]}
    multiscale = model.Multiscale(used, datasets, name, method, about)
    counts = [n for n, a in zip(shape, used, strict=True) if a.type == "channel"]
    if channels is not None and counts and counts[0] != len(channels):
        raise InvalidArgument(f"got {len(channels)} channels, but the data has {counts[0]}")
    colours = model.default_colours([getattr(c, "label", c) for c in channels or ()])
    rendered = tuple(_channel(c, i, colours[i]) for i, c in enumerate(channels or ()))
    omero = None if channels is None else model.Omero(rendered)
    return model.Metadata((multiscale,), omero=omero), steps


def _channel(label: Any, index: int, default: str) -> model.Channel:
    if isinstance(label, Mapping):
        raise InvalidArgument(f"channel {index} is {label!r}; give its label, or an ome.Channel")
    channel = label if isinstance(label, model.Channel) else model.Channel(str(label))
    color = (channel.color or default).removeprefix("#")
    if not model.is_colour(color):
        raise InvalidArgument(
            f"invalid colour {channel.color!r} of channel {channel.label!r}; use six hexadecimal"
            " digits, such as 'FF0000' for red"
        )
    active = True if channel.active is None else channel.active
    return replace(channel, color=color, active=active)


def labels_metadata(
    name: str,
    axes: Sequence[model.Axis],
    indices: Sequence[int],
    whole: model.Transform,
    steps: Sequence[Factors],
    method: str,
    label: model.ImageLabel,
) -> model.Metadata:
    """Return the metadata of labels with some axes of an image, which has the transform `whole`."""
    offset = tuple(whole.offset[i] for i in indices)
    first = model.Transform(tuple(whole.scale[i] for i in indices), offset if any(offset) else None)
    transforms = level_transforms(first, steps, method)
    datasets = tuple(model.ImageLevel(str(i), t) for i, t in enumerate(transforms))
    about = {"method": "omnizarr.ome.write_labels", "version": VERSION}
    multiscale = model.Multiscale(tuple(axes[i] for i in indices), datasets, name, method, about)
    return model.Metadata((multiscale,), image_label=label)


def step_ratios(image: Image) -> list[Factors]:
    """Return the factors between the levels of an image, which may be rounded."""
    scales = [image.transform(i).scale for i in range(len(image.multiscale.datasets))]
    return [
        tuple(max(1, round(b / a)) for a, b in zip(fine, coarse, strict=True))
        for fine, coarse in pairwise(scales)
    ]


@dataclass(frozen=True)
class NewImage:
    """An image to be written: its metadata, and the array of each level."""

    path: str
    version: versions.Version
    metadata: model.Metadata
    steps: tuple[Factors, ...]
    dtype: np.dtype[Any]
    options: list[ArrayOptions]  # of the array of each level, the finest first
    models: dict[str, ArrayModel]  # the same by path in the store
    source: Any = None  # the pixels
    others: Mapping[str, Any] = field(default_factory=dict)  # attributes besides OME

    @property
    def method(self) -> str:
        """The method of downsampling."""
        return self.metadata.multiscales[0].type or "mean"

    def attributes(self, coarsest: Array | None = None) -> dict[str, Any]:
        """Return the attributes of the group, with display windows from a stored level."""
        members = model.to_json(with_windows(self.metadata, self.dtype, coarsest))
        return versions.to_attributes(members, self.version.name, self.others)

    def nodes(self) -> dict[str, Node]:
        """Return the group and the arrays by path in the store."""
        return {self.path: GroupModel(self.attributes()), **self.models}


def plan_images(
    location: Location,
    source: Any,
    image: Image | None,
    options: ArrayOptions,
    described: Mapping[str, Any],
) -> list[NewImage]:
    """Return the image to write at a location, and its labels if the source is an image.

    `described` has the arguments of `new_metadata`; None takes the value from the image.
    """
    described = dict(described)
    rendered = described.get("channels") is None
    if image is not None:
        defaults = {
            "axes": image.axes, "scale": image.scale, "channels": image.channels or None,
            "translation": image.transform().translation, "name": image.name,
        }  # fmt: skip
        for name, value in defaults.items():
            described[name] = value if described.get(name) is None else described[name]
    described["name"] = described.get("name") or image_name(None, location.path)
    metadata, steps = new_metadata(source.shape, **described)
    if image is None:
        return [plan_levels(location, location.path, source, options, metadata, steps)]
    metadata = _kept_metadata(metadata, image, rendered)
    others = image.group.attrs.asdict()
    images = [plan_levels(location, location.path, source, options, metadata, steps, others)]
    (new,) = metadata.multiscales
    whole = new.datasets[0].transform or model.Transform((1.0,) * len(new.axes))
    names = [axis.name for axis in image.axes]
    for name, labels in image.labels.items():
        chosen = [names.index(axis.name) for axis in labels.axes]
        inside = [tuple(step[i] for i in chosen) for step in steps]
        label = replace(labels.label or model.ImageLabel(), source="../../")
        shown, method = labels.name or name, labels_method(labels)
        own = labels_metadata(shown, new.axes, chosen, whole, inside, method, label)
        own = replace(_kept_metadata(own, labels, True), image_label=label)
        shared = _labels_options(options, new.axes, own.multiscales[0].axes)
        path = paths.join(location.path, f"labels/{paths.normalize(name)}")
        others = labels.group.attrs.asdict()
        images.append(plan_levels(location, path, labels.levels[0], shared, own, inside, others))
    return images


def plan_levels(
    location: Location,
    path: str,
    source: Any,
    options: ArrayOptions,
    metadata: model.Metadata,
    steps: Sequence[Factors],
    others: Mapping[str, Any] | None = None,
) -> NewImage:
    """Return the image to write at a path in the format of a location, with these metadata.

    The source has a shape and a type; its attributes that describe values are kept.
    """
    version = versions.version_on(location.format.name)
    if version is None:
        raise CannotExpress(
            f"OME-Zarr needs zarr 2 or 3, not {location.format.name}; give zarr_format=3"
        )
    dtype = np.dtype(source.dtype)
    members = model.to_json(with_windows(metadata, dtype))
    attributes = versions.to_attributes(members, version.name, {})
    check_attributes(attributes, f"the image {paths.show(path)}")
    (multiscale,) = metadata.multiscales
    stated = described_values(source, zero_is_missing=False)[0]
    stated |= options.get("attributes") or {}
    if len(multiscale.datasets) > 1:
        pyramid.check_packing(multiscale.type or "mean", Packing.of(dtype, stated))
    level: Any = {**_with_separator(options, location.format, version), "attributes": stated}
    if version.name == versions.NEWEST:
        level["dimension_names"] = [a.name for a in multiscale.axes]
    _set_chunks(level, multiscale.axes, source.shape, dtype)
    first: Array | None = None
    found, models = [], dict[str, ArrayModel]()
    shapes = pyramid.level_shapes(source.shape, steps)
    for entry, shape in zip(multiscale.datasets, shapes, strict=True):
        if first is not None:
            level = {**level, **pyramid.level_chunks(first, shape)}
        full = paths.join(path, entry.path)
        models[full] = array_model(location.format, shape, source.dtype, level)
        if first is None:
            first = unpublished(Location(location.store, full, location.format), models[full])
        found.append(level)
    return NewImage(
        path, version, metadata, tuple(steps), dtype, found, models, source, others or {}
    )


def check_attributes(attributes: dict[str, Any], what: str) -> None:
    """Raise if metadata to be written is invalid."""
    found = versions.find_metadata(attributes)
    problems = [] if found is None else [p for p in check(found, "") if p.level == "error"]
    if problems:
        raise InvalidMetadata.of(problems, f"cannot write {what}")


def _with_separator(
    options: ArrayOptions, format: Format, version: versions.Version
) -> ArrayOptions:
    """Return the options with the version's chunk key separator; raise if they have another."""
    if version.separator is None:
        return options
    if options.get("chunk_key_encoding") is None:
        return {**options, "chunk_key_encoding": version.separator}
    encoding = key_encoding(format, options)
    separator = encoding.configuration.get("separator", ".")
    if separator != version.separator:
        raise InvalidArgument(
            f"OME-Zarr {version.name} requires the separator {version.separator!r}, not"
            f" {separator!r}; omit chunk_key_encoding"
        )
    return options


def _set_chunks(options: Any, axes: Sequence[model.Axis], shape: Sequence[int], dtype: Any) -> None:
    """Set chunks and shards as shapes; axes that a mapping leaves out are not split.

    By default, chunks are about a MiB along the spatial axes, and of length 1 along the others.
    """
    for name in ("chunks", "shards"):
        given = options.get(name)
        if isinstance(given, Mapping) and "shape" not in given:
            lengths = per_axis(given, axes, -1, name)
            options[name] = tuple(
                max(1, n) if c == -1 else int(c) for c, n in zip(lengths, shape, strict=True)
            )
    if options.get("chunks", "auto") in ("auto", None, True):
        space = tuple(n if a.type == "space" else 1 for n, a in zip(shape, axes, strict=True))
        options["chunks"] = guess_chunks(space, dtype.itemsize, TARGET_BYTES)


def _kept_metadata(metadata: model.Metadata, image: Image, rendered: bool) -> model.Metadata:
    """Complete new metadata from the old image, with `rendered` also its channels."""
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


def labels_method(labels: Image) -> str:
    """Return the downsampling method of labels: their own if it only picks values, else mode."""
    own = labels.multiscale.type
    return own if own in ("mode", "nearest", "max") else "mode"


def _labels_options(
    options: ArrayOptions, image: Sequence[model.Axis], axes: Sequence[model.Axis]
) -> Any:
    """Return those options of an image that labels share, with shapes along their axes."""
    found: dict[str, Any] = {k: v for k, v in options.items() if k in _SHARED}
    names = [axis.name for axis in image]
    for name in ("chunks", "shards"):
        given: Any = found.get(name)
        inner = given.get("shape") if isinstance(given, Mapping) else given
        if isinstance(inner, (list, tuple)) and len(inner) == len(names):
            chosen = [inner[names.index(axis.name)] for axis in axes]
            found[name] = {**given, "shape": chosen} if isinstance(given, Mapping) else chosen
        elif isinstance(given, Mapping) and inner is None:
            found[name] = {k: v for k, v in given.items() if k in {axis.name for axis in axes}}
    return found


def labels_nodes(image: Image | None, images: Sequence[NewImage]) -> dict[str, Node]:
    """Return the group that lists the labels of a new image, and groups between."""
    first, *labels = images
    if image is None or not labels:
        return {}
    above = paths.join(first.path, "labels")
    names = tuple(each.path.removeprefix(paths.prefix(above)) for each in labels)
    old = image.group["labels"].attrs.asdict()
    members = model.to_json(model.Metadata(labels=names))
    attributes = versions.to_attributes(members, first.version.name, old)
    nodes: dict[str, Node] = {above: GroupModel(attributes)}
    for name in names:
        for parent in paths.ancestors(name):
            nodes.setdefault(paths.join(above, parent), GroupModel())
    return nodes
