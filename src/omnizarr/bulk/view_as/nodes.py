"""The nodes of a hierarchy as another format has them, made from the stored ones when asked for.

For every request the stored metadata are read again, so that a change is noticed at once. Chunks
keep their stored bytes where the other format can describe them; chunks inside shards are chunks of
their own where it has no shards. Others are decoded and encoded again, one at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from omnizarr import errors, extension, registry
from omnizarr.bulk.adaptation import Adaptation, Options, adapt_array
from omnizarr.bulk.tiles import chunk_bytes
from omnizarr.bulk.transfer import Transfer, recode
from omnizarr.errors import CannotExpress, NodeNotFound, OmnizarrError, StoreError, error_context
from omnizarr.extension import BoundArray, GroupModel, Location, Node, engine, paths, stores

# Conventions are above this module in the layers, so OME-Zarr is found by its registered name.
registry.register("integration", "ome-view", "omnizarr.conventions.ome.migrate:for_view")

MAX_CACHED = 256  # arrays
Coords: TypeAlias = tuple[int, ...]


def unpacked(array: BoundArray) -> BoundArray:
    """Return an array without shards whose chunks are the inner chunks of a sharded array.

    It is the array itself if it has no shards, or if their chunks cannot be copied unchanged:
    because the axes are transposed before, the shards differ in size or are compressed once more.
    """
    if array.model.storage_transformers:
        model = array.model.with_(storage_transformers=())
        array = BoundArray(array.chunk_store, array.path, array.prefix, model)
    names = [codec.name for codec in array.model.codecs]
    if (
        names != [extension.ShardingIndexed.name]
        or array.grid.regular is None
        or not array.model.shape
    ):
        return array
    codec: Any = extension.bind_codec(array.model.codecs[0], "codecs[0]")
    shards: Any = array.first_pipeline.array_bytes
    store = extension.IndexedShards(array.store, array.prefix, array.encoding, shards.layout)
    grid = extension.Named("regular", {"chunk_shape": list(codec.chunk_shape)})
    model = array.model.with_(chunk_grid=grid, codecs=codec.codecs)
    return unpacked(BoundArray(store, array.path, array.prefix, model))


class ViewedArray:
    """An array in another format, whose chunks come from the array that is stored."""

    def __init__(
        self, adaptation: Adaptation, stored: extension.Store, path: str, format: extension.Format
    ) -> None:
        self.stored = stored  # below all shards
        self.model = adaptation.model
        self.source = adaptation.source
        prefix = format.chunk_prefix(path)
        self.target = BoundArray(self.source.store, path, prefix, self.model)
        changed = adaptation.changed
        self._transfer = Transfer(self.source, self.target, adaptation.method, changed, check=False)
        # True if the stored bytes are those of the view.
        self.keeps_bytes = self._transfer.method == "copy" and not any(changed)
        # True if missing chunks are made, since the fill value of the view is another.
        self.fills = adaptation.fills

    def coords(self, key: str) -> Coords | None:
        """Return the coordinates of the chunk at a key of the view, or None if it is none."""
        inside = key[len(self.target.prefix) :]
        coords = self.target.encoding.coords(inside, len(self.model.shape))
        counts = self.target.grid.shape
        if coords is None or not all(c < n for c, n in zip(coords, counts, strict=True)):
            return None
        return coords

    @cached_property
    def memory_needed(self) -> int:
        """About how many bytes making a chunk needs: its values and their encodings."""
        return 3 * max(chunk_bytes(self.source), chunk_bytes(self.target))

    def direct_key(self, coords: Coords) -> str | None:
        """Return the only key that stores a chunk with the view's bytes, or None."""
        source = self.source
        direct = self.keeps_bytes and source.chunk_store is self.stored
        return source.key(coords) if direct and not source.encoding.other_keys(coords) else None

    # Bytes

    def get(self, coords: Coords, parts: Sequence[stores.Range | None]) -> list[bytes | None]:
        """Return parts of a chunk, each None if the chunk is missing; it is encoded once."""
        if self.keeps_bytes:
            found = self._stored(coords, parts)
            if not self.fills or None not in found:
                return found
        data = self._encoded(coords)
        if data is None:
            return [None] * len(parts)
        return [data if part is None else part.of(data) for part in parts]

    def _stored(self, coords: Coords, parts: Sequence[stores.Range | None]) -> list[bytes | None]:
        source, found = self.source, list[bytes | None]()
        for inside in (source.encoding.key(coords), *source.encoding.other_keys(coords)):
            key = source.prefix + inside
            found = stores.get_many(source.chunk_store, [(key, part) for part in parts])
            if None not in found:
                break
        return found

    def _encoded(self, coords: Coords) -> bytes | None:
        """Return the bytes of a chunk as the view has them, or None if it is missing."""
        if self._transfer.method == "copy":
            stored = self.source.encoded(coords)
            if stored is not None:
                return bytes(recode(self._transfer, coords, stored))
            chunk = None
        else:
            chunk = engine.read_chunk(self.source, coords)
        if chunk is None and self.fills:
            chunk = np.full(self.target.grid.chunk_shape(coords), self.source.fill)
        if chunk is None:
            return None
        with engine.chunk_context("read", self.target, coords):
            values = np.asarray(chunk, self.target.dtype)
            return bytes(self.target.pipeline_at(coords).encode(values))

    # Sizes

    def sizes(self, several: Iterable[Coords]) -> dict[Coords, int]:
        """Return the sizes of existing chunks, which are encoded to find out if need be."""
        wanted = list(several)
        if self.keeps_bytes:
            keys = {self.source.key(coords): coords for coords in wanted}
            known = stores.sizes(self.source.chunk_store, keys)
            found = {keys[key]: size for key, size in known.items()}
            wanted = [c for c in wanted if c not in found]
            if not self.fills:
                wanted = [c for c in wanted if self.source.encoding.other_keys(c)]
        else:
            found = {}
        for coords in wanted:
            [data] = self.get(coords, [None])
            if data is not None:
                found[coords] = len(data)
        return found

    # Listing

    def list_chunks(self) -> Iterator[Coords]:
        """Yield the coordinates of all chunks that exist."""
        if self.fills:
            return np.ndindex(self.target.grid.shape)
        return (coords for coords, _ in extension.stored_keys(self.source))


@dataclass
class Nodes:
    """The nodes of a hierarchy, at and below a path of a store, as another format has them.

    Paths are those of the view: its root is the node at the path of the store.
    """

    store: extension.Store
    path: str
    goal: extension.Format
    _start: Location | None = None
    _arrays: dict[str, tuple[extension.Documents, ViewedArray]] = field(default_factory=dict)

    def open(self) -> Location:
        """Detect the format of the hierarchy, and return the location of its root."""
        location, _ = extension.find_node(
            self.store, self.path, read_only=True, use_consolidated=None
        )
        self._start, self.path = location, location.path
        return location

    # Metadata

    def documents(self, path: str, *, consolidate: bool = True) -> extension.Documents:
        """Return the metadata of a node by key; none if there is no such node.

        Those of a group have consolidated metadata if `consolidate` says so. Raise if the node
        cannot be read, or if the other format cannot express it.
        """
        found = self._find(path)
        if found is None:
            return {}
        location, node = found
        consolidate = consolidate and isinstance(node, GroupModel)
        below = self._below(location, node) if consolidate else None
        nodes = self._translate(location, below or {path: node})
        shown, documents = self._shown(location, path, nodes[path])
        if below is not None and isinstance(shown, GroupModel):
            documents |= self._consolidated(location, path, shown, nodes)
        return documents

    def kind(self, path: str) -> str | None:
        """Return "array" or "group"; None where no node is, or only one that cannot be shown."""
        with suppress(OmnizarrError):
            found = self._find(path)
            if found is not None:
                location, node = found
                self._shown(location, path, self._translate(location, {path: node})[path])
                return node.kind
        return None

    def members(self, path: str) -> Mapping[str, str]:
        """Return the names and kinds of those members of a group that the other format can have."""
        found = self._find(path)
        if found is None or not isinstance(found[1], GroupModel):
            return {}
        location, _ = found
        children = {
            paths.join(path, name): child
            for name, child in sorted(location.children().items())
            if not isinstance(child, Exception)
        }
        members: dict[str, str] = {}
        for each, node in self._translate(location, children).items():
            with suppress(OmnizarrError):
                shown, _ = self._shown(location.at(paths.join(self.path, each)), each, node)
                members[paths.name(each)] = shown.kind
        return members

    def _find(self, path: str) -> tuple[Location, Node] | None:
        """Return the node that is stored, or None if there is none; raise if it cannot be read."""
        try:
            start = self.open()
        except NodeNotFound:  # all of it was erased
            return None
        location = start.child(path)
        node = location.find([]) if location.path == paths.join(start.path, path) else None
        return None if node is None else (location, node)

    def _below(self, location: Location, node: Node) -> dict[str, Node] | None:
        """Return all readable nodes at and below a group; None if they cannot be found."""
        start = location.path[len(paths.prefix(self.path)) :]
        try:
            found = extension.lookup.readable_nodes(location, node)
        except errors.InvalidMetadata:  # it is too deep
            return None
        except StoreError:
            if stores.can_list(self.store):
                raise
            return None
        return {paths.join(start, inside): one for inside, one in found.items()}

    def _translate(
        self, location: Location, nodes: Mapping[str, Node]
    ) -> dict[str, Node | OmnizarrError]:
        """Return nodes below a location, by path in the view, translated for their conventions.

        Each Zarr version needs its own OME-Zarr version, whose metadata are in groups above.
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
        documents = stores.get_existing(
            self.store, dict.fromkeys(key for p in every for key in location.format.keys(p))
        )
        found: dict[str, Node] = {}
        for path in every:
            with suppress(errors.InvalidMetadata):
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
            if isinstance(node, extension.ArrayModel):
                shown = self._adapted(location, path, node).model
            else:
                same = location.format.name == self.goal.name
                shown = GroupModel(node.attributes, node.extra if same else {})
            written = self.goal.write(path, shown)
        return shown, {key: text for key, text in written.items() if text is not None}

    def _adapted(self, location: Location, path: str, node: extension.ArrayModel) -> ViewedArray:
        prefix = location.format.chunk_prefix(location.path)
        source = BoundArray(location.store, location.path, prefix, node)
        source.check()
        same = location.format.name == self.goal.name
        names = node.dimension_names
        if self.goal.names_in_attributes and names is not None and None in names:
            source = source.reshaped(node.with_(dimension_names=None))  # it has all or none
        # Few readers know the checksums of version 2, but its own are left as they are.
        separator = None if same else "/"
        options = Options(separator=separator, checksum=same, same_format=same, for_view=True)
        if not same:
            source = unpacked(source)
        adapted = adapt_array(source, self.goal, options)
        if adapted.method == "values":
            raise CannotExpress(f"its chunks would be cut anew ({adapted.reason}); convert it")
        return ViewedArray(adapted, location.store, path, self.goal)

    def _consolidated(
        self,
        location: Location,
        path: str,
        group: GroupModel,
        nodes: Mapping[str, Node | OmnizarrError],
    ) -> dict[str, bytes]:
        """Return consolidated metadata by key, without nodes that cannot be shown."""
        key = extension.consolidated.key(self.goal, path)
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
        return (
            {key: b"".join(extension.consolidated.parts(self.goal, group, inside))} if key else {}
        )

    # Arrays

    def array(self, key: str, checked: dict[str, ViewedArray] | None = None) -> ViewedArray | None:
        """Return the array that has a chunk at a key of the view, or None if there is none.

        Raise if it cannot be read, or if the other format cannot express it. Arrays in `checked`,
        by path, were found for the same request; one that is found is added.
        """
        above = paths.ancestors(key)
        for path in above:
            if checked is not None and path in checked:
                return checked[path]
        found, documents = self._search(self._start or self.open(), above)
        if found is None:
            try:
                start = self.open()  # another format may have come in its place
            except NodeNotFound:
                return None
            found, documents = self._search(start, above)
        if found is None:
            return None
        path, node = found
        known = self._arrays.get(path)
        if known is not None and known[0] == documents and documents:
            array = known[1]
        else:
            location = (self._start or self.open()).child(path)
            with error_context(f"{location} cannot be shown as zarr {self.goal.name}"):
                self.goal.check_name(path)
                array = self._adapted(location, path, node)
            if len(self._arrays) >= MAX_CACHED:
                self._arrays = {}
            self._arrays[path] = documents, array
        if checked is not None:
            checked[path] = array
        return array

    def _search(
        self, start: Location, above: list[str]
    ) -> tuple[tuple[str, extension.ArrayModel] | None, Mapping[str, bytes]]:
        """Return the array among some paths, and its metadata; raise if it cannot be read."""
        possible = [
            path for path in above if start.child(path).path == paths.join(start.path, path)
        ]
        keys = {path: start.format.keys(start.child(path).path) for path in possible}
        documents = stores.get_existing(self.store, itertools.chain(*keys.values()))
        failure: OmnizarrError | None = None
        for path in reversed(possible):
            location = start.child(path)
            own = {key: documents[key] for key in keys[path] if key in documents}
            try:
                node: Node | None = location.format.read(location.path, own, [])
                if node is None and not own and location.consolidated is not None:
                    node = location.consolidated.node(location.path)
            except OmnizarrError as e:
                failure = failure or e
                continue
            if isinstance(node, extension.ArrayModel):
                return (path, node), own
        if failure is not None:
            raise failure
        return None, {}
