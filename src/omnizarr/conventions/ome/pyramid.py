"""Jobs that write images: first the finest level, then each coarser one from the one before it.

Each level is a stage of tasks over boxes of whole chunks, so that they run anywhere, and an
interrupted job is resumed. `BuildPyramid` makes an image from an array, or adds coarser levels to
an image that has too few; the image keeps its old levels until the new ones are complete.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from omnizarr import config, stores
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.levels import (
    Factors,
    level_factors,
    level_transforms,
    per_axis,
    with_windows,
)
from omnizarr.conventions.ome.model import Axis, Dataset, Metadata, to_json
from omnizarr.conventions.ome.plate import open as open_ome
from omnizarr.conventions.ome.versions import (
    Version,
    find_metadata,
    to_attributes,
    version_on,
    writable_version,
)
from omnizarr.conventions.ome.write import (
    check_attributes,
    check_method,
    image_attributes,
    image_name,
    level_options,
    new_metadata,
    open_source,
    with_separator,
)
from omnizarr.errors import CannotExpress, InvalidArgument, NodeNotFound
from omnizarr.hierarchy.array import Array, options_like, unpublished
from omnizarr.hierarchy.create import new_location
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.lookup import resolve_store_path
from omnizarr.hierarchy.options import ArrayOptions, array_model
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.ops.fill import (
    ArraySource,
    Filled,
    box_count,
    fill_tasks,
    items_for,
    target_array,
)
from omnizarr.ops.job import MEMORY, Job, Plan, Stage, Task, launch, memory_of
from omnizarr.ops.output import HierarchyOutput, SeveralNodes
from omnizarr.ops.pyramid import NAMES, level_chunks, level_shapes, level_task_count, level_tasks
from omnizarr.ops.source_keys import source_state
from omnizarr.stores import check_disjoint, get_existing
from omnizarr.stores.identity import key_digest, portable_key
from omnizarr.stores.resolve import options_for_two


@dataclass(frozen=True)
class NewImage:
    """An image to be written: its metadata, and the model of the array of each level."""

    path: str
    version: Version
    metadata: Metadata
    steps: tuple[Factors, ...]
    models: dict[str, ArrayModel]  # by path in the store, the finest first
    dtype: np.dtype[Any]

    @property
    def method(self) -> str:
        """The method of downsampling."""
        return self.metadata.multiscales[0].type or "mean"

    def nodes(self) -> dict[str, Node]:
        """Return the group and the arrays by path in the store."""
        attributes = image_attributes(with_windows(self.metadata, self.dtype), self.version)
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
    version = version_on(location.format.name)
    if version is None:
        raise CannotExpress(
            f"OME-Zarr needs zarr 2 or 3, not {location.format.name}; give zarr_format=3"
        )
    defaults = dict.fromkeys(("axes", "scale", "translation", "unit", "levels", "factors",
                              "names", "channels"))  # fmt: skip
    metadata, steps = new_metadata(
        shape, **{**defaults, "method": "mean", "name": paths.name(path) or "image", **described}
    )
    attributes = image_attributes(with_windows(metadata, dtype), version)
    check_attributes(attributes, f"the image {paths.show(path)}")
    (multiscale,) = metadata.multiscales
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
                arrays = made(image)
                yield from level_tasks(
                    arrays[level - 1], arrays[level], image.steps[level - 1], image.method, memory
                )

    stages = []
    for level in range(1, max((len(image.steps) for image in images), default=0) + 1):
        count = size = 0
        for image in images:
            if level <= len(image.steps):
                array = image.arrays(lambda path, model: planned_array(output, path, model))[level]
                count += level_task_count(array, image.steps[level - 1], image.method, memory)
                size += array.nbytes
        name = f"level {level}"
        stages.append(Stage(name, partial(tasks, level), count, size, bytes_written=size))
    return stages


def planned_array(output: HierarchyOutput, path: str, model: ArrayModel) -> Array:
    """Return an array of a job's output as it will be."""
    return unpublished(Location(output.location.store, path, output.location.format), model)


@dataclass(frozen=True)
class BuildPyramid(Job[Filled]):
    """Write an array or an image as an image with levels, or add levels to an image.

    Attributes:
        source: A path, URL, store, array or image.
        destination: A path, URL or store for a new image; None to add coarser levels to the image
            `source`.
        path: The path of the node in the source.
        axes: The axes, as in `ome.write`.
        scale: The size of a pixel, as in `ome.write`.
        unit: The unit, as in `ome.write`.
        levels: The number of levels; by default until the image is small.
        factors: The downsampling factors, as in `ome.write`.
        method: The method of downsampling, as in `ome.write`.
        zarr_format: 1, 2, 3 or ``"3-draft"``; by default that of the hierarchy, or version 3.
        overwrite: True to replace an existing node.
        memory: The bytes that may be held in memory at a time, such as ``"512MB"``.
        storage_options: Options for the stores of URLs, such as credentials.
        destination_options: Options for the store of the destination, instead of `storage_options`.
        options: Options of `create_array`.

    Examples:
        >>> oz.save("cells.zarr", np.ones((64, 64)))
        >>> report = oz.run(oz.jobs.BuildPyramid("cells.zarr", "image.zarr", axes="yx", levels=2))
        >>> len(oz.ome.open("image.zarr").levels)
        2
    """

    source: Any
    destination: Any = None
    path: str | None = None
    axes: Any = None
    scale: Any = None
    unit: Any = None
    levels: int | None = None
    factors: Any = None
    method: str | None = None
    zarr_format: int | str | None = None
    overwrite: bool = False
    memory: int | str | None = None
    storage_options: Mapping[str, Any] | None = None
    destination_options: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

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
        new = plan_image(location, location.path, source.shape, source.dtype, given, described)
        operation = f"write {source.name} of {source.store!r} as an image to {location}"
        digest = key_digest(
            operation, portable_key(source.store), source.path, new.method,
            source_state(source.store, source.path),
            node_documents(location, new.nodes()),
        )  # fmt: skip
        output = ImageOutput(
            location, new.nodes(), operation=operation, digest=digest, overwrite=self.overwrite
        )
        output.images = [new]
        first = next(iter(new.models.items()))
        items = items_for(memory, source.dtype)

        def copy() -> Iterator[Task[Filled]]:
            return fill_tasks(ArraySource(source), target_array(output, *first), items)

        count = box_count(planned_array(output, *first), items)
        stage = Stage("level 0", copy, count, source.nbytes, bytes_read=source.nbytes)
        return Plan(
            operation,
            digest,
            [stage, *level_stages([new], output, memory)],
            Filled(arrays=len(new.models), groups=1),
            output,
            describe_image(new),
            config.byte_size(self.memory or MEMORY, "memory"),
        )

    def _plan_added(self, image: Image, memory: int) -> Plan[Filled]:
        last = image.levels[-1]
        version = writable_version(image.version)
        have = len(image.levels)
        wanted = None if self.levels is None else max(1, self.levels - have + 1)
        own = image.multiscale.datasets[-1].transform or image.transform(have - 1)
        steps = level_factors(last.shape, image.axes, own.scale, wanted, self.factors)
        old = image.multiscale.type
        method = check_method(self.method or (old if old in NAMES else None) or "mean")
        transforms = level_transforms(own, steps, method)[1:]
        taken = {d.path for d in image.multiscale.datasets}
        names = _free_names(taken, have, len(steps))
        location = last._location
        group = image.group
        operation = f"add {len(steps)} levels to {group.name} of {group.store!r}"
        models: dict[str, ArrayModel] = {}
        for name, shape in zip(names, level_shapes(last.shape, steps)[1:], strict=True):
            chunks, shards = level_chunks(last.chunks, last.shards, shape)
            changed: dict[str, Any] = {"shape": shape, "chunks": chunks}
            if shards is not None:
                changed["shards"] = shards
            options: Any = options_like(last, changed)
            for key in ("shape", "dtype", "zarr_format"):
                options.pop(key, None)
            full = paths.join(group.path, name)
            model = array_model(location.format, shape, last.dtype, options)
            models[full] = model.with_(chunk_key_encoding=last._model.chunk_key_encoding)
        digest = key_digest(  # the same when some of the levels are listed already
            "add levels", portable_key(group.store), group.path, self.levels, str(self.factors),
            method, source_state(group.store, image.levels[0].path),
        )  # fmt: skip
        datasets = tuple(Dataset(n, t) for n, t in zip(names, transforms, strict=True))
        output = AddedLevels(image, version, datasets, models, operation, digest, self.overwrite)
        stages: list[Stage[Filled]] = []
        for number, (path, model) in enumerate(models.items()):
            coarser = unpublished(Location(location.store, path, location.format), model)
            count = level_task_count(coarser, steps[number], method, memory)
            tasks = partial(output.tasks, number, steps[number], method, memory)
            name, size = f"level {have + number}", coarser.nbytes
            stages.append(Stage(name, tasks, count, size, bytes_written=size))
        decisions = [f"{paths.show(p)}: {m.shape}, {method}" for p, m in models.items()]
        if not models:
            decisions = [f"the image has {have} levels already, down to {last.shape}"]
        return Plan(
            operation, digest, stages, Filled(arrays=len(models)), output, decisions,
            config.byte_size(self.memory or MEMORY, "memory"),
        )  # fmt: skip


class AddedLevels(SeveralNodes):
    """New levels of an image that exists: arrays first, then their entries in its metadata."""

    def __init__(
        self,
        image: Image,
        version: Version,
        datasets: tuple[Dataset, ...],
        models: Mapping[str, ArrayModel],
        operation: str,
        digest: str,
        overwrite: bool,
    ) -> None:
        self.image, self.version, self.datasets = image, version, datasets
        location = image.group._location
        outputs = (
            HierarchyOutput(
                Location(location.store, path, location.format), {path: model},
                operation=operation, overwrite=overwrite,
                digest=key_digest(digest, node_documents(location, {path: model})),
            )
            for path, model in models.items()
        )  # fmt: skip
        super().__init__(location, outputs, operation=operation, digest=digest)

    def tasks(self, number: int, step: Factors, method: str, memory: int) -> Iterator[Task[Filled]]:
        """Yield the tasks of one of the new levels, after the job has begun."""
        finer = self.image.levels[-1] if number == 0 else self._array(number - 1)
        return level_tasks(finer, self._array(number), step, method, memory)

    def _array(self, number: int) -> Array:
        output = [*self.outputs.values()][number]
        ((path, model),) = output.nodes.items()
        return target_array(output, path, cast(ArrayModel, model))

    def change(self) -> None:
        """List the arrays in the metadata of the image, when all are visible."""
        if not self.datasets:
            return
        multiscale = replace(self.image.multiscale, datasets=self.datasets)
        (described,) = to_json(Metadata((multiscale,)))["multiscales"]
        index = self.image.metadata.multiscales.index(self.image.multiscale)
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
            new = to_attributes({**members, "multiscales": several}, version, attributes)
            attributes.clear()
            attributes.update(new)

        old = self.image.group
        Group(old.store, old.path).attrs.edit(add)

    def _keys(self) -> Iterator[str]:
        group = self.image.group._location
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


def pyramid(source: Any, destination: Any = None, **options: Any) -> Filled:
    """Write an array or image as an image with levels, or add levels to the image `source`.

    Args:
        source: A path, URL, store, array or image.
        destination: A path, URL or store for a new image; None to add levels to `source`.
        **options: Fields of `jobs.BuildPyramid`, such as `levels` and `method`, and options of
            `run`.

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
    return launch(BuildPyramid, source, destination, **options)
