"""``with array.writer() as w``: assignments that are stored chunk by chunk, each once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from omnizarr.engine import Stream
from omnizarr.errors import ReadOnly
from omnizarr.hierarchy.access import spread
from omnizarr.indexing import plan


class Writer:
    """Takes assignments and stores a chunk or shard when it is complete, or at the end.

    What was assigned can be read from the array only after it was stored: at the latest when
    the ``with`` block ends, also when it ends with an error.
    """

    def __init__(
        self, stream: Stream, settings: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._stream = stream
        self._settings = settings
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __setitem__(self, selection: Any, value: Any) -> None:
        if not self._open:
            raise ReadOnly("this writer is closed; call array.writer() for a new one")
        array = self._stream.array
        chosen = plan(array.grid, selection)
        with self._settings():
            self._stream.put(chosen, spread(value, array.dtype, chosen))

    def flush(self) -> None:
        """Store everything that was assigned so far."""
        with self._settings():
            self._stream.flush()

    def close(self) -> None:
        """Store everything, and take no more; a second call does nothing."""
        if self._open:
            self.flush()
            self._open = False
