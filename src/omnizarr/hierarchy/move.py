"""Giving a node, and all below it, another path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnizarr.errors import InvalidName, NodeExists, NodeNotFound, StoreError
from omnizarr.hierarchy.copies import has_copies, keep_right
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.owned import check_owned
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import list_prefix


def move(source: Location, target: Location) -> None:
    """Move a node and all below it to a path of the same hierarchy where nothing is yet.

    Everything is copied first, documents last, and only then erased at the old place: whatever
    stops it in between, nothing is lost.
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
    if existing_node(target.store, target.path) is not None or any(_keys(target)):
        raise NodeExists(f"there is already something at {target}; erase it first")
    check_owned(source.store, source.path, source.format)
    documents = set(source.format.keys(source.path))
    renamed = dict(_renamed(source, target))
    target.create_above()
    for key in sorted(renamed, key=lambda key: key in documents):
        value = source.store.get(key)
        if value is None:
            raise StoreError(f"{key!r} in {source.store!r} vanished while {source} was moved")
        target.store.set(renamed[key], value)
    own = replace(target, copies=None)
    if has_copies(target.store, target.path, target.format):
        _copy(own, own.load())
    source.erase()


def _copy(location: Location, node: Node) -> None:
    """Tell the copies that groups above keep of a node and of all below it."""
    documents = location.format.write(location.path, node)
    keep_right(location.store, location.path, location.format, documents)
    for name, child in location.children().items() if isinstance(node, GroupModel) else ():
        if not isinstance(child, Exception):
            _copy(location.child(name), child)


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
