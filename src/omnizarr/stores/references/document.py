"""References of kerchunk, JSON of versions 0 and 1 or Parquet: what each key stands for.

Specification: https://fsspec.github.io/kerchunk/spec.html

A value is text (the value itself, or ``base64:…``), an object (a JSON document), ``[url]`` (a
whole file) or ``[url, offset, length]``. Version 1 adds templates: ``{{u}}`` stands for a text.
Templates with variables and generators of keys, which hardly any writer uses, are refused.

Parquet references are a folder with ``.zmetadata``, all metadata of a version 2 hierarchy, and
``<array>/refs.<n>.parq`` with a row for each chunk, in C order: `raw` is its value, or `path`,
`offset` and `size` say where it is; a size and offset of 0 mean the whole file, no path and no
value that there is no chunk.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from omnizarr import registry
from omnizarr._json import kind_of, load_object
from omnizarr.errors import InvalidMetadata, StoreError
from omnizarr.stores import operations
from omnizarr.stores.base import Range, Store, value_digest

MAX_TEXT = 2**13  # characters of a template, and of what becomes of it
ZMETADATA = ".zmetadata"
MAX_RECORD = 2**24  # rows of a file
MAX_BYTES = 2**30  # of the columns of a file in memory
KEPT = 16  # files
_COLUMNS = ("path", "offset", "size", "raw")
_BASE64 = "base64:"
_EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)


class ReferenceTarget(NamedTuple):
    """A file, or a part of it, that is the value of a key."""

    url: str
    span: Range | None = None  # None for all of it

    def part(self, range: Range | None) -> Range | None:
        """Return the range of the file for a range of the value."""
        if self.span is None:
            return range
        return self.span if range is None else range.within(self.span)

    def generation(self, found: str | None) -> str | None:
        """Return the generation of the value, from the generation of the file."""
        return None if found is None else value_digest(repr((found, self.span)).encode())


Reference: TypeAlias = bytes | ReferenceTarget


class Document:
    """The references of a JSON document, from a file or a dictionary."""

    def __init__(self, document: Mapping[str, Any], name: str) -> None:
        version = document.get("version")
        self._refs: Mapping[str, Any] = document
        self._templates: Mapping[str, str] = {}
        if type(version) is int and version == 1:
            self._refs, self._templates = (document.get(name, {}) for name in ("refs", "templates"))
            if not isinstance(self._refs, Mapping) or not isinstance(self._templates, Mapping):
                raise StoreError(f"refs and templates of {name!r} must be objects")
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
            if not isinstance(text, str) or len(text) > MAX_TEXT:
                raise StoreError(f"templates.{key} must be text of at most {MAX_TEXT} characters")
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
        return cls(_load(data, name), name)

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
    """Return a text with its ``{{…}}`` replaced."""

    def value(match: re.Match[str]) -> str:
        found = templates.get(match[1])
        if found is None or "{{" in found:
            raise StoreError(
                f"cannot use the template {text!r}: {match[1]!r} is not the name of a template"
                " without variables; understood is {{name}}"
            )
        return found

    if len(text) > MAX_TEXT:
        raise StoreError(f"the template {text[:40]!r}… has more than {MAX_TEXT} characters")
    return _EXPRESSION.sub(value, text)


def target(key: str, value: Sequence[Any]) -> ReferenceTarget:
    """Return the target that a list names; raise if it is not valid."""
    valid = len(value) in (1, 3) and isinstance(value[0], str) and value[0]
    if not valid or not all(type(n) is int and 0 <= n < 2**63 for n in value[1:]):
        raise StoreError(
            f"the reference {key!r} must be [url] or [url, offset, length], got {str(value)[:200]}"
        )
    return ReferenceTarget(value[0], Range(*value[1:]) if len(value) == 3 else None)


def _load(data: bytes, name: str) -> dict[str, Any]:
    try:
        return load_object(data, name, allow_nan=True)
    except InvalidMetadata as e:
        raise StoreError(f"{name!r} has no references: {e}") from e


# Parquet

Rows: TypeAlias = Callable[[int], list[Any]]  # path, offset, size and value of a row


@dataclass(frozen=True, slots=True)
class _Array:
    path: str
    counts: tuple[int, ...]
    separator: str

    def number(self, name: str) -> int | None:
        """Return the number of a chunk by the end of its key; None if it is no chunk."""
        if not self.counts:
            return 0 if name == "0" else None
        parts = name.split(self.separator)
        if len(parts) != len(self.counts):
            return None
        number = 0
        for part, count in zip(parts, self.counts, strict=True):
            if not part.isdecimal() or str(int(part)) != part or int(part) >= count:
                return None
            number = number * count + int(part)
        return number

    def name(self, number: int) -> str:
        """Return the end of the key of a chunk."""
        parts: list[str] = []
        for count in reversed(self.counts):
            number, part = divmod(number, count)
            parts.append(str(part))
        return self.separator.join(reversed(parts)) or "0"


class ParquetReferences:
    """The references in Parquet files below a prefix of a store; `data` is their metadata."""

    def __init__(self, store: Store, prefix: str, name: str, data: bytes) -> None:
        _load_pyarrow()  # or its absence would look like damaged chunks
        self._store, self._prefix, self._name = store, prefix, name
        document = _load(data, f"{name}/{ZMETADATA}")
        metadata, size = document.get("metadata"), document.get("record_size")
        if not isinstance(metadata, dict) or type(size) is not int or not 0 < size <= MAX_RECORD:
            raise StoreError(
                f"{ZMETADATA} of {name!r} must have 'metadata', and a 'record_size' from 1 to"
                f" {MAX_RECORD}"
            )
        self._size = size
        whole = {"metadata": metadata, "zarr_consolidated_format": 1}
        self._documents = {ZMETADATA: json.dumps(whole).encode()}
        self._arrays: dict[str, _Array] = {}
        for key, value in metadata.items():
            if not isinstance(value, (str, dict)):
                raise StoreError(f"{key!r} must be text or an object, got {kind_of(value)}")
            data = (value if isinstance(value, str) else json.dumps(value)).encode()
            self._documents[operations.check_key(key)] = data
            path, _, name = key.rpartition("/")
            if name == ".zarray":
                self._arrays[path] = _array(key, data)
        self._kept: dict[tuple[str, int], Rows | None] = {}

    def find(self, key: str) -> Reference | None:
        """Return the value of a key, or its target; None if there is no such key."""
        if key in self._documents:
            return self._documents[key]
        place = self._place(key)
        if place is None:
            return None
        array, number = place
        rows = self._rows(array.path, number // self._size)
        return None if rows is None else _reference(key, rows(number % self._size))

    def _place(self, key: str) -> tuple[_Array, int] | None:
        path, _, name = key.rpartition("/")
        while True:
            array = self._arrays.get(path)
            if array is not None:
                number = array.number(name)
                return None if number is None else (array, number)
            if not path:
                return None
            path, _, part = path.rpartition("/")
            name = f"{part}/{name}"

    def keys_below(self, prefix: str, *, one_level: bool = False) -> Iterator[str]:
        """Yield the keys below a prefix; with `one_level`, without chunks of arrays below it."""
        yield from (key for key in self._documents if key.startswith(prefix))
        for path, array in self._arrays.items():
            start = f"{path}/" if path else ""
            if prefix.startswith(start) or (start.startswith(prefix) and not one_level):
                yield from (k for k in self._chunks(array, start) if k.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below a prefix."""
        return operations.one_level(self.keys_below(prefix, one_level=True), prefix)

    def _chunks(self, array: _Array, start: str) -> Iterator[str]:
        """Yield the keys of the chunks of an array that exist."""
        total = math.prod(array.counts)
        for record in self._records(array.path, -(-total // self._size)):
            rows = self._rows(array.path, record)
            if rows is None:
                continue
            first = record * self._size
            for number in range(first, min(first + self._size, total)):
                key = start + array.name(number)
                if _reference(key, rows(number - first)) is not None:
                    yield key

    def _records(self, path: str, count: int) -> Iterable[int]:
        """Return the numbers of an array's files that may exist."""
        if not operations.can_list(self._store):
            if count > MAX_RECORD:
                raise StoreError(f"{path!r} in {self._name!r} has too many chunks to list them")
            return range(count)
        keys, _ = operations.list_dir(self._store, self._folder(path))
        names = (key.rpartition("/")[2].split(".") for key in keys)
        numbers = (n[1] for n in names if len(n) == 3 and n[0] == "refs" and n[2] == "parq")
        return sorted(int(n) for n in numbers if n.isdecimal() and int(n) < count)

    def _folder(self, path: str) -> str:
        return f"{self._prefix}{path}/" if path else self._prefix

    def _rows(self, path: str, record: int) -> Rows | None:
        kept, place = self._kept, (path, record)
        if place in kept:
            return kept[place]
        key = f"{self._folder(path)}refs.{record}.parq"
        data = self._store.get(key)
        rows = None if data is None else _read(data, self._size, f"{key} in {self._store!r}")
        if len(kept) >= KEPT:
            kept = self._kept = {}
        kept[place] = rows
        return rows


def _array(key: str, data: bytes) -> _Array:
    document = load_object(data, key, allow_nan=True)
    shape: Any = document.get("shape")
    chunks: Any = document.get("chunks")
    separator = document.get("dimension_separator", ".")
    valid = all(
        isinstance(lengths, list) and all(type(n) is int and n >= least for n in lengths)
        for lengths, least in ((shape, 0), (chunks, 1))
    )
    if not valid or len(shape) != len(chunks) or len(shape) > 64 or separator not in (".", "/"):
        raise StoreError(f"{key!r} has no valid shape, chunks and dimension_separator")
    counts = tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    return _Array(key.rpartition("/")[0], counts, separator)


def _reference(key: str, row: list[Any]) -> Reference | None:
    path, offset, size, raw = row
    if isinstance(raw, (str, bytes)):
        return raw.encode() if isinstance(raw, str) else raw
    if raw is not None:
        raise StoreError(f"the reference {key!r} must have text or bytes, got {kind_of(raw)}")
    if path is None or path == "":
        return None
    found = target(key, [path, 0 if offset is None else offset, 0 if size is None else size])
    return found._replace(span=None) if found.span == Range(0, 0) else found


def _read(data: bytes, size: int, name: str) -> Rows:
    """Return the rows of a Parquet file of at most `size` rows."""
    pyarrow, parquet = _load_pyarrow()
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(data))
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        rows, nbytes = file.metadata.num_rows, sum(g.total_byte_size for g in groups)
        if rows > size:
            raise StoreError(f"{name} has {rows} rows, more than record_size, which is {size}")
        if nbytes > MAX_BYTES:
            raise StoreError(f"{name} has {nbytes} bytes of references, more than {MAX_BYTES}")
        present = [c for c in _COLUMNS if c in file.schema_arrow.names]
        table = file.read(columns=present).combine_chunks()
    except (pyarrow.ArrowException, OSError, ValueError) as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"{name} is not a Parquet file of references: {e}") from e
    columns = {c: table.column(c) for c in present}

    def row(number: int) -> list[Any]:
        there = columns if number < table.num_rows else {}
        return [there[c][number].as_py() if c in there else None for c in _COLUMNS]

    return row


def _load_pyarrow() -> tuple[Any, Any]:
    needed = "references in Parquet files need the package pyarrow"
    needed += ": pip install 'omnizarr[references]'"
    names = ("pyarrow", "pyarrow.parquet")
    pyarrow, parquet = (registry.load_optional(name, needed) for name in names)
    return pyarrow, parquet
