"""Consolidated metadata: used when opening, updated when nodes change.

Other libraries change nodes without renewing any copy, so that those of the groups above a new
node may be old, and neighbours may be missing, or gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from omnizarr.concurrency import key_locks
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.errors import InvalidMetadata, warn
from omnizarr.formats import Documents, Format, consolidated
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import SetsIf, Store, Versioned, can_list, get_existing, list_dir, lock
from omnizarr.stores.base import LockKind

LARGEST = 2**20  # bytes of copies that are renewed with every change of a node
_counter = itertools.count(1)
_changes = 0  # another number after every change of a node by this process


class Copies:
    """What one group says about the nodes below it, read again after this process changed any.

    `asked` is whether the user wants nodes from the copies; else they serve only to list where a
    store cannot, and for nodes that have no documents of their own.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        format: Format,
        *,
        asked: bool = False,
        name: str | None = None,
    ) -> None:
        self.asked = asked
        self._store, self._path, self._format = store, path, format
        self._key = consolidated.key(format, path, name)
        self._seen = -1
        self._data: bytes | None = None
        self._entries: consolidated.Entries | None = None
        self._nodes: dict[str, Node | None] = {}
        self._names: dict[str, list[str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": -1}  # another process has made other changes

    def look(self, documents: Mapping[str, bytes] | None = None) -> bool:
        """Whether there are copies; `documents` are what was fetched already."""
        if self._seen == _changes or self._key is None:
            return self._entries is not None
        seen = _changes
        found = get_existing(self._store, [self._key]) if documents is None else documents
        data = found.get(self._key)
        if data != self._data or self._seen < 0:
            entries = None if data is None else consolidated.read(self._format, data, self._key)
            self._data, self._entries, self._nodes, self._names = data, entries, {}, {}
            for path in entries or ():
                parent, _, name = path.rpartition("/")
                if name:
                    self._names.setdefault(parent, []).append(name)
        self._seen = seen
        return self._entries is not None

    def node(self, path: str) -> Node | None:
        """The node at a path of the store, or None where the copies do not tell."""
        if not self.look() or not self._covers(path):
            return None
        inside = path[len(paths.prefix(self._path)) :]
        if inside not in self._nodes:
            entry = (self._entries or {}).get(inside)
            self._nodes[inside] = None if entry is None else self._read(inside, entry)
        return self._nodes[inside]

    def children(self, path: str) -> dict[str, Node | None] | None:
        """The nodes one level below a path by name, None where a copy is not valid.

        None where the copies do not tell.
        """
        if not self.look() or not self._covers(path):
            return None
        inside = path[len(paths.prefix(self._path)) :]
        return {name: self.node(paths.join(path, name)) for name in self._names.get(inside, ())}

    def all(self, path: str) -> dict[str, Node] | None:
        """Every node below a path, by what is left of its own; None where there are no copies."""
        if not self.look() or not self._covers(path):
            return None
        start = paths.prefix(path)
        every = (paths.join(self._path, inside) for inside in self._entries or ())
        found = {p[len(start) :]: self.node(p) for p in every if p.startswith(start) and p != path}
        return {inside: node for inside, node in found.items() if node is not None}

    def gave(self, path: str, node: Node) -> bool:
        """Whether a node is one that the copies tell of."""
        return self._nodes.get(path[len(paths.prefix(self._path)) :]) is node

    def _covers(self, path: str) -> bool:
        return path == self._path or path.startswith(paths.prefix(self._path))

    def _read(self, inside: str, entry: consolidated.Entry) -> Node | None:
        try:
            return consolidated.node(self._format, inside, entry)
        except InvalidMetadata:
            return None  # the node's own documents tell


def note_change() -> None:
    """Let every `Copies` of this process be read again before it is next used."""
    global _changes
    _changes = next(_counter)


def has_copies(store: Store, path: str, format: Format) -> bool:
    """Whether a group at a path or above keeps copies."""
    found = get_existing(store, consolidated.holders(format, path))
    return any(consolidated.read(format, data, key) is not None for key, data in found.items())


def keep_right(
    store: Store,
    format: Format,
    nodes: Mapping[str, Mapping[str, bytes | None] | None],
    around: Mapping[str, bytes] | None = None,
) -> None:
    """Bring the copies of nodes in line with their documents, None where one was erased.

    Large copies are dropped, unless the store cannot list and they could not be made again.
    `around` are documents that were fetched before, for a new node; a key that is not in it is
    not there. Copies of the groups above such a node, and of its neighbours, are then brought in
    line too: other libraries do not renew any.
    """
    note_change()
    created = around is not None
    groups = {k: g for path in nodes for k, g in consolidated.holders(format, path).items()}
    if not groups:
        return
    around = get_existing(store, groups) if around is None else around
    for key, group in groups.items():
        if key in around and consolidated.has_copies(format, around[key], key):
            start = paths.prefix(group)
            mine = {
                path[len(start) :]: _by_name(documents)
                for path, documents in nodes.items()
                if path == group or path.startswith(start)
            }
            new = next(iter(mine)) if created and can_list(store) else ""
            around_new = partial(stale_around, store, format, group, new=new) if new else None
            with changing(store, format, key, group):
                _renew(store, format, key, mine, around_new)
            note_change()


@contextmanager
def changing(store: Store, format: Format, key: str, group: str) -> Iterator[None]:
    """Keep others from changing a group's copies, in a document of its own or of theirs."""
    kind: LockKind = "documents" if key in format.keys(group) else "copies"
    with key_locks.locked(key_locks.METADATA, [key]), lock(store, paths.prefix(group), [key], kind):
        yield


def _by_name(documents: Mapping[str, bytes | None] | None) -> dict[str, bytes]:
    return {paths.name(k): text for k, text in (documents or {}).items() if text is not None}


def _renew(
    store: Store,
    format: Format,
    key: str,
    nodes: Mapping[str, Documents],
    others: Callable[[consolidated.Entries], Mapping[str, Documents]] | None = None,
) -> None:
    """Store the copies as they should be, on top of what other writers stored just now.

    `others` finds more nodes whose copies are not right.
    """

    def attempt() -> None:
        generation = store.generation(key) if isinstance(store, Versioned) else None
        data = store.get(key)
        if data is None or not consolidated.has_copies(format, data, key):
            return
        wrong = nodes
        if others is not None and len(data) <= LARGEST:
            wrong = {**others(consolidated.read(format, data, key) or {}), **nodes}
        text = _renewed(store, format, key, data, wrong)
        if text is None:
            store.erase(key)
        elif not isinstance(store, SetsIf) or not isinstance(store, Versioned):
            store.set(key, text)
        elif not store.set_if(key, text, generation):
            raise Overtaken(f"{key!r} in {store!r}")

    consequence = (
        ", so its consolidated metadata may be out of date; call consolidate_metadata again"
    )
    retry_conflicts(attempt, consequence)


def _renewed(
    store: Store, format: Format, key: str, data: bytes, nodes: Mapping[str, Documents]
) -> bytes | None:
    if len(data) <= LARGEST or not can_list(store):
        return consolidated.changed(format, data, key, nodes)
    warn(
        f"{next(iter(nodes))!r} was changed, so the consolidated metadata in {key!r} of {store!r}"
        " were dropped; call consolidate_metadata again when done",
    )
    return consolidated.dropped(format, data, key)


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
    return {paths.name(key): text for key, text in get_existing(store, format.keys(path)).items()}
