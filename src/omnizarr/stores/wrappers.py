"""Stores that wrap another one: the base class, keys below a prefix, read-only, locked, cached."""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import in_parallel
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.errors import InvalidArgument
from omnizarr.stores import base, operations
from omnizarr.stores.base import Bytes, Entry, Names, Range, Requests, Store, Values, VersionedValue
from omnizarr.stores.identity import StorageIdentity, key_digest, storage_identity, unique_key
from omnizarr.stores.leases import Lease
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.resolve import resolve

T = TypeVar("T")
_PAGE = 10_000  # entries of a listing that are in memory at a time

_LISTING = ("list", "list_prefix", "list_dir", "erase_prefix")  # all follow from one of them
# Other methods that a wrapper has if the inner store has them.
_READING = ("generation", "get_versioned", "get_many_versioned", "sizes", "list_entries")
_WRITING = ("set_if", "set_new", "set_partial", "change_if", "lock_keys", "check_new_key")
# Methods that do the same thing: a store that has one of its own offers no other that would be
# passed on, so that nothing reaches the inner store past it.
_SAME = (
    ("get", "get_many", "get_versioned", "get_many_versioned", "sizes", "list_entries"),
    ("set", "set_many", "set_new", "set_if", "set_partial", "change_if"),
    ("erase", "erase_prefix", "change_if"),
    ("list", "list_prefix", "list_dir", "sizes", "list_entries"),
)


class WrapperStore(base.Closeable):
    """Passes everything on to `inner`, and has the abilities that `inner` has.

    A subclass may change keys (`_to_inner` and `_from_inner`), or see every call (`_call`). One
    that overrides `get`, `set`, `erase` or a listing sees every value, or key, that is read,
    written, erased or listed: quicker methods of `inner` are used only where it overrides them too.
    Without `get_versioned` and `set_if` it has no compare-and-set, so that several processes must
    not change the same values through it.
    """

    _covers_all = True  # in a class whose overridden methods need no others: see `_SAME`

    def __init__(self, inner: Store, *, read_only: bool | None = None) -> None:
        self.inner: Any = inner
        self.traits = base.traits(inner).behind_wrapper()
        self.read_only = inner.read_only if read_only is None else read_only or inner.read_only
        self._bind()

    def _bind(self) -> None:
        """Give this object the optional methods that the inner store has, and no others."""
        kind = type(self)
        covers_all = next(each for each in kind.__mro__ if "_covers_all" in vars(each))
        own = {
            name
            for names in _SAME
            for name in names
            if getattr(kind, name, None) is not getattr(covers_all, name, None)
        }
        self._left_out = {name for names in _SAME if own & {*names} for name in names} - own
        offered = [name for name in (*_READING, *_WRITING) if hasattr(self.inner, name)]
        offered += _LISTING if operations.can_list(self.inner) else ()
        self._bound = [name for name in offered if name not in own | self._left_out]
        for name in self._bound:
            plain = partial(self._pass_on if name in _READING else self._change, name)
            setattr(self, name, getattr(self, f"_{name}", plain))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def _to_inner(self, key: str) -> str:
        """Return the key, or prefix, of the inner store for one of this store."""
        return key

    def _from_inner(self, key: str) -> str:
        """Return the key, or prefix, of this store for one of the inner store."""
        return key

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        """Return the result of a call that concerns `keys`; subclasses may add to it."""
        return run()

    def _check(self, *keys: str) -> None:
        operations.check_writable(self)
        for key in keys:
            operations.check_key(key)

    def _pass_on(self, operation: str, key: str, *args: Any) -> Any:
        inside, method = self._to_inner(operations.check_key(key)), getattr(self.inner, operation)
        return self._call(operation, [key], lambda: method(inside, *args))

    def _change(self, operation: str, key: str, *args: Any) -> Any:
        operations.check_writable(self)
        return self._pass_on(operation, key, *args)

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        found: bytes | None = self._pass_on("get", key, range)
        return found

    def get_many(self, requests: Requests) -> Values:
        if "get_many" in self._left_out:
            return [self.get(key, range) for key, range in requests]
        return self._get_together(requests, lambda asked: operations.get_many(self.inner, asked))

    def _get_many_versioned(self, requests: Requests) -> list[VersionedValue]:
        found: list[VersionedValue] = self._get_together(requests, self.inner.get_many_versioned)
        return found

    def _get_together(self, requests: Requests, get: Callable[[Requests], T]) -> T:
        asked = [(operations.check_key(key), range) for key, range in requests]
        inside = [(self._to_inner(key), range) for key, range in asked]
        return self._call("get_many", [key for key, _ in asked], lambda: get(inside))

    def _sizes(self, keys: Iterable[str]) -> dict[str, int]:
        asked = [operations.check_key(key) for key in keys]
        inside = [*map(self._to_inner, asked)]
        found = self._call("sizes", asked, lambda: operations.sizes(self.inner, inside))
        return {self._from_inner(key): size for key, size in found.items()}

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        self._change("set", key, value)

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = list(values)
        self._check(*(key for key, _ in rows))
        if "set_many" in self._left_out:
            for key, value in rows:
                self.set(key, value)
            return
        inside = [(self._to_inner(key), value) for key, value in rows]
        self._call(
            "set_many", [key for key, _ in rows], lambda: operations.set_many(self.inner, inside)
        )

    def _change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        self._check(*changes)
        new = {self._to_inner(key): value for key, value in changes.items()}
        old = {self._to_inner(key): generation for key, generation in expected.items()}
        return self._call("change_if", [*changes], lambda: bool(self.inner.change_if(new, old)))

    def erase(self, key: str) -> None:
        self._change("erase", key)

    def _erase_prefix(self, prefix: str) -> None:
        operations.check_writable(self)
        operations.check_prefix(prefix)
        inside = self._to_inner(prefix)
        self._call("erase_prefix", [prefix], lambda: operations.erase_prefix(self.inner, inside))

    def _check_new_key(self, key: str) -> None:
        self.inner.check_new_key(self._to_inner(key))

    def _lock_keys(
        self, prefix: str, keys: Iterable[str], kind: base.LockKind
    ) -> AbstractContextManager[None]:
        operations.check_writable(self)
        return operations.lock(self.inner, self._to_inner(prefix), map(self._to_inner, keys), kind)

    # Listing

    def _list(self) -> Iterator[str]:
        return self._list_prefix("")

    def _list_prefix(self, prefix: str) -> Iterator[str]:
        yield from map(self._from_inner, self._pages(prefix, operations.list_prefix))

    def _list_entries(self, prefix: str) -> Iterator[Entry]:
        found = self._pages(prefix, operations.list_entries)
        yield from (entry._replace(key=self._from_inner(entry.key)) for entry in found)

    def _pages(self, prefix: str, listed: Callable[[Store, str], Iterator[T]]) -> Iterator[T]:
        """Yield what the inner store lists, with one call for each page."""
        operations.check_prefix(prefix)
        found = listed(self.inner, self._to_inner(prefix))
        page: list[T] | None = None
        while page is None or len(page) == _PAGE:
            page = self._call("list_prefix", [prefix], lambda: [*itertools.islice(found, _PAGE)])
            yield from page

    def _list_dir(self, prefix: str) -> tuple[Names, Names]:
        operations.check_prefix(prefix)
        inside = self._to_inner(prefix)
        keys, prefixes = self._call(
            "list_dir", [prefix], lambda: operations.list_dir(self.inner, inside)
        )
        return [*map(self._from_inner, keys)], [*map(self._from_inner, prefixes)]

    # What it is

    def identity(self, prefix: str = "") -> StorageIdentity:
        return storage_identity(self.inner, self._to_inner(prefix))

    def close(self) -> None:
        """Close the inner store, if it can be closed."""
        close_store(self.inner)

    def _values_at(self) -> tuple[Any, ...]:
        details: Callable[[], tuple[Any, ...]] = getattr(self, "identity_details", tuple)
        return type(self), self.inner, *details()

    def __repr__(self) -> str:
        return repr(self.inner)


def close_store(store: object) -> None:
    """Close a store, if it can be closed."""
    close = getattr(store, "close", None)
    if close is not None:
        close()


class PrefixStore(WrapperStore):
    """The keys of `inner` below `prefix`, without that prefix."""

    def __init__(self, inner: Store, prefix: str, *, read_only: bool | None = None) -> None:
        super().__init__(inner, read_only=read_only)
        self.prefix = prefix.rstrip("/") + "/" if prefix else ""
        operations.check_prefix(self.prefix)

    def _to_inner(self, key: str) -> str:
        return self.prefix + key

    def _from_inner(self, key: str) -> str:
        return key[len(self.prefix) :]

    def identity_details(self) -> tuple[str]:
        """Return the prefix as given; the identity of the storage has only its parts."""
        return (self.prefix,)

    def __repr__(self) -> str:
        return f"{self.prefix!r} of {self.inner!r}"


class ReadOnlyStore(WrapperStore):
    """`inner`, read-only: every change is refused."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, read_only=True)

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return this store, or for writing the store that it wraps."""
        return self if read_only else self.inner

    def identity_details(self) -> tuple[()]:
        """Return nothing: values depend only on the inner store."""
        return ()


class LeasedStore(WrapperStore):
    """`inner` while a lock is held; never overwrites values stored after the lock was lost.

    The store compares the lock with each change, or else the value that the change replaces.
    """

    _covers_all = True

    def __init__(self, inner: Store, lease: Lease) -> None:
        super().__init__(inner)
        self._lease = lease
        lease.checked = True
        mine = base.traits(inner)
        self.traits = replace(
            self.traits, low_latency=mine.low_latency, sends_values=mine.sends_values
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the inner store: another process does not have the lock."""
        found: tuple[Any, ...] = self.inner.__reduce_ex__(2)
        return found

    def _call(self, operation: str, keys: Sequence[str], run: Callable[[], T]) -> T:
        found = run()
        if operation in ("generation", "get_versioned"):
            self._lease.check()
        return found

    def set(self, key: str, value: Bytes) -> None:
        self.set_many([(key, value)])

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        rows = dict(values)
        self._check(*rows)
        if self._lease.is_compared:
            self._change_all(rows)
        else:
            in_parallel(lambda row: self._replace(*row), [*rows.items()])

    def _change_all(self, changes: Mapping[str, Bytes | None]) -> None:
        def attempt() -> None:
            if not operations.conditionally(lambda: self._lease.change(changes)):
                raise Overtaken(repr(self))

        retry_conflicts(attempt, "; nothing was stored, try again")

    def _replace(self, key: str, value: Bytes) -> None:
        """Store a value by compare-and-set: as a new key first, then over the existing value."""
        attempts = itertools.count()

        def attempt() -> None:
            generation = self._pass_on("generation", key) if next(attempts) else None
            if not operations.conditionally(lambda: self._set_if(key, value, generation)):
                raise Overtaken(f"{key!r} in {self!r}")

        retry_conflicts(attempt, "; it was not stored, try again")

    def _set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        if self._lease.is_compared:
            return self._change_if({key: value}, {key: generation})
        self._lease.check()
        return bool(self._change("set_if", key, value, generation))

    def _change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        self._check(*changes)
        return self._lease.change(changes, expected)

    def erase(self, key: str) -> None:
        self._check(key)
        if self._lease.is_compared:
            self._change_all({key: None})
        elif self._pass_on("generation", key) is not None:
            super().erase(key)


class CacheStore(WrapperStore):
    """`inner`, with values and parts of values cached in `cache`, the least recently used evicted.

    Both are a store, or a path or URL of one. By default the cache is memory; one in a directory,
    such as ``"/scratch/cache"``, may be used again later, and by several stores: values of
    different stores are never mixed. Of a store in memory, or of a class of your own, nothing is
    found again by another process or object. `inner` returns the generation of a value each
    time; a store without generations has to be wrapped with ``validate=False``, which is for data
    that never change, and makes the store read-only.
    """

    _covers_all = True  # values are those of `inner`

    def __init__(
        self,
        inner: Store | str | os.PathLike[str],
        cache: Store | str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 2**28,
        validate: bool = True,
    ) -> None:
        inner = resolve(inner)
        if validate and not isinstance(inner, base.Versioned):
            raise InvalidArgument(
                f"{inner!r} cannot tell whether a value has changed; give validate=False if its"
                " values never change"
            )
        super().__init__(inner, read_only=not validate or None)
        self.cache = resolve(cache)
        self.max_bytes = max_bytes
        self.validate = validate
        self._lock = fork.lock()
        self._lengths: OrderedDict[str, int] = OrderedDict()  # least recently used first
        for name in (
            operations.list_prefix(self.cache, "") if operations.can_list(self.cache) else ()
        ):
            digest, _, size = name.partition("-")
            if size.isdecimal():
                self._lengths[digest] = int(size)
        self._used = sum(self._lengths.values())

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        operations.check_key(key)
        if self.validate:
            return self._get_versioned(key, range)[0]
        digest = self._digest(key, range, "")
        value = self._cached(digest)
        if value is None:
            value = self.inner.get(key, range)
            if value is not None:
                self._add(digest, value)
        return value

    def get_many(self, requests: Requests) -> Values:
        return [self.get(key, range) for key, range in requests]

    def _get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        generation: str | None = self._pass_on("generation", key)
        if generation is not None:  # else there is no such key, or a server without generations
            value = self._cached(self._digest(key, range, generation))
            if value is not None:
                return value, generation
        value, generation = self._pass_on("get_versioned", key, range)
        if value is not None and generation is not None:
            self._add(self._digest(key, range, generation), value)
        return value, generation

    def _get_many_versioned(self, requests: Requests) -> list[VersionedValue]:
        if self.validate:
            return [self._get_versioned(key, range) for key, range in requests]
        return [(value, None) for value in self.get_many(requests)]

    def _digest(self, key: str, range: Range | None, generation: str) -> str:
        part = None if range is None else (range.start, range.length)
        return key_digest(unique_key(self.inner), key, part, generation)

    def _cached(self, digest: str) -> bytes | None:
        with self._lock:
            size = self._lengths.get(digest)
            if size is None:
                return None
            self._lengths.move_to_end(digest)
        value = self.cache.get(f"{digest}-{size}")
        return value if value is not None and len(value) == size else None

    def _add(self, digest: str, value: bytes) -> None:
        if len(value) > self.max_bytes:
            return
        self.cache.set(f"{digest}-{len(value)}", value)
        evicted = []
        with self._lock:
            self._used += len(value) - self._lengths.pop(digest, 0)
            self._lengths[digest] = len(value)
            while self._used > self.max_bytes:
                old, size = self._lengths.popitem(last=False)
                self._used -= size
                evicted.append(f"{old}-{size}")
        for name in evicted:
            self.cache.erase(name)

    def __reduce__(self) -> tuple[Any, ...]:
        cache = None if isinstance(self.cache, MemoryStore) else self.cache
        made = partial(CacheStore, max_bytes=self.max_bytes, validate=self.validate)
        return made, (self.inner, cache)

    def identity_details(self) -> tuple[bool]:
        """Return whether values are validated: without that they may be outdated."""
        return (self.validate,)
