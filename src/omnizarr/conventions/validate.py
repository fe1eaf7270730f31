"""Validate OME-Zarr, and check the groups and arrays that declare OME-Zarr, CF or GeoZarr.

`verify` finds `ome`, `cf` and `geo` by their registered names. Each yields the path of a node, a
problem of one of its documents, and the part of the convention that applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from omnizarr import extension
from omnizarr.conventions.cf.dataset import Dataset
from omnizarr.conventions.cf.dataset import open as open_dataset
from omnizarr.conventions.geo.map import open as open_map
from omnizarr.conventions.geo.transform import from_attributes
from omnizarr.conventions.ome import versions
from omnizarr.conventions.ome.model import Metadata
from omnizarr.conventions.ome.rules import MISSING, check
from omnizarr.errors import InvalidMetadata, OmnizarrError, Problem
from omnizarr.extension import ArrayModel, GroupModel, Location, Node, Store, paths, stores, title

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
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def validate(
    what: Any, path: str | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Return every problem of an image, plate, well or label image, and of everything below it.

    A violation of a requirement of the specification is an error, one of a recommendation a
    warning.

    Args:
        what: A path, URL, store, group, image or plate, or the attributes of a group as a
            dictionary.
        path: The path of the node in the store or group; by default the store or group itself.
        storage_options: Options for the store of a URL, such as credentials.

    Raises:
        NodeNotFound: If there is no such node.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx")
        >>> [each.message for each in oz.ome.validate("cell.zarr") if each.level == "error"]
        []
    """
    is_attributes = (
        isinstance(what, Mapping) and not extension.lookup.has_store_path(what) and bool(what)
    )
    if is_attributes and not any(isinstance(v, (bytes, bytearray)) for v in what.values()):
        found = versions.find_metadata(what)
        message = f"no OME-Zarr metadata; expected 'ome', or one of {', '.join(versions.MEMBERS)}"
        return [Problem("", "", message)] if found is None else check(found, "")
    store, path = extension.resolve_store_path(what, path, "r", storage_options)
    probe = extension.Probe(path)
    problems: list[Problem] = []  # metadata of an older Zarr version beside those of a newer one
    formats = probe.formats(extension.lookup.fetch_probe(store, probe), problems)
    location, node = extension.find_node(
        store, path, zarr_format=formats[0].name if formats else None
    )
    walk = _Walk(problems, location)
    if isinstance(node, ArrayModel):
        walk.error(location, "", "this is an array; OME-Zarr metadata belong to its group")
    else:
        walk.group(location, node, None)
    return walk.problems


@dataclass
class _Walk:
    """Walks a hierarchy from `start` and collects the problems."""

    problems: list[Problem]
    start: Location
    version: versions.Version | None = None
    levels: int | None = None  # of the image whose labels are being checked

    def error(self, location: Location, field: str, message: str) -> None:
        self.problems.append(Problem(_attributes(location)[0], field, message))

    def group(self, location: Location, node: GroupModel, role: str | None) -> Metadata | None:
        """Check one group and everything it refers to; `role` is the member it must have."""
        found = versions.find_metadata(node.attributes)
        if found is None:
            self.error(location, "", f"no OME-Zarr metadata{f'; expected {role}' if role else ''}")
            return None
        problems = check(found, _attributes(location)[0])
        if found.version is None:  # reported above if it is required
            found = replace(found, version=(self.version or found.implied_version).name)
        self.problems += problems
        if role is not None and role not in found.members:
            self.error(location, found.field + role, MISSING)
        if not self._versions(location, found) or any(p.level == "error" for p in problems):
            return None
        try:
            metadata = found.read()
        except (KeyError, TypeError, ValueError):
            return None  # already reported
        self._below(location, found, metadata)
        return metadata

    def _versions(self, location: Location, found: versions.RawMetadata) -> bool:
        """Return True if the metadata have the version of the group above; record what is wrong."""
        try:
            version = versions.get_version(found.version)
        except InvalidMetadata:
            return False  # already reported
        if version != (self.version or version):
            where = f"{paths.show(self.start.path)} is {(self.version or version).name}"
            message = f"{paths.show(location.path)} is OME-Zarr {version.name}, but {where}"
            self.error(location, f"{found.field}version", f"{message}; expected one version")
            return False
        self.version = version
        if not versions.stands_on(version, location.format.name):
            message = f"OME-Zarr {version.name} requires zarr {version.zarr_format}, but this is"
            field = found.field.rstrip(".")
            self.error(location, field, f"{message} {title(location.format.name, '')}")
        return True

    def child(self, location: Location, path: str, field: str, kind: type[Any]) -> Any:
        """Return the location and model of a node that a group refers to; None if it is wrong."""
        try:
            child = location.child(path)
            node = child.find([])
        except OmnizarrError as e:
            self.error(location, field, f"{path!r}: {e}")
            return None
        if isinstance(node, kind):
            return child, node
        shown, other = paths.show(child.path), extension.existing_node(location.store, child.path)
        message = f"there is no {'array' if kind is ArrayModel else 'group'} {shown}"
        if node is None and other is not None:
            here = f"{paths.show(location.path)} is {title(location.format.name, '')}"
            message = f"{shown} is {title(other[0].name, '')}, but {here}; expected one version"
        self.error(location, field, message)
        return None

    def _below(self, location: Location, found: versions.RawMetadata, metadata: Metadata) -> None:
        for i, multiscale in enumerate(metadata.multiscales):
            names = tuple(a.name for a in multiscale.axes)
            for j, dataset in enumerate(multiscale.datasets):
                field = f"{found.field}multiscales[{i}].datasets[{j}].path"
                level = self.child(location, dataset.path, field, ArrayModel)
                if level is not None:
                    self._level(level[0], level[1], names, metadata.image_label is not None)
        self._labels(location, found, metadata)
        if metadata.plate is not None:
            runs = {a.id for a in metadata.plate.acquisitions}
            for i, well in enumerate(metadata.plate.wells):
                field = f"{found.field}plate.wells[{i}].path"
                child = self.child(location, well.path, field, GroupModel)
                if child is not None:
                    self._well(child[0], child[1], runs, found.field)
        for i, view in enumerate(metadata.well.fields if metadata.well is not None else ()):
            self._image(location, f"{found.field}well.images[{i}].path", view.path)
        if metadata.bioformats2raw is not None and metadata.plate is None:
            self._series(location, found)

    def _image(self, location: Location, field: str, path: str, *, label: bool = False) -> None:
        child = self.child(location, path, field, GroupModel)
        metadata = None if child is None else self.group(child[0], child[1], "multiscales")
        if not label or metadata is None:
            return
        count = len(metadata.multiscales[0].datasets)
        if self.levels is not None and count != self.levels:
            message = f"has {count} levels, but its image has {self.levels}"
            self.error(child[0], "multiscales[0].datasets", message)
        if metadata.image_label is None:
            message = "missing, but recommended for label images"
            key = _attributes(child[0])[0]
            self.problems.append(Problem(key, "image-label", message, "warning"))

    def _level(
        self, location: Location, array: ArrayModel, names: tuple[str, ...], label: bool
    ) -> None:
        version, own_names = self.version, array.dimension_names

        def error(field: str, message: str) -> None:
            keys = stores.get_existing(location.store, location.format.keys(location.path))
            self.problems.append(Problem(next(iter(keys)), field, message))

        if len(array.shape) != len(names):
            message = f"has {len(array.shape)} axes, but the metadata name {len(names)}: {names}"
            error("shape", message)
        elif version is not None and version.namespaced and own_names != names:
            shown = None if own_names is None else list(own_names)
            error("dimension_names", f"expected the axes' names {list(names)}, got {shown}")
        separator = array.chunk_key_encoding.configuration.get("separator", ".")
        if version is not None and version.separator not in (None, separator):
            message = f"requires the separator {version.separator!r}, got {separator!r}"
            error("dimension_separator", f"OME-Zarr {version.name} {message}")
        if label and array.data_type.name not in _INTEGERS:
            error("data_type", f"a label image must have integers, got {array.data_type.name}")

    def _labels(self, location: Location, found: versions.RawMetadata, metadata: Metadata) -> None:
        if metadata.labels is not None:
            for i, name in enumerate(metadata.labels):
                self._image(location, f"{found.field}labels[{i}]", name, label=True)
        elif metadata.multiscales and metadata.image_label is None:
            labels = location.child("labels")
            node = labels.find([])
            if isinstance(node, GroupModel):
                self.levels = len(metadata.multiscales[0].datasets)
                self.group(labels, node, "labels")
                self.levels = None

    def _well(self, location: Location, node: GroupModel, runs: set[int], start: str) -> None:
        metadata = self.group(location, node, "well")
        for i, view in enumerate(metadata.well.fields if metadata and metadata.well else ()):
            field = f"{start}well.images[{i}].acquisition"
            if len(runs) > 1 and view.acquisition is None:
                message = "required if a plate has several acquisitions, but missing"
                self.error(location, field, message)
            elif view.acquisition is not None and view.acquisition not in runs:
                message = f"is {view.acquisition}, but the plate has {sorted(runs)}"
                self.error(location, field, message)

    def _series(self, location: Location, found: versions.RawMetadata) -> None:
        described = location.child("OME").find([])
        stated = described.attributes if isinstance(described, GroupModel) else {}
        inner = versions.find_metadata(stated)
        listed = None if inner is None else inner.members.get("series")
        if isinstance(listed, list) and all(isinstance(p, str) for p in listed):
            for path in listed:
                self._image(location, f"{found.field}series", path)
            return
        number = 0
        while isinstance(location.child(str(number)).find([]), GroupModel):
            self._image(location, "", str(number))
            number += 1
        if number == 0:
            self.error(location, found.field + "series", "lists no image, and there is no image 0")


# Nodes that declare a convention


def ome(store: Store, path: str) -> Found:
    """Check all images, plates and collections of OME-Zarr."""
    for location, node in _outermost(store, path, _declares_ome):
        metadata = versions.find_metadata(node.attributes)
        version = None if metadata is None else metadata.version
        start = f"OME-Zarr {version}" if isinstance(version, str) else "OME-Zarr"
        for problem in validate(store, location.path):
            field = problem.field.removeprefix("attributes.").removeprefix(f"{versions.NAMESPACE}.")
            section = re.split(r"[.\[]", field)[0] or "metadata"
            parent = problem.key.rpartition("/")[0]
            at = parent if parent.startswith(location.path) else location.path
            yield at, problem, f"{start}, {section}"


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
        found = [*_geo_problems(node.attributes)]
        for field, message in found:
            rule = f"GeoZarr, {field.partition(':')[0]}:"
            yield location.path, Problem(key, start + field, message), rule
        try:
            _ = found or open_map(location.store, path=location.path)
        except InvalidMetadata as e:
            yield location.path, Problem(key, f"{start}multiscales", str(e)), "GeoZarr, multiscales"
        except OmnizarrError:
            pass  # several arrays, or one that cannot be read, which is reported elsewhere


def _geo_problems(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield attributes of ``proj:`` and ``spatial:`` that are wrong, with the expected values."""
    kinds = {"proj:code": str, "proj:wkt2": str, "proj:projjson": dict}
    stated = [name for name in kinds if name in attributes]
    for name in stated:
        if not isinstance(attributes[name], kinds[name]):
            expected = "an object" if kinds[name] is dict else "a string"
            yield name, f"expected {expected}, got {extension.kind_of(attributes[name])}"
        elif name == "proj:code" and not _CODE.fullmatch(attributes[name]):
            yield name, f"expected an authority and a code, 'EPSG:4326', got {attributes[name]!r}"
    if len(stated) > 1:
        yield stated[1], f"only one of {', '.join(kinds)} may be stated"
    try:
        from_attributes(attributes)
    except OmnizarrError as e:
        yield "spatial:transform" if "spatial:transform" in attributes else "proj:transform", str(e)


def _outermost(store: Store, path: str, declared: Declared) -> Iterator[tuple[Location, Node]]:
    """Yield the nodes that declare a convention, without those below another such node."""
    above: list[str] = []
    start, node = extension.find_node(store, path)
    for location, found in extension.walk_nodes(start, node):
        if isinstance(found, Exception) or location.path.startswith(tuple(above)):
            continue
        if declared(found):
            above.append(paths.prefix(location.path))
            yield location, found


def _declares_ome(node: Node) -> bool:
    attributes = node.attributes
    if not isinstance(node, GroupModel):
        return False
    is_namespaced = isinstance(attributes.get(versions.NAMESPACE), dict)
    if is_namespaced or "bioformats2raw.layout" in attributes:
        return True
    multiscales = attributes.get("multiscales")
    first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
    parts = [(first, "axes"), (first, "version")]
    parts += [(attributes.get("plate"), "wells"), (attributes.get("well"), "images")]
    return any(isinstance(part, Mapping) and name in part for part, name in parts)


def _declares_cf(node: Node) -> bool:
    stated = node.attributes.get("Conventions", node.attributes.get("conventions"))
    return isinstance(node, GroupModel) and isinstance(stated, str) and "CF-" in stated


def _declares_geo(node: Node) -> bool:
    attributes = node.attributes
    multiscales = attributes.get("multiscales")
    if isinstance(multiscales, Mapping) and "layout" in multiscales:
        return True
    return any(isinstance(name, str) and _GEO.match(name) for name in attributes)


def _attributes(location: Location) -> tuple[str, str]:
    """Return the key of the document with a node's attributes, and the start of their fields."""
    keys = location.format.keys(location.path)
    existing = [*stores.get_existing(location.store, keys)]
    return [keys[0], *existing][-1], "attributes." if len(existing) == 1 else ""


def _with_document(problem: Problem, start: Location, rule: str) -> tuple[str, Problem, str]:
    """Return the path, problem and rule; the problem gets the key of the array's document."""
    path, field = paths.normalize(problem.key), problem.field
    key, before = _attributes(start.at(path))
    if field == "dimension_names":
        key = next(iter(stores.get_existing(start.store, start.format.keys(path))))
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
