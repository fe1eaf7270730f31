"""A store that caches what it has read, in memory or in another store, up to a number of bytes.

Every value is cached under its generation, so that a value that has changed is not found again; it
is evicted in time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

from omnizarr.concurrency import fork
from omnizarr.errors import InvalidArgument
from omnizarr.stores.base import Range, Requests, Store, Values, Versioned
from omnizarr.stores.identity import key_digest, unique_key
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import can_list, check_key, list_prefix
from omnizarr.stores.resolve import resolve
from omnizarr.stores.wrappers import VersionedValues, WrapperStore


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
        if validate and not isinstance(inner, Versioned):
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
        for name in list_prefix(self.cache, "") if can_list(self.cache) else ():
            digest, _, size = name.partition("-")
            if size.isdecimal():
                self._lengths[digest] = int(size)
        self._used = sum(self._lengths.values())

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        check_key(key)
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

    def _get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        generation = self._generation(key)
        if generation is None:  # no such key, or the server has no generations
            return super()._get_versioned(key, range)
        value = self._cached(self._digest(key, range, generation))
        if value is not None:
            return value, generation
        value, generation = super()._get_versioned(key, range)
        if value is not None and generation is not None:
            self._add(self._digest(key, range, generation), value)
        return value, generation

    def _get_many_versioned(self, requests: Requests) -> VersionedValues:
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
        return _unpickle, (self.inner, cache, self.max_bytes, self.validate)

    def identity_details(self) -> tuple[bool]:
        """Return whether values are validated: without that they may be outdated."""
        return (self.validate,)

    def _identity(self) -> tuple[Any, ...]:
        return self.inner, self.validate


def _unpickle(inner: Store, cache: Store | None, max_bytes: int, validate: bool) -> CacheStore:
    return CacheStore(inner, cache, max_bytes=max_bytes, validate=validate)
