"""The location of a node: a store, a path and a format; its metadata are read and written here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from omnizarr import config, errors, stores
from omnizarr.errors import InvalidMetadata, NodeChanged, NodeExists, Problem, ReadOnly, warn
from omnizarr.formats import Documents, Format, Probe, consolidated, is_metadata, publication_order
from omnizarr.hierarchy.consolidated import (
    ConsolidatedMetadata,
    consolidated_formats,
    fetch_groups,
    update_consolidated,
)
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.publish.publication import all_stages, warn_of_replacement
from omnizarr.publish.stage import PROBE, Extent, Kind, Mark, marker, stage
from omnizarr.stores import Store
from omnizarr.stores.base import ChangesKeys, traits
from omnizarr.stores.operations import get_existing_or_empty, keys_below, set_new_below

if TYPE_CHECKING:  # the engine is slow to import
    from omnizarr.engine import Missing

_SetNew: TypeAlias = Callable[[str, bytes], bool]
MAX_DEPTH = 128  # of nested groups whose members are listed, since a walk may be recursive


@dataclass(unsafe_hash=True)  # as good as frozen, whose generated method takes twice the time
class Location:
    """The location of a node that exists or is to be created."""

    store: Store
    path: str
    format: Format
    read_only: bool = False
    # The consolidated metadata of a group above, where they are to be used.
    consolidated: ConsolidatedMetadata | None = field(default=None, compare=False, repr=False)
    # The treatment of missing chunks when arrays are read.
    missing: Missing = field(default="fill", compare=False, repr=False)
    # True where nobody else writes: what is there already is of the same writer.
    is_private: bool = field(default=False, compare=False, repr=False)
    # The sorted keys of the one listing that a walk uses (`with_listing`).
    listed_keys: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    # The path of the group through whose handle a node is created.
    within: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if "\\" in self.path:
            self.path = self.format.path(self.path)

    def __str__(self) -> str:
        return paths.place(self.path, self.store)

    @property
    def is_under_one_prefix(self) -> bool:
        """True if all keys of the node and of those below it begin with its path."""
        return self.format.chunk_prefix(self.path).startswith(self.format.listing(self.path))

    def at(self, path: str) -> Location:
        """Return the location of another path in the same hierarchy."""
        shared = self.consolidated, self.missing, self.is_private, self.listed_keys
        return Location(self.store, path, self.format, self.read_only, *shared)

    def child(self, name: str, within: str | None = None) -> Location:
        """Return the location of a relative path below this one."""
        found = self.at(paths.join(self.path, paths.normalize(name)))
        found.within = within
        return found

    # Reading

    def load(self) -> Node:
        """Read the node from its own metadata; raise NodeNotFound or InvalidMetadata."""
        problems: list[Problem] = []
        node = self._read_own(problems)
        errors.warn_of_problems(problems)
        if node is None:
            raise errors.NodeNotFound(f"there is no array or group at {self}")
        self.warn_of_name()
        return node

    def find(self, problems: list[Problem]) -> Node | None:
        """Read the node, also from consolidated metadata; return None if there is none."""
        copied, node = self.consolidated, None
        if copied is not None and copied.requested:
            node = copied.node(self.path)
        if node is None:
            node = self._read_own(problems)
        if node is None and copied is not None:
            node = copied.node(self.path)
        if node is not None:
            self.warn_of_name()
        return node

    def _read_own(self, problems: list[Problem]) -> Node | None:
        metadata = stores.get_existing(self.store, self.format.keys(self.path))
        node = self.format.read(self.path, metadata, problems)
        if node is None and self.format.implicit_groups:
            return GroupModel(implicit=True) if not self.path or self._has_nodes_below() else None
        return node

    def warn_of_name(self) -> None:
        """Warn if the name of the node breaks a rule of its format."""
        problem = self.format.name_warning(self.path) if self.path else None
        if problem is not None:
            warn(f"the path {self.path!r} {problem}")

    def _has_nodes_below(self) -> bool:
        known = self.format.implicit_groups and stores.can_list(self.store)
        return known and any(stores.list_dir(self.store, self.format.listing(self.path)))

    def children(
        self, names: Mapping[str, str | None] | None = None
    ) -> dict[str, Node | Exception]:
        """Return the nodes one level below, or some `names`; the error of an unreadable one."""
        known = None if self.consolidated is None else self.consolidated.children(self.path)
        if known is None:
            found = self._list_children(self.child_names(warns=True) if names is None else names)
        else:  # those whose consolidated metadata are not valid are read from their own
            wanted = {k: v for k, v in known.items() if names is None or k in names}
            invalid = dict.fromkeys([name for name, node in wanted.items() if node is None])
            read = self._list_children(invalid) if invalid else {}
            every = ((name, read.get(name, node)) for name, node in wanted.items())
            found = {name: node for name, node in every if node is not None}
        for name in found:
            if self.format.name_warning(name) is not None:
                self.child(name).warn_of_name()
        return found

    def _list_children(self, names: Mapping[str, str | None]) -> dict[str, Node | Exception]:
        """Read the nodes of some names, whose kind may be known."""
        found: dict[str, Node | Exception] = {}
        for name, documents in self.child_documents(names).items():
            try:
                node = self.format.read(paths.join(self.path, name), documents, [])
            except InvalidMetadata as e:
                found[name] = e
                continue
            if node is None and names[name] != "array" and self.format.implicit_groups:
                node = GroupModel(implicit=True)
            if node is not None:
                found[name] = node
        return found

    def child_documents(self, names: Iterable[str]) -> dict[str, Documents]:
        """Fetch the metadata of nodes below, by their relative paths, in one batch."""
        keys = {name: self.format.keys(paths.join(self.path, name)) for name in names}
        found = stores.get_existing(self.store, [key for own in keys.values() for key in own])
        return {name: {k: found[k] for k in own if k in found} for name, own in keys.items()}

    def child_names(self, *, warns: bool = False) -> dict[str, str | None]:
        """List names one level below that may be nodes, with the kind if the key shows it.

        With `warns`, warn if the listing shows that one is absent by an interrupted replacement.
        """
        if not stores.can_list(self.store):
            raise errors.StoreError(f"cannot list the members of {self}; open them by name")
        if self.path.count("/") >= MAX_DEPTH:
            raise InvalidMetadata(
                f"{self.store!r} has groups more than {MAX_DEPTH} levels deep; open these by path"
            )
        prefix = self.format.listing(self.path)
        if self.listed_keys is None:
            keys, prefixes = stores.list_dir(self.store, prefix)
        else:
            keys, prefixes = stores.one_level(keys_below(self.listed_keys, prefix), prefix)
        warn_of_replacement(self.store, prefixes if warns else ())
        return dict(self.format.children(self.path, keys, prefixes))

    def with_listing(self) -> Location:
        """Return this location with one listing for a walk, in formats with separate prefixes."""
        known = self.listed_keys is not None or self.consolidated is not None
        if known or self.is_under_one_prefix or not stores.can_list(self.store):
            return self
        listed = stores.list_prefix(self.store, self.format.listing(self.path))
        return replace(self, listed_keys=tuple(sorted(listed)))

    def without_listing(self) -> Location:
        """Return this location for a handle that is kept, which must list again."""
        return self if self.listed_keys is None else replace(self, listed_keys=None)

    # Writing

    def check_writable(self) -> None:
        """Raise ReadOnly if nothing may be written here."""
        if self.format.frozen:
            raise ReadOnly(f"{self}: {self.format.frozen}")
        if self.read_only and traits(self.store).to_write is None:
            raise ReadOnly(f"{self} was opened read-only; use mode 'r+' or 'a' to write")
        stores.check_writable(self.store)

    def save(
        self, old: Node | None, new: Node, put: Callable[[str, bytes | None], None] | None = None
    ) -> Node:
        """Store the metadata that differ from `old`, and return the node as it will be read back.

        `put`, if given, stores the value of one key, or erases it for None, instead of the store.
        """
        if put is None:
            self.check_writable()
        metadata = self.format.write(self.path, new)
        stored = {key: text for key, text in metadata.items() if text is not None}
        read = self.format.read(self.path, stored, []) or new  # before anything is stored
        several = len(metadata) > 1
        before = self.format.write(self.path, old) if several and old is not None else {}
        for key, text in metadata.items():
            if before.get(key) == text:  # also if there is neither
                continue
            if put is not None:
                put(key, text)
            elif text is None:
                self.store.erase(key)
            else:
                self.store.set(key, text)
        update_consolidated(self.store, self.format, {self.path: metadata})
        return read

    def create_absent(
        self, metadata: Documents, node: Node, found: PathMetadata | None
    ) -> Documents:
        """Store a node, or the marker of one, if none exists, and missing groups above it.

        Return the metadata of the groups above. `found` is the stored metadata, if the caller has
        looked, and has erased the remains of others. Else, where all groups exist and the place is
        empty, a store may need no look at it (`set_first`).
        """
        is_array = isinstance(node, ArrayModel)
        set_first: _SetNew | None = getattr(self.store, "set_first", None)
        several = len(metadata) > 1
        if found is None:
            if set_first is not None and not several and not self.format.root_documents():
                above = fetch_groups(self.store, self.path, self.format)
                if above is not None and self._store_new(metadata, set_first):
                    return above
            found = PathMetadata.fetch(self)
            mark = found.metadata.get(marker(self.path))
            if mark is not None:
                raise NodeExists(Mark.read(mark).message(self))
            existing = self.existing(found, is_array)
            if existing is not None:
                raise self.node_exists(existing)
            if is_array and not (found.is_empty or self.is_private):
                self.leftovers(overwrite=False)
        if self.within in found.missing:
            gone = f"the group {paths.show(str(self.within))} in {self.store!r}"
            raise NodeChanged(f"{gone} was deleted or moved since it was opened; open it again")
        self.create_parents(found)
        # Attributes of a node that is not there.
        stray = [key for key in self.format.keys(self.path) if key in found.metadata]
        # Where the first key of a folder is stored without a look, others may be writing there.
        claims = (is_array or several) and set_first is not None
        if claims and not self.is_private and marker(self.path) not in metadata:
            self._claim(metadata, stray)
        else:
            stores.erase_values(self.store, stray)
            self.store_new_node(metadata)
        return found.metadata

    def _claim(self, metadata: Documents, stray: Iterable[str]) -> None:
        """Store a new node's metadata, and erase stray attributes, while nobody else writes it."""
        if not stores.set_new(self.store, marker(self.path), Mark("create").write()):
            raise NodeExists(f"another writer is just creating {self}; open it later")
        try:
            if existing_node(self.store, self.path) is not None:
                raise NodeExists(f"another writer has just created {self}; open it instead")
            stores.erase_values(self.store, stray)
            self.store_new_node(metadata)
        finally:
            self.store.erase(marker(self.path))

    def leftovers(self, overwrite: bool) -> tuple[str, ...]:
        """Return the keys that an interrupted writer left; raise if they may not be erased."""
        store, format = self.store, self.format
        mark = store.get(marker(self.path))
        if mark is not None and (not overwrite or Mark.read(mark).is_being_written):
            raise NodeExists(Mark.read(mark).message(self))
        if not stores.can_list(store):
            return ()
        found, extent = [], node_extent(format, self.path)
        for prefix in extent.prefixes:
            for key in stores.list_prefix(store, prefix):
                if mark is not None and extent.marks(key):
                    found.append(key)
                if paths.is_ours(key) or key in extent.metadata:
                    continue
                if is_metadata(key) and mark is None:
                    why = "create a group there first and write into that"
                    if any(each.pending for each in all_stages(store)):
                        why = "if its writer was killed, omnizarr repair finishes that"
                    raise NodeExists(
                        f"{self} is no node, but others are below it, such as {key!r}; {why}"
                    )
                if format.is_zarr_key(key):
                    found.append(key)
        found.sort(key=lambda key: not is_metadata(key))
        if found and not overwrite:
            raise NodeExists(
                f"{self} has chunks without metadata, such as {found[0]!r}; give overwrite=True to"
                " erase them"
            )
        return tuple(found) if mark is None else (*found, marker(self.path))

    def prepare(self, node: Node) -> tuple[Documents, Node]:
        """Return the metadata of a new node, and the node as it will be read back."""
        self.check_new()
        written = self.format.write(self.path, node)
        metadata = {key: text for key, text in written.items() if text is not None}
        read = self.format.read(self.path, metadata, [])
        advice = self.format.name_advice(self.path)
        if advice is not None:
            warn(f"the path {self.path!r} {advice}")
        return metadata, node if read is None else read

    def store_new_node(
        self, metadata: Documents, same: Mapping[str, str | None] | None = None
    ) -> None:
        """Store the metadata of a new node; in a database, only if other keys have not changed."""
        if not self._store_below(metadata, same):
            raise NodeExists(f"another writer has just created {self}; open it instead")

    def check_new(self) -> None:
        """Raise if no node can be created at this path, whether or not one exists."""
        paths.check_new(self.path)
        self.format.check_name(self.path)
        self.check_writable()
        check_new_key = getattr(self.store, "check_new_key", None)  # quicker than the protocol
        if check_new_key is not None:
            check_new_key(self.format.keys(self.path)[0])

    def is_absent(self) -> bool:
        """Return True if a directory shows without a look at its files that nothing is here."""
        root = stores.file_root(self.store) if self.is_under_one_prefix else None
        return root is not None and not os.path.lexists(root / self.path)

    def existing(
        self, found: PathMetadata, implied: bool = False
    ) -> tuple[Format, Node | Exception] | None:
        """Return an existing node that prevents a new one, or an implied group, with its format."""
        existing = existing_node(self.store, self.path, found.metadata)
        if existing is not None:
            return existing
        # A hierarchy of another format, whose entry point a new root would replace.
        for format in Probe("").formats(found.metadata, []) if not self.path else ():
            other = type(format) is not type(self.format)
            if other and format.root_documents().keys() & {*self.format.keys("")}:
                return format, GroupModel(implicit=True)
        below = implied and self._has_nodes_below()
        return (self.format, GroupModel(implicit=True)) if below else None

    def node_exists(self, existing: tuple[Format, Node | Exception]) -> NodeExists:
        """Return the error for a node that prevents a new one."""
        kind, what = getattr(existing[1], "kind", ""), f"a zarr {existing[0].name}"
        remedy = "give another path" if existing[0].frozen else "give overwrite=True to replace it"
        message = f"there is already {what} {kind or 'node'} at {self}; {remedy}"
        return NodeExists(message, kind=kind)

    def create_parents(self, found: PathMetadata | None = None) -> None:
        """Store the missing groups above, and the root metadata that the format requires."""
        found = found or PathMetadata.fetch(self)
        for key, root in self.format.root_documents().items():
            if key not in found.metadata:
                stores.set_new(self.store, key, root)
        for path in found.missing:
            self.at(path)._create_group()

    def _create_group(self) -> None:
        """Store a group, unless another writer has just created one, which is kept."""
        written = self.format.write(self.path, GroupModel())
        metadata = {key: text for key, text in written.items() if text is not None}
        stored = self._store_below(metadata)
        if isinstance(self._read_own([]), ArrayModel):
            if stored:
                stores.erase_values(self.store, metadata)
            raise NodeExists(f"another writer has just created the array {self}")
        if stored:
            update_consolidated(self.store, self.format, {self.path: metadata})

    def _store_below(
        self, metadata: Documents, same: Mapping[str, str | None] | None = None
    ) -> bool:
        """Store the metadata of a new node by `_store_new` if the group above still exists."""
        if not self.path or self.is_private or self.format.implicit_groups:
            return self._store_new(metadata)
        above = self.format.keys(self.path.rpartition("/")[0])
        if isinstance(self.store, ChangesKeys):
            return set_new_below(self.store, metadata, above, same or {})
        with stores.changing(self.store):
            local = stores.traits(self.store).process_local
            if local and not stores.get_existing(self.store, above):
                raise NodeChanged(f"the group above {self} was deleted or moved")
            return self._store_new(metadata)

    def _store_new(self, metadata: Documents, put: _SetNew | None = None) -> bool:
        """Store the metadata of a new node; return False if another writer has just created it."""
        main, *others = metadata.items()
        # The others before the node appears, unless somebody has left them there.
        later = [row for row in others if not stores.set_new(self.store, *row)] if others else []
        if not (put or partial(stores.set_new, self.store))(*main):
            stores.erase_values(self.store, [row[0] for row in others if row not in later])
            return False
        for row in later:
            self.store.set(*row)
        return True

    def erase(self) -> None:
        """Erase the node and all below it; see `check_erasable` for other data.

        It vanishes at once where the store can do that. Elsewhere all metadata are erased first; a
        marker shows that chunks are left until they are erased.
        """
        self.check_writable()
        if not stage(self.store).remove(node_extent(self.format, self.path)):
            self._erase_metadata_first()
        for format in consolidated_formats(self.store, self.path, self.format):
            update_consolidated(self.store, format, {self.path: None})

    def _erase_metadata_first(self) -> None:
        keys, prefixes = self.format.subtree(self.path)
        listed = (key for prefix in prefixes for key in stores.list_prefix(self.store, prefix))
        metadata = {*keys, *self.format.keys(self.path)}
        metadata |= {key for key in listed if is_metadata(key)}
        marks = not stores.traits(self.store).commits_changes
        if marks:
            self.store.erase(PROBE)  # raises where nothing can be erased
            self.store.set(marker(self.path), Mark("delete", kind=Kind.DELETE).write())
        inner_first = sorted(metadata, key=publication_order, reverse=True)
        stores.erase_values(self.store, sorted(inner_first, key=lambda key: -key.count("/")))
        for prefix in prefixes:
            stores.erase_prefix(self.store, prefix)
        if marks:
            self.store.erase(marker(self.path))


def node_extent(format: Format, path: str) -> Extent:
    """Return all keys of a node; for a root, including the root metadata of the hierarchy."""
    keys, prefixes = format.subtree(path)
    metadata = format.keys(path) if path else (*format.keys(path), *format.root_documents())
    return Extent(metadata, tuple(keys), tuple(prefixes), format.is_metadata)


def existing_node(
    store: Store, path: str, metadata: Mapping[str, bytes] | None = None
) -> tuple[Format, Node | Exception] | None:
    """Return the node at a path in any format, or its error; `metadata` may be known already."""
    probe = Probe(path, separator=traits(store).separator)
    metadata = stores.get_existing(store, probe.keys()) if metadata is None else metadata
    for format in probe.formats(metadata, []):
        try:
            if format.implicit_groups:  # the keys of its nodes are not among those of the probe
                node = Location(store, path, format).find([])
            else:
                node = format.read(path, metadata, [])
        except InvalidMetadata as e:
            return format, e
        if node is not None and not (isinstance(node, GroupModel) and node.implicit):
            return format, node
    return None


class PathMetadata(NamedTuple):
    """The metadata at a path and at all groups above it, fetched in one batch."""

    metadata: Mapping[str, bytes]
    is_empty: bool  # True if nothing at all is stored at the path
    missing: list[str]  # the paths above that have no group yet

    @classmethod
    def fetch(cls, at: Location) -> PathMetadata:
        """Fetch everything that decides if a node can be created; raise if none can be there."""
        store, path, format = at.store, at.path, at.format
        keys = [*format.root_documents(), *consolidated.holders(format, path)]
        keys += [*consolidated.keys_above(format, path), *Probe(path).keys(), marker(path)]
        metadata, is_empty = get_existing_or_empty(store, paths.prefix(path), dict.fromkeys(keys))
        roots = format.root_documents() or format.keys("")[:1]
        taken = {key: metadata[key] for key in roots if key in metadata} if path else {}
        if taken and not Probe("", format.name).formats(taken, []):
            raise NodeExists(
                f"{next(iter(taken))!r} in {store!r} is not metadata of zarr {format.name}; leave"
                " zarr_format out to join the existing hierarchy"
            )
        missing = []
        implied = format.implicit_groups and not config.get().explicit_groups
        for above in paths.ancestors(path):
            node = format.read(above, metadata, [])
            if isinstance(node, ArrayModel):
                raise NodeExists(f"{at.at(above)} is an array; nothing can be below it")
            if node is None and not implied:
                missing.append(above)
        return cls(metadata, is_empty, missing)
