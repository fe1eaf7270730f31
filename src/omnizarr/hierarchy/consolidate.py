"""Consolidated metadata: gathering the documents of a hierarchy in one, and opening by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr._json import load_object
from omnizarr.errors import WrongType
from omnizarr.formats import consolidated
from omnizarr.hierarchy.consolidated import changing, note_change
from omnizarr.hierarchy.create import open_group
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.lookup import locate, place
from omnizarr.hierarchy.walk import walk
from omnizarr.stores import compares
from omnizarr.stores.patience import attempts


def consolidate_metadata(
    store: Any,
    path: str | None = None,
    zarr_format: int | str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Store a copy of all documents below a group with the group, and give back the group.

    Whatever this library changes below the group afterwards, it changes in the copy too; copies
    of more than a megabyte it drops instead, with a warning.
    """
    where, node_path = place(store, path, storage_options=storage_options)
    location, node = locate(where, node_path, zarr_format=zarr_format)
    group = Group.at(location, node)
    location.check_writable()
    _gather(location)
    group.refresh()
    return group


def _gather(location: Location) -> None:
    """Store copies until they are those of now: who changes a node after that renews them."""
    store, format, path = location.store, location.format, location.path
    key = consolidated.key(format, path) or ""
    with changing(store, format, key, path):
        for _ in attempts():
            generation = store.generation(key) if key and compares(store) else None
            stored = store.get(key) if key else None
            text = consolidated.write(format, path, walk(location, location.load()))[key]
            if text == stored:
                break
            if compares(store):
                store.set_if(key, text, generation)
            else:
                store.set(key, text)
    note_change()


def copies_are_stale(store: Any) -> bool:
    """Whether the root has consolidated metadata that differ from the documents below it."""
    location, node = locate(*place(store, None))
    key = consolidated.key(location.format, location.path)
    data = location.store.get(key) if key else None
    if key is None or data is None or not consolidated.has_copies(location.format, data, key):
        return False
    now = consolidated.write(location.format, location.path, walk(location, node))[key]
    return load_object(now, key, allow_nan=True) != load_object(data, key, allow_nan=True)


def open_consolidated(store: Any, *, use_consolidated: bool | str = True, **options: Any) -> Group:
    """As `open_group`, with the nodes below taken from the group's consolidated metadata."""
    if not use_consolidated:
        raise WrongType(
            f"open_consolidated needs use_consolidated=True or a key, got {use_consolidated!r};"
            " use open_group to read the nodes' own documents"
        )
    return open_group(store, use_consolidated=use_consolidated, **options)
