"""Select regions of an image in physical units, and convert units.

The position of pixel i is ``translation + scale * i``. An interval contains the pixels whose
positions are inside it, its end excluded, so that adjacent intervals have no pixel in common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from omnizarr.conventions.ome.model import Axis, Transform
from omnizarr.errors import InvalidArgument, SelectionError, known_names

# Quotients such as 0.3 / 0.1 differ from whole numbers by rounding errors.
_TOLERANCE = 1e-6


def axis_factor(axis: Axis, unit: str | Mapping[str, str] | None) -> float:
    """Return the factor from `unit` to the axis' own unit.

    A single unit applies to the axes of its kind; the others keep their own.
    """
    asked = unit.get(axis.name) if isinstance(unit, Mapping) else unit
    if asked is None:
        return 1.0
    kind = unit_kind(asked)
    if kind is None:
        raise unknown_unit(asked)
    if axis.type != kind and not isinstance(unit, Mapping):
        return 1.0
    if axis.unit is None:
        raise InvalidArgument(
            f"axis {axis.name!r} has no unit, so {asked!r} cannot be converted; omit the unit to"
            " use the scale of the axis"
        )
    return unit_factor(asked, axis.unit)


def select(
    axes: Sequence[Axis],
    shape: Sequence[int],
    transform: Transform,
    region: Mapping[str, Any],
    unit: str | Mapping[str, str] | None,
    channels: Sequence[str | None],
) -> tuple[slice | int, ...]:
    """Return the selection of a region; axes that it does not name are selected whole."""
    known = [axis.name for axis in axes]
    for name in region:
        if name not in known:
            raise SelectionError(f"unknown axis {name!r}; axes: {', '.join(known)}")
    return tuple(
        _along(axis, shape[i], transform.scale[i], transform.offset[i], region[axis.name], unit,
               channels)
        if axis.name in region
        else slice(None)
        for i, axis in enumerate(axes)
    )  # fmt: skip


def _along(
    axis: Axis,
    length: int,
    scale: float,
    offset: float,
    wanted: Any,
    unit: str | Mapping[str, str] | None,
    channels: Sequence[str | None],
) -> slice | int:
    if isinstance(wanted, slice):
        if not range(length)[wanted]:
            raise SelectionError(f"no pixel in {wanted!r} of {length} along axis {axis.name!r}")
        return wanted
    if axis.type == "channel":
        return _channel(axis, length, wanted, channels)
    factor = axis_factor(axis, unit)
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        if all(w is None or _is_number(w) for w in wanted):
            ends = [None if w is None else (float(w) * factor - offset) / scale for w in wanted]
            start = 0 if ends[0] is None else _ceil(ends[0], length)
            stop = length if ends[1] is None else _ceil(ends[1], length)
            if start >= stop:
                raise SelectionError(
                    f"no pixel in {wanted!r} of {_extent(axis, length, scale, offset)}"
                )
            return slice(start, stop)
    elif _is_number(wanted):
        position = (float(wanted) * factor - offset) / scale
        if not (-1 < position < length and 0 <= round(position) < length):
            raise SelectionError(f"{wanted!r} is outside {_extent(axis, length, scale, offset)}")
        return round(position)
    raise SelectionError(
        f"axis {axis.name!r}: expected (start, stop), one position, or a slice of pixels,"
        f" got {wanted!r}"
    )


def _is_number(value: Any) -> bool:
    known = isinstance(value, (int, float, np.integer, np.floating))
    return known and not isinstance(value, bool) and not math.isnan(value)


def _ceil(position: float, length: int) -> int:
    """Return the first pixel from a position on, which may be infinite, or the end."""
    return math.ceil(min(max(position - _TOLERANCE, 0), length))


def _extent(axis: Axis, length: int, scale: float, offset: float) -> str:
    last = offset + scale * (length - 1)
    return (
        f"axis {axis.name!r}, which reaches from {offset:g} to {last:g} {axis.unit or ''}".strip()
    )


def _channel(axis: Axis, length: int, wanted: Any, channels: Sequence[str | None]) -> slice | int:
    """Return the index of a channel selected by number or label, or a range of numbers."""
    if isinstance(wanted, str):
        if wanted not in channels:
            names = ", ".join(repr(c) for c in channels) or "none have labels"
            raise SelectionError(f"unknown channel {wanted!r}; channels: {names}")
        return list(channels).index(wanted)
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        with suppress(TypeError):
            found = range(*slice(*wanted).indices(length))
            if found:
                return slice(found.start, found.stop)
    known = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    if known and -length <= wanted < length:
        return int(wanted) % length
    raise SelectionError(f"axis {axis.name!r} has {length} channels, but not {wanted!r}")


_PREFIXES = {
    "yotta": 1e24, "zetta": 1e21, "exa": 1e18, "peta": 1e15, "tera": 1e12, "giga": 1e9,
    "mega": 1e6, "kilo": 1e3, "hecto": 1e2, "": 1.0, "deci": 1e-1, "centi": 1e-2, "milli": 1e-3,
    "micro": 1e-6, "nano": 1e-9, "pico": 1e-12, "femto": 1e-15, "atto": 1e-18, "zepto": 1e-21,
    "yocto": 1e-24,
}  # fmt: skip
_SPACE = {
    **{f"{prefix}meter": factor for prefix, factor in _PREFIXES.items()},
    "angstrom": 1e-10,
    "inch": 0.0254,
    "foot": 0.3048,
    "yard": 0.9144,
    "mile": 1609.344,
    "parsec": 3.0856775814913673e16,
}
_TIME = {
    **{f"{prefix}second": factor for prefix, factor in _PREFIXES.items()},
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_SHORT = {
    "m": "meter", "cm": "centimeter", "mm": "millimeter", "um": "micrometer", "µm": "micrometer",
    "μm": "micrometer", "micron": "micrometer", "nm": "nanometer", "pm": "picometer",
    "s": "second", "ms": "millisecond", "us": "microsecond", "µs": "microsecond",
    "ns": "nanosecond", "min": "minute", "h": "hour", "d": "day",
}  # fmt: skip


def unit_name(text: str) -> str:
    """Return the OME-Zarr name of a unit, which may be abbreviated as ``um`` or ``µm``."""
    return _SHORT.get(text, text)


def unit_kind(unit: str | None) -> str | None:
    """Return ``space``, ``time``, or None if the unit is unknown."""
    name = None if unit is None else unit_name(unit)
    return "space" if name in _SPACE else "time" if name in _TIME else None


def unknown_unit(name: str) -> InvalidArgument:
    """Return the error for a unit of neither space nor time."""
    known = known_names(name, (*_SPACE, *_TIME, *_SHORT))
    return InvalidArgument(f"unknown unit {name!r}; {known}")


def unit_factor(source: str, target: str) -> float:
    """Return the factor from one unit to another."""
    a, b = unit_name(source), unit_name(target)
    if a == b:
        return 1.0
    for table in (_SPACE, _TIME):
        if a in table and b in table:
            return table[a] / table[b]
    for name in (a, b):
        if name not in _SPACE and name not in _TIME:
            raise unknown_unit(name)
    raise InvalidArgument(f"cannot convert {source!r} to {target!r}: one is length, one is time")
