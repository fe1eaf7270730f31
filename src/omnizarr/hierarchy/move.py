"""Giving a node, and all below it, another path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnizarr.errors import InvalidName, NodeExists, NodeNotFound, StoreError
from omnizarr.hierarchy.copies import keep_right
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.owned import check_owned
from omnizarr.hierarchy.walk import walk
from omnizarr.model import paths
from omnizarr.stores import list_prefix


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
