"""What a group's consolidated metadata have wrong about the nodes around a new one.

Other libraries change nodes without renewing any copy, so that those of the groups above a new
node may be old, and neighbours may be missing, or gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnizarr.errors import InvalidMetadata
from omnizarr.formats import Format, consolidated
from omnizarr.hierarchy.fetch import fetch
from omnizarr.model import GroupModel, paths
from omnizarr.stores import Store, list_dir


def stale_around(
    store: Store, format: Format, group: str, entries: consolidated.Entries, new: str
) -> dict[str, dict[str, bytes]]:
    """Documents by name, by path below the group, of nodes whose copies are not right.

    A node that is gone has none. One listing finds them, and a batch of look-ups each.
    """
    found: dict[str, dict[str, bytes]] = {}
    for path in paths.ancestors(new)[1:]:
        own = _documents(store, format, paths.join(group, path))
        if own and not (path in entries and consolidated.is_same(entries[path], own)):
            found[path] = own
    parent = new.rpartition("/")[0]
    place = paths.join(group, parent)
    names = format.children(place, *list_dir(store, format.listing(place)))
    there = {paths.join(parent, name) for name in names}
    known = {path for path in entries if path and path.rpartition("/")[0] == parent}
    for path in sorted((there ^ known) - {new}):
        below = dict(_below(store, format, group, path))
        if below or path in known:
            found |= below or {path: {}}
    return found


def _below(
    store: Store, format: Format, group: str, path: str
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A node and all below it that can be read, with their documents."""
    place = paths.join(group, path)
    own = _documents(store, format, place)
    try:
        node = format.read(path, {paths.prefix(path) + n: text for n, text in own.items()}, [])
    except InvalidMetadata:
        return
    if node is not None:
        yield path, own
    if isinstance(node, GroupModel):
        for name in format.children(place, *list_dir(store, format.listing(place))):
            yield from _below(store, format, group, paths.join(path, name))


def _documents(store: Store, format: Format, path: str) -> dict[str, bytes]:
    return {paths.name(key): text for key, text in fetch(store, format.keys(path)).items()}
