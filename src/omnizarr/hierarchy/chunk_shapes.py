"""Shapes of chunks and shards, as users write them or as they are guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from omnizarr.config import byte_size
from omnizarr.data_types import DataType
from omnizarr.data_types.data_type import item_bytes
from omnizarr.errors import InvalidArgument, WrongType
from omnizarr.model import ArrayModel, Named

Cost: TypeAlias = Callable[[tuple[int, ...]], tuple[float, ...]]

AUTO: Any = "auto"
TARGET_BYTES = 2**20  # of a chunk
SHARD_BYTES = 2**26


def chunk_grid(chunks: Any, shape: tuple[int, ...], data_type: DataType) -> Named:
    """Return the chunk grid that the option `chunks` describes."""
    itemsize = stored_bytes(data_type)
    if isinstance(chunks, str) and chunks != AUTO:
        return _regular(guess_chunks(shape, itemsize, byte_size(chunks, "chunks")))
    if chunks is None or chunks is True or isinstance(chunks, str):
        return _regular(guess_chunks(shape, itemsize, TARGET_BYTES))
    if chunks is False:
        return _regular(tuple(max(1, n) for n in shape))
    sizes = list(chunks) if isinstance(chunks, Iterable) else [chunks] * len(shape)
    if any(isinstance(c, (list, tuple)) for c in sizes):
        return Named("rectilinear", {"kind": "inline", "chunk_shapes": [_edges(c) for c in sizes]})
    sizes += shape[len(sizes) :]
    if len(sizes) != len(shape):
        raise InvalidArgument(
            f"chunks {chunks!r} has {len(sizes)} entries, the shape {tuple(shape)} has"
            f" {len(shape)}; give at most one length per axis"
        )
    filled = [n if c in (None, -1) else c for c, n in zip(sizes, shape, strict=True)]
    if any(isinstance(c, bool) or not isinstance(c, (int, np.integer)) for c in filled):
        raise WrongType(f"chunks: expected positive integers, got {chunks!r}")
    if any(c < 0 for c in filled):
        raise InvalidArgument(f"chunks: expected positive integers, got {chunks!r}")
    lengths = [int(c) for c in filled]
    if any(c == 0 and n for c, n in zip(lengths, shape, strict=True)):
        raise InvalidArgument(f"chunks: a chunk cannot have length 0, got {chunks!r}")
    return _regular(tuple(max(1, c) for c in lengths))


def _regular(chunks: tuple[int, ...]) -> Named:
    return Named("regular", {"chunk_shape": list(chunks)})


def _edges(axis: Any) -> Any:
    if isinstance(axis, (list, tuple)):
        return [_edges(a) for a in axis]
    return int(axis)


def guess_chunks(
    shape: tuple[int, ...], itemsize: int, target: int, cost: Cost | None = None
) -> tuple[int, ...]:
    """Return a chunk shape of at most `target` bytes: axes are halved until it fits.

    That is the longest axis, or, with a `cost` of chunk shapes, the one with the lowest cost after.
    """
    chunks = tuple(max(1, n) for n in shape)
    while math.prod(chunks) * itemsize > target and max(chunks, default=1) > 1:
        chunks = halve(chunks, cost)
    return chunks


def halve(chunks: tuple[int, ...], cost: Cost | None = None) -> tuple[int, ...]:
    """Return a chunk shape with one axis halved, chosen as in `guess_chunks`."""

    def halved(axis: int) -> tuple[int, ...]:
        return (*chunks[:axis], -(-chunks[axis] // 2), *chunks[axis + 1 :])

    if cost is None:
        return halved(chunks.index(max(chunks)))
    longest_first = sorted(range(len(chunks)), key=lambda axis: -chunks[axis])
    return min((halved(axis) for axis in longest_first if chunks[axis] > 1), key=cost)


def shard_options(shards: Any) -> tuple[Any, str]:
    """Return the shape of shards, in any form, and the location of their index."""
    if not isinstance(shards, Mapping):
        return shards, "end"
    unknown = sorted(map(str, shards.keys() - {"shape", "index_location"}))
    if unknown or "shape" not in shards:
        raise InvalidArgument(
            f"shards: expected a shape, or an object with 'shape' and 'index_location', got"
            f" {dict(shards)!r}"
        )
    location = shards.get("index_location") or "end"
    if location not in ("start", "end"):
        raise InvalidArgument(f"shards: index_location must be 'start' or 'end', got {location!r}")
    return shards["shape"], str(location)


def shard_shape(shards: Any, array: ArrayModel, data_type: DataType) -> tuple[Any, ...]:
    """Return the shape of a shard: as given, or whole chunks up to a number of bytes."""
    chunks = array.chunk_grid.configuration.get("chunk_shape")
    if chunks is None:
        raise InvalidArgument(f"shards {shards!r} need chunks of one shape")
    if shards is True or isinstance(shards, str):
        target = SHARD_BYTES if shards in (True, AUTO) else byte_size(str(shards), "shards")
        return _grow_shard(tuple(chunks), array.shape, stored_bytes(data_type), target)
    sizes = tuple(shards) if isinstance(shards, Iterable) else (shards,) * len(chunks)
    lengths = [_lengths(n) if isinstance(n, (list, tuple)) else [n] for n in sizes]
    flat = [n for axis in lengths for n in axis]
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in flat):
        raise InvalidArgument(f"shards: expected positive integers, got {shards!r}")
    if len(sizes) != len(chunks) or any(
        n < c or n % c for axis, c in zip(lengths, chunks, strict=False) for n in axis
    ):
        raise InvalidArgument(f"shards {shards!r} must be a multiple of the chunks {tuple(chunks)}")
    return tuple(_edges(n) for n in sizes)


def _lengths(axis: Any) -> list[Any]:
    """Return the lengths along an axis of a rectilinear grid; ``[length, count]`` is many."""
    return [a[0] if isinstance(a, (list, tuple)) and len(a) == 2 else a for a in axis]


def _grow_shard(
    chunks: tuple[int, ...], shape: tuple[int, ...], itemsize: int, target: int
) -> tuple[int, ...]:
    """Double the shard along its relatively shortest axis until it has the size."""
    sizes = list(chunks)
    while math.prod(sizes) * itemsize * 2 <= target:
        room = [i for i, (s, n) in enumerate(zip(sizes, shape, strict=True)) if s < n]
        if not room:
            break
        axis = min(room, key=lambda i: sizes[i] / chunks[i])
        sizes[axis] *= 2
    return tuple(sizes)


def stored_bytes(data_type: DataType) -> int:
    """Return the bytes of a stored item; text counts an eighth of its size in memory."""
    return item_bytes(data_type.dtype) // (8 if data_type.variable else 1)
