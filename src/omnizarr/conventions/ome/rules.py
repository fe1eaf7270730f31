"""Check the OME-Zarr metadata of one group, list every problem, and load what is valid.

A violation of a requirement ("must") is an error, one of a recommendation ("should") a warning.
The rules are from 0.4 and 0.5; 0.6 is checked as far as it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from omnizarr import Group
from omnizarr.conventions.ome import versions
from omnizarr.conventions.ome.model import Metadata, from_json, is_colour, unit_kind
from omnizarr.errors import InvalidMetadata, Problem, error_context, warn
from omnizarr.extension import dumps, kind_of, title

Json = dict[str, Any]
ADVICE = "advice: "
MISSING = "required, but missing"
RECOMMENDED = "missing, but recommended"
_ORDER = {"time": 0, "space": 2}  # other types are in between
_TRANSFORMS = "coordinateTransformations"
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_FIELD = re.compile(r"(?!\.+$)(?!__)[A-Za-z0-9._-]+")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Inspector:
    """A field in the metadata of a key, and the list that collects its problems."""

    key: str
    field: str
    problems: list[Problem]

    def inside(self, name: str) -> Inspector:
        """Return an inspector for a member of this object."""
        return replace(self, field=self._field(name))

    def _field(self, name: str) -> str:
        dot = "." if name and self.field and not self.field.endswith(".") else ""
        return f"{self.field}{dot if not name.startswith('[') else ''}{name}".rstrip(".")

    def error(self, name: str, message: str) -> None:
        """Record a violated requirement."""
        self.problems.append(Problem(self.key, self._field(name), message))

    def warn(self, name: str, message: str) -> None:
        """Record a violated recommendation."""
        self.problems.append(Problem(self.key, self._field(name), message, "warning"))

    def advise(self, name: str, message: str) -> None:
        """Record a recommendation of the text that the strict JSON schemas do not require."""
        self.warn(name, ADVICE + message)

    def recommend(self, item: Json, *names: str) -> None:
        """Record the recommended members that an object does not have."""
        for name in names:
            if name not in item:
                self.warn(name, RECOMMENDED)

    def expect(self, good: bool, name: str, what: str, value: Any) -> bool:
        """Return `good`; record the expected kind of value if it is False."""
        if not good:
            self.error(name, f"expected {what}, got {kind_of(value)}")
        return good

    def unique(self, name: str, values: Sequence[Any], what: str) -> None:
        """Record that a list contains something twice."""
        if len(set(values)) < len(values):
            self.error(name, f"contains the same {what}")

    def is_object(self, name: str, value: Any) -> bool:
        """Return True if a value is an object; record a problem if not."""
        return self.expect(isinstance(value, dict), name, "an object", value)

    def objects(self, name: str, value: Any, *, least: int = 0) -> Iterator[tuple[Inspector, Json]]:
        """Yield the objects of a list, each with its inspector."""
        if value is None:
            self.error(name, MISSING)
        elif self.expect(isinstance(value, list), name, "a list", value):
            if len(value) < least:
                self.error(name, f"has {len(value)} entries; expected at least {least}")
            for i, item in enumerate(value):
                if self.is_object(f"{name}[{i}]", item):
                    yield self.inside(f"{name}[{i}]"), item

    def _has(self, name: str, item: Json, required: bool) -> bool:
        if required and name not in item:
            self.error(name, MISSING)
        return name in item

    def text(self, name: str, item: Json, *, required: bool = False) -> str | None:
        """Return a string member, or None if it is missing or not a string."""
        value = item.get(name)
        present = self._has(name, item, required)
        good = present and self.expect(isinstance(value, str), name, "a string", value)
        return value if good else None

    def integer(
        self, name: str, item: Json, *, least: int | None = None, required: bool = False
    ) -> int | None:
        """Return an integer member of at least `least`, or None if it is missing or invalid."""
        if not self._has(name, item, required):
            return None
        value = item[name]
        if type(value) is float and value.is_integer():
            value = int(value)
        good = type(value) is int and (least is None or value >= least)
        what = "an integer" if least is None else f"an integer of at least {least}"
        return value if self.expect(good, name, what, item[name]) else None

    def numbers(self, name: str, value: Any) -> list[float] | None:
        """Return a list of numbers, or None if the value is not one."""
        good = isinstance(value, list) and all(map(_is_number, value))
        return value if self.expect(good, name, "a list of numbers", value) else None


def check(raw: versions.RawMetadata, key: str) -> list[Problem]:
    """Return all problems of OME-Zarr metadata stored under `key`."""
    at = Inspector(key, raw.field, [])
    version = _version(raw, at)
    if version is None:
        return at.problems
    members = raw.members if version.writes else versions.upgrade(raw.members, version)
    for name, rule in _RULES.items():
        inner = at.inside(name)
        if name in members and (name in _LISTS or inner.is_object("", members[name])):
            rule(inner, members[name], version)
    if not any(name in members for name in versions.MEMBERS):
        at.error("", f"no OME-Zarr metadata; expected one of {', '.join(versions.MEMBERS)}")
    _inner_versions(raw, at)
    several = raw.members.get("multiscales") if version.name < "0.4" else ()
    for i, item in enumerate(several if isinstance(several, list) else ()):
        axes = item.get("axes") if isinstance(item, dict) else None
        if isinstance(axes, list) and not all(isinstance(axis, str) for axis in axes):
            message = f"axes are strings in OME-Zarr {version.name}; objects were added in 0.4"
            at.error(f"multiscales[{i}].axes", message)
    if version.name > versions.NEWEST:
        message = f"OME-Zarr {raw.version} is checked only as far as it can be read"
        at.advise("version", message)
    return at.problems


def _version(raw: versions.RawMetadata, at: Inspector) -> versions.Version | None:
    if raw.version is None:
        if raw.namespaced:
            at.error("version", MISSING)
        return raw.implied_version
    try:
        version = versions.get_version(raw.version)
    except InvalidMetadata as e:
        at.error("version", str(e))
        return None
    if version.namespaced and not raw.namespaced:
        at.error("", f"OME-Zarr {version.name} metadata belong under the attribute 'ome'")
    if not version.namespaced and raw.namespaced:
        at.error("version", f"OME-Zarr {version.name} metadata do not belong under 'ome'")
    return version


def _inner_versions(raw: versions.RawMetadata, at: Inspector) -> None:
    """Check the version inside the members, which is recommended before 0.5."""
    for name in versions.VERSIONED:
        value = raw.members.get(name)
        several = value if isinstance(value, list) else [value]
        for i, item in enumerate(several):
            if not isinstance(item, dict):
                continue
            field = f"{name}[{i}].version" if isinstance(value, list) else f"{name}.version"
            inner = item.get("version")
            if inner is not None and inner != raw.version:
                record = at.advise if name == "omero" else at.error
                record(field, f"is {inner!r}, but the version is {raw.version!r}")
            elif inner is None and not raw.namespaced and name != "omero":
                at.warn(field, RECOMMENDED)


def _multiscales(at: Inspector, value: Any, version: versions.Version) -> None:
    for inner, item in at.objects("", value, least=1):
        _multiscale(inner, item, version)
    if isinstance(value, list):
        at.unique("", [dumps(v, sort_keys=True) for v in value], "multiscale twice")


def _multiscale(at: Inspector, value: Json, version: versions.Version) -> None:
    if "coordinateSystems" in value:
        message = "not supported beyond a scale and a translation for each level"
        at.error("coordinateSystems", message)
        return
    rank = _axes(at.inside("axes"), value.get("axes"), "axes" in value)
    scales = version.name >= "0.4"
    paths: list[str] = []
    scale_of: list[list[float]] = []
    for inner, item in at.objects("datasets", value.get("datasets"), least=1):
        path = inner.text("path", item, required=True)
        paths += [path] if path is not None else []
        if scales or _TRANSFORMS in item:
            scale = _scale_of(inner, item.get(_TRANSFORMS), rank, version)
            scale_of += [scale] if scale else []
    at.unique("datasets", paths, "path twice")
    if any(any(b < a for a, b in zip(x, y, strict=False)) for x, y in pairwise(scale_of)):
        at.warn("datasets", "a level is finer than the previous one; the finest should be first")
    if _TRANSFORMS in value:
        _scale_of(at, value[_TRANSFORMS], rank, version)
    if scales:
        at.recommend(value, "name", "type", "metadata")
    at.text("name", value)


def _axes(at: Inspector, value: Any, present: bool) -> int | None:
    """Check the axes; return their number, or None if it is unknown."""
    if not present:
        at.error("", MISSING)
        return None
    names: list[str | None] = []
    types: list[Any] = []
    for inner, item in at.objects("", value):
        names.append(inner.text("name", item, required=True))
        types.append(inner.text("type", item))
        unit = inner.text("unit", item)
        if types[-1] in ("space", "time") and unit is None:
            inner.advise("unit", RECOMMENDED)
        elif types[-1] in ("space", "time") and unit_kind(unit) != types[-1]:
            inner.advise("unit", f"unknown unit of {types[-1]}: {unit!r}")
    if not isinstance(value, list):
        return None
    if not 2 <= len(value) <= 5:
        at.error("", f"has {len(value)} entries; an image has 2 to 5 axes")
    at.unique("", [n for n in names if n is not None], f"name twice: {names}")
    space, time = types.count("space"), types.count("time")
    ranks = [_ORDER.get(t, 1) for t in types]
    if not 2 <= space <= 3:
        at.error("", f"has {space} axes of type 'space'; an image has 2 or 3")
    if time > 1:
        at.error("", f"has {time} axes of type 'time'; an image has at most one")
    if len(types) - space - time > 1:
        at.error("", "has more than one axis that is neither space nor time")
    if ranks != sorted(ranks):
        order = "time, then channel or other, then space"
        at.error("", f"wrong order: expected {order}; got {types}")
    return len(value)


def _scale_of(
    at: Inspector, value: Any, rank: int | None, version: versions.Version
) -> list[float]:
    """Check coordinate transformations; return the scale if it is valid, else an empty list."""
    kinds: list[Any] = []
    scale: list[float] = []
    for inner, item in at.objects(_TRANSFORMS, value, least=1):
        kind: Any = item.get("type")
        kinds.append(kind)
        known = kind in ("scale", "translation")
        if not inner.expect(known, "type", "'scale' or 'translation'", kind):
            continue
        numbers = inner.numbers(kind, item.get(kind))
        if numbers is not None and rank is not None and len(numbers) != rank:
            # The published test cases for 0.4 and 0.6 accept this, although it is unusable.
            record = inner.error if version.name == versions.NEWEST else inner.warn
            record(kind, f"has {len(numbers)} entries, but there are {rank} axes")
        elif numbers is not None and kind == "scale":
            scale = numbers
    if kinds and kinds not in (["scale"], ["scale", "translation"]):
        at.error(_TRANSFORMS, f"expected one scale, then at most one translation; got {kinds}")
    return scale


def _omero(at: Inspector, value: Any, version: versions.Version) -> None:
    if "channels" not in value:
        at.error("channels", MISSING)
    for inner, item in at.objects("channels", value.get("channels", [])):
        color = inner.text("color", item)
        missing = inner.error if version.name == "0.4" else inner.warn
        if "color" not in item:
            missing("color", "missing; it should be six hexadecimal digits")
        elif color is not None and not is_colour(color):
            inner.warn("color", f"expected six hexadecimal digits, got {color!r}")
        inner.text("label", item)
        if "window" not in item:
            missing("window", "missing; it should have min, max, start and end")
        elif inner.is_object("window", item["window"]):
            for name in ("min", "max", "start", "end"):
                number = item["window"].get(name)
                inner.expect(_is_number(number), f"window.{name}", "a number", number)


def _image_label(at: Inspector, value: Any, _: versions.Version) -> None:
    at.recommend(value, "colors")
    for name in ("colors", "properties"):
        values: list[Any] = []
        for inner, item in at.objects(name, value[name], least=1) if name in value else ():
            values.append(inner.integer("label-value", item, required=True))
            rgba = item.get("rgba", [0, 0, 0, 0]) if name == "colors" else [0, 0, 0, 0]
            good = isinstance(rgba, list) and len(rgba) == 4
            if not good or any(type(n) is not int or not 0 <= n <= 255 for n in rgba):
                inner.error("rgba", f"expected four integers from 0 to 255, got {rgba!r}")
        at.unique(name, values, "label value twice")
    if "source" in value and at.is_object("source", value["source"]):
        at.inside("source").text("image", value["source"])


def _paths(at: Inspector, value: Any, _: versions.Version) -> None:
    good = isinstance(value, list) and all(isinstance(p, str) for p in value)
    at.expect(good, "", "a list of paths", value)


def _layout(at: Inspector, value: Any, _: versions.Version) -> None:
    at.expect(value == 3 and not isinstance(value, bool), "", "3", value)


def _plate(at: Inspector, value: Any, version: versions.Version) -> None:
    rows, columns = (_names(at, name, value.get(name)) for name in ("rows", "columns"))
    found: list[str | None] = []
    for inner, item in at.objects("wells", value.get("wells"), least=1):
        path, expected = _well_paths(inner, item, rows, columns)
        found.append(path)
        if expected is not None and path != expected:
            # The published test cases for 0.4 and 0.6 accept a column's name before a row's.
            record = inner.error if version.name == versions.NEWEST else inner.advise
            record("path", f"is {path!r}, but the indices give {expected!r}")
    at.unique("wells", found, "well twice")
    at.text("name", value)
    at.recommend(value, "name")
    at.integer("field_count", value, least=1)
    if "field_count" not in value:
        at.advise("field_count", RECOMMENDED)
    if "acquisitions" in value:
        _acquisitions(at, value["acquisitions"])


def _names(at: Inspector, axis: str, value: Any) -> list[str | None]:
    names: list[str | None] = []
    for inner, item in at.objects(axis, value, least=1):
        name = inner.text("name", item, required=True)
        names.append(name)
        if name is not None and not _ALPHANUMERIC.fullmatch(name):
            inner.error("name", f"expected letters and digits, got {name!r}")
    at.unique(axis, names, f"name twice: {names}")
    return names


def _well_paths(
    at: Inspector, item: Json, rows: list[str | None], columns: list[str | None]
) -> tuple[str | None, str | None]:
    """Return the path of a well, and the path that its indices give; None if unknown."""
    path = at.text("path", item, required=True)
    names_found: list[str | None] = []
    for axis, names in (("row", rows), ("column", columns)):
        index = at.integer(f"{axis}Index", item, least=0, required=True)
        if index is not None and index >= len(names):
            at.error(f"{axis}Index", f"is {index}, but the plate has {len(names)} {axis}s")
        names_found.append(names[index] if index is not None and index < len(names) else None)
    if path is None:
        return None, None
    parts = path.split("/")
    if len(parts) != 2 or not all(_ALPHANUMERIC.fullmatch(p) for p in parts):
        at.error("path", f"expected a row and a column such as 'A/1', got {path!r}")
        return path, None
    return path, None if None in names_found else f"{names_found[0]}/{names_found[1]}"


def _acquisitions(at: Inspector, value: Any) -> None:
    ids: list[int | None] = []
    for inner, item in at.objects("acquisitions", value):
        ids.append(inner.integer("id", item, least=0, required=True))
        for name, least in (("maximumfieldcount", 1), ("starttime", 0), ("endtime", 0)):
            inner.integer(name, item, least=least)
        for name in ("name", "description"):
            inner.text(name, item)
        inner.recommend(item, "name", "maximumfieldcount")
    at.unique("acquisitions", ids, f"id twice: {ids}")


def _well(at: Inspector, value: Any, version: versions.Version) -> None:
    paths: list[str | None] = []
    for inner, item in at.objects("images", value.get("images"), least=1):
        path = inner.text("path", item, required=True)
        paths.append(path)
        allowed = _FIELD if version.name == "0.6" else _ALPHANUMERIC
        if path is not None and not allowed.fullmatch(path):
            inner.error("path", f"expected letters and digits, got {path!r}")
        inner.integer("acquisition", item)
    at.unique("images", paths, "path twice")


# Members that are not objects.
_LISTS = ("multiscales", "labels", "series", "bioformats2raw.layout")
_RULES: dict[str, Callable[[Inspector, Any, versions.Version], None]] = {
    "multiscales": _multiscales,
    "omero": _omero,
    "image-label": _image_label,
    "plate": _plate,
    "well": _well,
    "labels": _paths,
    "series": _paths,
    "bioformats2raw.layout": _layout,
}


# Loading

# Members without which an image can still be read.
_OPTIONAL = ("omero", "image-label", "labels", "series")


@dataclass(frozen=True)
class Loaded:
    """A group with its OME-Zarr metadata and their version."""

    group: Group
    version: versions.Version
    version_name: str
    metadata: Metadata

    def __str__(self) -> str:
        return f"{self.group.name} in {self.group.store!r}"


def load(group: Group, parent: Loaded | None = None) -> Loaded | None:
    """Load the metadata of a group, or return None if it is not OME-Zarr.

    The version must be that of `parent`.
    """
    found = versions.find_metadata(group.attrs)
    if found is None:
        return None
    where = f"{group.name} in {group.store!r}"
    name = found.version or (parent.version_name if parent else found.implied_version.name)
    with error_context(where, catch=(InvalidMetadata,)):
        version = versions.get_version(name)
    if parent is not None and version != parent.version:
        raise InvalidMetadata(
            f"{where} is OME-Zarr {name}, but its parent {parent.group.name} is"
            f" {parent.version_name}; an image or plate must have a single version"
        )
    if not versions.stands_on(version, group.zarr_format):
        message = (
            f"{where}: OME-Zarr {version.name} requires zarr {version.zarr_format},"
            f" but this is {title(group.zarr_format, '')}"
        )
        if found.namespaced:
            raise InvalidMetadata(message)
        warn(f"{message}; reading it anyway")
    members = _valid_members(found, version, where)
    return Loaded(group, version, name, from_json(members))


def _valid_members(
    found: versions.RawMetadata, version: versions.Version, where: str
) -> dict[str, object]:
    """Return the members in the newest form; raise if a required one is invalid, else warn."""
    members = versions.upgrade(found.members, version)
    bad: list[Problem] = []
    for problem in check(found, ""):
        unusable = "entries, but there are" in problem.message
        if problem.level != "error" and not unusable:
            continue
        member = problem.field.removeprefix(found.field).partition("[")[0].partition(".")[0]
        if member in _OPTIONAL:
            warn(f"{where}: {problem}")
            members = {k: v for k, v in members.items() if k != member}
        elif member != "version" and problem.field != found.field.rstrip("."):
            bad.append(Problem(problem.key, problem.field, problem.message))
    if bad:
        raise InvalidMetadata.of(bad, f"{where} is not valid OME-Zarr {version.name}")
    return members
