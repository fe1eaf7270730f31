"""Shards: the entries of their index, and parts that are read together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from omnizarr.bulk.checks.findings import Coords
from omnizarr.errors import ChunkError
from omnizarr.extension import BoundArray, Index, Range, Shards

BATCH_BYTES = 2**24  # of chunks that are read together
InnerRange: TypeAlias = tuple[Coords, Range]  # an inner chunk and its bytes in the shard


def is_sound(entries: Index, shards: Shards, size: int | None) -> bool:
    """Return True if all entries of an index lie inside the shard and none overlaps another.

    This is the quick check of many entries at a time; False leaves it to a check of each.
    """
    if not len(entries):
        return True
    if entries.max() >= 2**62:
        return False
    layout = shards.layout
    order = np.argsort(entries[:, 0], kind="stable")
    start = entries[order, 0].astype(np.int64)
    length = entries[order, 1].astype(np.int64)
    end, low = start + length, 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    expected = shards.inner.encoded_size
    return bool(
        start[0] >= low
        and (high is None or end.max() <= high)
        and (expected is None or (length == expected).all())
        and (start[1:] >= end[:-1]).all()
    )


def check_range(where: Range, shards: Shards, size: int | None) -> None:
    """Raise if the byte range of an inner chunk is outside the data part of its shard."""
    layout, end = shards.layout, where.start + (where.length or 0)
    low = 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    if where.start < low or (high is not None and end > high):
        raise ChunkError(
            f"the index names bytes {where.start} to {end}, but chunks are in {low} to {high}"
        )
    expected = shards.inner.encoded_size
    if expected is not None and where.length != expected:
        raise ChunkError(f"has {where.length} bytes, expected {expected}")


def overlaps(ranges: list[InnerRange]) -> Iterator[tuple[Coords, str]]:
    """Yield inner chunks whose byte ranges overlap; equal chunks may share the same range."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(ranges, key=lambda item: (item[1].start, item[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            yield coords, f"the index gives it {shared}, which belong to chunk {known}"
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def batches(ranges: list[InnerRange]) -> Iterator[list[InnerRange]]:
    """Yield inner chunks that are read together, `BATCH_BYTES` at a time."""
    batch: list[InnerRange] = []
    total = 0
    for coords, where in ranges:
        if batch and total + (where.length or 0) > BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append((coords, where))
        total += where.length or 0
    if batch:
        yield batch


def inner_coords_of(
    array: BoundArray, outer: Coords, shards: Shards, axes: Coords, number: int
) -> Coords:
    """Return the coordinates of an inner chunk in the array's grid of inner chunks."""
    coords = [0] * len(axes)
    origin = array.grid.origin(outer)
    for axis, count, size in reversed(
        [*zip(axes, shards.counts, shards.inner.spec.shape, strict=True)]
    ):
        number, inside = divmod(number, count)
        coords[axis] = origin[axis] // size + inside
    return tuple(coords)
