"""What a store is: bytes at keys.

The smallest store has `get`, `set` and `erase`. Everything else is an ability that a store may
have, found by the presence of a method; the free functions of `stores.abilities` use it or fall
back. Names and meaning follow the abstract store interface of the version 3 draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from omnizarr.errors import StoreError

Bytes: TypeAlias = bytes | bytearray | memoryview
B = TypeVar("B", bytes, memoryview)
Kind: TypeAlias = Literal["chunks", "documents", "copies", "shape", "replace"]  # what a lock is for


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a value: `length` bytes from `start`; None means to the end.

    A negative `start` counts from the end; a negative `length` is an error.
    """

    start: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 0:
            raise StoreError(
                f"no part of a value has {self.length} bytes; give a length of at least 0, or None"
                " for all to the end"
            )

    def of(self, data: B) -> B:
        """That part of a whole value."""
        start = max(0, len(data) + self.start) if self.start < 0 else self.start
        return data[start:] if self.length is None else data[start : start + self.length]

    def within(self, span: Range) -> Range:
        """The same part, of a value that is itself the part `span` of a larger one."""
        size = span.length or 0
        start = max(0, size + self.start) if self.start < 0 else min(self.start, size)
        length = size - start if self.length is None else min(self.length, size - start)
        return Range(span.start + start, length)


@runtime_checkable
class Store(Protocol):
    """Bytes at keys. `get` answers None only for a key that is proven absent."""

    read_only: bool

    def get(self, key: str, range: Range | None = None) -> bytes | None: ...
    def set(self, key: str, value: Bytes) -> None: ...
    def erase(self, key: str) -> None: ...


@runtime_checkable
class GetsMany(Protocol):
    """Can fetch several values, or parts of them, in one go."""

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]: ...


GetMany: TypeAlias = Callable[[Iterable[tuple[str, Range | None]]], list[bytes | None]]


@runtime_checkable
class Holds(Protocol):
    """Can read a value in several steps as it was at the first, whoever replaces it meanwhile."""

    def holding(self) -> AbstractContextManager[GetMany]: ...


@runtime_checkable
class SetsMany(Protocol):
    """Can store several values in fewer steps than one by one."""

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None: ...


@runtime_checkable
class SetsNew(Protocol):
    """Can store a value only where there is none, whoever else tries at the same time."""

    def set_new(self, key: str, value: Bytes) -> bool:
        """Whether it was stored: no such key was there."""


@runtime_checkable
class SetsPartially(Protocol):
    """Can overwrite part of a value, from an offset of at least 0 on."""

    def set_partial(self, key: str, start: int, value: Bytes) -> None: ...


@runtime_checkable
class Versioned(Protocol):
    """Can tell one value of a key from another without fetching it.

    A generation is a text that differs whenever the value may differ (an ETag; a file's number,
    times and size). None means that there is no such key; of a store that is only read, it may
    also mean that a value is there and its server does not tell.
    """

    def generation(self, key: str) -> str | None: ...
    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]: ...


@runtime_checkable
class GetsManyVersioned(Protocol):
    """Can say of every part that it fetches which value it is of, without asking once more."""

    def get_many_versioned(
        self, requests: Iterable[tuple[str, Range | None]]
    ) -> list[tuple[bytes | None, str | None]]:
        """As `get_many`, each with its generation; None also where a server does not tell."""


@runtime_checkable
class TellsSizes(Protocol):
    """Can tell how long values are without fetching them."""

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Bytes of those values that are there, by key."""


@runtime_checkable
class SetsIf(Protocol):
    """Can store a value only if the key has had no other since: compare and replace."""

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        """Whether it was stored; generation None: only where there is no such key."""


@runtime_checkable
class Locks(Protocol):
    """Can keep other processes from changing some keys for a while."""

    def lock_keys(
        self, prefix: str, keys: Iterable[str], kind: Kind
    ) -> AbstractContextManager[None]:
        """Keys below a prefix, which is the array's or group's own whatever the store's root.

        Locks of different kinds never wait for each other: a thread that has one may take one
        of another kind, though none of the same.
        """


@runtime_checkable
class ChecksSpelling(Protocol):
    """Can tell that it takes a new key for one that differs in spelling only."""

    def check_spelling(self, key: str) -> None: ...


@runtime_checkable
class ErasesPrefix(Protocol):
    """Can remove all keys below a prefix at once."""

    def erase_prefix(self, prefix: str) -> None: ...


@runtime_checkable
class Inside(Protocol):
    """Can name the larger stores that it is a part of, the nearest first."""

    def around(self) -> Iterator[Store]: ...


@runtime_checkable
class Lists(Protocol):
    """Can list all keys, in no particular order."""

    def list(self) -> Iterator[str]: ...


@runtime_checkable
class ListsPrefix(Protocol):
    """Can list the keys below a prefix."""

    def list_prefix(self, prefix: str) -> Iterator[str]: ...


@runtime_checkable
class ListsDir(Protocol):
    """Can list one level: the keys, and the prefixes (each ending in ``/``)."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]: ...
