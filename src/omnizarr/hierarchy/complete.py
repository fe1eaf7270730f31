"""Many new nodes at once: what was described, checked as a whole before anything is stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from omnizarr.errors import InvalidMetadata, NodeExists
from omnizarr.formats import Probe
from omnizarr.hierarchy.build import create_node
from omnizarr.hierarchy.fetch import fetch
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.hierarchy.metadata import described
from omnizarr.model import ArrayModel, GroupModel, Node, paths


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
        raise InvalidMetadata(f"the nodes of one hierarchy have one format, but {stated}")
    for path in list(found):
        for above in paths.ancestors(path):
            if isinstance(found.setdefault(above, None), ArrayModel):
                raise InvalidMetadata(f"{above!r} is an array, so {path!r} cannot be below it")
    return dict(sorted(found.items())), next(iter(versions), None)


def create_nodes(
    start: Location, nodes: Mapping[str, Node | None], overwrite: bool
) -> Iterator[tuple[str, Location, Node]]:
    """Store nodes below a place, as far as they are missing or described, and give each back."""
    places = {path: start.child(path) for path in nodes}
    probes = [Probe(place.path) for place in places.values()]
    documents = fetch(start.store, dict.fromkeys(itertools.chain(*(p.keys() for p in probes))))
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
