"""OME-Zarr images with levels and labels, plates, wells and series, and `open` for any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar, overload

import numpy as np

from omnizarr import Array, Group, registry
from omnizarr import open as open_zarr
from omnizarr.conventions.ome import model
from omnizarr.conventions.ome.rules import Loaded, load
from omnizarr.errors import InvalidMetadata, NodeNotFound, SelectionError, WrongNode
from omnizarr.extension import Info, Store, can_list, existing_node, paths, title

N = TypeVar("N", Array, Group)
M = TypeVar("M")
Unit = str | Mapping[str, str] | None


class OmeGroup:
    """A Zarr group with OME-Zarr metadata: the parent class of images, plates, wells, series.

    It has a store and a path, so functions that take a group take it, too.
    """

    _loaded: Loaded
    _name: str | None = None

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
    def metadata(self) -> model.Metadata:
        """All metadata of the group, in the form of the newest version."""
        return self._loaded.metadata

    def _summary(self) -> str:
        """Return what the representation shows besides name, version and store."""
        return ""

    def __repr__(self) -> str:
        name, about = self._name or self.group.name, f"OME-Zarr {self.version}  {self._summary()}"
        return f"<{type(self).__name__} {name}  {about}  on {self.group.store!r}>"


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
        self._name = self.multiscale.name

    # Metadata

    @property
    def name(self) -> str | None:
        """The name of the image, or None."""
        return self.multiscale.name

    @property
    def axes(self) -> tuple[model.Axis, ...]:
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

    def transform(self, level: int = 0) -> model.Transform:
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
            own = model.Transform(tuple(n / m if m else 1.0 for n, m in sizes))
        shared = self.multiscale.transform
        if shared is None:
            return own
        moved = zip(own.offset, shared.scale, shared.offset, strict=True)
        translated = own.translation is not None or shared.translation is not None
        return model.Transform(
            tuple(a * b for a, b in zip(own.scale, shared.scale, strict=True)),
            tuple(t * s + o for t, s, o in moved) if translated else None,
        )

    @property
    def scale(self) -> tuple[float, ...]:
        """The size of a pixel of the finest level along each axis, in the axes' units."""
        return self.transform().scale

    @property
    def channels(self) -> tuple[model.Channel, ...]:
        """The rendering settings of each channel; empty if the metadata has none."""
        return () if self.metadata.omero is None else self.metadata.omero.channels

    @property
    def label(self) -> model.ImageLabel | None:
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
        spatial = [a.name for a in self.axes if a.type == "space"]
        wanted = scale if isinstance(scale, Mapping) else dict.fromkeys(spatial, scale)
        names, limits = [a.name for a in self.axes], dict[int, float]()
        for name, size in wanted.items():
            if name not in names:
                raise SelectionError(f"unknown axis {name!r}; axes: {', '.join(names)}")
            axis = names.index(name)
            limits[axis] = size * model.axis_factor(self.axes[axis], unit) * (1 + 1e-9)
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
        return model.select(self.axes, shape, self.transform(level), region, unit, labels)

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

    def _pixel(self, level: int) -> str:
        parts = zip(self.axes, self.transform(level).scale, strict=True)
        shown = ((f"{a.name} {s:g}", a.unit) for a, s in parts if a.type != "channel")
        return ", ".join(f"{text} {unit}" if unit else text for text, unit in shown)

    def _summary(self) -> str:
        count = len(self.multiscale.datasets)
        sizes = ", ".join(f"{a.name}: {n}" for a, n in zip(self.axes, self.shape, strict=True))
        parts = [
            f"({sizes}) {self.dtype}",
            f"pixel ({self._pixel(0)})",
            f"{count} level{'s' if count > 1 else ''}",
        ]
        if self.channels:
            parts.append(f"channels {', '.join(c.label or '?' for c in self.channels)}")
        if len(self.labels):
            parts.append(f"labels {', '.join(self.labels)}")
        return "  ".join(parts)

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
        info.drawn = self.levels[0].info.drawn
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
        return Image(_load_member(self._loaded, name))

    def __repr__(self) -> str:
        return f"<Labels {', '.join(self._names) or 'none'}>"


def _choose(loaded: Loaded, which: int | str) -> model.Multiscale:
    several = loaded.metadata.multiscales
    if not several:
        raise WrongNode(f"{loaded} is not an image: it has no multiscales")
    names = [m.name for m in several]
    number = names.index(which) if isinstance(which, str) and which in names else which
    if not isinstance(number, int) or not -len(several) <= number < len(several):
        known = ", ".join(map(repr, names))
        raise SelectionError(f"{loaded} has no multiscale {which!r}; multiscales: {known}")
    return several[number]


def _load_member(parent: Loaded, path: str) -> Loaded:
    """Return the group at a path below a plate, well or series; it must have the same version."""
    group = member(parent, path, Group)
    loaded = load(group, parent)
    if loaded is None:
        raise InvalidMetadata(
            f"{group.name} in {group.store!r} has no OME-Zarr metadata, but the metadata of"
            f" {parent.group.name} lists it"
        )
    return loaded


class Well(OmeGroup, ByName[Image]):
    """The fields of view of a well by path, or by number: ``well[0]``."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.well is None:
            raise WrongNode(f"{loaded} is not a well")
        self._loaded = loaded
        self.layout: model.WellLayout = loaded.metadata.well
        self._names = tuple(f.path for f in self.layout.fields)

    def __getitem__(self, field: str | int) -> Image:
        names = self._names
        if isinstance(field, int) and -len(names) <= field < len(names):
            field = names[field]
        if field not in names:
            raise NodeNotFound(f"{self._loaded} has no field {field!r}; fields: {', '.join(names)}")
        return Image(_load_member(self._loaded, str(field)))

    def _summary(self) -> str:
        return f"fields {', '.join(self)}"


class Plate(OmeGroup, ByName[Well]):
    """The wells of a plate by path, such as ``"A/1"``."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.plate is None:
            raise WrongNode(f"{loaded} is not a plate")
        self._loaded = loaded
        self.layout: model.PlateLayout = loaded.metadata.plate
        self._name = self.layout.name
        self._names = tuple(w.path for w in self.layout.wells)

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of the rows, including empty ones."""
        return self.layout.rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, including empty ones."""
        return self.layout.columns

    def __getitem__(self, well: str) -> Well:
        if well not in self._names:
            some = ", ".join(self._names[:10]) + (", …" if len(self) > 10 else "")
            raise NodeNotFound(f"{self._loaded} has no well {well!r}; wells: {some}")
        return Well(_load_member(self._loaded, well))

    def _summary(self) -> str:
        sizes = f"{len(self.rows)} rows × {len(self.columns)} columns  {len(self)} wells"
        runs = len(self.layout.acquisitions)
        return f"{sizes}  {runs} acquisitions" if runs else sizes


class Series(OmeGroup, Sequence[Image]):
    """The images of a file that bioformats2raw converted, in the file's order."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The images' paths: those listed in the group OME, or 0, 1, 2, …"""
        described = self.group.get("OME")
        if isinstance(described, Group):
            loaded = load(described, self._loaded)
            if loaded is not None and loaded.metadata.series is not None:
                return loaded.metadata.series
        found: list[str] = []
        while str(len(found)) in self.group:
            found.append(str(len(found)))
        return tuple(found)

    @overload
    def __getitem__(self, index: int) -> Image: ...
    @overload
    def __getitem__(self, index: slice) -> list[Image]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [Image(_load_member(self._loaded, path)) for path in self.paths[index]]
        return Image(_load_member(self._loaded, self.paths[index]))

    def __len__(self) -> int:
        return len(self.paths)

    def _summary(self) -> str:
        more = ", …" if len(self) > 5 else ""
        return f"{len(self)} images ({', '.join(self.paths[:5])}{more})"


def open(
    store: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str | None = None,
    multiscale: int | str = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Open an image, plate, well, series or labels of any version of OME-Zarr.

    For type checkers, annotate the result: ``image: Image = open(…)``.

    Args:
        store: A path, URL, dict, store or `StorePath`.
        mode: ``"r"`` to read, ``"r+"`` to read and write.
        path: The path of the node in the store; by default the root.
        multiscale: The number or name of one of several multiscales of an image.
        storage_options: Options for the store of a URL, such as credentials.

    Returns:
        An `Image`, `Plate`, `Well`, `Series` or `Labels`.

    Raises:
        NodeNotFound: If there is no such node.
        WrongNode: If it is an array, or a group of another kind.
        InvalidMetadata: If its OME-Zarr metadata are missing or not valid.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx")
        >>> oz.ome.open("cell.zarr").shape
        (8, 8)
    """
    group = open_zarr(store, mode, path=path, storage_options=storage_options)
    if not isinstance(group, Group):
        raise WrongNode(f"{group.name} in {group.store!r} is an array; open its parent group")
    loaded = load(group)
    if loaded is None:
        names = ", ".join(group.attrs) or "none"
        arrays = [] if group.attrs or not can_list(group.store) else [n for n, _ in group.arrays()]
        inside = f"; its arrays: {', '.join(arrays[:8])}" if arrays else ""
        raise InvalidMetadata(
            f"{group.name} in {group.store!r} has no OME-Zarr metadata; its attributes: {names}"
            f"{inside}"
        )
    found = loaded.metadata
    if found.plate is not None:
        return Plate(loaded)
    if found.well is not None:
        return Well(loaded)
    if found.multiscales:
        return Image(loaded, multiscale)
    if found.bioformats2raw is not None:
        return Series(loaded)
    if found.labels is not None:
        return Labels(loaded)
    raise WrongNode(f"{loaded} has OME-Zarr metadata, but no image, plate, well or labels")
