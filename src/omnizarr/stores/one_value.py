"""Parts of a value that are asked for one after the other, all of the same value.

A reader of a shard asks for its index, and then for the chunks that it names; somebody may replace
the shard in between. Stores that hold a value open give parts of that one; those that say of every
part which value it is of let a change be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from omnizarr.errors import StoreError
from omnizarr.stores.abilities import get_many, holding
from omnizarr.stores.patience import ATTEMPTS, attempts
from omnizarr.stores.store import GetMany, GetsManyVersioned, Range, Store

T = TypeVar("T")


class Replaced(Exception):
    """A key has another value than an earlier part of it came from."""


class OneValue:
    """Fetches parts of values; raises `Replaced` for a part that is of another value than before.

    Where a store does not tell, it asks by `fetch`.
    """

    def __init__(self, store: Store, fetch: GetMany | None = None) -> None:
        self._store = store
        self._fetch = partial(get_many, store) if fetch is None else fetch
        self._tells = isinstance(store, GetsManyVersioned)
        self._known: dict[str, str] = {}

    def __call__(self, requests: Sequence[tuple[str, Range | None]]) -> list[bytes | None]:
        if not self._tells or all(part is None for _, part in requests):
            return self._fetch(requests)
        found = self._store.get_many_versioned(requests)  # type: ignore[attr-defined]  # it tells
        for (key, part), (data, generation) in zip(requests, found, strict=True):
            known = self._known.get(key)
            if part is None or known == generation:
                continue
            if known is not None and (data is None or generation is not None):
                raise Replaced(key)
            if generation is not None:
                self._known[key] = generation
        return [data for data, _ in found]


def settled(store: Store, read: Callable[[OneValue], T]) -> T:
    """What `read` returns, again where a value was replaced while it was read."""
    key = ""
    for _ in attempts():
        try:
            with holding(store) as fetch:
                return read(OneValue(store, fetch))
        except Replaced as e:
            key = str(e)
    raise StoreError(
        f"{key!r} in {store!r} was replaced {ATTEMPTS} times in a row while it was read;"
        " read it again when it is written less often"
    )
