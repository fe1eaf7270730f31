"""Plain get, set and erase for a store that has only the partial and bulk forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from omnizarr.stores.abilities import check_key, check_offset, check_writable
from omnizarr.stores.store import Bytes, Range


class PartialStore(Protocol):
    """The partial and bulk operations in the words of the version 3 draft.

    A range is ``(start, length)``; a length of None means to the end.
    """

    def get_partial_values(
        self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
    ) -> list[bytes | None]: ...
    def set_partial_values(self, parts: Iterable[tuple[str, int, Bytes]]) -> None: ...
    def erase_values(self, keys: Iterable[str]) -> None: ...


class StoreWithPartialAccess:
    """A whole store over a `PartialStore`; the name is the draft's.

    A value is replaced by erasing it first, since a part written over a longer value leaves its
    end: a reader may find the key missing for a moment.
    """

    def __init__(self, inner: PartialStore, *, read_only: bool = False) -> None:
        self.inner = inner
        self.read_only = read_only

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = [(check_key(key), range or Range()) for key, range in requests]
        # The draft has no ranges from the end: such a value is fetched whole and cut.
        ranges = [(key, (0, None) if r.start < 0 else (r.start, r.length)) for key, r in asked]
        values = self.inner.get_partial_values(ranges)
        return [
            range.of(value) if value is not None and range.start < 0 else value
            for (_, range), value in zip(asked, values, strict=True)
        ]

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        self.inner.erase_values([check_key(key)])
        self.inner.set_partial_values([(key, 0, value)])

    def set_partial(self, key: str, start: int, value: Bytes) -> None:
        check_writable(self)
        check_offset(check_key(key), start)
        self.inner.set_partial_values([(key, start, value)])

    def erase(self, key: str) -> None:
        check_writable(self)
        self.inner.erase_values([check_key(key)])

    def __repr__(self) -> str:
        return f"StoreWithPartialAccess({self.inner!r})"
