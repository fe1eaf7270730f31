"""A store in a table of an SQLite file, and the code that it shares with LMDB.

A generation is a digest of the value, so that data of other programs has one too. The table is that
of zarr-python 2: ``zarr(k TEXT PRIMARY KEY, v BLOB)``. Every thread has its own connection.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias
from weakref import WeakSet, WeakValueDictionary

from omnizarr.concurrency.fork import Usage, gate
from omnizarr.errors import StoreError, descriptor_shortage
from omnizarr.stores import base, identity, operations
from omnizarr.stores.base import Bytes, ListKeys, Names, Range, Traits, Values, flat, value_digest
from omnizarr.stores.operations import check_key, check_prefix, check_writable, list_level, named

Use: TypeAlias = Literal["read", "snapshot", "change", "create"]  # of a transaction
_PAGE = 10_000  # keys of a listing that are in memory at a time


class Transaction:
    """The rows that one transaction sees: none here, where there is no database."""

    def read(self, key: str, range: Range | None = None) -> bytes | None:
        return None

    def size(self, key: str) -> int | None:
        return None

    def put(self, rows: Iterable[tuple[str, bytes | memoryview]]) -> None: ...
    def erase(self, keys: Iterable[str]) -> None: ...
    def scan(self, start: str) -> Iterator[str]:
        """Yield the keys from `start` on, sorted."""
        return iter(())

    def below(self, prefix: str, start: str | None = None) -> Iterator[str]:
        """Yield the keys below a prefix, from `start` on."""
        keys = self.scan(prefix if start is None else start)
        return itertools.takewhile(lambda key: key.startswith(prefix), keys)


class TransactionStore(base.ListedStore, ABC):
    """The rows of a database in a file or folder, which need not exist yet."""

    traits = Traits(low_latency=True)
    scheme: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]  # of the library

    def __init__(
        self, path: str | os.PathLike[str], read_only: bool, options: dict[str, Any]
    ) -> None:
        self.path = base.absolute_path(path)
        self.read_only = read_only
        self.options = options
        self._usage = Usage()

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> Self:
        """Return the store of a URL such as ``sqlite://path/to/file``."""
        return cls("".join(base.split_path(url)), read_only=read_only, **options)

    @abstractmethod
    def _begin(self, use: Use) -> AbstractContextManager[Transaction]:
        """Return a context with a transaction; all reads in a snapshot see the same moment."""

    @abstractmethod
    def _release(self) -> None:
        """Close what this store has open."""

    @contextmanager
    def _transaction(
        self, verb: str, keys: Iterable[str], use: Use = "read"
    ) -> Iterator[Transaction]:
        errors = (*self.errors, OSError)
        with (
            gate,
            operations.translated_errors(verb, named(keys), self, errors),
            self._usage,
            self._begin(use) as rows,
        ):
            yield rows

    # Reading

    def get_many(self, requests: base.Requests) -> Values:
        asked = [(check_key(key), range) for key, range in requests]
        keys = (key for key, _ in asked)
        with self._transaction("read", keys, "snapshot" if len(asked) > 1 else "read") as rows:
            return [rows.read(key, range) for key, range in asked]

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        asked = [*map(check_key, keys)]
        with self._transaction("read", asked) as rows:
            return {key: size for key in asked if (size := rows.size(key)) is not None}

    def generation(self, key: str) -> str | None:
        return value_digest(self.get(key))

    def get_versioned(self, key: str, range: Range | None = None) -> base.VersionedValue:
        value = self.get(key)
        part = value if value is None or range is None else range.of(value)
        return part, value_digest(value)

    # Writing

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        rows = [(check_key(key), flat(value)) for key, value in values]
        with self._transaction("write", (key for key, _ in rows), "create") as found:
            found.put(rows)

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        return self.change_if({key: value}, {key: generation})

    def change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        check_writable(self)
        stored = [(check_key(key), flat(v)) for key, v in changes.items() if v is not None]
        erased = [check_key(key) for key, value in changes.items() if value is None]
        with self._transaction("write", changes, "create") as rows:
            if any(value_digest(rows.read(key)) != known for key, known in expected.items()):
                return False
            rows.put(stored)
            rows.erase(erased)
            return True

    def erase(self, key: str) -> None:
        check_writable(self)
        check_key(key)
        with self._transaction("erase", [key], "change") as rows:
            rows.erase([key])

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        check_prefix(prefix)
        with self._transaction("erase", [prefix], "change") as rows:
            rows.erase([*rows.below(prefix)])

    def change_keys(self, find: Callable[[ListKeys], base.KeyChanges | None]) -> bool:
        check_writable(self)
        with self._transaction("change", ["keys"], "create") as rows:
            changes = find(lambda prefix: [*rows.below(prefix)])
            if changes is None:
                return False
            rows.erase(map(check_key, changes.erased))
            for old, new in changes.renamed:
                value = rows.read(check_key(old))
                if value is not None:
                    rows.erase([old])
                    rows.put([(check_key(new), value)])
            rows.put((check_key(key), flat(value)) for key, value in changes.values)
        return True

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        last, page = prefix, None
        while page is None or len(page) == _PAGE:
            with self._transaction("list", [prefix]) as rows:
                keys = (key for key in rows.below(prefix, last) if key != last)
                page = [*itertools.islice(keys, _PAGE)]
            yield from page
            last = page[-1] if page else last

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        with self._transaction("list", [prefix]) as rows:
            return list_level(rows.scan, prefix)

    # What it is

    def close(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        with gate:
            self._usage.close(self._release)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), read_only=self.read_only, **self.options), (self.path,)

    def real_path(self) -> tuple[str]:
        """Return the path, for `identity_details`: an inode may be used again by another file."""
        return (os.path.realpath(self.path),)

    def _values_at(self) -> tuple[str, str]:
        return self.scheme, *self.real_path()

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return identity.file(self.path, prefix)

    def __repr__(self) -> str:
        return f"{self.scheme}://{self.path}"


# SQLite

_TABLE = "CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name='zarr'"
_stores: WeakValueDictionary[int, SQLiteStore] = WeakValueDictionary()  # equal ones too


@gate.close_before_fork
def _disconnect() -> None:
    for store in list(_stores.values()):
        store._release()


class _Connection:
    """A connection of one thread, closed when the thread ends or the store is gone."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.file: identity.FileNumber | None = None  # that it has open
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        self.database.close()

    def __del__(self) -> None:
        if self.is_open:
            gate.call_from_finaliser(self.close)


class SQLiteStore(TransactionStore):
    """The rows of a table in an SQLite file, which need not exist yet.

    Args:
        path: The path of the file.
        read_only: True to refuse all writes.
        timeout: The seconds to wait for another process that writes.

    Examples:
        >>> with oz.storage.SQLiteStore("ocean.sqlite") as store:
        ...     oz.save(store, np.arange(3))
        ...     oz.load(store)
        array([0, 1, 2])
    """

    scheme = "sqlite"
    errors = (sqlite3.Error,)

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, timeout: float = 60
    ) -> None:
        super().__init__(path, read_only, {"timeout": timeout})
        self._connections: WeakSet[_Connection] = WeakSet()
        self._local = threading.local()
        _stores[id(self)] = self

    def _release(self) -> None:
        for connection in list(self._connections):
            connection.close()

    @contextmanager
    def _begin(self, use: Use) -> Iterator[Transaction]:
        create = use == "create"
        try:
            connection = self._connection(create)
            if connection is None:
                yield Transaction()
                return
            database = connection.database
            found = database.execute(_TABLE if create else _HAS_TABLE).fetchone()
            connection.file = connection.file or identity.file_number(self.path)  # open by now
            if found is None and not create:
                yield Transaction()
            elif use == "read" or (use == "snapshot" and database.in_transaction):
                yield _TableRows(database)  # a finaliser may read in the middle of a change
            elif database.in_transaction:
                raise StoreError(
                    "this thread is in the middle of a change of this database; a finaliser or"
                    " signal handler should leave others to another thread"
                )
            else:
                database.execute("BEGIN" + " IMMEDIATE" * (use != "snapshot"))
                with database:  # which commits, or rolls back
                    yield _TableRows(database)
        except sqlite3.OperationalError as e:
            cannot_open = e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
            if cannot_open and (reason := descriptor_shortage()):
                raise sqlite3.OperationalError(reason) from e
            raise

    def _connection(self, create: bool) -> _Connection | None:
        """Return this thread's connection to the file that is at the path now."""
        found: _Connection | None = getattr(self._local, "connection", None)
        file = identity.file_number(self.path)
        if found is not None and found.is_open:
            if found.file == file:
                return found
            if found.database.in_transaction:
                raise StoreError("the file was removed or replaced in the middle of a change")
            found.close()
        if file is None and not create:
            return None
        path = Path(os.path.abspath(self.path))
        if create:
            os.makedirs(path.parent, exist_ok=True)
        database = sqlite3.connect(
            # Also for reading only: what a killed writer has not completed has to be undone.
            f"{path.as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            **self.options,
            isolation_level=None,
            check_same_thread=False,  # closed by whoever closes the store
        )
        made = self._local.connection = _Connection(database)
        self._connections.add(made)
        database.execute("PRAGMA synchronous=NORMAL")
        return made

    identity_details = TransactionStore.real_path


class _TableRows(Transaction):
    def __init__(self, database: sqlite3.Connection) -> None:
        self._run, self._run_many = database.execute, database.executemany

    def read(self, key: str, range: Range | None = None) -> bytes | None:
        part, bounds = "CAST(v AS BLOB)", []
        if range is not None:
            first = "?" if range.start >= 0 else "max(0, length(CAST(v AS BLOB)) + ?)"
            bounds = [range.start]
            part = f"substr({part}, 1 + {first}" + (")" if range.length is None else ", ?)")
            bounds += [] if range.length is None else [range.length]
        row = self._run(f"SELECT {part} FROM zarr WHERE k = ?", (*bounds, key)).fetchone()
        return None if row is None else bytes(row[0] or b"")

    def size(self, key: str) -> int | None:
        size = "SELECT length(CAST(v AS BLOB)) FROM zarr WHERE k = ?"
        row = self._run(size, (key,)).fetchone()
        return None if row is None else row[0] or 0

    def put(self, rows: Iterable[tuple[str, bytes | memoryview]]) -> None:
        self._run_many("INSERT OR REPLACE INTO zarr(k, v) VALUES (?, ?)", rows)

    def erase(self, keys: Iterable[str]) -> None:
        self._run_many("DELETE FROM zarr WHERE k = ?", ((key,) for key in keys))

    def scan(self, start: str) -> Iterator[str]:
        rows = self._run("SELECT k FROM zarr WHERE k >= ? ORDER BY k", (start,))
        return (key for (key,) in rows)
