"""sharding_indexed: many inner chunks in one value, found by an index.

Specification: ``sharding_indexed`` of version 3. Configuration: ``{"chunk_shape": [32, 32],
"codecs": [{"name": "bytes", …}, …], "index_codecs": [{"name": "bytes", "configuration":
{"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}``. The index is a uint64 pair
(offset, length) for every inner chunk in C order, both 2^64-1 where there is none. Inner chunks
may stand in any order with gaps between them. Shards nest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs.chain import Chain, bind_chain
from omnizarr.codecs.codec import Buffer, Configured, Kind, Region, Spec
from omnizarr.codecs.emptiness import is_fill
from omnizarr.codecs.source import MemorySource, PartSource, Source
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import ChunkError, InvalidMetadata, Problem
from omnizarr.model import Named
from omnizarr.model.configuration import check_members, invalid
from omnizarr.model.fields import Fields, named
from omnizarr.stores import Range

MISSING = 2**64 - 1
GAP = 2**16  # parts of a shard that lie closer than this are fetched together
INDEX_CODECS = (Named("bytes", {"endian": "little"}), Named("crc32c"))

Index = npt.NDArray[np.uint64]
Coords = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardingIndexed(Configured):
    chunk_shape: tuple[int, ...]
    codecs: tuple[Named, ...]
    index_codecs: tuple[Named, ...] = INDEX_CODECS
    index_location: str = "end"

    name: ClassVar[str] = "sharding_indexed"
    kind: ClassVar[Kind] = "array->bytes"

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
        uint64 = bind_type(Named("uint64"))
        pairs = Spec((*counts, 2), uint64, uint64.scalar(0))
        index = bind_chain(self.index_codecs, pairs, "configuration.index_codecs")
        if index.encoded_size is None:
            message = "must have a fixed size, so no compression"
            raise invalid("codec", self.name, "index_codecs", message)
        return Shards(spec, inner, index, index.encoded_size, counts, self.index_location == "end")

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
    index_chain: Chain
    index_size: int
    counts: tuple[int, ...]
    at_end: bool

    name: ClassVar[str] = "sharding_indexed"
    kind: ClassVar[Kind] = "array->bytes"

    def encoded_size(self, spec: Spec) -> int | None:
        return None

    # Whole shards

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        keep_empty = config.get().write_empty_chunks
        found: dict[Coords, Buffer] = {}
        for coords in np.ndindex(*self.counts):
            part = _view(array, self._place(coords))
            if keep_empty or not is_fill(part, self.spec.fill):
                found[coords] = self.inner.encode(part)
        return self._join(found)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        whole = tuple(slice(0, n, 1) for n in spec.shape)
        return self._gather(MemorySource(data), self._index_of(data), whole)

    # Parts of shards

    def decode_region(self, source: Source, spec: Spec, region: Region) -> npt.NDArray[Any] | None:
        """Part of a shard, reading only its index and the inner chunks that are touched."""
        if all(len(rows) == n for rows, n in zip(self._rows(region), self.counts, strict=True)):
            data = source.whole()
            return (
                None
                if data is None
                else self._gather(MemorySource(data), self._index_of(data), region)
            )
        found = source.parts([self._index_range])
        return None if found is None else self._gather(source, self._index(found[0]), region)

    def _gather(self, source: Source, index: Index, region: Region) -> npt.NDArray[Any]:
        """The elements of a region, from those inner chunks that the index names."""
        shape = tuple(len(range(s.start, s.stop, s.step)) for s in region)
        out = np.empty(shape, self.spec.data_type.dtype)
        found = []
        for coords, inside, outside in self._touched(region):
            span = _span(index, coords)
            if span is None:
                out[outside] = self.spec.fill
            else:
                found.append((coords, inside, outside, span))
        parts = _fetch(source, [span for _, inside, _, span in found if self._near(inside, span)])
        for coords, inside, outside, span in found:
            within = MemorySource(parts[span]) if span in parts else PartSource(source, span)
            with _telling(f"inner chunk {coords}"):
                out[outside] = self.inner.decode_region(within, inside)
        return out

    def _near(self, inside: Region, span: Range) -> bool:
        """Whether an inner chunk is fetched whole; of a large inner shard a part may do."""
        count = math.prod(len(range(s.start, s.stop, s.step)) for s in inside)
        whole = count == self.inner.spec.size
        return whole or not self.inner.reads_parts or (span.length or 0) <= GAP

    def update(
        self, old: Buffer | None, spec: Spec, region: Region, value: npt.NDArray[Any]
    ) -> Buffer | None:
        """A shard with a part replaced; inner chunks that are not touched keep their bytes."""
        chunks = {} if old is None else self._split(old)
        keep_empty = config.get().write_empty_chunks
        one = self.inner.spec
        for coords, inside, outside in self._touched(region):
            part = _view(value, outside)
            if part.shape != one.shape:
                data = self.inner.update(chunks.get(coords), inside, part)
            else:
                data = None if is_fill(part, one.fill) else self.inner.encode(part)
            if data is None and keep_empty:
                data = self.inner.encode(np.full(one.shape, one.fill, one.data_type.dtype))
            if data is None:
                chunks.pop(coords, None)
            else:
                chunks[coords] = data
        return self._join(chunks) if chunks else None

    # Layout

    def _place(self, coords: Coords) -> Region:
        pairs = zip(coords, self.inner.spec.shape, strict=True)
        return tuple(slice(c * n, (c + 1) * n, 1) for c, n in pairs)

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
            yield (
                tuple(p[0] for p in parts),
                tuple(p[1] for p in parts),
                tuple(p[2] for p in parts),
            )

    def _join(self, chunks: dict[Coords, Buffer]) -> bytes:
        index = np.full((*self.counts, 2), MISSING, np.uint64)
        offset = 0 if self.at_end else self.index_size
        parts: list[Buffer] = []
        for coords, data in sorted(chunks.items()):
            index[coords] = offset, len(data)
            offset += len(data)
            parts.append(data)
        stored = self.index_chain.encode(index)
        return b"".join([*parts, stored] if self.at_end else [stored, *parts])

    def _split(self, data: Buffer) -> dict[Coords, Buffer]:
        """The encoded inner chunks of a shard."""
        index = self._index_of(data)
        spans = {c: _span(index, c) for c in np.ndindex(*self.counts)}
        known = {c: span for c, span in spans.items() if span is not None}
        parts = _fetch(MemorySource(data), list(known.values()))
        return {c: parts[span] for c, span in known.items()}

    @property
    def _index_range(self) -> Range:
        return Range(-self.index_size) if self.at_end else Range(0, self.index_size)

    def _index_of(self, shard: Buffer) -> Index:
        return self._index(self._index_range.of(memoryview(shard)))

    def _index(self, stored: Buffer) -> Index:
        if len(stored) != self.index_size:
            raise _fault(f"there are {len(stored)} bytes, the index alone needs {self.index_size}")
        with _telling("index of the shard"):
            return self.index_chain.decode(stored)


def _span(index: Index, coords: Coords) -> Range | None:
    """Where an inner chunk lies in its shard, or None where there is none."""
    offset, length = (int(v) for v in index[coords])
    if offset == MISSING and length == MISSING:
        return None
    if MISSING in (offset, length) or offset + length >= 2**63:
        raise _fault(
            f"the index entry of inner chunk {coords} is damaged (offset {offset}, length {length})"
        )
    return Range(offset, length)


def _fetch(source: Source, spans: list[Range]) -> dict[Range, Buffer]:
    """The bytes of several spans, fetched in as few requests as makes sense."""
    groups: list[list[Range]] = []
    end = 0
    for span in sorted(set(spans), key=lambda s: s.start):
        if groups and span.start - end <= GAP:
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.start + (span.length or 0))
    ranges = [
        Range(g[0].start, max(s.start + (s.length or 0) for s in g) - g[0].start) for g in groups
    ]
    answers = source.parts(ranges) if ranges else []
    if answers is None:
        raise _fault("the shard vanished while it was read")
    out: dict[Range, Buffer] = {}
    for group, whole, data in zip(groups, ranges, answers, strict=True):
        view = memoryview(data)
        for span in group:
            out[span] = Range(span.start - whole.start, span.length).of(view)
            if len(out[span]) != span.length:
                raise _fault(
                    f"the index names {span.length} bytes from {span.start} on,"
                    " but the shard is shorter"
                )
    return out


def _view(array: npt.NDArray[Any], region: Region) -> npt.NDArray[Any]:
    """Part of an array; the ellipsis keeps a 0-dimensional one an array."""
    index: Any = (*region, ...)
    view: npt.NDArray[Any] = array[index]
    return view


@contextmanager
def _telling(place: str) -> Iterator[None]:
    """Have errors say in which part of a shard they arose."""
    try:
        yield
    except ChunkError as e:
        raise ChunkError(f"{place}: {e}", codec=e.codec) from e


def _fault(message: str) -> ChunkError:
    return ChunkError(f"codec {ShardingIndexed.name!r}: {message}", codec=ShardingIndexed.name)
