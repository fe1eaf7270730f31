"""Visit every node below a path, and move nodes to another path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnizarr.errors import InvalidMetadata, InvalidName, NodeExists, NodeNotFound, StoreError, warn
from omnizarr.formats import is_metadata
from omnizarr.hierarchy.consolidated import keep_right
from omnizarr.hierarchy.location import Location, check_owned, existing_node
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import list_dir, list_prefix
from omnizarr.stores.local.files import OURS


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


def move(source: Location, target: Location) -> None:
    """Move a node and all below it to a path of the same hierarchy where nothing is yet.

    Everything is copied first, documents last, and only then erased at the old place: whatever
    stops it in between, nothing is lost, and what it left at the target hinders no second try.
    """
    source.check_writable()
    target.format.check_name(target.path)
    if source.find([]) is None:
        raise NodeNotFound(f"there is no array or group at {source}")
    if not source.path or paths.prefix(target.path).startswith(paths.prefix(source.path)):
        raise InvalidName(
            f"cannot move {paths.show(source.path)} to {paths.show(target.path)}: a node cannot"
            " be moved into itself, nor the root anywhere"
        )
    renamed = dict(_renamed(source, target))
    if existing_node(target.store, target.path) is not None or not _left_by_move(target, renamed):
        raise NodeExists(f"there is already something at {target}; erase it first")
    check_owned(source.store, source.path, source.format)
    is_metadata = source.format.is_metadata
    target.create_above()
    for key in sorted(renamed, key=lambda key: (is_metadata(key), -key.count("/"))):
        value = source.store.get(key)
        if value is None:
            raise StoreError(f"{key!r} in {source.store!r} vanished while {source} was moved")
        target.store.set(renamed[key], value)
    keep_right(target.store, target.format, dict(_documents(replace(target, copies=None))))
    source.erase()


def _left_by_move(target: Location, renamed: Mapping[str, str]) -> bool:
    """Tell if a target has at most what an interrupted move of the same node left there."""
    origins = {new: old for old, new in renamed.items()}
    return all(
        key in origins and target.store.get(key) == target.store.get(origins[key])
        for key in _keys(target)
    )


def _documents(location: Location) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """The documents of a node and of all below it, by path."""
    for inside, node in walk(location, location.load()).items():
        path = paths.join(location.path, inside)
        yield path, location.format.write(path, node)


def _keys(location: Location) -> Iterator[str]:
    """All keys of a node and of what is below it that are stored."""
    keys, prefixes = location.format.owned(location.path)
    yield from (key for key in keys if location.store.get(key) is not None)
    for prefix in prefixes:
        yield from list_prefix(location.store, prefix)


def _renamed(source: Location, target: Location) -> Iterator[tuple[str, str]]:
    """Old and new key of everything that belongs to a node; a format owns alike at every path."""
    old, new = source.format.owned(source.path), target.format.owned(target.path)
    for key, other in zip(old[0], new[0], strict=True):
        if source.store.get(key) is not None:
            yield key, other
    for prefix, other in zip(old[1], new[1], strict=True):
        for key in list_prefix(source.store, prefix):
            yield key, other + key[len(prefix) :]
