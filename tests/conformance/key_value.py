"""The smallest store that the specifications ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class SmallestStore:
    """A store that can get, set and erase values, and nothing else."""

    read_only = False

    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        self.values = {} if values is None else values

    def get(self, key: str, range: Any = None) -> bytes | None:
        value = self.values.get(key)
        return value if value is None or range is None else range.of(value)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.values.pop(key, None)


class KeyValueStore(SmallestStore):
    """The same for ASCII keys, as the older specifications require."""

    def set(self, key: str, value: Any) -> None:
        assert key.isascii()
        super().set(key, value)


class PrefixStore(KeyValueStore):
    """A store with get, set, erase, and the keys below a prefix."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from [key for key in self.values if key.startswith(prefix)]
