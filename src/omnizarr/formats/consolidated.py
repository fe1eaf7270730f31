"""Consolidated metadata: the documents of a hierarchy gathered in one.

Version 2 keeps them in ``.zmetadata``, version 3 inside the group's own document. Both are
copies: readers of this library use them only where a store cannot list, or when asked to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr._json import dumps, load_object
from omnizarr.errors import Problem
from omnizarr.formats.format import Documents, Format, cannot
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3
from omnizarr.model import GroupModel, Node, paths
from omnizarr.model.fields import Fields

KEY = ".zmetadata"


def key(format: Format, path: str) -> str | None:
    """The key of a document that holds nothing but the copy, or None where there is none."""
    return paths.prefix(path) + KEY if isinstance(format, V2) else None


def write(format: Format, path: str, nodes: Mapping[str, Node]) -> dict[str, bytes | None]:
    """The documents that hold copies of `nodes`, by relative path; the group itself is ``""``."""
    if isinstance(format, V2):
        return {paths.prefix(path) + KEY: _write_v2(nodes)}
    group = nodes[""]
    if isinstance(format, V3) and isinstance(group, GroupModel):
        copies = {p: format.document(_alone(n)) for p, n in nodes.items() if p}
        return format.write(path, group.with_(consolidated=copies))
    raise cannot(format.name, "consolidated metadata")


def read(
    format: Format, path: str, group: GroupModel, documents: Documents, problems: list[Problem]
) -> dict[str, Node]:
    """Nodes by relative path from a group's copies; a wrong entry is reported and left out."""
    own = key(format, path)
    if own is not None and own in documents:
        return _read_v2(documents[own], own, problems)
    return _read_v3(group, "zarr.json", problems) if group.consolidated is not None else {}


def _alone(node: Node) -> Node:
    return node.with_(consolidated=None) if isinstance(node, GroupModel) else node


def _write_v2(nodes: Mapping[str, Node]) -> bytes:
    metadata: dict[str, Any] = {}
    for path, node in nodes.items():
        for name, text in V2().write(path, node).items():
            if text is not None:
                metadata[name] = load_object(text, name)
    doc = {"metadata": metadata, "zarr_consolidated_format": 1}
    return dumps(doc, indent=4, sort_keys=True)


def _read_v2(data: bytes, key: str, problems: list[Problem]) -> dict[str, Node]:
    doc = load_object(data, key, allow_nan=True)
    fields = Fields(key, doc, problems)
    fields.choice("zarr_consolidated_format", (1,))
    entries = fields.attributes("metadata")
    fields.done("not valid consolidated metadata")
    documents = {name: dumps(value) for name, value in entries.items() if isinstance(value, dict)}
    found: dict[str, Node] = {}
    for name in documents:
        path, _, last = name.rpartition("/")
        if last in (".zarray", ".zgroup"):
            _keep(found, path, V2(), documents, key, problems)
    return found


def _read_v3(group: GroupModel, key: str, problems: list[Problem]) -> dict[str, Node]:
    found: dict[str, Node] = {"": group}
    for path, doc in (group.consolidated or {}).items():
        documents = {V3().keys(path)[0]: dumps(doc)} if isinstance(doc, dict) else {}
        _keep(found, path, V3(), documents, key, problems)
    return found


def _keep(
    found: dict[str, Node],
    path: str,
    format: V2 | V3,
    documents: Mapping[str, bytes],
    key: str,
    problems: list[Problem],
) -> None:
    inner: list[Problem] = []
    try:
        node = format.read(path, documents, inner)
    except ValueError as e:
        message = f"the entry for {path!r} is not valid: {e}"
        problems.append(Problem(key, "metadata", message, "warning"))
        return
    if node is not None:
        found[path] = node
