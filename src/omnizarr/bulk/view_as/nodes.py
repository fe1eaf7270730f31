"""The nodes of a hierarchy as another format has them, made from the stored ones when asked for.

For every request the stored metadata are read again, so that a change is noticed at once. What was
made from them is remembered with them, or with a digest of all that was read for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

from omnizarr import registry
from omnizarr.bulk.adaptation import Options, adapt_array
from omnizarr.bulk.view_as.chunks import ViewedArray, unpacked
from omnizarr.errors import (
    CannotExpress,
    InvalidMetadata,
    NodeNotFound,
    OmnizarrError,
    StoreError,
    error_context,
)
from omnizarr.extension import (
    ArrayModel,
    BoundArray,
    Documents,
    Format,
    GroupModel,
    Location,
    Node,
    Store,
    WrapperStore,
    can_list,
    consolidated,
    find_node,
    get_existing,
    paths,
    traits,
    walk_nodes,
)

# Conventions are above this module in the layers, so OME-Zarr is found by its registered name.
registry.register("integration", "ome-view", "omnizarr.conventions.ome.migrate:for_view")

MAX_CACHED = 256  # arrays, and nodes whose metadata are
MAX_DOCUMENT = 2**16  # bytes of the stored metadata of such an array
MAX_MADE = 2**24  # bytes of the metadata of all such nodes
T = TypeVar("T")


class Recorder(WrapperStore):
    """A store that takes a digest of everything that is read from it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, read_only=True)
        self._digest = blake2b(digest_size=16)
        # Which keys are read, and how they are understood, depends on these.
        below = traits(inner)
        self.traits = replace(self.traits, low_latency=below.low_latency, separator=below.separator)

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        found = run()
        self._digest.update(repr((operation, keys, found)).encode("utf-8", "surrogatepass"))
        return found

    def digest(self) -> bytes:
        """Return a digest of all requests so far, and of what they returned."""
        return self._digest.digest()


@dataclass
class Nodes:
    """The nodes of a hierarchy, at and below a path of a store, as another format has them.

    Paths are those of the view: its root is the node at the path of the store.
    """

    store: Store
    path: str
    goal: Format
    _start: Location | None = None
    _arrays: dict[str, tuple[Documents, ViewedArray]] = field(default_factory=dict)
    _made: dict[tuple[str, str], tuple[bytes, Documents]] = field(default_factory=dict)
    _size: int = 0  # bytes that were made since nothing was remembered

    def open(self) -> Location:
        """Detect the format of the hierarchy, and return the location of its root."""
        location = self._detect(self.store)
        known = self._start
        if known is None or type(known.format) is not type(location.format):
            self._arrays = {}
        self._start, self.path = location, location.path
        return location

    def _detect(self, store: Store) -> Location:
        location, _ = find_node(store, self.path, read_only=True, use_consolidated=None)
        return location

    # Metadata

    def documents(self, path: str, *, consolidate: bool = True) -> Documents:
        """Return the metadata of a node by key; none if there is no such node.

        Those of a group have consolidated metadata if `consolidate` says so. Raise if the node
        cannot be read, or if the other format cannot express it.
        """
        recorder = Recorder(self.store)
        found = self._find(recorder, path)
        if found is None:
            return {}
        location, node = found
        consolidate = consolidate and isinstance(node, GroupModel)
        below = self._below(location, node) if consolidate else None
        nodes = self._translate(location, below or {path: node})

        def make() -> Documents:
            shown, documents = self._shown(location, path, nodes[path])
            if below is not None and isinstance(shown, GroupModel):
                documents |= self._consolidated(location, path, shown, nodes)
            return documents

        return self._remember(("all" if consolidate else "own", path), recorder, make)

    def kind(self, path: str) -> str | None:
        """Return "array" or "group"; None where no node is, or only one that cannot be shown."""
        with suppress(OmnizarrError):
            found = self._find(self.store, path)
            if found is not None:
                location, node = found
                self._shown(location, path, self._translate(location, {path: node})[path])
                return node.kind
        return None

    def members(self, path: str) -> Mapping[str, str]:
        """Return the names and kinds of those members of a group that the other format can have."""
        recorder = Recorder(self.store)
        found = self._find(recorder, path)
        if found is None or not isinstance(found[1], GroupModel):
            return {}
        location, _ = found
        children = {
            paths.join(path, name): child
            for name, child in sorted(location.children().items())
            if not isinstance(child, Exception)
        }
        nodes = self._translate(location, children)

        def make() -> Documents:
            shown = ((p, self._shown_or_none(location, p, node)) for p, node in nodes.items())
            return {paths.name(p): node.kind.encode() for p, node in shown if node is not None}

        made = self._remember(("members", path), recorder, make)
        return {name: kind.decode() for name, kind in made.items()}

    def _remember(
        self, what: tuple[str, str], recorder: Recorder, make: Callable[[], Documents]
    ) -> Documents:
        """Return what `make` returns, or has returned when the same was read from the store."""
        digest = recorder.digest()
        known = self._made.get(what)
        if known is not None and known[0] == digest:
            return known[1]
        found = make()
        size = sum(map(len, found.values()))
        self._size += size
        if self._size > MAX_MADE or len(self._made) >= MAX_CACHED:
            self._made, self._size = {}, size
        if size <= MAX_MADE:
            self._made[what] = digest, found
        return found

    def _find(self, store: Store, path: str) -> tuple[Location, Node] | None:
        """Return the node that is stored, or None if there is none; raise if it cannot be read."""
        try:
            start = self._detect(store)
        except NodeNotFound:  # all of it was erased
            return None
        location = start.child(path)
        node = location.find([]) if location.path == paths.join(start.path, path) else None
        return None if node is None else (location, node)

    def _below(self, location: Location, node: Node) -> dict[str, Node] | None:
        """Return all readable nodes at and below a group; None if they cannot be found."""
        start = len(paths.prefix(self.path))
        try:
            found = [*walk_nodes(location, node, whole=False)]
        except InvalidMetadata:  # it is too deep
            return None
        except StoreError:
            if can_list(self.store):
                raise
            return None
        return {at.path[start:]: one for at, one in found if not isinstance(one, Exception)}

    def _translate(
        self, location: Location, nodes: Mapping[str, Node]
    ) -> dict[str, Node | OmnizarrError]:
        """Return nodes below a location, by their paths in the view, as conventions have them.

        OME-Zarr has another version for each Zarr version, whose metadata are in groups above.
        """
        if location.format.name == self.goal.name:
            return dict(nodes)
        start = self.path
        several = self._above(location)
        several |= {paths.join(start, path): node for path, node in nodes.items()}
        changed, failures = registry.lookup("integration", "ome-view")(location, several, self.goal)
        found: dict[str, Node | OmnizarrError] = {}
        for path in nodes:
            full = paths.join(start, path)
            failed = [f for f in failures if full == f or full.startswith(paths.prefix(f))]
            found[path] = failures[failed[0]] if failed else changed[full]
        return found

    def _above(self, location: Location) -> dict[str, Node]:
        """Return the groups from the root of the view to a location, by their stored paths."""
        every = [p for p in paths.ancestors(location.path) if len(p) >= len(self.path)]
        every.append(location.path)
        documents = get_existing(
            self.store, dict.fromkeys(key for p in every for key in location.format.keys(p))
        )
        found: dict[str, Node] = {}
        for path in every:
            with suppress(InvalidMetadata):
                node = location.format.read(path, documents, [])
                if isinstance(node, GroupModel):
                    found[path] = node
        return found

    def _shown(
        self, location: Location, path: str, node: Node | OmnizarrError
    ) -> tuple[Node, dict[str, bytes]]:
        """Return a node in the other format, and its metadata by key."""
        where = f"{location} cannot be shown as zarr {self.goal.name}"
        if isinstance(node, OmnizarrError):
            raise CannotExpress(f"{where}: {node}") from node
        with error_context(where):
            self.goal.check_name(path)
            shown: Node
            if isinstance(node, ArrayModel):
                shown = self._adapted(location, path, node).model
            else:
                same = location.format.name == self.goal.name
                shown = GroupModel(node.attributes, node.extra if same else {})
            written = self.goal.write(path, shown)
        return shown, {key: text for key, text in written.items() if text is not None}

    def _adapted(self, location: Location, path: str, node: ArrayModel) -> ViewedArray:
        prefix = location.format.chunk_prefix(location.path)
        source = BoundArray(location.store, location.path, prefix, node)
        source.check()
        same = location.format.name == self.goal.name
        names = node.dimension_names
        if self.goal.names_in_attributes and names is not None and None in names:
            source = source.reshaped(node.with_(dimension_names=None))  # it has all or none
        # Few readers know the checksums of version 2, but its own are left as they are.
        options = Options(
            separator=None if same else "/",
            checksum=same,
            same_format=same,
            codecs="portable",
            well_known=not same,
            n5_blocks=True,
            makes_chunks=True,
        )
        if not same:
            source = unpacked(source)
        adapted = adapt_array(source, self.goal, options)
        return ViewedArray(adapted, location.store, path, self.goal)

    def _shown_or_none(
        self, location: Location, path: str, node: Node | OmnizarrError
    ) -> Node | None:
        try:
            return self._shown(location.at(paths.join(self.path, path)), path, node)[0]
        except OmnizarrError:
            return None

    def _consolidated(
        self,
        location: Location,
        path: str,
        group: GroupModel,
        nodes: Mapping[str, Node | OmnizarrError],
    ) -> dict[str, bytes]:
        """Return consolidated metadata by key, without nodes that cannot be shown."""
        key = consolidated.key(self.goal, path)
        hidden: str | None = None
        inside: list[tuple[str, dict[str, bytes]]] = []
        for at, node in nodes.items():
            if hidden is not None and at.startswith(hidden):
                continue
            try:
                _, documents = self._shown(location.at(paths.join(self.path, at)), at, node)
            except OmnizarrError:
                hidden = paths.prefix(at)
                continue
            below = at[len(paths.prefix(path)) :]
            inside.append((below, {paths.name(name): text for name, text in documents.items()}))
        inside.sort(key=lambda item: paths.prefix(item[0]))
        return {key: b"".join(consolidated.parts(self.goal, group, inside))} if key else {}

    # Arrays

    def array(self, key: str) -> ViewedArray | None:
        """Return the array that has a chunk at a key of the view, or None if there is none.

        Raise if it cannot be read, or if the other format cannot express it.
        """
        known = self.known(key)
        if known is not None and get_existing(self.store, known[0]) == known[1]:
            return known[2]
        start = self._start or self.open()
        above = paths.ancestors(key)
        found, documents = self._search(start, above)
        if found is None:
            try:
                start = self.open()  # another format may have come in its place
            except NodeNotFound:
                return None
            found, documents = self._search(start, above)
        if found is None:
            return None
        path, node = found
        location = start.child(path)
        with error_context(f"{location} cannot be shown as zarr {self.goal.name}"):
            self.goal.check_name(path)
            array = self._adapted(location, path, node)
        if documents and sum(map(len, documents.values())) <= MAX_DOCUMENT:
            if len(self._arrays) >= MAX_CACHED:
                self._arrays = {}
            self._arrays[path] = documents, array
        return array

    def known(self, key: str) -> tuple[list[str], Documents, ViewedArray] | None:
        """Return the array of a key if it is remembered, with the keys of its metadata and them.

        It is right if the metadata are still the same.
        """
        start, arrays = self._start, self._arrays
        for path in paths.ancestors(key) if start is not None else ():
            found = arrays.get(path)
            if start is not None and found is not None:
                return self._keys(start, path), *found
        return None

    def _keys(self, start: Location, path: str) -> list[str]:
        return [*start.format.keys(start.child(path).path)]

    def _stored(self, start: Location, several: Iterable[str]) -> dict[str, bytes]:
        keys = [key for path in several for key in self._keys(start, path)]
        return get_existing(self.store, dict.fromkeys(keys))

    def _search(
        self, start: Location, above: list[str]
    ) -> tuple[tuple[str, ArrayModel] | None, Mapping[str, bytes]]:
        """Return the array among some paths, and its metadata; raise if that cannot be read."""
        possible = [
            path for path in above if start.child(path).path == paths.join(start.path, path)
        ]
        documents = self._stored(start, possible)
        failure: OmnizarrError | None = None
        for path in reversed(possible):
            location = start.child(path)
            own = {key: documents[key] for key in self._keys(start, path) if key in documents}
            try:
                node: Node | None = location.format.read(location.path, own, [])
                if node is None and not own and location.consolidated is not None:
                    node = location.consolidated.node(location.path)
            except OmnizarrError as e:
                failure = failure or e
                continue
            if isinstance(node, ArrayModel):
                return (path, node), own
        if failure is not None:
            raise failure
        return None, {}
