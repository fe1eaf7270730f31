"""Check the groups and arrays of a hierarchy that declare a convention: OME-Zarr, CF or GeoZarr.

`verify` finds these functions by their registered names. Each yields the path of a node, a problem
of one of its documents, and the part of the convention that applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from omnizarr.conventions.cf.dataset import Dataset
from omnizarr.conventions.cf.dataset import open as open_dataset
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.geo.transform import from_attributes
from omnizarr.conventions.ome.validate import validate
from omnizarr.conventions.ome.versions import NAMESPACE, find_metadata
from omnizarr.errors import InvalidMetadata, OmnizarrError, Problem
from omnizarr.extension import (
    GroupModel,
    Location,
    Node,
    Store,
    find_node,
    get_existing,
    kind_of,
    paths,
    walk_nodes,
)

Declared: TypeAlias = Callable[[Node], bool]
Found: TypeAlias = Iterator[tuple[str, Problem, str]]
_CF_SECTIONS = {
    "dimension_names": "CF, 2.4 Dimensions",
    "coordinates": "CF, 5 Coordinate systems and domain",
    "bounds": "CF, 7.1 Cell boundaries",
    "grid_mapping": "CF, 5.6 Horizontal coordinate reference systems",
}
_GEO = re.compile(r"(proj|spatial):")
_CODE = re.compile(r"[A-Za-z_]+:[A-Za-z0-9_.-]+")


def ome(store: Store, path: str) -> Found:
    """Check all images, plates and collections of OME-Zarr."""
    for location, node in _outermost(store, path, _declares_ome):
        metadata = find_metadata(node.attributes)
        version = None if metadata is None else metadata.version
        start = f"OME-Zarr {version}" if isinstance(version, str) else "OME-Zarr"
        for problem in validate(store, location.path):
            field = problem.field.removeprefix("attributes.").removeprefix(f"{NAMESPACE}.")
            section = re.split(r"[.\[]", field)[0] or "metadata"
            yield _path_of(problem.key, location), problem, f"{start}, {section}"


def cf(store: Store, path: str) -> Found:
    """Check all groups whose attribute `Conventions` names CF: dimensions and references."""
    for location, _ in _outermost(store, path, _declares_cf):
        dataset = open_dataset(store, path=location.path)
        for problem in dataset.problems():
            rule = _CF_SECTIONS.get(problem.field, "CF")
            yield _with_document(problem, location, rule)
        yield from _undecodable(dataset, location)


def geo(store: Store, path: str) -> Found:
    """Check all maps: reference systems, transforms and levels."""
    for location, node in _outermost(store, path, _declares_geo):
        key, start = _attributes(location)
        found = [*_proj_problems(node.attributes), *_spatial_problems(node.attributes)]
        for field, message in found:
            rule = f"GeoZarr, {field.partition(':')[0]}:"
            yield location.path, Problem(key, start + field, message), rule
        if not found:
            yield from _check_map(location, key, start)


def _proj_problems(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield attributes of the convention ``proj:`` that are wrong, and what was expected."""
    kinds = {"proj:code": str, "proj:wkt2": str, "proj:projjson": dict}
    stated = [name for name in kinds if name in attributes]
    for name in stated:
        if not isinstance(attributes[name], kinds[name]):
            expected = "an object" if kinds[name] is dict else "a string"
            yield name, f"expected {expected}, got {kind_of(attributes[name])}"
        elif name == "proj:code" and not _CODE.fullmatch(attributes[name]):
            yield name, f"expected an authority and a code, 'EPSG:4326', got {attributes[name]!r}"
    if len(stated) > 1:
        yield stated[1], f"only one of {', '.join(kinds)} may be stated"


def _spatial_problems(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        from_attributes(attributes)
    except OmnizarrError as e:
        yield "spatial:transform" if "spatial:transform" in attributes else "proj:transform", str(e)


def _check_map(location: Location, key: str, start: str) -> Found:
    try:
        open_map(location.store, path=location.path)
    except InvalidMetadata as e:
        yield location.path, Problem(key, f"{start}multiscales", str(e)), "GeoZarr, multiscales"
    except OmnizarrError:
        return  # several arrays, or one that cannot be read, which is reported elsewhere


def _outermost(store: Store, path: str, declared: Declared) -> Iterator[tuple[Location, Node]]:
    """Yield the nodes that declare a convention, without those below another such node."""
    above: list[str] = []
    start, node = find_node(store, path)
    for location, found in walk_nodes(start, node):
        if isinstance(found, Exception) or location.path.startswith(tuple(above)):
            continue
        if declared(found):
            above.append(paths.prefix(location.path))
            yield location.without_listing(), found


def _declares_ome(node: Node) -> bool:
    attributes = node.attributes
    if not isinstance(node, GroupModel):
        return False
    if isinstance(attributes.get(NAMESPACE), dict) or "bioformats2raw.layout" in attributes:
        return True
    multiscales = attributes.get("multiscales")
    first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
    image = isinstance(first, Mapping) and ("axes" in first or "version" in first)
    members = ("plate", "wells"), ("well", "images")
    return image or any(
        isinstance(attributes.get(name), Mapping) and inner in attributes[name]
        for name, inner in members
    )


def _declares_cf(node: Node) -> bool:
    stated = node.attributes.get("Conventions", node.attributes.get("conventions"))
    return isinstance(node, GroupModel) and isinstance(stated, str) and "CF-" in stated


def _declares_geo(node: Node) -> bool:
    attributes = node.attributes
    multiscales = attributes.get("multiscales")
    pyramid = isinstance(multiscales, Mapping) and bool(
        {"layout", "tile_matrix_set"} & {*multiscales}
    )
    return pyramid or any(isinstance(name, str) and _GEO.match(name) for name in attributes)


def _path_of(key: str, start: Location) -> str:
    """Return the path of the node whose document has a key."""
    parent = key.rpartition("/")[0]
    return parent if parent.startswith(start.path) else start.path


def _attributes(location: Location) -> tuple[str, str]:
    """Return the key of the document with a node's attributes, and the start of their fields."""
    keys = [*get_existing(location.store, location.format.keys(location.path))]
    return keys[-1], "attributes." if len(keys) == 1 else ""


def _with_document(problem: Problem, start: Location, rule: str) -> tuple[str, Problem, str]:
    """Return a problem of an array, of which only the path is known, with its document."""
    path, field = paths.normalize(problem.key), problem.field
    key, before = _attributes(start.at(path))
    if field == "dimension_names":
        key = next(iter(get_existing(start.store, start.format.keys(path))))
    elif field:
        field = before + field
    return path, replace(problem, key=key, field=field), rule


def _undecodable(dataset: Dataset, start: Location) -> Found:
    """Yield variables whose attributes cannot be applied: packing, times, flags."""
    for name, array in dataset.group.arrays():
        try:
            _ = dataset[name]
        except OmnizarrError as e:
            yield _with_document(Problem(array.path, "", str(e)), start, "CF, 8 Packed data")
    for inner in dataset.groups.values():
        yield from _undecodable(inner, start)
