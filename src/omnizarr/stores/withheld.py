"""A store whose metadata are kept back until everything else is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from omnizarr.stores.abilities import (
    check_key,
    check_writable,
    get_many,
    list_prefix,
    set_many,
    sizes,
)
from omnizarr.stores.identity import Place, place_of
from omnizarr.stores.replace_file import OURS
from omnizarr.stores.store import Bytes, Range, Store
from omnizarr.stores.values import flat

MARKER = f"{OURS}incomplete__"  # the name of a key beside chunks whose metadata are to come


def marker(path: str) -> str:
    """Return the key that tells that the node at a path is incomplete."""
    return f"{path}/{MARKER}" if path else MARKER


@dataclass(frozen=True, slots=True)
class Mark:
    """The value of a marker: which operation writes the node, and a digest of what it writes."""

    operation: str
    plan: str = ""

    def write(self) -> bytes:
        """Return it as it is stored."""
        return json.dumps({"operation": self.operation, "plan": self.plan}).encode()

    @classmethod
    def read(cls, value: bytes) -> Mark:
        """Return what is stored; of another writer's marker, as little as can be told."""
        try:
            stored = json.loads(value)
            return cls(str(stored["operation"]), str(stored["plan"]))
        except (ValueError, KeyError, TypeError):
            return cls("a writer")

    def __str__(self) -> str:
        return self.operation


class WithheldStore:
    """`inner`, in which no metadata appear before `publish`; who writes through this sees them.

    So a reader finds no node before it is complete, whatever interrupts its writer.
    """

    def __init__(self, inner: Store, is_metadata: Callable[[str], bool], hidden: str) -> None:
        self.inner = inner
        self.hidden = hidden  # the key of the marker, which is for others
        self.is_metadata = is_metadata
        self.metadata: dict[str, bytes] = {}
        self.published: list[str] = []
        self.read_only = inner.read_only

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if not self.is_metadata(check_key(key)):
            return None if key == self.hidden else self.inner.get(key, range)
        value = self.metadata.get(key)
        return value if value is None or range is None else range.of(value)

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> list[bytes | None]:
        asked = [*requests]
        mine = [key == self.hidden or self.is_metadata(key) for key, _ in asked]
        pairs = list(zip(asked, mine, strict=True))
        others = iter(get_many(self.inner, [request for request, own in pairs if not own]))
        return [self.get(*request) if own else next(others) for request, own in pairs]

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        if self.is_metadata(check_key(key)):
            self.metadata[key] = bytes(flat(value))
        else:
            self.inner.set(key, value)

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = [*values]
        set_many(self.inner, [row for row in rows if not self.is_metadata(row[0])])
        for key, value in rows:
            if self.is_metadata(key):
                self.set(key, value)

    def erase(self, key: str) -> None:
        check_writable(self)
        if self.is_metadata(check_key(key)):
            self.metadata.pop(key, None)
        else:
            self.inner.erase(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for key in list_prefix(self.inner, prefix):
            if not self.is_metadata(key):
                yield key
        yield from (key for key in tuple(self.metadata) if key.startswith(prefix))

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        asked = [*keys]
        found = sizes(self.inner, [key for key in asked if not self.is_metadata(key)])
        mine = {key: len(self.metadata[key]) for key in asked if key in self.metadata}
        return {**found, **mine}

    def place(self, prefix: str = "") -> Place:
        return place_of(self.inner, prefix)

    def publish(self, belongs: Callable[[str], bool]) -> None:
        """Store the metadata that belong to a node, the innermost first."""
        mine = [key for key in self.metadata if belongs(key)]
        for key in sorted(mine, key=lambda key: (-key.count("/"), key)):
            self.published.append(key)
            self.inner.set(key, self.metadata[key])

    def retract(self) -> None:
        """Erase the metadata that were published, the outermost first."""
        while self.published:
            self.inner.erase(self.published[-1])
            self.published.pop()

    def __repr__(self) -> str:
        return repr(self.inner)
