"""Every node of a part of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

from omnizarr.hierarchy.location import Location
from omnizarr.model import GroupModel, Node, paths


def below(start: Location, node: Node) -> Iterator[tuple[Location, Node | Exception]]:
    """A node and all below it, each before those in it; one that cannot be read is its error.

    Raises where the members of a group cannot be listed.
    """
    left: list[tuple[Location, Node | Exception]] = [(start.listed(), node)]
    while left:
        place, found = left.pop()
        yield place, found
        if not isinstance(found, GroupModel):
            continue
        children = sorted(place.children().items(), reverse=True)
        left += [(place.child(name), child) for name, child in children]


def walk(location: Location, node: Node) -> dict[str, Node]:
    """All readable nodes at and below a place, by path relative to it."""
    start = len(paths.prefix(location.path))
    return {
        place.path[start:]: found
        for place, found in below(location, node)
        if not isinstance(found, Exception)
    }
