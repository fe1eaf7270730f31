"""Inner chunks of shards on a server, for the kernel: planned and fetched for many shards at once.

A plan over shards becomes one over their inner chunks, and what is fetched becomes a list of their
bytes, as if they were chunks with keys of their own. The numbers of all inner chunks are columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from omnizarr.chunk_grids import Integers
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.sharding import MAX_GAP, MISSING, Index, Shards
from omnizarr.engine.binding import BoundArray
from omnizarr.errors import ChunkError, SelectionError
from omnizarr.indexing import Plan, PointPlan, ProductPlan, on_grid
from omnizarr.stores import Range, traits
from omnizarr.stores.byte_ranges import LARGEST, ConsistentReader, ValueReplaced, prefers_whole

Coords = tuple[int, ...]
MAX_CHUNKS = 2**22  # of a plan, for each of which there are a few numbers in memory
MAX_PARTS = 64


def largest_whole(array: BoundArray, count: int) -> int:
    """Return the largest size of a shard if fetching `count` whole shards costs little, else 0."""
    pipeline = array.first_pipeline
    if pipeline.sharded is None or pipeline.spec.nbytes is None:
        return 0
    size = pipeline.spec.nbytes + pipeline.spec.nbytes // 8 + 2**12  # with an index, incompressible
    nbytes = size * count
    quick = nbytes <= LARGEST and prefers_whole(array.chunk_store, nbytes, requests=1)
    return size if quick else 0


@dataclass(frozen=True, slots=True, eq=False)
class InnerPlan:
    """A plan over inner chunks, and where each of them is, in the order of its rows."""

    array: BoundArray
    shards: list[Coords]
    plan: Plan
    rows: Integers  # the row of its shard in the plan over shards
    numbers: Integers  # its number in the shard
    size: int  # of an inner chunk, decoded

    @classmethod
    def of(cls, array: BoundArray, plan: Plan) -> InnerPlan:
        """Return the plan over the inner chunks that a plan over shards touches; raise if many."""
        grid, shards = array.grid, cast(Shards, array.first_pipeline.array_bytes)
        spec, counts = shards.inner.spec, shards.counts
        inner = on_grid(plan, grid, grid.divided(spec.shape))
        if isinstance(plan, PointPlan):
            shard, number = np.divmod(cast(PointPlan, inner).coords, counts)
            places = (np.ravel_multi_index(tuple(c.T), grid.shape) for c in (plan.coords, shard))
            rows = np.searchsorted(*places)
            numbers = np.ravel_multi_index(tuple(number.T), counts)
        elif inner.count > MAX_CHUNKS:
            raise SelectionError(f"{inner.count} inner chunks are too many to be read together")
        else:
            rows = numbers = np.zeros(1, np.int64)
            for whole, axis, count in zip(
                plan.axes, cast(ProductPlan, inner).axes, counts, strict=True
            ):
                shard, number = np.divmod(axis.chunk, count)
                row = np.searchsorted(whole.chunk, shard)
                rows = np.add.outer(rows * len(whole), row).ravel()
                numbers = np.add.outer(numbers * count, number).ravel()
        return cls(array, [*plan.chunks()], inner, rows, numbers, spec.nbytes or 1)

    @property
    def nbytes(self) -> int:
        """The size of all inner chunks, decoded."""
        return self.size * len(self.rows)

    def parts(self, nbytes: int) -> list[Integers]:
        """Return the inner chunks of some shards at a time, about `nbytes`; raise if many parts.

        The kernel looks at all inner chunks for each part. A shard is in one part, since another
        writer may replace it between two.
        """
        most, count = max(1, nbytes // self.size), len(self.rows)
        if count > MAX_PARTS * most:
            raise SelectionError(f"{count} inner chunks do not fit the memory")
        order = np.argsort(self.rows, kind="stable")
        begins = np.append(np.flatnonzero(np.diff(self.rows[order])) + 1, count)
        cuts = begins[np.searchsorted(begins, np.arange(most, count, most))]
        return [part for part in np.split(order, np.unique(cuts)) if len(part)]

    def fetch(self, some: Integers) -> list[Buffer | None]:
        """Return a value for every row: the bytes of some inner chunks, empty ones of the others.

        None stands for a missing one. The inner chunks are sorted by their shards. Raise if a part
        of a shard is damaged, or belongs to another value than the rest.
        """
        array = self.array
        layout = cast(Shards, array.first_pipeline.array_bytes).layout
        touched, begins = np.unique(self.rows[some], return_index=True)
        several = np.split(some, begins[1:])
        keys = [array.key(self.shards[row]) for row in touched.tolist()]
        parts = [None if len(each) == layout.count else layout.index_range for each in several]
        reader = ConsistentReader(array.store, size=largest_whole(array, len(keys)))
        first_parts = [*zip(keys, parts, strict=True)]
        stored = reader(first_parts)
        wanted = list[tuple[str, Range]]()
        pieces = list[tuple[Buffer | None, Integers, Integers, Integers]]()
        values: list[Buffer | None] = [b""] * len(self.rows)
        for (key, part), data, own in zip(first_parts, stored, several, strict=True):
            for number in own.tolist():
                values[number] = None
            if data is None:
                array.note_missing()
                continue
            index = layout.index_of(data) if part is None else layout.index(data)
            found, starts, ends = _present(index, self.numbers, own)
            if part is None:
                pieces.append((data, found, starts, ends))
                continue
            reach = np.maximum.accumulate(ends)
            cuts = np.flatnonzero(starts[1:] - reach[:-1] > MAX_GAP) + 1
            for one in np.split(np.arange(len(found)), cuts) if len(found) else ():
                first = int(starts[one[0]])
                wanted.append((key, Range(first, int(reach[one[-1]]) - first)))
                pieces.append((None, found[one], starts[one] - first, ends[one] - first))
        answers = iter(reader(wanted) if wanted else ())
        if wanted and traits(array.store).low_latency and reader(first_parts) != stored:
            raise ValueReplaced(f"a shard in {array.store!r}")  # whose parts have no versions
        for piece, found, starts, ends in pieces:
            view = memoryview(next(answers) if piece is None else piece)  # type: ignore[arg-type]
            if len(found) and len(view) < ends.max():
                raise ChunkError("a shard is shorter than its index says")
            for number, a, b in zip(found.tolist(), starts.tolist(), ends.tolist(), strict=True):
                values[number] = view[a:b]
        reader.verify()
        return values


def _present(index: Index, numbers: Integers, some: Integers) -> tuple[Integers, ...]:
    """Return which of some inner chunks a shard has, in the order of bytes, with both ends."""
    pairs = index[numbers[some]]
    kept = (pairs != MISSING).any(axis=1)
    some, pairs = some[kept], pairs[kept]
    if (pairs >= 2**63).any() or (pairs.sum(axis=1) >= 2**63).any():
        raise ChunkError("an entry of the index of a shard is damaged")
    order = np.argsort(pairs[:, 0], kind="stable")
    starts, lengths = pairs[order].astype(np.int64).T
    return some[order], starts, starts + lengths
