"""Versions of OME-Zarr: which there are, how to tell one, and a step from each to the next.

A step takes metadata in the shape of one version and gives them in that of the next, without
judging them: what it does not understand stays as it is, for the validator to complain about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnizarr.errors import InvalidArgument, InvalidMetadata

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of OME-Zarr, and the version of Zarr that it stands on."""

    name: str
    zarr_format: int
    writes: bool

    def stands_on(self, zarr_format: int | str) -> bool:
        """Whether data of this version lie in that version of Zarr."""
        return str(self.zarr_format) == str(zarr_format)

    @property
    def separator(self) -> str | None:
        """The separator between the indices in chunk keys; None where that is left open."""
        return "/" if "0.2" <= self.name <= "0.4" else None

    def __str__(self) -> str:
        return f"{self.name} ({'read and written' if self.writes else 'read'})"


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
# The members of OME-Zarr metadata; before 0.5 they stand among other attributes.
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
# Those of them that carried the version before 0.5.
VERSIONED = ("multiscales", "plate", "well", "image-label", "omero")
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


@dataclass(frozen=True, slots=True)
class Stated:
    """OME-Zarr metadata as a group's attributes state them."""

    version: str | None  # None where none is stated
    members: Json  # in the shape of that version
    namespaced: bool  # whether they stand under `ome`

    @property
    def field(self) -> str:
        """What stands before a member's name in the place of a problem."""
        return f"attributes.{NAMESPACE}." if self.namespaced else ""


def known(name: object) -> Version:
    """Return the version that metadata state; a release candidate counts as its version."""
    version = _find(name)
    if version is None:
        raise InvalidMetadata(_unknown(name))
    return version


def writable(name: object) -> Version:
    """Return the version that a caller asks for; raise if it is not written here."""
    version = _find(name)
    if version is None:
        raise InvalidArgument(_unknown(name))
    if not version.writes:
        names = " and ".join(v.name for v in VERSIONS if v.writes)
        raise InvalidArgument(f"OME-Zarr {version.name} is only read here; written are {names}")
    return version


def _find(name: object) -> Version | None:
    if isinstance(name, str) and name.startswith(("0.6rc", "0.6.dev", "0.6dev", "0.6-")):
        return VERSIONS[-1]
    return next((version for version in VERSIONS if name == version.name), None)


def _unknown(name: object) -> str:
    versions = ", ".join(map(str, VERSIONS))
    return f"OME-Zarr version {name!r} is not known here; known: {versions}"


def version_on(zarr_format: int | str) -> Version | None:
    """The version that is written on that version of Zarr, or None."""
    return next((v for v in VERSIONS if v.writes and v.stands_on(zarr_format)), None)


def stated(attributes: Mapping[str, Any]) -> Stated | None:
    """What a node's attributes say, or None where they are not OME-Zarr."""
    inner = attributes.get(NAMESPACE)
    if isinstance(inner, dict):
        members = {k: v for k, v in inner.items() if k != "version"}
        return Stated(inner.get("version"), members, True)
    members = {k: attributes[k] for k in MEMBERS if k in attributes}
    if not members:
        return None
    found = [m.get("version") for name in VERSIONED for m in _objects(members.get(name))]
    return Stated(next((v for v in found if v is not None), None), members, False)


def attributes_of(members: Json, version: str, others: Mapping[str, Any]) -> Json:
    """A group's attributes with `members`, which are of the newest shape, in a writable version.

    `others` are the attributes that stood there before; all that is not OME-Zarr is kept.
    """
    kept = {k: v for k, v in others.items() if k != NAMESPACE and k not in MEMBERS}
    if writable(version).name == NEWEST:
        return {NAMESPACE: {"version": NEWEST, **members}, **kept}
    return {**from_0_5(members), **kept}


def newest(members: Json, version: Version) -> Json:
    """Metadata of any version in the newest shape."""
    name = version.name
    while name in STEPS:
        name, step = STEPS[name]
        members = step(members)
    return members


def from_0_1(members: Json) -> Json:
    """0.1 to 0.2: only the keys of chunks changed, which is a matter of Zarr."""
    return members


def from_0_2(members: Json) -> Json:
    """0.2 to 0.3: axes are named; before, they were always these five."""
    return _each_multiscale(members, lambda m: {"axes": ["t", "c", "z", "y", "x"], **m})


def from_0_3(members: Json) -> Json:
    """0.3 to 0.4: axes have types, wells state their row and column.

    Scales are left out: they follow from the shapes of the levels, which only a reader sees.
    """

    def axes(multiscale: Json) -> Json:
        names = multiscale.get("axes")
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return multiscale
        typed = [{"name": n, **({"type": _TYPES[n]} if n in _TYPES else {})} for n in names]
        return {**multiscale, "axes": typed}

    members = _each_multiscale(members, axes)
    plate = members.get("plate")
    if isinstance(plate, dict) and isinstance(plate.get("wells"), list):
        wells = [_placed(well, plate) for well in plate["wells"]]
        members = {**members, "plate": {**plate, "wells": wells}}
    return members


def from_0_4(members: Json) -> Json:
    """0.4 to 0.5: the version stands beside the members, no longer in them."""

    def bare(value: Any) -> Any:
        return {k: v for k, v in value.items() if k != "version"} if _is(value) else value

    return _each_versioned(members, bare)


def from_0_5(members: Json) -> Json:
    """0.5 back to 0.4: the version stands in the members."""
    return _each_versioned(members, lambda v: {**v, "version": "0.4"} if _is(v) else v)


def from_0_6(members: Json) -> Json:
    """0.6 to 0.5, where one coordinate system and plain scales say the same."""
    return _each_multiscale(members, _without_systems)


STEPS: dict[str, tuple[str, Callable[[Json], Json]]] = {
    "0.1": ("0.2", from_0_1),
    "0.2": ("0.3", from_0_2),
    "0.3": ("0.4", from_0_3),
    "0.4": ("0.5", from_0_4),
    "0.6": ("0.5", from_0_6),
}


def _is(value: object) -> bool:
    return isinstance(value, dict)


def _objects(value: Any) -> list[Json]:
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict)]


def _each_multiscale(members: Json, change: Callable[[Json], Json]) -> Json:
    several = members.get("multiscales")
    if not isinstance(several, list):
        return members
    changed = [change(m) if isinstance(m, dict) else m for m in several]
    return {**members, "multiscales": changed}


def _each_versioned(members: Json, change: Callable[[Any], Any]) -> Json:
    changed = {
        name: [change(v) for v in value] if isinstance(value, list) else change(value)
        for name, value in members.items()
        if name in VERSIONED
    }
    return {**members, **changed}


def _placed(well: Any, plate: Json) -> Any:
    """A well with its row and column, from its path."""
    path = well.get("path") if isinstance(well, dict) else None
    row, slash, column = path.partition("/") if isinstance(path, str) else ("", "", "")
    names = {
        axis: [v.get("name") for v in _objects(plate.get(axis, []))] for axis in ("rows", "columns")
    }
    if not slash or row not in names["rows"] or column not in names["columns"]:
        return well
    return {
        "rowIndex": names["rows"].index(row),
        "columnIndex": names["columns"].index(column),
        **well,
    }


def _without_systems(multiscale: Json) -> Json:
    """A multiscale of 0.6 in the words of 0.5; as it is where it says more than those can."""
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
    if extra or others:  # other spaces than the image's own: kept, but not used
        kept["ome-zarr-0.6"] = {"coordinateTransformations": extra, "coordinateSystems": others}
    axes = [
        {k: v for k, v in a.items() if k != "discrete"} for a in _objects(systems[name].get("axes"))
    ]
    changed = [{**d, "coordinateTransformations": t} for d, t in zip(datasets, plain, strict=True)]
    return {**kept, "axes": axes, "datasets": changed}


def _target(transformation: Json) -> str | None:
    output = transformation.get("output")
    name = output.get("name") if isinstance(output, dict) else output
    return name if isinstance(name, str) else None


def _plain_transformations(dataset: Json, rank: int) -> list[Json] | None:
    """A level's scale and translation, or None where its one transformation is another."""
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
