"""Layouts of stored arrays for the planner, and the tasks of rechunking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.bulk.journal import Outcome
from omnizarr.bulk.rechunk.plan import Chunking, Passes
from omnizarr.bulk.tiles import chunk_axes, show_box, stored_axes
from omnizarr.extension import (
    ArrayModel,
    BoundArray,
    Entry,
    GridAxis,
    Named,
    RegularAxis,
    ValueCopy,
    axis_plan,
    counted,
    data_types,
    engine,
    inner_chunk_shape,
    paths,
    pipeline,
    size_text,
    stored_keys,
    stores,
    task_of,
)

Box = tuple[slice, ...]
Coords = tuple[int, ...]
Values = npt.NDArray[Any]
VARIABLE_ITEM = 128  # bytes in memory of an item without a fixed size, as a guess
RAW_BLOCK = 2**13  # bytes of a file that take about as long to read as another call
SHARD_SLICES = 2**23  # bytes that the kernel has in memory while it writes a shard
BLOCKS = 2**20  # bytes of a chunk that are decoded at once where that is possible by parts
IN_FLIGHT = 2**25  # bytes of requests to other stores than directories


@dataclass
class RechunkReport(Outcome):
    """The result of rechunking."""

    arrays: int = 0
    groups: int = 0
    # Arrays with a new layout, with what changed.
    rechunked: dict[str, str] = field(default_factory=dict)
    # Arrays that keep a part of their layout, with what does not fit them.
    kept: dict[str, str] = field(default_factory=dict)
    # Arrays in which xarray will see other values as missing than before, with the reason.
    notes: dict[str, str] = field(default_factory=dict)
    # Boxes and their bytes in memory, of all passes.
    boxes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    # Chunks that were copied byte for byte, and their bytes.
    chunks_copied: int = 0
    bytes_copied: int = 0


@dataclass(frozen=True)
class CopyBox:
    """Copy a box from one array to another, as whole chunks of the target."""

    source: BoundArray
    target: BoundArray
    box: Box
    casting: str
    job: str  # of which `tasks` tasks run at a time in a process, with so many threads each
    tasks: int
    threads: int

    def __call__(self) -> RechunkReport:
        threads = self.tasks * self.threads
        with task_of(self.job, self.tasks), config.configure(threads=threads):
            return self._copy()

    def _copy(self) -> RechunkReport:
        source, target = self.source, self.target
        missing: list[Coords] | None = None if source.fill_defined else []
        plan = axis_plan(source.grid, self.box)
        values = np.asarray(engine.read(source, plan, filled=missing))
        if values.dtype != target.dtype:
            values = self._cast(values)
        if missing:
            self._write_present(values, {*missing})
        else:
            engine.write(target, axis_plan(target.grid, self.box), values)
        nbytes = values.size * source.dtype.itemsize
        return RechunkReport(boxes=1, bytes_read=nbytes, bytes_written=values.nbytes)

    def _cast(self, values: Values) -> Values:
        """Return values in the new type; raise if that is more than rounding, unless "unsafe"."""
        if self.casting == "unsafe":
            with np.errstate(all="ignore"):
                return data_types.as_type(values, self.target.dtype)
        where = f" in {show_box(paths.show(self.source.path), self.box)}"
        advice = "give casting='unsafe' to change it, or another dtype"
        return data_types.cast(values, self.target.dtype, where, advice)

    def _write_present(self, values: Values, missing: set[Coords]) -> None:
        """Write the target chunks that overlap a stored source chunk; others stay missing."""
        for row in axis_plan(self.target.grid, self.box).rows():
            pairs = zip(self.box, row.outer, strict=True)
            box = tuple(slice(b.start + o.start, b.start + o.stop) for b, o in pairs)
            rows = axis_plan(self.source.grid, box).rows()
            if not all(each.coords in missing for each in rows):
                engine.write(self.target, axis_plan(self.target.grid, box), values[row.outer])


def copy_chunks(transfer: ValueCopy, entries: tuple[Entry, ...]) -> RechunkReport:
    """Copy the bytes of some stored chunks."""
    done = transfer.copy(entries)
    return RechunkReport(chunks_copied=done.values, bytes_copied=done.nbytes)


def stored_entries(source: BoundArray) -> Iterator[Entry]:
    """Yield all stored chunks or shards; keys are relative to the array's prefix."""
    start, rank = len(source.prefix), len(source.model.shape)
    listed = False
    for entry in stores.list_entries(source.store, source.prefix):
        if source.encoding.coords(entry.key[start:], rank) is not None:
            listed = True
            yield entry._replace(key=entry.key[start:])
    if not listed:  # a store that may list metadata only
        yield from (Entry(key[start:]) for _, key in stored_keys(source))


# Layouts: how arrays are cut, and how much memory they need


def read_layout(array: BoundArray) -> Chunking:
    """Return how an array is read: by chunks, also inside shards, or by parts of chunks."""
    axes, item = chunk_axes(array), _itemsize(array)
    chunk = math.prod(_largest(axis) for axis in axes) * item
    unit = _unit(array)
    if unit is not None:
        return Chunking(axes, item, 2 * min(chunk, BLOCKS), unit)
    local = (
        stores.direct_file_root(array.store) is not None
        or stores.direct_values(array.store) is not None
    )
    return Chunking(axes, item, 2 * chunk if local else max(4 * chunk, IN_FLIGHT))


def write_layout(array: BoundArray) -> Chunking:
    """Return how an array is written: by stored values, which are shards or chunks."""
    axes, item = stored_axes(array), _itemsize(array)
    stored = math.prod(_largest(axis) for axis in axes) * item
    inner = inner_chunk_shape(array.model)
    direct = stores.direct_file_root(array.store) is not None
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
    """Return the length of the longest chunk, including the part outside the array."""
    if isinstance(axis, RegularAxis):
        return axis.chunk
    return max((int(axis.size(i)) for i in range(axis.count)), default=1)


def _unit(array: BoundArray) -> tuple[int, ...] | None:
    """Return the smallest part of a chunk that the kernel reads; None for whole chunks.

    Files without compression are read from the first byte of a box to the last.
    """
    chunks, names = array.grid.regular, [codec.name for codec in array.model.codecs]
    if (
        stores.direct_file_root(array.store) is None
        or chunks is None
        or array.model.storage_transformers
    ):
        return None
    part, size = [1] * len(chunks), array.dtype.itemsize
    for axis in reversed(range(len(chunks) if names == ["bytes"] else 0)):
        part[axis] = max(1, min(chunks[axis], RAW_BLOCK // size))
        if part[axis] < chunks[axis]:
            return tuple(part)
        size *= chunks[axis]
    return None


def layout_text(array: BoundArray) -> str:
    """Return the chunks, shards, type and codecs of an array as text."""
    inner = inner_chunk_shape(array.model)
    grid = array.grid.regular
    stored = "rectilinear" if grid is None else grid
    chunks = f"chunks {stored}" if inner is None else f"chunks {inner} in shards {stored}"
    known = pipeline(array.model)
    codecs = ", ".join(codec.name for codec in known.compressors) or "no compression"
    return f"{chunks}, {array.dtype}, {codecs}"


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
    return (
        f"{text}; two passes through chunks {passes.intermediate} without compression move"
        f" {size_text(passes.moved)}; {at_once}"
    )
