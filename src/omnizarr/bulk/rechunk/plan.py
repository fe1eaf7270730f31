"""Plan how the chunks of an array become other chunks, within a bound of memory.

Pure numbers: no store, no values. A pass reads boxes of one array and writes each as whole chunks
(or shards) of another, so that no two boxes write the same chunk. In one pass a box is made of
whole target chunks, and a source chunk that meets several boxes is decoded for each of them. Two
passes go through an intermediate array without codecs: the first reads whole source chunks, the
second writes whole target chunks, and the intermediate chunks are as large as what both boxes have
in common (as in the algorithm of the Python package rechunker). The plan is the one that moves
fewer bytes: decoded, written to and read from the intermediate array, and encoded.

Along each axis the number of times that chunks are read depends on the cuts of that axis only, so
the totals are products, and the best boxes are found axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from omnizarr.errors import InvalidArgument
from omnizarr.extension import Boxes, Cuts, GridAxis, Integers, RegularAxis

RESERVE = 64_000_000  # bytes for the interpreter and libraries, or half of a smaller memory
TASK_BYTES = 2**25  # boxes grow up to this size if that costs nothing
KEPT = 256  # combinations of cuts that are considered further after each axis


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
    def decoded(self) -> tuple[GridAxis, ...]:
        """The axes cut into what is decoded at once."""
        if self.unit is None:
            return self.axes
        return tuple(RegularAxis(a.length, u) for a, u in zip(self.axes, self.unit, strict=True))

    @property
    def largest(self) -> int:
        """The bytes of the largest chunk inside the array."""
        return _cut(self.axes).largest * self.itemsize


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
    other: int | None = None  # bytes that the best plan with the other number of passes moves

    @property
    def moved(self) -> int:
        """The bytes that all passes read and write."""
        return sum(p.bytes_read + p.bytes_written for p in self.passes)


def plan_passes(
    source: Chunking,
    target: Chunking,
    memory: int,
    threads: int = 1,
    *,
    begin: Sequence[int] = (),
    passes: int | None = None,
) -> Passes:
    """Return the passes that move the fewest bytes within `memory` bytes of a process.

    `threads` is how many the process may use: each for a task of its own, unless fewer and larger
    tasks move much less. Only chunks with elements from `begin` on are written. `passes` is 1 or 2
    if that is not to be chosen. Raises if a chunk needs more memory, and says how much.
    """
    if passes not in (None, 1, 2):
        raise InvalidArgument(f"passes must be 1 or 2, got {passes!r}")
    begin = tuple(begin) or (0,) * len(target.axes)
    usable = usable_memory(memory)
    found: list[Passes] = []
    at_once = threads
    while at_once:
        share, each = usable // at_once, max(1, threads // at_once)
        found += _candidates(source, target, share, (at_once, each), begin, passes)
        at_once //= 2
    if not found and threads > 1:  # one thread needs less
        found += _candidates(source, target, usable, (1, 1), begin, passes)
    if not found:
        needed = smallest_memory(source, target, begin, passes)
        raise InvalidArgument(
            f"memory of {memory} bytes is too little to write chunks of {target.largest} bytes from"
            f" chunks of {source.largest}; give memory={needed} or more, or smaller chunks"
        )
    least = min(each.moved for each in found)
    best = next(each for each in found if each.moved <= least * 1.2)
    others = [each.moved for each in found if len(each.passes) != len(best.passes)]
    return replace(best, other=min(others, default=None))


def usable_memory(memory: int) -> int:
    """Return the part of the memory of a process that is for values."""
    return memory - min(RESERVE, memory // 2)


def smallest_memory(
    source: Chunking,
    target: Chunking,
    begin: Sequence[int] = (),
    passes: int | None = None,
) -> int:
    """Return the smallest memory limit for which a plan exists."""
    begin = tuple(begin) or (0,) * len(target.axes)
    found = 1
    while not _candidates(source, target, found, (1, 1), begin, passes):
        found += max(1, found // 64)  # steps of about 1.5 % keep the search short
    return found + min(found, RESERVE)


def _candidates(
    source: Chunking,
    target: Chunking,
    share: int,
    running: tuple[int, int],
    begin: tuple[int, ...],
    passes: int | None,
) -> list[Passes]:
    """Return the best plan with one pass, and the best with two, for tasks of `share` bytes."""
    tasks, threads = running
    out = []
    if passes in (None, 1):
        one = _best_pass(source, target, share, threads, begin, tasks)
        if one is not None:
            out.append(Passes((one,), None, tasks, threads))
    if passes == 2 or (passes is None and not _reads_once(out, source, begin)):
        out += _two_passes(source, target, share, running, begin)
    return sorted(out, key=lambda each: each.moved)


def _reads_once(found: list[Passes], source: Chunking, begin: tuple[int, ...]) -> bool:
    """Return True if one pass reads at most three times the bytes of the region."""
    region = math.prod(n - b for n, b in zip(source.shape, begin, strict=True))
    return bool(found) and found[0].passes[0].bytes_read <= 3 * region * source.itemsize


def _best_pass(
    source: Chunking,
    target: Chunking,
    share: int,
    threads: int,
    begin: tuple[int, ...],
    tasks: int = 1,
) -> Pass | None:
    """Return the pass that decodes the fewest bytes, or None if no box fits."""
    per_item = _bytes_per_item(source, target)
    scratch = threads * (source.scratch + target.scratch)
    most = (share - scratch) // per_item
    if most < 1:
        return None
    steps = _best_steps(source.decoded, target.axes, most, begin)
    if steps is None:
        return None
    steps = _grown(steps, source.decoded, target.axes, min(most, TASK_BYTES // per_item), begin)
    return _pass(source, target, steps, begin, scratch)


def _bytes_per_item(source: Chunking, target: Chunking) -> int:
    """Return the bytes of an item in memory; a cast holds it in both types."""
    cast = target.itemsize if target.itemsize != source.itemsize else 0
    return max(1, source.itemsize + cast)


def _pass(
    source: Chunking,
    target: Chunking,
    steps: Sequence[int],
    begin: tuple[int, ...],
    scratch: int,
) -> Pass:
    """Return a pass with its expected reads and writes."""
    boxes = _cut(target.axes, steps, begin)
    pairs = [*zip(source.axes, boxes.cuts, strict=True)]
    return Pass(
        boxes,
        boxes.largest * _bytes_per_item(source, target) + scratch,
        math.prod(_meetings(axis, cuts) for axis, cuts in pairs),
        _decoded(source.decoded, boxes) * source.itemsize,
        math.prod(cuts.chunks for cuts in boxes.cuts),
        math.prod(cuts.stop - cuts.begin for cuts in boxes.cuts) * target.itemsize,
    )


def _cut(axes: Sequence[GridAxis], steps: Sequence[int] = (), begin: Sequence[int] = ()) -> Boxes:
    """Return boxes of all chunks that have elements from a position on."""
    none = (0,) * len(axes)
    triples = zip(axes, steps or (1,) * len(axes), begin or none, strict=True)
    return Boxes(tuple(_cuts(*each) for each in triples))


def _cuts(axis: GridAxis, step: int, begin: int) -> Cuts:
    return Cuts(axis, step, int(axis.start(int(axis.chunk_of(begin)))) if begin else 0)


def _decoded(axes: Sequence[GridAxis], boxes: Boxes) -> int:
    """Return the number of elements that are decoded to read all boxes."""
    pairs = zip(axes, boxes.cuts, strict=True)
    return math.ceil(math.prod(_meetings(axis, c) * _mean_length(axis) for axis, c in pairs))


def _mean_length(axis: GridAxis) -> float:
    if isinstance(axis, RegularAxis):
        return min(axis.chunk, axis.length)
    return axis.length / max(1, axis.count)


def _meetings(axis: GridAxis, cuts: Cuts) -> int:
    """Return the number of pairs of a chunk of an axis and a part of the cuts that overlap.

    Boundaries of either cut the axis into segments, and each segment is such a pair.
    """
    if not cuts.count:
        return 0
    lowest = cuts.begin
    if isinstance(axis, RegularAxis) and isinstance(cuts.axis, RegularAxis):
        chunks = axis.count - axis.chunk_of(lowest)
        period = cuts.axis.chunk * cuts.step
        common = _common_boundaries(lowest, period, cuts.count - 1, axis.chunk)
        return int(chunks + cuts.count - 1 - common)
    here = _boundaries(axis, 1, lowest)
    there = _boundaries(cuts.axis, cuts.step, lowest)
    return 1 + len(np.union1d(here, there))


def _common_boundaries(start: int, period: int, count: int, chunk: int) -> int:
    """Return how many of `count` positions, a period apart after `start`, are multiples of `chunk`.

    That is, the number of k from 1 to count with start + k · period = 0 (modulo chunk).
    """
    divisor = math.gcd(period, chunk)
    if start % divisor:
        return 0
    every = chunk // divisor
    first = -(start // divisor) * pow(period // divisor, -1, every) % every
    return count // every if first == 0 else max(0, (count - first) // every + 1)


def _boundaries(axis: GridAxis, step: int, lowest: int) -> Integers:
    """Return where every `step`-th chunk begins after `lowest`, counted from its chunk."""
    first = int(axis.chunk_of(lowest))
    found = np.asarray(axis.start(np.arange(first, axis.count, step)), np.int64)
    return found[found > lowest]


def _best_steps(
    source: Sequence[GridAxis], target: Sequence[GridAxis], most: int, begin: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return how many target chunks make a box of at most `most` elements, so that least is read.

    A combination is dropped if another one with a smaller box reads no more.
    """
    kept: list[tuple[int, float, tuple[int, ...]]] = [(1, 1.0, ())]
    for a, b, start in zip(source, target, begin, strict=True):
        options = []
        for step in _steps(a, b):
            cuts = _cuts(b, step, start)
            options.append((cuts.longest, _meetings(a, cuts) * _mean_length(a), step))
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
    steps: tuple[int, ...],
    source: Sequence[GridAxis],
    target: Sequence[GridAxis],
    most: int,
    begin: tuple[int, ...],
) -> tuple[int, ...]:
    """Double the box along the last axes while it is small, unless more would be read."""

    cost = _decoded(source, _cut(target, steps, begin))
    for axis in reversed(range(len(steps))):
        while steps[axis] < target[axis].count:
            larger = (*steps[:axis], steps[axis] * 2, *steps[axis + 1 :])
            boxes = _cut(target, larger, begin)
            if boxes.largest > most or _decoded(source, boxes) > cost:
                break
            steps = larger
    return steps


def _two_passes(
    source: Chunking,
    target: Chunking,
    share: int,
    running: tuple[int, int],
    begin: tuple[int, ...],
) -> list[Passes]:
    """Return plans with an intermediate array, whose chunks are what both boxes have in common."""
    tasks, threads = running
    shape = target.shape
    middle = replace(target, itemsize=min(source.itemsize, target.itemsize), scratch=0)
    scratches = threads * source.scratch, threads * target.scratch
    most_read = (share - scratches[0]) // _bytes_per_item(source, middle)
    most_written = (share - scratches[1]) // _bytes_per_item(middle, target)
    ones = (1,) * len(shape)
    if most_read < 1 or _cut(target.axes, ones, begin).largest > most_written:
        return []
    reads = [Cuts(axis).longest or 1 for axis in source.decoded]
    if math.prod(reads) > most_read:  # not even one chunk fits: parts of it are read
        reads = [*ones]
    writes = [cuts.longest or 1 for cuts in _cut(target.axes, ones, begin).cuts]
    read, write = _grow_both(reads, writes, shape, most_read, most_written)
    out = []
    for chunks in _intermediate_chunks(read, write, shape):
        axes = tuple(map(RegularAxis, shape, chunks))
        steps = [max(1, r // c) for r, c in zip(read, chunks, strict=True)]
        if _cut(axes, steps, begin).largest > most_read:
            continue
        written = replace(middle, axes=axes)
        first = _pass(source, written, steps, begin, scratches[0])
        # There are no codecs, so that rows of a chunk can be read.
        stored = replace(written, unit=(*ones[1:], *chunks[-1:]))
        wanted = [max(1, w // u) for w, u in zip(write, writes, strict=True)]
        if _cut(target.axes, wanted, begin).largest > most_written:  # of chunks with other lengths
            wanted = [*ones]
        second = _pass(stored, target, wanted, begin, scratches[1])
        out.append(Passes((first, second), chunks, tasks, threads))
    return out


def _grow_both(
    reads: Sequence[int],
    writes: Sequence[int],
    shape: Sequence[int],
    most_read: int,
    most_written: int,
) -> tuple[list[int], list[int]]:
    """Return boxes of both passes, enlarged where that enlarges their intersection.

    The shortest axis grows first: copies between compact boxes touch fewer pages of memory.
    """
    read = [min(r, max(1, n)) for r, n in zip(reads, shape, strict=True)]
    write = [min(w, max(1, n)) for w, n in zip(writes, shape, strict=True)]
    sides = [(read, write, reads, most_read), (write, read, writes, most_written)]
    while any(_grow(*side, shape) for side in sides):
        pass
    return read, write


def _grow(
    box: list[int], other: Sequence[int], unit: Sequence[int], most: int, shape: Sequence[int]
) -> bool:
    """Double a box of whole units along one axis where it is shorter than the other box."""
    for axis in sorted(range(len(box)), key=lambda i: (box[i], -i)):
        longest = min(other[axis], shape[axis])
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
