"""How much of an array is in its store."""

from __future__ import annotations

from omnizarr.hierarchy.array import Array
from omnizarr.stores import list_prefix


def stored_size(array: Array) -> tuple[int, int]:
    """How many chunks the store has, and their bytes; lists and reads the array's keys."""
    bound = array._bound
    count, total = 0, 0
    for key in list_prefix(bound.store, bound.prefix):
        if bound.encoding.coords(key[len(bound.prefix) :], array.ndim) is not None:
            value = bound.store.get(key)
            count += 1
            total += 0 if value is None else len(value)
    return count, total
