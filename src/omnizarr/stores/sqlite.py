"""A store in a table of an SQLite file.

The table is that of zarr-python 2: ``zarr(k TEXT PRIMARY KEY, v BLOB)``. Every thread has its own
connection.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet, WeakValueDictionary

from omnizarr.concurrency.fork import gate
from omnizarr.concurrency.retry import descriptor_shortage
from omnizarr.errors import StoreError
from omnizarr.stores import identity
from omnizarr.stores.base import Range
from omnizarr.stores.database import Transaction, TransactionStore, Use

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
            else:
                with _transaction(database, "BEGIN" + " IMMEDIATE" * (use != "snapshot")):
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


@contextmanager
def _transaction(database: sqlite3.Connection, begin: str) -> Iterator[None]:
    if database.in_transaction:
        raise StoreError(
            "this thread is in the middle of a change of this database; a finaliser or signal"
            " handler should leave others to another thread"
        )
    database.execute(begin)
    try:
        yield
    except BaseException:
        database.rollback()  # nothing if the disk is full: SQLite has done it already
        raise
    database.execute("COMMIT")
