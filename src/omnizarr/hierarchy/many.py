"""Creating many nodes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.complete import complete, create_nodes
from omnizarr.hierarchy.group import Group, open_node
from omnizarr.hierarchy.locate import format_for
from omnizarr.hierarchy.location import Location
from omnizarr.hierarchy.place import place


def create_hierarchy(
    *,
    store: Any,
    nodes: Mapping[str, Any],
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups by path, and give each back when it is stored.

    A node is described by the `metadata` of another one, by its model, or by its JSON document.
    Groups above them are created, and given back, as far as they are missing. Nothing is stored
    where formats differ, an array has nodes below it, or, without `overwrite`, one is there.
    """
    where, path = place(store, storage_options=storage_options)
    wanted, version = complete(nodes)
    start = Location(where, path, format_for(where, path, version))
    for name, location, node in create_nodes(start, wanted, overwrite):
        yield name, open_node(location, node)
