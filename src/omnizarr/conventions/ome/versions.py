"""Versions of OME-Zarr: their detection in attributes, and conversion from each to the next.

A conversion step does not validate: what it does not understand stays unchanged, and the checks of
`check` report it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnizarr import Group
from omnizarr.conventions.ome.model import Metadata, from_json
from omnizarr.errors import InvalidArgument, InvalidMetadata, error_context

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of OME-Zarr, and the version of Zarr that it requires."""

    name: str
    zarr_format: int
    writes: bool

    @property
    def namespaced(self) -> bool:
        """True if metadata of this version are under the attribute `ome`."""
        return self.name >= "0.5"

    @property
    def separator(self) -> str | None:
        """The separator in chunk keys that this version requires, or None for any."""
        return "/" if "0.2" <= self.name <= "0.4" else None

    def __str__(self) -> str:
        return f"{self.name} ({'read and written' if self.writes else 'read'})"


def stands_on(version: Version, zarr_format: int | str) -> bool:
    """Return True if a version of OME-Zarr is based on that version of Zarr."""
    return str(version.zarr_format) == str(zarr_format)


VERSIONS = (
    Version("0.1", 2, False),
    Version("0.2", 2, False),
    Version("0.3", 2, False),
    Version("0.4", 2, True),
    Version("0.5", 3, True),
    Version("0.6", 3, False),
)
NEWEST = "0.5"
NAMESPACE = "ome"
# The members of OME-Zarr metadata; before 0.5 they are mixed with other attributes.
MEMBERS = (
    "multiscales",
    "omero",
    "image-label",
    "plate",
    "well",
    "labels",
    "series",
    "bioformats2raw.layout",
)
# The members that contained the version before 0.5.
VERSIONED = ("multiscales", "plate", "well", "image-label", "omero")
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


@dataclass(frozen=True, slots=True)
class RawMetadata:
    """OME-Zarr metadata as found in a group's attributes."""

    version: str | None  # None if missing
    members: Json  # in the form of that version
    namespaced: bool  # True if they are under `ome`

    @property
    def field(self) -> str:
        """The prefix of a member's name in the field of a problem."""
        return f"attributes.{NAMESPACE}." if self.namespaced else ""

    @property
    def implied_version(self) -> Version:
        """The version of metadata that do not state one."""
        return get_version(NEWEST if self.namespaced else "0.4")

    @property
    def known_version(self) -> Version:
        """The stated or implied version; raises InvalidMetadata if it is unknown."""
        return self.implied_version if self.version is None else get_version(self.version)

    def read(self) -> Metadata:
        """Return the model of metadata that passed `check`."""
        return from_json(upgrade(self.members, self.known_version))


def get_version(name: object) -> Version:
    """Return the version named in metadata; a release candidate counts as its version."""
    if isinstance(name, str) and name.startswith(("0.6rc", "0.6.dev", "0.6dev", "0.6-")):
        return VERSIONS[-1]
    found = next((version for version in VERSIONS if name == version.name), None)
    if found is None:
        known = ", ".join(map(str, VERSIONS))
        raise InvalidMetadata(f"unknown OME-Zarr version {name!r}; known: {known}")
    return found


def writable_version(name: object) -> Version:
    """Return the version named by a caller; raise if it cannot be written."""
    with error_context("version", catch=(InvalidMetadata,), into=InvalidArgument):
        version = get_version(name)
    if not version.writes:
        names = " or ".join(v.name for v in VERSIONS if v.writes)
        raise InvalidArgument(f"OME-Zarr {version.name} can be read, but not written; use {names}")
    return version


def version_on(zarr_format: int | str) -> Version | None:
    """Return the version to write with a version of Zarr, or None."""
    return next((v for v in VERSIONS if v.writes and stands_on(v, zarr_format)), None)


def find_metadata(attributes: Mapping[str, Any]) -> RawMetadata | None:
    """Return the OME-Zarr metadata in a node's attributes, or None if there are none."""
    inner = attributes.get(NAMESPACE)
    if isinstance(inner, dict):
        members = {k: v for k, v in inner.items() if k != "version"}
        return RawMetadata(inner.get("version"), members, True)
    members = {k: attributes[k] for k in MEMBERS if k in attributes}
    if not members:
        return None
    found = [m.get("version") for name in VERSIONED for m in _objects(members.get(name))]
    return RawMetadata(next((v for v in found if v is not None), None), members, False)


def to_attributes(members: Json, version: str, others: Mapping[str, Any]) -> Json:
    """Return a group's attributes with `members`, converted from the newest form to `version`.

    Of the existing attributes `others`, all that are not OME-Zarr are kept.
    """
    kept = {k: v for k, v in others.items() if k != NAMESPACE and k not in MEMBERS}
    if writable_version(version).name == NEWEST:
        return {NAMESPACE: {"version": NEWEST, **members}, **kept}
    return {**from_0_5(members), **kept}


def edit_members(group: Group, version: Version, change: Callable[[Json], None]) -> None:
    """Change the OME-Zarr members of a group; its other attributes are kept."""

    def edit(attributes: Json) -> None:
        found = find_metadata(attributes)
        members = {} if found is None else dict(found.members)
        change(members)
        new = to_attributes(members, version.name, attributes)
        attributes.clear()
        attributes.update(new)

    group.attrs.edit(edit)


def upgrade(members: Json, version: Version) -> Json:
    """Convert metadata of any version to the form of the newest."""
    name = version.name
    while name in STEPS:
        name, step = STEPS[name]
        members = step(members)
    return members


def from_0_2(members: Json) -> Json:
    """Convert 0.1 or 0.2 to 0.3: axes are named; before, they were always these five.

    From 0.1 to 0.2 only the chunk keys changed, which are part of Zarr.
    """
    axes = ["t", "c", "z", "y", "x"]
    return _each(members, ["multiscales"], lambda m: {"axes": axes, **m})


def from_0_3(members: Json) -> Json:
    """Convert 0.3 to 0.4: axes have types, wells have row and column indices.

    Scales are omitted: they follow from the shapes of the levels, which are not known here.
    """

    def axes(multiscale: Json) -> Json:
        names = multiscale.get("axes")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return multiscale
        typed = [{"name": n, **({"type": _TYPES[n]} if n in _TYPES else {})} for n in names]
        return {**multiscale, "axes": typed}

    members = _each(members, ["multiscales"], axes)
    plate = members.get("plate")
    if isinstance(plate, dict) and isinstance(plate.get("wells"), list):
        wells = [_with_indices(well, plate) for well in plate["wells"]]
        members = {**members, "plate": {**plate, "wells": wells}}
    return members


def from_0_4(members: Json) -> Json:
    """Convert 0.4 to 0.5: the version is beside the members, no longer inside them."""
    return _each(members, VERSIONED, lambda m: {k: v for k, v in m.items() if k != "version"})


def from_0_5(members: Json) -> Json:
    """Convert 0.5 back to 0.4: the version is inside the members."""
    return _each(members, VERSIONED, lambda m: {**m, "version": "0.4"})


STEPS: dict[str, tuple[str, Callable[[Json], Json]]] = {
    "0.1": ("0.3", from_0_2),
    "0.2": ("0.3", from_0_2),
    "0.3": ("0.4", from_0_3),
    "0.4": ("0.5", from_0_4),
    "0.6": ("0.5", lambda members: _each(members, ["multiscales"], _without_systems)),
}


def _objects(value: Any) -> list[Json]:
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict)]


def _each(members: Json, names: Sequence[str], change: Callable[[Json], Json]) -> Json:
    """Return members with some changed: objects, or lists of objects."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, dict) else value

    new = dict(members)
    for name in members.keys() & {*names}:
        value = members[name]
        new[name] = [*map(changed, value)] if isinstance(value, list) else changed(value)
    return new


def _with_indices(well: Any, plate: Json) -> Any:
    """Return a well with its row and column indices, derived from its path."""
    path = well.get("path") if isinstance(well, dict) else None
    row, slash, column = path.partition("/") if isinstance(path, str) else ("", "", "")
    rows, columns = ([v.get("name") for v in _objects(plate.get(n))] for n in ("rows", "columns"))
    if not slash or row not in rows or column not in columns:
        return well
    return {"rowIndex": rows.index(row), "columnIndex": columns.index(column), **well}


def _without_systems(multiscale: Json) -> Json:
    """Convert a multiscale from 0.6 to 0.5, or return it unchanged if 0.5 cannot express it."""
    datasets = _objects(multiscale.get("datasets"))
    described = _objects(multiscale.get("coordinateSystems"))
    systems = {s["name"]: s for s in described if isinstance(s.get("name"), str)}
    outputs = {_target(t) for d in datasets for t in _objects(d.get("coordinateTransformations"))}
    (name,) = outputs if len(outputs) == 1 else (None,)
    rank = len(_objects(systems.get(name, {}).get("axes")))
    plain = [_plain_transformations(d, rank) for d in datasets]
    if name not in systems or None in plain:
        return multiscale
    kept = {k: v for k, v in multiscale.items() if k != "coordinateSystems"}
    extra = kept.pop("coordinateTransformations", None)
    others = [s for n, s in systems.items() if n != name]
    if extra or others:  # other coordinate systems than the image's own: kept, but not used
        kept["ome-zarr-0.6"] = {"coordinateTransformations": extra, "coordinateSystems": others}
    described = _objects(systems[name].get("axes"))
    axes = [{k: v for k, v in axis.items() if k != "discrete"} for axis in described]
    changed = [{**d, "coordinateTransformations": t} for d, t in zip(datasets, plain, strict=True)]
    return {**kept, "axes": axes, "datasets": changed}


def _target(transformation: Json) -> str | None:
    output = transformation.get("output")
    name = output.get("name") if isinstance(output, dict) else output
    return name if isinstance(name, str) else None


def _plain_transformations(dataset: Json, rank: int) -> list[Json] | None:
    """Return a level's scale and translation, or None if it has another transformation."""
    several = _objects(dataset.get("coordinateTransformations"))
    if len(several) != 1:
        return None
    (only,) = several
    parts = _objects(only.get("transformations")) if only.get("type") == "sequence" else [only]
    kinds = [part.get("type") for part in parts]
    if kinds == ["identity"]:
        return [{"type": "scale", "scale": [1.0] * rank}]
    if kinds not in (["scale"], ["scale", "translation"]):
        return None
    return [{k: part[k] for k in ("type", part["type"]) if k in part} for part in parts]


def is_image(attributes: Mapping[str, Any], zarr_format: int | str) -> bool:
    """Return True for the attributes of an OME-Zarr image; pyramids of maps look much the same."""
    found = find_metadata(attributes)
    if found is None:
        return False
    several = found.members.get("multiscales")
    first = several[0] if isinstance(several, list) and several else None
    if not isinstance(first, dict) or not isinstance(first.get("datasets"), list):
        return False
    if found.namespaced or "axes" in first:
        return True
    return any(v.name == found.version and stands_on(v, zarr_format) for v in VERSIONS)
