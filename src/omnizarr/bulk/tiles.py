"""Boxes of an array: of whole chunks or shards, stored by parts, and those with stored chunks."""

from __future__ import annotations

import math
from array import array as packed
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from omnizarr import Array, extension
from omnizarr.extension import BoundArray, GridAxis, boxes, can_list, packed_shard_shape, traits
from omnizarr.extension import item_bytes as item_bytes

Box = tuple[slice, ...]
TILE_BYTES = 2**25  # of a tile in memory, if its chunks are not larger
TILE_CHUNKS = 4096  # at most in a tile
FEW_CHUNKS = 64  # of an array whose keys need not be listed
MAX_LISTED = 2**24  # stored chunks of an array, eight bytes each, that are kept at a time


def show_box(name: str, box: Box) -> str:
    """Return a box of an array as text for messages, as in ``/a[0:4, 2:9]``."""
    return f"{name}[{', '.join(f'{side.start}:{side.stop}' for side in box)}]" if box else name


def corners(box: Box) -> tuple[tuple[int, int], ...]:
    """Return the first position and the end of a box along each axis."""
    return tuple((side.start, side.stop) for side in box)


def stored_axes(array: Array | BoundArray) -> tuple[GridAxis, ...]:
    """Return the partition of each axis into stored values: shards, or chunks if not sharded."""
    bound = _bound(array)
    return _regular(bound, packed_shard_shape(bound.model))


def chunk_axes(array: Array | BoundArray) -> tuple[GridAxis, ...]:
    """Return the partition of each axis into chunks: inner chunks if sharded."""
    bound = _bound(array)
    return _regular(bound, extension.inner_chunk_shape(bound.model))


def _bound(array: Array | BoundArray) -> BoundArray:
    return array if isinstance(array, BoundArray) else extension.bound_array(array)


def _regular(array: BoundArray, chunks: tuple[int, ...] | None) -> tuple[GridAxis, ...]:
    if chunks is None:
        return array.grid.axes
    return tuple(map(extension.RegularAxis, array.model.shape, chunks))


def largest_chunk(axes: Sequence[GridAxis]) -> int:
    """Return the elements of the largest chunk, also those outside the array; 0 without chunks."""
    if not all(axis.count for axis in axes):
        return 0
    numbers = (0 if isinstance(a, extension.RegularAxis) else np.arange(a.count) for a in axes)
    return math.prod(int(np.max(a.size(n))) for a, n in zip(axes, numbers, strict=True))


def chunk_bytes(array: BoundArray) -> int:
    """Return the bytes of the largest chunk or shard of an array, decoded."""
    return largest_chunk(array.grid.axes) * array.dtype.itemsize


# Tiles: boxes that depend on the metadata only, so that an interrupted job finds them again


def tiling(array: BoundArray, nbytes: int = TILE_BYTES) -> boxes.Boxes:
    """Return the tiles of an array, of whole shards unless one of them is larger than a tile."""
    items = max(1, nbytes // item_bytes(array.dtype))
    axes = stored_axes(array)
    if all(a.count for a in axes) and math.prod(int(a.size(0)) for a in axes) > items:
        axes = chunk_axes(array)
    return boxes.cut(axes, items, chunks=TILE_CHUNKS)


def stored_numbers(*arrays: BoundArray) -> npt.NDArray[np.int64] | None:
    """Return the sorted grid numbers of the chunks or shards that any of the arrays stores.

    None if there are too few to matter, or if they are not known: because a store cannot list
    its keys, a transformer packs chunks, or there are too many.
    """
    found = packed("q")
    for bound in arrays:
        listed = can_list(bound.store) and traits(bound.store).lists_all
        few = not max(1, FEW_CHUNKS) < bound.grid.count <= 2**62
        if few or not listed or bound.model.storage_transformers:
            return None
        for coords, _ in extension.stored_keys(bound):
            number = 0
            for position, length in zip(coords, bound.grid.shape, strict=True):
                number = number * length + position
            found.append(number)
            if len(found) > MAX_LISTED:
                return None
    return np.unique(np.array(found, np.int64))


def tiles(tiling: boxes.Boxes, chunks: npt.NDArray[np.int64] | None) -> Iterator[Box]:
    """Yield the tiles that have some of these chunks, by number in the grid; None for all tiles."""
    if chunks is None:
        yield from tiling
        return
    coords = np.stack(np.unravel_index(chunks, tuple(a.count for a in tiling.axes)))
    steps = np.array([cuts.step for cuts in tiling.cuts])[:, None]
    owners = np.unique(np.ravel_multi_index(tuple(coords // steps), tiling.counts))
    for owner in owners:
        yield tiling.at(tuple(map(int, np.unravel_index(owner, tiling.counts))))
