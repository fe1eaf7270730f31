"""Build new nodes, replace existing ones atomically, and move nodes.

Everything that replaces a node or writes many values uses `build`. Nothing is erased before the
new node is complete, so that its values may even come from the old one, and a writer that fails or
is killed leaves the old node, or none, never a part of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from omnizarr import errors, stores
from omnizarr.concurrency import key_locks
from omnizarr.engine import BoundArray, was_bound
from omnizarr.errors import NodeChanged, NodeExists, OmnizarrError, StoreError, WrongType
from omnizarr.formats import Documents, Format, Probe, is_metadata, publication_order
from omnizarr.hierarchy.array import Array, data_type_of
from omnizarr.hierarchy.attributes import lock_nodes, pinned_node, stored_keys
from omnizarr.hierarchy.consolidated import (
    consolidated_formats,
    has_consolidated,
    mark_changed,
    update_consolidated,
)
from omnizarr.hierarchy.location import Location, PathMetadata, existing_node, node_extent
from omnizarr.hierarchy.lookup import check_erasable, readable_nodes
from omnizarr.hierarchy.options import ArrayOptions, array_model, check_options
from omnizarr.hierarchy.selection import DEFAULT_CONFIG, ArrayConfig, as_source, write
from omnizarr.indexing import plan
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.publish import stage as stages
from omnizarr.publish.publication import (
    DeferredMetadataStore,
    Publication,
    lock_replacement,
    recover_interrupted,
    settle_replacements,
)
from omnizarr.publish.stage import PROBE, Extent, Mark, begin_writing, end_writing, marker, stage
from omnizarr.stores import Store
from omnizarr.stores.base import value_digest

BATCH = 1000  # nodes that are created before consolidated metadata are updated


def make_array(
    location: Location, shape: Any, dtype: Any, data: Any, overwrite: bool, options: ArrayOptions
) -> Array:
    """Create an array, and write its data, if there is any."""
    if data is not None:
        data = as_source(data, dtype)
        shape = data.shape if shape is None else shape
        dtype = data_type_of(data) if dtype is None else dtype
    if shape is None:
        check_options(options)  # it may be there under a misspelt name
        raise WrongType("give the shape of the new array, or data")
    model = array_model(location.format, shape, dtype, options)
    if data is not None and tuple(data.shape) != model.shape:
        raise errors.InvalidArgument(
            f"data of shape {tuple(data.shape)} do not fit shape {model.shape}"
        )
    return store_array(location, model, data, overwrite, ArrayConfig.of(options.get("config")))


def store_array(
    location: Location,
    model: ArrayModel,
    values: Any,
    overwrite: bool,
    config: ArrayConfig = DEFAULT_CONFIG,
) -> Array:
    """Store a new array of a model, and its values, if there are any."""
    metadata, node = location.prepare(model)
    if isinstance(node, ArrayModel) and not was_bound(node):
        bound = BoundArray(location.store, location.path, "", node)
        if not bound.check() or bound.grid.regular is None:
            _ = bound.first_pipeline, bound.encoding, bound.chunk_store
    marks = values is not None and not location.is_private
    begun = _create_or_build(location, model, metadata, overwrite, marks)
    if begun is not None:
        with begun as place:
            _write_values(place, node, values, config)
    else:
        try:
            _write_values(location, node, values, config)
        except BaseException:
            with suppress(OmnizarrError, NotImplementedError):  # the first error is raised
                location.erase()
            raise
    array = Array.at(location, node)
    if config is not DEFAULT_CONFIG:
        array._configure(config)
    return array


def _write_values(location: Location, node: Node, values: Any, config: ArrayConfig) -> None:
    if values is not None and isinstance(node, ArrayModel):
        prefix = location.format.chunk_prefix(location.path)
        bound = BoundArray(location.store, location.path, prefix, node)
        bound.check()  # what was bound for an equal model is used again
        with config.active():
            write(bound, plan, ..., values)


def create_nodes(
    start: Location, nodes: Mapping[str, Node | None], overwrite: bool
) -> Iterator[tuple[str, Location, Node]]:
    """Store and yield all described nodes and missing groups below a location, in batches."""
    locations = {path: start.child(path) for path in nodes}
    probes = [Probe(location.path) for location in locations.values()]
    marks = (marker(location.path) for location in locations.values())
    keys = itertools.chain(*(p.keys() for p in probes), marks)
    metadata = stores.get_existing(start.store, dict.fromkeys(keys))
    wanted: dict[str, Node] = {}
    for path, node in nodes.items():
        existing = existing_node(start.store, locations[path].path, metadata)
        if node is not None and existing is not None and not overwrite:
            raise locations[path].node_exists(existing)
        if existing is not None and node is None and isinstance(existing[1], ArrayModel):
            raise NodeExists(f"{locations[path]} is an array; nothing can be below it")
        if node is not None or (existing is None and not start.format.implicit_groups):
            wanted[path] = node or GroupModel()
    marked = any(marker(location.path) in metadata for location in locations.values())
    one_by_one = overwrite or marked or start.format.implicit_groups
    for path, node in [*wanted.items()][: len(wanted) if one_by_one else 1]:
        yield path, locations[path], create_node(locations[path], node, overwrite=overwrite)
        del wanted[path]
    while wanted:
        batch = [(path, wanted.pop(path)) for path in [*wanted][:BATCH]]
        yield from _create_batch(start, [(path, locations[path], node) for path, node in batch])


def _create_batch(
    start: Location, batch: list[tuple[str, Location, Node]]
) -> list[tuple[str, Location, Node]]:
    """Store new nodes, whose parents exist or come before them in the batch."""
    new: dict[str, Documents] = {}
    found = []
    looks = stores.traits(start.store).low_latency and not start.is_private
    try:
        for path, location, node in batch:
            metadata, read = location.prepare(node)
            if looks and isinstance(node, ArrayModel):
                location.leftovers(overwrite=False)
            location.store_new_node(metadata)
            new[location.path] = metadata
            found.append((path, location, read))
    finally:
        update_consolidated(start.store, start.format, new)
    return found


def _reserve(
    location: Location, node: Node, metadata: Documents, found: PathMetadata | None
) -> Build:
    """Begin to write a new array at a path that a marker reserves; see `Location.create_absent`."""
    store, key = location.store, marker(location.path)
    mark = Mark("create_array", writer=begin_writing())
    try:
        above = location.create_absent({key: mark.write()}, node, found)
        if existing_node(store, location.path) is not None:
            store.erase(key)
            raise NodeExists(f"another writer has just created {location}; open it instead")
    except BaseException:
        end_writing(mark.writer)
        raise
    return Build(location, location, Publication(store, key, mark), metadata=metadata, above=above)


def _can_mark(store: Store) -> bool:
    """Return True if a marker can be stored, and erased again."""
    if not stores.traits(store).erases or stores.traits(store).commits_changes:
        return False
    if stores.traits(store).low_latency:
        try:
            store.erase(PROBE)  # not the marker, which another writer may have stored
        except (StoreError, NotImplementedError):
            return False
    return True


@dataclass
class Build:
    """A node that is being written; a context manager that publishes it at the end of the block.

    The node is written at `location`, its chunks may go to `publication.values` directly.
    """

    target: Location
    location: Location
    publication: Publication
    old: Format | None = None  # of the node that is replaced
    overwrite: bool = False
    check: Callable[[], None] = lambda: None  # raises if the old node may not be replaced
    metadata: Documents | None = None  # of an array whose place `_reserve` has reserved
    above: Documents = field(default_factory=dict)  # the metadata of the groups above it
    _keeps_chunks: bool = False  # they belong to another writer's node, too

    @property
    def resumable(self) -> bool:
        """True for a job: chunks are kept after an error, and the caller clears the marker."""
        return bool(self.publication.mark.attempt)

    def __enter__(self) -> Location:
        return self.location

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.commit()
                return
            if self.resumable:
                how = "resume=True finishes it, overwrite=True starts again"
                error.add_note(f"{self.target} is incomplete; {how}")
        except BaseException:
            self.discard()
            raise
        finally:
            end_writing(self.publication.mark.writer)
        self.discard()

    def commit(self) -> None:
        """Publish the node, and erase the node that it replaces.

        The marker of a job stays: what is killed before it is erased is resumed.
        """
        target, publication = self.target, self.publication
        if self.metadata is not None:
            self._commit_reserved(self.metadata)
            return
        new = node_extent(target.format, target.path)
        replaced = [] if self.old is None else [replace(target, format=self.old)]
        with lock_replacement(target.store), lock_nodes(*replaced) if replaced else nullcontext():
            if self.old is None:
                self._check_still_new()
            else:  # again: another writer may have added something below the old node since
                check_erasable(target.store, target.path, self.old)
            self.check()
            if target.path:
                target.create_parents()
            if publication.stage is not None:
                publication.stage.distinguish(new)
            old = Extent((), (), ()) if self.old is None else node_extent(self.old, target.path)
            publication.put(old, new)
            if not self.resumable:
                if publication.stage is not None:
                    with suppress(OmnizarrError, OSError):  # the node is visible, as promised
                        publication.stage.discard()
                key = marker(target.path)
                if publication.stage is None or (self.overwrite and target.store.get(key)):
                    target.store.erase(key)
        update_consolidated_above(target, self.old)

    def _commit_reserved(self, metadata: Documents) -> None:
        """Store the metadata of a new array, unless its marker was deleted or moved meanwhile."""
        target, key = self.target, self.publication.key
        store, path, format = target.store, target.path, target.format
        mark: bytes = self.publication.mark.write()
        above = paths.ancestors(path) if stores.traits(store).process_local else []
        keys = [key for each in above for key in format.keys(each)]
        locked = key_locks.locked(key_locks.METADATA, keys)
        with locked, stores.changing(store), pinned_node(target, format.keys(path)) as here:
            if here.store.get(key) != mark:
                raise NodeChanged(f"{target} was deleted or moved while its values were written")
            if existing_node(store, path) is not None:
                self._keeps_chunks = True
                raise NodeExists(f"another writer has just created {target}")
            here.store_new_node(metadata, {key: value_digest(mark)})
            self.publication.is_public = True
        store.erase(key)
        update_consolidated(store, format, {path: metadata}, self.above)

    def _check_still_new(self) -> None:
        """Raise if another writer has created a node meanwhile, unless it is to be replaced."""
        store, path = self.target.store, self.target.path
        found = existing_node(store, path)
        # It may have been made visible by an earlier call, or by one that shares the job.
        attempt = Mark.read(store.get(marker(path))).attempt if self.resumable else None
        if found is None or attempt == self.publication.mark.attempt:
            return
        if not self.overwrite or self.publication.stage is None:
            self._keeps_chunks = True
            raise NodeExists(f"another writer has just created {self.target}; open it instead")
        check_erasable(self.target.store, self.target.path, found[0])
        self.old = found[0]

    def discard(self) -> None:
        """Erase the written values, except the chunks of a job, which can be resumed."""
        publication, store, path = self.publication, self.target.store, self.target.path
        with suppress(OmnizarrError):  # the first error is the one to raise
            if publication.stage is not None:
                if not self.resumable:
                    publication.stage.discard()
            elif not publication.is_public:
                if publication.deferred is not None:
                    publication.deferred.retract()
                if self.resumable:
                    return
                stored = store.get(publication.key)
                mine = stored == publication.mark.write()
                alone = mine or (stored is None and existing_node(store, path) is None)
                if alone and not self._keeps_chunks and stores.can_list(store):
                    listed = filter(self.target.format.is_zarr_key, stored_keys(self.target))
                    metadata = self.target.format.is_metadata
                    stores.erase_values(store, [key for key in listed if not metadata(key)])
                if mine:
                    store.erase(publication.key)


def build(location: Location, *, overwrite: bool, operation: str, implied: bool = False) -> Build:
    """Begin to write a node that is published when it is complete.

    Raises before anything is stored if a node exists and `overwrite` is False, if it cannot be
    replaced, or if nothing can be written. Messages about an interrupted writer name `operation`.
    """
    with lock_replacement(location.store) if overwrite else nullcontext():
        old = check_new(location, overwrite, implied)
        if old is None and not stages.stages_quickly(location.store):
            return begin_deferred(location, Mark(operation), overwrite)
        if old is None:
            _clear_leftovers(location, overwrite, operation)
    return begin_stage(location, old, overwrite)


def _create_or_build(
    location: Location, node: Node, metadata: Documents, overwrite: bool, marks: bool = False
) -> Build | None:
    """Store a new node, or with `marks` reserve its place; or begin to build its replacement.

    With `overwrite`, one look at the path decides, while nobody else replaces a node.
    """
    with lock_replacement(location.store) if overwrite else nullcontext():
        if not overwrite:
            return _store_absent(location, node, metadata, marks, None)
        with suppress(NodeExists):  # of another writer's node, which is replaced, too
            if location.is_absent():
                return _store_absent(location, node, metadata, marks, None)
            return _replace(location, node, metadata, marks)
        return _replace(location, node, metadata, marks)


def _store_absent(
    location: Location, node: Node, metadata: Documents, marks: bool, found: PathMetadata | None
) -> Build | None:
    """Store a new node, or with `marks` reserve its place, where no node is."""
    if marks and _can_mark(location.store):
        return _reserve(location, node, metadata, found)
    store, format, new = location.store, location.format, {location.path: metadata}
    # Only that call holds what was read of the groups above, which may be large.
    update_consolidated(store, format, new, location.create_absent(metadata, node, found))
    return None


def _replace(location: Location, node: Node, metadata: Documents, marks: bool) -> Build | None:
    """Look at a path, and store a node where there is none, or begin to build a replacement."""
    recover_interrupted(location.store)
    found = PathMetadata.fetch(location)
    old = _old_format(location, found, True, implied=True)
    if old is None:
        is_marked = marker(location.path) in found.metadata
        if is_marked or (isinstance(node, ArrayModel) and not found.is_empty):
            _clear_leftovers(location, True, "create")
        return _store_absent(location, node, metadata, marks, found)
    begun = begin_stage(location, old, True)
    try:
        for key, text in metadata.items():
            begun.location.store.set(key, text)
    except BaseException as e:
        begun.__exit__(type(e), e, e.__traceback__)
        raise
    return begun


def begin_stage(
    location: Location,
    old: Format | None,
    overwrite: bool,
    mark: Mark | None = None,
    found: Publication | None = None,
) -> Build:
    """Begin to stage a node that may replace another, or resume the publication `found`."""
    store, format = location.store, location.format
    if old is not None:
        check_erasable(store, location.path, old)
    if overwrite and (text := store.get(marker(location.path))) is not None:
        # Nobody will resume it.
        Publication.at(store, location.path, Mark.read(text)).erase_journal()
    left = None if found is None else found.stage
    staged = stage(store, location.path) if left is None else left
    if old is not None:
        staged.check(node_extent(old, location.path))
    entry = {} if location.path else format.root_documents()
    if entry and old is not None and old.name == format.name:  # the new root keeps it
        entry = {**entry, **stores.get_existing(store, entry)}
    for key, text in entry.items():
        staged.store.set(key, text)
    publication = Publication.staged(staged, mark) if found is None else found
    beside = _in_store(location, staged.store)
    return Build(location, beside, publication, old, overwrite)


def begin_deferred(location: Location, mark: Mark, overwrite: bool, resume: bool = False) -> Build:
    """Begin to write chunks to the target; metadata are stored when all chunks are complete."""
    store, publication = location.store, Publication.at(location.store, location.path, mark)
    if not resume:
        _clear_leftovers(location, overwrite, mark.operation)
        # A marker that could not be erased would make the node incomplete for ever.
        if stores.traits(store).erases and not stores.set_new(store, publication.key, mark.write()):
            raise NodeExists(f"another writer is just creating {location}; open it later")
    deferred = DeferredMetadataStore(store, location.format.is_metadata, publication.key)
    publication.deferred = deferred
    return Build(location, _in_store(location, deferred), publication, overwrite=overwrite)


def _clear_leftovers(location: Location, overwrite: bool, operation: str) -> None:
    """Erase what an interrupted writer left at the path of a new node; see `Location.leftovers`."""
    store, key, leftovers = location.store, marker(location.path), location.leftovers(overwrite)
    if key in leftovers:
        Publication.at(store, location.path).erase_journal()
        store.set(key, Mark(operation).write())  # nobody resumes what is erased
    stores.erase_values(store, leftovers)


def create_node(location: Location, node: Node, *, overwrite: bool = False) -> Node:
    """Store a new node without chunks; with `overwrite`, replace an existing one."""
    metadata, read = location.prepare(node)
    with _create_or_build(location, node, metadata, overwrite) or nullcontext():
        return read


def check_new(location: Location, overwrite: bool, implied: bool = False) -> Format | None:
    """Raise if no node can be created; return the format of an existing one to be replaced."""
    location.check_new()
    if overwrite:
        recover_interrupted(location.store)
    return _old_format(location, PathMetadata.fetch(location), overwrite, implied)


def _old_format(
    location: Location, found: PathMetadata, overwrite: bool, implied: bool
) -> Format | None:
    existing = location.existing(found, implied)
    if existing is None:
        return None
    if not overwrite:
        raise location.node_exists(existing)
    if not stores.traits(location.store).erases:
        message = f"{location} exists, and the store cannot delete; use another path"
        raise NodeExists(message, kind=getattr(existing[1], "kind", ""))
    return existing[0]


def _in_store(location: Location, store: Store) -> Location:
    private = store is not location.store
    return replace(location, store=store, consolidated=None, is_private=private)


def update_consolidated_above(target: Location, old: Format | None) -> None:
    """Update the consolidated metadata above a node for it and all nodes below it."""
    store, path, format = target.store, target.path, target.format
    mark_changed()
    if not path:  # nothing is above the root, which has what its writer stored
        return
    if old is not None:  # the replaced node may have been stored in both versions
        for other in consolidated_formats(store, path, format)[1:]:
            update_consolidated(store, other, {path: None})
    if not has_consolidated(store, path, format):
        return
    update_consolidated(store, format, {path: None})
    update_consolidated(store, format, _metadata_below(target))


def _metadata_below(location: Location) -> dict[str, dict[str, bytes | None]]:
    """Return the metadata of a node and of all nodes below it, by path."""
    own = _in_store(location, location.store)
    nodes = readable_nodes(own, own.load()).items()
    every = {paths.join(location.path, relative): node for relative, node in nodes}
    return {path: location.format.write(path, node) for path, node in every.items()}


@contextmanager
def _locked_node(location: Location) -> Iterator[None]:
    """Keep others from replacing or changing a node while it is erased or moved."""
    with lock_replacement(location.store), lock_nodes(location):
        settle_replacements(location.store, location.path)  # else it would come back
        if location.find([]) is None:
            raise errors.NodeNotFound(
                f"there is no array or group at {location}; another writer may just have deleted or"
                " moved it"
            )
        yield


def delete(location: Location, foreign: bool) -> None:
    """Erase a node and all below it; with `foreign` also what is not Zarr."""
    with _locked_node(location):
        location.check_writable()
        if not foreign:
            check_erasable(location.store, location.path, location.format)
        location.erase()


def move(source: Location, target: Location) -> None:
    """Move a node and all below it to an unused path of the same hierarchy.

    It is renamed where the store can do that. Elsewhere everything is copied, metadata last, before
    anything is erased: nothing is lost if the move is interrupted, and it can be tried again.
    """
    source.check_writable()
    target.check_new()
    if not source.path or paths.prefix(target.path).startswith(paths.prefix(source.path)):
        raise errors.InvalidName(f"{source} cannot be moved into itself, nor the root anywhere")
    with _locked_node(source):
        check_erasable(source.store, source.path, source.format)
        renamed = dict(_renamed(source, target))
        mark = target.store.get(marker(target.path))
        if mark is not None:
            raise NodeExists(Mark.read(mark).message(target))
        origins, begun = {new: old for old, new in renamed.items()}, [*stored_keys(target)]
        # A move that was interrupted may have left equal values there.
        same = (k in origins and source.store.get(k) == source.store.get(origins[k]) for k in begun)
        if existing_node(target.store, target.path) is not None or not all(same):
            raise NodeExists(f"there is already something at {target}; erase it first")
        target.create_parents()
        before, after = (node_extent(at.format, at.path) for at in (source, target))
        if not begun and stage(source.store).move(before, after):
            for format in consolidated_formats(source.store, source.path, source.format):
                update_consolidated(source.store, format, {source.path: None})
        else:
            # Metadata last, and the outermost last of all.
            for key in sorted(renamed, key=lambda key: (is_metadata(key), *publication_order(key))):
                value = source.store.get(key)
                if value is None:
                    raise StoreError(f"{key!r} vanished while {source} was moved")
                target.store.set(renamed[key], value)
            check_erasable(source.store, source.path, source.format)
            source.erase()
    for format in consolidated_formats(target.store, target.path, target.format):
        moved = replace(target, format=format)
        if moved.find([]) is not None:
            update_consolidated(target.store, format, _metadata_below(moved))


def _renamed(source: Location, target: Location) -> Iterator[tuple[str, str]]:
    """Yield the old and the new key of every value of a node and of the nodes below it."""
    old, new = source.format.subtree(source.path), target.format.subtree(target.path)
    for key, other in zip(old[0], new[0], strict=True):
        if source.store.get(key) is not None:
            yield key, other
    for prefix, other in zip(old[1], new[1], strict=True):
        for key in stores.list_prefix(source.store, prefix):
            yield key, other + key[len(prefix) :]
