"""Consolidated metadata: the documents of a hierarchy gathered in one.

Version 2 keeps them in ``.zmetadata``, version 3 inside the group's own document. Both are
copies: readers of this library use them only where a store cannot list, or when asked to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnizarr._json import dumps, load_object
from omnizarr.errors import Problem
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3
from omnizarr.model import GroupModel, Node, paths
from omnizarr.model.fields import Fields

KEY = ".zmetadata"


def v2_key(path: str) -> str:
    """Where a version 2 group keeps the copy."""
    return paths.prefix(path) + KEY


def write_v2(nodes: Mapping[str, Node]) -> bytes:
    """The content of ``.zmetadata`` for nodes by relative path."""
    metadata: dict[str, Any] = {}
    for path, node in nodes.items():
        for key, text in V2().write(path, node).items():
            if text is not None:
                metadata[key] = load_object(text, key)
    doc = {"metadata": metadata, "zarr_consolidated_format": 1}
    return dumps(doc, indent=4, sort_keys=True)


def read_v2(data: bytes, key: str, problems: list[Problem]) -> dict[str, Node]:
    """Nodes by relative path; an entry that is wrong is reported and left out."""
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


def write_v3(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The member ``metadata`` for nodes by relative path, without the group itself."""
    return {path: V3().document(node) for path, node in nodes.items() if path}


def read_v3(group: GroupModel, key: str, problems: list[Problem]) -> dict[str, Node]:
    """Nodes by relative path; an entry that is wrong is reported and left out."""
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
