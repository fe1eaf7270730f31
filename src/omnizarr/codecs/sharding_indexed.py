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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.codecs.chain import Chain, bind_chain
from omnizarr.codecs.codec import Buffer, Configured, Kind, Region, Spec
from omnizarr.codecs.emptiness import is_fill
from omnizarr.codecs.source import MemorySource, Source
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import InvalidMetadata, Problem
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
    index_codecs: tuple[Named, ...]
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
            first = problems[0]
            raise invalid("codec", cls.name, first.field, first.message)
        return cls(shape, lists[0], lists[1], location)

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
        inner = bind_chain(self.codecs, Spec(self.chunk_shape, spec.data_type, spec.fill))
        uint64 = bind_type(Named("uint64"))
        index = bind_chain(self.index_codecs, Spec((*counts, 2), uint64, uint64.scalar(0)))
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
            part = array[self._place(coords)]
            if keep_empty or not is_fill(part, self.spec.fill):
                found[coords] = self.inner.encode(part)
        return self._join(found)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        whole = tuple(slice(0, n, 1) for n in spec.shape)
        out = self.decode_region(MemorySource(data), spec, whole)
        if out is None:
            raise InvalidMetadata("a shard in memory cannot be missing")
        return out

    # Parts of shards

    def decode_region(self, source: Source, spec: Spec, region: Region) -> npt.NDArray[Any] | None:
        """Part of a shard, reading only its index and the inner chunks that are touched."""
        wanted = list(self._touched(region))
        if len(wanted) == math.prod(self.counts):
            data = source.whole()
            if data is None:
                return None
            source = MemorySource(data)
        index = self._read_index(source)
        if index is None:
            return None
        shape = tuple(len(range(s.start, s.stop, s.step)) for s in region)
        out = np.empty(shape, self.spec.data_type.dtype)
        spans = [(t, self._span(index, t[0])) for t in wanted]
        parts = self._fetch(source, [span for _, span in spans if span is not None])
        for (_, inside, outside), span in spans:
            if span is None:
                out[outside] = self.spec.fill
            else:
                part = self.inner.decode_region(MemorySource(parts[span]), inside)
                out[outside] = self.spec.fill if part is None else part
        return out

    def update(
        self, old: Buffer | None, spec: Spec, region: Region, value: npt.NDArray[Any]
    ) -> Buffer | None:
        """A shard with a part replaced; inner chunks that are not touched keep their bytes."""
        chunks = {} if old is None else self._split(old)
        keep_empty = config.get().write_empty_chunks
        for coords, inside, outside in self._touched(region):
            part = value[outside]
            if part.shape != self.inner.spec.shape:
                before = chunks.get(coords)
                data = self.inner.update(before, inside, part)
                if data is None and keep_empty:
                    data = self.inner.encode(np.full(self.inner.spec.shape, self.spec.fill))
            elif keep_empty or not is_fill(part, self.spec.fill):
                data = self.inner.encode(part)
            else:
                data = None
            if data is None:
                chunks.pop(coords, None)
            else:
                chunks[coords] = data
        return self._join(chunks) if chunks else None

    # Layout

    def _place(self, coords: Coords) -> Region:
        pairs = zip(coords, self.inner.spec.shape, strict=True)
        return tuple(slice(c * n, (c + 1) * n, 1) for c, n in pairs)

    def _touched(self, region: Region) -> Iterator[tuple[Coords, Region, Region]]:
        """Inner chunks of a region: which, what part of it, and where that goes."""
        axes = []
        for s, size in zip(region, self.inner.spec.shape, strict=True):
            rows = []
            for c in range(s.start // size, -(-s.stop // size)) if s.stop > s.start else ():
                low, high = c * size, (c + 1) * size
                first = max(0, -((s.start - low) // s.step))
                last = min(len(range(s.start, s.stop, s.step)), -((s.start - high) // s.step))
                if last > first:
                    begin = s.start + first * s.step - low
                    end = begin + (last - first - 1) * s.step + 1
                    rows.append((c, slice(begin, end, s.step), slice(first, last)))
            axes.append(rows)
        for parts in itertools.product(*axes):
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

    def _read_index(self, source: Source) -> Index | None:
        where = Range(-self.index_size) if self.at_end else Range(0, self.index_size)
        found = source.parts([where])
        if found is None:
            return None
        if len(found[0]) != self.index_size:
            raise ValueError(
                f"the shard has {len(found[0])} bytes, its index alone needs {self.index_size}"
            )
        return self.index_chain.decode(found[0])

    def _span(self, index: Index, coords: Coords) -> Range | None:
        offset, length = (int(v) for v in index[coords])
        if offset == MISSING and length == MISSING:
            return None
        if MISSING in (offset, length) or offset + length >= 2**63:
            raise ValueError(f"the index entry of inner chunk {coords} is damaged")
        return Range(offset, length)

    def _split(self, data: Buffer) -> dict[Coords, Buffer]:
        """The encoded inner chunks of a shard."""
        source = MemorySource(data)
        index = self._read_index(source)
        if index is None:
            return {}
        spans = {c: self._span(index, c) for c in np.ndindex(*self.counts)}
        known = {c: span for c, span in spans.items() if span is not None}
        parts = self._fetch(source, list(known.values()))
        return {c: parts[span] for c, span in known.items()}

    def _fetch(self, source: Source, spans: list[Range]) -> dict[Range, Buffer]:
        """The bytes of several spans, fetched in as few requests as makes sense."""
        groups: list[list[Range]] = []
        end = 0
        for span in sorted(set(spans), key=lambda s: s.start):
            if groups and span.start - end <= GAP:
                groups[-1].append(span)
            else:
                groups.append([span])
                end = 0
            end = max(end, span.start + (span.length or 0))
        ranges = [
            Range(g[0].start, max(s.start + (s.length or 0) for s in g) - g[0].start)
            for g in groups
        ]
        answers = source.parts(ranges) if ranges else []
        if answers is None:
            raise ValueError("the shard vanished while it was read")
        out: dict[Range, Buffer] = {}
        for group, range_, data in zip(groups, ranges, answers, strict=True):
            view = memoryview(data)
            for span in group:
                start = span.start - range_.start
                out[span] = view[start : start + (span.length or 0)]
                if len(out[span]) != span.length:
                    raise ValueError(
                        f"the index names bytes {span.start} to {span.start + (span.length or 0)},"
                        " but the shard is shorter"
                    )
        return out
