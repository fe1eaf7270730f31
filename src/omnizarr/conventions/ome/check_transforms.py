"""Every problem of the coordinate transformations of 0.6, those that are not used here too.

Only validation asks for this: an image whose levels have a scale is read whatever else is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnizarr._json import kind_of
from omnizarr.conventions.ome.inspect import Inspector

Json = dict[str, Any]
AXES = range(5)  # an image has at most five


def check_transforms(at: Inspector, members: Json) -> None:
    """Record the problems of the transformations of all multiscales."""
    several = members.get("multiscales")
    for i, item in enumerate(several if isinstance(several, list) else ()):
        if not isinstance(item, dict):
            continue
        inner = at.inside(f"multiscales[{i}]")
        datasets = item.get("datasets")
        for k, level in enumerate(datasets if isinstance(datasets, list) else ()):
            if isinstance(level, dict):
                _connected(inner.inside(f"datasets[{k}]"), level, "path")
        if "coordinateTransformations" in item:
            _connected(inner, item, "name")


def _connected(at: Inspector, owner: Json, source: str) -> None:
    """Transformations that say from where, by name or path, to which coordinate system."""
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
    """Nothing more is said."""


def _scale(at: Inspector, item: Json) -> None:
    numbers = at.numbers("scale", item.get("scale"))
    if numbers is not None and any(n <= 0 for n in numbers):
        at.error("scale", f"expected numbers above 0, got {numbers}")


def _translation(at: Inspector, item: Json) -> None:
    at.numbers("translation", item.get("translation"))


def _map_axis(at: Inspector, item: Json) -> None:
    _indexes(at, "mapAxis", item.get("mapAxis"), range(2, 6))


def _project_axis(at: Inspector, item: Json) -> None:
    names = [n for n in ("droppedInputs", "createdOutputs") if n in item]
    if not names:
        at.error("", "has neither droppedInputs nor createdOutputs")
    for name in names:
        _indexes(at, name, item[name], range(1, 4))


def _indexes(at: Inspector, name: str, value: Any, lengths: range) -> None:
    """Different numbers of axes."""
    good = isinstance(value, list) and all(type(n) is int and n in AXES for n in value)
    if not good or len(value) not in lengths or len(set(value)) < len(value):
        what = f"{lengths.start} to {lengths.stop - 1} different integers from 0 to {AXES.stop - 1}"
        at.error(name, f"expected {what}, got {value!r}")


def _matrix(name: str, square: bool) -> Callable[[Inspector, Json], None]:
    """A matrix in place, or the path of an array that holds it."""

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
