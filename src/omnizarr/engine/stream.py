"""Streaming writes: parts are gathered until a chunk or shard is complete, and stored once.

Writing an image plane by plane into shards of many planes would otherwise rewrite every shard for
each plane. Chunks that are complete are stored at once, several in parallel; when the budget is
used up, the ones that were touched longest ago are stored as they are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr.engine.bound import BoundArray
from omnizarr.engine.rows import run_rows, waits_for
from omnizarr.engine.run import merge, write
from omnizarr.indexing import Plan, Row, axis_plan

Coords = tuple[int, ...]


class Gathered:
    """What was written to one chunk so far."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.values = np.zeros(shape, dtype)
        self.known = np.zeros(shape, bool)
        self.missing = self.known.size

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.known.nbytes

    def put(self, row: Row, values: npt.NDArray[Any]) -> None:
        """Take the part of `values` that belongs here."""
        box: Any = (*row.region, ...)
        outer: Any = (*row.outer, ...)
        if row.pick is None:
            fresh = int(self.known[box].size - np.count_nonzero(self.known[box]))
            self.values[box] = values[outer]  # where there is no memory for it, nothing is known
            self.known[box] = True
            self.missing -= fresh
            return
        self.values[box][row.pick] = values[outer]
        self.known[box][row.pick] = True
        self.missing = int(self.known.size - np.count_nonzero(self.known))


class Stream:
    """Chunks that are being put together, within a budget of bytes."""

    def __init__(self, array: BoundArray, budget: int) -> None:
        self.array = array
        self.budget = budget
        self._chunks: OrderedDict[Coords, Gathered] = OrderedDict()
        self._lock = threading.RLock()
        self._nbytes = 0

    def put(self, plan: Plan, values: npt.NDArray[Any]) -> None:
        """Take values of the plan's full shape."""
        with self._lock:
            complete: list[Coords] = []
            for row in plan.rows():
                chunk = self._chunk(row.coords)
                chunk.put(row, values)
                if not chunk.missing:
                    complete.append(row.coords)
            self._store(complete)
            while self._nbytes > self.budget and self._chunks:
                self._store([next(iter(self._chunks))])

    def flush(self) -> None:
        """Store everything, complete or not."""
        with self._lock:
            self._store(list(self._chunks))

    def _chunk(self, coords: Coords) -> Gathered:
        found = self._chunks.get(coords)
        if found is None:
            found = Gathered(self._inside(coords), self.array.dtype)
            self._chunks[coords] = found
            self._nbytes += found.nbytes
        self._chunks.move_to_end(coords)
        return found

    def _inside(self, coords: Coords) -> tuple[int, ...]:
        """The shape of what a chunk has of the array."""
        grid = self.array.grid
        parts = zip(grid.chunk_shape(coords), grid.origin(coords), grid.array_shape, strict=True)
        return tuple(min(size, length - start) for size, start, length in parts)

    def _store(self, several: list[Coords]) -> None:
        nbytes = sum(self._chunks[coords].nbytes for coords in several)
        waits = waits_for(self.array.store)
        run_rows(iter(several), len(several), self._store_one, nbytes, waits=waits)
        for coords in several:  # only what is safely stored is forgotten
            self._nbytes -= self._chunks.pop(coords).nbytes

    def _store_one(self, coords: Coords) -> None:
        chunk = self._chunks[coords]
        if chunk.missing:
            merge(self.array, coords, chunk.values, chunk.known)
            return
        start = self.array.grid.origin(coords)
        box = tuple(slice(a, a + n) for a, n in zip(start, chunk.values.shape, strict=True))
        write(self.array, axis_plan(self.array.grid, box), chunk.values)
