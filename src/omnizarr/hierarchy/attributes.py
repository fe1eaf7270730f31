"""Attributes of a node, and changes of its metadata that lose no change of another writer.

The keys are locked against other threads, and against other processes if the store can lock. With
compare-and-set instead, a change is made again on top of what another writer has stored.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from omnizarr import stores
from omnizarr._json import plain
from omnizarr.concurrency import key_locks
from omnizarr.concurrency.retry import MAY_BE_DONE, AnswerLost, Overtaken, retry_conflicts
from omnizarr.errors import NodeChanged, OmnizarrError, StoreError, warn
from omnizarr.hierarchy.location import Location
from omnizarr.model import Node, paths
from omnizarr.stores import Store
from omnizarr.stores.base import ChangesKeys, value_digest
from omnizarr.stores.leases import Lease
from omnizarr.stores.local.store import PinnedFolder, pin
from omnizarr.stores.wrappers import LeasedStore

T = TypeVar("T")
_MISSING: Any = object()


class Write(Protocol):
    """Apply a change to the stored attributes, and return its result."""

    def __call__(self, edit: Callable[[dict[str, Any]], T]) -> T: ...


class Attributes(MutableMapping[str, Any]):
    """User attributes; any JSON values, also from NumPy scalars and arrays.

    They show the metadata as last read (``refresh()`` reads them again). Every change starts from
    the stored attributes, so that two handles can set two attributes and both are kept. Lists and
    dictionaries are copies: assign them again, or use `edit`, to store a change inside one.
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], write: Write) -> None:
        self._read = read
        self._write = write

    def __getitem__(self, name: str) -> Any:
        return copy.deepcopy(self._read()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._read()))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes with one write."""
        new = json_attributes(dict(*args, **kwargs))
        self._write(lambda attributes: attributes.update(new))

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the attribute, after setting it to `default` if it does not exist."""
        new = json_attributes({name: default})[name]
        return copy.deepcopy(self._write(lambda attributes: attributes.setdefault(name, new)))

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Remove an attribute and return its value, or `default` if it does not exist."""
        given = () if default is _MISSING else (default,)
        return self._write(lambda attributes: attributes.pop(name, *given))

    def popitem(self) -> tuple[str, Any]:
        """Remove an attribute and return its name and value."""
        return self._write(lambda attributes: attributes.popitem())

    def clear(self) -> None:
        """Remove all attributes with one write."""
        self._write(lambda attributes: attributes.clear())

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes with one write."""
        new = json_attributes(attributes)

        def replace(old: dict[str, Any]) -> None:
            old.clear()
            old.update(new)

        self._write(replace)

    def edit(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Call `change` with the stored attributes, store them after it, and return its result.

        That is one write. `change` may be called again if another writer has changed them.
        """
        return self._write(change)

    def asdict(self) -> dict[str, Any]:
        """Return the attributes as a plain dictionary."""
        return copy.deepcopy(dict(self._read()))

    def __repr__(self) -> str:
        return repr(self.asdict())


def json_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes to plain JSON types."""

    def special(where: str, value: float) -> None:
        warn(f"{where} is {value!r}, which JSON lacks; it is stored as a string")

    converted: dict[str, Any] = plain(attributes, "attributes", special)
    return converted


def update_metadata(
    location: Location,
    edit: Callable[[Node], Node],
    *,
    held: Location | None = None,
    is_done: Callable[[Node], bool] | None = None,
) -> Node:
    """Store and return what `edit` makes of the stored node; `edit` may be called again.

    If the answer to a request was lost, `is_done` tells whether a node has the change; without it,
    that is so if `edit` changes nothing, and else an error says that the change may have been made.
    `held` is the location while a lock is held (see `lock_shape`).
    """
    location.check_writable()
    store, keys = location.store, location.format.keys(location.path)
    conditional = stores.supports_compare_and_set(store)
    unanswered: Exception | None = None

    def attempt(here: Location) -> Node:
        nonlocal unanswered
        asked: Any = (held or location).store
        generations = {key: asked.generation(key) for key in keys} if conditional else {}
        put = _conditional_put(held or location, generations) if conditional else None
        if isinstance(here.store, PinnedFolder):
            put = here.store.put
        old = here.load()
        if conditional and not any(generations.values()) and not getattr(old, "implicit", False):
            raise Overtaken(str(location))  # it has just appeared, and may be gone again
        if unanswered is not None:
            if (is_done or partial(_changes_nothing, edit))(old):
                return location.save(None, old, lambda key, text: None)
            if is_done is None:
                raise unanswered
        new = edit(old)
        if new is old:
            return old
        try:
            return location.save(None if getattr(old, "implicit", False) else old, new, put)
        except AnswerLost as e:
            if unanswered is not None:
                raise
            unanswered = e
            raise Overtaken(str(location)) from e

    threads, processes = metadata_locks(store, keys)
    with threads, processes, pinned_node(location, keys) as here:
        if here is not location:
            return attempt(here)
        return retry_conflicts(partial(attempt, here), "; nothing was stored, try again")


@contextmanager
def pinned_node(at: Location, keys: tuple[str, ...]) -> Iterator[Location]:
    """Yield a location that stays in its current folder, even if it is renamed (`PinnedFolder`).

    A change raises NodeChanged, and makes no new node, where the folder of the old one is gone.
    """
    folder = None if at.format.implicit_groups else pin(at.store, paths.folder(keys[0]))
    if folder is None:
        yield at
        return
    try:
        yield Location(folder, at.path, at.format, at.read_only)
    except StoreError as e:
        if type(e) is not StoreError or not isinstance(e.__cause__, OSError):
            raise
        if not isinstance(e.__cause__, FileNotFoundError):
            raise folder.explain(e) from e.__cause__
        raise NodeChanged(
            f"{at} was deleted or moved while it was changed; nothing was stored"
        ) from e
    finally:
        os.close(folder.descriptor)


def _changes_nothing(edit: Callable[[Node], Node], node: Node) -> bool:
    """Return True if `edit` leaves a node as it is; it may raise when applied a second time."""
    with suppress(Exception):
        return edit(node) is node
    return False


def metadata_locks(
    store: Store, keys: tuple[str, ...]
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the locks of a node's metadata: between threads, and between processes if any."""
    owner = None if stores.supports_compare_and_set(store) else store
    return (
        key_locks.locked(key_locks.METADATA, keys, owner),
        stores.lock(store, paths.folder(keys[0]), keys, "documents"),
    )


def _conditional_put(
    location: Location, generations: dict[str, str | None]
) -> Callable[[str, bytes | None], None]:
    """Return a function that stores or erases a document if its generation is still the same."""
    store: Any = location.store
    in_database = isinstance(store, ChangesKeys)

    def put(key: str, text: bytes | None) -> None:
        if in_database:
            if not store.change_if({key: text}, generations):
                raise Overtaken(str(location))
            generations[key] = None if text is None else value_digest(text)
        elif text is None:
            if store.generation(key) != generations[key]:
                raise Overtaken(str(location))
            store.erase(key)
        else:
            try:
                stored = store.set_if(key, text, generations[key])
            except OSError as e:  # of a store of another package
                if isinstance(e, OmnizarrError):
                    raise
                raise AnswerLost(f"cannot write {key!r} in {store!r}: {e}; {MAY_BE_DONE}") from e
            if not stored:
                raise Overtaken(str(location))

    return put


@contextmanager
def lock_shape(*locations: Location) -> Iterator[list[Location]]:
    """Keep other threads and processes from changing the shapes of arrays of one store.

    The context is the same locations, with stores that refuse changes after a lock was lost.
    """
    for location in locations:
        location.check_writable()
    every = [(at, at.format.keys(at.path)) for at in sorted(locations, key=lambda at: at.path)]
    store = locations[0].store if locations else None
    with (
        key_locks.locked(key_locks.SHAPE, [key for _, keys in every for key in keys], store),
        ExitStack() as stack,
    ):
        held = {}
        for location, keys in every:
            locks = stores.lock_prefix(location.store, paths.folder(keys[0]), keys, "shape")
            lease = stack.enter_context(locks)
            held[location.path] = location if lease is None else _leased(location, lease)
        yield [held[location.path] for location in locations]


@contextmanager
def lock_nodes(*locations: Location) -> Iterator[None]:
    """Lock the metadata of nodes, and their chunks against partial changes, if the store can.

    Where metadata are compared and set, a writer finds out by itself that its node is gone.
    """
    if any(stores.supports_compare_and_set(location.store) for location in locations):
        yield
        return
    with lock_shape(*locations), ExitStack() as held:
        for location in locations:
            keys, stored = location.format.keys(location.path), []
            if stores.traits(location.store).process_local:  # all below, too, by threads alone
                stored = [*stored_keys(location)]
                keys = (*keys, *filter(location.format.is_metadata, stored))
            for each in metadata_locks(location.store, keys):
                held.enter_context(each)
            held.enter_context(key_locks.locked(key_locks.CHUNKS, stored, location.store))
            prefix = location.format.chunk_prefix(location.path)
            held.enter_context(stores.lock(location.store, prefix, [prefix], "chunks"))
            held.enter_context(stores.changing(location.store))
        yield


def stored_keys(location: Location) -> Iterator[str]:
    """Yield all stored keys of a node and of the nodes below it."""
    keys, prefixes = location.format.subtree(location.path)
    yield from (key for key in keys if location.store.get(key) is not None)
    for prefix in prefixes:
        yield from stores.list_prefix(location.store, prefix)


def _leased(location: Location, lease: Lease) -> Location:
    """Return a location whose store refuses changes after a lock was lost."""
    store = LeasedStore(location.store, lease)
    if lease.taken_over and not lease.is_compared:
        # The writer that had the lock may be about to store a shape: now it replaces another value.
        key = location.format.keys(location.path)[0]
        stores.update_value(store, key, lambda text: None if text is None else text + b" ")
    return replace(location, store=store)
