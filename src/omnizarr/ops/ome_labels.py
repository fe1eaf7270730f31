"""Writing the label images of an OME-Zarr image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from omnizarr import stores
from omnizarr._version import VERSION
from omnizarr.conventions.ome.image import Image
from omnizarr.conventions.ome.model import (
    Axis,
    Dataset,
    ImageLabel,
    Metadata,
    Multiscale,
    Transform,
)
from omnizarr.conventions.ome.open import open as open_ome
from omnizarr.conventions.ome.versions import attributes_of, stated, writable
from omnizarr.errors import InvalidMetadata, WrongNode
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.options import ArrayOptions
from omnizarr.hierarchy.signatures import shows
from omnizarr.model import paths
from omnizarr.ops.ome_levels import Factors, image_axes, level_transforms
from omnizarr.ops.ome_write import open_source, write_levels
from omnizarr.ops.pyramid import Progress
from omnizarr.stores.resolve import options_for_two

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
        raise InvalidMetadata(
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
        raise InvalidMetadata(f"the labels have {rank} axes, the image has {names}; give axes=")
    by_name = {a.name: a for a in image.axes}
    asked = [a.name for a in image_axes(axes, rank, None)]
    for name in asked:
        if name not in by_name:
            raise InvalidMetadata(f"the image has no axis {name!r}; axes: {', '.join(by_name)}")
    return tuple(by_name[name] for name in asked)


def _steps(image: Image, axes: Sequence[Axis], shape: Sequence[int]) -> list[Factors]:
    """The factors between the image's levels, along the labels' axes."""
    places = [image.axes.index(a) for a in axes]
    scales = [image.transform(i).scale for i in range(len(image.multiscale.datasets))]
    for axis, place, n in zip(axes, places, shape, strict=True):
        if n not in (1, image.shape[place]):
            raise InvalidMetadata(
                f"the labels have length {n} along {axis.name!r}, the image {image.shape[place]};"
                " it must be the same, or 1"
            )
    return [tuple(max(1, round(b[p] / a[p])) for p in places) for a, b in pairwise(scales)]


def _rgba(color: Sequence[int]) -> Rgba:
    if len(color) != 4:
        raise InvalidMetadata(f"a label's colour has four numbers from 0 to 255, got {color!r}")
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
