"""Creating many nodes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group, open_node
from omnizarr.hierarchy.location import Location, format_for
from omnizarr.hierarchy.metadata import described
from omnizarr.hierarchy.place import place
from omnizarr.model import paths


def create_hierarchy(
    *, store: Any, nodes: Mapping[str, Any], overwrite: bool = False
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups by path, and give each back when it is stored.

    A node is described by the `metadata` of another one, by its model, or by its JSON document.
    Groups above them are created as far as they are missing.
    """
    where, start = place(store)
    wanted = {paths.normalize(path): described(path, node) for path, node in nodes.items()}
    for path, (node, version) in sorted(wanted.items()):
        full = paths.join(start, path)
        location = Location(where, full, format_for(where, full, version))
        yield path, open_node(location, location.create(node, overwrite=overwrite))
