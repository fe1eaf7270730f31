"""A store that keeps what it has read, in memory or in another store, up to a number of bytes.

Every value is kept under its generation, so that one that has changed is never found: it is not
used any more and makes room in time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from omnizarr.concurrency import fork
from omnizarr.errors import InvalidArgument
from omnizarr.stores.base import Range, Store, Versioned
from omnizarr.stores.identity import key_digest, unique_key
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.operations import can_list, check_key, list_prefix
from omnizarr.stores.wrappers import Tagged, Values, WrapperStore


class CacheStore(WrapperStore):
    """`inner`, with values and parts of values kept in `cache`, the longest unused dropped first.

    `cache` is memory, or a store of its own such as ``LocalStore("/scratch/cache")``, which may be
    used again later, and by several: values of different stores are never mixed. Of a store that
    lives in memory, or is of a class of your own, nothing is found again by another process, nor
    by another object. Whether a value is still the same is asked of `inner` each time; one that
    cannot tell has to be wrapped with ``validate=False``, which is for data that never change, and
    makes the store read-only.
    """

    def __init__(
        self,
        inner: Store,
        cache: Store | None = None,
        *,
        max_bytes: int = 2**28,
        validate: bool = True,
    ) -> None:
        if validate and not isinstance(inner, Versioned):
            raise InvalidArgument(
                f"{inner!r} cannot tell whether a value has changed; give validate=False if its"
                " values never change"
            )
        super().__init__(inner, read_only=not validate or None)
        self.cache = MemoryStore() if cache is None else cache
        self.max_bytes = max_bytes
        self.validate = validate
        self._lock = fork.lock()
        self._lengths: OrderedDict[str, int] = OrderedDict()  # the longest unused first
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
        value = self._kept(digest)
        if value is None:
            value = self.inner.get(key, range)
            if value is not None:
                self._keep(digest, value)
        return value

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> Values:
        return [self.get(key, range) for key, range in requests]

    def _get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        generation = self._generation(key)
        if generation is None:  # no such key, or a server that does not tell
            return super()._get_versioned(key, range)
        value = self._kept(self._digest(key, range, generation))
        if value is not None:
            return value, generation
        value, generation = super()._get_versioned(key, range)
        if value is not None and generation is not None:
            self._keep(self._digest(key, range, generation), value)
        return value, generation

    def _get_many_versioned(self, requests: Iterable[tuple[str, Range | None]]) -> Tagged:
        if self.validate:
            return [self._get_versioned(key, range) for key, range in requests]
        return [(value, None) for value in self.get_many(requests)]

    def _digest(self, key: str, range: Range | None, generation: str) -> str:
        part = None if range is None else (range.start, range.length)
        return key_digest(unique_key(self.inner), key, part, generation)

    def _kept(self, digest: str) -> bytes | None:
        with self._lock:
            size = self._lengths.get(digest)
            if size is None:
                return None
            self._lengths.move_to_end(digest)
        value = self.cache.get(f"{digest}-{size}")
        return value if value is not None and len(value) == size else None

    def _keep(self, digest: str, value: bytes) -> None:
        if len(value) > self.max_bytes:
            return
        self.cache.set(f"{digest}-{len(value)}", value)
        dropped = []
        with self._lock:
            self._used += len(value) - self._lengths.pop(digest, 0)
            self._lengths[digest] = len(value)
            while self._used > self.max_bytes:
                old, size = self._lengths.popitem(last=False)
                self._used -= size
                dropped.append(f"{old}-{size}")
        for name in dropped:
            self.cache.erase(name)

    def __reduce__(self) -> tuple[Any, ...]:
        cache = None if isinstance(self.cache, MemoryStore) else self.cache
        return _again, (self.inner, cache, self.max_bytes, self.validate)

    def identity_details(self) -> tuple[bool]:
        """What its values depend on beside their place: whether they may be old."""
        return (self.validate,)

    def _identity(self) -> tuple[Any, ...]:
        return self.inner, self.validate


def _again(inner: Store, cache: Store | None, max_bytes: int, validate: bool) -> CacheStore:
    return CacheStore(inner, cache, max_bytes=max_bytes, validate=validate)
