"""The layout of a shard: chunks one after the other, and an index of where each one lies.

The codec ``sharding_indexed`` and the draft's sharding transformer both build on this. The index
is a uint64 pair (offset, length) for every chunk in C order, both 2^64-1 where there is none, as
its own codecs store it. Chunks may stand in any order, with gaps between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnizarr.codecs.chain import Chain, bind_chain
from omnizarr.codecs.codec import Buffer, Spec
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import ChunkError, InvalidMetadata
from omnizarr.model import Named
from omnizarr.stores import Range

MISSING = 2**64 - 1
GAP = 2**16  # parts of a shard that lie closer than this are fetched together

Index = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Shards of a number of chunks."""

    counts: tuple[int, ...]
    chain: Chain  # of the index
    index_size: int
    at_end: bool

    @classmethod
    def of(
        cls, counts: tuple[int, ...], codecs: tuple[Named, ...], *, at_end: bool, field: str
    ) -> ShardLayout:
        """The layout with these index codecs, which the document has in `field`."""
        uint64 = bind_type(Named("uint64"))
        pairs = Spec((*counts, 2), uint64, uint64.scalar(0))
        chain = bind_chain(codecs, pairs, field)
        if chain.encoded_size is None:
            raise InvalidMetadata("must have a fixed size, so no compression")
        return cls(counts, chain, chain.encoded_size, at_end)

    @property
    def count(self) -> int:
        """How many chunks a shard has room for."""
        return math.prod(self.counts)

    @property
    def index_range(self) -> Range:
        """Where the index stands in the shard."""
        return Range(-self.index_size) if self.at_end else Range(0, self.index_size)

    def index(self, stored: Buffer) -> Index:
        """The pair of every chunk, from the stored bytes of the index."""
        if len(stored) != self.index_size:
            raise ChunkError(
                f"the shard has {len(stored)} bytes, which is shorter than its index of"
                f" {self.index_size} bytes"
            )
        try:
            return self.chain.decode(stored).reshape(-1, 2)
        except ChunkError as e:
            raise ChunkError(f"index of the shard: {e}", codec=e.codec) from e

    def index_of(self, shard: Buffer) -> Index:
        """The index of a whole shard."""
        return self.index(self.index_range.of(memoryview(shard)))

    def join(self, chunks: Mapping[int, Buffer]) -> bytes:
        """The shard with these chunks, by their numbers."""
        index = np.full((self.count, 2), MISSING, np.uint64)
        offset = 0 if self.at_end else self.index_size
        parts: list[Buffer] = []
        for number, data in sorted(chunks.items()):
            index[number] = offset, len(data)
            offset += len(data)
            parts.append(data)
        stored = self.chain.encode(index.reshape(*self.counts, 2))
        return b"".join([*parts, stored] if self.at_end else [stored, *parts])

    def split(self, shard: Buffer, leave: Iterable[int] = ()) -> dict[int, Buffer]:
        """The chunks of a shard by their numbers; those to `leave` out may be damaged."""
        index, left = self.index_of(shard), set(leave)
        spans = {n: span(index, n) for n in present(index) if n not in left}
        view = memoryview(shard)
        return {n: complete(s, s.of(view)) for n, s in spans.items() if s is not None}


def present(index: Index) -> list[int]:
    """The numbers of chunks that exist, damaged entries among them: reading those raises."""
    numbers: list[int] = np.flatnonzero((index != MISSING).any(axis=1)).tolist()
    return numbers


def span(index: Index, number: int, inner: tuple[int, ...] | None = None) -> Range | None:
    """Where a chunk lies in its shard, or None where there is none.

    Errors call it by its number, or by its place `inner` the shard where that is given.
    """
    offset, length = index[number].tolist()
    if offset == length == MISSING:
        return None
    if MISSING in (offset, length) or offset + length >= 2**63:
        what = f"chunk {number}" if inner is None else f"inner chunk {inner}"
        raise ChunkError(f"the index entry of {what} is damaged (offset {offset}, length {length})")
    return Range(offset, length)


def complete(where: Range, data: memoryview | Buffer | None) -> Buffer:
    """A chunk's bytes, or an error where they are fewer than the index promises."""
    if data is None or len(data) != where.length:
        raise ChunkError(
            f"the index names {where.length} bytes from {where.start} on, but the shard is shorter"
        )
    return data


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts of one value, put together into few that lie apart."""

    ranges: list[Range]
    places: dict[Range, tuple[int, Range]]  # in which of them a part lies, and where there

    def cut(self, answers: Sequence[Buffer | None]) -> dict[Range, Buffer]:
        """Every part that was asked for."""
        views = [None if a is None else memoryview(a) for a in answers]
        out: dict[Range, Buffer] = {}
        for part, (number, inside) in self.places.items():
            view = views[number]
            out[part] = complete(part, None if view is None else inside.of(view))
        return out


def joined(parts: Iterable[Range]) -> Joined:
    """The fewest ranges to fetch that have all `parts`, with no gap above `GAP` fetched."""
    ranges: list[Range] = []
    places: dict[Range, tuple[int, Range]] = {}
    start = end = 0
    for part in sorted(set(parts), key=lambda p: p.start):
        length = part.length or 0
        if not ranges or part.start - end > GAP:
            start = end = part.start
            ranges.append(part)
        end = max(end, part.start + length)
        ranges[-1] = Range(start, end - start)
        places[part] = len(ranges) - 1, Range(part.start - start, length)
    return Joined(ranges, places)
