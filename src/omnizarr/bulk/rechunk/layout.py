"""Layouts of stored arrays for the planner: how they are cut, and how much memory they need."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from omnizarr.bulk.boxes import chunk_axes, stored_axes
from omnizarr.bulk.rechunk.plan import Chunking, Passes
from omnizarr.extension import (
    ArrayModel,
    BoundArray,
    GridAxis,
    Named,
    Range,
    RegularAxis,
    counted,
    direct_file_root,
    direct_values,
    inner_chunk_shape,
    pipeline,
    size_text,
    stored_keys,
)

VARIABLE_ITEM = 128  # bytes in memory of an item without a fixed size, as a guess
RAW_BLOCK = 2**13  # bytes of a file that take about as long to read as another call
SHARD_SLICES = 2**23  # bytes that the kernel has in memory while it writes a shard
BLOCKS = 2**20  # bytes of a chunk that are decoded at once where that is possible by parts
IN_FLIGHT = 2**25  # bytes of requests to other stores than directories


def read_layout(array: BoundArray) -> Chunking:
    """Return how an array is read: by chunks, also inside shards, or by parts of chunks."""
    axes, item = chunk_axes(array), _itemsize(array)
    chunk = math.prod(_largest(axis) for axis in axes) * item
    unit = _unit(array)
    if unit is not None:
        return Chunking(axes, item, 2 * min(chunk, BLOCKS), unit)
    local = direct_file_root(array.store) is not None or direct_values(array.store) is not None
    return Chunking(axes, item, 2 * chunk if local else max(4 * chunk, IN_FLIGHT))


def write_layout(array: BoundArray) -> Chunking:
    """Return how an array is written: by stored values, which are shards or chunks."""
    axes, item = stored_axes(array), _itemsize(array)
    stored = math.prod(_largest(axis) for axis in axes) * item
    inner = inner_chunk_shape(array.model)
    direct = direct_file_root(array.store) is not None
    if inner is not None and direct and array.grid.regular is not None:
        return Chunking(axes, item, min(2 * stored, 2 * math.prod(inner) * item + SHARD_SLICES))
    return Chunking(axes, item, 2 * stored)


def intermediate_model(source: BoundArray, target: BoundArray, chunks: Sequence[int]) -> ArrayModel:
    """Return an array of the smaller of two types, in chunks without compression."""
    base = target if _itemsize(target) < _itemsize(source) else source
    codecs: tuple[Named, ...] = (Named("bytes", {"endian": "little"}),)
    if base.data_type.variable:
        known = pipeline(base.model)
        codecs = (*known.filters, known.serializer or codecs[0])
    return base.model.with_(
        shape=target.model.shape,
        chunk_grid=Named("regular", {"chunk_shape": list(chunks)}),
        chunk_key_encoding=Named("default", {"separator": "/"}),
        codecs=codecs,
        storage_transformers=(),
        attributes={},
    )


def _itemsize(array: BoundArray) -> int:
    return VARIABLE_ITEM if array.data_type.variable else max(1, array.dtype.itemsize)


def _largest(axis: GridAxis) -> int:
    """Return the length of the longest chunk, including what reaches over the edge."""
    if isinstance(axis, RegularAxis):
        return axis.chunk
    return max((int(axis.size(i)) for i in range(axis.count)), default=1)


def _unit(array: BoundArray) -> tuple[int, ...] | None:
    """Return the smallest part of a chunk that the kernel decodes alone, or None for a chunk.

    Files without compression are read from the first byte of a box to the last; Blosc buffers
    consist of blocks.
    """
    chunks, codecs = array.grid.regular, array.model.codecs
    names = [codec.name for codec in codecs]
    if direct_file_root(array.store) is None or chunks is None or array.model.storage_transformers:
        return None
    if names == ["bytes"]:
        return _part(chunks, array.dtype.itemsize, RAW_BLOCK)
    if names[1:] in (["blosc"], ["numcodecs.blosc"]) and names[0] == "bytes":
        block = _blosc_block(array)
        return None if block is None else _part(chunks, array.dtype.itemsize, block)
    return None


def _blosc_block(array: BoundArray) -> int | None:
    """Return the size of the blocks of one stored Blosc buffer."""
    _, key = next(stored_keys(array), (None, None))
    head = None if key is None else array.store.get(key, Range(0, 16))
    if head is None or len(head) < 16:
        return None
    return int(struct.unpack_from("<I", head, 8)[0]) or None


def _part(chunks: tuple[int, ...], itemsize: int, block: int) -> tuple[int, ...] | None:
    """Return the shape of about `block` contiguous bytes of a chunk, or None for all of it."""
    part = [1] * len(chunks)
    size = itemsize
    for axis in reversed(range(len(chunks))):
        part[axis] = max(1, min(chunks[axis], block // size))
        if part[axis] < chunks[axis]:
            return tuple(part)
        size *= chunks[axis]
    return None


def layout_text(array: BoundArray) -> str:
    """Return the chunks, shards, type and codecs of an array as text."""
    inner = inner_chunk_shape(array.model)
    grid = array.grid.regular
    stored = "rectilinear" if grid is None else grid
    parts = [f"chunks {stored}" if inner is None else f"chunks {inner} in shards {stored}"]
    known = pipeline(array.model)
    codecs = ", ".join(codec.name for codec in known.compressors) or "no compression"
    return f"{'; '.join(parts)}, {array.dtype}, {codecs}"


def passes_text(source: BoundArray, target: BoundArray, passes: Passes) -> str:
    """Return what a plan does with an array, and why."""
    size = math.prod(source.model.shape) * max(1, source.dtype.itemsize)
    text = f"{layout_text(source)} to {layout_text(target)}"
    first = passes.passes[0]
    boxes = tuple(cuts.part(0).stop - cuts.part(0).start for cuts in first.boxes.cuts if cuts.count)
    at_once = counted(passes.tasks, "task") + " at a time"
    if passes.intermediate is None:
        again = first.bytes_read / size if size else 1
        times = "" if again < 1.01 else f", {again:.1f} times what there is"
        read = f"{size_text(first.bytes_read)}{times}"
        return f"{text}; one pass of boxes {boxes} reads {read}; {at_once}"
    moved = size_text(passes.moved)
    why = ""
    if passes.other is not None:
        why = f", not the {size_text(passes.other)} of one pass"
    return (
        f"{text}; two passes through chunks {passes.intermediate} without compression move"
        f" {moved}{why}; {at_once}"
    )
