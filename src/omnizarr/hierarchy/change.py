"""Changing a node's documents without losing what others change at the same time.

Threads of one process take turns, and so do processes where a store can lock keys. Where it can
compare and replace, others are noticed, and the change is made again on what they stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from omnizarr.errors import StoreError
from omnizarr.hierarchy.location import Location
from omnizarr.model import Node, paths
from omnizarr.stores import SetsIf, Versioned, compares, lock, lock_prefix
from omnizarr.stores.patience import ATTEMPTS, attempts
from omnizarr.stores.turns import DOCUMENTS, SHAPE, turn


def change(location: Location, edit: Callable[[Node], Node]) -> Node:
    """The node after `edit`, which gets it as it is stored now and may be called again."""
    location.check_writable()
    keys = location.format.keys(location.path)
    with (
        turn(DOCUMENTS, keys, None if compares(location.store) else location.store),
        lock(location.store, _directory(keys), keys, "documents"),
    ):
        for _ in attempts():
            put = _put_if_same(location, keys)
            old = location.load()
            new = edit(old)
            if new is old:
                return old
            try:
                return location.save(None if getattr(old, "implicit", False) else old, new, put)
            except _Overtaken:
                continue
    raise StoreError(
        f"{location} was changed by another writer {ATTEMPTS} times in a row; nothing was stored,"
        " try again"
    )


@contextmanager
def alone(*locations: Location) -> Iterator[None]:
    """Keep others, who do this too, from changing shapes and the chunks that they show."""
    every = [(at, at.format.keys(at.path)) for at in sorted(locations, key=lambda at: at.path)]
    for location in locations:
        location.check_writable()
    store = locations[0].store if locations else None  # of one group, so the same
    with turn(SHAPE, [key for _, keys in every for key in keys], store), ExitStack() as held:
        for location, keys in every:
            held.enter_context(lock_prefix(location.store, _directory(keys), keys, "shape"))
        yield


def _directory(keys: tuple[str, ...]) -> str:
    """The prefix that a node's documents have in common, whatever the root of the store."""
    return paths.prefix(keys[0].rpartition("/")[0])


class _Overtaken(Exception):
    """Another writer was quicker."""


def _put_if_same(
    location: Location, keys: tuple[str, ...]
) -> Callable[[str, bytes | None], None] | None:
    """What stores a document only if it is still the one of now; None where a store cannot."""
    store = location.store
    if not hasattr(store, "set_if"):  # quicker than to ask for the protocol
        return None
    if not isinstance(store, SetsIf) or not isinstance(store, Versioned):
        return None
    compared, versioned = store, store
    now = {key: store.generation(key) for key in keys}

    def put(key: str, text: bytes | None) -> None:
        if text is None:
            if versioned.generation(key) != now[key]:
                raise _Overtaken
            location.store.erase(key)
        elif not compared.set_if(key, text, now[key]):
            raise _Overtaken

    return put
