"""Chunk key encodings: the last part of a chunk's key, from its coordinates.

``default``: ``c/1/23/45``; ``v2``: ``1.23.45``; ``v3-draft``: ``c1/23/45``, the identifiers of
the 2022 draft. Configuration: ``{"separator": "/"}`` or ``"."``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from omnizarr import registry
from omnizarr.errors import InvalidMetadata, WrongType
from omnizarr.model import Named
from omnizarr.model.node import check_members, invalid

__all__ = ["ChunkKeyEncoding", "Default", "Draft", "V2Keys", "bind"]


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


def _indices(text: str, separator: str, rank: int) -> tuple[int, ...] | None:
    parts = text.split(separator)
    if len(parts) != rank or not all(p.isascii() and p.isdigit() for p in parts):
        return None
    if any(len(p) > 1 and p[0] == "0" for p in parts):
        return None
    return tuple(map(int, parts))


@dataclass(frozen=True, slots=True)
class Default(ChunkKeyEncoding):
    """``default`` of version 3: ``c/1/23/45``."""

    separator: str = "/"

    def key(self, coords: Sequence[int]) -> str:
        return self.separator.join(["c", *map(str, coords)])

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key == "c" else None
        head = f"c{self.separator}"
        return _indices(key[2:], self.separator, rank) if key.startswith(head) else None


@dataclass(frozen=True, slots=True)
class V2Keys(ChunkKeyEncoding):
    """``v2`` of version 3, and the keys of versions 1 and 2: ``1.23.45``."""

    separator: str = "."

    def key(self, coords: Sequence[int]) -> str:
        return self.separator.join(map(str, coords)) if coords else "0"

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key == "0" else None
        return _indices(key, self.separator, rank)


@dataclass(frozen=True, slots=True)
class Draft(ChunkKeyEncoding):
    """The keys of the version 3 draft of 2022: ``c1/23/45``."""

    separator: str = "/"

    def key(self, coords: Sequence[int]) -> str:
        return "c" + self.separator.join(map(str, coords))

    def other_keys(self, coords: Sequence[int]) -> tuple[str, ...]:
        return () if coords else ("c0",)

    def coords(self, key: str, rank: int) -> tuple[int, ...] | None:
        if rank == 0:
            return () if key in ("c", "c0") else None
        return _indices(key[1:], self.separator, rank) if key.startswith("c") else None


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
