"""Keys of tables: complete, typed and hashable, made from plain data.

Python takes 1, 1.0 and True for equal, 0.0 and -0.0, a list and its copy after a change; texts
of objects leave things out. A key made here is equal to another only if the two values have the
same types all the way down, the same bits and the same order. What cannot be told so has no key.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from itertools import chain
from typing import Any, TypeAlias

from omnizarr._json import FrozenDict, FrozenList
from omnizarr.model.node import Named

Key: TypeAlias = tuple[Hashable, ...]
# What tells an object that is not plain data, as many parts for all of a type; None: no key.
Special: TypeAlias = Callable[[Any], Key | None]

MAX_SIZE = 2**12  # tokens and characters of long texts; larger values are not worth keeping
LONG = 64
_double = struct.Struct("<d").pack


class _NoKey(Exception):
    pass


def typed_key(
    value: Any, special: Special | None = None, *, max_size: int | None = MAX_SIZE
) -> Key | None:
    """Return a key that no other value has, or None where there is none or it would be large.

    `special` knows objects that are not plain data.
    """
    out: list[Any] = []
    limit = sys.maxsize if max_size is None else max_size
    try:
        size = _tell((value,), out, special, limit)
    except (_NoKey, RecursionError):
        return None
    return tuple(out) if size + len(out) <= limit else None


def _tell(values: Iterable[Any], out: list[Any], special: Special | None, limit: int) -> int:
    """Append what tells values, and return the number of characters in long texts.

    Strings, integers and None stand alone, others behind their type.
    """
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
            size += _tell(chain.from_iterable(value.items()), out, special, limit)
        elif kind is list or kind is tuple or kind is FrozenList:
            out += (tuple if kind is tuple else list, len(value))
            size += _tell(value, out, special, limit)
        elif kind is Named:
            out.append(Named)
            parts = value.name, value.must_understand, value.configuration
            size += _tell(parts, out, special, limit)
        else:
            size += _tell_other(value, kind, out, special)
        if size + len(out) > limit:
            raise _NoKey
    return size


def _tell_other(value: Any, kind: type, out: list[Any], special: Special | None) -> int:
    if kind is bytes:
        out += (bytes, value)
        return len(value)
    if kind is complex:
        out += (complex, _double(value.real), _double(value.imag))
    elif kind is type or kind is timedelta:
        out += (kind, value)
    else:
        tokens = None if special is None else special(value)
        if tokens is None:
            raise _NoKey
        out += (kind, *tokens)
    return 0
