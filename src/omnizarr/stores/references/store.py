"""Kerchunk references as a read-only store: JSON files, and folders of Parquet files.

Values are in the references themselves, or are parts of other files, which are read from the local
disk or through the stores of their URLs. Places outside the folder of the references are read only
if the user allows it (`targets`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from omnizarr import config
from omnizarr.errors import NodeNotFound, StoreError, TargetError
from omnizarr.stores import identity, operations
from omnizarr.stores.base import (
    Bytes,
    Closeable,
    Names,
    Range,
    Requests,
    Store,
    Traits,
    Values,
    Versioned,
    absolute_path,
    split_path,
    value_digest,
)
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import check_key, check_prefix, check_writable
from omnizarr.stores.references import PREFIX
from omnizarr.stores.references.document import Document, Reference, References, ReferenceTarget
from omnizarr.stores.references.parquet import ZMETADATA, ParquetReferences
from omnizarr.stores.references.targets import Targets, shown_url
from omnizarr.stores.resolve import resolve

Rows: TypeAlias = list[tuple[int, str, Range | None, ReferenceTarget]]


class ReferencedValues(ABC):
    """The reading half of a store whose values are inline, or parts of other files.

    A target that does not exist, or is too short, is an error: its key exists.
    """

    @abstractmethod
    def _find(self, key: str) -> Reference | None:
        """Return the value of a key, or its target; None if there is no such key."""

    @abstractmethod
    def _locate(self, url: str, key: str) -> tuple[Store, str]:
        """Return the store of a target and the key there; raise if it may not be read."""

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Requests) -> Values:
        asked = [(check_key(key), part) for key, part in requests]
        values: Values = [None] * len(asked)
        rows: dict[int, tuple[Store, Rows]] = {}
        for number, (key, part) in enumerate(asked):
            found = self._find(key)
            if isinstance(found, bytes):
                values[number] = found if part is None else part.of(found)
            elif found is not None:
                store, at = self._locate(found.url, key)
                row = number, at, _part(found, part), found
                rows.setdefault(id(store), (store, []))[1].append(row)
        for store, wanted in rows.values():
            with _reading_target():
                fetched = operations.get_many(store, [(at, part) for _, at, part, _ in wanted])
            for (number, at, part, found), data in zip(wanted, fetched, strict=True):
                values[number] = _checked(asked[number][0], found, store, at, part, data)
        return values

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for key in map(check_key, keys):
            reference = self._find(key)
            if isinstance(reference, bytes):
                found[key] = len(reference)
            elif reference is not None:
                found[key] = self._size(key, reference)
        return found

    def _size(self, key: str, target: ReferenceTarget) -> int:
        if target.span is not None and target.span.length is not None:
            return target.span.length
        store, at = self._locate(target.url, key)
        with _reading_target():
            known = operations.sizes(store, [at]).get(at)
        if known is None:
            raise _missing(key, store, at)
        return known

    def generation(self, key: str) -> str | None:
        reference = self._find(check_key(key))
        if not isinstance(reference, ReferenceTarget):
            return value_digest(reference)
        store, at = self._locate(reference.url, key)
        with _reading_target():
            found = store.generation(at) if isinstance(store, Versioned) else None
        return _generation(reference, found)

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        reference = self._find(check_key(key))
        if not isinstance(reference, ReferenceTarget):
            value = reference if reference is None or range is None else range.of(reference)
            return value, value_digest(reference)
        store, at = self._locate(reference.url, key)
        part = _part(reference, range)
        with _reading_target():
            if isinstance(store, Versioned):
                data, found = store.get_versioned(at, part)
            else:
                data, found = store.get(at, part), None
        return _checked(key, reference, store, at, part, data), _generation(reference, found)


class ReferenceStore(ReferencedValues, Closeable):
    """The keys of kerchunk references.

    `references` is the path or URL of a JSON file, or of a folder of Parquet files, or a dictionary
    as kerchunk makes it. Targets in the folder of the file and below it are read; others only if
    they are below one of the folders and URLs in `allow_targets`; True allows any. Relative targets
    are those of the folder. `remote_options` are the storage options of targets by scheme,
    ``{"s3": {"anonymous": True}}``, and `storage_options` those of the references themselves.
    """

    read_only = True
    traits = Traits(
        to_write="copy the data: omnizarr convert REFERENCES NEW.zarr; references are never written"
    )

    def __init__(
        self,
        references: str | os.PathLike[str] | Mapping[str, Any],
        *,
        allow_targets: Any = (),
        remote_options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._given = (references, allow_targets, remote_options, storage_options)
        self._store: Store | None = None
        folder, self._name = None, "in memory"
        self._path: str | None = None
        if isinstance(references, Mapping):
            self._references: References = Document(references, self._name)
        else:
            folder = self._open(os.fspath(references), storage_options)
        remote = self._path is None and folder is not None
        self._targets = Targets(
            folder,
            self._store if remote else None,
            allow=config.target_places(allow_targets),
            options=remote_options,
        )

    def _open(self, where: str, options: Mapping[str, Any] | None) -> str:
        """Read the references; return the folder that they are in."""
        where = where.removeprefix(PREFIX).rstrip("/")
        query = ""
        if where.startswith("file:"):
            where = "".join(split_path(where))
        if "://" not in where:
            if options:
                raise StoreError(f"storage_options {sorted(options)} are for URLs, got {where!r}")
            self._path = where = absolute_path(where)
            folder, _, name = where.rpartition(os.sep)
            self._store = LocalStore(folder or os.sep, read_only=True)
        else:
            if where.startswith(("http://", "https://")):
                where, question, query = where.partition("?")
                query = question + query
            folder, _, name = where.rpartition("/")
            self._store = resolve(folder + query, read_only=True, storage_options=options)
        self._name = shown_url(where)
        self._references = self._read(name)
        return folder + query

    def _read(self, name: str) -> References:
        store = self._store
        if store is None or not name:
            raise StoreError(f"{self._name!r} is not the name of a file of references")
        if not name.lower().endswith(".json") and store.get(f"{name}/{ZMETADATA}") is not None:
            return ParquetReferences(store, f"{name}/", self._name)
        data = store.get(name)
        if data is None:
            raise NodeNotFound(f"there are no references at {self._name!r}")
        return Document.read(data, self._name)

    @classmethod
    def from_path(
        cls, where: str, storage_options: Mapping[str, Any] | None = None
    ) -> ReferenceStore:
        """Return the store of a path or URL; the options of targets are among the others."""
        options = dict(storage_options or {})
        own = {k: options.pop(k) for k in ("allow_targets", "remote_options") if k in options}
        return cls(where, storage_options=options, **own)

    def _find(self, key: str) -> Reference | None:
        return self._references.find(key)

    def _locate(self, url: str, key: str) -> tuple[Store, str]:
        return self._targets.locate(url, key)

    # Listing

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        yield from self._references.keys_below(prefix)

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        return self._references.list_dir(prefix)

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)

    def erase(self, key: str) -> None:
        check_writable(self)

    # What it is

    def close(self) -> None:
        """Close the connections to targets."""
        self._targets.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, self._given

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        if self._path is not None:
            return identity.file(self._path, prefix)
        first = ("references", identity.ObjectIdentity(self))
        return identity.inside(first, prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReferenceStore) and self._given == other._given

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"references {self._name}"


def _unpickle(
    references: Any, allow_targets: Any, remote_options: Any, storage_options: Any
) -> ReferenceStore:
    return ReferenceStore(
        references,
        allow_targets=allow_targets,
        remote_options=remote_options,
        storage_options=storage_options,
    )


@contextmanager
def _reading_target() -> Iterator[None]:
    try:
        yield
    except TargetError:
        raise
    except StoreError as e:
        raise TargetError(str(e)) from e


def _part(target: ReferenceTarget, part: Range | None) -> Range | None:
    """Return the part of a target that is a part of the value."""
    if target.span is None:
        return part
    return target.span if part is None else part.within(target.span)


def _checked(
    key: str, target: ReferenceTarget, store: Store, at: str, part: Range | None, data: bytes | None
) -> bytes:
    """Return what was read of a target; raise if it is not there, or shorter than it should be."""
    if data is None:
        raise _missing(key, store, at)
    wanted = None if target.span is None or part is None else part.length
    if wanted is not None and len(data) != wanted:
        raise TargetError(
            f"the target {at!r} in {store!r} of the reference {key!r} has only {len(data)} of"
            f" {wanted} bytes there; it has changed, or the reference is wrong"
        )
    return data


def _missing(key: str, store: Store, at: str) -> TargetError:
    return TargetError(
        f"the target {at!r} in {store!r} of the reference {key!r} does not exist; it was moved or"
        " deleted, or the reference is wrong"
    )


def _generation(target: ReferenceTarget, found: str | None) -> str | None:
    if found is None:
        return None
    span = target.span
    return value_digest(repr((found, span and (span.start, span.length))).encode())
