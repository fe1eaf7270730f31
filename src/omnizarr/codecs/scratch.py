"""One buffer a thread for bytes that are needed for a moment."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

KEPT = 2**24  # larger ones are made anew, so that no thread keeps much


class _Own(threading.local):
    buffer = np.empty(0, np.uint8)


_own = _Own()


def scratch(size: int) -> npt.NDArray[np.uint8]:
    """A flat buffer of that many bytes, valid until this thread asks for the next."""
    if size > KEPT:
        return np.empty(size, np.uint8)
    if len(_own.buffer) < size:
        _own.buffer = np.empty(size, np.uint8)
    return _own.buffer[:size]
