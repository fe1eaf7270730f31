"""Descriptions of nodes: what there is, and how it is shown on the page and in pictures.

A node that cannot be understood is described by its error, so that the others can be seen. Messages
say nothing of where the store is: not the path of its directory, nor what is beside it.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from omnizarr import Array, Group, extension
from omnizarr.conventions.cf.dataset import Dataset
from omnizarr.conventions.cf.times import is_time
from omnizarr.conventions.cf.variable import Variable
from omnizarr.conventions.geo.crs import parent_group, sibling
from omnizarr.conventions.geo.map import Map
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.geo.transform import Affine, read_transform, spatial_axes
from omnizarr.conventions.ome.image import Image, OmeGroup
from omnizarr.conventions.ome.model import default_colours
from omnizarr.conventions.ome.rules import load
from omnizarr.conventions.ome.versions import is_image
from omnizarr.errors import InvalidMetadata, NodeNotFound, OmnizarrError, TargetError, WrongNode
from omnizarr.extension import Store, can_list, paths, traits
from omnizarr.viewer.values import TEXT, decoding, json_value, largest_sizes, transfer_type

Json: TypeAlias = dict[str, Any]
MAX_COUNTED = 20_000  # chunks whose stored bytes are added up
MAX_CELLS = 2**20  # of a map of chunks

_RGB: Json = {  # the channels of a photograph
    "labels": ["red", "green", "blue"],
    "colors": ["FF0000", "00FF00", "0000FF"],
    "windows": [[0, 255]] * 3,
}
# The kinds of axes by their names.
_KINDS = {
    "space": re.compile(
        r"(x|y|z|lat|lon|latitude|longitude|height|depth|altitude|level|lev|plev|easting|northing"
        r"|row|col|column|projection_[xy]_coordinate|grid_(latitude|longitude))\d*",
        re.IGNORECASE,
    ),
    "time": re.compile(r"(t|time|date|valid_time|step)\d*", re.IGNORECASE),
    "channel": re.compile(r"(c|channels?|bands?|samples?|rgba?)", re.IGNORECASE),
}
# The kinds of axes by the attribute `axis` of their coordinates.
_CF_KINDS = {"X": "space", "Y": "space", "Z": "space", "T": "time"}


# Nodes and messages


def find(store: Store, path: str) -> tuple[extension.Location, extension.Node]:
    """Return the location and the node at a path; raise NodeNotFound or InvalidMetadata."""
    return extension.find_node(store, paths.normalize(path), read_only=True, use_consolidated=None)


def find_array(store: Store, path: str) -> Array:
    """Return the array at a path; raise if there is a group."""
    node = extension.open_node(*find(store, path))
    if not isinstance(node, Array):
        raise WrongNode(f"{node.name} is a group; only arrays have values")
    return node


def stored_node(found: Any) -> Any:
    """Return the array or group behind an image, dataset, variable or map; others as they are."""
    if isinstance(found, (OmeGroup, Dataset)):
        return found.group
    if isinstance(found, Variable):
        return found.array
    if isinstance(found, Map):
        finest = found.levels[0].array
        group = parent_group(finest)
        return finest if group is None or len(found.levels) == 1 else group
    return found


def public_message(error: BaseException, store: Store) -> str:
    """Return the message of an error without the place of the store."""
    if isinstance(error, NodeNotFound):  # whose message may name what is beside the store
        return "there is no array or group at this path"
    if caused_by(error, TargetError):  # whose message names other places
        return "the value is in another file, which cannot be read"
    return _public_text(str(error), store)


def caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return True if an error, or one of its causes, is of a kind."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error is not None


def _public_text(text: str, store: Store) -> str:
    """Return a text without the place of the store."""
    text = extension.redact_urls(text)
    root = getattr(store, "root", None)
    known = [repr(store), *([] if root is None else [repr(str(root)), str(root)])]
    for place in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(f" in {place}", "").replace(place, "the store")
    return text


# Summaries


def members(store: Store, path: str, offset: int, limit: int) -> Json:
    """Return the summaries of some members of a group, in the order of their names."""
    location, node = find(store, path)
    found: Json = {"path": location.path, "total": 0, "next": None, "members": []}
    if not isinstance(node, extension.GroupModel):
        return found
    end = offset + limit
    if location.consolidated is not None or not can_list(location.store):
        known = location.children()
        names = sorted(known)
        children = {name: known[name] for name in names[offset:end]}
    else:
        kinds = location.child_names()
        names = sorted(kinds)
        closed = _closed(location, names[offset:end])
        open_ = {name: kinds[name] for name in names[offset:end] if name not in closed}
        children = {**location.children(open_), **closed}
    listed = [summary(location.child(name), children[name], store) for name in sorted(children)]
    complete = offset == 0 and end >= len(names)
    found |= {"total": len(listed) if complete else None, "members": listed}
    return {**found, "next": end if end < len(names) else None}


def _closed(location: extension.Location, names: Iterable[str]) -> dict[str, Exception]:
    """Return the errors of members that are links to outside of the served folder."""
    found: dict[str, Exception] = {}
    if isinstance(location.store, extension.EnclosesFiles) and location.store.enclosure is not None:
        for name in names:
            try:
                location.store.check_links([paths.join(location.path, name)])
            except extension.LeadsOutside as e:
                found[name] = e
    return found


def summary(location: extension.Location, node: extension.Node | Exception, store: Store) -> Json:
    """Return the facts about a node that a list of members shows."""
    found: Json = {"name": paths.name(location.path), "path": location.path}
    if isinstance(node, Exception):
        return {**found, "kind": "error", "error": public_message(node, store)}
    if isinstance(node, extension.GroupModel):
        kind = "image" if is_image(node.attributes, location.format.name) else "group"
        return {**found, "kind": kind, "members": True}
    found |= {"kind": "array", "shape": node.shape, "dtype": extension.type_name(node.data_type)}
    try:
        array = Array.at(location, node)
        found["chunks"] = largest_sizes(array.chunks)
        if array.shards is not None:
            found["shards"] = largest_sizes(array.shards)
        found["nbytes"] = array.nbytes
        if array.size:  # unknown codecs raise here
            _ = extension.BoundArray(location.store, location.path, "", node).first_pipeline
    except OmnizarrError as e:
        found["error"] = public_message(e, store)
    return found


# One node


def describe(store: Store, path: str) -> Json:
    """Return all facts about a node."""
    try:
        location, model = find(store, path)
        node = extension.open_node(location, model)
    except InvalidMetadata as e:
        path, message = paths.normalize(path), public_message(e, store)
        broken: Json = {"name": paths.name(path), "path": path, "kind": "error", "error": message}
        return {**broken, "info": [], "display": nothing(message)}
    found = summary(location, model, store)
    found |= {"zarr_format": node.zarr_format, "attributes": json_value(node.attrs.asdict())}
    if isinstance(node, Array):
        found |= _array_facts(node, store)
    found["info"] = _info(node, store)
    found["display"] = display(node, partial(public_message, store=store))
    return found


def _array_facts(array: Array, store: Store) -> Json:
    found: Json = {"dimension_names": array.dimension_names, "codecs": [*map(repr, array.codecs)]}
    found |= {"fill_value": None, "stored_bytes": None}
    try:
        found["fill_value"] = json_value(array.fill_value)
        if traits(store).cheap_requests and can_list(store) and array.nchunks <= MAX_COUNTED:
            found["stored_bytes"] = array.nbytes_stored()
    except OmnizarrError as e:
        found["error"] = public_message(e, store)
    return found


def _info(node: Array | Group, store: Store) -> list[list[str]]:
    try:
        pairs = node.info.items()
    except OmnizarrError as e:
        return [["not understood", public_message(e, store)]]
    shown = [[k, _public_text(v, store)] for k, v in pairs if k not in ("path", "attributes")]
    return [["path", node.name], *shown]


def chunk_map(store: Store, path: str) -> Json:
    """Return which chunks of an array are stored, one bit for each, the highest of a byte first.

    If there are too many, a bit stands for a box of ``aggregated`` chunks, any of which is stored.
    """
    array = find_array(store, path)
    cells = [*array.cdata_shape]
    factors = [1] * len(cells)
    while math.prod(cells) > MAX_CELLS:
        axis = cells.index(max(cells))
        factors[axis] *= 2
        cells[axis] = -(-array.cdata_shape[axis] // factors[axis])
    aggregated = max(factors, default=1) > 1
    present = np.zeros(cells, bool) if aggregated else array.chunks_present()
    for coords in array.stored_chunks() if aggregated else ():
        present[tuple(c // f for c, f in zip(coords, factors, strict=True))] = True
    found: Json = {"grid": cells, **({"aggregated": factors} if aggregated else {})}
    return {**found, "present": b64encode(np.packbits(present).tobytes()).decode()}


# Displays


def nothing(reason: str) -> Json:
    """Return the display of a node that cannot be shown."""
    return {"kind": "none", "reason": reason}


def display(node: Array | Group, message: Callable[[OmnizarrError], str] = str) -> Json:
    """Return how the values of a node can be shown; "none" with a reason if they cannot."""
    try:
        if isinstance(node, Array):
            return _display_array(node)
        if is_image(node.attrs, node.zarr_format):
            return _display_image(node)
        if "multiscales" in node.attrs:
            return _display_map(open_map(node.store, path=node.path))
    except OmnizarrError as e:
        return nothing(message(e))
    return nothing("a group has no values of its own; choose one of its members")


def _display_array(array: Array) -> Json:
    extension.bound_array(array)  # which raises for codecs that are not known
    axes = [_axis(array, number) for number in range(array.ndim)]
    plane, transform, in_color = None, None, _is_rgb(array)
    if array.ndim >= 2:
        rows, columns = spatial_axes(array)
        if in_color and array.ndim - 1 in (rows, columns):
            rows, columns = array.ndim - 3, array.ndim - 2
        plane = [rows, columns]
        if array.dimension_names is not None:
            with suppress(OmnizarrError):
                transform = read_transform(array)
    found = _display(array, [_placed_level(array, plane, transform)], axes, plane)
    if found.get("transfer") == TEXT:
        found["kind"] = "table" if array.ndim else "scalar"
        if array.dtype.names is not None:
            found["fields"] = list(array.dtype.names)
    if in_color and "levels" in found:
        axes[-1]["kind"] = "channel"
        found["channels"] = {**_RGB, "axis": array.ndim - 1}
    return found


def _is_rgb(array: Array) -> bool:
    """Return True for an array like a photograph: red, green, blue, or opacity too, come last."""
    if array.dtype != np.uint8 or array.ndim < 3 or array.shape[-1] not in (3, 4):
        return False
    name = (array.dimension_names or (None,))[-1]
    return bool(_KINDS["channel"].fullmatch(name)) if name else min(array.shape[-3:-1]) > 4


def _display_map(found: Map) -> Json:
    finest = found.levels[0]
    plane = [finest.rows, finest.columns]
    axes = [_axis(finest.array, number) for number in range(finest.array.ndim)]
    for number in plane:
        axes[number]["kind"] = "space"
    levels = [_placed_level(one.array, plane, one.transform) for one in found.levels]
    return _display(finest.array, levels, axes, plane)


def _display_image(group: Group) -> Json:
    loaded = load(group)
    if loaded is None or not loaded.metadata.multiscales:
        return nothing("the group has no OME-Zarr image")
    image = Image(loaded)
    finest = image.levels[0]
    levels = []
    for number, array in enumerate(image.levels):
        transform = image.transform(number)
        levels.append(_level(array, list(transform.scale), list(transform.offset)))
    axes = [
        _axis_facts(axis.name, axis.type if axis.type in _KINDS else "other", size, unit=axis.unit)
        for axis, size in zip(image.axes, finest.shape, strict=True)
    ]
    spatial = [n for n, axis in enumerate(axes) if axis["kind"] == "space"]
    plane = spatial[-2:] if len(spatial) >= 2 else [finest.ndim - 2, finest.ndim - 1]
    found = _display(finest, levels, axes, plane)
    if "levels" in found:
        found["channels"] = _channels(image, axes)
    return found


def _channels(image: Image, axes: list[Json]) -> Json | None:
    axis = next((n for n, axis in enumerate(axes) if axis["kind"] == "channel"), None)
    if axis is None:
        return None
    count = axes[axis]["size"]
    found: Json = {"axis": axis, "labels": [], "colors": [], "windows": []}
    channels = [*image.channels, *[None] * count][:count]
    colors = default_colours([(channel and channel.label) or "" for channel in channels])
    for number, channel in enumerate(channels):
        window = (channel and channel.window) or {}
        ends = [window.get("start", window.get("min")), window.get("end", window.get("max"))]
        found["labels"].append((channel and channel.label) or f"channel {number}")
        found["colors"].append((channel and channel.color) or colors[number])
        found["windows"].append(None if None in ends else ends)
    return found


def _display(array: Array, levels: list[Json], axes: list[Json], plane: list[int] | None) -> Json:
    if not array.size:
        return nothing(f"the array has no elements: its shape is {array.shape}")
    try:
        decoder = decoding(array, "cf")
    except InvalidMetadata:  # values are then shown as they are stored
        decoder = None
    return {
        "kind": {0: "scalar", 1: "plot"}.get(array.ndim, "plane"),
        "levels": levels,
        "axes": axes,
        "plane": plane,
        "channels": None,
        "dtype": extension.type_name(extension.bound_array(array).model.data_type),
        "transfer": transfer_type(array.dtype if decoder is None else decoder.dtype),
        "decode": None if decoder is None else "cf",  # how values shall be asked for
    }


def _placed_level(array: Array, plane: list[int] | None, transform: Affine | None) -> Json:
    """Return a level with the places of its pixels' centres, on a map that is not rotated."""
    scale, translation = [1.0] * array.ndim, [0.0] * array.ndim
    if plane is not None and transform is not None and transform.upright:
        rows, columns = plane
        x, y = transform.xy(0.5, 0.5)
        scale[columns], scale[rows] = transform.a, transform.e
        translation[columns], translation[rows] = float(x), float(y)
    return _level(array, scale, translation)


def _level(array: Array, scale: list[float], translation: list[float]) -> Json:
    return {
        "path": array.path,
        "shape": array.shape,
        "chunks": largest_sizes(array.chunks),
        "scale": scale,
        "translation": translation,
    }


def _axis_facts(
    name: str, kind: str, size: int, unit: str | None = None, coordinate: str | None = None
) -> Json:
    return {"name": name, "kind": kind, "unit": unit, "size": size, "coordinate": coordinate}


def _axis(array: Array, number: int) -> Json:
    """Return the name, kind, unit and coordinate of an axis, by CF where it applies."""
    size = array.shape[number]
    name = (array.dimension_names or (None,) * array.ndim)[number]
    if not name:
        return _axis_facts(f"axis {number}", "other", size)
    kind = next((kind for kind, names in _KINDS.items() if names.fullmatch(name)), "other")
    is_own = array.ndim == 1 and paths.name(array.path) == name
    coordinate = array if is_own else sibling(array, name)
    if coordinate is None or coordinate.shape != (size,):
        return _axis_facts(name, kind, size)
    attributes = coordinate.attrs.asdict()
    kind = _CF_KINDS.get(str(attributes.get("axis")), kind)
    if is_time(attributes) or coordinate.dtype.kind == "M":
        kind = "time"
    unit = attributes.get("units")
    return _axis_facts(name, kind, size, unit if isinstance(unit, str) else None, coordinate.path)
