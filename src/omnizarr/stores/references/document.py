"""JSON references of kerchunk, versions 0 and 1: what each key stands for.

Specification: https://fsspec.github.io/kerchunk/spec.html

A value is text (the value itself, or ``base64:…``), an object (a JSON document), ``[url]`` (a
whole file) or ``[url, offset, length]``. Version 1 adds templates, and generators of many keys. A
generator makes its keys when the document is read, and is refused if these would be too many; URLs
are made when they are needed.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from omnizarr._json import kind_of, load_object
from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.stores import operations
from omnizarr.stores.base import Range
from omnizarr.stores.operations import is_key
from omnizarr.stores.references.templates import Template, Value, has_expressions

MAX_GENERATED = 1_000_000  # keys of all generators of a document
MAX_GENERATED_TEXT = 2**27  # characters of these keys
_BASE64 = "base64:"


class ReferenceTarget(NamedTuple):
    """A file, or a part of it, that is the value of a key."""

    url: str
    span: Range | None = None  # None for all of it


Reference: TypeAlias = bytes | ReferenceTarget


class References(Protocol):
    """The values of keys, or where they are."""

    def find(self, key: str) -> Reference | None:
        """Return the value of a key, or its target; None if there is no such key."""

    def keys_below(self, prefix: str) -> Iterable[str]:
        """Return the keys below a prefix."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix."""


@dataclass(frozen=True, slots=True)
class _Generator:
    """Makes the targets of many keys."""

    url: Template
    offset: Template | None
    length: Template | None
    names: tuple[str, ...]
    templates: Mapping[str, Value]

    def target(self, key: str, values: tuple[int, ...]) -> ReferenceTarget:
        names = {**self.templates, **dict(zip(self.names, values, strict=True))}
        url = self.url.render(names)
        if self.offset is None or self.length is None:
            return ReferenceTarget(url)
        numbers = [_number(key, part.render(names)) for part in (self.offset, self.length)]
        return target(key, [url, *numbers])


class Document:
    """The references of a JSON document, as it is read or given as a dictionary."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        version = document.get("version")
        self._templates: dict[str, Value] = {}
        self._generated: dict[str, tuple[_Generator, tuple[int, ...]]] = {}
        self._keys: list[str] | None = None
        if version is None or isinstance(version, (str, list, Mapping)):
            self._refs: Mapping[str, Any] = document
        elif version == 1 and not isinstance(version, (bool, float)):
            self._refs = _object(document.get("refs", {}), "refs")
            self._read_extras(document)
        else:
            raise StoreError(
                f"{name!r} has references of version {version!r}; versions 0 and 1 are read"
            )
        self._check(name)

    @classmethod
    def read(cls, data: bytes, name: str) -> Document:
        """Return the references in a file."""
        try:
            return cls(load_object(data, name, allow_nan=True), name)
        except InvalidMetadata as e:
            raise StoreError(f"{name!r} is not a file of references: {e}") from e

    def _read_extras(self, document: Mapping[str, Any]) -> None:
        for name, text in _object(document.get("templates", {}), "templates").items():
            if not isinstance(text, str):
                raise StoreError(f"templates.{name} must be text, got {kind_of(text)}")
            self._templates[name] = Template.of(text) if has_expressions(text) else text
        generators = document.get("gen", [])
        if not isinstance(generators, list):
            raise StoreError(f"gen must be a list, got {kind_of(generators)}")
        room = [MAX_GENERATED, MAX_GENERATED_TEXT]
        for number, each in enumerate(generators):
            self._generate(_object(each, f"gen[{number}]"), f"gen[{number}]", room)

    def _generate(self, given: Mapping[str, Any], where: str, room: list[int]) -> None:
        """Make the keys of a generator; `room` is what all of them may still have."""
        parts: dict[str, Template | None] = {}
        for name in ("key", "url", "offset", "length"):
            text = given.get(name)
            if isinstance(text, int) and not isinstance(text, bool):
                text = str(text)
            if text is None and name in ("offset", "length"):
                parts[name] = None
            elif isinstance(text, str):
                parts[name] = Template.of(text)
            else:
                raise StoreError(f"{where}.{name} must be text, got {kind_of(text)}")
        key, url = parts["key"], parts["url"]
        if (parts["offset"] is None) != (parts["length"] is None):
            raise StoreError(f"{where} has one of offset and length; give both, or none")
        ranges = _dimensions(given.get("dimensions"), where)
        count = math.prod(len(values) for values in ranges.values())
        room[0] -= count
        if room[0] < 0:
            raise StoreError(f"{where} makes {count} keys; at most {MAX_GENERATED} are allowed")
        if key is None or url is None:
            raise StoreError(f"{where} needs a key and a url")
        made = _Generator(url, parts["offset"], parts["length"], (*ranges,), self._templates)
        for values in itertools.product(*ranges.values()):
            name = key.render({**self._templates, **dict(zip(ranges, values, strict=True))})
            room[1] -= len(name)
            if room[1] < 0:
                raise StoreError(f"{where}: the keys are longer than {MAX_GENERATED_TEXT} together")
            self._generated[name] = made, values

    def _check(self, name: str) -> None:
        for key, value in self._refs.items():
            if not is_key(key):
                raise StoreError(f"{name!r} has a reference with the key {key!r}, which is no key")
            if isinstance(value, (list, tuple)):
                _check_target(key, value)
            elif not isinstance(value, (str, Mapping, bytes)):
                raise StoreError(
                    f"the reference {key!r} in {name!r} must be text, an object, [url] or"
                    f" [url, offset, length], got {kind_of(value)}"
                )
        for key in self._generated:
            if not is_key(key):
                raise StoreError(f"a generator in {name!r} makes the key {key!r}, which is no key")

    def find(self, key: str) -> Reference | None:
        """Return the value of a key, or its target; None if there is no such key."""
        generated = self._generated.get(key)
        if generated is not None:
            return generated[0].target(key, generated[1])
        value = self._refs.get(key)
        if isinstance(value, (list, tuple)):
            return self._target(key, value)
        return None if value is None else _inline(key, value)

    def _target(self, key: str, value: Sequence[Any]) -> ReferenceTarget:
        if self._templates and has_expressions(value[0]):
            return target(key, [Template.of(value[0]).render(self._templates), *value[1:]])
        return target(key, value)

    def keys_below(self, prefix: str) -> Iterable[str]:
        """Return the keys below a prefix."""
        return operations.keys_below(self.keys, prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix."""
        return operations.list_level(operations.scan_sorted(self.keys), prefix)

    @property
    def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        if self._keys is None:
            self._keys = sorted({*self._refs, *self._generated})
        return self._keys


def _dimensions(given: Any, where: str) -> dict[str, Sequence[int]]:
    """Return the values of each variable of a generator."""
    found: dict[str, Sequence[int]] = {}
    for name, values in _object(given, f"{where}.dimensions").items():
        place = f"{where}.dimensions.{name}"
        if isinstance(values, list):
            numbers = values
        else:
            limits = _object(values, place)
            numbers = [limits.get("start", 0), limits.get("stop"), limits.get("step", 1)]
        if not all(type(n) is int and abs(n) < 2**62 for n in numbers):
            raise StoreError(f"{place} must be a list of whole numbers, or have start, stop, step")
        if isinstance(values, list):
            found[name] = values
            continue
        start, stop, step = numbers
        if step == 0 or abs(stop - start) > MAX_GENERATED * abs(step):
            raise StoreError(f"{place} must have 1 to {MAX_GENERATED} values")
        found[name] = range(start, stop, step)
    if not found:
        raise StoreError(f"{where}.dimensions has no variables")
    return found


def _inline(key: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Mapping):
        return json.dumps(value).encode()
    if not value.startswith(_BASE64):
        return str(value).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(value[len(_BASE64) :], validate=True)
    except (binascii.Error, ValueError) as e:
        raise StoreError(f"the reference {key!r} is not valid base64: {e}") from None


def _check_target(key: str, value: Sequence[Any]) -> None:
    numbers = value[1:]
    valid = len(value) in (1, 3) and isinstance(value[0], str) and value[0]
    if not valid or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise StoreError(
            f"the reference {key!r} must be [url] or [url, offset, length], got {str(value)[:200]}"
        )


def target(key: str, value: Sequence[Any]) -> ReferenceTarget:
    """Return the target that a list names; raise if it is not valid."""
    _check_target(key, value)
    return ReferenceTarget(value[0], Range(*value[1:]) if len(value) == 3 else None)


def _number(key: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise StoreError(f"the generator of {key!r} makes {text!r} in place of a number")
    return int(text)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StoreError(f"{where} must be an object, got {kind_of(value)}")
    return value
