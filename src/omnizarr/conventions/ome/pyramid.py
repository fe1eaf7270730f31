"""Jobs that write images: first the finest level, then each coarser one from the one before it.

Each level is a stage of tasks over boxes of whole chunks, so that they run anywhere, and an
interrupted job is resumed. `BuildPyramid` makes an image from an array, or adds coarser levels to
an image that has too few; the image keeps its old levels until the new ones are complete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np

from omnizarr import Array, Group, config
from omnizarr.bulk.fill import (
    ArraySource,
    Filled,
    box_count,
    fill_tasks,
    items_for,
    target_array,
)
from omnizarr.bulk.job import MEMORY, Job, Plan, Stage, Task, launch, memory_of
from omnizarr.bulk.options import RunOptions, WriteOptions, option, takes, told
from omnizarr.bulk.output import HierarchyOutput, SeveralNodes
from omnizarr.bulk.pyramid import (
    NAMES,
    check_packing,
    level_chunks,
    level_shapes,
    level_task_count,
    level_tasks,
)
from omnizarr.bulk.source_keys import source_state
from omnizarr.conventions.cf.packing import Packing
from omnizarr.conventions.cf.variable import described_values, plain_attributes
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.levels import (
    Factors,
    labels_method,
    labels_options,
    level_factors,
    level_transforms,
    per_axis,
    with_windows,
)
from omnizarr.conventions.ome.model import Axis, ImageLevel, Metadata, Transform, to_json
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.versions import (
    Version,
    find_metadata,
    to_attributes,
    version_on,
    writable_version,
)
from omnizarr.conventions.ome.write import (
    KeptLabels,
    check_attributes,
    check_method,
    image_attributes,
    image_name,
    kept_labels,
    kept_metadata,
    level_options,
    new_metadata,
    open_source,
    other_members,
    with_separator,
)
from omnizarr.errors import CannotExpress, InvalidArgument, NodeNotFound
from omnizarr.extension import (
    ArrayModel,
    ArrayOptions,
    GroupModel,
    Location,
    Node,
    array_model,
    check_disjoint,
    check_whole,
    existing_node,
    get_existing,
    key_digest,
    new_location,
    options_for_two,
    options_like,
    paths,
    portable_key,
    resolve_store_path,
    stores,
    unpublished,
)


@dataclass(frozen=True)
class NewImage:
    """An image to be written: its metadata, and the model of the array of each level."""

    path: str
    version: Version
    metadata: Metadata
    steps: tuple[Factors, ...]
    models: dict[str, ArrayModel]  # by path in the store, the finest first
    dtype: np.dtype[Any]
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # attributes besides OME

    @property
    def method(self) -> str:
        """The method of downsampling."""
        return self.metadata.multiscales[0].type or "mean"

    def nodes(self) -> dict[str, Node]:
        """Return the group and the arrays by path in the store."""
        members = to_json(with_windows(self.metadata, self.dtype))
        attributes = to_attributes(members, self.version.name, self.others)
        return {self.path: GroupModel(attributes), **self.models}

    def arrays(self, make: Callable[[str, ArrayModel], Array]) -> list[Array]:
        """Return the arrays of all levels, each made by `make`."""
        return [make(path, model) for path, model in self.models.items()]


def plan_image(
    location: Location,
    path: str,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    options: ArrayOptions,
    described: Mapping[str, Any],
) -> NewImage:
    """Return the image to write at a path of the store of `location`, in its format.

    `described` has the arguments of `new_metadata` other than the shape.
    """
    defaults = dict.fromkeys(("axes", "scale", "translation", "unit", "levels", "factors",
                              "names", "channels"))  # fmt: skip
    metadata, steps = new_metadata(
        shape, **{**defaults, "method": "mean", "name": paths.name(path) or "image", **described}
    )
    return plan_levels(location, path, shape, dtype, options, metadata, steps)


def plan_levels(
    location: Location,
    path: str,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    options: ArrayOptions,
    metadata: Metadata,
    steps: Sequence[Factors],
) -> NewImage:
    """Return the image to write at a path, with these metadata and factors of its levels."""
    version = version_on(location.format.name)
    if version is None:
        raise CannotExpress(
            f"OME-Zarr needs zarr 2 or 3, not {location.format.name}; give zarr_format=3"
        )
    attributes = image_attributes(with_windows(metadata, dtype), version)
    check_attributes(attributes, f"the image {paths.show(path)}")
    (multiscale,) = metadata.multiscales
    if len(multiscale.datasets) > 1:
        attributes_of_values = options.get("attributes") or {}
        check_packing(multiscale.type or "mean", Packing.of(dtype, attributes_of_values))
    options = with_separator(_by_axis(options, multiscale.axes, shape), version)
    options = level_options(options, version, multiscale, shape, dtype)
    models: dict[str, ArrayModel] = {}
    first: Array | None = None
    for dataset, lengths in zip(multiscale.datasets, level_shapes(shape, steps), strict=True):
        if first is not None:
            options["chunks"], shards = level_chunks(first.chunks, first.shards, lengths)
            if shards is not None:
                options["shards"] = shards
        full = paths.join(path, dataset.path)
        models[full] = array_model(location.format, lengths, dtype, options)
        if first is None:
            first = unpublished(Location(location.store, full, location.format), models[full])
    return NewImage(path, version, metadata, tuple(steps), models, dtype)


def _by_axis(options: ArrayOptions, axes: Sequence[Axis], shape: Sequence[int]) -> ArrayOptions:
    """Return options whose chunks or shards, if given by axis, are shapes; other axes are whole."""
    found: Any = dict(options)
    for name in ("chunks", "shards"):
        given = found.get(name)
        if isinstance(given, Mapping) and "shape" not in given:
            lengths = per_axis(dict(given), axes, -1, name)
            found[name] = tuple(
                max(1, n) if c == -1 else int(c) for c, n in zip(lengths, shape, strict=True)
            )
    return cast(ArrayOptions, found)


class ImageOutput(HierarchyOutput):
    """The nodes of a job among which are images; display windows are found at the end."""

    images: Sequence[NewImage] = ()

    def finish(self) -> None:
        """Store the value range of each channel with the image, and make everything visible."""
        for image in self.images:
            if image.metadata.omero is None:
                continue
            path, model = list(image.models.items())[-1]
            coarsest = target_array(self, path, model)
            location = self._begun.location.at(image.path)
            windows = with_windows(image.metadata, image.dtype, coarsest)
            group = Group.at(location, location.load())
            group.attrs.update(image_attributes(windows, image.version))
        super().finish()


def level_stages(
    images: Sequence[NewImage], output: HierarchyOutput, memory: int
) -> list[Stage[Filled]]:
    """Return one stage for each coarser level; a stage has that level of all images."""

    def made(image: NewImage) -> list[Array]:
        return image.arrays(lambda path, model: target_array(output, path, model))

    def tasks(level: int) -> Iterator[Task[Filled]]:
        for image in images:
            if level <= len(image.steps):
                finer, coarser = made(image)[level - 1 : level + 1]
                step, packing = image.steps[level - 1], image_packing(finer)
                yield from level_tasks(finer, coarser, step, image.method, memory, packing)

    stages = []
    for level in range(1, max((len(image.steps) for image in images), default=0) + 1):
        count = size = 0
        for image in images:
            if level <= len(image.steps):
                array = image.arrays(lambda path, model: planned_array(output, path, model))[level]
                step, packing = image.steps[level - 1], image_packing(array)
                count += level_task_count(array, step, image.method, memory, packing)
                size += array.nbytes
        name = f"level {level}"
        stages.append(Stage(name, partial(tasks, level), count, size, bytes_written=size))
    return stages


def image_packing(level: Array) -> Packing:
    """Return what the numbers of a level of an image mean."""
    return described_values(level, zero_is_missing=False)[1]


def planned_array(output: HierarchyOutput, path: str, model: ArrayModel) -> Array:
    """Return an array of a job's output as it will be."""
    return unpublished(Location(output.location.store, path, output.location.format), model)


@dataclass
class PyramidOptions(WriteOptions):
    """The options of `pyramid`."""

    source: Any = field(metadata=told("A path, URL, store, array or image."))
    destination: Any = option(
        None,
        "A path, URL or store for a new image; None to add coarser levels to the image `source`.",
    )
    _: KW_ONLY
    path: str | None = option(None, "The path of the node in the source.")
    axes: Any = option(None, "Axes, such as ``zyx``; by default the dimension names.")
    scale: Any = option(None, "The pixel size along each axis, as in `ome.write`.")
    unit: Any = option(None, "The unit of the spatial axes, such as ``micrometer``.")
    levels: int | None = option(
        None, "Number of levels, including full resolution; by default until the image is small."
    )
    factors: Any = option(None, "The downsampling factors, as in `ome.write`.")
    method: str | None = option(
        None, "Downsampling method; by default that of the image, or ``mean``."
    )
    zarr_format: int | str | None = option(
        None, "The Zarr version to write; by default that of the hierarchy, or 3."
    )
    options: Mapping[str, Any] = field(
        default_factory=dict, metadata=told("Options of `create_array`.")
    )


@dataclass
class PyramidArguments(PyramidOptions, RunOptions):
    """The arguments of `pyramid`."""


@dataclass
class BuildPyramid(PyramidOptions, Job[Filled]):
    """The job of `pyramid`, which explains the options.

    Examples:
        >>> oz.save("cells.zarr", np.ones((64, 64)))
        >>> report = oz.run(oz.jobs.BuildPyramid("cells.zarr", "image.zarr", axes="yx", levels=2))
        >>> len(oz.ome.open("image.zarr").levels)
        2
    """

    def plan(self, tasks_at_once: int = 1) -> Plan[Filled]:
        """Read the metadata and decide what to do; nothing is written."""
        memory = memory_of(self.memory, tasks_at_once)
        here, there = options_for_two(
            self.source, self.destination, self.storage_options, self.destination_options
        )
        given = self.source
        if self.destination is None and not hasattr(given, "multiscale"):
            store, path = resolve_store_path(given, None, "r+", here)
            found, given = existing_node(store, path), None
            if found is not None and isinstance(found[1], GroupModel):
                given = open_ome(store, path=path)
            elif found is not None:
                given = Array(store, path)
            else:
                raise NodeNotFound(f"there is no image at {self.source!r}")
        source, image = open_source(given, here)
        if not isinstance(source, Array):
            raise InvalidArgument(f"the source must be a Zarr array or image, got {source!r}")
        check_whole(source.store, source.path if image is None else image.group.path)
        if self.destination is None:
            if image is None:
                raise InvalidArgument(
                    f"{source.name} is an array, not an image with levels to add to; give a"
                    " destination for the image"
                )
            return self._plan_added(image, memory)
        return self._plan_new(source, image, there, memory)

    def _plan_new(
        self, source: Array, image: Image | None, options: Mapping[str, Any] | None, memory: int
    ) -> Plan[Filled]:
        store = stores.resolve(self.destination, storage_options=options)
        check_disjoint(source.store, store, "; leave the destination out to add levels")
        wanted = self.zarr_format
        if wanted is None and image is not None and version_on(image.group.zarr_format) is not None:
            wanted = image.group.zarr_format
        location = new_location(store, self.path, wanted)
        described: dict[str, Any] = {
            "axes": self.axes, "scale": self.scale, "unit": self.unit, "levels": self.levels,
            "factors": self.factors, "method": check_method(self.method or "mean"),
            "name": image_name(self.destination, self.path),
        }  # fmt: skip
        if image is not None:
            described["axes"] = self.axes or image.axes
            described["scale"] = image.scale if self.scale is None else self.scale
            described["translation"] = image.transform().translation
            described["name"] = image.name or described["name"]
            described["channels"] = image.channels or None
        elif self.axes is None and source.dimension_names:
            described["axes"] = _known_axes(source.dimension_names)
        given: Any = dict(self.options)
        stated = described_values(source, zero_is_missing=False)[0]
        given["attributes"] = {**stated, **(given.get("attributes") or {})}
        skipped = {
            f"attribute {name}": "an image has no place on the Earth; write a map with geo.write"
            for name in plain_attributes(source.attrs)
            if name not in stated
        }
        new = plan_image(location, location.path, source.shape, source.dtype, given, described)
        sources, images, nodes = [source], [new], new.nodes()
        if image is not None:
            skipped |= dict.fromkeys(other_members(image), "it is not part of the image")
            metadata = kept_metadata(new.metadata, image, True)
            images = [replace(new, metadata=metadata, others=image.group.attrs.asdict())]
            nodes = images[0].nodes()
            for labels in kept_labels(image, metadata, new.steps):
                sources.append(labels.image.levels[0])
                images.append(_plan_labels(location, images[0], labels, given))
            nodes |= _labels_nodes(image, images)
        operation = f"write {source.name} of {source.store!r} as an image to {location}"
        digest = key_digest(
            operation, portable_key(source.store), source.path, new.method,
            source_state(source.store, source.path),
            node_documents(location, nodes),
        )  # fmt: skip
        output = ImageOutput(
            location, nodes, operation=operation, digest=digest, overwrite=self.overwrite
        )
        output.images = images
        finest = [
            (array, next(iter(each.models.items())), items_for(memory, array.dtype))
            for array, each in zip(sources, images, strict=True)
        ]

        def copy() -> Iterator[Task[Filled]]:
            for array, first, items in finest:
                yield from fill_tasks(ArraySource(array), target_array(output, *first), items)

        count = sum(box_count(planned_array(output, *first), items) for _, first, items in finest)
        size = sum(array.nbytes for array in sources)
        arrays = sum(isinstance(node, ArrayModel) for node in nodes.values())
        return Plan(
            operation,
            digest,
            [
                Stage("level 0", copy, count, size, bytes_read=size),
                *level_stages(images, output, memory),
            ],
            Filled(arrays=arrays, groups=len(nodes) - arrays, skipped=skipped),
            output,
            [
                *(line for each in images for line in describe_image(each)),
                *(f"left out: {name}: {reason}" for name, reason in skipped.items()),
            ],
            config.byte_size(self.memory or MEMORY, "memory"),
        )

    def _plan_added(self, image: Image, memory: int) -> Plan[Filled]:
        have, group = len(image.levels), image.group
        wanted = None if self.levels is None else max(1, self.levels - have + 1)
        last = image.levels[-1]
        steps = level_factors(
            last.shape, image.axes, _own_transform(image).scale, wanted, self.factors
        )
        old = image.multiscale.type
        method = check_method(self.method or (old if old in NAMES else None) or "mean")
        several = [MoreLevels.of(image, steps, method)]
        scales = [image.transform(i).scale for i in range(have)]
        every = [*(_ratios(a, b) for a, b in pairwise(scales)), *steps]
        names = [axis.name for axis in image.axes]
        for labels in image.labels.values():  # which have as many levels as their image
            chosen = [names.index(axis.name) for axis in labels.axes]
            own = [tuple(s[i] for i in chosen) for s in every[len(labels.levels) - 1 :]]
            several.append(MoreLevels.of(labels, own, labels_method(labels.multiscale.type)))
        operation = f"add {len(steps)} levels to {group.name} of {group.store!r}"
        digest = key_digest(  # the same when some of the levels are listed already
            "add levels", portable_key(group.store), group.path, self.levels, str(self.factors),
            method, [source_state(group.store, each.image.levels[0].path) for each in several],
        )  # fmt: skip
        output = AddedLevels(image, several, operation, digest, self.overwrite)
        stages: list[Stage[Filled]] = []
        for number in range(max(len(each.steps) for each in several)):
            count = size = 0
            for each in several:
                if number < len(each.steps):
                    coarser = each.planned(number)
                    step, how = each.steps[number], each.method
                    packing = image_packing(each.image.levels[-1])
                    count += level_task_count(coarser, step, how, memory, packing)
                    size += coarser.nbytes
            tasks, name = partial(output.tasks, number, memory), f"level {have + number}"
            stages.append(Stage(name, tasks, count, size, bytes_written=size))
        decisions = [
            f"{paths.show(path)}: {model.shape}, {each.method}"
            for each in several
            for path, model in each.models.items()
        ] or [f"the image has {have} levels already, down to {last.shape}"]
        return Plan(
            operation, digest, stages, Filled(arrays=len(output.outputs)), output, decisions,
            config.byte_size(self.memory or MEMORY, "memory"),
        )  # fmt: skip


def _plan_labels(
    location: Location, image: NewImage, labels: KeptLabels, options: ArrayOptions
) -> NewImage:
    """Return the labels to write beside a new image."""
    path = paths.join(image.path, f"labels/{labels.name}")
    array = labels.image.levels[0]
    own = labels_options(
        options, image.metadata.multiscales[0].axes, labels.metadata.multiscales[0].axes
    )
    own["attributes"] = described_values(array, zero_is_missing=False)[0]
    new = plan_levels(location, path, array.shape, array.dtype, own, labels.metadata, labels.steps)
    return replace(new, others=labels.image.group.attrs.asdict())


def _labels_nodes(image: Image, images: Sequence[NewImage]) -> dict[str, Node]:
    """Return the nodes of labels, the group that lists them, and groups between."""
    first, *labels = images
    if not labels:
        return {}
    above = paths.join(first.path, "labels")
    names = tuple(each.path.removeprefix(paths.prefix(above)) for each in labels)
    members = to_json(Metadata(labels=names))
    old = image.group["labels"].attrs.asdict()
    nodes: dict[str, Node] = {
        paths.join(above, parent): GroupModel()
        for name in names
        for parent in paths.ancestors(name)
    }
    nodes[above] = GroupModel(to_attributes(members, first.version.name, old))
    for each in labels:
        nodes |= each.nodes()
    return nodes


def _own_transform(image: Image) -> Transform:
    """Return the transform of the coarsest level, before one that all levels share."""
    return image.multiscale.datasets[-1].transform or image.transform(len(image.levels) - 1)


def _ratios(finer: Sequence[float], coarser: Sequence[float]) -> Factors:
    return tuple(max(1, round(b / a)) for a, b in zip(finer, coarser, strict=True))


@dataclass(frozen=True)
class MoreLevels:
    """New levels of an image, or of labels, that exist."""

    image: Image
    steps: list[Factors]
    method: str
    datasets: tuple[ImageLevel, ...]
    models: dict[str, ArrayModel]  # by path in the store

    @classmethod
    def of(cls, image: Image, steps: list[Factors], method: str) -> MoreLevels:
        """Return the levels that follow the coarsest one of an image."""
        last = image.levels[-1]
        transforms = level_transforms(_own_transform(image), steps, method)[1:]
        taken = {dataset.path for dataset in image.multiscale.datasets}
        names = _free_names(taken, len(image.levels), len(steps))
        stated, packing = described_values(last, zero_is_missing=False)
        check_packing(method, packing)
        models: dict[str, ArrayModel] = {}
        for name, shape in zip(names, level_shapes(last.shape, steps)[1:], strict=True):
            chunks, shards = level_chunks(last.chunks, last.shards, shape)
            changed: dict[str, Any] = {"shape": shape, "chunks": chunks, "attributes": stated}
            if shards is not None:
                changed["shards"] = shards
            options: Any = options_like(last, changed)
            for key in ("shape", "dtype", "zarr_format"):
                options.pop(key, None)
            full = paths.join(image.group.path, name)
            model = array_model(last._location.format, shape, last.dtype, options)
            models[full] = model.with_(chunk_key_encoding=last._model.chunk_key_encoding)
        datasets = tuple(ImageLevel(n, t) for n, t in zip(names, transforms, strict=True))
        return cls(image, steps, method, datasets, models)

    def planned(self, number: int) -> Array:
        """Return one of the new levels as it will be."""
        path, model = [*self.models.items()][number]
        location = self.image.group._location
        return unpublished(Location(location.store, path, location.format), model)


class AddedLevels(SeveralNodes):
    """New levels of an image and its labels: arrays first, then their entries in the metadata."""

    def __init__(
        self,
        image: Image,
        several: Sequence[MoreLevels],
        operation: str,
        digest: str,
        overwrite: bool,
    ) -> None:
        self.image, self.several = image, several
        self.version = writable_version(image.version)
        location = image.group._location
        outputs = (
            HierarchyOutput(
                Location(location.store, path, location.format), {path: model},
                operation=operation, overwrite=overwrite,
                digest=key_digest(digest, node_documents(location, {path: model})),
            )
            for each in several
            for path, model in each.models.items()
        )  # fmt: skip
        super().__init__(location, outputs, operation=operation, digest=digest)

    def tasks(self, number: int, memory: int) -> Iterator[Task[Filled]]:
        """Yield the tasks of one of the new levels of each image, after the job has begun."""
        for each in self.several:
            if number < len(each.steps):
                made = [*each.models]
                finer = each.image.levels[-1] if number == 0 else self._array(made[number - 1])
                yield from level_tasks(
                    finer, self._array(made[number]), each.steps[number], each.method, memory,
                    image_packing(finer),
                )  # fmt: skip

    def _array(self, path: str) -> Array:
        output = self.outputs[path]
        return target_array(output, path, cast(ArrayModel, output.nodes[path]))

    def change(self) -> None:
        """List the arrays in the metadata of the images, when all are visible."""
        for each in self.several:
            self._list(each)

    def _list(self, more: MoreLevels) -> None:
        if not more.datasets:
            return
        multiscale = replace(more.image.multiscale, datasets=more.datasets)
        (described,) = to_json(Metadata((multiscale,)))["multiscales"]
        index = more.image.metadata.multiscales.index(more.image.multiscale)
        version = self.version.name

        def add(attributes: dict[str, Any]) -> None:
            found = find_metadata(attributes)
            members: dict[str, Any] = {} if found is None else dict(found.members)
            several = [dict(m) for m in members["multiscales"]]
            old = list(several[index]["datasets"])
            known = {d["path"] for d in old}
            several[index]["datasets"] = [
                *old, *(d for d in described["datasets"] if d["path"] not in known)
            ]  # fmt: skip
            if several[index].get("type") not in (None, more.method):
                del several[index]["type"]  # which is one method for all levels
            new = to_attributes({**members, "multiscales": several}, version, attributes)
            attributes.clear()
            attributes.update(new)

        old = more.image.group
        Group(old.store, old.path).attrs.edit(add)

    def _keys(self) -> Iterator[str]:
        for each in self.several:
            group = each.image.group._location
            yield from get_existing(group.store, group.format.keys(group.path))
        yield from super()._keys()


def _free_names(taken: set[str], first: int, count: int) -> list[str]:
    """Return names of new levels: their numbers, or the next ones that are free."""
    names: list[str] = []
    number = first
    while len(names) < count:
        if str(number) not in taken:
            names.append(str(number))
        number += 1
    return names


def _known_axes(names: Sequence[str | None]) -> str | None:
    """Return dimension names as axes of an image, or None if they are others."""
    axes = "".join(n for n in names if n is not None and n in "tczyx")
    return axes if len(axes) == len(names) else None


def describe_image(image: NewImage) -> list[str]:
    """Return lines about the levels of an image."""
    return [
        f"{paths.show(path)}: {model.shape}, {image.method if i else 'full resolution'}"
        for i, (path, model) in enumerate(image.models.items())
    ]


def node_documents(location: Location, nodes: Mapping[str, Node]) -> list[Any]:
    """Return the keys and texts of the metadata of nodes, for a digest."""
    return [
        list(pair)
        for path, node in sorted(nodes.items())
        for pair in sorted(location.format.write(path, node).items())
    ]


@takes(PyramidArguments)
def pyramid(given: PyramidArguments) -> Filled:
    """Write an array or image as an image with levels, or add levels to the image `source`.

    Returns:
        The numbers of arrays and bytes.

    Raises:
        NodeNotFound: If there is nothing at the source.
        NodeExists: If there is something at the destination.
        InvalidArgument: If the options do not fit the array.
        InvalidMetadata: If OME-Zarr does not allow such an image.

    Examples:
        >>> oz.save("cells.zarr", np.ones((64, 64)))
        >>> report = oz.pyramid("cells.zarr", "image.zarr", axes="yx", levels=2)
        >>> [level.shape for level in oz.ome.open("image.zarr").levels]
        [(64, 64), (32, 32)]
    """
    return launch(BuildPyramid, given)
