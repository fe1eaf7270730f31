"""Where encoded bytes come from: a key in a store, or memory. Parts can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from omnizarr.codecs.codec import Buffer
from omnizarr.errors import ChunkError
from omnizarr.stores import Range, Store, get_many


class Source(Protocol):
    """One encoded chunk; every answer is None where it does not exist."""

    def whole(self) -> Buffer | None:
        """All bytes."""

    def parts(self, ranges: Sequence[Range]) -> list[Buffer] | None:
        """Several parts; a part that reaches over the end comes back short."""


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A value in a store."""

    store: Store
    key: str

    def whole(self) -> Buffer | None:
        return self.store.get(self.key)

    def parts(self, ranges: Sequence[Range]) -> list[Buffer] | None:
        values = get_many(self.store, [(self.key, r) for r in ranges])
        found: list[Buffer] = [v for v in values if v is not None]
        return found if len(found) == len(values) else None


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Bytes that are here already."""

    data: Buffer

    def whole(self) -> Buffer | None:
        return self.data

    def parts(self, ranges: Sequence[Range]) -> list[Buffer] | None:
        view = memoryview(self.data)
        return [r.of(view) for r in ranges]


@dataclass(frozen=True, slots=True)
class PartSource:
    """A span of another source, which must be there in full."""

    source: Source
    span: Range

    def whole(self) -> Buffer | None:
        [data] = self.parts([Range()])
        return data

    def parts(self, ranges: Sequence[Range]) -> list[Buffer]:
        asked = [r.within(self.span) for r in ranges]
        found = self.source.parts(asked)
        if found is None or any(len(f) != r.length for f, r in zip(found, asked, strict=True)):
            raise ChunkError(f"the value ends before its inner chunk does: {self.span}")
        return found
