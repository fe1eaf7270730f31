"""``with array.writer() as w``: assignments that are stored chunk by chunk, each once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy.typing as npt

from omnizarr.engine import BoundArray, Stream
from omnizarr.errors import ReadOnly, SelectionError
from omnizarr.hierarchy.access import spread
from omnizarr.indexing import Plan, plan

SHOWN = 5  # keys in a warning


class Writer:
    """Takes assignments and stores a chunk or shard when it is complete, or at the end.

    What was assigned can be read from the array only after it was stored: at the latest when
    the ``with`` block ends, also when it ends with an error. A writer that is dropped without
    being closed warns (`ResourceWarning`) of what it has not stored.
    """

    def __init__(
        self,
        stream: Stream,
        known: Callable[[], BoundArray],
        settled: Callable[[], AbstractContextManager[BoundArray]],
        settings: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._open = True
        self._process = os.getpid()
        self._stream = stream
        self._known = known
        self._settled = settled
        self._settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __setitem__(self, selection: Any, value: Any) -> None:
        if not self._open:
            raise ReadOnly("this writer is closed; call array.writer() for a new one")
        array = self._known()
        try:
            chosen, values = _planned(array, selection, value)
        except SelectionError:
            with self._settled() as array:  # another handle may have changed the shape
                chosen, values = _planned(array, selection, value)
        with self._settings():
            self._stream.put(array, chosen, values)

    def flush(self) -> None:
        """Store everything that was assigned so far."""
        with self._settings():
            self._stream.flush()

    def close(self) -> None:
        """Store everything, and take no more; a second call does nothing."""
        if self._open:
            self.flush()
            self._open = False

    def __del__(self) -> None:
        if not getattr(self, "_open", False) or self._process != os.getpid():
            return
        keys = self._stream.keys()
        if keys:
            more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
            message = (
                f"a writer of {self._stream.array.store!r} was dropped without close(); not"
                f" stored: {', '.join(keys[:SHOWN])}{more}"
            )
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)


def _planned(array: BoundArray, selection: Any, value: Any) -> tuple[Plan, npt.NDArray[Any]]:
    chosen = plan(array.grid, selection)
    return chosen, spread(value, array.dtype, chosen)
