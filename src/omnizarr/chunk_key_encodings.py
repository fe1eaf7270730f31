"""Chunk key encodings: the last part of a chunk's key, from its coordinates.

``default``: ``c/1/23/45``; ``v2``: ``1.23.45``; ``v3-draft``: ``c1/23/45``, the identifiers of
the 2022 draft. Configuration: ``{"separator": "/"}`` or ``"."``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from omnizarr import registry
from omnizarr.errors import InvalidMetadata, WrongType
from omnizarr.model import Named
from omnizarr.model.node import check_members, invalid


@runtime_checkable
class ChunkKeyEncoding(Protocol):
    """The keys of chunks, relative to their array; a base class for other packages.

    Such a class is a frozen dataclass, whose fields are the members of its configuration.
    """

    def key(self, coords: Sequence[int]) -> str:
        """Return the key under which a chunk is written."""

    def other_keys(self, coords: Sequence[int]) -> tuple[str, ...]:
        """Return further keys under which some writers put the same chunk."""
        return ()

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the coordinates of a key, or None if it is not a chunk's."""


@dataclass(frozen=True, slots=True)
class Default(ChunkKeyEncoding):
    """``default`` of version 3: ``c/1/23/45``."""

    separator: str = "/"

    alone: ClassVar[tuple[str, ...]] = ("c",)  # the keys of the chunk of an array without axes

    @property
    def head(self) -> str:
        """The text before the first coordinate of a key."""
        return f"c{self.separator}"

    def key(self, coords: Sequence[int]) -> str:
        return self.head + self.separator.join(map(str, coords)) if coords else self.alone[0]

    def other_keys(self, coords: Sequence[int]) -> tuple[str, ...]:
        return () if coords else self.alone[1:]

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key in self.alone else None
        if not key.startswith(self.head):
            return None
        parts = key[len(self.head) :].split(self.separator)
        if len(parts) != rank or not all(p.isascii() and p.isdigit() for p in parts):
            return None
        return None if any(p[0] == "0" < p for p in parts) else tuple(map(int, parts))


@dataclass(frozen=True, slots=True)
class V2Keys(Default):
    """``v2`` of version 3, and the keys of versions 1 and 2: ``1.23.45``."""

    separator: str = "."

    alone: ClassVar[tuple[str, ...]] = ("0",)
    head: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Draft(Default):
    """The keys of the version 3 draft of 2022: ``c1/23/45``."""

    alone: ClassVar[tuple[str, ...]] = ("c", "c0")
    head: ClassVar[str] = "c"


_OWN = (Default, V2Keys, Draft)
registry.register("chunk_key_encoding", "default", Default)
registry.register("chunk_key_encoding", "v2", V2Keys)
registry.register("chunk_key_encoding", "v3-draft", Draft)


def bind(named: Named) -> ChunkKeyEncoding:
    """Return the encoding with its configuration."""
    target = registry.lookup("chunk_key_encoding", named.name, "chunk_key_encoding")
    if target in _OWN:
        check_members(named, "chunk key encoding", optional=("separator",))
        separator = named.configuration.get("separator")
        if "separator" in named.configuration and separator not in ("/", "."):
            message = f"expected '/' or '.', got {separator!r}"
            raise invalid("chunk key encoding", named.name, "separator", message)
    try:
        found: Any = target(**named.configuration)
    except TypeError as e:
        raise InvalidMetadata(f"chunk key encoding {named.name!r}: {e}") from None
    if target not in _OWN and not isinstance(found, ChunkKeyEncoding):
        raise WrongType(
            f"chunk key encoding {named.name!r} lacks one of the methods key, other_keys and"
            " coords; inherit from omnizarr.chunk_key_encodings.ChunkKeyEncoding"
        )
    encoding: ChunkKeyEncoding = found
    return encoding
