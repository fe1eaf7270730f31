"""Whether an array holds nothing but its fill value, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def is_fill(chunk: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Whether every item is the fill value; NaNs and zeros are compared by their bits."""
    if chunk.size == 0:
        return True
    if chunk.dtype.hasobject or chunk.dtype.kind == "T":
        value = fill[()]
        return all(type(item) is type(value) and bool(np.all(item == value)) for item in chunk.flat)
    if chunk.dtype != fill.dtype:
        fill = fill.astype(chunk.dtype)
    size = chunk.dtype.itemsize
    if size == 0:
        return True
    item = fill.tobytes()
    # A slice, since a scalar would lose trailing zeros of text and a foreign byte order.
    if chunk[(slice(0, 1),) * chunk.ndim].tobytes() != item:
        return False
    # Of most chunks that begin with the fill value, the first row or plane has other values.
    if chunk.ndim > 1 and len(chunk) > 1 and not is_fill(chunk[0], fill):
        return False
    want = np.frombuffer(item, np.uint8)
    if size in (1, 2, 4, 8):
        unsigned = np.dtype(f"u{size}")
        flat = np.ascontiguousarray(chunk).reshape(-1).view(unsigned)
        return bool((flat == want.view(unsigned)[0]).all())
    items = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).reshape(-1, size)
    return bool((items == want).all())
