"""JSON references of kerchunk, versions 0 and 1: what each key stands for.

Specification: https://fsspec.github.io/kerchunk/spec.html

A value is text (the value itself, or ``base64:…``), an object (a JSON document), ``[url]`` (a
whole file) or ``[url, offset, length]``. Version 1 adds templates: ``{{u}}`` stands for a text, and
``{{f(c='x')}}`` for another template with variables. They are read without running code. Its
generators of keys, which hardly any writer uses, are refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from omnizarr._json import kind_of, load_object
from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.stores import operations
from omnizarr.stores.base import Range

MAX_TEXT = 2**13  # characters of a template, and of what becomes of it
_BASE64 = "base64:"
_EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_CALL = re.compile(r"""(\w+)\(((?:\s*\w+\s*=\s*(?:'[^'\\]*'|"[^"\\]*")\s*,?)*)\)""")
_ARGUMENT = re.compile(r"""(\w+)\s*=\s*(?:'([^'\\]*)'|"([^"\\]*)")""")


class ReferenceTarget(NamedTuple):
    """A file, or a part of it, that is the value of a key."""

    url: str
    span: Range | None = None  # None for all of it


Reference: TypeAlias = bytes | ReferenceTarget


class Document:
    """The references of a JSON document, as it is read or given as a dictionary."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        version = document.get("version")
        self._refs: Mapping[str, Any] = document
        self._templates: Mapping[str, str] = {}
        if type(version) is int and version == 1:
            self._refs = _object(document.get("refs", {}), "refs")
            self._templates = _object(document.get("templates", {}), "templates")
            if document.get("gen"):
                raise StoreError(
                    f"{name!r} has generators of keys ('gen'), which are not read; write their keys"
                    " into 'refs', with fsspec for example"
                )
        elif version is not None and not isinstance(version, (str, list, Mapping)):
            raise StoreError(
                f"{name!r} has references of version {version!r}; versions 0 and 1 are read"
            )
        for key, text in self._templates.items():
            if not isinstance(text, str):
                raise StoreError(f"templates.{key} must be text, got {kind_of(text)}")
        for key, value in self._refs.items():
            if not operations.is_key(key):
                raise StoreError(f"{name!r} has a reference with the key {key!r}, which is no key")
            if isinstance(value, (list, tuple)):
                target(key, value)
            elif not isinstance(value, (str, Mapping, bytes)):
                raise StoreError(
                    f"the reference {key!r} in {name!r} must be text, an object, [url] or"
                    f" [url, offset, length], got {kind_of(value)}"
                )

    @classmethod
    def read(cls, data: bytes, name: str) -> Document:
        """Return the references in a file."""
        try:
            return cls(load_object(data, name, allow_nan=True), name)
        except InvalidMetadata as e:
            raise StoreError(f"{name!r} is not a file of references: {e}") from e

    def find(self, key: str) -> Reference | None:
        """Return the value of a key, or its target; None if there is no such key."""
        value = self._refs.get(key)
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, (list, tuple)):
            url = render(value[0], self._templates) if self._templates else value[0]
            return target(key, [url, *value[1:]])
        if isinstance(value, Mapping):
            return json.dumps(value).encode()
        if not value.startswith(_BASE64):
            return str(value).encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(value[len(_BASE64) :], validate=True)
        except ValueError as e:
            raise StoreError(f"the reference {key!r} is not valid base64: {e}") from None

    def keys_below(self, prefix: str) -> Sequence[str]:
        """Return the keys below a prefix."""
        return operations.keys_below(self.keys, prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix."""
        return operations.list_level(operations.scan_sorted(self.keys), prefix)

    @cached_property
    def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return sorted(self._refs)


def render(text: str, templates: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced; those of a called template are its arguments."""

    def value(match: re.Match[str]) -> str:
        call = _CALL.fullmatch(match[1])
        name, given = (match[1], "") if call is None else (call[1], call[2])
        if name not in templates:
            raise StoreError(
                f"cannot use the template {text!r}: {name!r} is not the name of a template or"
                " variable; understood are {{name}} and {{name(variable='text')}}"
            )
        return render(templates[name], {n: a or b for n, a, b in _ARGUMENT.findall(given)})

    found = _EXPRESSION.sub(value, text) if len(text) <= MAX_TEXT else text
    if len(found) > MAX_TEXT:
        raise StoreError(f"the template {text[:40]!r}… has more than {MAX_TEXT} characters")
    return found


def target(key: str, value: Sequence[Any]) -> ReferenceTarget:
    """Return the target that a list names; raise if it is not valid."""
    valid = len(value) in (1, 3) and isinstance(value[0], str) and value[0]
    if not valid or not all(type(n) is int and 0 <= n < 2**63 for n in value[1:]):
        raise StoreError(
            f"the reference {key!r} must be [url] or [url, offset, length], got {str(value)[:200]}"
        )
    return ReferenceTarget(value[0], Range(*value[1:]) if len(value) == 3 else None)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StoreError(f"{where} must be an object, got {kind_of(value)}")
    return value
