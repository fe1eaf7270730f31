"""Consolidated metadata: the metadata of all nodes below a group in one document.

Version 2 stores them as ``.zmetadata``, version 3 inside the group's own metadata. The draft and
version 1 have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from omnizarr._json import load_object
from omnizarr.errors import InvalidArgument, InvalidMetadata, InvalidName, Problem
from omnizarr.formats.format import Documents, Format, cannot, dumps
from omnizarr.formats.v2 import NAMES, V2
from omnizarr.formats.v3 import V3
from omnizarr.model import GroupModel, Node, paths
from omnizarr.model.fields import Fields

KEY = ".zmetadata"
MEMBER = "consolidated_metadata"
_MARK = f'"{MEMBER}"'.encode()

# The content of a node's documents by their names, and those of nodes by path below the group.
Entry: TypeAlias = Mapping[str, Any]
Entries: TypeAlias = dict[str, Entry]


def key(format: Format, path: str, name: str | None = None) -> str | None:
    """Return the key of the consolidated metadata of the group at `path`, or None if it has none.

    `name` is another one than ``.zmetadata``, in version 2.
    """
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


def probe_keys(wanted: str | None, path: str, name: str | None) -> list[str]:
    """Return the keys of consolidated metadata next to a node's own; None stands for any format."""
    return [paths.prefix(path) + (name or KEY)] if wanted in (None, V2.name) else []


def holders(format: Format, path: str) -> dict[str, str]:
    """Return the keys that may hold consolidated metadata of `path`, and the group of each."""
    if isinstance(format, V3):
        return {format.keys(group)[0]: group for group in paths.ancestors(path)}
    if isinstance(format, V2):  # these include the group's own metadata
        return {paths.prefix(group) + KEY: group for group in (*paths.ancestors(path), path)}
    return {}


def read(format: Format, data: bytes, key: str) -> Entries | None:
    """Return the consolidated metadata in a document, or None if it has none.

    Entries for paths that no node can have are omitted; see `impossible`.
    """
    found = _read(format, data, key)
    return found and {path: entry for path, entry in found.items() if is_possible(path)}


def impossible(format: Format, data: bytes, key: str) -> list[str]:
    """Return the paths in consolidated metadata that no node can have."""
    return [path for path in _read(format, data, key) or () if not is_possible(path)]


def is_possible(path: str) -> bool:
    """Return True for a path that a node below a group, or the group itself, can have."""
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


def _read(format: Format, data: bytes, key: str) -> Entries | None:
    if isinstance(format, V3):
        return _read_v3(data, key)
    doc = load_object(data, key, allow_nan=True)
    problems: list[Problem] = []
    fields = Fields(key, doc, problems)
    fields.require("metadata")
    fields.choice("zarr_consolidated_format", (1,))
    members = fields.attributes("metadata")
    fields.done("not valid consolidated metadata")
    found: dict[str, dict[str, Any]] = {}
    for name, member in members.items():
        path, _, last = name.rpartition("/")
        if last in NAMES:
            found.setdefault(path, {})[last] = member
    return {path: docs for path, docs in found.items() if docs.keys() & {".zarray", ".zgroup"}}


def _read_v3(data: bytes, key: str) -> Entries | None:
    if _MARK not in data:
        return None
    inside = load_object(data, key).get(MEMBER)
    members = inside.get("metadata") if isinstance(inside, dict) else None
    if not isinstance(members, dict) or not isinstance(inside, dict):
        return None
    if inside.get("kind") != "inline":
        return None
    return {path: {"zarr.json": member} for path, member in members.items()}


def has_consolidated(format: Format, data: bytes, key: str) -> bool:
    """Return True if a document has consolidated metadata that can be read."""
    try:
        return read(format, data, key) is not None
    except InvalidMetadata:
        return False


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
    documents = {paths.prefix(path) + name: dumps(copy) for name, copy in own.items()}
    return format.read(path, documents, [])


def write(format: Format, path: str, nodes: Mapping[str, Node]) -> dict[str, bytes]:
    """Return the document with metadata of `nodes` by relative path; the group itself is ``""``."""
    if isinstance(format, V2):
        documents = {k: t for p, n in nodes.items() for k, t in format.write(p, n).items()}
        members = {k: load_object(t, k) for k, t in documents.items() if t is not None}
        return {paths.prefix(path) + KEY: _dump_v2({"metadata": members})}
    group = nodes[""]
    if isinstance(format, V3) and isinstance(group, GroupModel):
        inside = {p: format.document(_without_consolidated(n)) for p, n in nodes.items() if p}
        texts = format.write(path, group.with_(consolidated=inside))
        return {at: text for at, text in texts.items() if text is not None}
    raise cannot(format.name, "consolidated metadata")


def changed(format: Format, data: bytes, key: str, nodes: Mapping[str, Documents]) -> bytes:
    """Return the document `key` with the metadata of some nodes updated.

    `nodes` has each node's documents by their names; the paths are relative to the group. A node
    without any is gone, with all below it.
    """
    doc = load_object(data, key, allow_nan=isinstance(format, V2))
    inside = doc[MEMBER] if isinstance(format, V3) else doc
    for path, documents in nodes.items():
        below = paths.prefix(path)
        new = {below + name: load_object(text, name) for name, text in documents.items()}
        old = {below + name for name in NAMES}
        if isinstance(format, V3):
            old = {path}
            for copy in [*new.values()]:
                new = {path: {k: v for k, v in copy.items() if k != MEMBER}}
        inside["metadata"] = {
            k: v
            for k, v in inside["metadata"].items()
            if k not in old and (documents or not k.startswith(below))
        } | new
    return dumps(doc, indent=2) if isinstance(format, V3) else _dump_v2(doc)


def dropped(format: Format, data: bytes, key: str) -> bytes | None:
    """Return the document without consolidated metadata; None if nothing remains of it."""
    if not isinstance(format, V3):
        return None
    doc = load_object(data, key)
    doc.pop(MEMBER, None)
    return dumps(doc, indent=2)


def _dump_v2(doc: Mapping[str, Any]) -> bytes:
    return dumps({"zarr_consolidated_format": 1, **doc}, indent=4, sort_keys=True)


def _without_consolidated(node: Node) -> Node:
    return node.with_(consolidated=None) if isinstance(node, GroupModel) else node
