"""Partition a box of an array into parts of whole chunks or shards, and store values by parts.

No two parts touch the same chunk: none is read twice, and parts can be stored without locks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import Array
from omnizarr.extension import Axis, RegularAxis, for_each, has_cheap_requests

Box = tuple[slice, ...]
Encode: TypeAlias = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
PART = 2**19  # elements that are encoded at a time
REMOTE_PART = 2**22  # the same for stores where one call writes many chunks concurrently


def store(array: Array, box: Box, values: npt.NDArray[Any], encode: Encode | None) -> None:
    """Store values in a box; with `encode`, encode and store them part by part, in threads."""
    if encode is None:
        array[box] = values
        return
    errors = np.geterr()

    def one(part: Box) -> None:
        shifted = ((p, b.start) for p, b in zip(part, box, strict=True))
        inside = tuple(slice(p.start - start, p.stop - start) for p, start in shifted)
        with np.errstate(**errors):  # that of the calling thread
            array[part] = encode(values[inside])

    size = PART if has_cheap_requests(array.store) else REMOTE_PART
    boxes = parts(stored_axes(array), box, size)
    for_each(iter(boxes), len(boxes), one, values.nbytes)


def show_box(name: str, box: Box) -> str:
    """Return a box of an array as text for messages, as in ``/a[0:4, 2:9]``."""
    return f"{name}[{', '.join(f'{side.start}:{side.stop}' for side in box)}]" if box else name


def stored_axes(array: Array) -> tuple[Axis, ...]:
    """Return the partition of each axis into stored values: shards, or chunks if not sharded."""
    return _axes(array, array.shards)


def read_axes(array: Array) -> tuple[Axis, ...]:
    """Return the partition of each axis into chunks: inner chunks if sharded."""
    return _axes(array, array.chunks)


def _axes(array: Array, sizes: tuple[Any, ...] | None) -> tuple[Axis, ...]:
    if sizes is None or not all(isinstance(n, int) for n in sizes):
        return array._bound.grid.axes
    return tuple(RegularAxis(n, c) for n, c in zip(array.shape, sizes, strict=True))


def parts(axes: Sequence[Axis], box: Box, items: int) -> list[Box]:
    """Cut `box` into boxes of whole chunks with at most `items` elements, or of one chunk.

    They are long along the last axes, so that each consists of few contiguous runs in memory.
    """
    return list(product(*cuts(axes, box, items)))


def cuts(axes: Sequence[Axis], box: Box, items: int) -> list[list[slice]]:
    """Return the sides of the boxes that `parts` returns, for each axis."""
    if any(side.stop <= side.start for side in box):
        return [[]]
    first = [axis.chunk_of(side.start) for axis, side in zip(axes, box, strict=True)]
    count = [a.chunk_of(s.stop - 1) - f + 1 for a, s, f in zip(axes, box, first, strict=True)]
    sizes = (
        min(int(a.size(f)), s.stop - s.start) for a, s, f in zip(axes, box, first, strict=True)
    )
    spare = max(1, items // math.prod(sizes))
    sides: list[list[slice]] = []
    for axis, side, begin, n in reversed(list(zip(axes, box, first, count, strict=True))):
        step = min(n, spare)
        spare //= step
        inner = (int(axis.start(c)) for c in range(begin + step, begin + n, step))
        sides.append([slice(a, b) for a, b in pairwise([side.start, *inner, side.stop])])
    return sides[::-1]
