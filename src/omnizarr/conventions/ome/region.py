"""From positions in physical units to pixels of a level.

The pixel with index i lies at ``translation + scale * i``. An interval has the pixels that lie in
it, its end excluded, so that neighbouring intervals share none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from omnizarr.conventions.ome.model import Axis, Transform
from omnizarr.conventions.ome.units import unit_factor, unit_kind, unknown_unit
from omnizarr.errors import InvalidMetadata, SelectionError

# Positions such as 0.3 / 0.1 miss whole numbers by some rounding.
_TOLERANCE = 1e-6


def axis_factor(axis: Axis, unit: str | Mapping[str, str] | None) -> float:
    """How many of the axis' own unit one of the asked unit is.

    A single unit is for the axes of its kind; others keep their own.
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
        raise InvalidMetadata(
            f"axis {axis.name!r} has no unit, so {asked!r} means nothing along it; leave the unit"
            " out to count in its scale"
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
    """The selection of an array for a region; axes that are not named are whole."""
    known = [axis.name for axis in axes]
    for name in region:
        if name not in known:
            raise SelectionError(f"there is no axis {name!r}; axes: {', '.join(known)}")
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
        return wanted
    if axis.type == "channel":
        return _channel(axis, length, wanted, channels)
    factor = axis_factor(axis, unit)
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        ends = [None if w is None else (float(w) * factor - offset) / scale for w in wanted]
        start = 0 if ends[0] is None else min(length, max(0, _ceil(ends[0])))
        stop = length if ends[1] is None else min(length, max(0, _ceil(ends[1])))
        if start >= stop:
            raise SelectionError(
                f"no pixel lies in {wanted!r} of {_extent(axis, length, scale, offset)}"
            )
        return slice(start, stop)
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        index = round((wanted * factor - offset) / scale)
        if not 0 <= index < length:
            raise SelectionError(f"{wanted!r} is outside {_extent(axis, length, scale, offset)}")
        return index
    raise SelectionError(
        f"axis {axis.name!r}: expected (start, stop), one position, or a slice of pixels,"
        f" got {wanted!r}"
    )


def _ceil(position: float) -> int:
    return math.ceil(position - _TOLERANCE)


def _extent(axis: Axis, length: int, scale: float, offset: float) -> str:
    last = offset + scale * (length - 1)
    return (
        f"axis {axis.name!r}, which reaches from {offset:g} to {last:g} {axis.unit or ''}".strip()
    )


def _channel(axis: Axis, length: int, wanted: Any, channels: Sequence[str | None]) -> slice | int:
    """A channel by its number or label, or a range of numbers."""
    if isinstance(wanted, str):
        if wanted not in channels:
            names = ", ".join(repr(c) for c in channels) or "none have labels"
            raise SelectionError(f"there is no channel {wanted!r}; channels: {names}")
        return list(channels).index(wanted)
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2:
        return slice(*wanted)
    if isinstance(wanted, int) and -length <= wanted < length:
        return wanted % length
    raise SelectionError(f"axis {axis.name!r} has {length} channels; there is no {wanted!r}")
