"""Objects with few methods as stores: `get` alone, or with `set`, and `erase` or `delete`."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from omnizarr.errors import StoreError
from omnizarr.stores.abilities import check_key, check_writable
from omnizarr.stores.closing import Closes
from omnizarr.stores.identity import Place, place_of
from omnizarr.stores.store import Bytes, Range

# What such an object may have besides, which is then used as it is.
_MORE = ("list", "list_prefix", "list_dir", "erase_prefix", "set_many", "set_partial", "sizes")


class SmallStore(Closes):
    """A store over an object that has `get`, and perhaps `set`, and `erase` or `delete`.

    It is read-only without `set`. A value of which `get` takes no range is fetched whole and cut.
    """

    def __init__(self, inner: Any, *, read_only: bool = False) -> None:
        self.inner = inner
        can_write = callable(getattr(inner, "set", None))
        self.read_only = read_only or not can_write or bool(getattr(inner, "read_only", False))
        kind: Any = type(inner)
        self._ranged = takes_range(kind)
        self._erase = getattr(inner, "erase", None) or getattr(inner, "delete", None)
        for name in _MORE:
            if callable(getattr(inner, name, None)):
                setattr(self, name, getattr(inner, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.inner, self.read_only)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        check_key(key)
        whole = range is None or not self._ranged
        try:
            value = self.inner.get(key) if whole else self.inner.get(key, range)
        except KeyError:
            return None
        if value is None:
            return None
        found = value if isinstance(value, bytes) else bytes(memoryview(value))
        return range.of(found) if range is not None and whole else found

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        self.inner.set(check_key(key), bytes(value))

    def erase(self, key: str) -> None:
        check_writable(self)
        if self._erase is None:
            raise StoreError(f"cannot erase {key!r}: {self.inner!r} has no method erase or delete")
        try:
            self._erase(check_key(key))
        except KeyError:
            return  # it is not there, which is what was asked for

    def place(self, prefix: str = "") -> Place:
        return place_of(self.inner, prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SmallStore) and other.inner is self.inner

    def __hash__(self) -> int:
        return id(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)


def _made(inner: Any, read_only: bool) -> SmallStore:
    return SmallStore(inner, read_only=read_only)


def is_small(where: object) -> bool:
    """Return True for what `SmallStore` can make a store of, not for tables and arrays."""
    get = getattr(where, "get", None)
    if isinstance(where, type) or not callable(get) or inspect.iscoroutinefunction(get):
        return False
    return callable(getattr(where, "set", None)) or not hasattr(where, "__getitem__")


@lru_cache(256)
def takes_range(kind: Any) -> bool:
    """Return True if the method `get` of a class takes a range beside the key."""
    try:
        parameters = list(inspect.signature(kind.get).parameters.values())
    except (AttributeError, TypeError, ValueError):  # an object's own method, or one of C
        return True
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    bound = isinstance(inspect.getattr_static(kind, "get"), (staticmethod, classmethod))
    return open_ended or len(placed) > (1 if bound else 2)
