"""The rules for plates and wells."""

from __future__ import annotations

import re
from typing import Any

from omnizarr.conventions.ome.inspect import Inspector
from omnizarr.conventions.ome.versions import NEWEST, Version

_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_FIELD = re.compile(r"(?!\.+$)(?!__)[A-Za-z0-9._-]+")


def check_plate(at: Inspector, value: Any, version: Version) -> None:
    """Record the problems of a plate."""
    if not at.is_object("", value):
        return
    rows, columns = (_names(at, name, value.get(name)) for name in ("rows", "columns"))
    places: list[str | None] = []
    for inner, item in at.objects("wells", value.get("wells"), least=1):
        path, place = _well_place(inner, item, rows, columns)
        places.append(path)
        if place is not None and path != place:
            # The published cases for 0.4 and 0.6 take a column's name before a row's as valid.
            tell = inner.error if version.name == NEWEST else inner.advise
            tell("path", f"is {path!r}, but the indices say {place!r}")
    if len(set(places)) < len(places):
        at.error("wells", "the same well stands there twice")
    at.text("name", value)
    if "name" not in value:
        at.warn("name", "missing; it should be stated")
    at.integer("field_count", value, least=1)
    if "field_count" not in value:
        at.advise("field_count", "missing; it should be stated")
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
        at.error(axis, f"a name stands there twice: {names}")
    return names


def _well_place(
    at: Inspector, item: dict[str, Any], rows: list[str | None], columns: list[str | None]
) -> tuple[str | None, str | None]:
    """The path of a well as it is stated, and as its indices have it where both can be told."""
    path = at.text("path", item, required=True)
    places: list[str | None] = []
    for axis, names in (("row", rows), ("column", columns)):
        index = at.integer(f"{axis}Index", item, least=0, required=True)
        if index is not None and index >= len(names):
            at.error(f"{axis}Index", f"is {index}, but the plate has {len(names)} {axis}s")
        places.append(names[index] if index is not None and index < len(names) else None)
    if path is None:
        return None, None
    parts = path.split("/")
    if len(parts) != 2 or not all(_ALPHANUMERIC.fullmatch(p) for p in parts):
        at.error("path", f"expected the names of a row and a column, as 'A/1', got {path!r}")
        return path, None
    return path, None if None in places else f"{places[0]}/{places[1]}"


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
                inner.warn(name, "missing; it should be stated")
    if len(set(ids)) < len(ids):
        at.error("acquisitions", f"an id stands there twice: {ids}")


def check_well(at: Inspector, value: Any, version: Version) -> None:
    """Record the problems of a well."""
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
        at.error("images", "the same path stands there twice")
