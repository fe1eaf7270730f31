"""The smallest store that the specifications ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn


class KeyValueStore:
    """Get, set and delete of known keys, and nothing else."""

    read_only = False

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, key: str, range: Any = None) -> bytes | None:
        value = self.held.get(key)
        return value if value is None or range is None else range.of(value)

    def set(self, key: str, value: Any) -> None:
        assert key.isascii()
        self.held[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.held.pop(key, None)


class UnlistableStore(KeyValueStore):
    """A store whose listings fail."""

    def list(self) -> Iterator[str]:
        self._fail()

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self._fail()

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self._fail()

    def _fail(self) -> NoReturn:
        raise AssertionError("the store was listed")
