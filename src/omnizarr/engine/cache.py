"""Decoded chunks kept in memory, and indexes of shards: on request, and never stale.

``with omnizarr.configure(chunk_cache="256MB")`` keeps up to so many bytes; they go when the block
ends. Before every use the store is asked for the generation of the key, so that a value that was
changed by anybody is read again; a store that cannot tell generations is read without the cache.
Of shards the inner chunks are kept, not the shard. Two threads that want the same chunk decode it
once. Items of variable length are not kept: they may be objects that a caller could change.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy.typing as npt

from omnizarr import config
from omnizarr.config import ByteBudget
from omnizarr.engine.allowance import alone

Values: TypeAlias = npt.NDArray[Any]
ENTRY = 512  # bytes that an entry takes besides its values
MOST_NUMBERS = 2**10


@dataclass(slots=True)
class Flight:
    """A chunk that a thread is about to bring."""

    thread: int = field(default_factory=threading.get_ident)
    landed: threading.Event = field(default_factory=threading.Event)
    values: Values | None = None  # None after it has landed: it failed


class ChunkCache:
    """Arrays by name, up to a number of bytes; what was used longest ago goes first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._kept: OrderedDict[Hashable, Values] = OrderedDict()
        self._flights: dict[Hashable, Flight] = {}
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._next = itertools.count()
        self._lock = threading.RLock()

    def get(
        self, names: Sequence[Hashable], load: Callable[[list[int]], Sequence[Values]]
    ) -> list[Values]:
        """The arrays of all names; `load` brings those that are missing, by their places.

        What another thread is bringing already is waited for.
        """
        found: list[Values | None] = [None] * len(names)
        mine: dict[int, Flight] = {}
        theirs: dict[int, Flight] = {}
        try:
            with alone, self._lock:
                for i, name in enumerate(names):
                    found[i] = self._kept.get(name)
                    flight = self._flights.get(name)
                    if found[i] is not None:
                        self._kept.move_to_end(name)
                    elif flight is None:
                        mine[i] = self._flights[name] = Flight()
                    elif flight.thread != threading.get_ident():  # else this is a finaliser
                        theirs[i] = flight
            if mine:
                for i, values in zip(mine, load(list(mine)), strict=True):
                    found[i] = mine[i].values = values
                    self._keep(names[i], values)
        finally:
            with alone, self._lock:
                for i, own in mine.items():
                    if self._flights.get(names[i]) is own:
                        del self._flights[names[i]]
                    own.landed.set()
        # Nobody waits before its own have landed, so that no two wait for each other.
        for i, flight in theirs.items():
            flight.landed.wait()
            found[i] = flight.values
        failed = [i for i, values in enumerate(found) if values is None]
        for i, values in zip(failed, load(failed) if failed else (), strict=True):
            found[i] = values
        return [values for values in found if values is not None]

    def has(self, name: Hashable) -> bool:
        """Whether an array is kept now."""
        with alone, self._lock:
            return name in self._kept

    def _keep(self, name: Hashable, values: Values) -> None:
        values.flags.writeable = False  # many callers see it
        if _cost(values) > self.limit:
            return
        with alone, self._lock:
            before = self._kept.pop(name, None)
            self._kept[name] = values
            self.nbytes += _cost(values) - (0 if before is None else _cost(before))
            while self.nbytes > self.limit:
                self.nbytes -= _cost(self._kept.popitem(last=False)[1])

    def number(self, key: Hashable) -> int:
        """A number for equal keys, short and quick to compare.

        A key that was not asked for in long is forgotten, and gets another number then.
        """
        with alone, self._lock:
            found = self._numbers.get(key)
            if found is None:
                found = self._numbers[key] = next(self._next)
                if len(self._numbers) > MOST_NUMBERS:
                    self._numbers.popitem(last=False)
            else:
                self._numbers.move_to_end(key)
            return found


def _cost(values: Values) -> int:
    return values.nbytes + ENTRY


_caches: WeakKeyDictionary[ByteBudget, ChunkCache] = WeakKeyDictionary()
_guard = threading.RLock()


def current() -> ChunkCache | None:
    """The cache that the settings ask for."""
    budget = config.get().chunk_cache
    if budget is None:
        return None
    with alone, _guard:
        cache = _caches.get(budget)
        if cache is None:
            cache = _caches[budget] = ChunkCache(budget.nbytes)
        return cache


def _forget() -> None:
    """A forked child has none of the threads that its parent's caches may wait for."""
    global _caches, _guard
    _caches, _guard = WeakKeyDictionary(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
