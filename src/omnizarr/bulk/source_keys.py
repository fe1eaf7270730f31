"""The keys of a hierarchy: listed, or made from its metadata; all of them, or some by patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from omnizarr import extension
from omnizarr.errors import InvalidMetadata, NodeNotFound, warn
from omnizarr.extension import ArrayModel, Location, Node, Probe, Store, paths, stage, stores


def formats_at(start: Location) -> list[extension.Format]:
    """Return the formats with metadata at a location, its own first.

    A conversion in place leaves the metadata of the old format beside the new.
    """
    probe = Probe(start.path)
    found = probe.formats(extension.lookup.fetch_probe(start.store, probe), [])
    return [start.format, *(f for f in found if type(f) is not type(start.format))]


def prefixes_of(key: str) -> Iterator[str]:
    """Yield the prefixes that contain a key, the innermost first, the empty one last."""
    end = len(key)
    while (end := key.rfind("/", 0, end)) >= 0:
        yield key[: end + 1]
    yield ""


def lists_all(store: Store, path: str) -> bool:
    """Return True if a store lists all keys below a path that it has."""
    if not stores.can_list(store):
        return False
    if extension.traits(store).lists_all:
        return True
    # Such a store may list everything, or metadata only: a chunk shows which.
    for key, _ in _possible_keys(store, path, documents=False):
        if store.get(key) is not None:
            return any(entry.key == key for entry in stores.list_entries(store, paths.prefix(path)))
    return True


def source_keys(store: Store, path: str, listed: bool) -> Iterator[stores.Entry]:
    """Yield all keys below a path, relative to it.

    Where not all are `listed`, they are all that the nodes may have by their metadata, whether or
    not there is a value. Files of writers, which are no values, are left out, but raise if they
    show that a node may be absent (`check_whole`).
    """
    skip = len(paths.prefix(path))
    if listed:
        for entry in stores.list_entries(store, paths.prefix(path)):
            if not paths.is_ours(entry.key):
                yield entry._replace(key=entry.key[skip:]) if skip else entry
            elif entry.key.endswith(f"/{stage.PLAN}") and f"/{stage.FOLDER}/" in f"/{entry.key}":
                inner = entry.key.partition(stage.FOLDER)[0]
                whole = extension.PrefixStore(store, inner[:-1]) if inner else store
                extension.check_whole(whole, "")
        return
    for key, _ in _possible_keys(store, path):
        yield stores.Entry(key[skip:])


def source_state(store: Store, path: str) -> str:
    """Return a digest of the keys, sizes, times and ETags of all values below a path.

    It differs after any of them was changed, as far as the store knows: databases list only sizes,
    and web servers nothing.
    """
    if not stores.can_list(store):
        return ""
    digest = blake2b(digest_size=16)
    for entry in sorted(source_keys(store, path, True)):
        digest.update(repr(tuple(entry)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _possible_keys(store: Store, path: str, documents: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the keys that may exist, each with the path of its node."""
    start, root = extension.find_node(store, path, use_consolidated=None)
    for location, node in extension.walk_nodes(start, root):
        if documents:
            keys = [*location.format.keys(location.path)]
            more = extension.consolidated.key(location.format, location.path)
            keys += () if location.path else location.format.root_documents()
            keys += () if more is None else (more,)
            yield from ((key, location.path) for key in dict.fromkeys(keys))
        if not isinstance(node, ArrayModel):
            continue
        prefix = location.format.chunk_prefix(location.path)
        array = extension.BoundArray(store, location.path, prefix, node)
        last = None
        for coords in itertools.product(*map(range, array.grid.shape)):
            key = array.stored_key(coords)
            if key != last:  # several chunks of the draft may be in one value
                yield key, location.path
            last = key


@dataclass
class Selection:
    """The keys of a hierarchy that patterns choose."""

    include: paths.Patterns
    exclude: paths.Patterns
    has_include: bool
    documents: Mapping[str, str] = field(default_factory=dict)  # keys of metadata to node paths
    prefixes: Mapping[str, str] = field(default_factory=dict)  # of chunks to node paths
    parents: frozenset[str] = frozenset()  # groups above included nodes
    _known: dict[str, tuple[bool, bool]] = field(default_factory=dict)

    def has(self, key: str) -> bool:
        """Return True if a key is chosen."""
        path, is_chunk = self._node_of(key)
        included, excluded = self._match_node(path)
        if excluded or self.exclude.match_key(key, is_chunk):
            return False
        if not self.has_include or included or self.include.match_key(key, is_chunk):
            return True
        return key in self.documents and path in self.parents

    def _node_of(self, key: str) -> tuple[str, bool]:
        """Return the path of the node that a key belongs to, and True for a key inside an array."""
        if key in self.documents:
            return self.documents[key], False
        for prefix in prefixes_of(key):
            if prefix in self.prefixes:
                return self.prefixes[prefix], not extension.is_metadata(key)
        return key.rpartition("/")[0], False

    def _match_node(self, path: str) -> tuple[bool, bool]:
        if path not in self._known:
            self._known[path] = self.include.match_node(path), self.exclude.match_node(path)
        return self._known[path]


def select(
    store: Store, path: str, include: Iterable[str], exclude: Iterable[str]
) -> Selection | None:
    """Return the selection of keys below a path; None for all of them.

    Nodes are found by their metadata. Where there is no hierarchy, folders count as groups.
    """
    wanted, unwanted = paths.Patterns.of(include), paths.Patterns.of(exclude)
    has_include = bool(wanted.names or wanted.whole)
    if not has_include and not unwanted.names and not unwanted.whole:
        return None
    nodes = [*_nodes(store, path)]
    documents = {key: name for name, keys, _, _ in nodes for key in keys}
    prefixes = {prefix: name for name, _, prefix, node in nodes if isinstance(node, ArrayModel)}
    parents = {
        parent
        for name, _, _, _ in nodes
        if wanted.match_node(name) and not unwanted.match_node(name)
        for parent in ("", *paths.ancestors(name))
    }
    return Selection(wanted, unwanted, has_include, documents, prefixes, frozenset(parents))


def chunk_prefixes(store: Store, path: str) -> dict[str, ArrayModel]:
    """Return all arrays below a path by the prefixes of their chunks, relative to it."""
    found = ((prefix, node) for _, _, prefix, node in _nodes(store, path))
    return {prefix: node for prefix, node in found if isinstance(node, ArrayModel)}


def _nodes(store: Store, path: str) -> Iterator[tuple[str, list[str], str, object]]:
    """Yield nodes by relative path, with the keys of their metadata and the prefix of chunks."""
    try:
        start, root = extension.find_node(store, path, use_consolidated=None)
    except (NodeNotFound, InvalidMetadata):  # bytes are copied all the same
        return
    skip = len(paths.prefix(path))
    for location, node in extension.walk_nodes(start, root):
        keys = [*location.format.keys(location.path)]
        if not location.path:
            keys += location.format.root_documents()
        prefix = location.format.chunk_prefix(location.path)
        yield location.path[skip:], [k[skip:] for k in keys], prefix[skip:], node


def warn_of_other_keys(location: Location, nodes: Mapping[str, Node]) -> list[str]:
    """Warn of data in groups that belongs to no node, and return its keys and prefixes.

    `nodes` are all nodes at and below a location by relative path. Arrays are not searched.
    """
    found = [
        entry
        for path, node in nodes.items()
        if isinstance(node, extension.GroupModel)
        for entry in _other_keys(location.at(paths.join(location.path, path)), path, nodes)
    ]
    if found:
        some = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
        warn(f"left out, since it is not Zarr: {some} in {location.store!r}")
    return found


def _other_keys(group: Location, path: str, nodes: Mapping[str, Node]) -> Iterator[str]:
    keys, prefixes = stores.list_dir(group.store, group.format.listing(group.path))
    yield from (key for key in keys if not paths.is_ours(key) and not extension.is_metadata(key))
    for prefix in prefixes:
        name = paths.name(prefix[:-1])
        if paths.is_ours(name) or paths.join(path, name) in nodes:
            continue
        if any(stores.list_prefix(group.store, prefix)):  # no empty directory
            yield prefix
