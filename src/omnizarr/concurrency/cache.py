"""Caches of what is made from equal descriptions: models, codec pipelines, texts of metadata.

All are bounded, keyed by complete values, and empty in forked children. Only frozen values belong
here: whoever asks gets the same object.

Python takes 1, 1.0 and True for equal, 0.0 and -0.0, a list and its copy after a change; texts of
objects leave things out. A key of `typed_key` is equal to another only if the two values have the
same types all the way down, the same bits and the same order.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from functools import wraps
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar, cast

from omnizarr._json import FrozenDict, FrozenList
from omnizarr.concurrency.fork import on_fork
from omnizarr.model import Named

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Key: TypeAlias = tuple[Hashable, ...]
# Returns the tokens of an object that is not plain data, as many for all of a type, or None.
Special: TypeAlias = Callable[[Any], Key | None]

MAX_SIZE = 2**12  # tokens and characters of long texts; larger values are not worth keeping
LONG = 64
_double = struct.Struct("<d").pack
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

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()

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
        cache.clear()


on_fork(in_child=clear_all)


# Keys


class _NoKey(Exception):
    pass


def typed_key(
    value: Any, special: Special | None = None, *, max_size: int | None = MAX_SIZE
) -> Key | None:
    """Return a unique key of a value, by `special` if not plain, or None if there is none."""
    out: list[Any] = []
    limit = sys.maxsize if max_size is None else max_size
    try:
        size = _append((value,), out, special, limit)
    except (_NoKey, RecursionError):
        return None
    return tuple(out) if size + len(out) <= limit else None


def _append(values: Iterable[Any], out: list[Any], special: Special | None, limit: int) -> int:
    """Append the tokens of values to `out`, and return the size of long texts among them."""
    size = 0
    for value in values:
        kind = type(value)
        if kind is str:
            out.append(value)
            if len(value) > LONG:
                size += len(value)
        elif kind is int or value is None:
            out.append(value)
        elif kind is bool:
            out += (bool, value)
        elif kind is float:
            out += (float, _double(value))  # tells zeros and NaNs apart
        elif kind is dict or kind is FrozenDict:
            out += (dict, len(value))
            size += _append(chain.from_iterable(value.items()), out, special, limit)
        elif kind is list or kind is tuple or kind is FrozenList:
            out += (tuple if kind is tuple else list, len(value))
            size += _append(value, out, special, limit)
        elif kind is Named:
            out.append(Named)
            parts = value.name, value.must_understand, value.configuration
            size += _append(parts, out, special, limit)
        elif kind is bytes:
            out += (bytes, value)
            size += len(value)
        elif kind is complex:
            out += (complex, _double(value.real), _double(value.imag))
        elif kind is type or kind is timedelta:
            out += (kind, value)
        else:
            tokens = None if special is None else special(value)
            if tokens is None:
                raise _NoKey
            out += (kind, *tokens)
        if size + len(out) > limit:
            raise _NoKey
    return size
