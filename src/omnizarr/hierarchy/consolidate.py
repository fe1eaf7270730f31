"""Gathering the documents of a hierarchy in one place, for stores where listing is slow."""

from __future__ import annotations

from typing import Any

from omnizarr import stores
from omnizarr.formats import consolidated
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.location import Location, locate
from omnizarr.model import GroupModel, Node, paths


def walk(location: Location, node: Node) -> dict[str, Node]:
    """All readable nodes at and below a place, by path relative to it."""
    found = {"": node}
    location = location.listed()
    if isinstance(node, GroupModel):
        for name, child in sorted(location.children().items()):
            if not isinstance(child, Exception):
                below = walk(location.child(name), child)
                found.update({paths.join(name, p): n for p, n in below.items()})
    return found


def consolidate_metadata(store: Any, path: str | None = None) -> Group:
    """Store a copy of all documents below a group with the group, and give back the group.

    The copy is used only where a store cannot list its keys; it has to be renewed by hand.
    """
    where = stores.resolve(store)
    location, node = locate(where, paths.normalize(path))
    group = Group.at(location, node)
    location.check_writable()
    nodes = walk(location, node)
    for key, text in consolidated.write(location.format, location.path, nodes).items():
        if text is not None:
            where.set(key, text)
    group.refresh()
    return group
