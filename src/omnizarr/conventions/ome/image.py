"""OME-Zarr images with their levels and labels, and the loading of any group's metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from omnizarr import Array, Group, registry
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
from omnizarr.conventions.ome.rules import check
from omnizarr.conventions.ome.versions import (
    RawMetadata,
    Version,
    find_metadata,
    get_version,
    upgrade,
)
from omnizarr.errors import InvalidMetadata, NodeNotFound, Problem, SelectionError, WrongNode, warn
from omnizarr.extension import Info, Store, attributes_section, card, existing_node, paths, title

N = TypeVar("N", Array, Group)
M = TypeVar("M")
Unit = str | Mapping[str, str] | None

# Members without which an image can still be read.
_OPTIONAL = ("omero", "image-label", "labels", "series")


@dataclass(frozen=True)
class Loaded:
    """A group with its OME-Zarr metadata and their version."""

    group: Group
    version: Version
    version_name: str
    metadata: Metadata

    def __str__(self) -> str:
        return f"{self.group.name} in {self.group.store!r}"


class OmeGroup:
    """A Zarr group with OME-Zarr metadata: the parent class of images, plates, wells, series.

    It has a store and a path, so functions that take a group take it, too.
    """

    _loaded: Loaded

    @property
    def group(self) -> Group:
        """The Zarr group."""
        return self._loaded.group

    @property
    def store(self) -> Store:
        """The store of the group."""
        return self.group.store

    @property
    def path(self) -> str:
        """The path of the group in its store."""
        return self.group.path

    @property
    def version(self) -> str:
        """The OME-Zarr version of the metadata."""
        return self._loaded.version_name

    @property
    def metadata(self) -> Metadata:
        """All metadata of the group, in the form of the newest version."""
        return self._loaded.metadata

    def _repr_html_(self) -> str:
        kind = f"OME-Zarr {self.version} {type(self).__name__.lower()}"
        title = f"{self.group.name} in {self.group.store!r}  ·  {kind}"
        return card(title, self._rows(), folded=attributes_section(self.group.attrs.asdict()))

    def _rows(self) -> dict[str, str]:
        """Return what notebooks show besides the attributes."""
        return {}


def load(group: Group, parent: Loaded | None = None) -> Loaded | None:
    """Load the metadata of a group, or return None if it is not OME-Zarr.

    The version must be that of `parent`.
    """
    found = find_metadata(group.attrs)
    if found is None:
        return None
    where = f"{group.name} in {group.store!r}"
    name = found.version or (parent.version_name if parent else found.implied_version.name)
    try:
        version = get_version(name)
    except InvalidMetadata as e:
        raise InvalidMetadata(f"{where}: {e}") from None
    if parent is not None and version != parent.version:
        raise InvalidMetadata(
            f"{where} is OME-Zarr {name}, but its parent {parent.group.name} is"
            f" {parent.version_name}; an image or plate must have a single version"
        )
    _check_zarr(group, found, version, where)
    members = _valid_members(found, version, where)
    return Loaded(group, version, name, from_json(members))


def _check_zarr(group: Group, found: RawMetadata, version: Version, where: str) -> None:
    if version.stands_on(group.zarr_format):
        return
    message = (
        f"{where}: OME-Zarr {version.name} requires zarr {version.zarr_format},"
        f" but this is {title(group.zarr_format, '')}"
    )
    if found.namespaced:
        raise InvalidMetadata(message)
    warn(f"{message}; reading it anyway")


def _valid_members(found: RawMetadata, version: Version, where: str) -> dict[str, object]:
    """Return the members in the form of the newest version; raise if a required one is invalid.

    Invalid optional members are dropped with a warning.
    """
    members = upgrade(found.members, version)
    bad: list[Problem] = []
    for problem in check(found, ""):
        unusable = "entries, but there are" in problem.message
        if problem.level != "error" and not unusable:
            continue
        member = problem.field.removeprefix(found.field).partition("[")[0].partition(".")[0]
        if member in _OPTIONAL:
            warn(f"{where}: {problem}")
            members = {k: v for k, v in members.items() if k != member}
        elif member != "version" and problem.field != found.field.rstrip("."):
            bad.append(Problem(problem.key, problem.field, problem.message))
    if bad:
        raise InvalidMetadata.of(bad, f"{where} is not valid OME-Zarr {version.name}")
    return members


def member(parent: Loaded, path: str, kind: type[N]) -> N:
    """Return an array or group below an OME-Zarr group; it must have the same Zarr version."""
    try:
        found = parent.group[path]
    except NodeNotFound as e:
        full = paths.join(parent.group.path, paths.normalize(path))
        other = existing_node(parent.group.store, full)
        if other is None:
            raise
        raise InvalidMetadata(
            f"{paths.show(full)} is {title(other[0].name, '')}, but its parent"
            f" {parent.group.name} is {title(parent.group.zarr_format, '')};"
            " an image or plate must have a single Zarr version"
        ) from e
    if not isinstance(found, kind):
        raise WrongNode(
            f"{found.name} in {found.store!r} is not the {kind.__name__.lower()}"
            f" that the metadata of {parent.group.name} expects"
        )
    return found


class Image(OmeGroup):
    """An image at several resolutions; pixels are read on access."""

    def __init__(self, loaded: Loaded, multiscale: int | str = 0) -> None:
        self._loaded = loaded
        self.multiscale = _choose(loaded, multiscale)

    # Metadata

    @property
    def name(self) -> str | None:
        """The name of the image, or None."""
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
                    f"{array.name} in {array.store!r} has {array.ndim} axes, but the metadata of"
                    f" {self.group.name} names: {names}"
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
        """Return the transform from the pixels of a level to the axes' units.

        Versions before 0.4 have no scale; there it is the level's downsampling factor.

        Args:
            level: The number of the level, from 0.

        Examples:
            >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx", scale=(0.5, 0.5))
            >>> image.transform().scale
            (0.5, 0.5)
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
        """The rendering settings of each channel; empty if the metadata has none."""
        return () if self.metadata.omero is None else self.metadata.omero.channels

    @property
    def label(self) -> ImageLabel | None:
        """Colours and properties of the values if this is a label image, or None."""
        return self.metadata.image_label

    @cached_property
    def labels(self) -> Labels:
        """The label images of this image by name; empty if there are none."""
        try:
            group = member(self._loaded, "labels", Group)
        except NodeNotFound:
            return Labels(None)
        return Labels(load(group, self._loaded))

    # Reading

    def level_for(self, scale: float | Mapping[str, float], unit: Unit = None) -> int:
        """Return the coarsest level whose pixels are at most as large as `scale`, or 0.

        Args:
            scale: The size of a pixel: a number for all spatial axes, or numbers by axis.
            unit: Its unit; by default the axes' own.

        Raises:
            SelectionError: If there is no such axis.

        Examples:
            >>> data = np.ones((8, 8))
            >>> image = oz.ome.write("cell.zarr", data, axes="yx", scale=(0.5, 0.5), levels=2)
            >>> image.level_for(1.0)
            1
        """
        if isinstance(scale, Mapping):
            wanted = dict(scale)
        else:
            wanted = {a.name: scale for a in self.axes if a.type == "space"}
        unknown = sorted(wanted.keys() - {a.name for a in self.axes})
        if unknown:
            names = ", ".join(a.name for a in self.axes)
            raise SelectionError(f"unknown axis {unknown[0]!r}; axes: {names}")
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
        """Return the selection of a level's pixels in a region.

        Args:
            region: Intervals or positions by axis, as in `read`.
            level: The number of the level, from 0.
            unit: The unit of the positions; by default the axes' own.

        Raises:
            SelectionError: If there is no such axis or channel, or no such pixels.

        Examples:
            >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx", scale=(0.5, 0.5))
            >>> image.selection({"x": (1, 2)})
            (slice(None, None, None), slice(2, 4, None))
        """
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
        """Return the pixels of a region as a NumPy array.

        Args:
            region: An interval ``(start, stop)``, or one position, which drops the axis, by axis.
                Channels are selected by number or label; a slice counts pixels. By default all of
                the image.
            unit: The unit of the positions; by default the axes' own.
            level: The number of the level, from 0.
            scale: The size of a pixel, to choose the level as `level_for` does.

        Raises:
            SelectionError: If there is no such axis or channel, or no such pixels.

        Examples:
            >>> data = np.ones((2, 64, 64))
            >>> image = oz.ome.write(
            ...     "cell.zarr", data, axes="cyx", scale=(1, 0.1, 0.1), channels=["A", "B"]
            ... )
            >>> image.read({"c": "B", "y": (1, 5), "x": (1, 5)}).shape
            (40, 40)
        """
        if scale is not None:
            level = self.level_for(scale, unit)
        return self.levels[level][self.selection(region or {}, level=level, unit=unit)]

    # Display

    def preview(self, *, at: Mapping[str, int] | None = None, pixels: int = 512) -> Any:
        """Return a picture of the image with its channels; see `omnizarr.preview`.

        Args:
            at: The position along axes that are not shown, by name, such as ``{"t": 3}``.
            pixels: The least number of pixels along the longer side, if there are as many.

        Raises:
            WrongNode: If there are no numbers to show.

        Examples:
            >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx")
            >>> image.preview().save("cell.png")
        """
        return registry.lookup("integration", "preview")(self, at=at, pixels=pixels)

    def _sizes(self) -> str:
        parts = (f"{a.name}: {n}" for a, n in zip(self.axes, self.shape, strict=True))
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
            f"({self._sizes()}) {self.dtype}",
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
        info["type"] = f"OME-Zarr {self.version} image, zarr v{self.group.zarr_format}"
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
        info.attributes = self.group.attrs.asdict()
        info.grid = self.levels[0].info.grid
        return info

    def _repr_html_(self) -> str:
        return self.info._repr_html_()


class ByName(Mapping[str, M]):
    """Parts of an image or plate by name."""

    _names: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


class Labels(ByName[Image]):
    """The label images of an image by name."""

    def __init__(self, loaded: Loaded | None) -> None:
        self._loaded = loaded
        self._names = () if loaded is None else loaded.metadata.labels or ()

    def __getitem__(self, name: str) -> Image:
        if self._loaded is None or name not in self._names:
            names = ", ".join(self._names) or "none"
            raise NodeNotFound(f"unknown labels {name!r}; labels: {names}")
        return image_at(self._loaded, name)

    def __repr__(self) -> str:
        return f"<Labels {', '.join(self._names) or 'none'}>"


def _choose(loaded: Loaded, which: int | str) -> Multiscale:
    several = loaded.metadata.multiscales
    if not several:
        raise WrongNode(f"{loaded} is not an image: it has no multiscales")
    if isinstance(which, int):
        if not -len(several) <= which < len(several):
            raise SelectionError(f"{loaded} has {len(several)} multiscales, not number {which}")
        return several[which]
    for multiscale in several:
        if multiscale.name == which:
            return multiscale
    names = ", ".join(repr(m.name) for m in several)
    raise SelectionError(f"{loaded} has no multiscale {which!r}; multiscales: {names}")


def image_at(parent: Loaded, path: str) -> Image:
    """Return the image at a path below a plate, well or series; it must have the same version."""
    group = member(parent, path, Group)
    loaded = load(group, parent)
    if loaded is None:
        raise InvalidMetadata(
            f"{paths.show(group.path)} in {group.store!r} has no OME-Zarr metadata, but the"
            f" metadata of {parent.group.name} lists it as an image"
        )
    return Image(loaded)
