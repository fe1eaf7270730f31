"""Whether consolidated metadata say what the nodes below their group say."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.formats import Documents, Format, consolidated
from omnizarr.hierarchy.fetch import fetch
from omnizarr.model import GroupModel, Node, paths
from omnizarr.stores import Store

REMEDY = "call consolidate_metadata again"


def check_consolidated(
    store: Store, format: Format, group: str, nodes: Collection[str], problems: list[Problem]
) -> None:
    """Record where the consolidated metadata of a group differ from the nodes below it.

    `nodes` are paths of all nodes that were found.
    """
    key = consolidated.key(format, group)
    data = None if key is None else store.get(key)
    if key is None or data is None:
        return
    try:
        entries = consolidated.read(format, data, key)
        bad = consolidated.impossible(format, data, key)
    except InvalidMetadata as e:
        problems.extend(e.problems or (Problem(key, "", str(e)),))
        return
    if entries is None:
        return
    inside = "consolidated_metadata." if key in format.keys(group) else ""
    problem = partial(_problem, key, f"{inside}metadata")
    for path in bad:
        problems.append(problem(path, "no node can have this path"))
    documents = _documents(store, format, group, entries)
    for path, entry in sorted(entries.items()):
        own = documents[path]
        node = _read(format, path, own)
        if node is None:
            problems.append(problem(path, "there is no such node"))
        elif not consolidated.is_same(entry, own) and _copied(format, path, entry) != node:
            problems.append(problem(path, "differs from the node's own document"))
    start = paths.prefix(group)
    below = {path[len(start) :] for path in nodes if path.startswith(start) and path != group}
    for path in sorted(below - entries.keys()):
        problems.append(problem(path, "this node is missing"))


def _documents(
    store: Store, format: Format, group: str, entries: Collection[str]
) -> dict[str, Documents]:
    """The documents of nodes by their names, in one batch."""
    keys = {path: format.keys(paths.join(group, path)) for path in entries}
    found = fetch(store, [key for every in keys.values() for key in every])
    return {
        path: {paths.name(key): found[key] for key in every if key in found}
        for path, every in keys.items()
    }


def _read(format: Format, path: str, documents: Documents) -> Node | InvalidMetadata | None:
    """The node that documents describe, or why it cannot be read; None where there is none."""
    own = {paths.prefix(path) + name: text for name, text in documents.items()}
    try:
        return _alone(format.read(path, own, []))
    except InvalidMetadata as e:
        return e


def _copied(format: Format, path: str, entry: consolidated.Entry) -> Node | None:
    """The node that a copy describes."""
    try:
        return _alone(consolidated.node(format, path, entry))
    except InvalidMetadata:
        return None


def _alone(node: Node | None) -> Node | None:
    """The node without copies of others."""
    return node.with_(consolidated=None) if isinstance(node, GroupModel) else node


def _problem(key: str, field: str, path: str, message: str) -> Problem:
    return Problem(key, f"{field}[{path!r}]", f"{message}; {REMEDY}")
