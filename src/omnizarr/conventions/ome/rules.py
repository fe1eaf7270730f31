"""Check the OME-Zarr metadata of one group and list every problem.

Violations of requirements ("must") are errors, those of recommendations ("should") are warnings.
The rules are those of 0.4 and 0.5, which differ only in the position of the version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from omnizarr.conventions.ome.model import is_colour
from omnizarr.conventions.ome.region import unit_kind
from omnizarr.conventions.ome.versions import (
    MEMBERS,
    NEWEST,
    VERSIONED,
    RawMetadata,
    Version,
    get_version,
    upgrade,
)
from omnizarr.errors import InvalidMetadata, Problem
from omnizarr.extension import dumps, kind_of

ADVICE = "advice: "
RECOMMENDED = "missing, but recommended"
_ORDER = {"time": 0, "space": 2}  # other types are in between
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_FIELD = re.compile(r"(?!\.+$)(?!__)[A-Za-z0-9._-]+")


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

    def is_object(self, name: str, value: Any) -> bool:
        """Return True if a value is an object; record a problem if not."""
        if not isinstance(value, dict):
            self.error(name, f"expected an object, got {kind_of(value)}")
        return isinstance(value, dict)

    def objects(
        self, name: str, value: Any, *, least: int = 0
    ) -> Iterator[tuple[Inspector, dict[str, Any]]]:
        """Yield the objects of a list, each with its inspector."""
        if not isinstance(value, list):
            what = (
                "required, but missing"
                if value is None
                else f"expected a list, got {kind_of(value)}"
            )
            self.error(name, what)
            return
        if len(value) < least:
            self.error(name, f"has {len(value)} entries; expected at least {least}")
        for i, item in enumerate(value):
            if self.is_object(f"{name}[{i}]", item):
                yield self.inside(f"{name}[{i}]"), item

    def text(self, name: str, item: dict[str, Any], *, required: bool = False) -> str | None:
        """Return a string member, or None if it is missing or not a string."""
        value = item.get(name)
        if name not in item:
            if required:
                self.error(name, "required, but missing")
            return None
        if not isinstance(value, str):
            self.error(name, f"expected a string, got {kind_of(value)}")
            return None
        return value

    def integer(
        self, name: str, item: dict[str, Any], *, least: int | None = None, required: bool = False
    ) -> int | None:
        """Return an integer member of at least `least`, or None if it is missing or invalid."""
        value = item.get(name)
        if name not in item:
            if required:
                self.error(name, "required, but missing")
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or (least is not None and value < least):
            at_least = "" if least is None else f" of at least {least}"
            self.error(name, f"expected an integer{at_least}, got {kind_of(item[name])}")
            return None
        return value

    def number(self, name: str, value: Any) -> None:
        """Record where a value is not a number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.error(name, f"expected a number, got {kind_of(value)}")

    def numbers(self, name: str, value: Any) -> list[float] | None:
        """Return a list of numbers, or None if the value is not one."""
        good = isinstance(value, list) and not any(
            isinstance(n, bool) or not isinstance(n, (int, float)) for n in value
        )
        if not good:
            self.error(name, f"expected a list of numbers, got {kind_of(value)}")
            return None
        found: list[float] = value
        return found


def check(raw: RawMetadata, key: str) -> list[Problem]:
    """Return all problems of OME-Zarr metadata stored under `key`."""
    at = Inspector(key, raw.field, [])
    version = _version(raw, at)
    if version is None:
        return at.problems
    members = raw.members if version.writes else upgrade(raw.members, version)
    for name, rule in _RULES.items():
        if name in members:
            rule(at.inside(name), members[name], version)
    if not any(name in members for name in MEMBERS):
        at.error("", f"no OME-Zarr metadata; expected one of {', '.join(MEMBERS)}")
    _inner_versions(raw, version, at)
    _early_axes(raw, version, at)
    if version.name > NEWEST:
        message = f"OME-Zarr {raw.version} is checked only as far as it can be read"
        at.advise("version", message)
    return at.problems


def _early_axes(raw: RawMetadata, version: Version, at: Inspector) -> None:
    """Check that axes are strings before 0.4."""
    several = raw.members.get("multiscales")
    for i, item in enumerate(several if isinstance(several, list) else ()):
        axes = item.get("axes") if isinstance(item, dict) else None
        if version.name < "0.4" and isinstance(axes, list) and not all(map(_is_text, axes)):
            message = f"axes are strings in OME-Zarr {version.name}; objects were added in 0.4"
            at.error(f"multiscales[{i}].axes", message)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _version(raw: RawMetadata, at: Inspector) -> Version | None:
    if raw.version is None:
        if raw.namespaced:
            at.error("version", "required, but missing")
            return get_version(NEWEST)
        return get_version("0.4")
    try:
        version = get_version(raw.version)
    except InvalidMetadata as e:
        at.error("version", str(e))
        return None
    namespaced = not version.stands_on(get_version("0.4").zarr_format)
    if namespaced and not raw.namespaced:
        at.error("", f"OME-Zarr {version.name} metadata belong under the attribute 'ome'")
    if not namespaced and raw.namespaced:
        at.error("version", f"OME-Zarr {version.name} metadata do not belong under 'ome'")
    return version


def _inner_versions(raw: RawMetadata, version: Version, at: Inspector) -> None:
    """Check the version inside the members, which is recommended before 0.5."""
    for name in VERSIONED:
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


def _multiscales(at: Inspector, value: Any, version: Version) -> None:
    for inner, item in at.objects("", value, least=1):
        _multiscale(inner, item, version)
    if isinstance(value, list):
        texts = [dumps(v, sort_keys=True) for v in value]
        if len(set(texts)) < len(texts):
            at.error("", "contains the same multiscale twice")


def _multiscale(at: Inspector, value: dict[str, Any], version: Version) -> None:
    if "coordinateSystems" in value:
        at.error(
            "coordinateSystems",
            "not supported beyond a scale and a translation for each level",
        )
        return
    rank = _axes(at.inside("axes"), value.get("axes"), "axes" in value)
    scales = version.name >= "0.4"
    paths: list[str] = []
    scale_of: list[list[float]] = []
    for inner, item in at.objects("datasets", value.get("datasets"), least=1):
        path = inner.text("path", item, required=True)
        paths += [path] if path is not None else []
        if scales or "coordinateTransformations" in item:
            scale = _transforms(inner, item.get("coordinateTransformations"), rank, version)
            scale_of += [scale] if scale else []
    if len(set(paths)) < len(paths):
        at.error("datasets", "contains the same path twice")
    if any(any(b < a for a, b in zip(x, y, strict=False)) for x, y in pairwise(scale_of)):
        at.warn("datasets", "a level is finer than the previous one; the finest should be first")
    if "coordinateTransformations" in value:
        _transforms(at, value["coordinateTransformations"], rank, version)
    for name in ("name", "type", "metadata") if scales else ():
        if name not in value:
            at.warn(name, RECOMMENDED)
    at.text("name", value)


def _axes(at: Inspector, value: Any, present: bool) -> int | None:
    """Check the axes; return their number, or None if it is unknown."""
    if not present:
        at.error("", "required, but missing")
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
    if len({n for n in names if n is not None}) < len([n for n in names if n is not None]):
        at.error("", f"contains the same name twice: {names}")
    space, time = types.count("space"), types.count("time")
    if not 2 <= space <= 3:
        at.error("", f"has {space} axes of type 'space'; an image has 2 or 3")
    if time > 1:
        at.error("", f"has {time} axes of type 'time'; an image has at most one")
    if len(types) - space - time > 1:
        at.error("", "has more than one axis that is neither space nor time")
    ranks = [_ORDER.get(t, 1) for t in types]
    if ranks != sorted(ranks):
        at.error("", f"wrong order: expected time, then channel or other, then space; got {types}")
    return len(value)


def _transforms(at: Inspector, value: Any, rank: int | None, version: Version) -> list[float]:
    """Check coordinate transformations; return the scale if it is valid, else an empty list."""
    name = "coordinateTransformations"
    kinds: list[Any] = []
    scale: list[float] = []
    for inner, item in at.objects(name, value, least=1):
        kind = item.get("type")
        kinds.append(kind)
        if kind not in ("scale", "translation"):
            inner.error("type", f"expected 'scale' or 'translation', got {kind_of(kind)}")
            continue
        numbers = inner.numbers(str(kind), item.get(str(kind)))
        if numbers is not None and rank is not None and len(numbers) != rank:
            # The published test cases for 0.4 and 0.6 accept this, although it is unusable.
            record = inner.error if version.name == NEWEST else inner.warn
            record(str(kind), f"has {len(numbers)} entries, but there are {rank} axes")
        elif numbers is not None and kind == "scale":
            scale = numbers
    if kinds and kinds not in (["scale"], ["scale", "translation"]):
        at.error(name, f"expected one scale, then at most one translation; got {kinds}")
    return scale


def _omero(at: Inspector, value: Any, version: Version) -> None:
    if not at.is_object("", value):
        return
    if "channels" not in value:
        at.error("channels", "required, but missing")
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
                inner.number(f"window.{name}", item["window"].get(name))


def _image_label(at: Inspector, value: Any, _: Version) -> None:
    if not at.is_object("", value):
        return
    if "colors" not in value:
        at.warn("colors", RECOMMENDED)
    for name in ("colors", "properties"):
        values: list[Any] = []
        for inner, item in at.objects(name, value[name], least=1) if name in value else ():
            values.append(inner.integer("label-value", item, required=True))
            rgba = item.get("rgba", [0, 0, 0, 0]) if name == "colors" else [0, 0, 0, 0]
            good = isinstance(rgba, list) and len(rgba) == 4
            if not good or any(type(n) is not int or not 0 <= n <= 255 for n in rgba):
                inner.error("rgba", f"expected four integers from 0 to 255, got {rgba!r}")
        if len(set(values)) < len(values):
            at.error(name, "contains the same label value twice")
    if "source" in value and at.is_object("source", value["source"]):
        at.inside("source").text("image", value["source"])


def _paths(at: Inspector, value: Any, _: Version) -> None:
    if not isinstance(value, list) or not all(isinstance(p, str) for p in value):
        at.error("", f"expected a list of paths, got {kind_of(value)}")


def _layout(at: Inspector, value: Any, _: Version) -> None:
    if value != 3 or isinstance(value, bool):
        at.error("", f"expected 3, got {kind_of(value)}")


def check_plate(at: Inspector, value: Any, version: Version) -> None:
    """Check a plate."""
    if not at.is_object("", value):
        return
    rows, columns = (_names(at, name, value.get(name)) for name in ("rows", "columns"))
    found: list[str | None] = []
    for inner, item in at.objects("wells", value.get("wells"), least=1):
        path, expected = _well_paths(inner, item, rows, columns)
        found.append(path)
        if expected is not None and path != expected:
            # The published test cases for 0.4 and 0.6 accept a column's name before a row's.
            record = inner.error if version.name == NEWEST else inner.advise
            record("path", f"is {path!r}, but the indices give {expected!r}")
    if len(set(found)) < len(found):
        at.error("wells", "contains the same well twice")
    at.text("name", value)
    if "name" not in value:
        at.warn("name", RECOMMENDED)
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
    if len(set(names)) < len(names):
        at.error(axis, f"contains the same name twice: {names}")
    return names


def _well_paths(
    at: Inspector, item: dict[str, Any], rows: list[str | None], columns: list[str | None]
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
        inner.integer("maximumfieldcount", item, least=1)
        for name in ("starttime", "endtime"):
            inner.integer(name, item, least=0)
        for name in ("name", "description"):
            inner.text(name, item)
        for name in ("name", "maximumfieldcount"):
            if name not in item:
                inner.warn(name, RECOMMENDED)
    if len(set(ids)) < len(ids):
        at.error("acquisitions", f"contains the same id twice: {ids}")


def check_well(at: Inspector, value: Any, version: Version) -> None:
    """Check a well."""
    if not at.is_object("", value):
        return
    paths: list[str | None] = []
    for inner, item in at.objects("images", value.get("images"), least=1):
        path = inner.text("path", item, required=True)
        paths.append(path)
        allowed = _FIELD if version.name == "0.6" else _ALPHANUMERIC
        if path is not None and not allowed.fullmatch(path):
            inner.error("path", f"expected letters and digits, got {path!r}")
        inner.integer("acquisition", item)
    if len(set(paths)) < len(paths):
        at.error("images", "contains the same path twice")


_RULES: dict[str, Callable[[Inspector, Any, Version], None]] = {
    "multiscales": _multiscales,
    "omero": _omero,
    "image-label": _image_label,
    "plate": check_plate,
    "well": check_well,
    "labels": _paths,
    "series": _paths,
    "bioformats2raw.layout": _layout,
}
