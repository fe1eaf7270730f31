"""Make new nodes from checked descriptions, out of sight until they are complete.

One mechanism for everything that replaces a node or writes many values: nothing old is erased
before the new node is complete, so the new values may even come from the old ones, and a writer
that fails or is killed leaves the old node, or none, never a part of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from omnizarr.concurrency import key_locks
from omnizarr.engine import BoundArray
from omnizarr.errors import (
    InvalidArgument,
    InvalidName,
    NodeExists,
    NodeNotFound,
    OmnizarrError,
    StoreError,
    WrongType,
)
from omnizarr.formats import Format, Probe, consolidated, is_metadata
from omnizarr.hierarchy.array import Array, type_of
from omnizarr.hierarchy.chunks import erase_leftovers
from omnizarr.hierarchy.consolidated import has_copies, keep_right, note_change
from omnizarr.hierarchy.location import (
    Around,
    Location,
    check_owned,
    existing_node,
    incomplete,
    walk,
)
from omnizarr.hierarchy.node import described
from omnizarr.hierarchy.options import ArrayOptions, array_model, runtime_config
from omnizarr.hierarchy.selection import as_source
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import (
    Store,
    can_list,
    erase_values,
    get_existing,
    list_prefix,
    lock_prefix,
    set_new,
    storage_identity,
)
from omnizarr.stores.local.files import OURS
from omnizarr.stores.staging import (
    MARKER,
    DeferredMetadataStore,
    Extent,
    Mark,
    Stage,
    Stages,
    marker,
    stage,
)


def make_array(
    location: Location,
    shape: Any,
    dtype: Any,
    data: Any,
    overwrite: bool,
    options: ArrayOptions,
    write_data: bool = True,
) -> Array:
    """Create an array, and fill it where data are given."""
    if data is not None:
        data = as_source(data, dtype)
        shape = data.shape if shape is None else shape
        dtype = type_of(data) if dtype is None else dtype
    if shape is None:
        raise WrongType("give the shape of the new array, or data")
    model = array_model(location.format, shape, dtype, options)
    if data is not None and tuple(data.shape) != model.shape:
        raise InvalidArgument(
            f"data of shape {tuple(data.shape)} do not fit the shape {model.shape} that was given;"
            " leave one of them out"
        )

    def check(read: Node) -> None:
        if isinstance(read, ArrayModel):
            bound = BoundArray(location.store, location.path, "", read)
            if bound.check() and bound.grid.regular is not None:
                return
            _ = bound.first_pipeline, bound.encoding, bound.chunk_store

    values = data if write_data else None
    try:
        with alone(location.store) if overwrite else nullcontext():
            array = Array.at(location, location.create(model, check=check))
    except NodeExists:
        if not overwrite:
            raise
        with build(location, overwrite=True, operation="create_array", implied=True) as place:
            new = Array.at(place, place.create(model, check=check))
            _fill(new, values, options)
        array = Array.at(location, new._model)
        array._config = runtime_config(options)
        return array
    try:
        if overwrite:
            erase_leftovers(array._bound)
        _fill(array, values, options)
    except BaseException:
        with suppress(OmnizarrError):  # what led here is the error to be told
            _unmake(array)
        raise
    return array


def _unmake(array: Array) -> None:
    """Erase a new array; whatever else lies at its path stays."""
    location = array._location
    store, path, format = location.store, location.path, location.format
    erase_values(store, [*format.keys(path), *format.owned(path)[0]])
    erase_leftovers(array._bound)
    keep_right(store, format, {path: None})


def _fill(array: Array, values: Any, options: ArrayOptions) -> None:
    array._config = runtime_config(options)
    if values is not None:
        array[...] = values


def complete(nodes: Mapping[str, Any]) -> tuple[dict[str, Node | None], str | None]:
    """Nodes by path, parents first, and their format where one is stated.

    None stands for a group that is not described, but has nodes below it. Raises where formats
    differ, or where an array has nodes below it.
    """
    found: dict[str, Node | None] = {}
    versions: dict[str, str] = {}
    for name, given in nodes.items():
        path = paths.normalize(name)
        found[path], version = described(name, given)
        if version is not None:
            versions.setdefault(version, name)
    if len(versions) > 1:
        stated = ", ".join(f"{name!r} is zarr {version}" for version, name in versions.items())
        raise InvalidArgument(f"the nodes of one hierarchy have one format, but {stated}")
    for path in list(found):
        for above in paths.ancestors(path):
            if isinstance(found.setdefault(above, None), ArrayModel):
                raise InvalidArgument(f"{above!r} is an array, so {path!r} cannot be below it")
    return dict(sorted(found.items())), next(iter(versions), None)


def create_nodes(
    start: Location, nodes: Mapping[str, Node | None], overwrite: bool
) -> Iterator[tuple[str, Location, Node]]:
    """Store nodes below a place, as far as they are missing or described, and give each back."""
    places = {path: start.child(path) for path in nodes}
    probes = [Probe(place.path) for place in places.values()]
    documents = get_existing(
        start.store, dict.fromkeys(itertools.chain(*(p.keys() for p in probes)))
    )
    wanted = {}
    for path, node in nodes.items():
        existing = existing_node(start.store, places[path].path, documents)
        if node is not None and existing is not None and not overwrite:
            kind = "node" if isinstance(existing[1], Exception) else existing[1].kind
            raise NodeExists(
                f"there is already a zarr {existing[0].name} {kind} at {places[path]};"
                " give overwrite=True to replace it; nothing was created"
            )
        if node is not None or (existing is None and not start.format.implicit_groups):
            wanted[path] = node or GroupModel()
    for path, node in wanted.items():
        yield path, places[path], create_node(places[path], node, overwrite=overwrite)


@dataclass
class Build:
    """A node that is being written; as a context manager, shown when the block ends well.

    `place` is where to write it, `values` the store that its chunks go to. A stage lies beside the
    old values. Without one, chunks are written to their place and only metadata are kept back; a
    marker tells that something is incomplete.
    """

    target: Location
    place: Location
    values: Store
    old: Format | None = None  # of the node that is replaced
    leftovers: tuple[str, ...] = ()  # keys of an earlier, incomplete attempt
    stage: Stage | None = None
    withheld: DeferredMetadataStore | None = None
    overwrite: bool = False
    keep: bool = False  # what was written before an error stays, to go on from there

    def __enter__(self) -> Location:
        return self.place

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.discard()
            if self.keep:
                error.add_note(
                    f"{self.target} is incomplete; resume=True finishes it, overwrite=True starts"
                    " again"
                )
            return
        try:
            self.commit()
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        """Show the node in its place, and erase the one that it replaces."""
        target, format = self.target, self.target.format
        new = _extent(format, target.path)
        with alone(target.store):
            if self.old is None:
                self._check_still_new()
            else:  # again: somebody may have laid something into the old node since
                check_owned(target.store, target.path, self.old)
            if target.path:
                target.create_above()
            if self.stage is not None:
                old = Extent((), self.leftovers, ())
                self.stage.replace(old if self.old is None else _extent(self.old, target.path), new)
                self.stage.discard()
            elif self.withheld is not None:
                self.withheld.publish(new.has)
                self.withheld = None  # it is there: whatever happens now, it stays
            if self.overwrite or self.stage is None:
                target.store.erase(marker(target.path))
        _update_consolidated(target, self.old)

    def _check_still_new(self) -> None:
        """Raise where another writer has made a node meanwhile, unless it is to be replaced."""
        found = existing_node(self.target.store, self.target.path)
        if found is None:
            return
        if not self.overwrite or self.stage is None:
            self.keep = True  # chunks are that writer's, too
            raise NodeExists(f"another writer has just created {self.target}; open it instead")
        check_owned(self.target.store, self.target.path, found[0])
        self.old = found[0]

    def discard(self) -> None:
        """Erase what was written; the node that was to be replaced stays as it is."""
        with suppress(OmnizarrError):  # what led here is the error to be told
            if self.stage is not None:
                self.stage.discard()
            elif self.withheld is not None:
                self.withheld.retract()
                if not self.keep and can_list(self.target.store):
                    erase_values(self.target.store, _chunks(self.target))
                    self.target.store.erase(marker(self.target.path))


def build(location: Location, *, overwrite: bool, operation: str, implied: bool = False) -> Build:
    """Begin to write a node that shall be seen when it is complete.

    Raises before anything is touched where a node is there and `overwrite` is False, where it
    cannot be replaced, or where nothing can be written. `operation` is told to those who find
    what an interrupted writer left.
    """
    with alone(location.store) if overwrite else nullcontext():
        old = check_new(location, overwrite, implied)
        if old is None and not isinstance(location.store, Stages):
            return _begin(location, Mark(operation), overwrite)
    left: tuple[str, ...] = ()
    if old is not None:
        check_owned(location.store, location.path, old)
    else:
        left = _leftovers(location, overwrite)
    staged = stage(location.store)
    if old is not None:
        staged.check(_extent(old, location.path))
    if old is not None and not location.path and old.name == location.format.name:
        # What an entry point says of the hierarchy stays true of the new root.
        for key, text in get_existing(location.store, old.root_documents()).items():
            staged.store.set(key, text)
    place = _at(location, staged.store)
    return Build(location, place, staged.store, old, left, staged, overwrite=overwrite)


def build_resumable(
    location: Location, *, overwrite: bool, operation: str, plan: str, resume: bool
) -> Build:
    """Begin as `build` does, so that an interrupted writer can go on where it was.

    That works where no node is replaced: values go to their place, and stay there on an error.
    `plan` tells one such operation from another.
    """
    old = check_new(location, overwrite)
    if old is not None:
        if resume:
            raise location.node_exists((old, GroupModel()))
        return build(location, overwrite=overwrite, operation=operation)
    found = location.store.get(marker(location.path)) if resume else None
    if found is not None and Mark.read(found).plan != plan:
        raise NodeExists(
            f"{location} is incomplete: {Mark.read(found)} was interrupted, and it was not the same"
            " as this; give overwrite=True to start again"
        )
    made = _begin(location, Mark(operation, plan), overwrite, found is not None)
    return replace(made, keep=True)


def _begin(location: Location, mark: Mark, overwrite: bool, resume: bool = False) -> Build:
    """Begin to write values to their place, with metadata to follow."""
    store, path = location.store, location.path
    if not resume:
        erase_values(store, _leftovers(location, overwrite))
        if not set_new(store, marker(path), mark.write()):
            raise NodeExists(f"another writer is just creating {location}; open it later")
    withheld = DeferredMetadataStore(store, location.format.is_metadata, marker(path))
    return Build(location, _at(location, withheld), store, withheld=withheld)


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """Keep other threads and processes from putting nodes in their place in a store."""
    key = str(
        hash(storage_identity(store)[0])
    )  # to choose a lock; stores that share one wait in vain
    with key_locks.locked(key_locks.NODES, [key]), lock_prefix(store, "", [MARKER], "replace"):
        yield


def _leftovers(location: Location, overwrite: bool) -> tuple[str, ...]:
    """Return the keys that a new node would take for its own, and which are to be erased for it.

    Raise where they are to stay, or where other nodes are below the place.
    """
    store, path, format = location.store, location.path, location.format
    mark = store.get(marker(path))
    if mark is not None and not overwrite:
        raise NodeExists(incomplete(location, mark))
    if not can_list(store):
        return ()
    found = []
    for prefix in format.owned(path)[1]:
        for key in list_prefix(store, prefix):
            if OURS in key:
                continue
            if is_metadata(key) and mark is None:
                raise NodeExists(
                    f"{location} is no node, but others are below it, such as {key!r}; give"
                    " another place, or create a group there first and write into that"
                )
            if format.looks_owned(key):
                found.append(key)
    found.sort(key=lambda key: not is_metadata(key))
    if found and not overwrite:
        raise NodeExists(
            f"{location} has chunks without metadata, such as {found[0]!r}, which a new node would"
            " take for its own; give overwrite=True to erase them"
        )
    return tuple(found) if mark is None else (*found, marker(path))


def create_node(
    location: Location,
    node: Node,
    *,
    overwrite: bool = False,
    check: Callable[[Node], None] = lambda node: None,
) -> Node:
    """Store a new node without values, in the place of another where `overwrite` is True."""
    if not overwrite:
        return location.create(node, check=check)
    with suppress(NodeExists), alone(location.store):
        return location.create(node, check=check, implied=True)
    with build(location, overwrite=True, operation="create", implied=True) as place:
        return place.create(node, check=check)


def check_new(location: Location, overwrite: bool, implied: bool = False) -> Format | None:
    """Raise where no node can be made; return the format of one that is to be replaced."""
    location.check_new()
    around = Around.look(location.store, location.path, location.format)
    around.check_root()
    around.missing_groups()
    existing = location.existing(around, implied)
    if existing is None:
        return None
    if not overwrite:
        raise location.node_exists(existing)
    return existing[0]


def _at(location: Location, store: Store) -> Location:
    return replace(location, store=store, known=None, copies=None)


def _extent(format: Format, path: str) -> Extent:
    """Return all keys of a node; a root has those that make a store a hierarchy, too."""
    keys, prefixes = format.owned(path)
    metadata = format.keys(path) if path else (*format.keys(path), *format.root_documents())
    return Extent(metadata, tuple(keys), tuple(prefixes))


def _chunks(location: Location) -> list[str]:
    """Return the keys of chunks at a place that has no node."""
    format = location.format
    return [
        key
        for prefix in format.owned(location.path)[1]
        for key in list_prefix(location.store, prefix)
        if format.looks_owned(key) and not format.is_metadata(key)
    ]


def _update_consolidated(target: Location, old: Format | None) -> None:
    """Bring consolidated metadata above a node in line with it and all below it."""
    store, path, format = target.store, target.path, target.format
    if old is not None and old.name != format.name and has_copies(store, path, old):
        keep_right(store, old, {path: None})
    if not has_copies(store, path, format):
        note_change()
        return
    keep_right(store, format, {path: None})
    own = replace(target, copies=None, known=None)
    nodes = {paths.join(path, inside): node for inside, node in walk(own, own.load()).items()}
    around = get_existing(store, {key: p for p in nodes for key in consolidated.holders(format, p)})
    keep_right(store, format, {p: format.write(p, node) for p, node in nodes.items()}, around)


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
