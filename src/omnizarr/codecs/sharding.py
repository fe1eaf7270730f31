"""sharding_indexed: many inner chunks in one value, found by an index.

The codec ``sharding_indexed`` and the draft's sharding transformer both build on this. The index
is a uint64 pair (offset, length) for every chunk in C order, both 2^64-1 where there is none, as
its own codecs store it. Chunks may stand in any order, with gaps between them.
Specification: ``sharding_indexed`` of version 3. Configuration: ``{"chunk_shape": [32, 32],
"codecs": [{"name": "bytes", …}, …], "index_codecs": [{"name": "bytes", "configuration":
{"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}``. The index is a uint64 pair
(offset, length) for every inner chunk in C order, both 2^64-1 where there is none. Inner chunks
may stand in any order with gaps between them. Shards nest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs.codec import Buffer, Configured, Kind, Region, Spec, is_fill
from omnizarr.codecs.pipeline import Chain, Decode, Steps, bind_chain, moved, tell, together, within
from omnizarr.codecs.specify import to_named
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import ChunkError, InvalidMetadata, Problem, error_context
from omnizarr.model import Named
from omnizarr.model.fields import Fields, named
from omnizarr.model.node import check_members, invalid
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
        with error_context("index of the shard"):
            return self.chain.decode(stored).reshape(-1, 2)

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


INDEX_CODECS = (Named("bytes", {"endian": "little"}), Named("crc32c"))

Coords = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardingIndexed(Configured):
    chunk_shape: tuple[int, ...]
    codecs: tuple[Named, ...] = (Named("bytes"),)
    index_codecs: tuple[Named, ...] = INDEX_CODECS
    index_location: str = "end"

    name: ClassVar[str] = "sharding_indexed"
    kind: ClassVar[Kind] = "array->bytes"

    def __post_init__(self) -> None:
        given: Any = self.chunk_shape
        shape = (given,) if isinstance(given, int) else tuple(given)
        object.__setattr__(self, "chunk_shape", shape)
        for member in ("codecs", "index_codecs"):
            codecs = tuple(to_named(codec, None) for codec in getattr(self, member))
            object.__setattr__(self, member, codecs)

    @classmethod
    def bind(cls, stated: Named) -> ShardingIndexed:
        needed = ("chunk_shape", "codecs", "index_codecs")
        check_members(stated, "codec", required=needed, optional=("index_location",))
        problems: list[Problem] = []
        fields = Fields("", stated.configuration, problems)
        shape = fields.integers("chunk_shape", least=1)
        lists = []
        for member in ("codecs", "index_codecs"):
            value = fields.get(member)
            if not isinstance(value, (list, tuple)) or not value:
                fields.error(member, "expected a list of at least one codec")
                value = ()
            places = (f"{member}[{i}]" for i in range(len(value)))
            lists.append(
                tuple(
                    v if isinstance(v, Named) else named(fields, place, v)
                    for place, v in zip(places, value, strict=True)
                )
            )
        location = fields.choice("index_location", ("end", "start"))
        if problems:
            placed = [Problem("", f"configuration.{p.field}", p.message) for p in problems]
            raise InvalidMetadata.of(placed, f"codec {cls.name!r}")
        return cls(shape, lists[0], lists[1], location)

    @property
    def inside(self) -> tuple[Named, ...]:
        """Every codec that this one uses."""
        return (*self.codecs, *self.index_codecs)

    def encoded_size(self, spec: Spec) -> int | None:
        return None

    def for_spec(self, spec: Spec) -> Shards:
        """The codec bound to shards of one shape and type."""
        rank = len(spec.shape)
        if len(self.chunk_shape) != rank:
            message = f"has {len(self.chunk_shape)} entries, but the shard has {rank} axes"
            raise invalid("codec", self.name, "chunk_shape", message)
        for i, (whole, part) in enumerate(zip(spec.shape, self.chunk_shape, strict=True)):
            if part > whole or whole % part:
                message = f"{part} does not divide the shard's length {whole}"
                raise invalid("codec", self.name, f"chunk_shape[{i}]", message)
        counts = tuple(n // c for n, c in zip(spec.shape, self.chunk_shape, strict=True))
        one = Spec(self.chunk_shape, spec.data_type, spec.fill)
        inner = bind_chain(self.codecs, one, "configuration.codecs")
        field, at_end = "configuration.index_codecs", self.index_location == "end"
        try:
            layout = ShardLayout.of(counts, self.index_codecs, at_end=at_end, field=field)
        except InvalidMetadata as e:
            if e.problems:
                raise
            raise invalid("codec", self.name, "index_codecs", str(e)) from None
        return Shards(spec, inner, layout)

    # The chain replaces this object by `for_spec`; these complete the protocol.

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        return self.for_spec(spec).encode(array, spec)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        return self.for_spec(spec).decode(data, spec)


@dataclass(frozen=True, slots=True)
class Shards:
    """Shards of one shape and type."""

    spec: Spec
    inner: Chain
    layout: ShardLayout

    name: ClassVar[str] = "sharding_indexed"
    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        return None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many inner chunks there are along each axis."""
        return self.layout.counts

    # Whole shards

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        keep_empty = config.get().write_empty_chunks
        found: dict[int, Buffer] = {}
        for number, coords in enumerate(np.ndindex(*self.counts)):
            part = _view(array, self._place(coords))
            if keep_empty or not is_fill(part, self.spec.fill):
                found[number] = self.inner.encode(part)
        return self.layout.join(found)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        out = np.empty(spec.shape, spec.data_type.dtype)
        self._fill_from(data, tuple(slice(0, n, 1) for n in spec.shape), out)
        return out

    # Parts of shards

    def steps(self, key: str, region: Region) -> Steps[Decode | None]:
        """Part of a shard, reading only its index and the inner chunks that are touched."""
        if all(len(rows) == n for rows, n in zip(self._rows(region), self.counts, strict=True)):
            [data] = yield [(key, None)]
            return None if data is None else partial(self._fill_from, data, region)
        [stored] = yield [(key, self.layout.index_range)]
        if stored is None:
            return None
        pieces = self.pieces(self.index(stored), region)
        near = joined(p.span for p in pieces if p.span is not None and self._near(p))
        fetched = _fetched(key, near)
        far = [p for p in pieces if p.span is not None and p.span not in near.places]
        several = [fetched, *(self._deeper(key, p) for p in far)]
        parts, *deeper = yield from together(several)
        return partial(self._fill, pieces, parts, dict(zip(map(id, far), deeper, strict=True)))

    def _deeper(self, key: str, piece: Piece) -> Steps[Any]:
        """Part of a large inner shard."""
        with inner_chunk_context(piece.coords):
            found = yield from within(self.inner.steps(key, piece.inside), piece.span or Range())
        return found

    def _fill_from(self, data: Buffer, region: Region, out: npt.NDArray[Any]) -> None:
        """Fill `out` with part of a whole shard."""
        view = memoryview(data)
        pieces = self.pieces(self.index(self.layout.index_range.of(view)), region)
        spans = {p.span for p in pieces if p.span is not None}
        with _codec_context():
            parts = {s: complete(s, s.of(view)) for s in spans}
        self._fill(pieces, parts, {}, out)

    def _fill(
        self,
        pieces: list[Piece],
        parts: dict[Range, Buffer],
        deeper: dict[int, Decode],
        out: npt.NDArray[Any],
    ) -> None:
        for piece in pieces:
            part = _view(out, piece.outside)
            if piece.span is None:
                part[...] = self.spec.fill
                tell(self.outside(piece.coords, piece.inside))
                continue
            place = partial(self.outside, piece.coords)
            with inner_chunk_context(piece.coords), moved(place):
                if piece.span in parts:
                    self.inner.decode_into(parts[piece.span], piece.inside, part)
                else:
                    deeper[id(piece)](part)

    def _near(self, piece: Piece) -> bool:
        """Whether an inner chunk is fetched whole; of a large inner shard a part may do."""
        length = 0 if piece.span is None else piece.span.length or 0
        if not self.inner.reads_parts or length <= GAP:
            return True
        count = math.prod(len(range(s.start, s.stop, s.step)) for s in piece.inside)
        return count == self.inner.spec.size

    def update(
        self, old: Buffer | None, spec: Spec, region: Region, value: npt.NDArray[Any]
    ) -> Buffer | None:
        """A shard with a part replaced; inner chunks that are not touched keep their bytes."""
        with _codec_context():
            chunks = {} if old is None else self.layout.split(old)
        keep_empty = config.get().write_empty_chunks
        one = self.inner.spec
        for coords, inside, outside in self._touched(region):
            part, number = _view(value, outside), self._number(coords)
            if part.shape != one.shape:
                data = self.inner.update(chunks.get(number), inside, part)
            else:
                data = None if is_fill(part, one.fill) else self.inner.encode(part)
            if data is None and keep_empty:
                data = self.inner.encode(np.full(one.shape, one.fill, one.data_type.dtype))
            if data is None:
                chunks.pop(number, None)
            else:
                chunks[number] = data
        return self.layout.join(chunks) if chunks else None

    # Layout

    def _place(self, coords: Coords) -> Region:
        pairs = zip(coords, self.inner.spec.shape, strict=True)
        return tuple(slice(c * n, (c + 1) * n, 1) for c, n in pairs)

    def outside(self, coords: Coords, box: Region) -> Region:
        """A box of an inner chunk as a box of the shard."""
        parts = zip(box, coords, self.inner.spec.shape, strict=True)
        return tuple(slice(s.start + c * n, s.stop + c * n) for s, c, n in parts)

    def _rows(self, region: Region) -> list[list[tuple[int, slice, slice]]]:
        """Along each axis: the inner chunks touched, what part of each, and where that goes."""
        axes = []
        for s, size in zip(region, self.inner.spec.shape, strict=True):
            rows = []
            count = len(range(s.start, s.stop, s.step))
            for c in range(s.start // size, -(-s.stop // size)) if count else ():
                low, high = c * size, (c + 1) * size
                first = max(0, -((s.start - low) // s.step))
                last = min(count, -((s.start - high) // s.step))
                if last > first:
                    begin = s.start + first * s.step - low
                    end = begin + (last - first - 1) * s.step + 1
                    rows.append((c, slice(begin, end, s.step), slice(first, last)))
            axes.append(rows)
        return axes

    def _touched(self, region: Region) -> Iterator[tuple[Coords, Region, Region]]:
        """Inner chunks of a region: which, what part of it, and where that goes."""
        for parts in itertools.product(*self._rows(region)):
            coords, inside, outside = zip(*parts, strict=True) if parts else ((), (), ())
            yield coords, inside, outside

    def _number(self, coords: Coords) -> int:
        number = 0
        for c, n in zip(coords, self.counts, strict=True):
            number = number * n + c
        return number

    def index(self, stored: Buffer) -> Index:
        """The pairs of all inner chunks in C order."""
        with _codec_context():
            return self.layout.index(stored)

    def pieces(self, index: Index, region: Region) -> list[Piece]:
        """The inner chunks of a region and where each lies."""
        touched = list(self._touched(region))
        numbers = [self._number(coords) for coords, _, _ in touched]
        missing = (index[numbers] == MISSING).all(axis=1).tolist()
        out = []
        with _codec_context():
            for number, absent, (coords, inside, outside) in zip(
                numbers, missing, touched, strict=True
            ):
                where = None if absent else span(index, number, coords)
                out.append(Piece(coords, inside, outside, where))
        return out


@dataclass(frozen=True, slots=True)
class Piece:
    """An inner chunk: which, what part of it, where that goes, and its place in the shard."""

    coords: Coords
    inside: Region
    outside: Region
    span: Range | None  # None: there is none


def _fetched(key: str, near: Joined) -> Steps[Any]:
    answers = (yield [(key, part) for part in near.ranges]) if near.ranges else ()
    with _codec_context():
        return near.cut(answers)


def _view(array: npt.NDArray[Any], region: Region) -> npt.NDArray[Any]:
    """Part of an array; the ellipsis keeps a 0-dimensional one an array."""
    index: Any = (*region, ...)
    view: npt.NDArray[Any] = array[index]
    return view


def inner_chunk_context(coords: Coords) -> error_context:
    """Have errors of the block name an inner chunk."""
    return error_context(f"inner chunk {coords}", catch=(ChunkError,))


def _codec_context() -> error_context:
    """Have errors of the block name the codec."""
    name = ShardingIndexed.name
    return error_context(f"codec {name!r}", catch=(ChunkError,), codec=name)
