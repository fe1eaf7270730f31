"""Whether one stored chunk, or one shard with all of its chunks, can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from omnizarr.codecs import Chain
from omnizarr.codecs.codec import Buffer
from omnizarr.codecs.shard_layout import complete, present, span
from omnizarr.codecs.sharding_indexed import Shards
from omnizarr.engine import BoundArray
from omnizarr.errors import ChunkError, OmnizarrError, StoreError
from omnizarr.model.numcodecs_ids import CHECKSUMS, PREFIX
from omnizarr.stores import Range, get_many
from omnizarr.stores.store import TellsSizes

Depth: TypeAlias = Literal["present", "checksums", "decode"]
Coords: TypeAlias = tuple[int, ...]
CHECKSUM_CODECS = frozenset({"crc32c", *(PREFIX + id_ for id_ in CHECKSUMS)})
BATCH = 2**24  # bytes of a shard that are fetched together


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk, or shard, and the key that it is stored under."""

    array: BoundArray
    coords: Coords
    key: str


@dataclass
class Faults:
    """What was found in one stored value."""

    chunks: int = 0
    unchecked: int = 0
    nbytes: int = 0
    told: list[tuple[Coords, str]] = field(default_factory=list)


def chunk_keys(stored: Chunk) -> Iterator[Chunk]:
    """The chunks as the codecs see them: several where a storage transformer packs them."""
    array = stored.array
    for key in _unpacked(array.chunk_store, stored.key):
        coords = array.encoding.coords(key[len(array.prefix) :], len(array.model.shape))
        if coords is not None:
            yield Chunk(array, coords, key)


def _unpacked(store: Any, key: str) -> Iterator[str]:
    if not hasattr(store, "chunks_in"):
        yield key
        return
    for outer in _unpacked(store.store, key):
        yield from store.chunks_in(outer)


def check_chunk(chunk: Chunk, depth: Depth, faults: Faults) -> None:
    """Look at one chunk; what is wrong with parts of a shard is told one by one."""
    array = chunk.array
    chain = array.chain(array.grid.chunk_shape(chunk.coords))
    if chain.sharded is not None:
        _check_shard(chunk, chain.sharded[0], chain.sharded[1], depth, faults)
        return
    faults.chunks += 1
    if depth == "present":
        size = _size(array, chunk.key)
        if None not in (size, chain.encoded_size) and size != chain.encoded_size:
            raise ChunkError(f"has {size} bytes, expected {chain.encoded_size}")
        return
    data = array.chunk_store.get(chunk.key)
    if data is None:
        raise StoreError("vanished while it was looked at")
    _check_bytes(chain, data, depth, faults)


def _check_bytes(chain: Chain, data: Buffer, depth: Depth, faults: Faults) -> None:
    faults.nbytes += len(data)
    if depth == "decode":
        chain.decode(data)
        return
    if chain.encoded_size is not None and len(data) != chain.encoded_size:
        raise ChunkError(f"has {len(data)} bytes, expected {chain.encoded_size}")
    step, size = chain.bytes_bytes[-1] if chain.bytes_bytes else (None, None)
    name = getattr(step, "name", "")
    if step is None or name not in CHECKSUM_CODECS:
        faults.unchecked += 1
        return
    try:
        step.decode(data, size)
    except MemoryError:
        raise
    except Exception as e:  # codecs of any package may raise anything
        raise ChunkError(f"codec {name!r}: {e}", codec=name) from e


def _check_shard(chunk: Chunk, shards: Shards, axes: Coords, depth: Depth, faults: Faults) -> None:
    array, layout = chunk.array, shards.layout
    stored = array.chunk_store.get(chunk.key, layout.index_range)
    if stored is None:
        raise StoreError("vanished while it was looked at")
    index = shards.index(stored)
    faults.nbytes += len(stored)
    size = _size(array, chunk.key)
    places: list[tuple[Coords, Range]] = []
    for number in present(index):
        faults.chunks += 1
        coords = _place(chunk, shards, axes, number)
        try:
            where = span(index, number)
            if where is not None:
                _check_span(where, shards, size)
                places.append((coords, where))
        except OmnizarrError as e:
            faults.told.append((coords, str(e)))
    _tell_overlaps(places, faults)
    if depth != "present":
        for some in _batches(places):
            _check_inner(chunk, shards.inner, some, depth, faults)


def _tell_overlaps(places: list[tuple[Coords, Range]], faults: Faults) -> None:
    """Tell of chunks that share some of their bytes; those of equal chunks may be the same."""
    known: Coords = ()
    end, last = 0, Range(0, 0)
    for coords, where in sorted(places, key=lambda place: (place[1].start, place[1].length or 0)):
        if where.start < end and where != last:
            shared = f"bytes {where.start} to {min(end, where.start + (where.length or 0))}"
            faults.told.append((coords, f"the index gives it {shared}, which are chunk {known}'s"))
        if where.start + (where.length or 0) > end:
            known, end, last = coords, where.start + (where.length or 0), where


def _check_span(where: Range, shards: Shards, size: int | None) -> None:
    """Raise where a chunk does not lie in the shard, beside its index."""
    layout, end = shards.layout, where.start + (where.length or 0)
    low = 0 if layout.at_end else layout.index_size
    high = None if size is None else size - (layout.index_size if layout.at_end else 0)
    if where.start < low or (high is not None and end > high):
        raise ChunkError(
            f"the index names bytes {where.start} to {end}, but chunks lie from {low} to {high}"
        )
    expected = shards.inner.encoded_size
    if expected is not None and where.length != expected:
        raise ChunkError(f"has {where.length} bytes, expected {expected}")


def _check_inner(
    chunk: Chunk, inner: Chain, some: list[tuple[Coords, Range]], depth: Depth, faults: Faults
) -> None:
    found = get_many(chunk.array.chunk_store, [(chunk.key, where) for _, where in some])
    for (coords, where), data in zip(some, found, strict=True):
        try:
            _check_bytes(inner, complete(where, data), depth, faults)
        except OmnizarrError as e:
            faults.told.append((coords, str(e)))


def _batches(places: list[tuple[Coords, Range]]) -> Iterator[list[tuple[Coords, Range]]]:
    some: list[tuple[Coords, Range]] = []
    total = 0
    for coords, where in places:
        if some and total + (where.length or 0) > BATCH:
            yield some
            some, total = [], 0
        some.append((coords, where))
        total += where.length or 0
    if some:
        yield some


def _place(chunk: Chunk, shards: Shards, axes: Coords, number: int) -> Coords:
    """A chunk of a shard, by its place in the array's grid of such chunks."""
    place = [0] * len(axes)
    origin = chunk.array.grid.origin(chunk.coords)
    for axis, count, size in reversed(
        [*zip(axes, shards.counts, shards.inner.spec.shape, strict=True)]
    ):
        number, inside = divmod(number, count)
        place[axis] = origin[axis] // size + inside
    return tuple(place)


def _size(array: BoundArray, key: str) -> int | None:
    """Bytes of a stored value, where the store can tell without fetching it."""
    store = array.chunk_store
    if not isinstance(store, TellsSizes):
        return None
    size = store.sizes([key]).get(key)
    if size is None:
        raise StoreError("is listed, but there is no value that can be read")
    return size
