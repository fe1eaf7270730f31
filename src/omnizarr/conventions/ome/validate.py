"""Every problem of an OME-Zarr hierarchy: its documents, and whether they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from omnizarr import stores
from omnizarr.conventions.ome import documents
from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.check_transforms import check_transforms
from omnizarr.conventions.ome.inspect import Inspector
from omnizarr.conventions.ome.model import Metadata
from omnizarr.conventions.ome.versions import (
    MEMBERS,
    NEWEST,
    Stated,
    Version,
    known,
    newest,
    stated,
)
from omnizarr.errors import InvalidMetadata, OmnizarrError, Problem
from omnizarr.formats import Probe
from omnizarr.hierarchy.fetch import fetch_probe
from omnizarr.hierarchy.locate import locate
from omnizarr.hierarchy.location import Location, existing_node
from omnizarr.model import ArrayModel, GroupModel, paths

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def validate(
    what: Any, path: str | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Every problem of an image, plate, well or label image and of all below it.

    `what` is as in `omnizarr.open`, or the attributes of a group as a dictionary. What the
    specification demands is an error, what it recommends a warning.
    """
    if isinstance(what, Mapping) and _looks_like_attributes(what):
        return validate_attributes(what)
    store = stores.resolve(what, read_only=True, storage_options=storage_options)
    location, node = _locate(store, paths.normalize(path))
    walk = _Walk([], location)
    walk.beside(location.path)
    if isinstance(node, ArrayModel):
        walk.error(location, "", "this is an array; OME-Zarr metadata stand in the group around it")
    else:
        walk.group(location, node, None)
    return walk.problems


def validate_attributes(attributes: Mapping[str, Any], key: str = "") -> list[Problem]:
    """Every problem of the attributes of one group."""
    found = stated(attributes)
    if found is None:
        names = ", ".join(MEMBERS)
        return [Problem(key, "", f"no OME-Zarr metadata; expected 'ome', or one of {names}")]
    return _problems(found, key)


def _problems(found: Stated, key: str) -> list[Problem]:
    """All problems of one document, with those that are none for a reader."""
    at = Inspector(key, found.field, check(found, key))
    with suppress(InvalidMetadata):  # an unknown version is among the problems already
        if known(found.version).name > NEWEST:
            check_transforms(at, found.members)
    return [*dict.fromkeys(at.problems)]


def _looks_like_attributes(what: Mapping[str, Any]) -> bool:
    return bool(what) and not any(isinstance(v, (bytes, bytearray)) for v in what.values())


def _locate(store: stores.Store, path: str) -> tuple[Location, Any]:
    probe = Probe(path)
    formats = probe.formats(fetch_probe(store, probe), [])
    return locate(store, path, zarr_format=formats[0].name if formats else None)


@dataclass
class _Walk:
    """The problems so far, and where the walk began."""

    problems: list[Problem]
    start: Location
    version: Version | None = None
    levels: int | None = None  # of the image whose labels are looked at

    def error(self, location: Location, field: str, message: str) -> None:
        self.problems.append(Problem(_key(location), field, message))

    def array_error(self, location: Location, field: str, message: str) -> None:
        key = next(k for k in location.format.keys(location.path) if location.store.get(k))
        self.problems.append(Problem(key, field, message))

    def beside(self, path: str) -> None:
        """Tell where an older version's documents stand beside the newer one's."""
        probe = Probe(path)
        inner: list[Problem] = []
        probe.formats(fetch_probe(self.start.store, probe), inner)
        self.problems += inner

    def group(self, location: Location, node: GroupModel, role: str | None) -> Metadata | None:
        """Check one group and all it names; `role` is the member that it must have."""
        found = stated(node.attributes)
        if found is None:
            self.error(location, "", f"no OME-Zarr metadata{f'; expected {role}' if role else ''}")
            return None
        problems = _problems(found, _key(location))
        if found.version is None:  # told where it must be stated
            name = self.version.name if self.version else NEWEST if found.namespaced else "0.4"
            found = replace(found, version=name)
        self.problems += problems
        if role is not None and role not in found.members:
            self.error(location, found.field + role, "required, but missing")
        if not self._versions(location, found) or any(p.level == "error" for p in problems):
            return None
        version = known(found.version)
        try:
            metadata = documents.read(newest(found.members, version))
        except (KeyError, TypeError, ValueError):
            return None  # what cannot be read has been told
        self._below(location, found, metadata)
        return metadata

    def _versions(self, location: Location, found: Stated) -> bool:
        try:
            version = known(found.version)
        except InvalidMetadata:
            return False
        if self.version is not None and version != self.version:
            message = (
                f"{paths.show(location.path)} is OME-Zarr {version.name}, but"
                f" {paths.show(self.start.path)} is {self.version.name}; all must have one version"
            )
            self.error(location, f"{found.field}version", message)
            return False
        self.version = version
        if not version.stands_on(location.format.name):
            message = (
                f"OME-Zarr {version.name} stands on zarr {version.zarr_format}, but this is zarr"
                f" {location.format.name}"
            )
            self.error(location, found.field.rstrip("."), message)
        return True

    def child(self, location: Location, path: str, field: str, kind: type[Any]) -> Any:
        """The place and node of something that a group names, or None where it is wrong."""
        try:
            place = location.child(path)
            node = place.find([])
        except OmnizarrError as e:
            self.error(location, field, f"{path!r}: {e}")
            return None
        if isinstance(node, kind):
            return place, node
        other = existing_node(location.store, place.path)
        if node is None and other is not None:
            message = (
                f"{paths.show(place.path)} is zarr {other[0].name}, but"
                f" {paths.show(location.path)} is zarr {location.format.name}; all must be one"
            )
        else:
            what = "an array" if kind is ArrayModel else "a group"
            message = f"there is no {what.partition(' ')[2]} {paths.show(place.path)}"
        self.error(location, field, message)
        return None

    def _below(self, location: Location, found: Stated, metadata: Metadata) -> None:
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
            for i, place in enumerate(metadata.well.fields):
                self._image(location, f"{found.field}well.images[{i}].path", place.path)
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
            message = "missing; a label image should have it"
            self.problems.append(Problem(_key(child[0]), "image-label", message, "warning"))

    def _level(
        self, place: Location, array: ArrayModel, names: tuple[str, ...], metadata: Metadata
    ) -> None:
        if len(array.shape) != len(names):
            message = f"has {len(array.shape)} axes, but the metadata name {len(names)}: {names}"
            self.array_error(place, "shape", message)
        elif self.version is not None and self.version.name >= "0.5":
            stated_names = array.dimension_names
            if stated_names != names:
                shown = None if stated_names is None else list(stated_names)
                message = f"expected the axes' names {list(names)}, got {shown}"
                self.array_error(place, "dimension_names", message)
        self._keys(place, array)
        if metadata.image_label is not None and array.data_type.name not in _INTEGERS:
            message = f"a label image has integers, got {array.data_type.name}"
            self.array_error(place, "data_type", message)

    def _keys(self, place: Location, array: ArrayModel) -> None:
        if self.version is None or self.version.separator is None:
            return
        wanted = self.version.separator
        found = array.chunk_key_encoding.configuration.get("separator", ".")
        if found != wanted:
            message = f"chunk keys of OME-Zarr {self.version.name} have {wanted!r}, got {found!r}"
            self.array_error(place, "dimension_separator", message)

    def _labels(self, location: Location, found: Stated, metadata: Metadata) -> None:
        if metadata.labels is not None:
            for i, name in enumerate(metadata.labels):
                self._image(location, f"{found.field}labels[{i}]", name, label=True)
        elif metadata.multiscales and metadata.image_label is None:
            place = location.child("labels")
            node = place.find([])
            if isinstance(node, GroupModel):
                self.levels = len(metadata.multiscales[0].datasets)
                self.group(place, node, "labels")
                self.levels = None

    def _plate(self, location: Location, found: Stated, metadata: Metadata) -> None:
        plate = metadata.plate
        runs = {a.id for a in plate.acquisitions} if plate is not None else set()
        for i, well in enumerate(plate.wells if plate is not None else ()):
            field = f"{found.field}plate.wells[{i}].path"
            child = self.child(location, well.path, field, GroupModel)
            inner = None if child is None else self.group(child[0], child[1], "well")
            for j, place in enumerate(inner.well.fields if inner and inner.well else ()):
                wrong = place.acquisition is not None and place.acquisition not in runs
                if len(runs) > 1 and place.acquisition is None:
                    message = "required where a plate has several acquisitions, but missing"
                elif wrong:
                    message = f"is {place.acquisition}, but the plate has {sorted(runs)}"
                else:
                    continue
                self.error(child[0], f"{found.field}well.images[{j}].acquisition", message)

    def _series(self, location: Location, found: Stated) -> None:
        described = location.child("OME").find([])
        inner = stated(described.attributes) if isinstance(described, GroupModel) else None
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
            self.error(location, found.field + "series", "names no image, and there is no image 0")


def _key(location: Location) -> str:
    """The document that a problem of a node stands in."""
    keys = location.format.keys(location.path)
    present = [k for k in keys if location.store.get(k) is not None]
    return next((k for k in reversed(present)), keys[0])
