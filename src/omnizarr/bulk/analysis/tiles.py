"""Tiles of an array: boxes of whole chunks, made one at a time, and the chunks stored in each.

A tile depends on the metadata only, so that an interrupted job finds the same tiles again. The keys
of an array with many chunks are listed once, and tiles without a stored chunk are left out.
"""

from __future__ import annotations

import itertools
import math
from array import array as packed
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import Array
from omnizarr.bulk.partition import Box, read_axes, stored_axes
from omnizarr.extension import Axis, BoundArray, can_list, stored_keys

Coords: TypeAlias = tuple[int, ...]
TILE_BYTES = 2**25  # of a tile in memory, if its chunks are not larger
TILE_CHUNKS = 4096  # at most in a tile
FEW_CHUNKS = 64  # of an array whose keys need not be listed
MAX_LISTED = 2**24  # stored chunks of an array, eight bytes each, that are kept at a time
ITEM_BYTES = 64  # assumed for one string or object


@dataclass(frozen=True)
class Tiling:
    """Boxes of whole chunks that cover an array, long along its last axes."""

    axes: tuple[Axis, ...]
    steps: tuple[int, ...]  # chunks of a tile along each axis

    @classmethod
    def of(cls, axes: Sequence[Axis], items: int) -> Tiling:
        """Return tiles of at most so many elements, or of one chunk."""
        first = math.prod(max(1, min(int(a.size(0)), a.length)) for a in axes if a.count)
        spare = max(1, min(TILE_CHUNKS, items // max(1, first)))
        steps: list[int] = []
        for axis in reversed(axes):
            steps.append(max(1, min(axis.count, spare)))
            spare = max(1, spare // steps[-1])
        return cls(tuple(axes), tuple(reversed(steps)))

    @property
    def counts(self) -> Coords:
        """The number of tiles along each axis."""
        return tuple(-(-a.count // n) for a, n in zip(self.axes, self.steps, strict=True))

    @property
    def count(self) -> int:
        """The number of tiles."""
        return math.prod(self.counts)

    def coords(self) -> Iterator[Coords]:
        """Yield the coordinates of all tiles in order."""
        return itertools.product(*map(range, self.counts))

    def chunks(self, tile: Coords) -> tuple[range, ...]:
        """Return the numbers of the chunks of a tile along each axis."""
        triples = zip(tile, self.steps, self.axes, strict=True)
        return tuple(range(t * n, min((t + 1) * n, a.count)) for t, n, a in triples)

    def box(self, tile: Coords) -> Box:
        """Return the elements of a tile."""
        return chunks_box(self.axes, self.chunks(tile))


def chunks_box(axes: Sequence[Axis], chunks: Sequence[range]) -> Box:
    """Return the elements of a box of chunks, cut at the end of the array."""
    return tuple(
        slice(int(a.start(r.start)), min(int(a.start(r[-1])) + int(a.size(r[-1])), a.length))
        for a, r in zip(axes, chunks, strict=True)
    )


def box_size(box: Box) -> int:
    """Return the number of elements in a box."""
    return math.prod(side.stop - side.start for side in box)


def item_bytes(dtype: np.dtype[Any]) -> int:
    """Return the bytes of an element in memory, assumed for those of variable length."""
    return ITEM_BYTES if dtype.hasobject or dtype.kind == "T" else max(1, dtype.itemsize)


def tile(array: Array, nbytes: int = TILE_BYTES) -> Tiling:
    """Return the tiles of an array, of whole shards unless one of them is larger than a tile."""
    items = max(1, nbytes // item_bytes(array.dtype))
    axes = stored_axes(array)
    if all(a.count for a in axes) and math.prod(int(a.size(0)) for a in axes) > items:
        axes = read_axes(array)
    return Tiling.of(axes, items)


def stored_chunks(bound: BoundArray) -> npt.NDArray[np.int64] | None:
    """Return the numbers of stored chunks or shards in the grid, sorted; None if not known.

    They are not known where a store cannot list its keys, where a transformer packs chunks, and
    where there are too many.
    """
    listed = can_list(bound.store) and bool(getattr(bound.store, "lists_all", True))
    if not listed or bound.model.storage_transformers or bound.grid.count > 2**62:
        return None
    found = packed("q")
    shape = bound.grid.shape
    for coords, _ in stored_keys(bound):
        number = 0
        for position, length in zip(coords, shape, strict=True):
            number = number * length + position
        found.append(number)
        if len(found) > MAX_LISTED:
            return None
    return np.unique(np.array(found, np.int64))


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: its elements, and the boxes that may have stored chunks."""

    box: Box
    stored: tuple[Box, ...] | None  # None if not known; then all may

    @property
    def size(self) -> int:
        """The number of elements."""
        return box_size(self.box)


def tiles(array: Array, tiling: Tiling) -> Iterator[Tile]:
    """Yield the tiles that have stored chunks, or may have some."""
    many = array._data.grid.count > max(1, FEW_CHUNKS) and tiling.axes == stored_axes(array)
    yield from tiles_with(tiling, stored_chunks(array._data) if many else None)


def tiles_with(tiling: Tiling, chunks: npt.NDArray[np.int64] | None) -> Iterator[Tile]:
    """Yield the tiles that have some of these chunks, by number in the grid; None for all tiles."""
    if chunks is None:
        yield from (Tile(tiling.box(each), None) for each in tiling.coords())
        return
    coords = np.stack(np.unravel_index(chunks, tuple(a.count for a in tiling.axes)))
    steps = np.array(tiling.steps)[:, None]
    owner = np.ravel_multi_index(tuple(coords // steps), tiling.counts)
    order = np.argsort(owner, kind="stable")
    owner, coords = owner[order], coords[:, order]
    starts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    for begin, end in itertools.pairwise(starts):
        if begin == end:
            continue
        number = tuple(map(int, np.unravel_index(owner[begin], tiling.counts)))
        box = tiling.box(number)
        if end - begin == math.prod(map(len, tiling.chunks(number))):
            yield Tile(box, (box,))
        else:
            rows = [*map(tuple, coords[:, begin:end].T.tolist())]
            yield Tile(box, tuple(chunks_box(tiling.axes, r) for r in joined(rows)))


def joined(chunks: Sequence[Coords]) -> list[tuple[range, ...]]:
    """Join chunks, which are sorted, to boxes: along the last axis, then along the one before."""
    boxes = [tuple(range(n, n + 1) for n in coords) for coords in chunks]
    rank = len(boxes[0]) if boxes else 0
    for axis in reversed(range(rank)):
        found: dict[tuple[range, ...], list[range]] = {}
        for box in boxes:
            runs = found.setdefault((*box[:axis], *box[axis + 1 :]), [])
            if runs and runs[-1].stop == box[axis].start:
                runs[-1] = range(runs[-1].start, box[axis].stop)
            else:
                runs.append(box[axis])
        boxes = [(*rest[:axis], run, *rest[axis:]) for rest, runs in found.items() for run in runs]
    return boxes
