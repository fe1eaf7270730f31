"""Find every problem in the metadata of a node or of a hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from omnizarr import errors, registry
from omnizarr._json import dumps, loads
from omnizarr.codecs import bind_codec
from omnizarr.engine import BoundArray
from omnizarr.errors import InvalidMetadata, NodeNotFound, OmnizarrError, Problem, UnknownExtension
from omnizarr.formats import Documents, Format, Probe, consolidated, detect
from omnizarr.hierarchy import lookup
from omnizarr.hierarchy.location import Location
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import MemoryStore, Store, get_existing


def validate(
    what: Any, *, path: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Return every problem of metadata (a dict or JSON text), or of all nodes below a path.

    Errors prevent reading; warnings do not. Without any problem the list is empty.

    Args:
        what: JSON metadata as a dict or text, or a path, URL, store, array or group.
        path: The path of the node in the store or group; by default the store or group itself.
        storage_options: Options for the store of a URL, such as credentials.

    Raises:
        NodeNotFound: If there is no node at the path.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(3))
        >>> oz.validate("ocean.zarr")
        []
        >>> oz.validate({"zarr_format": 3, "node_type": "grup"})[0].field
        'node_type'
    """
    if isinstance(what, Mapping) and not lookup.has_store_path(what):
        values = (bytes, bytearray, memoryview)  # of a dictionary that is a store
        if not what or not all(isinstance(value, values) for value in what.values()):
            return _validate_metadata(dumps(dict(what)))
    if isinstance(what, bytes) or (isinstance(what, str) and what.lstrip().startswith("{")):
        return _validate_metadata(what if isinstance(what, bytes) else what.encode())
    return _validate_store(*lookup.resolve_store_path(what, path, "r", storage_options))


def _validate_metadata(data: bytes) -> list[Problem]:
    try:
        doc = loads(data, "document", allow_nan=True)
    except InvalidMetadata as e:
        return list(e.problems)
    if not isinstance(doc, dict):
        return [Problem("document", "", "expected a JSON object")]
    problems: list[Problem] = []
    guessed = detect.guess_format(doc, data)
    if guessed is None:
        try:
            detect.check_entry(data, problems)
        except InvalidMetadata as e:
            _merge(problems, e)
        return problems
    format, metadata = guessed
    _validate_node(Location(MemoryStore(dict(metadata)), "", format), metadata, problems)
    return problems


def _validate_store(store: Store, path: str) -> list[Problem]:
    probe = Probe(path)
    metadata = lookup.fetch_probe(store, probe)
    problems: list[Problem] = []
    try:
        formats = probe.formats(metadata, problems)
    except InvalidMetadata as e:
        _merge(problems, e)
        return problems
    if not formats:
        raise NodeNotFound(lookup.absence_reason(store, path, None))
    for format in formats:
        seen: dict[str, Node] = {}
        for checked in walk_checked(Location(store, path, format)):
            problems += checked.problems
            if checked.node is not None:
                seen[checked.location.path] = checked.node
        for group in (at for at, node in seen.items() if isinstance(node, GroupModel)):
            check_consolidated(store, format, group, seen, problems)
    return problems


@dataclass(frozen=True)
class CheckedNode:
    """A node with all problems of its metadata; the node is None if it cannot be read."""

    location: Location
    node: Node | None
    problems: list[Problem]


def walk_checked(start: Location) -> Iterator[CheckedNode]:
    """Yield a node and all below it with their problems, parents first."""
    start = start.with_listing()
    metadata: Documents = get_existing(start.store, start.format.keys(start.path))
    pending = [(start, metadata)]
    while pending:
        location, metadata = pending.pop()
        problems = list[Problem]()
        node = _validate_node(location, metadata, problems)
        unreadable = node is None and bool(metadata)
        below = not unreadable and not isinstance(node, ArrayModel) and location.format.has_groups
        pending += reversed(_children(location, problems)) if below else ()
        yield CheckedNode(location.without_listing(), node, problems)


def _children(location: Location, problems: list[Problem]) -> list[tuple[Location, Documents]]:
    """Return what may be nodes one level below, with their metadata, from one batch of requests."""
    try:
        names = dict(sorted(location.child_names().items()))
    except InvalidMetadata as e:
        _merge(problems, e, paths.show(location.path))
        return []
    return [
        (location.child(name), metadata)
        for name, metadata in location.child_documents(names).items()
        if metadata or names[name] is not None or location.format.implicit_groups
    ]


def _validate_node(at: Location, metadata: Documents, problems: list[Problem]) -> Node | None:
    format, path = at.format, at.path
    own: list[Problem] = []  # reading stops if the list has errors, so each node has its own
    try:
        node = format.read(path, metadata, own)
        format.check_name(path)
        odd = format.name_warning(path)
        if node is not None and odd is not None:
            own.append(Problem(next(iter(metadata)), "", f"the path {path!r} {odd}", "warning"))
    except InvalidMetadata as e:
        _merge(own, e, next(iter(metadata), paths.show(path)))
        problems += own
        return None
    problems += own
    if isinstance(node, ArrayModel):
        key = next(k for k in format.keys(path) if k in metadata)
        bound = BoundArray(at.store, path, format.chunk_prefix(path), node)
        _check_array(bound, key, problems)
    elif node is None and format.implicit_groups:
        return GroupModel(implicit=True)
    return node


def _check_array(bound: BoundArray, key: str, problems: list[Problem]) -> None:
    # One by one first: the codec pipeline and the chunk store stop at whatever is unknown before.
    codecs = (
        partial(bind_codec, codec, f"codecs[{i}]") for i, codec in enumerate(bound.model.codecs)
    )
    transformers = (
        partial(registry.lookup, "storage_transformer", named.name, f"storage_transformers[{i}]")
        for i, named in enumerate(bound.model.storage_transformers)
    )
    checks: list[tuple[str, Callable[[], object]]] = [
        ("data_type", lambda: bound.data_type),
        ("fill_value", lambda: bound.fill),
        ("chunk_grid", lambda: bound.grid),
        ("chunk_key_encoding", lambda: bound.encoding),
        *(("codecs", codec) for codec in codecs),
        ("codecs", lambda: bound.first_pipeline),
        *(("storage_transformers", transformer) for transformer in transformers),
        ("storage_transformers", lambda: bound.chunk_store),
    ]
    seen: set[object] = set()
    for field, check in checks:
        try:
            check()
        except OmnizarrError as e:
            # The innermost message; each part adds the context of the one that it needed.
            text = str(e).rpartition(f" in {bound.store!r}: ")[2]
            found = (e.kind, e.name) if isinstance(e, UnknownExtension) else text
            if found in seen:
                continue
            seen.add(found)
            later = isinstance(e, (UnknownExtension, errors.MissingPackage))
            text = text.removeprefix(f"{field}: ")
            problems.append(Problem(key, field, text, "warning" if later else "error"))


def _merge(problems: list[Problem], error: InvalidMetadata, key: str = "") -> None:
    """Add the problems of an error that are not in the list yet."""
    found = error.problems or (Problem(key, "", str(error)),)
    problems.extend(p for p in found if p not in problems)


def check_consolidated(
    store: Store, format: Format, group: str, nodes: Collection[str], problems: list[Problem]
) -> None:
    """Record differences between consolidated metadata and the nodes found below the group."""
    key = consolidated.key(format, group)
    data = None if key is None else store.get(key)
    if key is None or data is None:
        return
    try:
        entries = consolidated.read(format, data, key)
    except InvalidMetadata as e:
        _merge(problems, e, key)
        return
    if entries is None:
        return
    inside = "consolidated_metadata." if key in format.keys(group) else ""

    def add(path: str, message: str) -> None:
        field = f"{inside}metadata[{path!r}]"
        problems.append(Problem(key, field, f"{message}; call consolidate_metadata again"))

    for path in entries.impossible:
        add(path, "no node can have this path")
    found = Location(store, group, format).child_documents(entries)
    for path, entry in sorted(entries.items()):
        own = {paths.name(key): text for key, text in found[path].items()}
        documents = {paths.prefix(path) + name: text for name, text in own.items()}
        node = _compared(partial(format.read, path, documents, []))
        if node is None:
            add(path, "there is no such node")
        elif not consolidated.is_same(entry, own) and node != _compared(
            partial(consolidated.node, format, path, entry)
        ):
            add(path, "differs from the node's own metadata")
    start = paths.prefix(group)
    below = {path[len(start) :] for path in nodes if path.startswith(start) and path != group}
    for path in sorted(below - entries.keys()):
        add(path, "this node is missing")


def _compared(read: Callable[[], Node | None]) -> Node | InvalidMetadata | None:
    """Return a node without consolidated metadata of its own, or the error if it is not valid."""
    try:
        node = read()
    except InvalidMetadata as e:
        return e
    return node.with_(consolidated=None) if isinstance(node, GroupModel) else node
