"""Validate an OME-Zarr hierarchy: the metadata of all groups, their arrays, and transformations.

`check` has the rules that every reader applies; the rules here are only for validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from omnizarr.conventions.ome.model import Metadata, from_json
from omnizarr.conventions.ome.rules import Inspector, check
from omnizarr.conventions.ome.versions import (
    MEMBERS,
    NEWEST,
    RawMetadata,
    Version,
    find_metadata,
    get_version,
    upgrade,
)
from omnizarr.errors import InvalidMetadata, OmnizarrError, Problem
from omnizarr.extension import (
    ArrayModel,
    GroupModel,
    Location,
    Probe,
    existing_node,
    fetch_probe,
    find_node,
    has_store_path,
    kind_of,
    paths,
    resolve_store_path,
    stores,
    title,
)

Json = dict[str, Any]
AXES = range(5)  # an image has at most five
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def check_transforms(at: Inspector, members: Json) -> None:
    """Check the coordinate transformations of all multiscales."""
    several = members.get("multiscales")
    for i, item in enumerate(several if isinstance(several, list) else ()):
        if not isinstance(item, dict):
            continue
        inner = at.inside(f"multiscales[{i}]")
        datasets = item.get("datasets")
        for k, level in enumerate(datasets if isinstance(datasets, list) else ()):
            if isinstance(level, dict):
                _transforms(inner.inside(f"datasets[{k}]"), level, "path")
        if "coordinateTransformations" in item:
            _transforms(inner, item, "name")


def _transforms(at: Inspector, owner: Json, source: str) -> None:
    """Check transformations with their input, by name or path, and output coordinate system."""
    name = "coordinateTransformations"
    for inner, item in at.objects(name, owner.get(name), least=1):
        for end, member in (("input", source), ("output", "name")):
            if end not in item:
                inner.error(end, "required, but missing")
            elif inner.is_object(end, item[end]):
                inner.inside(end).text(member, item[end], required=True)
        _transform(inner, item)


def _transform(at: Inspector, item: Json) -> None:
    kind = at.text("type", item, required=True)
    if kind is None:
        return
    if kind not in _RULES:
        at.error("type", f"expected one of {', '.join(_RULES)}, got {kind!r}")
        return
    _RULES[kind](at, item)


def _identity(at: Inspector, item: Json) -> None:
    """Check an identity, which has no parameters."""


def _scale(at: Inspector, item: Json) -> None:
    numbers = at.numbers("scale", item.get("scale"))
    if numbers is not None and any(n <= 0 for n in numbers):
        at.error("scale", f"expected numbers above 0, got {numbers}")


def _translation(at: Inspector, item: Json) -> None:
    at.numbers("translation", item.get("translation"))


def _map_axis(at: Inspector, item: Json) -> None:
    _axis_numbers(at, "mapAxis", item.get("mapAxis"), range(2, 6))


def _project_axis(at: Inspector, item: Json) -> None:
    names = [n for n in ("droppedInputs", "createdOutputs") if n in item]
    if not names:
        at.error("", "has neither droppedInputs nor createdOutputs")
    for name in names:
        _axis_numbers(at, name, item[name], range(1, 4))


def _axis_numbers(at: Inspector, name: str, value: Any, lengths: range) -> None:
    """Check a list of distinct axis numbers."""
    good = isinstance(value, list) and all(type(n) is int and n in AXES for n in value)
    if not good or len(value) not in lengths or len(set(value)) < len(value):
        what = f"{lengths.start} to {lengths.stop - 1} different integers from 0 to {AXES.stop - 1}"
        at.error(name, f"expected {what}, got {value!r}")


def _matrix(name: str, square: bool) -> Callable[[Inspector, Json], None]:
    """Return the check of a matrix, which is inline or in an array at a path."""

    def check(at: Inspector, item: Json) -> None:
        if ("path" in item) == (name in item):
            at.error(name, f"expected either {name} or path")
        at.text("path", item)
        rows = item.get(name, [])
        if not isinstance(rows, list):
            at.error(name, f"expected a list of rows, got {kind_of(rows)}")
            return
        found = [at.numbers(f"{name}[{i}]", row) for i, row in enumerate(rows)]
        sizes = {len(row) for row in found if row is not None}
        if name in item and square and (len(rows) not in range(2, 6) or sizes != {len(rows)}):
            at.error(name, "expected as many rows as columns, 2 to 5")

    return check


def _field(at: Inspector, item: Json) -> None:
    at.text("path", item, required=True)
    known = ("nearest", "linear", "cubic")
    if item.get("interpolation", "linear") not in known:
        at.error("interpolation", f"expected one of {', '.join(known)}")


def _bijection(at: Inspector, item: Json) -> None:
    for name in ("forward", "inverse"):
        if name not in item:
            at.error(name, "required, but missing")
        elif at.is_object(name, item[name]):
            _transform(at.inside(name), item[name])


def _sequence(at: Inspector, item: Json) -> None:
    for inner, part in at.objects("transformations", item.get("transformations")):
        _transform(inner, part)


def _by_dimension(at: Inspector, item: Json) -> None:
    for inner, part in at.objects("transformations", item.get("transformations")):
        for name in ("inputAxes", "outputAxes"):
            inner.numbers(name, part.get(name))
        if inner.is_object("transformation", part.get("transformation")):
            _transform(inner.inside("transformation"), part["transformation"])


_RULES: dict[str, Callable[[Inspector, Json], None]] = {
    "identity": _identity,
    "mapAxis": _map_axis,
    "projectAxis": _project_axis,
    "scale": _scale,
    "translation": _translation,
    "affine": _matrix("affine", square=False),
    "rotation": _matrix("rotation", square=True),
    "bijection": _bijection,
    "sequence": _sequence,
    "byDimension": _by_dimension,
    "displacements": _field,
    "coordinates": _field,
}


def validate(
    what: Any, path: str | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Return every problem of an image, plate, well or label image, and of everything below it.

    Violations of requirements of the specification are errors, those of recommendations are
    warnings.

    Args:
        what: A path, URL, store, group, image or plate, or the attributes of a group as a
            dictionary.
        path: The path of the node in the store, or below the group that is given; by default that
            itself.
        storage_options: Options for the store of a URL, such as credentials.

    Raises:
        NodeNotFound: If there is no such node.

    Examples:
        >>> image = oz.ome.write("cell.zarr", np.ones((8, 8)), axes="yx")
        >>> [each.message for each in oz.ome.validate("cell.zarr") if each.level == "error"]
        []
    """
    if isinstance(what, Mapping) and not has_store_path(what) and _looks_like_attributes(what):
        return validate_attributes(what)
    location, node = _locate(*resolve_store_path(what, path, "r", storage_options))
    walk = _Walk([], location)
    walk.check_formats(location.path)
    if isinstance(node, ArrayModel):
        walk.error(location, "", "this is an array; OME-Zarr metadata belong to its group")
    else:
        walk.group(location, node, None)
    return walk.problems


def validate_attributes(attributes: Mapping[str, Any], key: str = "") -> list[Problem]:
    """Return every problem of the attributes of one group."""
    found = find_metadata(attributes)
    if found is None:
        names = ", ".join(MEMBERS)
        return [Problem(key, "", f"no OME-Zarr metadata; expected 'ome', or one of {names}")]
    return _problems(found, key)


def _problems(found: RawMetadata, key: str) -> list[Problem]:
    """Return all problems of the metadata of one group, those of transformations included."""
    at = Inspector(key, found.field, check(found, key))
    with suppress(InvalidMetadata):  # an unknown version is among the problems already
        if get_version(found.version).name > NEWEST:
            check_transforms(at, found.members)
    return [*dict.fromkeys(at.problems)]


def _looks_like_attributes(what: Mapping[str, Any]) -> bool:
    return bool(what) and not any(isinstance(v, (bytes, bytearray)) for v in what.values())


def _locate(store: stores.Store, path: str) -> tuple[Location, Any]:
    probe = Probe(path)
    formats = probe.formats(fetch_probe(store, probe), [])
    return find_node(store, path, zarr_format=formats[0].name if formats else None)


@dataclass
class _Walk:
    """Walks a hierarchy from `start` and collects the problems."""

    problems: list[Problem]
    start: Location
    version: Version | None = None
    levels: int | None = None  # of the image whose labels are being checked

    def error(self, location: Location, field: str, message: str) -> None:
        self.problems.append(Problem(_key(location), field, message))

    def array_error(self, location: Location, field: str, message: str) -> None:
        key = next(k for k in location.format.keys(location.path) if location.store.get(k))
        self.problems.append(Problem(key, field, message))

    def check_formats(self, path: str) -> None:
        """Report metadata of an older Zarr version beside those of a newer one."""
        probe = Probe(path)
        inner: list[Problem] = []
        probe.formats(fetch_probe(self.start.store, probe), inner)
        self.problems += inner

    def group(self, location: Location, node: GroupModel, role: str | None) -> Metadata | None:
        """Check one group and everything it refers to; `role` is the member it must have."""
        found = find_metadata(node.attributes)
        if found is None:
            self.error(location, "", f"no OME-Zarr metadata{f'; expected {role}' if role else ''}")
            return None
        problems = _problems(found, _key(location))
        if found.version is None:  # `check` reports it if it is required
            name = self.version.name if self.version else NEWEST if found.namespaced else "0.4"
            found = replace(found, version=name)
        self.problems += problems
        if role is not None and role not in found.members:
            self.error(location, found.field + role, "required, but missing")
        if not self._versions(location, found) or any(p.level == "error" for p in problems):
            return None
        version = get_version(found.version)
        try:
            metadata = from_json(upgrade(found.members, version))
        except (KeyError, TypeError, ValueError):
            return None  # already reported
        self._below(location, found, metadata)
        return metadata

    def _versions(self, location: Location, found: RawMetadata) -> bool:
        try:
            version = get_version(found.version)
        except InvalidMetadata:
            return False
        if self.version is not None and version != self.version:
            message = (
                f"{paths.show(location.path)} is OME-Zarr {version.name}, but"
                f" {paths.show(self.start.path)} is {self.version.name}; versions must not be mixed"
            )
            self.error(location, f"{found.field}version", message)
            return False
        self.version = version
        if not version.stands_on(location.format.name):
            message = (
                f"OME-Zarr {version.name} requires zarr {version.zarr_format}, but this is"
                f" {title(location.format.name, '')}"
            )
            self.error(location, found.field.rstrip("."), message)
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
        other = existing_node(location.store, child.path)
        if node is None and other is not None:
            message = (
                f"{paths.show(child.path)} is {title(other[0].name, '')}, but"
                f" {paths.show(location.path)} is {title(location.format.name, '')}; Zarr versions"
                " must not be mixed"
            )
        else:
            what = "array" if kind is ArrayModel else "group"
            message = f"there is no {what} {paths.show(child.path)}"
        self.error(location, field, message)
        return None

    def _below(self, location: Location, found: RawMetadata, metadata: Metadata) -> None:
        for i, multiscale in enumerate(metadata.multiscales):
            names = tuple(a.name for a in multiscale.axes)
            for j, dataset in enumerate(multiscale.datasets):
                field = f"{found.field}multiscales[{i}].datasets[{j}].path"
                level = self.child(location, dataset.path, field, ArrayModel)
                if level is not None:
                    self._level(level[0], level[1], names, metadata)
        self._labels(location, found, metadata)
        if metadata.plate is not None:
            self._plate(location, found, metadata)
        if metadata.well is not None:
            for i, view in enumerate(metadata.well.fields):
                self._image(location, f"{found.field}well.images[{i}].path", view.path)
        if metadata.bioformats2raw is not None and metadata.plate is None:
            self._series(location, found)

    def _image(self, location: Location, field: str, path: str, *, label: bool = False) -> None:
        child = self.child(location, path, field, GroupModel)
        if child is None:
            return
        metadata = self.group(child[0], child[1], "multiscales")
        if not label or metadata is None:
            return
        count = len(metadata.multiscales[0].datasets)
        if self.levels is not None and count != self.levels:
            message = f"has {count} levels, but its image has {self.levels}"
            self.error(child[0], "multiscales[0].datasets", message)
        if metadata.image_label is None:
            message = "missing, but recommended for label images"
            self.problems.append(Problem(_key(child[0]), "image-label", message, "warning"))

    def _level(
        self, location: Location, array: ArrayModel, names: tuple[str, ...], metadata: Metadata
    ) -> None:
        if len(array.shape) != len(names):
            message = f"has {len(array.shape)} axes, but the metadata name {len(names)}: {names}"
            self.array_error(location, "shape", message)
        elif self.version is not None and self.version.name >= "0.5":
            own_names = array.dimension_names
            if own_names != names:
                shown = None if own_names is None else list(own_names)
                message = f"expected the axes' names {list(names)}, got {shown}"
                self.array_error(location, "dimension_names", message)
        self._chunk_keys(location, array)
        if metadata.image_label is not None and array.data_type.name not in _INTEGERS:
            message = f"a label image must have integers, got {array.data_type.name}"
            self.array_error(location, "data_type", message)

    def _chunk_keys(self, location: Location, array: ArrayModel) -> None:
        if self.version is None or self.version.separator is None:
            return
        wanted = self.version.separator
        found = array.chunk_key_encoding.configuration.get("separator", ".")
        if found != wanted:
            message = (
                f"OME-Zarr {self.version.name} requires the separator {wanted!r}, got {found!r}"
            )
            self.array_error(location, "dimension_separator", message)

    def _labels(self, location: Location, found: RawMetadata, metadata: Metadata) -> None:
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

    def _plate(self, location: Location, found: RawMetadata, metadata: Metadata) -> None:
        plate = metadata.plate
        runs = {a.id for a in plate.acquisitions} if plate is not None else set()
        for i, well in enumerate(plate.wells if plate is not None else ()):
            field = f"{found.field}plate.wells[{i}].path"
            child = self.child(location, well.path, field, GroupModel)
            inner = None if child is None else self.group(child[0], child[1], "well")
            for j, view in enumerate(inner.well.fields if inner and inner.well else ()):
                wrong = view.acquisition is not None and view.acquisition not in runs
                if len(runs) > 1 and view.acquisition is None:
                    message = "required if a plate has several acquisitions, but missing"
                elif wrong:
                    message = f"is {view.acquisition}, but the plate has {sorted(runs)}"
                else:
                    continue
                self.error(child[0], f"{found.field}well.images[{j}].acquisition", message)

    def _series(self, location: Location, found: RawMetadata) -> None:
        described = location.child("OME").find([])
        inner = find_metadata(described.attributes) if isinstance(described, GroupModel) else None
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


def _key(location: Location) -> str:
    """Return the key of the metadata that contains a node's attributes."""
    keys = location.format.keys(location.path)
    present = [k for k in keys if location.store.get(k) is not None]
    return next((k for k in reversed(present)), keys[0])
