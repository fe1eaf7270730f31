"""Every node of a part of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnizarr.errors import InvalidMetadata, warn
from omnizarr.formats import is_metadata
from omnizarr.hierarchy.location import Location
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import list_dir, list_prefix
from omnizarr.stores.replace_file import OURS


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


def warn_of_foreign(
    location: Location, nodes: Mapping[str, Node], *, members: bool = True
) -> list[str]:
    """Warn of what lies in groups and is no part of any node, and return its keys and prefixes.

    `nodes` are all nodes at and below a place by relative path; arrays are not looked into, and
    groups below the place only where `members` is True.
    """
    found = [
        entry
        for path, node in nodes.items()
        if isinstance(node, GroupModel) and (members or not path)
        for entry in _foreign(location.at(paths.join(location.path, path)), path, nodes)
    ]
    if found:
        some = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
        warn(f"left out, since it is not Zarr: {some} in {location.store!r}")
    return found


def _foreign(group: Location, path: str, nodes: Mapping[str, Node]) -> Iterator[str]:
    keys, prefixes = list_dir(group.store, group.format.listing(group.path))
    yield from (key for key in keys if OURS not in key and not is_metadata(key))
    for prefix in prefixes:
        name = paths.name(prefix[:-1])
        if OURS in name or paths.join(path, name) in nodes:
            continue
        if next(iter(list_prefix(group.store, prefix)), None) is not None:  # no empty folder
            yield prefix
