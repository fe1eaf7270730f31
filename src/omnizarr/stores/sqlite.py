"""A store in a table of an SQLite file.

The table is that of zarr-python 2: ``zarr(k TEXT PRIMARY KEY, v BLOB)``. Every thread has its own
connection. A generation is a digest of the value, so that data of other programs has one too.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from omnizarr.concurrency.fork import gate
from omnizarr.concurrency.retry import descriptor_shortage
from omnizarr.concurrency.usage import Usage
from omnizarr.errors import StoreError
from omnizarr.stores import identity, operations
from omnizarr.stores.base import (
    Bytes,
    Closeable,
    KeyChanges,
    ListKeys,
    Range,
    absolute_path,
    flat,
    split_path,
    value_digest,
)
from omnizarr.stores.operations import check_key, check_prefix, check_writable, translated_errors

# Inside the class `list` is a method.
Names: TypeAlias = list[str]
Values: TypeAlias = list[bytes | None]

_TABLE = "CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)"
_PUT = "INSERT OR REPLACE INTO zarr(k, v) VALUES (?, ?)"
_PAGE = 10_000  # keys of a listing that are in memory at a time
_numbers = itertools.count()
_stores: WeakValueDictionary[int, SQLiteStore] = WeakValueDictionary()  # equal ones too


@gate.close_before_fork
def _disconnect() -> None:
    for store in list(_stores.values()):
        store._disconnect()


class _ThreadEnd:
    """A thread-local object whose finaliser notes that the thread has ended."""

    def __init__(self, ended: deque[int]) -> None:
        self.number = next(_numbers)
        self._ended = ended

    def __del__(self) -> None:
        self._ended.append(self.number)


class SQLiteStore(Closeable):
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

    low_latency = True

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, timeout: float = 60
    ) -> None:
        self.path = absolute_path(path)
        self.read_only = read_only
        self.timeout = timeout
        self._reset()

    def _reset(self) -> None:
        self._usage = Usage()
        self._connections: dict[int, sqlite3.Connection] = {}  # by the number of a thread
        self._files: dict[int, identity.FileNumber | None] = {}  # that they have open
        self._local = threading.local()
        self._ended: deque[int] = deque()
        _stores[id(self)] = self

    def _disconnect(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> SQLiteStore:
        """Return the store of ``sqlite://path/to/file``."""
        return cls("".join(split_path(url)), read_only=read_only, **options)

    # Connections

    @contextmanager
    def _connection_for(
        self, verb: str, what: object, *, create: bool = False
    ) -> Iterator[sqlite3.Connection | None]:
        """Yield this thread's connection; None if there is no table and none is to be made."""
        with (
            gate,
            translated_errors(verb, what, self, (sqlite3.Error, OSError)),
            _explained_errors(),
            self._usage,
        ):
            number = self._number()
            found = self._connection(number, create)
            if found is not None and create:
                found.execute(_TABLE)
            there = found is not None and (create or self._has_table(found))
            self._files.setdefault(number, identity.file_number(self.path))  # open by now
            yield found if there else None

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
            if _in_transaction(found):
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
        return sqlite3.connect(
            f"{Path(os.path.abspath(self.path)).as_uri()}?mode={mode}",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,  # closed by whoever closes the store
        )

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> Values:
        requested = [(check_key(key), range) for key, range in requests]
        with self._connection_for("read", ", ".join(key for key, _ in requested[:3])) as connection:
            if connection is None:
                return [None] * len(requested)
            if len(requested) < 2 or _in_transaction(connection):
                return [_read(connection, key, range) for key, range in requested]
            connection.execute("BEGIN")  # all values are of one moment
            try:
                return [_read(connection, key, range) for key, range in requested]
            finally:
                connection.execute("COMMIT")

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        requested = [*map(check_key, keys)]
        size = "SELECT length(CAST(v AS BLOB)) FROM zarr WHERE k = ?"
        with self._connection_for("read", ", ".join(requested[:3])) as connection:
            if connection is None:
                return {}
            rows = ((key, connection.execute(size, (key,)).fetchone()) for key in requested)
            return {key: row[0] or 0 for key, row in rows if row is not None}

    def generation(self, key: str) -> str | None:
        return self.get_versioned(key, Range(0, 0))[1]

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        value = self.get(key)
        if value is None:
            return None, None
        return (value if range is None else range.of(value)), value_digest(value)

    # Writing

    def set(self, key: str, value: Bytes) -> None:
        self.set_many([(key, value)])

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        rows = [(check_key(key), flat(value)) for key, value in values]
        names = ", ".join(key for key, _ in rows[:3])
        with self._connection_for("write", names, create=True) as connection:
            if connection is not None:
                with _transaction(connection):
                    connection.executemany(_PUT, rows)

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        return self.change_if({key: value}, {key: generation})

    def change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        check_writable(self)
        rows = [
            (check_key(key), flat(value)) for key, value in changes.items() if value is not None
        ]
        erased = [(check_key(key),) for key, value in changes.items() if value is None]
        names = ", ".join([*changes][:3])
        with self._connection_for("write", names, create=True) as connection:
            if connection is None:
                return False
            with _transaction(connection):
                for key, generation in expected.items():
                    if value_digest(_read(connection, key, None)) != generation:
                        return False
                connection.executemany(_PUT, rows)
                connection.executemany("DELETE FROM zarr WHERE k = ?", erased)
                return True

    def erase(self, key: str) -> None:
        check_writable(self)
        check_key(key)
        with self._connection_for("erase", key) as connection:
            if connection is not None:
                connection.execute("DELETE FROM zarr WHERE k = ?", (key,))

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        check_prefix(prefix)
        with self._connection_for("erase", prefix) as connection:
            if connection is not None:
                where, bounds = _below(prefix)
                connection.execute(f"DELETE FROM zarr {where}", bounds)

    def change_keys(self, find: Callable[[ListKeys], KeyChanges | None]) -> bool:
        check_writable(self)
        with self._connection_for("change", "keys", create=True) as connection:
            if connection is None:
                return True

            def listed(prefix: str) -> list[str]:
                where, bounds = _below(prefix)
                return [key for (key,) in connection.execute(f"SELECT k FROM zarr {where}", bounds)]

            with _transaction(connection):
                changes = find(listed)
                if changes is None:
                    return False
                gone = [(check_key(key),) for key in changes.erased]
                pairs = [(check_key(new), check_key(old)) for old, new in changes.renamed]
                rows = [(check_key(key), flat(value)) for key, value in changes.values]
                connection.executemany("DELETE FROM zarr WHERE k = ?", gone)
                connection.executemany("UPDATE OR REPLACE zarr SET k = ? WHERE k = ?", pairs)
                connection.executemany(_PUT, rows)
        return True

    # Listing

    def list(self) -> Iterator[str]:
        yield from self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        below = f"{'AND k < ?' if prefix else ''} ORDER BY k LIMIT {_PAGE}"
        end = [operations.prefix_end(prefix)] if prefix else []
        last, page = prefix, None
        while page is None or len(page) == _PAGE:
            with self._connection_for("list", prefix) as connection:
                if connection is None:
                    return
                rows = connection.execute(f"SELECT k FROM zarr WHERE k > ? {below}", [last, *end])
                page = [key for (key,) in rows]
            yield from page
            last = page[-1] if page else last

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        with self._connection_for("list", prefix) as connection:
            if connection is None:
                return [], []
            rows = "SELECT k FROM zarr WHERE k >= ? ORDER BY k"
            return operations.list_level(
                lambda start: (key for (key,) in connection.execute(rows, (start,))), prefix
            )

    # Finishing

    def close(self) -> None:
        """Close the connections of all threads; the store cannot be used afterwards."""
        with gate:
            self._usage.close(self._disconnect)

    def __del__(self) -> None:
        if getattr(self, "_connections", None):
            gate.call_from_finaliser(self._disconnect)  # Python would warn of those left open

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "read_only": self.read_only, "timeout": self.timeout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def identity_details(self) -> tuple[Any, ...]:
        """Return the path: an inode may be used again by another file."""
        return (os.path.realpath(self.path),)

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return identity.file(self.path, prefix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SQLiteStore):
            return NotImplemented
        return os.path.realpath(self.path) == os.path.realpath(other.path)

    def __hash__(self) -> int:
        return hash(os.path.realpath(self.path))

    def __repr__(self) -> str:
        return f"sqlite://{self.path}"


def _read(connection: sqlite3.Connection, key: str, range: Range | None) -> bytes | None:
    part, bounds = "CAST(v AS BLOB)", []
    if range is not None:
        first = "?" if range.start >= 0 else "max(0, length(CAST(v AS BLOB)) + ?)"
        bounds = [range.start]
        part = f"substr({part}, 1 + {first}" + (")" if range.length is None else ", ?)")
        bounds += [] if range.length is None else [range.length]
    row = connection.execute(f"SELECT {part} FROM zarr WHERE k = ?", (*bounds, key)).fetchone()
    return None if row is None else bytes(row[0] or b"")


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Explain an error of SQLite that says only that a file could not be opened."""
    try:
        yield
    except sqlite3.OperationalError as e:
        found = (
            descriptor_shortage() if e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN else ""
        )
        if found:
            raise sqlite3.OperationalError(found) from e
        raise


def _has_table(connection: sqlite3.Connection) -> bool:
    """Return True if the table exists."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name='zarr'").fetchone()
    return found is not None


def _below(prefix: str) -> tuple[str, tuple[str, ...]]:
    if not prefix:
        return "", ()
    return "WHERE k >= ? AND k < ?", (prefix, operations.prefix_end(prefix))


def _in_transaction(connection: sqlite3.Connection) -> bool:
    return connection.in_transaction


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    if _in_transaction(connection):
        raise StoreError(
            "this thread is in the middle of a change of this database; a finaliser or signal"
            " handler should leave others to another thread"
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if _in_transaction(
            connection
        ):  # not where the disk is full: then it is rolled back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
