"""One buffer a thread for bytes that are needed for a moment."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

KEPT = 2**24  # larger ones are made anew, so that no thread keeps much
_NONE = np.empty(0, np.uint8)


def check_memory(size: int) -> None:
    """Raise where there is no memory for so many bytes.

    Before a library is called that does not look whether it got what it needs, and would end the
    process.
    """
    np.empty(size, np.uint8)


class _Own(threading.local):
    buffer = _NONE


_own = _Own()


class scratch:
    """A flat buffer of that many bytes until the block ends.

    A finaliser or signal handler that strikes in between, and reads too, gets another one.
    """

    __slots__ = ("_buffer", "_size")

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> npt.NDArray[np.uint8]:
        self._buffer, _own.buffer = _own.buffer, _NONE
        if len(self._buffer) < self._size:
            self._buffer = np.empty(self._size, np.uint8)
        return self._buffer[: self._size]

    def __exit__(self, *exception: object) -> None:
        if len(self._buffer) <= KEPT:
            _own.buffer = self._buffer
