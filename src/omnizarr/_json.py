"""Strict reading and writing of JSON, and JSON containers that cannot be changed.

Reading follows RFC 8259: UTF-8, no byte order mark, no comments, no trailing commas, no
duplicate names, bounded depth. Bare ``NaN`` and ``Infinity``, which early writers produced, are
read only where the caller allows them. Writing never produces them.

Frozen containers are subclasses of `dict` and `list`, so that they are written as JSON and compare
equal to plain ones. `copy.deepcopy` returns plain ones.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol, TypeAlias, cast

from omnizarr.errors import InvalidMetadata, Problem, WrongType

# A JSON value; `Any` inside containers, since every reader checks values before using them.
JSON: TypeAlias = "bool | int | float | str | Sequence[Any] | Mapping[str, Any] | None"

MAX_DEPTH = 64
MAX_BYTES = 256 * 2**20
LONGEST_KEPT = 2**13  # characters of a cached text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({n for n in names if names.count(n) > 1})
        raise ValueError(f"the name {twice[0]!r} occurs twice in one object")
    return found


def _refuse(name: str) -> float:
    raise ValueError(f"bare {name} is not JSON; write it as the string {json.dumps(name)}")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=float)


def loads(data: bytes, key: str, *, allow_nan: bool = False) -> JSON:
    """Return the value of a JSON document; `key` names it in errors."""

    def fail(message: str) -> InvalidMetadata:
        problem = Problem(key, "", message)
        return InvalidMetadata(f"{key!r} is not valid JSON: {message}", (problem,))

    if len(data) > MAX_BYTES:
        raise fail(f"{len(data)} bytes is more than a metadata document may have ({MAX_BYTES})")
    if data.startswith(b"\xef\xbb\xbf"):
        raise fail("it starts with a byte order mark, which RFC 8259 forbids")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise fail(f"not UTF-8 at byte {e.start}") from None

    try:
        value = (_LENIENT if allow_nan else _STRICT).decode(text)
    except json.JSONDecodeError as e:
        raise fail(f"{e.msg} at line {e.lineno} column {e.colno}") from None
    except RecursionError:
        raise fail("nested too deeply") from None
    except ValueError as e:
        raise fail(str(e)) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise fail(f"nested more than {MAX_DEPTH} levels deep")
    return cast(JSON, value)


def load_object(data: bytes, key: str, *, allow_nan: bool = False) -> dict[str, Any]:
    """Return the value of a document that must be a JSON object; see `loads`."""
    value = loads(data, key, allow_nan=allow_nan)
    if not isinstance(value, dict):
        message = f"expected a JSON object, got {kind_of(value)}"
        raise InvalidMetadata(f"{key!r}: {message}", (Problem(key, "", message),))
    return value


class Texts(Protocol):
    """A cache of indented texts by their unindented form, which is much quicker to write."""

    def get(self, key: tuple[str, int], /) -> bytes | None:
        """Return a cached text."""

    def put(self, key: tuple[str, int], value: bytes) -> bytes:
        """Cache a text."""


def dumps(
    value: object,
    *,
    indent: int = 2,
    sort_keys: bool = False,
    allow_nan: bool = False,
    texts: Texts | None = None,
) -> bytes:
    """Return the canonical JSON text of plain values.

    NaN and infinities, which documents of early writers may hold, become their names as
    strings, unless `allow_nan`: that text is for `loads` only, never for a store.
    """

    def text(value: object, *, escape: bool = False) -> bytes:
        write = partial(
            json.dumps, value, sort_keys=sort_keys, allow_nan=allow_nan, ensure_ascii=escape
        )
        key = None if texts is None else (write(), indent)
        found = None if texts is None or key is None else texts.get(key)
        if found is not None:
            return found
        try:
            found = write(indent=indent).encode("utf-8")
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can only escape
            return text(value, escape=True)
        if texts is not None and key is not None and len(key[0]) < LONGEST_KEPT:
            texts.put(key, found)
        return found

    try:
        return text(value)
    except ValueError:
        return text(plain(value, "document", lambda where, number: None))


def plain(value: object, where: str, on_special: Callable[[str, float], None]) -> Any:
    """Return `value` in plain JSON types.

    Tuples become lists, NumPy scalars and arrays (anything with ``tolist``) their values, and
    non-finite floats their names as strings, after telling `on_special`.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        on_special(where, value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        out = {}
        for k, v in value.items():
            if not isinstance(k, str):
                raise InvalidMetadata(f"{where}: names must be strings, got {k!r}")
            out[k] = plain(v, f"{where}.{k}", on_special)
        return out
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v, f"{where}[{i}]", on_special) for i, v in enumerate(value)]
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        converted = tolist()
        if type(converted) is not type(value):
            return plain(converted, where, on_special)
    raise WrongType(
        f"{where}: {type(value).__name__} cannot be stored as JSON;"
        " use numbers, strings, booleans, None, lists and dicts"
    )


def kind_of(value: object) -> str:
    """Name the kind of a JSON value for error messages, in the terms of the JSON standard."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the string {value!r}" if len(value) < 60 else "a long string"
    return "a list" if isinstance(value, (list, tuple)) else "an object"


def _depth(value: object) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        if deepest > MAX_DEPTH:
            break
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = inner
    return deepest


_REFUSED = "it is shared by equal nodes and cannot be changed; copy.deepcopy gives a copy that can"


class FrozenDict(dict[str, Any]):
    """A dictionary that cannot be changed."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


NOTHING = FrozenDict()
_PLAIN = frozenset({str, int, float, bool, type(None), bytes, FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """Return JSON values in containers that cannot be changed; other objects as they are."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return FrozenDict({name: freeze(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return FrozenList(map(freeze, value))
    return tuple(map(freeze, value)) if type(value) is tuple else value
