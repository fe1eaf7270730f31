"""Finding the node at a path, and the format of one that shall be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from omnizarr import config
from omnizarr.engine import Missing
from omnizarr.errors import InvalidMetadata, NodeNotFound, Problem, warn
from omnizarr.formats import Format, Probe, by_name, consolidated
from omnizarr.hierarchy.absent import why_absent
from omnizarr.hierarchy.copies import Copies
from omnizarr.hierarchy.fetch import fetch, fetch_probe
from omnizarr.hierarchy.location import Location, separator_of, tell
from omnizarr.model import ArrayModel, GroupModel, Node
from omnizarr.stores import Store, can_list


def locate(
    store: Store,
    path: str,
    *,
    zarr_format: object = None,
    read_only: bool = False,
    separator: str | None = None,
    use_consolidated: bool | str | None = False,
    missing: Missing = "fill",
    prefer_group: bool = False,
) -> tuple[Location, Node]:
    """The node at a path in whatever format it is; raises NodeNotFound.

    Where documents of an array and of a group stand at one path, it is the array, unless
    `prefer_group`.
    """
    wanted = None if zarr_format is None else by_name(zarr_format).name
    probe = Probe(path, wanted, separator or separator_of(store))
    name = use_consolidated if isinstance(use_consolidated, str) else None
    if use_consolidated:
        copies = partial(consolidated.keys_beside, path=path, name=name)
        documents = fetch_probe(store, probe, copies)
    else:
        documents = fetch_probe(store, probe)
    problems: list[Problem] = []
    for format in probe.formats(documents, problems):
        location = Location(store, path, format, read_only, missing=missing)
        if format.implicit_groups:
            node = location.find(problems)
        else:
            node = format.read(path, documents, problems)
        if prefer_group and isinstance(node, ArrayModel):
            group = _beside_array(location)
            if group is not None:
                location, node, problems = replace(location, read_only=True), group, []
        if node is not None:
            location.check_read_name()
            tell(problems)
            if isinstance(node, GroupModel) and use_consolidated is not False:
                location = _with_copies(location, bool(use_consolidated), name, documents)
            return location, node
    raise NodeNotFound(why_absent(store, path, wanted))


def _beside_array(location: Location) -> Node | None:
    """The group whose document stands beside that of an array, with a warning."""
    documents = fetch(location.store, location.format.keys(location.path)[1:])
    group = location.format.read(location.path, documents, [])
    if group is not None:
        warn(f"an array and a group stand at {location}; the group is opened, read-only")
    return group


def _with_copies(
    location: Location, asked: bool, name: str | None, documents: Mapping[str, bytes]
) -> Location:
    """The place with its group's copies: where they are asked for, or nothing can be listed."""
    if not asked and can_list(location.store):
        return location
    store, path, format = location.store, location.path, location.format
    copies = Copies(store, path, format, asked=asked, name=name)
    if asked and not copies.look(documents):
        raise InvalidMetadata(
            f"there are no consolidated metadata at {location}; make them with"
            " consolidate_metadata, or open it without use_consolidated"
        )
    return replace(location, copies=copies)


def format_for(store: Store, path: str, zarr_format: object) -> Format:
    """The format of a new node: as asked, else as the hierarchy it joins, else the default."""
    separator = separator_of(store)
    if zarr_format is not None:
        wanted = by_name(zarr_format, separator)
        probe = Probe("", wanted.name, separator)
        found = probe.formats(fetch(store, probe.keys()), [])
        return found[0] if found else wanted
    if path:
        probe = Probe("", separator=separator)
        found = probe.formats(fetch(store, probe.keys()), [])
        if found and found[0].has_groups:
            return found[0]
    return by_name(getattr(store, "default_format", config.get().zarr_format), separator)
