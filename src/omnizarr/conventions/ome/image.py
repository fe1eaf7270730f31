"""OME-Zarr images: their metadata, levels and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.model import (
    Axis,
    Channel,
    ImageLabel,
    Metadata,
    Multiscale,
    Transform,
    from_json,
)
from omnizarr.conventions.ome.region import axis_factor, select
from omnizarr.conventions.ome.versions import NEWEST, Stated, Version, known, newest, stated
from omnizarr.errors import InvalidMetadata, NodeNotFound, Problem, SelectionError, WrongNode, warn
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.info import Info
from omnizarr.hierarchy.location import existing_node
from omnizarr.model import paths

N = TypeVar("N", Array, Group)

# Members without which an image can still be read.
_OPTIONAL = ("omero", "image-label", "labels", "series")


@dataclass(frozen=True)
class Loaded:
    """A group, the version its metadata are in, and what they say."""

    group: Group
    version: Version
    stated_version: str
    metadata: Metadata

    def __str__(self) -> str:
        return f"{self.group.name} in {self.group.store!r}"


class Described:
    """What images, plates, wells and series have in common: a group and what it says."""

    _loaded: Loaded

    @property
    def group(self) -> Group:
        """The Zarr group."""
        return self._loaded.group

    @property
    def version(self) -> str:
        """The version of OME-Zarr that the metadata are in."""
        return self._loaded.stated_version

    @property
    def metadata(self) -> Metadata:
        """All that the group says, in the terms of the newest version."""
        return self._loaded.metadata


def load(group: Group, parent: Loaded | None = None) -> Loaded | None:
    """What a group says, or None where it is not OME-Zarr; `parent` must have the same version."""
    found = stated(group.attrs)
    if found is None:
        return None
    place = f"{group.name} in {group.store!r}"
    name = found.version or (parent.stated_version if parent else _default(found))
    try:
        version = known(name)
    except InvalidMetadata as e:
        raise InvalidMetadata(f"{place}: {e}") from None
    if parent is not None and version != parent.version:
        raise InvalidMetadata(
            f"{place} is OME-Zarr {name}, but {parent.group.name} around it is"
            f" {parent.stated_version}; one image or plate has one version"
        )
    _check_zarr(group, found, version, place)
    members = _usable(found, version, place)
    return Loaded(group, version, name, from_json(members))


def _default(found: Stated) -> str:
    return NEWEST if found.namespaced else "0.4"


def _check_zarr(group: Group, found: Stated, version: Version, place: str) -> None:
    if version.stands_on(group.zarr_format):
        return
    message = (
        f"{place}: OME-Zarr {version.name} stands on zarr {version.zarr_format},"
        f" but this is zarr {group.zarr_format}"
    )
    if found.namespaced:
        raise InvalidMetadata(message)
    warn(f"{message}; it is read all the same")


def _usable(found: Stated, version: Version, place: str) -> dict[str, object]:
    """The members in the newest shape; those with errors are told and put aside, or raise."""
    members = newest(found.members, version)
    bad: list[Problem] = []
    for problem in check(found, ""):
        unusable = "entries, but there are" in problem.message
        if problem.level != "error" and not unusable:
            continue
        member = problem.field.removeprefix(found.field).partition("[")[0].partition(".")[0]
        if member in _OPTIONAL:
            warn(f"{place}: {problem}")
            members = {k: v for k, v in members.items() if k != member}
        elif member != "version" and problem.field != found.field.rstrip("."):
            bad.append(Problem(problem.key, problem.field, problem.message))
    if bad:
        raise InvalidMetadata.of(bad, f"{place} is not valid OME-Zarr {version.name}")
    return members


def member(parent: Loaded, path: str, kind: type[N]) -> N:
    """An array or group below an OME-Zarr group, in the same format of Zarr."""
    try:
        found = parent.group[path]
    except NodeNotFound as e:
        place = paths.join(parent.group.path, paths.normalize(path))
        other = existing_node(parent.group.store, place)
        if other is None:
            raise
        raise InvalidMetadata(
            f"{paths.show(place)} is zarr {other[0].name}, but {parent.group.name} around it is"
            f" zarr {parent.group.zarr_format}; one image or plate has one version of Zarr"
        ) from e
    if not isinstance(found, kind):
        raise WrongNode(f"{found.name} in {found.store!r} is not the {kind.__name__.lower()}"
                        f" that {parent.group.name} says it is")  # fmt: skip
    return found


Unit = str | Mapping[str, str] | None


class Image(Described):
    """An image at several resolutions; nothing is read until it is asked for."""

    def __init__(self, loaded: Loaded, multiscale: int | str = 0) -> None:
        self._loaded = loaded
        self.multiscale = _choose(loaded, multiscale)

    # What it is

    @property
    def name(self) -> str | None:
        """The name of the image, where one is stated."""
        return self.multiscale.name

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, in the order of the arrays."""
        return self.multiscale.axes

    @cached_property
    def levels(self) -> tuple[Array, ...]:
        """The arrays, the finest first."""
        found = tuple(member(self._loaded, d.path, Array) for d in self.multiscale.datasets)
        for array in found:
            if array.ndim != len(self.axes):
                names = " ".join(a.name for a in self.axes)
                raise InvalidMetadata(
                    f"{array.name} in {array.store!r} has {array.ndim} axes, but"
                    f" {self.group.name} says that they are: {names}"
                )
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the finest level."""
        return self.levels[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the pixels."""
        return self.levels[0].dtype

    def transform(self, level: int = 0) -> Transform:
        """Where the pixels of a level lie, in the axes' units.

        Versions before 0.4 state no scale: there it is 1, times what a level is smaller.
        """
        own = self.multiscale.datasets[level].transform
        if own is None:
            sizes = zip(self.shape, self.levels[level].shape, strict=True)
            own = Transform(tuple(n / m if m else 1.0 for n, m in sizes))
        shared = self.multiscale.transform
        return own if shared is None else shared.after(own)

    @property
    def scale(self) -> tuple[float, ...]:
        """The size of a pixel of the finest level along each axis, in the axes' units."""
        return self.transform().scale

    @property
    def channels(self) -> tuple[Channel, ...]:
        """How to show each channel, where that is stated."""
        return () if self.metadata.omero is None else self.metadata.omero.channels

    @property
    def label(self) -> ImageLabel | None:
        """What the values mean, where this is a label image."""
        return self.metadata.image_label

    @cached_property
    def labels(self) -> Labels:
        """Label images of this image by name; empty where there are none."""
        try:
            group = member(self._loaded, "labels", Group)
        except NodeNotFound:
            return Labels(None)
        return Labels(load(group, self._loaded))

    # Reading

    def level_for(self, scale: float | Mapping[str, float], unit: Unit = None) -> int:
        """The coarsest level whose pixels are at most as large as `scale`; 0 where none is.

        A number is for all axes of space.
        """
        if isinstance(scale, Mapping):
            wanted = dict(scale)
        else:
            wanted = {a.name: scale for a in self.axes if a.type == "space"}
        unknown = sorted(wanted.keys() - {a.name for a in self.axes})
        if unknown:
            names = ", ".join(a.name for a in self.axes)
            raise SelectionError(f"there is no axis {unknown[0]!r}; axes: {names}")
        limits = {
            i: wanted[a.name] * axis_factor(a, unit) * (1 + 1e-9)
            for i, a in enumerate(self.axes)
            if a.name in wanted
        }
        chosen = 0
        for level in range(len(self.multiscale.datasets)):
            sizes = self.transform(level).scale
            if all(sizes[i] <= limit for i, limit in limits.items()):
                chosen = level
        return chosen

    def selection(
        self, region: Mapping[str, Any], *, level: int = 0, unit: Unit = None
    ) -> tuple[slice | int, ...]:
        """The pixels of a level that lie in a region, as `read` takes it."""
        labels = [c.label for c in self.channels]
        shape = self.levels[level].shape
        return select(self.axes, shape, self.transform(level), region, unit, labels)

    def read(
        self,
        region: Mapping[str, Any] | None = None,
        *,
        unit: Unit = None,
        level: int = 0,
        scale: float | Mapping[str, float] | None = None,
    ) -> Any:
        """The pixels of a region as a NumPy array.

        >>> image.read({"c": "DAPI", "y": (10, 50), "x": (10, 50)}, unit="micrometer")

        For each axis `region` has an interval ``(start, stop)`` or one position, which drops the
        axis; both in `unit`, or in the axis' own. Channels go by number or label, and a slice
        counts pixels. `scale` chooses the level by the size of its pixels, as `level_for` does.
        """
        if scale is not None:
            level = self.level_for(scale, unit)
        return self.levels[level][self.selection(region or {}, level=level, unit=unit)]

    # Looking at it

    def _sizes(self) -> str:
        parts = (f"{a.name} {n}" for a, n in zip(self.axes, self.shape, strict=True))
        return ", ".join(parts)

    def _pixel(self, level: int) -> str:
        parts = zip(self.axes, self.transform(level).scale, strict=True)
        return ", ".join(
            f"{a.name} {s:g}{' ' + a.unit if a.unit else ''}"
            for a, s in parts
            if a.type != "channel"
        )

    def __repr__(self) -> str:
        count = len(self.multiscale.datasets)
        parts = [
            f"<Image {self.name or self.group.name}",
            f"OME-Zarr {self.version}",
            f"{self.dtype} ({self._sizes()})",
            f"pixel ({self._pixel(0)})",
            f"{count} level{'s' if count > 1 else ''}",
        ]
        if self.channels:
            parts.append(f"channels {', '.join(c.label or '?' for c in self.channels)}")
        if len(self.labels):
            parts.append(f"labels {', '.join(self.labels)}")
        return "  ".join(parts) + f"  on {self.group.store!r}>"

    @property
    def info(self) -> Info:
        """A summary."""
        info = Info()
        info["type"] = f"OME-Zarr {self.version} image, zarr version {self.group.zarr_format}"
        info["path"] = f"{self.group.name} in {self.group.store!r}"
        if self.name:
            info["name"] = self.name
        info["data type"] = str(self.dtype)
        for i, array in enumerate(self.levels):
            inner = "" if array.shards is None else f" in shards {array.shards}"
            sizes = f"{array.shape}, pixel {self._pixel(i)}, chunks {array.chunks}{inner}"
            info[f"level {i}"] = f"{self.multiscale.datasets[i].path}: {sizes}"
        if self.channels:
            info["channels"] = ", ".join(f"{c.label or '?'} #{c.color}" for c in self.channels)
        if len(self.labels):
            info["labels"] = ", ".join(self.labels)
        if self.label is not None:
            info["label values"] = f"{len(self.label.colors)} have colours"
        others = [m.name or "?" for m in self.metadata.multiscales if m is not self.multiscale]
        if others:
            info["other multiscales"] = ", ".join(others)
        return info


class Labels(Mapping[str, Image]):
    """The label images of an image by name."""

    def __init__(self, loaded: Loaded | None) -> None:
        self._loaded = loaded
        self._names = () if loaded is None else loaded.metadata.labels or ()

    def __getitem__(self, name: str) -> Image:
        if self._loaded is None or name not in self._names:
            names = ", ".join(self._names) or "none"
            raise NodeNotFound(f"there are no labels {name!r}; there are: {names}")
        return image_at(self._loaded, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Labels {', '.join(self._names) or 'none'}>"


def _choose(loaded: Loaded, which: int | str) -> Multiscale:
    several = loaded.metadata.multiscales
    if not several:
        raise WrongNode(f"{loaded} is not an image: it has no multiscales")
    if isinstance(which, int):
        if not -len(several) <= which < len(several):
            raise SelectionError(f"{loaded} has {len(several)} multiscales; there is no {which}")
        return several[which]
    for multiscale in several:
        if multiscale.name == which:
            return multiscale
    names = ", ".join(repr(m.name) for m in several)
    raise SelectionError(f"{loaded} has no multiscale {which!r}; there are: {names}")


def image_at(parent: Loaded, path: str) -> Image:
    """The image at a path below a plate, well or series, of the same version."""
    group = member(parent, path, Group)
    loaded = load(group, parent)
    if loaded is None:
        raise InvalidMetadata(
            f"{paths.show(group.path)} in {group.store!r} has no OME-Zarr metadata, but"
            f" {parent.group.name} says that it is an image"
        )
    return Image(loaded)
