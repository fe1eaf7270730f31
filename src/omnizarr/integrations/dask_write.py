"""Blocks of a Dask array into a stored array: tasks that each own whole chunks or shards.

Two tasks never touch one stored value, so that threads, processes and machines need no lock,
however the blocks lie. The cuts between tasks are the borders of blocks, moved down to the border
of a stored value: there are at most as many tasks as blocks, and at most as many as stored values.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from omnizarr.chunk_grids.grid import Axis
from omnizarr.errors import MissingModule, SelectionError, StoreError
from omnizarr.hierarchy.array import Array
from omnizarr.integrations.parts import Box, Encode, store, stored_axes
from omnizarr.stores import MemoryStore

try:
    from dask.highlevelgraph import HighLevelGraph
except ImportError as e:
    raise MissingModule("Dask arrays need Dask: pip install 'omnizarr[dask]'") from e


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one axis that a task owns: where it lies in the array, and its blocks."""

    start: int
    stop: int
    blocks: tuple[int, ...]
    inside: tuple[slice, ...]  # of the stretch
    taken: tuple[slice, ...]  # of each block


@dataclass(frozen=True, slots=True)
class Part:
    """A task: puts pieces of blocks together, and stores them at one place."""

    array: Array
    box: Box
    pieces: tuple[tuple[Box, Box], ...]  # where in the part, and what of the block
    encode: Encode | None
    process: int | None  # that the store lives in, where others cannot reach it

    def __call__(self, blocks: list[Any]) -> None:
        if self.process not in (None, os.getpid()):
            raise StoreError(
                f"{self.array.name} lies in the memory of process {self.process}, and this is"
                f" {os.getpid()}; use the scheduler 'threads', or a store that both can reach"
            )
        if len(blocks) == 1:
            values = np.asarray(blocks[0])[self.pieces[0][1]]
        else:
            values = np.empty([s.stop - s.start for s in self.box], blocks[0].dtype)
            for block, (inside, taken) in zip(blocks, self.pieces, strict=True):
                values[inside] = np.asarray(block)[taken]
        store(self.array, self.box, values, self.encode)


@dataclass(frozen=True, slots=True)
class Writes:
    """A graph whose tasks store a Dask array, and the keys of those tasks."""

    graph: HighLevelGraph
    keys: list[tuple[Any, ...]]


def writes(x: Any, array: Array, start: tuple[int, ...], encode: Encode | None = None) -> Writes:
    """The tasks that store a Dask array, encoded, in a stored one, from a position on."""
    check_known(x)
    name = f"omnizarr-write-{uuid.uuid4().hex}"
    process = os.getpid() if _in_memory(array.store) else None
    axes = stored_axes(array)
    spans = [list(axis_spans(a, s, b)) for a, s, b in zip(axes, start, x.chunks, strict=True)]
    layer: dict[Any, Any] = {}
    for place in product(*(range(len(s)) for s in spans)):
        chosen = [s[i] for s, i in zip(spans, place, strict=True)]
        box = tuple(slice(s.start, s.stop) for s in chosen)
        pieces = tuple(
            zip(
                product(*(s.inside for s in chosen)),
                product(*(s.taken for s in chosen)),
                strict=True,
            )
        )
        blocks = [(x.name, *block) for block in product(*(s.blocks for s in chosen))]
        layer[(name, *place)] = (Part(array, box, pieces, encode, process), blocks)
    return Writes(HighLevelGraph.from_collections(name, layer, dependencies=[x]), list(layer))


def axis_spans(axis: Axis, start: int, blocks: tuple[int, ...]) -> Iterator[Span]:
    """The stretches of one axis, for blocks that follow each other from a position on."""
    borders = [start, *(int(b) for b in start + np.cumsum(blocks, dtype=np.int64))]
    end = borders[-1]
    inner = (int(axis.start(axis.chunk_of(b))) for b in borders[1:-1] if b < end)
    cuts = sorted({start, *(c for c in inner if c > start), end})
    first = 0
    for low, high in pairwise(cuts):
        while borders[first + 1] <= low:
            first += 1
        found = []
        number = first
        while number < len(blocks) and borders[number] < high:
            at, to = max(low, borders[number]), min(high, borders[number + 1])
            if at < to:
                taken = slice(at - borders[number], to - borders[number])
                found.append((number, slice(at - low, to - low), taken))
            number += 1
        numbers, inside, taken_of = zip(*found, strict=True)
        yield Span(low, high, numbers, inside, taken_of)


def check_known(x: Any) -> None:
    """Raise where the lengths of blocks are not known before they are computed."""
    if any(np.isnan(n) for axis in x.chunks for n in axis):
        raise SelectionError(
            f"the lengths of some blocks are unknown, got chunks {x.chunks};"
            " call x.compute_chunk_sizes() first"
        )


def _in_memory(store: Any) -> bool:
    while not isinstance(store, MemoryStore):
        store = getattr(store, "inner", None)
        if store is None:
            return False
    return True
