"""Streaming writes: parts are collected until a chunk or shard is complete, and stored once.

Writing an image plane by plane into shards of many planes would otherwise rewrite every shard for
each plane. Chunks that are complete are stored at once, several in parallel; before the budget is
used up, the ones that were touched longest ago are stored as they are. What an assignment covers in
full, or what is larger than the budget, is not gathered at all.

A chunk at the end of an axis is complete only for one shape of the array, which another handle may
change meanwhile. So the shape is looked up, and kept from changing, while such chunks are stored.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import for_each
from omnizarr.engine.binding import BoundArray
from omnizarr.engine.dispatch import merge, write, write_row
from omnizarr.errors import SelectionError
from omnizarr.indexing import Plan, Row, axis_plan
from omnizarr.model import paths
from omnizarr.stores.operations import supports_compare_and_set, waits_for

Coords = tuple[int, ...]
T = TypeVar("T")
BATCH = 1024  # whole chunks that are stored together


class PartialChunk:
    """The elements of one chunk that were written so far."""

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
            new = int(self.known[box].size - np.count_nonzero(self.known[box]))
            self.values[box] = values[outer]  # first: without memory for it nothing is known
            self.known[box] = True
            self.missing -= new
            return
        self.values[box][row.pick] = values[outer]
        self.known[box][row.pick] = True
        self.missing = int(self.known.size - np.count_nonzero(self.known))

    def resized(self, shape: tuple[int, ...]) -> PartialChunk:
        """Return the chunk with another shape; elements outside of it are dropped."""
        other = PartialChunk(shape, self.values.dtype)
        both: Any = tuple(slice(min(a, b)) for a, b in zip(shape, self.known.shape, strict=True))
        other.values[both], other.known[both] = self.values[both], self.known[both]
        other.missing = int(other.known.size - np.count_nonzero(other.known))
        return other

    @property
    def count(self) -> int:
        """The number of known elements."""
        return self.known.size - self.missing


@dataclass(eq=False)
class Stream:
    """Chunks that are being put together, within a budget of bytes.

    `_with_locked_shape` gives the array with its current shape, and keeps it until the block ends.
    """

    array: BoundArray
    budget: int
    _with_locked_shape: Callable[[], AbstractContextManager[BoundArray]]
    _chunks: OrderedDict[Coords, PartialChunk] = field(default_factory=OrderedDict)
    _lock: Any = field(default_factory=fork.lock)
    _nbytes: int = 0
    _outside: int = 0

    def put(self, array: BoundArray, plan: Plan, values: npt.NDArray[Any]) -> None:
        """Take values of the plan's full shape, for the array as the caller knows it."""
        with self._lock:
            self._adopt(array)
            rows = plan.rows()
            while some := [*itertools.islice(rows, BATCH)]:
                self._put_some(array, some, values)
            self._raise_if_outside()

    def flush(self) -> None:
        """Store everything, complete or not."""
        with self._lock:
            self._store(list(self._chunks))
            self._raise_if_outside()

    def keys(self) -> list[str]:
        """Return the keys of chunks that are not stored yet."""
        return [self.array.key(coords) for coords in list(self._chunks)]

    def _put_some(self, array: BoundArray, rows: list[Row], values: npt.NDArray[Any]) -> None:
        whole, parts, at_end = list[Row](), list[Row](), self.array.reaches_beyond
        for row in rows:
            (whole if row.whole and not at_end(row.coords) else parts).append(row)
        self._run(whole, partial(self._store_row, values=values), values.nbytes)
        for row in whole:
            self._forget(row.coords)
        complete: list[Coords] = []
        for row in parts:
            size = self._size(row.coords)
            if size > self.budget and row.coords not in self._chunks:
                write_row(array, replace(row, whole=False), values)
                continue
            if row.coords not in self._chunks and self._nbytes + size > self.budget:
                self._store(complete)
                complete.clear()
                while self._chunks and self._nbytes + size > self.budget:
                    self._store([next(iter(self._chunks))])
            chunk = self._chunk(row.coords)
            chunk.put(row, values)
            if not chunk.missing:
                complete.append(row.coords)
        self._store(complete)

    def _chunk(self, coords: Coords) -> PartialChunk:
        found = self._chunks.get(coords)
        if found is None:
            found = PartialChunk(self.array.grid.inside(coords), self.array.dtype)
            self._chunks[coords] = found
            self._nbytes += found.nbytes
        self._chunks.move_to_end(coords)
        return found

    def _size(self, coords: Coords) -> int:
        """Return the bytes of memory that a partial chunk takes."""
        return math.prod(self.array.grid.inside(coords)) * (self.array.dtype.itemsize + 1)

    def _adopt(self, array: BoundArray) -> None:
        """Continue with the current array; drop elements outside its new shape."""
        if array.model.shape == self.array.model.shape:
            return
        self.array, counts = array, array.grid.shape
        for coords, chunk in list(self._chunks.items()):
            if any(c >= n for c, n in zip(coords, counts, strict=True)):
                self._outside += chunk.count
                self._forget(coords)
            elif (inside := self.array.grid.inside(coords)) != chunk.known.shape:
                other = chunk.resized(inside)
                self._outside += chunk.count - other.count
                self._chunks[coords] = other
                self._nbytes += other.nbytes - chunk.nbytes

    def _raise_if_outside(self) -> None:
        if self._outside:
            count, self._outside = self._outside, 0
            raise SelectionError(
                f"{paths.show(self.array.path)} was made smaller, to {self.array.model.shape},"
                f" while a writer was open: {count} assigned elements are outside of it and were"
                " not stored"
            )

    def _forget(self, coords: Coords) -> None:
        found = self._chunks.pop(coords, None)
        self._nbytes -= 0 if found is None else found.nbytes

    def _store(self, several: list[Coords]) -> None:
        """Store chunks; if some are at the end of an axis, with the shape locked."""
        if any(map(self.array.reaches_beyond, several)):
            with self._with_locked_shape() as array:
                self._adopt(array)
                self._store_all([coords for coords in several if coords in self._chunks])
        else:
            self._store_all(several)

    def _store_all(self, several: list[Coords]) -> None:
        nbytes = sum(self._chunks[coords].nbytes for coords in several)
        self._run(several, self._store_one, nbytes)
        for coords in several:  # only what is safely stored is forgotten
            self._forget(coords)

    def _run(self, several: list[T], one: Callable[[T], None], nbytes: int) -> None:
        for_each(iter(several), len(several), one, nbytes, waits=waits_for(self.array.store))

    def _store_one(self, coords: Coords) -> None:
        chunk = self._chunks[coords]
        if chunk.missing:
            merge(self.array, coords, chunk.values, chunk.known)
        else:
            self._store_whole(coords, chunk.values)

    def _store_row(self, row: Row, values: npt.NDArray[Any]) -> None:
        index: Any = (*row.outer, ...)
        self._store_whole(row.coords, values[index])

    def _store_whole(self, coords: Coords, values: npt.NDArray[Any]) -> None:
        array = self.array
        # Chunks at the end are stored with the shape locked; where that lock can run out, others
        # may append meanwhile.
        steady = array.reaches_beyond(coords) and not supports_compare_and_set(array.store)
        write(array, axis_plan(array.grid, array.grid.box(coords)), values, steady=steady)
