"""A store in memory that records requests."""

from __future__ import annotations

from collections.abc import MutableMapping

from omnizarr.stores import MemoryStore, Range
from omnizarr.stores.base import Bytes


class Recording(MemoryStore):
    """Records the keys and ranges that were read, and the keys that were set, in order."""

    def __init__(self, values: MutableMapping[str, bytes] | None = None) -> None:
        super().__init__(values)
        self.reads: list[tuple[str, Range | None]] = []
        self.sets: list[str] = []

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        self.reads.append((key, range))
        return super().get(key, range)

    def set(self, key: str, value: Bytes) -> None:
        self.sets.append(key)
        super().set(key, value)
