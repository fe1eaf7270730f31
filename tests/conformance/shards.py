"""Shards packed and unpacked by hand, and a store that counts requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import google_crc32c
import numpy as np

from omnizarr.stores import Range
from tests.conformance.key_value import PrefixStore
from tests.conformance.v3_metadata import array_doc, put, regular

MISSING = 2**64 - 1
GZIP = {"name": "gzip", "configuration": {"level": 1}}
CRC32C = {"name": "crc32c"}


def raw(endian: str = "little") -> dict[str, Any]:
    """Return the codec for raw items."""
    return {"name": "bytes", "configuration": {"endian": endian}}


def sharding(*chunk_shape: int, **members: Any) -> dict[str, Any]:
    """Return the codec with raw inner chunks; members replaced, added, or (with ...) dropped."""
    configuration = {
        "chunk_shape": list(chunk_shape),
        "codecs": [raw()],
        "index_codecs": [raw(), CRC32C],
        **members,
    }
    kept = {name: value for name, value in configuration.items() if value is not ...}
    return {"name": "sharding_indexed", "configuration": kept}


def sharded(
    shape: Iterable[int], shard: Iterable[int], *codecs: Any, **changes: Any
) -> dict[str, bytes]:
    """Return a store with the metadata of a uint8 array with fill value 9, and no data."""
    grid = regular(*shard)
    fields = {"shape": list(shape), "chunk_grid": grid, "codecs": list(codecs), "fill_value": 9}
    return put(array_doc(**{**fields, **changes}))


def checked(index: Any) -> bytes:
    """Return a little-endian index with a checksum, as most shards have it."""
    data = np.asarray(index, "<u8").tobytes()
    return data + google_crc32c.value(data).to_bytes(4, "little")


def pack(
    pieces: dict[int, bytes],
    count: int,
    *,
    location: str = "end",
    gap: bytes = b"",
    order: Iterable[int] | None = None,
    head: bytes = b"",
) -> bytes:
    """Return a shard; `gap` precedes every inner chunk, `head` all of them."""
    index = np.full((count, 2), MISSING, "<u8")
    start = 16 * count + 4 if location == "start" else 0
    body = head
    for number in pieces if order is None else order:
        body += gap
        index[number] = start + len(body), len(pieces[number])
        body += pieces[number]
    return checked(index) + body if location == "start" else body + checked(index)


def index_of(shard: bytes, count: int, location: str = "end") -> list[tuple[int, int]]:
    """Return the pairs of a checksummed index."""
    size = 16 * count + 4
    stored = shard[-size:] if location == "end" else shard[:size]
    assert len(stored) == size
    assert google_crc32c.value(stored[:-4]).to_bytes(4, "little") == stored[-4:]
    return [tuple(map(int, pair)) for pair in np.frombuffer(stored[:-4], "<u8").reshape(-1, 2)]


class CountingStore(PrefixStore):
    """Values in memory; every request is recorded with its key and size."""

    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        super().__init__(values)
        self.requests: list[tuple[str, str, int]] = []

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        verb = "get" if range is None else "part"
        found = super().get(key, range)
        self.requests.append((verb, key, len(found or b"")))
        return found

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        return [self.get(key, range) for key, range in requests]

    def set(self, key: str, value: Any) -> None:
        super().set(key, value)
        self.requests.append(("set", key, len(value)))

    def erase(self, key: str) -> None:
        super().erase(key)
        self.requests.append(("erase", key, 0))

    def taken(self) -> list[tuple[str, str, int]]:
        """Return the requests since the last call."""
        found, self.requests = self.requests, []
        return found
