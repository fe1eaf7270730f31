"""From a group to its OME-Zarr metadata, whatever the version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from omnizarr.conventions.ome import documents
from omnizarr.conventions.ome.check import check
from omnizarr.conventions.ome.model import Metadata
from omnizarr.conventions.ome.versions import NEWEST, Stated, Version, known, newest, stated
from omnizarr.errors import InvalidMetadata, NodeNotFound, Problem, WrongNode, warn
from omnizarr.hierarchy.array import Array
from omnizarr.hierarchy.group import Group
from omnizarr.hierarchy.location import existing_node
from omnizarr.model import paths

N = TypeVar("N", Array, Group)

# Members without which an image can still be read.
_OPTIONAL = ("omero", "image-label", "labels", "series")


@dataclass(frozen=True)
class Loaded:
    """A group, the version its metadata are in, and what they say."""

    group: Group
    version: Version
    stated_version: str
    metadata: Metadata

    def __str__(self) -> str:
        return f"{self.group.name} in {self.group.store!r}"


class Described:
    """What images, plates, wells and series have in common: a group and what it says."""

    _loaded: Loaded

    @property
    def group(self) -> Group:
        """The Zarr group."""
        return self._loaded.group

    @property
    def version(self) -> str:
        """The version of OME-Zarr that the metadata are in."""
        return self._loaded.stated_version

    @property
    def metadata(self) -> Metadata:
        """All that the group says, in the terms of the newest version."""
        return self._loaded.metadata


def load(group: Group, parent: Loaded | None = None) -> Loaded | None:
    """What a group says, or None where it is not OME-Zarr; `parent` must have the same version."""
    found = stated(group.attrs)
    if found is None:
        return None
    place = f"{group.name} in {group.store!r}"
    name = found.version or (parent.stated_version if parent else _default(found))
    try:
        version = known(name)
    except InvalidMetadata as e:
        raise InvalidMetadata(f"{place}: {e}") from None
    if parent is not None and version != parent.version:
        raise InvalidMetadata(
            f"{place} is OME-Zarr {name}, but {parent.group.name} around it is"
            f" {parent.stated_version}; one image or plate has one version"
        )
    _check_zarr(group, found, version, place)
    members = _usable(found, version, place)
    return Loaded(group, version, name, documents.read(members))


def _default(found: Stated) -> str:
    return NEWEST if found.namespaced else "0.4"


def _check_zarr(group: Group, found: Stated, version: Version, place: str) -> None:
    if version.stands_on(group.zarr_format):
        return
    message = (
        f"{place}: OME-Zarr {version.name} stands on zarr {version.zarr_format},"
        f" but this is zarr {group.zarr_format}"
    )
    if found.namespaced:
        raise InvalidMetadata(message)
    warn(f"{message}; it is read all the same")


def _usable(found: Stated, version: Version, place: str) -> dict[str, object]:
    """The members in the newest shape; those with errors are told and put aside, or raise."""
    members = newest(found.members, version)
    bad: list[Problem] = []
    for problem in check(found, ""):
        unusable = "entries, but there are" in problem.message
        if problem.level != "error" and not unusable:
            continue
        member = problem.field.removeprefix(found.field).partition("[")[0].partition(".")[0]
        if member in _OPTIONAL:
            warn(f"{place}: {problem}")
            members = {k: v for k, v in members.items() if k != member}
        elif member != "version" and problem.field != found.field.rstrip("."):
            bad.append(Problem(problem.key, problem.field, problem.message))
    if bad:
        raise InvalidMetadata.of(bad, f"{place} is not valid OME-Zarr {version.name}")
    return members


def member(parent: Loaded, path: str, kind: type[N]) -> N:
    """An array or group below an OME-Zarr group, in the same format of Zarr."""
    try:
        found = parent.group[path]
    except NodeNotFound as e:
        place = paths.join(parent.group.path, paths.normalize(path))
        other = existing_node(parent.group.store, place)
        if other is None:
            raise
        raise InvalidMetadata(
            f"{paths.show(place)} is zarr {other[0].name}, but {parent.group.name} around it is"
            f" zarr {parent.group.zarr_format}; one image or plate has one version of Zarr"
        ) from e
    if not isinstance(found, kind):
        raise WrongNode(f"{found.name} in {found.store!r} is not the {kind.__name__.lower()}"
                        f" that {parent.group.name} says it is")  # fmt: skip
    return found
