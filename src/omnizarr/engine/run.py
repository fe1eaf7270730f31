"""Which engine does what: the kernel as far as it can, the reference engine the rest."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from omnizarr.engine import cached, kernel, reference
from omnizarr.engine.bound import BoundArray
from omnizarr.engine.cache import current
from omnizarr.indexing import Plan, ProductPlan
from omnizarr.stores import lock
from omnizarr.stores.turns import ENGINE, turn


def read(array: BoundArray, plan: Plan, out: npt.NDArray[Any]) -> None:
    """Fill `out`, of the plan's full shape, from the chunks."""
    cache = current()
    if cache is not None and cached.knows(array):
        cached.read(cache, array, plan, out)
        return
    left = kernel.read(array, plan, out)
    if left is None:
        reference.read(array, plan, out)
    elif left:
        for row in plan.some_rows(left):
            reference.read_row(array, row, out)


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
