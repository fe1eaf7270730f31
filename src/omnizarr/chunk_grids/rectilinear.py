"""rectilinear: every axis has its own list of chunk lengths.

Specification: registered chunk grid ``rectilinear`` of version 3.
Configuration: ``{"kind": "inline", "chunk_shapes": [4, [1, 2, 3], [[4, 2]]]}``: one length for
all, a list of lengths, or runs ``[length, repeats]`` inside such a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnizarr._json import kind_of
from omnizarr.chunk_grids.grid import Axis, Grid, ListedAxis, RegularAxis
from omnizarr.model import Named
from omnizarr.model.configuration import check_members, invalid

MAX_CHUNKS_AN_AXIS = 2**27


def bind(named: Named, shape: tuple[int, ...]) -> Grid:
    """The grid over an array of that shape."""
    check_members(named, "chunk grid", required=("kind", "chunk_shapes"))
    if named.configuration["kind"] != "inline":
        kind = named.configuration["kind"]
        raise invalid("chunk grid", named.name, "kind", f"expected 'inline', got {kind_of(kind)}")
    stated = named.configuration["chunk_shapes"]
    if not isinstance(stated, list) or len(stated) != len(shape):
        message = f"expected a list with one entry for each of {len(shape)} axes"
        raise invalid("chunk grid", named.name, "chunk_shapes", message)
    return Grid(
        tuple(_axis(named, i, n, s) for i, (n, s) in enumerate(zip(shape, stated, strict=True)))
    )


def _axis(named: Named, number: int, length: int, stated: Any) -> Axis:
    where = f"chunk_shapes[{number}]"

    def positive(value: Any, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
            message = f"expected a positive integer, got {kind_of(value)}"
            raise invalid("chunk grid", named.name, place, message)
        return value

    if not isinstance(stated, list):
        return RegularAxis(length, positive(stated, where))
    sizes: list[int] = []
    repeats: list[int] = []
    for i, entry in enumerate(stated):
        place = f"{where}[{i}]"
        if isinstance(entry, list):
            if len(entry) != 2:
                raise invalid("chunk grid", named.name, place, "expected [length, repeats]")
            sizes.append(positive(entry[0], place))
            repeats.append(positive(entry[1], place))
        else:
            sizes.append(positive(entry, place))
            repeats.append(1)
    if sum(repeats) > MAX_CHUNKS_AN_AXIS:
        message = f"{sum(repeats)} chunks along one axis are too many"
        raise invalid("chunk grid", named.name, where, message)
    total = sum(s * r for s, r in zip(sizes, repeats, strict=True))
    if not length <= total < 2**63:
        message = f"the chunks cover {total} elements, but the axis has {length}"
        raise invalid("chunk grid", named.name, where, message)
    return ListedAxis(length, np.cumsum(np.repeat(np.array(sizes, np.int64), repeats)))


def covering(named: Named, shape: tuple[int, ...], unit: tuple[int, ...]) -> Named:
    """The grid with one more chunk along each axis whose list ends before the array does."""
    before = named.configuration["chunk_shapes"]
    stated = list(before)
    for axis, (sizes, length, step) in enumerate(zip(stated, shape, unit, strict=True)):
        if isinstance(sizes, list):
            runs = [entry if isinstance(entry, list) else [entry, 1] for entry in sizes]
            short = length - sum(size * repeats for size, repeats in runs)
            if short > 0:
                stated[axis] = _with_chunk(sizes, -(-short // step) * step)
    return named if stated == before else named.replace(chunk_shapes=stated)


def _with_chunk(sizes: list[Any], size: int) -> list[Any]:
    """The list with a chunk at its end, which is counted where the last ones are as long."""
    *rest, last = sizes or [None]
    if isinstance(last, list) and last[0] == size:
        return [*rest, [size, last[1] + 1]]
    return [*rest, [size, 2]] if last == size else [*sizes, size]
