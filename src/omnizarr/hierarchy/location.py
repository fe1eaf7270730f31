"""The location of a node: a store, a path, a format; reads and writes its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from omnizarr import chunk_key_encodings, config
from omnizarr.engine import Missing
from omnizarr.errors import (
    InvalidMetadata,
    NodeExists,
    NodeNotFound,
    OmnizarrError,
    Problem,
    ReadOnly,
    StoreError,
    warn,
)
from omnizarr.formats import Format, Probe, consolidated, is_metadata
from omnizarr.hierarchy.consolidated import Copies, keep_right
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import (
    Store,
    can_list,
    check_writable,
    erase_prefix,
    erase_values,
    get_existing,
    list_dir,
    list_prefix,
    one_level,
    operations,
    set_new,
)
from omnizarr.stores.local.files import OURS
from omnizarr.stores.staging import Mark, marker

MAX_LEVELS = 128  # of groups in groups, whose members are listed: walks may be recursive


@dataclass(frozen=True)
class Location:
    """Where a node is, or shall be."""

    store: Store
    path: str
    format: Format
    read_only: bool = False
    # All keys of documents below, sorted, while a walk uses one listing for the whole of it.
    known: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    # A group's copies of the documents below it, where they are to be used.
    copies: Copies | None = field(default=None, compare=False, repr=False)
    # What reads of arrays do about chunks that the store does not have.
    missing: Missing = field(default="fill", compare=False, repr=False)

    def __post_init__(self) -> None:
        if "\\" in self.path:
            object.__setattr__(self, "path", self.format.path(self.path))

    def __str__(self) -> str:
        return f"{paths.show(self.path)} in {self.store!r}"

    def at(self, path: str) -> Location:
        """Another place in the same hierarchy."""
        return Location(
            self.store, path, self.format, self.read_only, self.known, self.copies, self.missing
        )

    def child(self, name: str) -> Location:
        """A place below this one."""
        return self.at(paths.join(self.path, paths.normalize(name)))

    # Reading

    def load(self) -> Node:
        """The node by its own documents; raises NodeNotFound or InvalidMetadata."""
        problems: list[Problem] = []
        node = self._own(problems)
        tell(problems)
        if node is None:
            raise NodeNotFound(f"there is no array or group at {self}")
        self.check_read_name()
        return node

    def shape(self) -> tuple[int, ...] | None:
        """The shape that an array's own documents state now; None where there is no array."""
        with suppress(OmnizarrError):
            node = self._own([])
            return node.shape if isinstance(node, ArrayModel) else None
        return None

    def find(self, problems: list[Problem]) -> Node | None:
        """The node, or None where there is none."""
        node = None
        if self.copies is not None and self.copies.asked:
            node = self.copies.node(self.path)
        node = self._own(problems) if node is None else node
        if node is None and self.copies is not None:
            node = self.copies.node(self.path)
        if node is not None:
            self.check_read_name()
        return node

    def _own(self, problems: list[Problem]) -> Node | None:
        documents = get_existing(self.store, self.format.keys(self.path))
        node = self.format.read(self.path, documents, problems)
        if node is None and self.format.implicit_groups:
            return self._implicit()
        return node

    def check_read_name(self) -> None:
        """Warn of a node whose name breaks a rule of its format."""
        problem = self.format.name_warning(self.path)
        if problem is not None:
            warn(f"the path {self.path!r} {problem}")

    def _implicit(self) -> Node | None:
        return GroupModel(implicit=True) if not self.path or self._implies_group() else None

    def _implies_group(self) -> bool:
        """Whether nodes below make this a group, though it has no document."""
        if not self.format.implicit_groups or not can_list(self.store):
            return False
        keys, prefixes = list_dir(self.store, self.format.listing(self.path))
        return bool(keys or prefixes)

    def children(self) -> dict[str, Node | Exception]:
        """The nodes one level down by name; one that cannot be read is its error."""
        copied = None if self.copies is None else self.copies.children(self.path)
        if copied is not None:
            return self._filled(copied)
        names = self.child_names()
        start = paths.prefix(self.path)
        documents = get_existing(
            self.store, [k for n in names for k in self.format.keys(start + n)]
        )
        found: dict[str, Node | Exception] = {}
        for name, kind in names.items():
            try:
                node = self.format.read(start + name, documents, [])
            except InvalidMetadata as e:
                found[name] = e
                continue
            if node is None and kind == "group":
                node = GroupModel(implicit=True)
            if node is not None:
                found[name] = node
        self._check_read_names(found)
        return found

    def _check_read_names(self, names: Iterable[str]) -> None:
        for name in names:
            if self.format.name_warning(name) is not None:
                self.child(name).check_read_name()

    def _filled(self, copied: Mapping[str, Node | None]) -> dict[str, Node | Exception]:
        """Copies of children, with those that are not valid by their own documents."""
        found: dict[str, Node | Exception] = {}
        for name, copy in copied.items():
            try:
                node = self.child(name)._own([]) if copy is None else copy
            except InvalidMetadata as e:
                found[name] = e
                continue
            if node is not None:
                found[name] = node
        self._check_read_names(found)
        return found

    def child_names(self) -> dict[str, str | None]:
        """Names one level down that may be nodes, with their kind where the key tells it."""
        if not can_list(self.store):
            raise StoreError(
                f"{self.store!r} cannot list its keys, so the members of {paths.show(self.path)}"
                " cannot be found; open them by name"
            )
        if self.path.count("/") >= MAX_LEVELS:
            raise InvalidMetadata(
                f"{self.store!r} has groups more than {MAX_LEVELS} levels deep, further than"
                " members are listed; open what lies there by its path"
            )
        prefix = self.format.listing(self.path)
        if self.known is None:
            keys, prefixes = list_dir(self.store, prefix)
        else:
            keys, prefixes = one_level(operations.keys_below(self.known, prefix), prefix)
        return dict(self.format.children(self.path, keys, prefixes))

    def listed(self) -> Location:
        """For a walk: this place, with one listing for all below it, where chunks lie elsewhere."""
        prefix = self.format.listing(self.path)
        mixed = self.format.chunk_prefix(self.path).startswith(prefix)
        if self.known is not None or self.copies is not None or mixed or not can_list(self.store):
            return self
        return replace(self, known=tuple(sorted(list_prefix(self.store, prefix))))

    def unlisted(self) -> Location:
        """This place as it is to be kept: what is below will be looked up anew."""
        return self if self.known is None else replace(self, known=None)

    # Writing

    def check_writable(self) -> None:
        """Raise before anything is touched where nothing may be written."""
        if self.read_only:
            raise ReadOnly(f"{self} was opened read-only; use mode 'r+' or 'a' to write")
        check_writable(self.store)
        if self.format.frozen:
            raise ReadOnly(f"{self}: {self.format.frozen}")

    def save(
        self,
        old: Node | None,
        new: Node,
        put: Callable[[str, bytes | None], None] | None = None,
    ) -> Node:
        """Store the documents that differ, and give back the node as it will be read.

        `put` stores one of them in a way of its own.
        """
        self.check_writable()
        documents, read = self._documents(new)
        several = len(documents) > 1
        before = self.format.write(self.path, old) if several and old is not None else {}
        for key, text in documents.items():
            if before.get(key) == text:
                continue
            if text is not None or before.get(key) is not None:
                (put or self._put)(key, text)
        keep_right(self.store, self.format, {self.path: documents})
        return read

    def _put(self, key: str, text: bytes | None) -> None:
        if text is None:
            self.store.erase(key)
        else:
            self.store.set(key, text)

    def _documents(self, node: Node) -> tuple[dict[str, bytes | None], Node]:
        """The documents of a node, and the node as it will be read from them."""
        documents = self.format.write(self.path, node)
        kept = {key: text for key, text in documents.items() if text is not None}
        read = self.format.read(self.path, kept, [])
        return documents, node if read is None else read

    def create(
        self,
        node: Node,
        *,
        check: Callable[[Node], None] = lambda node: None,
        implied: bool | None = None,
    ) -> Node:
        """Store a new node where there is none, and groups above it where the format needs them.

        Whatever can be wrong raises before anything is touched; `check` may find more of it.
        A group without metadata of its own is in the way of an array, or where `implied` is True.
        """
        self.check_new()
        documents, read = self._documents(node)
        check(read)
        advice = self.format.name_advice(self.path)
        if advice is not None:
            warn(f"the path {self.path!r} {advice}")
        around = Around.look(self.store, self.path, self.format)
        around.check_root()
        missing = around.missing_groups()
        mark = around.documents.get(marker(self.path))
        if mark is not None:
            raise NodeExists(incomplete(self, mark))
        existing = self.existing(around, implied or isinstance(node, ArrayModel))
        if existing is not None:
            raise self.node_exists(existing)
        self._create_above(missing, around)
        if not self._store_new(documents):
            raise NodeExists(f"another writer has just created {self}; open it instead")
        keep_right(self.store, self.format, {self.path: documents}, around.documents)
        return read

    def check_new(self) -> None:
        """Raise where no node can be made at this path, whatever is there."""
        self.format.check_name(self.path)
        self.check_writable()
        check_spelling = getattr(self.store, "check_spelling", None)  # quicker than the protocol
        if check_spelling is not None:
            check_spelling(self.format.keys(self.path)[0])

    def existing(
        self, around: Around, implied: bool = False
    ) -> tuple[Format, Node | Exception] | None:
        """Return what is in the way of a new node, and its format; perhaps an implied group."""
        found = existing_node(self.store, self.path, around.documents) or around.other_root()
        if found is None and implied and self._implies_group():
            return self.format, GroupModel(implicit=True)
        return found

    def node_exists(self, existing: tuple[Format, Node | Exception]) -> NodeExists:
        """Return the error for a node that is in the way."""
        what = existing[1].kind if not isinstance(existing[1], Exception) else "node"
        return NodeExists(
            f"there is already a zarr {existing[0].name} {what} at {self};"
            " give overwrite=True to replace it"
        )

    def create_above(self) -> None:
        """Store the groups above that are missing; raises where one is an array."""
        around = Around.look(self.store, self.path, self.format)
        around.check_root()
        self._create_above(around.missing_groups(), around)

    def _create_above(self, missing: Iterable[str], around: Around) -> None:
        """Store groups at those paths, and what a hierarchy must have beside its nodes."""
        for key, root in self.format.root_documents().items():
            if key not in around.documents:
                set_new(self.store, key, root)
        for path in missing:
            self.at(path)._create_group()

    def _create_group(self) -> None:
        """Store a group, unless another writer has just done so; what that one says stays."""
        documents, _ = self._documents(GroupModel())
        if self._store_new(documents):
            keep_right(self.store, self.format, {self.path: documents})

    def _store_new(self, documents: Mapping[str, bytes | None]) -> bool:
        """Whether the documents of a new node were stored; not where another has just made it."""
        (first, main), *others = ((k, text) for k, text in documents.items() if text is not None)
        if not set_new(self.store, first, main):
            return False
        for key, text in others:
            self.store.set(key, text)
        return True

    def erase(self, *, foreign: bool = False) -> None:
        """Remove the node and all below it; refuses where something is not Zarr.

        `foreign` says that what is not Zarr is to be removed too.
        """
        self.check_writable()
        if not foreign:
            check_owned(self.store, self.path, self.format)
        keys, prefixes = self.format.owned(self.path)
        erase_values(self.store, keys)
        for prefix in prefixes:
            erase_prefix(self.store, prefix)
        keep_right(self.store, self.format, {self.path: None})


def incomplete(location: Location, mark: bytes) -> str:
    """Return the message for a place whose writer was interrupted."""
    return (
        f"{location} is incomplete: {Mark.read(mark)} was interrupted, or is still writing;"
        " give overwrite=True to start again"
    )


def tell(problems: Iterable[Problem]) -> None:
    """Warn about what is odd but can be read."""
    for problem in problems:
        if problem.level == "warning":
            warn(str(problem))


def existing_node(
    store: Store, path: str, documents: Mapping[str, bytes] | None = None
) -> tuple[Format, Node | Exception] | None:
    """What stands at a path in any format, even if it cannot be read.

    `documents` are those that a probe of the path asks for, where they were fetched already.
    """
    probe = Probe(path, separator=separator_of(store))
    documents = get_existing(store, probe.keys()) if documents is None else documents
    for format in probe.formats(documents, []):
        try:
            if format.implicit_groups:  # whose documents are not among those
                node = Location(store, path, format).find([])
            else:
                node = format.read(path, documents, [])
        except InvalidMetadata as e:
            return format, e
        if node is not None and not (isinstance(node, GroupModel) and node.implicit):
            return format, node
    return None


def separator_of(store: Store) -> str:
    """What a nested store of zarr-python 2 has in chunk keys."""
    found: str = getattr(store, "dimension_separator", ".")
    return found


@dataclass(frozen=True, slots=True)
class Around:
    """The documents at and above a place, from one batch of look-ups."""

    store: Store
    path: str
    format: Format
    documents: Mapping[str, bytes]

    @classmethod
    def look(cls, store: Store, path: str, format: Format) -> Around:
        """What is there now."""
        keys = [*format.root_documents(), *consolidated.holders(format, path)]
        for parent in paths.ancestors(path):
            keys += format.keys(parent)
        keys += Probe(path).keys()
        keys.append(marker(path))
        return cls(store, path, format, get_existing(store, dict.fromkeys(keys)))

    def check_root(self) -> None:
        """Raise where another format's hierarchy has a key that this one's needs."""
        keys = self.format.root_documents() or self.format.keys("")[:1]
        taken = {k: self.documents[k] for k in keys if k in self.documents} if self.path else {}
        if taken and not Probe("", self.format.name).formats(taken, []):
            raise NodeExists(
                f"{next(iter(taken))!r} in {self.store!r} is not a document of zarr"
                f" {self.format.name}, so {paths.show(self.path)} cannot be created in that format;"
                " leave zarr_format out to join the hierarchy that is there"
            )

    def other_root(self) -> tuple[Format, Node] | None:
        """A hierarchy whose entry point a new root of this format would replace."""
        for format in Probe("").formats(self.documents, []) if not self.path else ():
            other = type(format) is not type(self.format)
            if other and format.root_documents().keys() & {*self.format.keys("")}:
                return format, GroupModel(implicit=True)
        return None

    def missing_groups(self) -> list[str]:
        """Paths above that have no group yet; raises where one is an array."""
        missing = []
        for path in paths.ancestors(self.path):
            node = self.format.read(path, self.documents, [])
            if isinstance(node, ArrayModel):
                raise NodeExists(
                    f"{paths.show(path)} in {self.store!r} is an array; nothing can be below it"
                )
            implied = self.format.implicit_groups and not config.get().explicit_groups
            if node is None and not implied:
                missing.append(path)
        return missing


def check_owned(store: Store, path: str, format: Format) -> None:
    """Raise where a node cannot be erased: something below is not Zarr, or not known."""
    where = f"{paths.show(path)} in {store!r}"
    if not can_list(store):
        raise StoreError(f"{store!r} cannot list its keys, so {where} cannot be erased")
    arrays: dict[str, Node | None] = {}
    for prefix in format.owned(path)[1]:
        for key in list_prefix(store, prefix):
            if OURS in key:
                continue
            if not format.looks_owned(key) and not _is_chunk(store, format, key, arrays):
                raise StoreError(
                    f"{where} holds something that is not Zarr: {key!r}; nothing was erased."
                    " Move it away first, or erase it too: group.delete(name, foreign=True)"
                )


def _is_chunk(store: Store, format: Format, key: str, arrays: dict[str, Node | None]) -> bool:
    """Whether a key is a chunk's in the encoding of the array that it lies in."""
    for path in paths.ancestors(key):
        if path not in arrays:
            arrays[path] = format.read(path, get_existing(store, format.keys(path)), [])
        array = arrays[path]
        if isinstance(array, ArrayModel):
            encoding = chunk_key_encodings.bind(array.chunk_key_encoding)
            inside = key.removeprefix(format.chunk_prefix(path))
            return encoding.coords(inside, len(array.shape)) is not None
    return False


def below(start: Location, node: Node) -> Iterator[tuple[Location, Node | Exception]]:
    """A node and all below it, each before those in it; one that cannot be read is its error.

    Raises where the members of a group cannot be listed.
    """
    left: list[tuple[Location, Node | Exception]] = [(start.listed(), node)]
    while left:
        place, found = left.pop()
        yield place, found
        if not isinstance(found, GroupModel):
            continue
        children = sorted(place.children().items(), reverse=True)
        left += [(place.child(name), child) for name, child in children]


def walk(location: Location, node: Node) -> dict[str, Node]:
    """All readable nodes at and below a place, by path relative to it."""
    start = len(paths.prefix(location.path))
    return {
        place.path[start:]: found
        for place, found in below(location, node)
        if not isinstance(found, Exception)
    }


def readable_nodes(location: Location, node: Node) -> dict[str, Node]:
    """As `walk`; raise where a node cannot be read, so that none is left out without a word."""
    start = len(paths.prefix(location.path))
    found: dict[str, Node] = {}
    bad: list[str] = []
    for place, one in below(location, node):
        if isinstance(one, Exception):
            bad.append(str(one))
        else:
            found[place.path[start:]] = one
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise InvalidMetadata(
            f"{location} holds a node that cannot be read, so not all of it can be copied:"
            f" {bad[0]}{more}; repair or erase it first"
        )
    return found


def warn_of_foreign(
    location: Location, nodes: Mapping[str, Node], *, members: bool = True
) -> list[str]:
    """Warn of what lies in groups and is no part of any node, and return its keys and prefixes.

    `nodes` are all nodes at and below a place by relative path; arrays are not looked into, and
    groups below the place only where `members` is True.
    """
    found = [
        entry
        for path, node in nodes.items()
        if isinstance(node, GroupModel) and (members or not path)
        for entry in _foreign(location.at(paths.join(location.path, path)), path, nodes)
    ]
    if found:
        some = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
        warn(f"left out, since it is not Zarr: {some} in {location.store!r}")
    return found


def _foreign(group: Location, path: str, nodes: Mapping[str, Node]) -> Iterator[str]:
    keys, prefixes = list_dir(group.store, group.format.listing(group.path))
    yield from (key for key in keys if OURS not in key and not is_metadata(key))
    for prefix in prefixes:
        name = paths.name(prefix[:-1])
        if OURS in name or paths.join(path, name) in nodes:
            continue
        if next(iter(list_prefix(group.store, prefix)), None) is not None:  # no empty folder
            yield prefix
