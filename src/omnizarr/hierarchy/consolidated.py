"""Consolidated metadata of groups: used to open nodes, and updated when nodes change.

Other libraries change nodes without updating consolidated metadata, so entries may be stale,
missing, or of erased nodes; `validate` finds them, `consolidate_metadata` makes all of them anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from omnizarr import stores
from omnizarr.concurrency import key_locks
from omnizarr.concurrency.retry import AnswerLost
from omnizarr.errors import InvalidMetadata, NodeNotFound, StoreError
from omnizarr.formats import Documents, Format, consolidated
from omnizarr.model import GroupModel, Node, paths
from omnizarr.publish.stage import epoch
from omnizarr.stores import Store
from omnizarr.stores.base import LockKind

if TYPE_CHECKING:
    from omnizarr.hierarchy.location import Location

BATCH = 1000  # nodes whose metadata are fetched at once
_STALE = ", so its consolidated metadata may be out of date; call consolidate_metadata again"
_counter = itertools.count(1)


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
        fetched: Mapping[str, bytes] | None = None,
    ) -> None:
        """`fetched` are values by key that were just fetched, of all keys if `requested`."""
        self.requested = requested
        self.trusted: bool = False
        self._fetched = epoch[0], fetched or {}
        self._store, self._path, self._format = store, path, format
        self._key = consolidated.key(format, path, name)
        self._read_at = -1  # the value of `epoch` when they were read
        self.data: bytes | None = None  # as they are stored
        self._entries: consolidated.Entries | None = None
        self._nodes: dict[str, Node | None] = {}
        self._names: dict[str, list[str]] | None = None  # of members by path

    def __getstate__(self) -> dict[str, Any]:
        # Another process counts other changes.
        return {**self.__dict__, "_read_at": -1, "_fetched": (-1, {})}

    def trust(self) -> None:
        """Do not compare arrays with their own metadata where each takes a slow request."""
        self.trusted = not stores.traits(self._store).low_latency

    def load(self) -> bool:
        """Read them if a node may have changed since; return True if there are any."""
        if self._read_at == epoch[0] or self._key is None:
            return self._entries is not None
        read_at = epoch[0]
        (at, fetched), self._fetched = self._fetched, (-1, {})
        known = at == read_at and (self.requested or self._key in fetched)
        data = fetched.get(self._key) if known else self._store.get(self._key)
        if data != self.data or self._read_at < 0:
            entries = None if data is None else consolidated.read(self._format, data, self._key)
            self.data, self._entries, self._nodes, self._names = data, entries, {}, None
        self._read_at = read_at
        return self._entries is not None

    def node(self, path: str) -> Node | None:
        """Return the node at a path of the store, or None if there is no valid entry for it."""
        if not self.load() or not self._covers(path):
            return None
        relative = path[len(paths.prefix(self._path)) :]
        if relative not in self._nodes:
            entry = None if self._entries is None else self._entries.get(relative)
            found = None
            if entry is not None:
                with suppress(InvalidMetadata):  # the node's own metadata are read instead
                    found = consolidated.node(self._format, relative, entry)
            self._nodes[relative] = found
        return self._nodes[relative]

    def children(self, path: str) -> dict[str, Node | None] | None:
        """Return the nodes one level below a path, None for an invalid one; or None without any."""
        if not self.load() or not self._covers(path):
            return None
        if self._names is None:
            self._names = {}
            for each in self._entries or ():
                parent, _, name = each.rpartition("/")
                if name:
                    self._names.setdefault(parent, []).append(name)
        names = self._names.get(path[len(paths.prefix(self._path)) :], ())
        return {name: self.node(paths.join(path, name)) for name in names}

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


def mark_changed() -> None:
    """Make every `ConsolidatedMetadata` of this process read again before its next use."""
    epoch[0] = next(_counter)


def has_consolidated(store: Store, path: str, format: Format) -> bool:
    """Return True if the group at a path, or one above, has consolidated metadata."""
    found = stores.get_existing(store, consolidated.holders(format, path))
    return any(consolidated.read(format, data, key) is not None for key, data in found.items())


def consolidated_formats(store: Store, path: str, format: Format) -> list[Format]:
    """Return a format, and others that have consolidated metadata at or above a path."""
    others = consolidated.other_formats(format)
    return [format, *(each for each in others if has_consolidated(store, path, each))]


def fetch_groups(store: Store, path: str, format: Format) -> dict[str, bytes] | None:
    """Return the metadata of all groups above; None if one is missing or not valid."""
    keys = consolidated.keys_above(format, path)
    found = {key: data for key in keys if (data := store.get(key)) is not None}
    try:
        for above in paths.ancestors(path):
            if not isinstance(format.read(above, found, []), GroupModel):
                return None
    except InvalidMetadata:
        return None
    return found


def update_consolidated(
    store: Store,
    format: Format,
    nodes: Mapping[str, Mapping[str, bytes | None] | None],
    above: Documents | None = None,
) -> None:
    """Update the consolidated metadata of all groups at and above some nodes.

    `nodes`: metadata, None if erased; `above`: the documents of those groups, if known.
    """
    mark_changed()
    if above is None:
        keys = dict.fromkeys(key for path in nodes for key in consolidated.holders(format, path))
        above = stores.get_existing(store, keys) if keys else {}
    holders = consolidated.present_holders(format, nodes, above)
    del above  # which may be large
    for key, group in holders.items():
        start = paths.prefix(group)
        changed = {
            path[len(start) :]: {paths.name(k): v for k, v in (new or {}).items() if v is not None}
            for path, new in nodes.items()
            if path == group or path.startswith(start)
        }
        update = partial(_updated, format, key, changed)
        try:
            with lock_consolidated(store, format, key, group):
                stores.update_value(store, key, update, _STALE)
        except AnswerLost:
            raise
        except StoreError as e:
            raise StoreError(
                f"{paths.show(next(iter(nodes)))} in {store!r} was changed, but not its copy in the"
                f" consolidated metadata {key!r}: {e}; call consolidate_metadata"
            ) from e
        mark_changed()


@contextmanager
def lock_consolidated(store: Store, format: Format, key: str, group: str) -> Iterator[None]:
    """Keep other threads and processes from changing the consolidated metadata of a group."""
    kind: LockKind = "documents" if key in format.keys(group) else "copies"
    processes = stores.lock(store, paths.prefix(group), [key], kind)
    with key_locks.locked(key_locks.METADATA, [key]), processes:
        yield


def _updated(
    format: Format, key: str, nodes: Mapping[str, Documents], data: bytes | None
) -> bytes | None:
    """Return the stored consolidated metadata `data` with the entries of some nodes updated."""
    entries = None if data is None else consolidated.read_valid(format, data, key)
    if data is None or entries is None:
        return data
    return consolidated.changed(format, entries, nodes)


# Consolidating the metadata of a group


def collect(location: Location, key: str, stored: bytes | None) -> bytes | None:
    """Return the consolidated metadata of a group; `stored` itself if nothing has changed."""
    store, format, path = location.store, location.format, location.path
    own = stores.get_existing(store, [k for k in format.keys(path) if k != key])
    if stored is not None and key in format.keys(path):
        own[key] = stored
    group = format.read(path, own, [])
    if not isinstance(group, GroupModel):
        raise NodeNotFound(f"there is no group at {location}")
    made = b"".join(consolidated.parts(format, group, _own_metadata(location, own)))
    return stored if made == stored else made


def _own_metadata(
    location: Location, documents: Mapping[str, bytes], relative: str = ""
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the paths of a group and of all readable nodes below it, and their documents."""
    format = location.format
    yield relative, {paths.name(key): documents[key] for key in documents}
    below = paths.prefix(relative)
    every = sorted(location.child_names(), key=paths.prefix)
    for first in range(0, len(every), BATCH):
        for name, own in location.child_documents(every[first : first + BATCH]).items():
            try:
                node = format.read(paths.join(location.path, name), own, [])
            except InvalidMetadata:
                continue
            if node is None:
                continue
            if format.name_warning(name) is not None:
                location.child(name).warn_of_name()
            if isinstance(node, GroupModel):
                yield from _own_metadata(location.child(name), own, below + name)
            else:
                yield below + name, {paths.name(key): text for key, text in own.items()}
