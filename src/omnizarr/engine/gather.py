"""Scattered elements by way of boxes: the kernel reads the boxes, NumPy picks from them.

Lists along axes become one run for each chunk, points become the box around them, where that box
is not much larger than the chunks that have to be read anyway.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.engine.bound import BoundArray
from omnizarr.indexing import (
    AxisPlan,
    ListedAxisPlan,
    Plan,
    PointPlan,
    ProductPlan,
    axis_plan,
)

MAX_BYTES = 2**26  # of the boxes; beyond that chunks are read one by one
LEAST_USED = 0.5  # of the chunks in the box around points


def boxes(array: BoundArray, plan: Plan) -> tuple[ProductPlan, Any] | None:
    """A plan of runs to read first, and what to pick from it; None where that would not pay."""
    if isinstance(plan, ProductPlan):
        found = None if plan.runs else _along_axes(plan)
    else:
        found = _around_points(array, plan)
    if found is None or math.prod(found[0].full_shape) * array.dtype.itemsize > MAX_BYTES:
        return None
    return found


def _along_axes(plan: ProductPlan) -> tuple[ProductPlan, Any]:
    runs: list[AxisPlan] = []
    picks: list[npt.NDArray[np.int64]] = []
    for axis, length in zip(plan.axes, plan.full_shape, strict=True):
        if isinstance(axis, ListedAxisPlan):
            run, pick = _as_run(axis)
        else:
            run, pick = axis, np.arange(length)
        runs.append(run)
        picks.append(pick)
    lengths = tuple(int(r.outer[-1] + r.count[-1]) if len(r.outer) else 0 for r in runs)
    everything = tuple(slice(None) for _ in runs)
    return ProductPlan(tuple(runs), lengths, everything), np.ix_(*picks)


def _as_run(axis: ListedAxisPlan) -> tuple[AxisPlan, npt.NDArray[np.int64]]:
    """For each chunk the run from its first to its last element, and where each element is."""
    if not len(axis.chunk):
        none = np.zeros(0, np.int64)
        return AxisPlan(none, none, none, none, none.astype(bool), 1), none
    starts = axis.begin[:-1]
    low = np.minimum.reduceat(axis.inner, starts)
    count = np.maximum.reduceat(axis.inner, starts) - low + 1
    outer = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    sizes = np.diff(axis.begin)
    pick = np.empty(len(axis.outer), np.int64)
    pick[axis.outer] = axis.inner - np.repeat(low - outer, sizes)
    partial = np.zeros(len(low), bool)
    return AxisPlan(axis.chunk.astype(np.int64), low, outer, count, partial, 1), pick


def _around_points(array: BoundArray, plan: PointPlan) -> tuple[ProductPlan, Any] | None:
    if not len(plan.outer) or not array.grid.axes or array.grid.regular is None:
        return None
    low, high = plan.coords.min(axis=0), plan.coords.max(axis=0)
    if plan.count < LEAST_USED * math.prod((high - low + 1).tolist()):
        return None
    sizes = np.diff(plan.begin)
    chunks = np.array(array.grid.regular, np.int64)
    positions = plan.inner + np.repeat(plan.coords * chunks, sizes, axis=0).T
    start, stop = positions.min(axis=1), positions.max(axis=1) + 1
    box = tuple(slice(a, b) for a, b in zip(start.tolist(), stop.tolist(), strict=True))
    pick = np.empty((len(start), len(plan.outer)), np.int64)
    pick[:, plan.outer] = positions - start[:, None]
    return axis_plan(array.grid, box), tuple(pick)
