"""A store around another: what wrappers change is one small method of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from omnizarr.errors import StoreError
from omnizarr.stores import abilities
from omnizarr.stores.closing import Closes
from omnizarr.stores.identity import Place, place_of
from omnizarr.stores.store import (
    Bytes,
    GetsManyVersioned,
    Kind,
    Locks,
    Range,
    SetsIf,
    SetsNew,
    SetsPartially,
    Store,
    TellsSizes,
    Versioned,
)

Names: TypeAlias = list[str]
Values: TypeAlias = list[bytes | None]
Tagged: TypeAlias = list[tuple[bytes | None, str | None]]
T = TypeVar("T")


class WrapperStore(Closes):
    """Passes everything on to `inner`, and has the abilities that `inner` has.

    A subclass may change keys (`_inside` and `_outside`), or see every call (`_call`).
    """

    def __init__(self, inner: Store, *, read_only: bool | None = None) -> None:
        self.inner = inner
        self.read_only = inner.read_only if read_only is None else read_only or inner.read_only
        self._bind()

    def _bind(self) -> None:
        """Give this object the optional methods that the inner store has, and no others."""
        listing = abilities.can_list(self.inner)
        has = {
            "list": listing,
            "list_prefix": listing,
            "list_dir": listing,
            "erase_prefix": listing,
            "generation": isinstance(self.inner, Versioned),
            "get_versioned": isinstance(self.inner, Versioned),
            "get_many_versioned": isinstance(self.inner, GetsManyVersioned),
            "set_if": isinstance(self.inner, SetsIf),
            "set_new": isinstance(self.inner, SetsNew),
            "set_partial": isinstance(self.inner, SetsPartially),
            "lock_keys": isinstance(self.inner, Locks),
            "sizes": isinstance(self.inner, TellsSizes),
        }
        self._bound = [name for name, there in has.items() if there]
        for name in self._bound:
            setattr(self, name, getattr(self, f"_{name}"))

    @property
    def lists_all(self) -> bool:
        """False where the inner store may leave out keys that it has."""
        return bool(getattr(self.inner, "lists_all", True))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def _inside(self, key: str) -> str:
        """The key, or prefix, in the inner store."""
        return key

    def _outside(self, key: str) -> str:
        """The key, or prefix, of one in the inner store."""
        return key

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        """The result of a call; `keys` are those it is about."""
        return run()

    def _check(self, *keys: str) -> None:
        abilities.check_writable(self)
        for key in keys:
            abilities.check_key(key)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        inside = self._inside(abilities.check_key(key))
        return self._call("get", [key], lambda: self.inner.get(inside, range))

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> Values:
        asked = [(abilities.check_key(key), range) for key, range in requests]
        inside = [(self._inside(key), range) for key, range in asked]
        return self._call(
            "get_many",
            [key for key, _ in asked],
            lambda: abilities.get_many(self.inner, inside),
        )

    def _get_many_versioned(self, requests: Iterable[tuple[str, Range | None]]) -> Tagged:
        asked = [(abilities.check_key(key), range) for key, range in requests]
        inside = [(self._inside(key), range) for key, range in asked]
        names = [key for key, _ in asked]
        inner: Any = self.inner  # which has the method, or this would not be bound
        return self._call("get_many", names, lambda: inner.get_many_versioned(inside))

    def _generation(self, key: str) -> str | None:
        inside = self._inside(abilities.check_key(key))
        return self._call("generation", [key], lambda: _versioned(self.inner).generation(inside))

    def _get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        inside = self._inside(abilities.check_key(key))
        return self._call(
            "get_versioned", [key], lambda: _versioned(self.inner).get_versioned(inside, range)
        )

    def _sizes(self, keys: Iterable[str]) -> dict[str, int]:
        asked = [abilities.check_key(key) for key in keys]
        inside = [*map(self._inside, asked)]
        found = self._call("sizes", asked, lambda: abilities.sizes(self.inner, inside))
        return {self._outside(key): size for key, size in found.items()}

    def set(self, key: str, value: Bytes) -> None:
        self._check(key)
        inside = self._inside(key)
        self._call("set", [key], lambda: self.inner.set(inside, value))

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = list(values)
        self._check(*(key for key, _ in rows))
        inside = [(self._inside(key), value) for key, value in rows]
        self._call(
            "set_many", [key for key, _ in rows], lambda: abilities.set_many(self.inner, inside)
        )

    def _set_new(self, key: str, value: Bytes) -> bool:
        self._check(key)
        inside = self._inside(key)
        return self._call("set_new", [key], lambda: abilities.set_new(self.inner, inside, value))

    def _set_partial(self, key: str, start: int, value: Bytes) -> None:
        self._check(key)
        part = (self._inside(key), start, value)
        self._call("set_partial", [key], lambda: abilities.set_partial_values(self.inner, [part]))

    def _set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        self._check(key)
        inside = self._inside(key)
        return self._call(
            "set_if", [key], lambda: _setting(self.inner).set_if(inside, value, generation)
        )

    def erase(self, key: str) -> None:
        self._check(key)
        inside = self._inside(key)
        self._call("erase", [key], lambda: self.inner.erase(inside))

    def _lock_keys(
        self, prefix: str, keys: Iterable[str], kind: Kind
    ) -> AbstractContextManager[None]:
        abilities.check_writable(self)
        return abilities.lock(self.inner, self._inside(prefix), map(self._inside, keys), kind)

    def _erase_prefix(self, prefix: str) -> None:
        abilities.check_writable(self)
        abilities.check_prefix(prefix)
        inside = self._inside(prefix)
        self._call("erase_prefix", [prefix], lambda: abilities.erase_prefix(self.inner, inside))

    def _list(self) -> Iterator[str]:
        yield from self._list_prefix("")

    def _list_prefix(self, prefix: str) -> Iterator[str]:
        abilities.check_prefix(prefix)
        inside = self._inside(prefix)
        found = self._call(
            "list_prefix", [prefix], lambda: [*abilities.list_prefix(self.inner, inside)]
        )
        yield from map(self._outside, found)

    def _list_dir(self, prefix: str) -> tuple[Names, Names]:
        abilities.check_prefix(prefix)
        inside = self._inside(prefix)
        keys, prefixes = self._call(
            "list_dir", [prefix], lambda: abilities.list_dir(self.inner, inside)
        )
        return [*map(self._outside, keys)], [*map(self._outside, prefixes)]

    def place(self, prefix: str = "") -> Place:
        return place_of(self.inner, self._inside(prefix))

    def close(self) -> None:
        """Close the inner store, if it can be closed."""
        close = getattr(self.inner, "close", None)
        if close is not None:
            close()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._identity() == self._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.inner))

    def _identity(self) -> tuple[Any, ...]:
        return (self.inner,)

    def __repr__(self) -> str:
        return repr(self.inner)


def _versioned(store: Store) -> Versioned:
    if isinstance(store, Versioned):
        return store
    raise StoreError(f"{store!r} cannot tell generations")


def _setting(store: Store) -> SetsIf:
    if isinstance(store, SetsIf):
        return store
    raise StoreError(f"{store!r} cannot compare and replace")
