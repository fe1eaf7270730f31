"""Jobs that write images: first the finest level, then each level from the next finer level.

Each level is a phase of tasks over boxes of whole chunks, so that they run anywhere, and an
interrupted job is resumed. `BuildPyramid` makes an image from an array, or adds coarser levels to
an image that has too few; the image keeps its old levels until the new ones are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Any, cast

from omnizarr import Array, Group
from omnizarr.bulk.job import Job, Phase, Plan, launch, memory_of, store_options
from omnizarr.bulk.journal import Task
from omnizarr.bulk.options import RunOptions, WriteOptions, option, takes, told
from omnizarr.bulk.output import HierarchyOutput, SeveralNodes
from omnizarr.bulk.pyramid import (
    NAMES,
    check_method,
    check_packing,
    level_boxes,
    level_chunks,
    level_shapes,
    level_tasks,
)
from omnizarr.bulk.source_keys import source_state
from omnizarr.bulk.transfer import ArraySource, Filled, cut, fill_tasks, items_for, target_array
from omnizarr.conventions.cf.packing import Packing
from omnizarr.conventions.cf.variable import described_values, plain_attributes
from omnizarr.conventions.ome import levels, versions
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.image import open as open_ome
from omnizarr.conventions.ome.model import ImageLevel, Metadata, Transform, to_json
from omnizarr.conventions.ome.write import open_source
from omnizarr.errors import InvalidArgument, NodeNotFound
from omnizarr.extension import (
    ArrayModel,
    GroupModel,
    Location,
    Node,
    array_model,
    check_whole,
    existing_node,
    key_digest,
    location_of,
    new_location,
    options_like,
    paths,
    portable_key,
    resolve_store_path,
    stores,
    unpublished,
)


class ImageOutput(HierarchyOutput):
    """The nodes of a job among which are images; display windows are found at the end."""

    images: Sequence[levels.NewImage] = ()

    def finish(self) -> None:
        """Store the value range of each channel with the image, and make everything visible."""
        for image in self.images:
            if image.metadata.omero is None:
                continue
            coarsest = target_array(self, *[*image.models.items()][-1])
            location = self._begun.location.at(image.path)
            group = Group.at(location, location.load())
            group.attrs.update(image.attributes(coarsest))
        super().finish()


def level_phases(
    several: Sequence[levels.NewImage | MoreLevels],
    output: HierarchyOutput | SeveralNodes,
    memory: int,
    existing: int = 1,
) -> list[Phase[Filled]]:
    """Return one phase for each new level; it writes that level of all images.

    `existing` levels are there before, or are written in other phases.
    """

    def described(each: levels.NewImage | MoreLevels, number: int) -> tuple[str, ArrayModel]:
        """Return the path and the model of the result of a step, counted from 1."""
        return [*each.models.items()][number - 1 - len(each.steps)]

    def stored(each: levels.NewImage | MoreLevels, number: int) -> Array:
        if number == 0 and isinstance(each, MoreLevels):
            return each.image.levels[-1]
        path, model = described(each, number)
        whole = output.outputs[path] if isinstance(output, SeveralNodes) else output
        return target_array(whole, path, model)

    def tasks(number: int) -> Iterator[Task[Filled]]:
        for each in several:
            if number <= len(each.steps):
                finer, coarser = stored(each, number - 1), stored(each, number)
                step, packing = each.steps[number - 1], image_packing(finer)
                yield from level_tasks(finer, coarser, step, each.method, memory, packing)

    phases = []
    for number in range(1, max((len(each.steps) for each in several), default=0) + 1):
        total = size = 0
        for each in (each for each in several if number <= len(each.steps)):
            path, model = described(each, number)
            array = unpublished(output.location.at(path), model)
            step, packing = each.steps[number - 1], image_packing(array)
            total += level_boxes(array, step, each.method, memory, packing).count
            size += array.nbytes
        name = f"level {existing - 1 + number}"
        phases.append(Phase(name, partial(tasks, number), total, size, bytes_written=size))
    return phases


def image_packing(level: Array) -> Packing:
    """Return what the numbers of a level of an image mean."""
    return described_values(level, zero_is_missing=False)[1]


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
        None, "Downsampling method; by default as in the image, or ``mean``."
    )
    zarr_format: int | str | None = option(
        None, "The Zarr version to write; by default as in the hierarchy, or 3."
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
        here, there = store_options(self)
        given = self.source
        if self.destination is None and not hasattr(given, "multiscale"):
            store, path = resolve_store_path(given, None, "r+", here)
            found = existing_node(store, path)
            if found is None:
                raise NodeNotFound(f"there is no image at {self.source!r}")
            is_group = isinstance(found[1], GroupModel)
            given = open_ome(store, path=path) if is_group else Array(store, path)
        source, image = open_source(given, here)
        if not isinstance(source, Array):
            raise InvalidArgument(f"the source must be a Zarr array or image, got {source!r}")
        check_whole(source.store, source.path if image is None else image.group.path)
        if self.destination is not None:
            return self._plan_new(source, image, there, memory)
        if image is not None:
            return self._plan_added(image, memory)
        raise InvalidArgument(
            f"{source.name} is an array, not an image with levels to add to; give a destination"
        )

    def _plan_new(
        self, source: Array, image: Image | None, options: Mapping[str, Any] | None, memory: int
    ) -> Plan[Filled]:
        store = stores.resolve(self.destination, storage_options=options)
        stores.check_disjoint(source.store, store, "; leave the destination out to add levels")
        wanted = self.zarr_format
        old = None if image is None else image.group.zarr_format
        if wanted is None and old is not None and versions.version_on(old) is not None:
            wanted = old
        location = new_location(store, self.path, wanted)
        names = "".join(n or "?" for n in source.dimension_names or ())
        known = image is None and len(names) == source.ndim and {*names} <= {*"tczyx"}
        own = names if known and names else None
        described = {
            "axes": self.axes or own, "scale": self.scale, "unit": self.unit, "levels": self.levels,
            "factors": self.factors, "method": check_method(self.method or "mean"),
            "name": (image.name if image is not None else None)
            or levels.image_name(self.destination, self.path),
        }  # fmt: skip
        images = levels.plan_images(location, source, image, cast(Any, self.options), described)
        stated = described_values(source, zero_is_missing=False)[0]
        skipped = {
            f"attribute {name}": "an image has no place on the Earth; write a map with geo.write"
            for name in plain_attributes(source.attrs)
            if name not in stated
        }
        if image is not None:
            skipped |= dict.fromkeys(levels.other_members(image), "it is not part of the image")
        nodes = images[0].nodes() | levels.labels_nodes(image, images)
        for each in images[1:]:
            nodes |= each.nodes()
        operation = f"write {source.name} of {source.store!r} as an image to {location}"
        digest = key_digest(
            operation, portable_key(source.store), source.path, images[0].method,
            source_state(source.store, source.path), node_documents(location, nodes),
        )  # fmt: skip
        output = ImageOutput(
            location, nodes, operation=operation, digest=digest, overwrite=self.overwrite
        )
        output.images = images
        finest = [
            (image.source, next(iter(image.models.items())), items_for(memory, image.dtype))
            for image in images
        ]

        def copy() -> Iterator[Task[Filled]]:
            for array, first, items in finest:
                yield from fill_tasks(ArraySource(array), target_array(output, *first), items)

        count = sum(
            cut(unpublished(location.at(path), model), items).count
            for _, (path, model), items in finest
        )
        size = sum(array.nbytes for array, _, _ in finest)
        arrays = sum(isinstance(node, ArrayModel) for node in nodes.values())
        first = Phase("level 0", copy, count, size, bytes_read=size)
        decisions = [line for each in images for line in describe_image(each)]
        decisions += [f"left out: {name}: {reason}" for name, reason in skipped.items()]
        phases = [first, *level_phases(images, output, memory)]
        done = Filled(arrays=arrays, groups=len(nodes) - arrays, skipped=skipped)
        return Plan(operation, digest, phases, done, output, decisions, memory_of(self.memory, 1))

    def _plan_added(self, image: Image, memory: int) -> Plan[Filled]:
        have, group = len(image.levels), image.group
        wanted = None if self.levels is None else max(1, self.levels - have + 1)
        last = image.levels[-1]
        steps = levels.level_factors(
            last.shape, image.axes, _own_transform(image).scale, wanted, self.factors
        )
        old = image.multiscale.type
        method = check_method(self.method or (old if old in NAMES else None) or "mean")
        several = [MoreLevels.of(image, steps, method)]
        every = [*levels.step_ratios(image), *steps]
        names = [axis.name for axis in image.axes]
        for labels in image.labels.values():  # which have as many levels as their image
            chosen = [names.index(axis.name) for axis in labels.axes]
            own = [tuple(s[i] for i in chosen) for s in every[len(labels.levels) - 1 :]]
            several.append(MoreLevels.of(labels, own, levels.labels_method(labels)))
        operation = f"add {len(steps)} levels to {group.name} of {group.store!r}"
        digest = key_digest(  # the same when some of the levels are listed already
            "add levels", portable_key(group.store), group.path, self.levels, str(self.factors),
            method, [source_state(group.store, each.image.levels[0].path) for each in several],
        )  # fmt: skip
        output = added_levels(image, several, operation, digest, self.overwrite)
        phases = level_phases(several, output, memory, have)
        decisions = [
            f"{paths.show(path)}: {model.shape}, {each.method}"
            for each in several
            for path, model in each.models.items()
        ] or [f"the image has {have} levels already, down to {last.shape}"]
        done = Filled(arrays=len(output.outputs))
        return Plan(operation, digest, phases, done, output, decisions, memory_of(self.memory, 1))


def _own_transform(image: Image) -> Transform:
    """Return the coarsest level's own transform, without the transform that all levels share."""
    return image.multiscale.datasets[-1].transform or image.transform(len(image.levels) - 1)


@dataclass(frozen=True)
class MoreLevels:
    """New levels of an image, or of labels, that exist."""

    image: Image
    steps: list[levels.Factors]
    method: str
    datasets: tuple[ImageLevel, ...]
    models: dict[str, ArrayModel]  # by path in the store

    @classmethod
    def of(cls, image: Image, steps: list[levels.Factors], method: str) -> MoreLevels:
        """Return the new levels that follow an image's coarsest level."""
        last = image.levels[-1]
        transforms = levels.level_transforms(_own_transform(image), steps, method)[1:]
        taken = {dataset.path for dataset in image.multiscale.datasets}
        free = (str(n) for n in count(len(image.levels)) if str(n) not in taken)
        names = [*islice(free, len(steps))]
        stated, packing = described_values(last, zero_is_missing=False)
        check_packing(method, packing)
        models: dict[str, ArrayModel] = {}
        for name, shape in zip(names, level_shapes(last.shape, steps)[1:], strict=True):
            options: Any = options_like(last, {"attributes": stated, **level_chunks(last, shape)})
            model = array_model(location_of(last).format, shape, last.dtype, options)
            models[paths.join(image.group.path, name)] = model.with_(
                chunk_key_encoding=last.metadata.chunk_key_encoding
            )
        datasets = tuple(ImageLevel(n, t) for n, t in zip(names, transforms, strict=True))
        return cls(image, steps, method, datasets, models)


def added_levels(
    image: Image, several: Sequence[MoreLevels], operation: str, digest: str, overwrite: bool
) -> SeveralNodes:
    """Return the output of new levels of an image and its labels: arrays, then their entries."""
    location = location_of(image.group)
    outputs = {
        path: HierarchyOutput(
            Location(location.store, path, location.format), {path: model},
            operation=operation, overwrite=overwrite,
            digest=key_digest(digest, node_documents(location, {path: model})),
        )
        for each in several
        for path, model in each.models.items()
    }  # fmt: skip
    change = partial(_list_all, several, versions.writable_version(image.version))
    return SeveralNodes(location, outputs, operation=operation, digest=digest, change=change)


def _list_all(several: Sequence[MoreLevels], version: versions.Version) -> None:
    """List new arrays in the metadata of their images, when all are visible."""
    for each in several:
        if each.datasets:
            versions.edit_members(
                Group(each.image.store, each.image.path), version, partial(_list_levels, each)
            )


def _list_levels(more: MoreLevels, members: dict[str, Any]) -> None:
    """Add new levels to the members of an image."""
    multiscale = replace(more.image.multiscale, datasets=more.datasets)
    (described,) = to_json(Metadata((multiscale,)))["multiscales"]
    index = more.image.metadata.multiscales.index(more.image.multiscale)
    several = [dict(m) for m in members["multiscales"]]
    old = list(several[index]["datasets"])
    known = {d["path"] for d in old}
    new = (d for d in described["datasets"] if d["path"] not in known)
    several[index]["datasets"] = [*old, *new]
    if several[index].get("type") not in (None, more.method):
        del several[index]["type"]  # which is one method for all levels
    members["multiscales"] = several


def describe_image(image: levels.NewImage) -> list[str]:
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
