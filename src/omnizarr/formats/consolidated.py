"""Consolidated metadata: the metadata of all nodes below a group in one document.

Version 2 stores them as ``.zmetadata``, version 3 inside the group's own metadata. The draft and
version 1 have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from omnizarr._json import LazyObject, dumps, load_object, quote
from omnizarr.errors import InvalidArgument, InvalidMetadata, InvalidName, Problem
from omnizarr.formats.format import Documents, Format, cannot
from omnizarr.formats.v2 import NAMES, V2
from omnizarr.formats.v3 import CONSOLIDATED, CONSOLIDATED_MEMBERS, V3
from omnizarr.model import GroupModel, Node, paths
from omnizarr.model.fields import Fields

KEY = ".zmetadata"
MEMBER = CONSOLIDATED
_MARK = f'"{MEMBER}"'.encode()
_LAYOUT = {V2.name: (2, 4), V3.name: (3, 2)}  # the depth of entries, and the indent
_START_V2 = b'{\n    "metadata": {'
_END_V2 = b'},\n    "zarr_consolidated_format": 1\n}'

# The content of a node's documents by their names.
Entry: TypeAlias = Mapping[str, Any]


class Entries(Mapping[str, Entry]):
    """The entries of possible nodes by their paths below the group, read when asked for."""

    def __init__(self, members: LazyObject, names: Mapping[str, list[str]] | None) -> None:
        self.members = members
        # The names of documents by path in version 2; in version 3 members are paths.
        self._names = names
        self._paths: Mapping[str, Any] = members if names is None else names

    def __getitem__(self, path: str) -> Entry:
        if path not in self:
            raise KeyError(path)
        if self._names is None:
            return {"zarr.json": self.members[path]}
        start = paths.prefix(path)
        return {name: self.members[start + name] for name in self._names[path]}

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path in self._paths and is_possible(path)

    def __iter__(self) -> Iterator[str]:
        return filter(is_possible, self._paths)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def impossible(self) -> list[str]:
        """The paths that no node can have."""
        return [path for path in self._paths if not is_possible(path)]


def key(format: Format, path: str, name: str | None = None) -> str | None:
    """Return the key of a group's consolidated metadata (version 2: or of `name`), or None."""
    if isinstance(format, V2):
        return paths.prefix(path) + (name or KEY)
    if isinstance(format, V3):
        if name is not None:
            raise InvalidArgument(
                f"use_consolidated={name!r}: zarr 3 stores consolidated metadata in the group's own"
                " metadata; give True, False or None"
            )
        return format.keys(path)[0]
    return None


def other_formats(format: Format) -> list[Format]:
    """Return the other formats with consolidated metadata: a node may be stored in both."""
    return [other for other in (V2(), V3()) if other.name != format.name]


def probe_keys(wanted: str | None, path: str, used: bool | str | None = True) -> list[str]:
    """Return the keys of `used` consolidated metadata next to a node's; None means any format."""
    name = used if isinstance(used, str) else KEY
    return [paths.prefix(path) + name] if used and wanted in (None, V2.name) else []


def group_documents(data: bytes, key: str, path: str) -> dict[str, bytes]:
    """Return the group's own documents in consolidated metadata of version 2; none if not valid."""
    try:
        found = read(V2(), data, key)
        entry = None if found is None else found.get("")
    except InvalidMetadata:
        return {}
    if entry is None or not isinstance(entry.get(".zgroup"), dict):
        return {}
    return {paths.prefix(path) + name: dumps(copy) for name, copy in entry.items()}


def keys_above(format: Format, path: str) -> list[str]:
    """Return the keys of the metadata of all groups above, with their consolidated metadata."""
    groups = paths.ancestors(path)
    own = [key for group in groups for key in format.keys(group)]
    if not isinstance(format, V2):
        return own
    return own + [paths.prefix(group) + KEY for group in groups]


def holders(format: Format, path: str) -> dict[str, str]:
    """Return the keys that may hold consolidated metadata of `path`, and the group of each."""
    if isinstance(format, V3):
        return {format.keys(group)[0]: group for group in paths.ancestors(path)}
    if isinstance(format, V2):  # these include the group's own metadata
        return {paths.prefix(group) + KEY: group for group in (*paths.ancestors(path), path)}
    return {}


def present_holders(format: Format, nodes: Iterable[str], documents: Documents) -> dict[str, str]:
    """Return the `holders` of nodes whose documents may have consolidated metadata."""
    if isinstance(format, V3):
        documents = {key: text for key, text in documents.items() if _MARK in text}
    if not documents:
        return {}
    return {
        key: group
        for path in nodes
        for key, group in holders(format, path).items()
        if key in documents
    }


def is_possible(path: str) -> bool:
    """Return True if a path below a group is valid; the group itself has an empty path."""
    try:
        return paths.normalize(path) == path
    except InvalidName:
        return False


def is_same(entry: Entry, documents: Documents) -> bool:
    """Return True if consolidated metadata equal a node's own metadata."""
    try:
        own = {name: load_object(text, name, allow_nan=True) for name, text in documents.items()}
    except InvalidMetadata:
        return False
    return _plain(entry) == _plain(own)


def _plain(entry: Entry) -> bytes:
    """Return an entry in one spelling: without nested entries and without empty attributes."""
    found = {}
    for name, copy in entry.items():
        if isinstance(copy, dict) and name != ".zattrs":
            copy = {k: v for k, v in copy.items() if k != MEMBER}
        if isinstance(copy, dict) and name == "zarr.json":
            copy = {"attributes": {}, **copy}
        if copy or name != ".zattrs":
            found[name] = copy
    return dumps(found, sort_keys=True)


def read(format: Format, data: bytes, key: str) -> Entries | None:
    """Return the consolidated metadata in a document, or None if it has none."""
    if isinstance(format, V3):
        if _MARK not in data:
            return None
        inside = LazyObject.read(data, key, CONSOLIDATED_MEMBERS, allow_nan=True).inner
        if inside is None or inside.inner is None or inside.get("kind") != "inline":
            return None
        return Entries(inside.inner, None)
    doc = LazyObject.read(data, key, ("metadata",), allow_nan=True)
    problems: list[Problem] = []
    short: dict[str, Any] = {} if doc.inner is None else {"metadata": {}}
    fields = Fields(key, {n: short[n] if n in short else doc[n] for n in doc}, problems)
    fields.require("metadata")
    fields.choice("zarr_consolidated_format", (1,))
    fields.attributes("metadata")
    fields.done("not valid consolidated metadata")
    if doc.inner is None:
        return None
    found: dict[str, list[str]] = {}
    for name in doc.inner:
        path, _, last = name.rpartition("/")
        if last in NAMES:
            found.setdefault(path, []).append(last)
    nodes = {path: names for path, names in found.items() if names != [".zattrs"]}
    return Entries(doc.inner, nodes)


def read_valid(format: Format, data: bytes, key: str) -> Entries | None:
    """Return the consolidated metadata in a document, or None if it has none that are valid."""
    try:
        return read(format, data, key)
    except InvalidMetadata:
        return None


def node(format: Format, path: str, entry: Entry) -> Node | None:
    """Return the node that an entry describes; raise InvalidMetadata if it is not valid."""
    for name, copy in entry.items():
        if not isinstance(copy, dict):
            raise InvalidMetadata(
                f"the consolidated metadata of {paths.prefix(path)}{name} are not an object"
            )
    # zarr-python gives every inner group empty consolidated metadata, in version 2 too.
    own = {
        name: {k: v for k, v in copy.items() if k != MEMBER or name == ".zattrs"}
        for name, copy in entry.items()
    }
    # As json has it, with NaN where the entry has it.
    documents = {paths.prefix(path) + name: json.dumps(copy).encode() for name, copy in own.items()}
    return format.read(path, documents, [])


def write(format: Format, path: str, nodes: Mapping[str, Node]) -> dict[str, bytes]:
    """Return the document with metadata of `nodes` by relative path; the group itself is ``""``."""
    at = key(format, path)
    group = nodes[""]
    if at is None or not isinstance(group, GroupModel):
        raise cannot(format.name, "consolidated metadata")
    order = sorted(nodes, key=paths.prefix) if isinstance(format, V2) else nodes
    documents: list[tuple[str, Documents]] = []
    for p in order:
        node = nodes[p]
        node = node.with_(consolidated=None) if isinstance(node, GroupModel) else node
        written = format.write(p, node).items()
        documents.append((p, {paths.name(k): text for k, text in written if text is not None}))
    return {at: b"".join(parts(format, group, documents))}


def parts(
    format: Format, group: GroupModel, nodes: Iterable[tuple[str, Documents]]
) -> Iterator[bytes]:
    """Yield a consolidated document in parts, from the valid metadata texts of `nodes`.

    The nodes are given by paths below the group, in the order of `paths.prefix` in version 2.
    """
    start, end = _START_V2, _END_V2
    if isinstance(format, V3):
        start, end = format.around_consolidated(group)
    depth, indent = _LAYOUT[format.name]
    margin = b"\n" + b" " * (depth * indent)
    yield start
    comma = b""
    for path, documents in nodes:
        below = paths.prefix(path)
        for name, text in sorted(documents.items()):
            if isinstance(format, V3) and not path:
                continue
            where = path if isinstance(format, V3) else below + name
            entry = _entry_text(format, text, name).replace(b"\n", margin)
            yield b"".join((comma, margin, quote(where), b": ", entry))
            comma = b","
    yield b"\n" + b" " * ((depth - 1) * indent) + end if comma else end


def changed(format: Format, entries: Entries, nodes: Mapping[str, Documents]) -> bytes:
    """Return the consolidated document with the entries of some nodes updated.

    `nodes` has each node's documents by their names; the paths are relative to the group. A node
    without any is gone, with all below it. The texts of other entries stay as they are.
    """
    old = entries.members
    changes: dict[str, bytes | None] = {}
    for path, documents in nodes.items():
        below = paths.prefix(path)
        if not documents:
            changes |= {name: None for name in (*old, *changes) if name.startswith(below)}
        members = [path] if isinstance(format, V3) else [below + name for name in NAMES]
        changes |= dict.fromkeys(members)
        for name, text in documents.items():
            load_object(text, name, allow_nan=True)
            where = path if isinstance(format, V3) else below + name
            changes[where] = _entry_text(format, text, name)
    depth, indent = _LAYOUT[format.name]
    return old.changed(changes, depth=depth, indent=indent, ordered=isinstance(format, V2))


def _entry_text(format: Format, text: bytes, name: str) -> bytes:
    """Return a document as an entry, without consolidated metadata and numbers that JSON lacks."""
    if not any(part in text for part in (_MARK, b"NaN", b"Infinity")):
        return text.strip()
    doc = load_object(text, name, allow_nan=True)
    if isinstance(format, V3):
        doc.pop(MEMBER, None)
        return dumps(doc, indent=2)
    return dumps(doc, indent=4, sort_keys=True)
