"""Creating many nodes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnizarr._json import dumps
from omnizarr.errors import InvalidMetadata
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group, open_node
from omnizarr.hierarchy.location import Location, format_for
from omnizarr.hierarchy.metadata import Metadata
from omnizarr.hierarchy.place import place
from omnizarr.hierarchy.validate import format_of
from omnizarr.model import ArrayModel, GroupModel, Node, paths


def create_hierarchy(
    *, store: Any, nodes: Mapping[str, Any], overwrite: bool = False
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups by path, and give each back when it is stored.

    A node is described by the `metadata` of another one, by its model, or by its JSON document.
    Groups above them are created as far as they are missing.
    """
    where, start = place(store)
    wanted = {paths.normalize(path): _described(path, node) for path, node in nodes.items()}
    for path, (node, version) in sorted(wanted.items()):
        full = paths.join(start, path)
        location = Location(where, full, format_for(where, full, version))
        yield path, open_node(location, location.create(node, overwrite=overwrite))


def _described(path: str, given: Any) -> tuple[Node, str | None]:
    """The model of a node, and the format where the description has one."""
    if isinstance(given, Metadata):
        return given.model, str(given.zarr_format)
    if isinstance(given, (ArrayModel, GroupModel)):
        return given, None
    document = given.to_dict() if hasattr(given, "to_dict") else given
    if not isinstance(document, Mapping):
        raise InvalidMetadata(
            f"{path!r}: expected metadata, a model or a JSON document, got {type(given).__name__}"
        )
    attributes = document.get("attributes") or {}
    format, key = format_of(dict(document))
    if format is None:
        raise InvalidMetadata(f"{path!r}: this document describes no array or group")
    own = {k: v for k, v in document.items() if k not in ("attributes", "consolidated_metadata")}
    node = format.read("", {key: dumps(own)}, [])
    if node is None:
        raise InvalidMetadata(f"{path!r}: this document describes no array or group")
    return node.with_(attributes=dict(attributes)), format.name
