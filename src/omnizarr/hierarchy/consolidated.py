"""Consolidated metadata of groups: used to open nodes, and updated when nodes change.

Other libraries change nodes without updating consolidated metadata. The entries of the groups above
a new node may therefore be stale, and those of its siblings stale, missing, or of erased nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from omnizarr.concurrency import key_locks
from omnizarr.errors import InvalidMetadata, warn
from omnizarr.formats import Documents, Format, consolidated
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import Store, can_list, get_existing, list_dir, lock, update_value
from omnizarr.stores.base import LockKind

MAX_UPDATED = 2**20  # bytes; larger consolidated metadata are dropped when a node changes
_STALE = ", so its consolidated metadata may be out of date; call consolidate_metadata again"
_counter = itertools.count(1)
_changes = 0  # a new number after every change of a node by this process


class ConsolidatedMetadata:
    """The consolidated metadata of one group, read again after this process changed a node.

    If they were `requested` by the user, nodes are taken from them. Otherwise they only list the
    members where a store cannot, and provide nodes without metadata of their own.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        format: Format,
        *,
        requested: bool = False,
        name: str | None = None,
    ) -> None:
        self.requested = requested
        self._store, self._path, self._format = store, path, format
        self._key = consolidated.key(format, path, name)
        self._read_at = -1  # the value of `_changes` when they were read
        self._data: bytes | None = None
        self._entries: consolidated.Entries | None = None
        self._nodes: dict[str, Node | None] = {}
        self._names: dict[str, list[str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_read_at": -1}  # another process counts other changes

    def load(self, metadata: Mapping[str, bytes] | None = None) -> bool:
        """Read them if a node may have changed; return True if the group has any.

        `metadata` are values by key that were fetched before.
        """
        if self._read_at == _changes or self._key is None:
            return self._entries is not None
        read_at = _changes
        found = get_existing(self._store, [self._key]) if metadata is None else metadata
        data = found.get(self._key)
        if data != self._data or self._read_at < 0:
            entries = None if data is None else consolidated.read(self._format, data, self._key)
            self._data, self._entries, self._nodes, self._names = data, entries, {}, {}
            for path in entries or ():
                parent, _, name = path.rpartition("/")
                if name:
                    self._names.setdefault(parent, []).append(name)
        self._read_at = read_at
        return self._entries is not None

    def node(self, path: str) -> Node | None:
        """Return the node at a path of the store, or None if there is no valid entry for it."""
        if not self.load() or not self._covers(path):
            return None
        relative = path[len(paths.prefix(self._path)) :]
        if relative not in self._nodes:
            entry = (self._entries or {}).get(relative)
            self._nodes[relative] = None if entry is None else self._read(relative, entry)
        return self._nodes[relative]

    def children(self, path: str) -> dict[str, Node | None] | None:
        """Return the nodes one level below a path by name, None for an invalid entry.

        Return None if there are no consolidated metadata for the path.
        """
        if not self.load() or not self._covers(path):
            return None
        relative = path[len(paths.prefix(self._path)) :]
        return {name: self.node(paths.join(path, name)) for name in self._names.get(relative, ())}

    def all(self, path: str) -> dict[str, Node] | None:
        """Return every node below a path by relative path, or None as `children` does."""
        if not self.load() or not self._covers(path):
            return None
        start = paths.prefix(path)
        every = (paths.join(self._path, relative) for relative in self._entries or ())
        found = {p[len(start) :]: self.node(p) for p in every if p.startswith(start) and p != path}
        return {relative: node for relative, node in found.items() if node is not None}

    def provided(self, path: str, node: Node) -> bool:
        """Return True if a node was read from these consolidated metadata."""
        return self._nodes.get(path[len(paths.prefix(self._path)) :]) is node

    def _covers(self, path: str) -> bool:
        return path == self._path or path.startswith(paths.prefix(self._path))

    def _read(self, relative: str, entry: consolidated.Entry) -> Node | None:
        try:
            return consolidated.node(self._format, relative, entry)
        except InvalidMetadata:
            return None  # the node's own metadata are read instead


def mark_changed() -> None:
    """Make every `ConsolidatedMetadata` of this process read again before its next use."""
    global _changes
    _changes = next(_counter)


def has_consolidated(store: Store, path: str, format: Format) -> bool:
    """Return True if the group at a path, or one above, has consolidated metadata."""
    found = get_existing(store, consolidated.holders(format, path))
    return any(consolidated.read(format, data, key) is not None for key, data in found.items())


def update_consolidated(
    store: Store,
    format: Format,
    nodes: Mapping[str, Mapping[str, bytes | None] | None],
    fetched: Mapping[str, bytes] | None = None,
) -> None:
    """Update the consolidated metadata of all groups at and above some nodes.

    `nodes` has the metadata of each node, or None for an erased one. Large consolidated metadata
    are dropped, unless the store cannot list and they could not be made again. For a new node,
    `fetched` are the metadata at and above it; a key that is missing there does not exist. Stale
    entries of the groups above a new node and of its siblings are then updated, too.
    """
    mark_changed()
    is_new = fetched is not None
    groups = {k: g for path in nodes for k, g in consolidated.holders(format, path).items()}
    if not groups:
        return
    fetched = get_existing(store, groups) if fetched is None else fetched
    for key, group in groups.items():
        if key in fetched and consolidated.has_consolidated(format, fetched[key], key):
            start = paths.prefix(group)
            changed = {
                path[len(start) :]: _by_name(metadata)
                for path, metadata in nodes.items()
                if path == group or path.startswith(start)
            }
            new = next(iter(changed)) if is_new and can_list(store) else ""
            stale = partial(_find_stale, store, format, group, new=new) if new else None
            with lock_consolidated(store, format, key, group):
                update_value(
                    store, key, partial(_updated, store, format, key, changed, stale), _STALE
                )
            mark_changed()


@contextmanager
def lock_consolidated(store: Store, format: Format, key: str, group: str) -> Iterator[None]:
    """Keep other threads and processes from changing the consolidated metadata of a group."""
    kind: LockKind = "documents" if key in format.keys(group) else "copies"
    with key_locks.locked(key_locks.METADATA, [key]), lock(store, paths.prefix(group), [key], kind):
        yield


def _by_name(metadata: Mapping[str, bytes | None] | None) -> dict[str, bytes]:
    return {paths.name(k): text for k, text in (metadata or {}).items() if text is not None}


def _updated(
    store: Store,
    format: Format,
    key: str,
    nodes: Mapping[str, Documents],
    find_stale: Callable[[consolidated.Entries], Mapping[str, Documents]] | None,
    data: bytes | None,
) -> bytes | None:
    """Return the stored consolidated metadata `data` with the entries of some nodes updated."""
    if data is None or not consolidated.has_consolidated(format, data, key):
        return data
    if len(data) > MAX_UPDATED and can_list(store):
        warn(
            f"{next(iter(nodes))!r} was changed, so the consolidated metadata in {key!r} of"
            f" {store!r} were dropped; call consolidate_metadata again when done",
        )
        return consolidated.dropped(format, data, key)
    if find_stale is not None and len(data) <= MAX_UPDATED:
        nodes = {**find_stale(consolidated.read(format, data, key) or {}), **nodes}
    return consolidated.changed(format, data, key, nodes)


def _find_stale(
    store: Store, format: Format, group: str, entries: consolidated.Entries, new: str
) -> dict[str, dict[str, bytes]]:
    """Return the metadata of nodes whose entries are stale, by name, by path below the group.

    An erased node has none. The groups above a new node and its siblings are compared, which
    takes one listing and a batch of requests for each that differs.
    """
    found: dict[str, dict[str, bytes]] = {}
    for path in paths.ancestors(new)[1:]:
        own = _fetch_metadata(store, format, paths.join(group, path))
        if own and not (path in entries and consolidated.is_same(entries[path], own)):
            found[path] = own
    parent = new.rpartition("/")[0]
    parent_path = paths.join(group, parent)
    names = format.children(parent_path, *list_dir(store, format.listing(parent_path)))
    listed = {paths.join(parent, name) for name in names}
    known = {path for path in entries if path and path.rpartition("/")[0] == parent}
    for path in sorted((listed ^ known) - {new}):
        nodes = dict(_walk_metadata(store, format, group, path))
        if nodes or path in known:
            found |= nodes or {path: {}}
    return found


def _walk_metadata(
    store: Store, format: Format, group: str, path: str
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the path and metadata of a node and of all readable nodes below it."""
    full_path = paths.join(group, path)
    own = _fetch_metadata(store, format, full_path)
    try:
        node = format.read(path, {paths.prefix(path) + n: text for n, text in own.items()}, [])
    except InvalidMetadata:
        return
    if node is not None:
        yield path, own
    if isinstance(node, GroupModel):
        for name in format.children(full_path, *list_dir(store, format.listing(full_path))):
            yield from _walk_metadata(store, format, group, paths.join(path, name))


def _fetch_metadata(store: Store, format: Format, path: str) -> dict[str, bytes]:
    return {paths.name(key): text for key, text in get_existing(store, format.keys(path)).items()}
