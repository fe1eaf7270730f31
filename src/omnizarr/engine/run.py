"""Which engine does what: the kernel as far as it can, the reference engine the rest."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from omnizarr.engine import cached, kernel, reference
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.cache import current
from omnizarr.engine.missing import Coords, Filled, Missing
from omnizarr.indexing import Plan, ProductPlan
from omnizarr.stores import lock
from omnizarr.stores.turns import ENGINE, turn


def read(
    array: BoundArray,
    plan: Plan,
    out: npt.NDArray[Any],
    missing: Missing = "fill",
    filled: list[Coords] | None = None,
) -> None:
    """Fill `out`, of the plan's full shape, from the chunks.

    `missing` says what to do about those that the store does not have; the places of those that
    got the fill value go into `filled`.
    """
    if missing == "fill" and filled is None:
        _read(array, plan, out, None)
        return
    found = Filled(array, missing)
    _read(array, plan, out, found)
    found.finish(filled)


def _read(array: BoundArray, plan: Plan, out: npt.NDArray[Any], filled: Filled | None) -> None:
    cache = current()
    if cache is not None and cached.knows(array, holes=filled is not None):
        cached.read(cache, array, plan, out, filled)
        return
    left = kernel.read(array, plan, out, leave_absent=filled is not None)
    if left is None:
        reference.read(array, plan, out, filled)
    elif left:
        for row in plan.some_rows(left):
            reference.read_row(array, row, out, filled)


def write(array: BoundArray, plan: Plan, value: npt.NDArray[Any]) -> None:
    """Store `value`, of the plan's full shape, in the chunks."""
    array.check_skipped()
    changed = _changed(array, plan)
    with turn(ENGINE, changed), lock(array.store, array.prefix, changed):
        left = kernel.write(array, plan, value)
        if left is None:
            reference.write(array, plan, value)
        elif left:
            reference.write_rows(array, plan.some_rows(left), value)


def _changed(array: BoundArray, plan: Plan) -> list[str]:
    """Keys of chunks that are read, changed and stored; whole ones need no lock."""
    if isinstance(plan, ProductPlan) and plan.whole:
        return []
    return [array.key(row.coords) for row in plan.rows() if not row.whole]
