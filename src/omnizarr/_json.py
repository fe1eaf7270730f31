"""Strict reading and writing of JSON, and JSON containers that cannot be changed.

Reading follows RFC 8259: UTF-8, no byte order mark, no comments, no trailing commas, no
duplicate names, bounded depth. Bare ``NaN`` and ``Infinity``, which early writers produced, are
read only where the caller allows them. Writing never produces them, unless the process stands in
for zarr-python (`keep_bare_nan`), which writes them.

The members of a large object are read one by one (`LazyObject`), from their places in the text.

Frozen containers are subclasses of `dict` and `list`, so that they are written as JSON and compare
equal to plain ones. `copy.deepcopy` returns plain ones.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from importlib import import_module
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from json.encoder import encode_basestring
from typing import Any, ClassVar, NoReturn, TypeAlias, cast
from weakref import WeakValueDictionary

from omnizarr.errors import InvalidMetadata, Problem, WrongType

# A JSON value; `Any` inside containers, since every reader checks values before using them.
JSON: TypeAlias = "bool | int | float | str | Sequence[Any] | Mapping[str, Any] | None"

MAX_DEPTH = 128
MAX_BYTES = 256 * 2**20


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({n for n in names if names.count(n) > 1})
        raise ValueError(f"the name {twice[0]!r} occurs twice in one object")
    return found


def _refuse(name: str) -> float:
    raise ValueError(f"bare {name} is not JSON; write it as the string {json.dumps(name)}")


_bare_nan = False


def keep_bare_nan(keep: bool) -> None:
    """Read and write bare ``NaN`` and ``Infinity`` everywhere in this process, or no longer."""
    global _bare_nan
    _bare_nan = keep


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=float)


def loads(data: bytes, key: str, *, allow_nan: bool = False) -> JSON:
    """Return the value of a JSON document; `key` names it in errors."""

    def fail(message: str) -> InvalidMetadata:
        problem = Problem(key, "", f"not valid JSON: {message}")
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
        value = (_LENIENT if allow_nan or _bare_nan else _STRICT).decode(text)
    except json.JSONDecodeError as e:
        raise fail(f"{e.msg} at line {e.lineno} column {e.colno}") from None
    except RecursionError:
        raise fail("nested too deeply") from None
    except ValueError as e:
        raise fail(str(e)) from None
    if text.count("[") + text.count("{") >= MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise fail(f"nested more than {MAX_DEPTH} levels deep")
    return cast(JSON, value)


def load_object(data: bytes, key: str, *, allow_nan: bool = False) -> dict[str, Any]:
    """Return the value of a document that must be a JSON object; see `loads`."""
    value = loads(data, key, allow_nan=allow_nan)
    if not isinstance(value, dict):
        message = f"expected a JSON object, got {kind_of(value)}"
        raise InvalidMetadata(f"{key!r}: {message}", (Problem(key, "", message),))
    return value


# The start of a member's name, and the start and the end of its value.
Span: TypeAlias = tuple[int, int, int]


_Find: TypeAlias = Callable[[bytes, tuple[str, ...], bool], list[dict[str, Span]] | None]
_compiled: _Find | None = None
with suppress(ImportError):  # no compiler when it was installed
    # import-linter takes an import of a compiled module for one of the whole package.
    _compiled = import_module("omnizarr._members").members


class LazyObject(Mapping[str, Any]):
    """A JSON object, checked when it is made, whose members are parsed on access."""

    def __init__(self, data: bytes, key: str, spans: dict[str, Span], allow_nan: bool) -> None:
        self.data, self.start, self.end = data, data.find(b"{"), data.rfind(b"}") + 1
        self.inner: LazyObject | None = None  # that `read` was asked for
        self._key, self._spans, self._allow_nan = key, spans, allow_nan

    @classmethod
    def read(
        cls, data: bytes, key: str, names: tuple[str, ...] = (), *, allow_nan: bool = False
    ) -> LazyObject:
        """Return the object in a document; raise as `load_object` does.

        If the first of `names` is an object in it, that becomes `inner`, and so on.
        """
        allow_nan = allow_nan or _bare_nan
        known = _lazy.get((id(data), names, allow_nan))
        if known is not None and known.data is data:
            return known
        levels = find_members(data, names, allow_nan) if len(data) <= MAX_BYTES else None
        if levels is None:
            load_object(data, key, allow_nan=allow_nan)
            raise InvalidMetadata(f"{key!r} is not valid JSON")
        first, *others = (cls(data, key, spans, allow_nan) for spans in levels)
        outer = first
        for name, inner in zip(names, others, strict=False):
            _, inner.start, inner.end = outer._spans[name]
            outer.inner, outer = inner, inner
        _lazy[id(data), names, allow_nan] = first
        return first

    def __getitem__(self, name: str) -> Any:
        _, start, end = self._spans[name]
        return loads(self.data[start:end], f"{self._key} ({name})", allow_nan=self._allow_nan)

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, name: object) -> bool:
        return name in self._spans

    @property
    def text(self) -> bytes:
        """The text of the object."""
        return self.data[self.start : self.end]

    def changed(
        self, changes: Mapping[str, bytes | None], *, depth: int, indent: int, ordered: bool
    ) -> bytes:
        """Return the whole document with values replaced, added, or erased for None.

        The texts of other members stay as they are. The new ones are indented, as is the object's
        own member at `depth`. They come at the end, or if the members are `ordered` in their place.
        """
        margin = b"\n" + b" " * (depth * indent)
        text = memoryview(self.data)
        members: dict[str, bytes | memoryview] = {
            name: text[at:end] for name, (at, _, end) in self._spans.items()
        }
        for name, value in changes.items():
            if value is None:
                members.pop(name, None)
            elif name in self._spans:
                at, start, _ = self._spans[name]
                members[name] = self.data[at:start] + value.replace(b"\n", margin)
            else:
                members[name] = quote(name) + b": " + value.replace(b"\n", margin)
        added = members.keys() - self._spans.keys()
        kept = [name for name in members if name not in added]
        names = merge(kept, sorted(added)) if ordered else members
        entries = (b"," + margin).join(members[name] for name in names)
        around = (margin, margin[: len(margin) - indent]) if members else (b"", b"")
        before, after = text[: self.start + 1], text[self.end - 1 :]
        return b"".join([before, around[0], entries, around[1], after])


# By the address of the data, which an object keeps alive.
_lazy: WeakValueDictionary[tuple[int, tuple[str, ...], bool], LazyObject] = WeakValueDictionary()


def quote(text: str) -> bytes:
    """Return the JSON text of a string."""
    try:
        return encode_basestring(text).encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(text).encode()


# A member's name and the colon; the characters of the text are bytes.
_NAME = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*')


def find_members(
    data: bytes, names: tuple[str, ...] = (), allow_nan: bool = False
) -> list[dict[str, Span]] | None:
    """Return the spans of an object's members, then of each nested object that `names` leads to.

    None stands for data that are not a valid object; names may occur twice inside of a member.
    """
    if _compiled is not None:
        return _compiled(data, names, allow_nan or _bare_nan)
    try:
        load_object(data, "", allow_nan=allow_nan)
    except InvalidMetadata:
        return None
    decoder: Any = _LENIENT  # the text is known to be valid
    text = data.decode("latin-1")  # whose characters are bytes
    at, levels = text.index("{"), list[dict[str, Span]]()
    for name in (None, *names):
        if name is not None:
            at = levels[-1].get(name, (0, 0, 0))[1]
            if text[at] != "{" or not at:
                break
        found: dict[str, Span] = {}
        while match := _NAME.match(text, at + 1):
            (start, stop), begin = match.span(1), match.end()
            _, end = decoder.scan_once(text, begin)
            found[json.loads(data[start:stop])] = (start, begin, end)
            at = WHITESPACE.match(text, end).end()  # of a comma or the closing bracket
        levels.append(found)
    return levels


def dumps(
    value: object, *, indent: int | None = 2, sort_keys: bool = False, allow_nan: bool = False
) -> bytes:
    """Return the canonical JSON text of plain values.

    NaN and infinities, which documents of early writers may hold, become their names as
    strings, unless `allow_nan`: that text is for `loads` only, never for a store.
    """
    allow_nan = allow_nan or _bare_nan
    write = partial(json.dumps, indent=indent, sort_keys=sort_keys, allow_nan=allow_nan)
    try:
        text = write(value, ensure_ascii=False)
    except ValueError:
        value = plain(value, "document", lambda where, number: None)
        text = write(value, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only escape
        return write(value).encode("utf-8")


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
        if math.isfinite(value) or _bare_nan:
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
        dates = getattr(getattr(value, "dtype", None), "kind", "-") in "mM"  # have no JSON form
        if type(converted) is not type(value) and not dates:
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


class _Frozen:
    """A container that cannot be changed; `_plain` is its ordinary class."""

    __slots__ = ()
    _plain: ClassVar[type]

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    __setitem__ = __delitem__ = _refuse
    clear = pop = _refuse

    def __copy__(self) -> Any:
        return self._plain(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._plain(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._plain(self),)


class FrozenDict(_Frozen, dict[str, Any]):
    """A dictionary that cannot be changed."""

    __slots__ = ()
    _plain = dict
    __ior__ = popitem = setdefault = update = _Frozen._refuse


class FrozenList(_Frozen, list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()
    _plain = list
    __iadd__ = __imul__ = append = extend = insert = remove = reverse = sort = _Frozen._refuse


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
