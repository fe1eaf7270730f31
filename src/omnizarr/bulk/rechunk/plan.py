"""Plan how the chunks of an array become other chunks, within a bound of memory.

A pass reads boxes of one array and writes each as whole chunks (or shards) of another, so that no
two boxes write the same chunk. In one pass a box is made of whole target chunks, and a source chunk
that meets several boxes is decoded for each of them. Two passes go through an intermediate array
without codecs: the first reads whole source chunks, the second writes whole target chunks, and the
intermediate chunks are as large as what both boxes have in common (as in the algorithm of the
Python package rechunker). The plan is the one that moves fewer bytes: decoded, written to and read
from the intermediate array, and encoded. It is made from numbers only, the layouts of both arrays.

Along each axis the number of times that chunks are read depends on the cuts of that axis only, so
the totals are products, and the best boxes are found axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from omnizarr import extension
from omnizarr.bulk.tiles import chunk_axes, item_bytes, largest_chunk, stored_axes
from omnizarr.errors import InvalidArgument
from omnizarr.extension import BoundArray, Boxes, Cuts, GridAxis, Named, RegularAxis, stores

RESERVE = 64_000_000  # bytes for the interpreter and libraries, or half of a smaller memory
TASK_BYTES = 2**25  # boxes grow up to this size if that costs nothing
KEPT = 256  # combinations of cuts that are considered further after each axis

RAW_BLOCK = 2**13  # bytes of a file that take about as long to read as another call
SHARD_SLICES = 2**23  # bytes that the kernel has in memory while it writes a shard
BLOCKS = 2**20  # bytes of a chunk that are decoded at once where that is possible by parts
IN_FLIGHT = 2**25  # bytes of requests to other stores than directories


@dataclass(frozen=True, slots=True)
class Chunking:
    """One side of a pass: how an array is cut, and what reading or writing needs."""

    axes: tuple[GridAxis, ...]  # of chunks for a source, of stored values (shards) for a target
    itemsize: int  # bytes of an item in memory
    scratch: int = 0  # bytes that a thread needs besides the values
    # The smallest part of a chunk that can be decoded, if that is less than a chunk.
    unit: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(axis.length for axis in self.axes)

    @property
    def size(self) -> int:
        """The bytes of the array in memory."""
        return math.prod(self.shape) * self.itemsize

    @property
    def decoded(self) -> tuple[GridAxis, ...]:
        """The axes cut into what is decoded at once."""
        if self.unit is None:
            return self.axes
        return tuple(RegularAxis(a.length, u) for a, u in zip(self.axes, self.unit, strict=True))

    @property
    def largest(self) -> int:
        """The bytes of the largest chunk inside the array."""
        return _boxes(self.axes).largest * self.itemsize


@dataclass(frozen=True, slots=True)
class Pass:
    """Boxes that are read from one array and written to another as whole chunks."""

    boxes: Boxes
    memory: int  # bytes of one task
    reads: int  # of chunks, or parts of chunks
    bytes_read: int  # as decoded
    writes: int
    bytes_written: int  # as before encoding


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of one array: one, or two with an intermediate array."""

    passes: tuple[Pass, ...]
    intermediate: tuple[int, ...] | None  # its chunk shape
    tasks: int  # that run at once in a process
    threads: int  # of each task

    @property
    def moved(self) -> int:
        """The bytes that all passes read and write."""
        return sum(p.bytes_read + p.bytes_written for p in self.passes)


def plan_passes(
    source: Chunking, target: Chunking, memory: int, threads: int = 1, passes: int | None = None
) -> Passes:
    """Return the passes that move the fewest bytes within `memory` bytes of a process.

    `threads` is how many the process may use: each for a task of its own, unless fewer and larger
    tasks move much less. `passes` is 1 or 2 if that is not to be chosen. Raises if a chunk needs
    more memory, and says how much.
    """
    if passes not in (None, 1, 2):
        raise InvalidArgument(f"passes must be 1 or 2, got {passes!r}")
    usable = usable_memory(memory)
    found: list[Passes] = []
    at_once = threads
    while at_once:
        running = at_once, max(1, threads // at_once)
        found += _candidates(source, target, usable // at_once, running, passes)
        at_once //= 2
    if not found and threads > 1:  # one thread needs less
        found += _candidates(source, target, usable, (1, 1), passes)
    if not found:
        needed = smallest_memory(source, target, passes)
        raise InvalidArgument(
            f"memory of {memory} bytes is too little to write chunks of {target.largest} bytes from"
            f" chunks of {source.largest}; give memory={needed} or more, or smaller chunks"
        )
    least = min(each.moved for each in found)
    return next(each for each in found if each.moved <= least * 1.2)


def usable_memory(memory: int) -> int:
    """Return the part of the memory of a process that is for values."""
    return memory - min(RESERVE, memory // 2)


def smallest_memory(source: Chunking, target: Chunking, passes: int | None = None) -> int:
    """Return the smallest memory limit for which a plan exists."""
    found = 1
    while not _candidates(source, target, found, (1, 1), passes):
        found += max(1, found // 64)  # steps of about 1.5 % keep the search short
    return found + min(found, RESERVE)


def _candidates(
    source: Chunking, target: Chunking, share: int, running: tuple[int, int], passes: int | None
) -> list[Passes]:
    """Return the best plan with one pass, and the best with two, for tasks of `share` bytes."""
    out = []
    one = None if passes == 2 else _one_pass(source, target, share, running[1])
    if one is not None:
        out.append(Passes((one,), None, *running))
    # Two passes read everything twice, and write it twice.
    reads_little = one is not None and one.bytes_read <= 3 * source.size
    if passes == 2 or (passes is None and not reads_little):
        out += _two_passes(source, target, share, running)
    return sorted(out, key=lambda each: each.moved)


def _one_pass(source: Chunking, target: Chunking, share: int, threads: int) -> Pass | None:
    """Return the pass that decodes the fewest bytes, or None if no box fits."""
    per_item = _bytes_per_item(source, target)
    scratch = threads * (source.scratch + target.scratch)
    most = (share - scratch) // per_item
    steps = _best_steps(source.decoded, target.axes, most) if most >= 1 else None
    if steps is None:
        return None
    steps = _grown(steps, source.decoded, target.axes, min(most, TASK_BYTES // per_item))
    return _pass(source, target, steps, scratch)


def _bytes_per_item(source: Chunking, target: Chunking) -> int:
    """Return the bytes of an item in memory; a cast holds it in both types."""
    cast = target.itemsize if target.itemsize != source.itemsize else 0
    return max(1, source.itemsize + cast)


def _pass(source: Chunking, target: Chunking, steps: Sequence[int], scratch: int) -> Pass:
    """Return a pass with its expected reads and writes."""
    boxes = _boxes(target.axes, steps)
    return Pass(
        boxes,
        boxes.largest * _bytes_per_item(source, target) + scratch,
        math.prod(map(_meetings, source.axes, boxes.cuts)),
        _decoded(source.decoded, boxes) * source.itemsize,
        math.prod(cuts.chunks for cuts in boxes.cuts),
        target.size,
    )


def _boxes(axes: Sequence[GridAxis], steps: Sequence[int] = ()) -> Boxes:
    return Boxes(tuple(map(Cuts, axes, steps or (1,) * len(axes))))


def _decoded(axes: Sequence[GridAxis], boxes: Boxes) -> int:
    """Return the number of elements that are decoded to read all boxes."""
    return math.ceil(math.prod(map(_read_length, axes, boxes.cuts)))


def _read_length(axis: GridAxis, cuts: Cuts) -> float:
    """Return the length of all chunks of an axis that are read for each part of the cuts."""
    mean = axis.length / max(1, axis.count)
    if isinstance(axis, RegularAxis):
        mean = min(axis.chunk, axis.length)
    return _meetings(axis, cuts) * mean


def _meetings(axis: GridAxis, cuts: Cuts) -> int:
    """Return the number of pairs of a chunk of an axis and a part of the cuts that overlap.

    Boundaries of either cut the axis into segments, and each segment is such a pair.
    """
    if not cuts.count:
        return 0
    if isinstance(axis, RegularAxis) and isinstance(cuts.axis, RegularAxis):
        every = axis.chunk // math.gcd(axis.chunk, cuts.axis.chunk * cuts.step)
        return axis.count + cuts.count - 1 - (cuts.count - 1) // every
    here, there = np.arange(1, axis.count), np.arange(cuts.step, cuts.axis.count, cuts.step)
    return 1 + len(np.union1d(axis.start(here), cuts.axis.start(there)))


def _best_steps(
    source: Sequence[GridAxis], target: Sequence[GridAxis], most: int
) -> tuple[int, ...] | None:
    """Return how many target chunks make a box of at most `most` elements, so that least is read.

    A combination is dropped if another one with a smaller box reads no more.
    """
    kept: list[tuple[int, float, tuple[int, ...]]] = [(1, 1.0, ())]
    for a, b in zip(source, target, strict=True):
        cuts = [Cuts(b, step) for step in _steps(a, b)]
        options = [(each.longest, _read_length(a, each), each.step) for each in cuts]
        combined = sorted(
            (items * length, cost * more, (*steps, step))
            for items, cost, steps in kept
            for length, more, step in options
            if items * length <= most
        )
        kept = []
        for each in combined:
            if not kept or each[1] < kept[-1][1]:
                kept.append(each)
        if not kept:
            return None
        kept = [*kept[:: -(-len(kept) // KEPT)], kept[-1]]
    return kept[-1][2]


def _steps(source: GridAxis, target: GridAxis) -> list[int]:
    """Return numbers of target chunks worth trying: round ones, equal parts, aligned ones."""
    count = max(1, target.count)
    powers = [2**i for i in range(count.bit_length())]
    found = {*powers, *(3 * p for p in powers), *(-(-count // k) for k in range(1, 17))}
    if isinstance(source, RegularAxis) and isinstance(target, RegularAxis):
        aligned = math.lcm(source.chunk, target.chunk) // target.chunk
        found |= {aligned * n for n in found}
    return sorted(n for n in {1, *found} if n <= count)


def _grown(
    steps: tuple[int, ...], source: Sequence[GridAxis], target: Sequence[GridAxis], most: int
) -> tuple[int, ...]:
    """Double the box along the last axes while it is small, unless more would be read."""
    cost = _decoded(source, _boxes(target, steps))
    for axis in reversed(range(len(steps))):
        while steps[axis] < target[axis].count:
            larger = (*steps[:axis], steps[axis] * 2, *steps[axis + 1 :])
            boxes = _boxes(target, larger)
            if boxes.largest > most or _decoded(source, boxes) > cost:
                break
            steps = larger
    return steps


def _two_passes(
    source: Chunking, target: Chunking, share: int, running: tuple[int, int]
) -> list[Passes]:
    """Return plans with an intermediate array, whose chunks are what both boxes have in common."""
    shape = target.shape
    middle = replace(target, itemsize=min(source.itemsize, target.itemsize), scratch=0)
    scratches = running[1] * source.scratch, running[1] * target.scratch
    most_read = (share - scratches[0]) // _bytes_per_item(source, middle)
    most_written = (share - scratches[1]) // _bytes_per_item(middle, target)
    ones = (1,) * len(shape)
    if most_read < 1 or _boxes(target.axes).largest > most_written:
        return []
    reads, writes = ([Cuts(a).longest or 1 for a in axes] for axes in (source.decoded, target.axes))
    if math.prod(reads) > most_read:  # not even one chunk fits: parts of it are read
        reads = [*ones]
    read, write = [*reads], [*writes]
    sides = [(read, write, reads, most_read), (write, read, writes, most_written)]
    while any(_grow(*side, shape) for side in sides):
        pass
    out = []
    for chunks in _intermediate_chunks(read, write, shape):
        axes = tuple(map(RegularAxis, shape, chunks))
        steps = [max(1, r // c) for r, c in zip(read, chunks, strict=True)]
        if _boxes(axes, steps).largest > most_read:
            continue
        written = replace(middle, axes=axes)
        first = _pass(source, written, steps, scratches[0])
        # There are no codecs, so that rows of a chunk can be read.
        stored = replace(written, unit=(*ones[1:], *chunks[-1:]))
        wanted: Sequence[int] = [max(1, w // u) for w, u in zip(write, writes, strict=True)]
        if _boxes(target.axes, wanted).largest > most_written:  # of chunks with other lengths
            wanted = ones
        second = _pass(stored, target, wanted, scratches[1])
        out.append(Passes((first, second), chunks, *running))
    return out


def _grow(
    box: list[int], other: Sequence[int], unit: Sequence[int], most: int, shape: Sequence[int]
) -> bool:
    """Double a box of whole units along one axis where it is shorter than the other box.

    The shortest axis grows first: copies between compact boxes touch fewer pages of memory.
    """
    for axis in sorted(range(len(box)), key=lambda i: (box[i], -i)):
        longest = other[axis]
        if box[axis] >= longest:
            continue
        larger = min(unit[axis] * -(-min(2 * box[axis], longest) // unit[axis]), shape[axis])
        if math.prod(box) // box[axis] * larger <= most:
            box[axis] = larger
            return True
    return False


def _intermediate_chunks(
    read: Sequence[int], write: Sequence[int], shape: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return chunk shapes that the boxes of the first pass are made of.

    Where the first pass has longer boxes than the second, its chunks are as long as the second's,
    or as its own boxes, and the second pass reads parts of them.
    """
    triples = [*zip(read, write, shape, strict=True)]
    common = tuple(min(r, w) for r, w, _ in triples)
    aligned = tuple(w if r >= n or (w < r and r % w == 0) else min(r, n) for r, w, n in triples)
    return [*dict.fromkeys((common, aligned))]


# Layouts of stored arrays: how they are cut, how much memory they need


def read_layout(array: BoundArray) -> Chunking:
    """Return how an array is read: by chunks, also inside shards, or by parts of chunks."""
    axes, item = chunk_axes(array), item_bytes(array.dtype)
    chunk = largest_chunk(axes) * item
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
    axes, item = stored_axes(array), item_bytes(array.dtype)
    stored = largest_chunk(axes) * item
    inner = extension.inner_chunk_shape(array.model)
    direct = stores.direct_file_root(array.store) is not None
    if inner is not None and direct and array.grid.regular is not None:
        return Chunking(axes, item, min(2 * stored, 2 * math.prod(inner) * item + SHARD_SLICES))
    return Chunking(axes, item, 2 * stored)


def intermediate_model(
    source: BoundArray, target: BoundArray, chunks: Sequence[int]
) -> extension.ArrayModel:
    """Return an array of the smaller of two types, in chunks without compression."""
    base = target if item_bytes(target.dtype) < item_bytes(source.dtype) else source
    codecs: tuple[Named, ...] = (Named("bytes", {"endian": "little"}),)
    if base.data_type.variable:
        known = extension.specify.pipeline(base.model)
        codecs = (*known.filters, known.serializer or codecs[0])
    return base.model.with_(
        shape=target.model.shape,
        chunk_grid=Named("regular", {"chunk_shape": list(chunks)}),
        chunk_key_encoding=Named("default", {"separator": "/"}),
        codecs=codecs,
        storage_transformers=(),
        attributes={},
    )


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
    inner = extension.inner_chunk_shape(array.model)
    grid = array.grid.regular
    stored = "rectilinear" if grid is None else grid
    chunks = f"chunks {stored}" if inner is None else f"chunks {inner} in shards {stored}"
    known = extension.specify.pipeline(array.model)
    codecs = ", ".join(codec.name for codec in known.compressors) or "no compression"
    return f"{chunks}, {array.dtype}, {codecs}"


def passes_text(source: BoundArray, target: BoundArray, passes: Passes) -> str:
    """Return what a plan does with an array, and why."""
    size = math.prod(source.model.shape) * max(1, source.dtype.itemsize)
    text = f"{layout_text(source)} to {layout_text(target)}"
    first = passes.passes[0]
    boxes = tuple(cuts.part(0).stop - cuts.part(0).start for cuts in first.boxes.cuts if cuts.count)
    at_once = extension.counted(passes.tasks, "task") + " at a time"
    if passes.intermediate is None:
        again = first.bytes_read / size if size else 1
        times = "" if again < 1.01 else f", {again:.1f} times the size of the array"
        read = f"{extension.size_text(first.bytes_read)}{times}"
        return f"{text}; one pass of boxes {boxes} reads {read}; {at_once}"
    return (
        f"{text}; two passes through chunks {passes.intermediate} without compression move"
        f" {extension.size_text(passes.moved)}; {at_once}"
    )
