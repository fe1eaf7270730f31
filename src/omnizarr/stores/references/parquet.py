"""Parquet references of kerchunk: a folder with ``.zmetadata`` and ``<array>/refs.<n>.parq``.

Specification: https://fsspec.github.io/kerchunk/spec.html, "Parquet references".

``.zmetadata`` has all metadata of a version 2 hierarchy, and the number of chunks that each file
describes. A row is a chunk, in C order: `raw` is its value, or `path`, `offset` and `size` say
where it is; a size and offset of 0 mean the whole file, no path and no value that there is no
chunk.
Files are read when one of their chunks is needed, and the last ones are kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from omnizarr._json import kind_of, load_object
from omnizarr.errors import InvalidMetadata, MissingModule, StoreError
from omnizarr.stores import operations
from omnizarr.stores.base import Range, Store
from omnizarr.stores.references.document import Reference, ReferenceTarget, target

ZMETADATA = ".zmetadata"
MAX_RECORD = 2**24  # rows of a file
MAX_BYTES = 2**30  # of the columns of a file in memory
KEPT = 16  # files
_COLUMNS = ("path", "offset", "size", "raw")

Row: TypeAlias = tuple[Any, Any, Any, Any]
Rows: TypeAlias = Callable[[int], Row]


@dataclass(frozen=True, slots=True)
class _Array:
    """The chunk grid of an array."""

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
    """The references of a folder, which is at a prefix of a store; `data` is its metadata."""

    def __init__(self, store: Store, prefix: str, name: str, data: bytes) -> None:
        _load_pyarrow()  # or its absence would look like damaged chunks
        self._store, self._prefix, self._name = store, prefix, name
        try:
            document = load_object(data, f"{name}/{ZMETADATA}", allow_nan=True)
        except InvalidMetadata as e:
            raise StoreError(f"{name!r} is not a folder of references: {e}") from e
        metadata, size = document.get("metadata"), document.get("record_size")
        if not isinstance(metadata, dict) or not isinstance(size, int) or isinstance(size, bool):
            raise StoreError(
                f"{ZMETADATA} of {name!r} has no 'metadata' and 'record_size', so it is no folder"
                " of references"
            )
        if not 0 < size <= MAX_RECORD:
            raise StoreError(f"record_size of {name!r} must be from 1 to {MAX_RECORD}, got {size}")
        self._size = size
        self._documents = {key: _text(key, value) for key, value in metadata.items()}
        for key in self._documents:
            operations.check_key(key)
        whole = {"metadata": metadata, "zarr_consolidated_format": 1}
        self._documents[ZMETADATA] = json.dumps(whole).encode()
        self._arrays = {
            array.path: array
            for key in self._documents
            if key.rpartition("/")[2] == ".zarray"
            for array in [_array(key, self._documents[key])]
        }
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
        """Return the array of a chunk and its number."""
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
        """Yield the keys below a prefix; for one level, chunks only of arrays that it is in."""
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
        """Return the numbers of the files of an array, as far as they may exist."""
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
        """Return the rows of a file; None if it does not exist."""
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


def _text(key: str, value: Any) -> bytes:
    if not isinstance(value, (str, dict)):
        raise StoreError(f"{key!r} in {ZMETADATA} must be text or an object, got {kind_of(value)}")
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _array(key: str, data: bytes) -> _Array:
    document = load_object(data, key, allow_nan=True)
    shape: Any = document.get("shape")
    chunks: Any = document.get("chunks")
    separator = document.get("dimension_separator", ".")
    for lengths, least in ((shape, 0), (chunks, 1)):
        valid = isinstance(lengths, list) and all(type(n) is int and n >= least for n in lengths)
        if not valid or len(lengths) > 64:
            raise StoreError(f"{key!r} has no valid shape and chunks")
    if len(shape) != len(chunks) or separator not in (".", "/"):
        raise StoreError(f"{key!r} has no valid shape, chunks and dimension_separator")
    counts = tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    return _Array(key.rpartition("/")[0], counts, separator)


def _reference(key: str, row: Row) -> Reference | None:
    path, offset, size, raw = row
    if isinstance(raw, str):
        return raw.encode()
    if isinstance(raw, bytes):
        return raw
    if raw is not None:
        raise StoreError(f"the reference {key!r} must have text or bytes, got {kind_of(raw)}")
    if path is None or path == "":
        return None
    found = target(key, [path, 0 if offset is None else offset, 0 if size is None else size])
    return ReferenceTarget(path) if found.span == Range(0, 0) else found


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

    def row(number: int) -> Row:
        if number >= table.num_rows:
            return None, 0, 0, None
        values = (columns[c][number].as_py() if c in columns else None for c in _COLUMNS)
        path, offset, length, raw = values
        return path, offset, length, raw

    return row


def _load_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - optional
        from pyarrow import parquet  # noqa: PLC0415 - optional
    except ImportError as e:
        raise MissingModule(
            "references in Parquet files need the package pyarrow:"
            f" pip install 'omnizarr[references]' ({e})"
        ) from e
    return pyarrow, parquet
