"""Plates, wells and series of images, and `open` for any OME-Zarr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, overload

from omnizarr import Group
from omnizarr import open as open_zarr
from omnizarr.conventions.ome.image import (
    ByName,
    Image,
    Labels,
    Loaded,
    OmeGroup,
    image_at,
    load,
    member,
)
from omnizarr.conventions.ome.model import PlateLayout, WellLayout
from omnizarr.errors import InvalidMetadata, NodeNotFound, WrongNode
from omnizarr.extension import can_list


class Well(OmeGroup, ByName[Image]):
    """The fields of view of a well by path, or by number: ``well[0]``."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.well is None:
            raise WrongNode(f"{loaded} is not a well")
        self._loaded = loaded
        self.layout: WellLayout = loaded.metadata.well
        self._names = tuple(f.path for f in self.layout.fields)

    def __getitem__(self, field: str | int) -> Image:
        names = self._names
        if isinstance(field, int) and -len(names) <= field < len(names):
            field = names[field]
        if field not in names:
            raise NodeNotFound(f"{self._loaded} has no field {field!r}; fields: {', '.join(names)}")
        return image_at(self._loaded, str(field))

    def _rows(self) -> dict[str, str]:
        return {"fields": ", ".join(self)}

    def __repr__(self) -> str:
        return (
            f"<Well {self.group.name}  OME-Zarr {self.version}  fields {', '.join(self)}"
            f"  on {self.group.store!r}>"
        )


class Plate(OmeGroup, ByName[Well]):
    """The wells of a plate by path, such as ``"A/1"``."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.plate is None:
            raise WrongNode(f"{loaded} is not a plate")
        self._loaded = loaded
        self.layout: PlateLayout = loaded.metadata.plate
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
        group = member(self._loaded, well, Group)
        loaded = load(group, self._loaded)
        if loaded is None:
            raise InvalidMetadata(f"{group.name} in {group.store!r} has no OME-Zarr metadata")
        return Well(loaded)

    def _rows(self) -> dict[str, str]:
        runs = len(self.layout.acquisitions)
        found = {
            "name": self.layout.name or "",
            "rows": ", ".join(self.rows),
            "columns": ", ".join(self.columns),
            "wells": str(len(self)),
            "acquisitions": str(runs) if runs else "",
        }
        return {name: text for name, text in found.items() if text}

    def __repr__(self) -> str:
        name = self.layout.name or self.group.name
        runs = len(self.layout.acquisitions)
        return (
            f"<Plate {name}  OME-Zarr {self.version}  {len(self.rows)} rows ×"
            f" {len(self.columns)} columns  {len(self)} wells"
            f"{f'  {runs} acquisitions' if runs else ''}  on {self.group.store!r}>"
        )


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
            return [image_at(self._loaded, path) for path in self.paths[index]]
        return image_at(self._loaded, self.paths[index])

    def __len__(self) -> int:
        return len(self.paths)

    def _rows(self) -> dict[str, str]:
        return {"images": f"{len(self)}: {', '.join(self.paths[:20])}"}

    def __repr__(self) -> str:
        return (
            f"<Series {self.group.name}  OME-Zarr {self.version}  {len(self)} images"
            f" ({', '.join(self.paths[:5])}{', …' if len(self) > 5 else ''})"
            f"  on {self.group.store!r}>"
        )


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
    loaded = load_at(store, mode, path, storage_options)
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


def load_at(
    store: Any,
    mode: Literal["r", "r+"] = "r",
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Loaded:
    """Open a group and load its OME-Zarr metadata; raise if there are none."""
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
    return loaded
