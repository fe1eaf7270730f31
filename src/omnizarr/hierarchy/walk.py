"""Every node of a part of a hierarchy."""

from __future__ import annotations

from omnizarr.hierarchy.location import Location
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
