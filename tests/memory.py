"""The memory that a call takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak(call: Callable[[], object]) -> int:
    """Return the peak memory of Python and NumPy during a call, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
