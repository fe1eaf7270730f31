"""Caches of what is made from equal descriptions: models, codec pipelines, texts of metadata.

All are bounded, keyed by complete values, and empty in forked children. Only frozen values belong
here: whoever asks gets the same object.

Python takes 1, 1.0 and True for equal, 0.0 and -0.0, a list and its copy after a change; texts of
objects leave things out. A key of `typed_key` is equal to another only if the two values have the
same types all the way down, the same bits and the same order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable
from datetime import timedelta
from functools import wraps
from io import BytesIO
from typing import Any, Generic, TypeAlias, TypeVar, cast

from omnizarr._json import FrozenDict, FrozenList, freeze
from omnizarr.concurrency.fork import on_fork
from omnizarr.model import Named

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Key: TypeAlias = bytes
# Returns plain data for an object, NotImplemented to pickle it as usual, or None for no key.
Special: TypeAlias = Callable[[Any], Any]

MAX_SIZE = 2**12  # bytes; larger values are not worth keeping
_caches: list[Cache[Any, Any]] = []


class Cache(Generic[K, V]):
    """A module's table of at most `size` values, which is emptied when it is full."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: dict[K, V] = {}
        self.get = self._values.get  # the quickest way; None for a key without a value
        _caches.append(self)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        if len(self._values) >= self.size:
            self._values.clear()
        self._values[key] = value
        return value

    def __len__(self) -> int:
        return len(self._values)


def cached(size: int) -> Callable[[F], F]:
    """Cache the results of a function; arguments are positional texts, bytes and types."""

    def decorate(function: F) -> F:
        results: Cache[Any, tuple[Any]] = Cache(size)  # in tuples: a result may be false

        @wraps(function)
        def call(*args: Any) -> Any:
            return (results.get(args) or results.put(args, (function(*args),)))[0]

        return cast(F, call)

    return decorate


def clear_all() -> None:
    """Empty all caches."""
    for cache in _caches:
        cache._values.clear()


on_fork(in_child=clear_all)


# Keys


class _NoKey(Exception):
    pass


class _Pickler(pickle.Pickler):
    """Pickles plain data; `special` says what is pickled for other objects."""

    special: Special | None = None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is complex or kind is timedelta or isinstance(value, type):
            return NotImplemented  # as usual
        if kind is FrozenDict or kind is FrozenList:
            return kind, (tuple(value.items() if kind is FrozenDict else value),)
        if kind is Named:
            return kind, (value.name, value.must_understand, freeze(value.configuration))
        tokens = None if self.special is None else self.special(value)
        if tokens is None:
            raise _NoKey
        return tokens if tokens is NotImplemented else (kind, tokens)


def typed_key(
    value: Any, special: Special | None = None, *, max_size: int | None = MAX_SIZE
) -> Key | None:
    """Return a unique key of a value, by `special` if not plain, or None if there is none."""
    out = BytesIO()
    pickler = _Pickler(out, 4)
    pickler.fast = True  # equal values give equal bytes, whichever of their parts are one object
    pickler.special = special
    try:
        pickler.dump(value)
    except (_NoKey, ValueError, RecursionError, pickle.PicklingError):  # it contains itself
        return None
    return out.getvalue() if max_size is None or out.tell() <= max_size else None
