"""Opening OME-Zarr: an image, plate, well, series or labels, whichever lies there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from omnizarr.conventions.ome.image import Image, Labels
from omnizarr.conventions.ome.load import Loaded, load
from omnizarr.conventions.ome.plate import Plate, Series, Well
from omnizarr.errors import InvalidMetadata, WrongNode
from omnizarr.hierarchy.create import open as open_zarr
from omnizarr.hierarchy.group import Group


def open(
    store: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str | None = None,
    multiscale: int | str = 0,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """The image, plate, well, series or labels at an address, of any version of OME-Zarr.

    `store` is as in `omnizarr.open`. Where an image has several multiscales, `multiscale`
    chooses one by number or name. A program that checks types says what it expects:
    ``image: Image = open(…)``.
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
    """The group at an address and what it says; raises where it is not OME-Zarr."""
    group = open_zarr(store, mode, path=path, storage_options=storage_options)
    if not isinstance(group, Group):
        raise WrongNode(f"{group.name} in {group.store!r} is an array; open the group around it")
    loaded = load(group)
    if loaded is None:
        names = ", ".join(group.attrs) or "none"
        raise InvalidMetadata(
            f"{group.name} in {group.store!r} has no OME-Zarr metadata; its attributes: {names}"
        )
    return loaded
