"""Rows that select single elements: the kernel reads and writes the boxes around them.

NumPy picks the elements out of a box, and puts them into it, with the index of the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.engine import rows
from omnizarr.engine.rows import Buffers, Source
from omnizarr.interop.zarr.pipeline.layouts import PipelineLayout

LIMIT = 2**26  # bytes of boxes at a time; a row with a larger one is left

Found = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of one row, and the place of its copy in the scratch memory."""

    number: int
    inside: tuple[slice, ...]  # of the chunk
    copy: tuple[slice, ...]
    picked: tuple[Any, ...]  # an index of the box


def read(
    layout: PipelineLayout,
    batch: list[Any],
    source: Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
    strict: bool,
) -> Found:
    """Fill the array; return the rows that are left, and those that have no value."""
    left: list[int] = []
    missing: list[int] = []
    for boxes, scratch in _groups(layout, batch, left, whole=False):
        listed = [(box.inside, box.copy, False) for box in boxes]
        found = rows.read(
            layout.capsule,
            listed,
            source.part(box.number for box in boxes),
            scratch,
            skip_missing=strict,
            tell_missing=True,
        )
        failed, absent = ([*range(len(boxes))], []) if found is None else found
        left += [boxes[n].number for n in failed]
        missing += [boxes[n].number for n in absent]
        for n in {*range(len(boxes))} - {*failed}:
            part = scratch[boxes[n].copy][boxes[n].picked]
            if drop_axes:
                part = part.reshape([s for i, s in enumerate(part.shape) if i not in drop_axes])
            array[batch[boxes[n].number][3]] = part
    return sorted(left), missing


def write(
    layout: PipelineLayout,
    batch: list[Any],
    source: Source,
    array: npt.NDArray[Any],
    drop_axes: tuple[int, ...],
) -> list[int]:
    """Store the array; return the rows that are left. The caller has locked them."""
    left: list[int] = []
    for boxes, scratch in _groups(layout, batch, left, whole=True):
        failed = _fill(layout, batch, boxes, source, scratch)
        done = [box for n, box in enumerate(boxes) if n not in failed]
        for box in done:
            _, _, inside, outside, _ = batch[box.number]
            value = array if inside == () or not array.ndim else array[outside]
            if drop_axes and array.ndim:
                value = value[
                    tuple(None if i in drop_axes else slice(None) for i in range(len(inside)))
                ]
            scratch[box.copy][box.picked] = value
        part = source.part(box.number for box in done)
        listed = [(box.inside, box.copy, batch[box.number][4]) for box in done]
        found = rows.write(layout.capsule, listed, part, scratch)
        failed |= {*range(len(done))} if found is None else {boxes.index(done[n]) for n in found}
        left += [boxes[n].number for n in failed]
        if isinstance(source, Buffers) and isinstance(part, Buffers):
            for box, value in zip(done, part.values, strict=True):
                source.values[box.number] = value
    return sorted(left)


def _fill(
    layout: PipelineLayout,
    batch: list[Any],
    boxes: list[_Box],
    source: Source,
    scratch: npt.NDArray[Any],
) -> set[int]:
    """Put what is stored into the boxes; return the boxes of rows that are left."""
    scratch[...] = layout.fill
    old = [n for n, box in enumerate(boxes) if not batch[box.number][4]]
    if not old:
        return set()
    listed = [(boxes[n].inside, boxes[n].copy, False) for n in old]
    part = source.part(boxes[n].number for n in old)
    found = rows.read(layout.capsule, listed, part, scratch)
    return {*old} if found is None else {old[n] for n in found}


def _groups(
    layout: PipelineLayout, batch: list[Any], left: list[int], *, whole: bool
) -> Iterator[tuple[list[_Box], npt.NDArray[Any]]]:
    """Yield the boxes of some rows at a time, with memory for them one above the other.

    With `whole` the box of a row that replaces a whole chunk is all of that.
    """
    item = layout.dtype.itemsize
    group: list[tuple[int, Any]] = []
    height, widths = 0, [0] * max(0, len(layout.shape) - 1)
    for number, row in enumerate(batch):
        found = _bounds(row[2], layout.shape, whole and row[4])
        if found is None or math.prod(b - a for a, b in found[0]) * item > LIMIT:
            left.append(number)
            continue
        sizes = [b - a for a, b in found[0]]
        wider = [max(a, b) for a, b in zip(widths, sizes[1:], strict=True)]
        if group and (height + sizes[0]) * math.prod(wider) * item > LIMIT:
            yield _placed(layout, group, height, widths)
            group, height, wider = [], 0, sizes[1:]
        group.append((number, found))
        height, widths = height + sizes[0], wider
    if group:
        yield _placed(layout, group, height, widths)


def _placed(
    layout: PipelineLayout, group: list[tuple[int, Any]], height: int, widths: list[int]
) -> tuple[list[_Box], npt.NDArray[Any]]:
    boxes: list[_Box] = []
    at = 0
    for number, (bounds, picked) in group:
        sizes = [b - a for a, b in bounds]
        copy = (slice(at, at + sizes[0]), *(slice(0, n) for n in sizes[1:]))
        boxes.append(_Box(number, tuple(slice(a, b) for a, b in bounds), copy, picked))
        at += sizes[0]
    return boxes, np.empty((height, *widths), layout.dtype)


def _bounds(
    index: Any, shape: tuple[int, ...], whole: bool
) -> tuple[list[tuple[int, int]], tuple[Any, ...]] | None:
    """Return the box around what an index selects, and the index of it; None for other indices."""
    parts = index if isinstance(index, tuple) else (index,)
    if not shape or len(parts) != len(shape):
        return None
    bounds: list[tuple[int, int]] = []
    picked: list[Any] = []
    for part, length in zip(parts, shape, strict=True):
        found = _axis_bounds(part, length)
        if found is None:
            return None
        low, high, inside = found
        if whole:
            low, high, inside = 0, length, part
        bounds.append((low, high))
        picked.append(inside)
    return bounds, tuple(picked)


def _axis_bounds(part: Any, length: int) -> tuple[int, int, Any] | None:
    if isinstance(part, slice):
        along = range(*part.indices(length))
        if not along or along.step < 1:
            return None
        return along[0], along[-1] + 1, slice(0, None, along.step)
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        return (int(part), int(part) + 1, 0) if 0 <= part < length else None
    if not isinstance(part, np.ndarray) or part.dtype.kind not in "iu" or not part.size:
        return None
    low, high = int(part.min()), int(part.max())
    return (low, high + 1, part - low) if low >= 0 and high < length else None
