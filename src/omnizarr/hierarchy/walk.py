"""Every node of a part of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

from omnizarr.errors import InvalidMetadata
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


def readable_nodes(location: Location, node: Node) -> dict[str, Node]:
    """As `walk`; raise where a node cannot be read, so that none is left out without a word."""
    start = len(paths.prefix(location.path))
    found: dict[str, Node] = {}
    bad: list[str] = []
    for place, one in below(location, node):
        if isinstance(one, Exception):
            bad.append(str(one))
        else:
            found[place.path[start:]] = one
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise InvalidMetadata(
            f"{location} holds a node that cannot be read, so not all of it can be copied:"
            f" {bad[0]}{more}; repair or erase it first"
        )
    return found
