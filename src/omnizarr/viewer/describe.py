"""Descriptions of nodes for the page: what there is, and how it can be shown.

A node that cannot be understood is described by its error, so that the others can be seen. Messages
say nothing of where the store is: not the path of its directory, nor what is beside it.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np

from omnizarr import Array, Group
from omnizarr.conventions.ome.versions import is_image
from omnizarr.errors import (
    InvalidMetadata,
    NodeNotFound,
    OmnizarrError,
    TargetError,
    WrongNode,
)
from omnizarr.extension import (
    EnclosesFiles,
    GroupModel,
    LeadsOutside,
    Location,
    Node,
    Store,
    can_list,
    find_node,
    has_cheap_requests,
    open_node,
    paths,
    redact_urls,
    type_name,
)
from omnizarr.viewer.display import display, largest_sizes, nothing
from omnizarr.viewer.values import plain

Json: TypeAlias = dict[str, Any]
MAX_COUNTED = 20_000  # chunks whose stored bytes are added up
MAX_CELLS = 2**20  # of a map of chunks


def find(store: Store, path: str) -> Array | Group:
    """Return the array or group at a path; raise NodeNotFound or InvalidMetadata."""
    location, node = find_node(store, paths.normalize(path), read_only=True, use_consolidated=None)
    return open_node(location, node)


def find_array(store: Store, path: str) -> Array:
    """Return the array at a path; raise if there is a group."""
    node = find(store, path)
    if not isinstance(node, Array):
        raise WrongNode(f"{node.name} is a group; only arrays have values")
    return node


def public_message(error: BaseException, store: Store) -> str:
    """Return the message of an error without the place of the store."""
    if isinstance(error, NodeNotFound):  # whose message may name what is beside the store
        return "there is no array or group at this path"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TargetError):  # whose message names other places
            return "the value is in another file, which cannot be read"
        cause = cause.__cause__
    return _public_text(str(error), store)


def _public_text(text: str, store: Store) -> str:
    """Return a text without the place of the store."""
    text = redact_urls(text)
    root = getattr(store, "root", None)
    known = [repr(store), *([] if root is None else [repr(str(root)), str(root)])]
    for place in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(f" in {place}", "").replace(place, "the store")
    return text


# Summaries


def members(store: Store, path: str, offset: int, limit: int) -> Json:
    """Return the summaries of some members of a group, in the order of their names."""
    path = paths.normalize(path)
    node = find(store, path)
    if isinstance(node, Array):
        return {"path": path, "total": 0, "next": None, "members": []}
    location = node._location
    names, children = _children(location, offset, limit)
    listed = [summary(location.child(name), children[name], store) for name in sorted(children)]
    end = offset + limit
    complete = offset == 0 and end >= len(names)
    return {
        "path": path,
        "total": len(listed) if complete else None,
        "next": end if end < len(names) else None,
        "members": listed,
    }


def _children(
    location: Location, offset: int, limit: int
) -> tuple[list[str], dict[str, Node | Exception]]:
    """Return the names of all that may be members, and those nodes that are asked for."""
    if location.consolidated is not None or not can_list(location.store):
        known = location.children()
        names = sorted(known)
        return names, {name: known[name] for name in names[offset : offset + limit]}
    kinds = location.child_names()
    names = sorted(kinds)
    some = {name: kinds[name] for name in names[offset : offset + limit]}
    closed = _closed(location, some)
    found = location.children({name: kind for name, kind in some.items() if name not in closed})
    return names, {**found, **closed}


def _closed(location: Location, names: Iterable[str]) -> dict[str, Exception]:
    """Return the errors of those members that are links out of what is served."""
    found: dict[str, Exception] = {}
    if isinstance(location.store, EnclosesFiles) and location.store.enclosure is not None:
        for name in names:
            try:
                location.store.check_links([paths.join(location.path, name)])
            except LeadsOutside as e:
                found[name] = e
    return found


def summary(location: Location, node: Node | Exception, store: Store) -> Json:
    """Return the facts about a node that a list of members shows."""
    found: Json = {"name": paths.name(location.path), "path": location.path}
    if isinstance(node, Exception):
        return {**found, "kind": "error", "error": public_message(node, store)}
    if isinstance(node, GroupModel):
        kind = "image" if is_image(node.attributes, location.format.name) else "group"
        return {**found, "kind": kind, "members": _has_members(location)}
    found |= {"kind": "array", "shape": node.shape, "dtype": type_name(node.data_type)}
    try:
        array = Array.at(location.without_listing(), node)
        found["chunks"] = largest_sizes(array.chunks)
        if array.shards is not None:
            found["shards"] = largest_sizes(array.shards)
        found["nbytes"] = array.nbytes
        array._check_codecs()
    except OmnizarrError as e:
        found["error"] = public_message(e, store)
    return found


def _has_members(location: Location) -> bool:
    """Return False for a group that is known to be empty."""
    if not has_cheap_requests(location.store) or not can_list(location.store):
        return True
    try:
        return bool(location.child_names())
    except OmnizarrError:
        return True


# One node


def describe(store: Store, path: str, base_url: str | None = None, below: str = "") -> Json:
    """Return all facts about a node.

    `base_url` is that of the server, for links; `below`: the path of the store in what it serves.
    """
    path = paths.normalize(path)
    try:
        node = find(store, path)
    except InvalidMetadata as e:
        message = public_message(e, store)
        broken: Json = {"name": paths.name(path), "path": path, "kind": "error", "error": message}
        return {**broken, "links": [], "info": [], "display": nothing(message)}
    location, model = node._location, node._model
    found = summary(location, model, store)
    attributes = node.attrs.asdict()
    found |= {"zarr_format": node.zarr_format, "attributes": plain(attributes), "links": []}
    if isinstance(node, Array):
        found |= _array_facts(node, store)
    if found["kind"] == "image" and base_url is not None:
        found["links"] = viewer_links(base_url, paths.join(below, node.path))
    found["info"] = _info(node, store)
    found["display"] = display(node, partial(public_message, store=store))
    return found


def _array_facts(array: Array, store: Store) -> Json:
    names = array.dimension_names
    found: Json = {
        "dimension_names": None if names is None else list(names),
        "codecs": [repr(codec) for codec in array.codecs],
        "fill_value": None,
        "stored_bytes": None,
    }
    try:
        found["fill_value"] = plain(array.fill_value)
        if has_cheap_requests(store) and can_list(store) and array.nchunks <= MAX_COUNTED:
            found["stored_bytes"] = array.nbytes_stored()
    except OmnizarrError as e:
        found["error"] = public_message(e, store)
    return found


def _info(node: Array | Group, store: Store) -> list[list[str]]:
    try:
        pairs = node.info.items()
    except OmnizarrError as e:
        return [["not understood", public_message(e, store)]]
    shown = [
        [name, _public_text(text, store)]
        for name, text in pairs
        if name not in ("path", "attributes")
    ]
    return [["path", node.name], *shown]


# Links


def viewer_links(base_url: str, path: str) -> list[dict[str, str]]:
    """Return links to viewers of others that can show an image; they need a network."""
    url = f"{base_url.rstrip('/')}/store/{quote(path)}".rstrip("/")
    layer = f'{{"layers":[{{"name":"image","type":"image","source":"zarr://{url}"}}]}}'
    return [
        {"title": "neuroglancer", "url": f"https://neuroglancer-demo.appspot.com/#!{quote(layer)}"},
        {"title": "vizarr", "url": f"https://hms-dbmi.github.io/vizarr/?source={quote(url)}"},
        {
            "title": "OME validator",
            "url": f"https://ome.github.io/ome-ngff-validator/?source={quote(url)}",
        },
    ]


# Chunks


def chunk_map(store: Store, path: str) -> Json:
    """Return which chunks of an array are stored, one bit for each, the highest of a byte first.

    If there are too many, a bit stands for a box of ``aggregated`` chunks, any of which is stored.
    """
    array = find_array(store, path)
    counts = array.cdata_shape
    factors = [1] * len(counts)
    while (
        math.prod(cells := [-(-n // f) for n, f in zip(counts, factors, strict=True)]) > MAX_CELLS
    ):
        factors[cells.index(max(cells))] *= 2
    if max(factors, default=1) == 1:
        present = array.chunks_present()
        found: Json = {"grid": list(counts)}
    else:
        present = np.zeros(cells, bool)
        for coords in array.stored_chunks():
            present[tuple(c // f for c, f in zip(coords, factors, strict=True))] = True
        found = {"grid": cells, "aggregated": factors}
    return {**found, "present": b64encode(np.packbits(present).tobytes()).decode()}
