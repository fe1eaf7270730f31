"""A store in a table of an SQLite file.

The table is that of zarr-python 2: ``zarr(k TEXT PRIMARY KEY, v BLOB)``. Every thread has its own
connection.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from omnizarr.concurrency.fork import gate
from omnizarr.concurrency.retry import descriptor_shortage
from omnizarr.errors import StoreError
from omnizarr.stores import identity
from omnizarr.stores.base import Range
from omnizarr.stores.database import TransactionStore, Use
from omnizarr.stores.operations import named, prefix_end, translated_errors

_TABLE = "CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)"
_numbers = itertools.count()
_stores: WeakValueDictionary[int, SQLiteStore] = WeakValueDictionary()  # equal ones too


@gate.close_before_fork
def _disconnect() -> None:
    for store in list(_stores.values()):
        store._release()


class _ThreadEnd:
    """A thread-local object whose finaliser notes that the thread has ended."""

    def __init__(self, ended: deque[int]) -> None:
        self.number = next(_numbers)
        self._ended = ended

    def __del__(self) -> None:
        self._ended.append(self.number)


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

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, timeout: float = 60
    ) -> None:
        super().__init__(path, read_only, {"timeout": timeout})

    def _reset(self) -> None:
        super()._reset()
        self._connections: dict[int, sqlite3.Connection] = {}  # by the number of a thread
        self._files: dict[int, identity.FileNumber | None] = {}  # that they have open
        self._local = threading.local()
        self._ended: deque[int] = deque()
        _stores[id(self)] = self

    def _release(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def __del__(self) -> None:
        if getattr(self, "_connections", None):
            gate.call_from_finaliser(self._release)  # Python would warn of those left open

    @contextmanager
    def _transaction(
        self, verb: str, keys: Iterable[str], use: Use = "read"
    ) -> Iterator[_TableRows | None]:
        create = use == "create"
        with (
            gate,
            translated_errors(verb, named(keys), self, (sqlite3.Error, OSError)),
            _explained_errors(),
            self._usage,
        ):
            number = self._number()
            found = self._connection(number, create)
            if found is not None and create:
                found.execute(_TABLE)
            there = found is not None and (create or self._has_table(found))
            self._files.setdefault(number, identity.file_number(self.path))  # open by now
            if found is None or not there:
                yield None
            elif create or use == "change":
                with _transaction(found, "BEGIN IMMEDIATE"):
                    yield _TableRows(found)
            else:  # a finaliser may read in the middle of a change
                apart = use == "snapshot" and not found.in_transaction
                with _transaction(found, "BEGIN") if apart else nullcontext():
                    yield _TableRows(found)

    def _has_table(self, connection: sqlite3.Connection) -> bool:
        """Return True if there is a table; undo first what a killed writer has not completed."""
        try:
            return _has_table(connection)
        except sqlite3.OperationalError as e:
            if not self.read_only or e.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
                raise
        try:
            with closing(self._open("rw")) as other:
                _has_table(other)
        except sqlite3.Error as e:
            raise StoreError(
                f"{e}; a writer was killed in the middle of a change, which is undone as soon as"
                " the file is opened by somebody who may write to it and to its folder"
            ) from e
        return _has_table(connection)

    def _connection(self, number: int, create: bool) -> sqlite3.Connection | None:
        """Return this thread's connection to the file that is at the path now."""
        found, file = self._connections.get(number), identity.file_number(self.path)
        if found is not None and self._files.get(number) != file:
            if found.in_transaction:
                raise StoreError("the file was removed or replaced in the middle of a change")
            self._close_connection(number)
            found = None
        if found is None and (create or file is not None):
            self._close_ended_threads()
            found = self._connections[number] = self._connect(create)
            self._files.pop(number, None)
        return found

    def _number(self) -> int:
        """Return the number of this thread."""
        end: _ThreadEnd | None = getattr(self._local, "end", None)
        if end is None:
            end = self._local.end = _ThreadEnd(self._ended)
        return end.number

    def _close_ended_threads(self) -> None:
        """Close the connections of threads that have ended."""
        with suppress(IndexError):  # none is left
            while True:
                self._close_connection(self._ended.popleft())

    def _close_connection(self, number: int) -> None:
        self._files.pop(number, None)
        connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    def _connect(self, create: bool) -> sqlite3.Connection:
        if create:
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        made = self._open("ro" if self.read_only else "rwc" if create else "rw")
        if not self.read_only:
            made.execute("PRAGMA synchronous=NORMAL")
        return made

    def _open(self, mode: str) -> sqlite3.Connection:
        made: sqlite3.Connection = sqlite3.connect(
            f"{Path(os.path.abspath(self.path)).as_uri()}?mode={mode}",
            uri=True,
            **self.options,
            isolation_level=None,
            check_same_thread=False,  # closed by whoever closes the store
        )
        return made

    identity_details = TransactionStore.real_path


class _TableRows:
    """The rows of the table, in a transaction of a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run, self._run_many = connection.execute, connection.executemany

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

    def erase_below(self, prefix: str) -> None:
        where = "WHERE k >= ? AND k < ?" if prefix else ""
        self._run(f"DELETE FROM zarr {where}", (prefix, prefix_end(prefix)) if prefix else ())

    def rename(self, old: str, new: str) -> None:
        self._run("UPDATE OR REPLACE zarr SET k = ? WHERE k = ?", (new, old))

    def scan(self, start: str) -> Iterator[str]:
        rows = self._run("SELECT k FROM zarr WHERE k >= ? ORDER BY k", (start,))
        return (key for (key,) in rows)


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Explain an error of SQLite that says only that a file could not be opened."""
    try:
        yield
    except sqlite3.OperationalError as e:
        cannot_open = e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN
        found = descriptor_shortage() if cannot_open else ""
        if found:
            raise sqlite3.OperationalError(found) from e
        raise


def _has_table(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name='zarr'").fetchone()
    return found is not None


def _in_transaction(connection: sqlite3.Connection) -> bool:
    return connection.in_transaction  # which changes between two looks


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    if connection.in_transaction:
        raise StoreError(
            "this thread is in the middle of a change of this database; a finaliser or signal"
            " handler should leave others to another thread"
        )
    connection.execute(begin)
    try:
        yield
    except BaseException:
        if _in_transaction(connection):  # not if the disk is full: it is rolled back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
