"""A box of an array cut into parts that each have whole chunks, or whole shards, and storing them.

Two parts never touch one of them: none is read twice, and who stores parts needs no lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.chunk_grids import Axis, RegularAxis
from omnizarr.concurrency.pool import for_each
from omnizarr.hierarchy.array import Array
from omnizarr.stores import has_cheap_requests

Box = tuple[slice, ...]
Encode: TypeAlias = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
PART = 2**19  # items that are encoded at a time
FAR_PART = 2**22  # the same where a call stores many chunks side by side


def store(array: Array, box: Box, values: npt.NDArray[Any], encode: Encode | None) -> None:
    """Store values in a box: what `encode` makes of each part of them, on several threads."""
    if encode is None:
        array[box] = values
        return
    errors = np.geterr()

    def one(part: Box) -> None:
        shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
        inside = tuple(slice(p.start - start, p.stop - start) for p, start in shifted)
        with np.errstate(**errors):  # of the calling thread, for those that help
            array[part] = encode(values[inside])

    size = PART if has_cheap_requests(array.store) else FAR_PART
    boxes = parts(stored_axes(array), box, size)
    for_each(iter(boxes), len(boxes), one, values.nbytes)


def stored_axes(array: Array) -> tuple[Axis, ...]:
    """How each axis is cut into values of the store: shards where there are any."""
    return _axes(array, array.shards)


def read_axes(array: Array) -> tuple[Axis, ...]:
    """How each axis is cut into chunks, those inside shards where there are any."""
    return _axes(array, array.chunks)


def _axes(array: Array, sizes: tuple[Any, ...] | None) -> tuple[Axis, ...]:
    if sizes is None or not all(isinstance(n, int) for n in sizes):
        return array._bound.grid.axes
    return tuple(RegularAxis(n, c) for n, c in zip(array.shape, sizes, strict=True))


def parts(axes: Sequence[Axis], box: Box, items: int) -> list[Box]:
    """Boxes that are `box` together, of at most `items` items, or of one chunk of the axes.

    They are long along the last axes, so that each is few runs of memory.
    """
    if any(side.stop <= side.start for side in box):
        return []
    first = [axis.chunk_of(side.start) for axis, side in zip(axes, box, strict=True)]
    count = [a.chunk_of(s.stop - 1) - f + 1 for a, s, f in zip(axes, box, first, strict=True)]
    sizes = (
        min(int(a.size(f)), s.stop - s.start) for a, s, f in zip(axes, box, first, strict=True)
    )
    spare = max(1, items // math.prod(sizes))
    cuts: list[list[slice]] = []
    for axis, side, begin, n in reversed(list(zip(axes, box, first, count, strict=True))):
        step = min(n, spare)
        spare //= step
        inner = (int(axis.start(c)) for c in range(begin + step, begin + n, step))
        cuts.append([slice(a, b) for a, b in pairwise([side.start, *inner, side.stop])])
    return list(product(*reversed(cuts)))
