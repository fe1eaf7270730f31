"""sharding_indexed: many inner chunks in one value, the shard, found by an index.

The index is a uint64 pair (offset, length) for every inner chunk in C order, both 2^64-1 where
there is none, stored by codecs of its own at the start or the end. Inner chunks may be stored in
any order, with gaps between them. The chunk cache and the draft's sharding use `ShardLayout`, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from omnizarr import config
from omnizarr.chunk_grids import Grid, RegularAxis
from omnizarr.codecs import codec
from omnizarr.codecs.codec import ArrayBytes, Buffer, Configured, Kind, Region, Spec, is_fill
from omnizarr.codecs.pipeline import CodecPipeline, Decode, Requests, bind_pipeline
from omnizarr.data_types import bind as bind_type
from omnizarr.errors import ChunkError, error_context
from omnizarr.model import Named
from omnizarr.model.fields import Fields
from omnizarr.model.node import check_members, invalid
from omnizarr.stores import Range
from omnizarr.stores.byte_ranges import JoinedRanges, join_ranges

MISSING = 2**64 - 1
MAX_GAP = 2**16  # bytes between parts of a shard that are fetched together
INDEX_CODECS = (Named("bytes", {"endian": "little"}), Named("crc32c"))
Index = npt.NDArray[np.uint64]
Coords = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """The layout of shards with a fixed number of chunks, and of their index."""

    counts: tuple[int, ...]  # of chunks along each axis
    index_pipeline: CodecPipeline
    index_size: int
    at_end: bool

    @classmethod
    def of(
        cls, counts: tuple[int, ...], codecs: tuple[Named, ...], *, at_end: bool, field: str
    ) -> ShardLayout:
        """Return the layout with these index codecs, which the metadata have in `field`."""
        uint64 = bind_type(Named("uint64"))
        pairs = Spec((*counts, 2), uint64, uint64.scalar(0))
        pipeline = bind_pipeline(codecs, pairs, field)
        if pipeline.encoded_size is None:
            message = "must have a fixed size, so no compression"
            raise invalid("codec", ShardingIndexed.name, "index_codecs", message)
        return cls(counts, pipeline, pipeline.encoded_size, at_end)

    @property
    def count(self) -> int:
        """The number of chunks that a shard has room for."""
        return math.prod(self.counts)

    def number(self, coords: Coords) -> int:
        """Return the number of a chunk in the index, from its coordinates in the shard."""
        number = 0
        for c, n in zip(coords, self.counts, strict=True):
            number = number * n + c
        return number

    def locate(self, chunk: Coords) -> tuple[Coords, int]:
        """Return the shard of a chunk of the whole grid, and the chunk's number there."""
        pairs = [divmod(c, n) for c, n in zip(chunk, self.counts, strict=True)]
        return tuple(c for c, _ in pairs), self.number(tuple(c for _, c in pairs))

    def chunk(self, shard: Coords, number: int) -> Coords:
        """Return the coordinates in the whole grid of a chunk of a shard; undoes `locate`."""
        coords = []
        for s, n in zip(reversed(shard), reversed(self.counts), strict=True):
            number, within = divmod(number, n)
            coords.append(s * n + within)
        return tuple(reversed(coords))

    @property
    def index_range(self) -> Range:
        """The byte range of the index in the shard."""
        return Range(-self.index_size) if self.at_end else Range(0, self.index_size)

    def index(self, stored: Buffer) -> Index:
        """Return the pair of every chunk, from the stored bytes of the index."""
        if len(stored) != self.index_size:
            raise ChunkError(
                f"the shard has {len(stored)} bytes, which is shorter than its index of"
                f" {self.index_size} bytes"
            )
        with error_context("index of the shard"):
            return self.index_pipeline.decode(stored).reshape(-1, 2)

    def index_of(self, shard: Buffer) -> Index:
        """Return the index of a whole shard."""
        return self.index(self.index_range.of(memoryview(shard)))

    def join(self, chunks: Mapping[int, Buffer]) -> bytes:
        """Return the shard with these chunks, by their numbers."""
        index = np.full((self.count, 2), MISSING, np.uint64)
        offset = 0 if self.at_end else self.index_size
        parts: list[Buffer] = []
        for number, data in sorted(chunks.items()):
            index[number] = offset, len(data)
            offset += len(data)
            parts.append(data)
        stored = self.index_pipeline.encode(index.reshape(*self.counts, 2))
        return b"".join([*parts, stored] if self.at_end else [stored, *parts])

    def split(self, shard: Buffer, leave: Iterable[int] = ()) -> dict[int, Buffer]:
        """Return the chunks of a shard by number; those to `leave` out may be damaged."""
        index, left = self.index_of(shard), set(leave)
        ranges = {n: chunk_range(index, n) for n in present(index) if n not in left}
        view = memoryview(shard)
        return {n: check_length(r, r.of(view)) for n, r in ranges.items() if r is not None}


def present(index: Index) -> list[int]:
    """Return the numbers of the chunks that the index lists, including damaged entries."""
    numbers: list[int] = np.flatnonzero((index != MISSING).any(axis=1)).tolist()
    return numbers


def chunk_range(index: Index, number: int, coords: Coords | None = None) -> Range | None:
    """Return the byte range of a chunk in its shard, or None if it is missing.

    Errors name the chunk by its number, or by its coordinates in the shard if they are given.
    """
    offset, length = index[number].tolist()
    if offset == length == MISSING:
        return None
    if MISSING in (offset, length) or offset + length >= 2**63:
        what = f"chunk {number}" if coords is None else f"inner chunk {coords}"
        raise ChunkError(f"the index entry of {what} is damaged (offset {offset}, length {length})")
    return Range(offset, length)


def check_length(where: Range, data: memoryview | Buffer | None) -> Buffer:
    """Return a chunk's bytes, or raise if they are fewer than the index says."""
    if data is None or len(data) != where.length:
        raise ChunkError(
            f"the index names {where.length} bytes from {where.start} on, but the shard is shorter"
        )
    return data


def split_joined(joined: JoinedRanges, answers: Sequence[Buffer | None]) -> dict[Range, Buffer]:
    """Split the bytes of joined ranges into the ranges that were wanted."""
    views = [None if a is None else memoryview(a) for a in answers]
    out: dict[Range, Buffer] = {}
    for part, (number, inside) in joined.places.items():
        view = views[number]
        out[part] = check_length(part, None if view is None else inside.of(view))
    return out


@dataclass(frozen=True, slots=True)
class ShardingIndexed(Configured):
    """The codec ``sharding_indexed`` of version 3; shards may nest.

    ``{"chunk_shape": [32, 32], "codecs": [{"name": "bytes", …}, …], "index_codecs": [{"name":
    "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}``

    Attributes:
        chunk_shape: The shape of the chunks in a shard.
        codecs: The codecs of these chunks.
        index_codecs: The codecs of the index.
        index_location: ``"end"`` or ``"start"``.

    Examples:
        >>> shards = oz.codecs.ShardingCodec(chunk_shape=(2, 2))
        >>> oz.create_array(shape=(8, 8), chunks=(4, 4), codecs=[shards]).shards
        (4, 4)
    """

    chunk_shape: tuple[int, ...]
    codecs: tuple[Named, ...] = (Named("bytes"),)
    index_codecs: tuple[Named, ...] = INDEX_CODECS
    index_location: str = "end"

    name: ClassVar[str] = "sharding_indexed"
    codec_lists: ClassVar[tuple[str, ...]] = ("codecs", "index_codecs")
    kind: ClassVar[Kind] = "array->bytes"

    def __post_init__(self) -> None:
        given: Any = self.chunk_shape
        shape = (given,) if isinstance(given, int) else tuple(given)
        object.__setattr__(self, "chunk_shape", shape)
        self.name_codecs()

    @classmethod
    def bind(cls, stated: Named) -> ShardingIndexed:
        needed = ("chunk_shape", "codecs", "index_codecs")
        check_members(stated, "codec", required=needed, optional=("index_location",))
        fields = Fields("", stated.configuration, [])
        shape = fields.integers("chunk_shape", least=1)
        location = fields.choice("index_location", ("end", "start"))
        codec.raise_problems(fields, cls.name)
        codecs, index_codecs = codec.inner_codecs(stated, "codecs", "index_codecs")
        return cls(shape, codecs, index_codecs, location)

    @property
    def inside(self) -> tuple[Named, ...]:
        """All codecs inside this one."""
        return (*self.codecs, *self.index_codecs)

    def for_spec(self, spec: Spec) -> Shards:
        """Return the codec bound to shards of one shape and type."""
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
        inner = bind_pipeline(self.codecs, one, "configuration.codecs")
        field, at_end = "configuration.index_codecs", self.index_location == "end"
        layout = ShardLayout.of(counts, self.index_codecs, at_end=at_end, field=field)
        return Shards(spec, inner, layout)


@dataclass(frozen=True, slots=True)
class InnerChunk:
    """The part of one inner chunk that a read needs."""

    coords: Coords
    inside: Region  # the box in the inner chunk
    outside: Region  # its box in the result
    range: Range | None  # the bytes in the shard, None if it is missing


@dataclass(frozen=True, slots=True)
class Shards(ArrayBytes):
    """The codec bound to shards of one shape and type."""

    spec: Spec
    inner: CodecPipeline
    layout: ShardLayout

    name: ClassVar[str] = ShardingIndexed.name

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of inner chunks along each axis."""
        return self.layout.counts

    @property
    def grid(self) -> Grid:
        """The grid of inner chunks over the shard."""
        return Grid(tuple(map(RegularAxis, self.spec.shape, self.inner.spec.shape)))

    @property
    def whole(self) -> Region:
        """The box of all elements."""
        return tuple(slice(0, n, 1) for n in self.spec.shape)

    # Whole shards

    def encode(self, array: npt.NDArray[Any], spec: Spec) -> Buffer:
        keep_empty = config.get().write_empty_chunks
        found: dict[int, Buffer] = {}
        for number, (_, _, box) in enumerate(self.grid.intersect(self.whole)):
            part = _view(array, box)
            if keep_empty or not is_fill(part, self.spec.fill):
                found[number] = self.inner.encode(part)
        return self.layout.join(found)

    def decode(self, data: Buffer, spec: Spec) -> npt.NDArray[Any]:
        return self.decode_whole(data)[0]

    def decode_whole(self, data: Buffer) -> tuple[npt.NDArray[Any], list[Region]]:
        """Return the array of a whole shard, and its boxes without data."""
        out = np.empty(self.spec.shape, self.spec.data_type.dtype)
        return out, self.decode_part(data, self.whole, out)

    # Parts of shards

    def read_part(self, key: str, region: Region) -> Requests[Decode | None]:
        """Fetch part of a shard: its index, and the inner chunks that the region touches."""
        if math.prod(map(len, self.grid.intersect_axes(region))) == self.layout.count:
            [data] = yield [(key, None)]
            return None if data is None else partial(self.decode_part, data, region)
        [stored] = yield [(key, self.layout.index_range)]
        if stored is None:
            return None
        chunks = self.inner_chunks(self.index(stored), region)
        wanted = join_ranges((c.range for c in chunks if c.range is not None), MAX_GAP)
        answers = (yield [(key, part) for part in wanted.ranges]) if wanted.ranges else ()
        with _codec_context():
            return partial(self._decode_chunks, chunks, split_joined(wanted, answers))

    def decode_part(self, data: Buffer, region: Region, out: npt.NDArray[Any]) -> list[Region]:
        """Fill `out` with part of a whole shard; return boxes without data."""
        view = memoryview(data)
        chunks = self.inner_chunks(self.index(self.layout.index_range.of(view)), region)
        ranges = {c.range for c in chunks if c.range is not None}
        with _codec_context():
            fetched = {r: check_length(r, r.of(view)) for r in ranges}
        return self._decode_chunks(chunks, fetched, out)

    def _decode_chunks(
        self, chunks: list[InnerChunk], fetched: dict[Range, Buffer], out: npt.NDArray[Any]
    ) -> list[Region]:
        """Fill `out` from the bytes of inner chunks; return the boxes of missing ones."""
        missing: list[Region] = []
        for chunk in chunks:
            part, boxes = _view(out, chunk.outside), [chunk.inside]
            if chunk.range is None:
                part[...] = self.spec.fill
            else:
                with inner_chunk_context(chunk.coords):
                    boxes = self.inner.decode_into(fetched[chunk.range], chunk.inside, part)
            missing += [self._to_shard(chunk.coords, box) for box in boxes]
        return missing

    def update(
        self, old: Buffer | None, spec: Spec, region: Region, value: npt.NDArray[Any]
    ) -> Buffer | None:
        """Return a shard with a part replaced; other inner chunks keep their bytes."""
        with _codec_context():
            chunks = {} if old is None else self.layout.split(old)
        keep_empty = config.get().write_empty_chunks
        one = self.inner.spec
        for coords, inside, outside in self.grid.intersect(region):
            part, number = _view(value, outside), self.layout.number(coords)
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

    def _to_shard(self, coords: Coords, box: Region) -> Region:
        """Return a box of an inner chunk as a box of the shard."""
        parts = zip(box, coords, self.inner.spec.shape, strict=True)
        return tuple(slice(s.start + c * n, s.stop + c * n) for s, c, n in parts)

    def index(self, stored: Buffer) -> Index:
        """Return the pairs of all inner chunks in C order, from the stored bytes of the index."""
        with _codec_context():
            return self.layout.index(stored)

    def inner_chunks(self, index: Index, region: Region) -> list[InnerChunk]:
        """Return the inner chunks that a region touches, with their byte ranges."""
        out = []
        with _codec_context():
            for coords, inside, outside in self.grid.intersect(region):
                where = chunk_range(index, self.layout.number(coords), coords)
                out.append(InnerChunk(coords, inside, outside, where))
        return out


def _view(array: npt.NDArray[Any], region: Region) -> npt.NDArray[Any]:
    """Return a view of part of an array; the ellipsis keeps a 0-dimensional one an array."""
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
