"""The bytes and keys of each node of a hierarchy, from one listing of its keys with their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import lt
from typing import Any, Literal

from omnizarr import extension
from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.source_keys import formats_at, prefixes_of
from omnizarr.errors import OmnizarrError
from omnizarr.extension import BoundArray, Location, Node, consolidated, paths, stores, traits

BATCH = 1000  # keys whose sizes are requested at a time, where a store does not list them
MAX_PARTS = 256  # members of a group that are listed one by one, concurrently


@dataclass
class NodeUsage(Outcome):
    """Bytes and keys: of one node, or of a node and all below it."""

    kind: Literal["array", "group", "unreadable"] = "group"
    metadata_keys: int = 0
    metadata_bytes: int = 0
    chunk_keys: int = 0  # chunks, or shards
    chunk_bytes: int = 0
    other_keys: int = 0  # that are neither
    other_bytes: int = 0
    logical_bytes: int = 0  # of all elements in memory; 0 for types of variable length
    decoded_bytes: int = 0  # of the stored chunks in memory

    def add(self, what: Literal["metadata", "chunk", "other"], size: int) -> None:
        """Count one key with its bytes."""
        setattr(self, f"{what}_keys", getattr(self, f"{what}_keys") + 1)
        setattr(self, f"{what}_bytes", getattr(self, f"{what}_bytes") + size)

    @property
    def bytes(self) -> int:
        """All stored bytes."""
        return self.metadata_bytes + self.chunk_bytes + self.other_bytes

    @property
    def keys(self) -> int:
        """All keys."""
        return self.metadata_keys + self.chunk_keys + self.other_keys

    @property
    def ratio(self) -> float | None:
        """The compression ratio of the stored chunks; None if there are none, or not known."""
        known = self.decoded_bytes and self.chunk_bytes
        return self.decoded_bytes / self.chunk_bytes if known else None

    def summary(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**self.to_json(), "bytes": self.bytes, "keys": self.keys, "ratio": self.ratio}


@dataclass
class UsageReport(Outcome):
    """The result of `disk_usage`: what each node has of its own, by path."""

    nodes: dict[str, NodeUsage] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # of nodes that cannot be read

    def __getitem__(self, path: str) -> NodeUsage:
        return self.cumulated()[paths.show(paths.normalize(path))]

    def cumulated(self) -> dict[str, NodeUsage]:
        """Return for each node its own numbers plus the numbers of all nodes below it."""
        found = {path: NodeUsage(usage.kind) for path, usage in self.nodes.items()}
        for path, usage in self.nodes.items():
            for above in (*(paths.show(p) for p in paths.ancestors(path.strip("/"))), path):
                if above in found:
                    found[above].merge(usage)
        return found

    @property
    def total(self) -> NodeUsage:
        """The sum of all nodes."""
        found = NodeUsage(next(iter(self.nodes.values())).kind if self.nodes else "group")
        for usage in self.nodes.values():
            found.merge(usage)
        return found

    def __str__(self) -> str:
        rows = [
            (extension.size_text(u.bytes), path) for path, u in sorted(self.cumulated().items())
        ]
        width = max((len(size) for size, _ in rows), default=0)
        return "\n".join(f"{size:>{width}}  {path}" for size, path in rows)


@dataclass(frozen=True)
class Owners:
    """The nodes that the keys of a hierarchy belong to."""

    prefixes: Mapping[str, tuple[str, BoundArray | None]]  # the path of the node, and an array
    metadata: Mapping[str, str]  # paths of nodes by key
    start: str  # the path of the node whose usage is measured

    def add(self, key: str, size: int, nodes: dict[str, NodeUsage]) -> None:
        """Count one key."""
        if key in self.metadata:
            nodes.setdefault(self.metadata[key], NodeUsage()).add("metadata", size)
            return
        prefix = next(filter(self.prefixes.__contains__, prefixes_of(key)), "")
        path, array = self.prefixes.get(prefix, (self.start, None))
        usage, coords = nodes.setdefault(path, NodeUsage()), None
        if array is not None:
            coords = array.encoding.coords(key[len(prefix) :], len(array.model.shape))
        usage.add("other" if coords is None else "chunk", size)
        if array is None or coords is None or array.data_type.variable:
            return
        if not array.model.storage_transformers and (
            array.grid.regular or all(map(lt, coords, array.grid.shape))
        ):
            usage.decoded_bytes += extension.decoded_size(array, coords)


def _parts(start: Location, node: Node) -> tuple[list[str], list[str]]:
    """Return the keys to measure, and the prefixes to list: one for each member of a group."""
    keys, tops = start.format.subtree(start.path) if start.path else ([], [""])
    levels = [stores.list_dir(start.store, top) for top in tops] if node.kind == "group" else []
    if not 0 < sum(len(prefixes) for _, prefixes in levels) <= MAX_PARTS:
        return keys, tops
    single = [key for found, _ in levels for key in found]
    return [*dict.fromkeys([*keys, *single])], [p for _, prefixes in levels for p in prefixes]


def _owners(start: Location, root: Node, outcome: UsageReport, arrays: list[BoundArray]) -> Owners:
    """Return the owners of keys; note every node in the result, and arrays in the list."""
    formats = formats_at(start)
    prefixes: dict[str, tuple[str, BoundArray | None]] = {}
    metadata = dict.fromkeys(start.format.root_documents(), paths.show(start.path))
    for location, node in extension.walk_nodes(start, root):
        shown, own, array = paths.show(location.path), location.format, None
        usage, prefix = NodeUsage(), own.chunk_prefix(location.path)
        if isinstance(node, Exception):
            usage.kind, outcome.errors[shown] = "unreadable", str(node)
        elif isinstance(node, extension.ArrayModel):
            usage.kind = "array"
            bound = BoundArray(location.store, location.path, prefix, node)
            try:
                _ = bound.encoding
                itemsize = 0 if bound.data_type.variable else bound.dtype.itemsize
                usage.logical_bytes = math.prod(node.shape) * itemsize
                arrays.append(bound)
                array = bound
            except OmnizarrError as e:
                outcome.errors[shown] = str(e)
        prefixes[own.listing(location.path)] = prefixes[prefix] = shown, array
        for format in formats:
            keys = [*format.keys(location.path), consolidated.key(format, location.path)]
            metadata.update({key: shown for key in keys if key is not None})
        outcome.nodes[shown] = usage
    return Owners(prefixes, metadata, paths.show(start.path))


def disk_usage(
    source: Any, *, path: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> UsageReport:
    """Return the stored bytes and keys of each node, as metadata, chunks and other keys.

    The keys are listed with their sizes; no chunk is read. `cumulated` of the result gives the sums
    of groups.

    Args:
        source: A path, URL, store, array or group.
        path: The path of the node in the store; by default the root.
        storage_options: Options for the store of a URL, such as credentials.

    Raises:
        NodeNotFound: If there is no such node.

    Examples:
        >>> a = oz.create_array("ocean.zarr", shape=10_000, chunks=1000)
        >>> a[:] = 1
        >>> oz.disk_usage("ocean.zarr").total.ratio > 10
        True
    """
    store, inside = extension.resolve_store_path(source, path, "r", storage_options)
    start, node = extension.find_node(store, inside, use_consolidated=None)
    report, arrays = UsageReport(), list[BoundArray]()
    owners = _owners(start, node, report, arrays)
    keys, prefixes = _parts(start, node)
    single: list[Iterator[str]] = [iter(keys)]
    if not traits(store).lists_all:
        single += [(key for _, key in extension.probe_stored_keys(array)) for array in arrays]
    for several in single:
        while batch := [*islice(several, BATCH)]:
            for key, size in stores.sizes(store, batch).items():
                owners.add(key, size, report.nodes)

    def measure(prefix: str) -> dict[str, NodeUsage]:
        found: dict[str, NodeUsage] = {}
        for key, size in stores.list_sizes(store, prefix):
            owners.add(key, size, found)
        return found

    for found in extension.in_parallel(measure, prefixes):
        for name, usage in found.items():
            report.nodes.setdefault(name, NodeUsage(usage.kind)).merge(usage)
    return report
