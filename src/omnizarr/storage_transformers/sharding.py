"""The draft's sharding: several chunks in one value, with an index at its end.

Specification: storage transformer ``…/extensions/storage-transformers/sharding/1.0`` of the
draft, type ``indexed``. Configuration: ``{"chunks_per_shard": [2, 2]}``. The index is a
little-endian uint64 pair (offset, length) for every chunk in C order, both 2^64-1 where there is
no chunk, without a checksum. zarr-python 2.13 to 2.18 wrote the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnizarr.chunk_grids import Grid
from omnizarr.chunk_key_encodings import ChunkKeyEncoding
from omnizarr.errors import ChunkError, InvalidMetadata
from omnizarr.model import Named
from omnizarr.stores import Range, Store, get_many, list_prefix
from omnizarr.stores.store import Bytes

MISSING = 2**64 - 1


class IndexedShards:
    """Shows single chunks of a store that holds shards."""

    def __init__(
        self, store: Store, prefix: str, named: Named, encoding: ChunkKeyEncoding, grid: Grid
    ) -> None:
        config = named.configuration.get("configuration", {})
        per_shard = config.get("chunks_per_shard") if isinstance(config, dict) else None
        if named.configuration.get("type") != "indexed":
            raise InvalidMetadata(
                f"sharding: type {named.configuration.get('type')!r} is not known; use 'indexed'"
            )
        good = isinstance(per_shard, list) and all(
            isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in per_shard
        )
        if not good or per_shard is None or len(per_shard) != len(grid.axes):
            raise InvalidMetadata(
                f"sharding: chunks_per_shard must be {len(grid.axes)} positive integers,"
                f" got {per_shard!r}"
            )
        self.store = store
        self.prefix = prefix
        self.encoding = encoding
        self.per_shard = tuple(per_shard)
        self.read_only = store.read_only

    def _place(self, key: str) -> tuple[str, int] | None:
        """The shard that a chunk lies in and its number there, or None for other keys."""
        if not key.startswith(self.prefix):
            return None
        coords = self.encoding.coords(key[len(self.prefix) :], len(self.per_shard))
        if coords is None:
            return None
        shard = tuple(c // n for c, n in zip(coords, self.per_shard, strict=True))
        within = tuple(c % n for c, n in zip(coords, self.per_shard, strict=True))
        number = int(np.ravel_multi_index(within, self.per_shard)) if within else 0
        return self.prefix + self.encoding.key(shard), number

    @property
    def _index_size(self) -> int:
        return 16 * int(math.prod(self.per_shard))

    def _index(self, shard: str, data: bytes | None) -> npt.NDArray[np.uint64] | None:
        if data is None:
            return None
        if len(data) != self._index_size:
            raise ChunkError(
                f"shard {shard!r} is shorter than its index of {self._index_size} bytes", key=shard
            )
        return np.frombuffer(data, "<u8").reshape(-1, 2)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        place = self._place(key)
        if place is None:
            return self.store.get(key, range)
        shard, number = place
        index = self._index(shard, self.store.get(shard, Range(-self._index_size)))
        if index is None:
            return None
        span = _span(shard, index, number)
        if span is None:
            return None
        value = self.store.get(shard, span)
        if value is None or len(value) != span.length:
            raise ChunkError(f"shard {shard!r} ends before the chunk its index names", key=shard)
        return value if range is None else range.of(value)

    def _read(self, shard: str) -> dict[int, bytes]:
        data = self.store.get(shard)
        if data is None:
            return {}
        index = self._index(shard, data[-self._index_size :])
        assert index is not None  # noqa: S101 - data is not None
        found = {}
        for number in np.flatnonzero((index != MISSING).any(axis=1)).tolist():
            span = _span(shard, index, number)
            if span is not None:
                found[number] = span.of(data)
                if len(found[number]) != span.length:
                    raise ChunkError(f"shard {shard!r}: its index points past its end", key=shard)
        return found

    def _write(self, shard: str, chunks: dict[int, bytes]) -> None:
        if not chunks:
            self.store.erase(shard)
            return
        index = np.full((math.prod(self.per_shard), 2), MISSING, "<u8")
        parts, offset = [], 0
        for number, value in sorted(chunks.items()):
            index[number] = offset, len(value)
            parts.append(value)
            offset += len(value)
        self.store.set(shard, b"".join([*parts, index.tobytes()]))

    def set(self, key: str, value: Bytes) -> None:
        place = self._place(key)
        if place is None:
            self.store.set(key, value)
            return
        shard, number = place
        self._write(shard, {**self._read(shard), number: bytes(value)})

    def erase(self, key: str) -> None:
        place = self._place(key)
        if place is None:
            self.store.erase(key)
            return
        shard, number = place
        chunks = self._read(shard)
        if chunks.pop(number, None) is not None:
            self._write(shard, chunks)

    def list(self) -> Iterator[str]:
        yield from self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        rank = len(self.per_shard)
        for shard in list_prefix(self.store, ""):
            inside = shard[len(self.prefix) :] if shard.startswith(self.prefix) else ""
            coords = self.encoding.coords(inside, rank) if inside else None
            if coords is None:
                if shard.startswith(prefix):
                    yield shard
                continue
            [data] = get_many(self.store, [(shard, Range(-self._index_size))])
            index = self._index(shard, data)
            if index is None:
                continue
            for number in np.flatnonzero((index != MISSING).all(axis=1)).tolist():
                within = np.unravel_index(number, self.per_shard) if rank else ()
                chunk = tuple(
                    int(s * n + w) for s, n, w in zip(coords, self.per_shard, within, strict=True)
                )
                key = self.prefix + self.encoding.key(chunk)
                if key.startswith(prefix):
                    yield key


def _span(shard: str, index: npt.NDArray[np.uint64], number: int) -> Range | None:
    offset, length = (int(v) for v in index[number])
    if offset == MISSING and length == MISSING:
        return None
    if MISSING in (offset, length) or offset + length >= 2**63:
        raise ChunkError(f"shard {shard!r}: entry {number} of its index is damaged", key=shard)
    return Range(offset, length)
