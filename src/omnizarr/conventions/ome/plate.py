"""Plates, wells, and the series of a converted file: groups of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

from omnizarr.conventions.ome.image import Image, image_at
from omnizarr.conventions.ome.load import Described, Loaded, load, member
from omnizarr.conventions.ome.model import PlateLayout, WellLayout
from omnizarr.errors import InvalidMetadata, NodeNotFound, WrongNode
from omnizarr.hierarchy.group import Group


class Well(Described, Mapping[str, Image]):
    """The fields of view of a well by path; ``well[0]`` does too."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.well is None:
            raise WrongNode(f"{loaded} is not a well")
        self._loaded = loaded
        self.layout: WellLayout = loaded.metadata.well

    def __getitem__(self, field: str | int) -> Image:
        names = list(self)
        if isinstance(field, int) and -len(names) <= field < len(names):
            field = names[field]
        if field not in names:
            raise NodeNotFound(
                f"{self._loaded} has no field {field!r}; there are: {', '.join(names)}"
            )
        return image_at(self._loaded, str(field))

    def __iter__(self) -> Iterator[str]:
        return (f.path for f in self.layout.fields)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self.layout.fields)

    def __repr__(self) -> str:
        return (
            f"<Well {self.group.name}  OME-Zarr {self.version}  fields {', '.join(self)}"
            f"  on {self.group.store!r}>"
        )


class Plate(Described, Mapping[str, Well]):
    """The wells of a plate by path, such as ``"A/1"``."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.metadata.plate is None:
            raise WrongNode(f"{loaded} is not a plate")
        self._loaded = loaded
        self.layout: PlateLayout = loaded.metadata.plate

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of the rows, of empty ones too."""
        return self.layout.rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, of empty ones too."""
        return self.layout.columns

    def __getitem__(self, well: str) -> Well:
        if well not in list(self):
            some = ", ".join(list(self)[:10]) + (", …" if len(self) > 10 else "")
            raise NodeNotFound(f"{self._loaded} has no well {well!r}; there are: {some}")
        group = member(self._loaded, well, Group)
        loaded = load(group, self._loaded)
        if loaded is None:
            raise InvalidMetadata(f"{group.name} in {group.store!r} has no OME-Zarr metadata")
        return Well(loaded)

    def __iter__(self) -> Iterator[str]:
        return (w.path for w in self.layout.wells)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self.layout.wells)

    def __repr__(self) -> str:
        name = self.layout.name or self.group.name
        runs = len(self.layout.acquisitions)
        return (
            f"<Plate {name}  OME-Zarr {self.version}  {len(self.rows)} rows ×"
            f" {len(self.columns)} columns  {len(self)} wells"
            f"{f'  {runs} acquisitions' if runs else ''}  on {self.group.store!r}>"
        )


class Series(Described, Sequence[Image]):
    """The images of a file that bioformats2raw converted, in the file's order."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The images' paths: as the group OME lists them, else 0, 1, 2, …"""
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

    def __repr__(self) -> str:
        return (
            f"<Series {self.group.name}  OME-Zarr {self.version}  {len(self)} images"
            f" ({', '.join(self.paths[:5])}{', …' if len(self) > 5 else ''})"
            f"  on {self.group.store!r}>"
        )
