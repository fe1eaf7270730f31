"""A store in an LMDB environment; needs the package `lmdb`.

Keys are UTF-8 in the main database, as in zarr-python 2. A process opens an environment once,
however many stores use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import Usage, gate
from omnizarr.errors import MissingModule, StoreError
from omnizarr.stores import identity
from omnizarr.stores.base import Range
from omnizarr.stores.operations import check_length
from omnizarr.stores.sqlite import Transaction, TransactionStore, Use

try:
    import lmdb
except ImportError as e:
    raise MissingModule("LMDB stores need a package: pip install 'omnizarr[lmdb]'") from e

_MAX_KEY = 511  # bytes
_READER, _LOCK_PAGE = 64, 4096  # bytes in the lock file of a reader, and of all else


class _Environment:
    """An environment that all stores of a process share, open while one of them needs it."""

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        self.path = path
        writable = os.access(path if os.path.isdir(path) else os.path.dirname(path), os.W_OK)
        self._settings: dict[str, Any] = {
            "map_size": 2**40,
            "subdir": not os.path.isfile(path),
            "metasync": False,
            "meminit": False,
            "max_readers": 1024,
            "readonly": not writable,
            "lock": writable,
            **options,
        }
        self._handle: lmdb.Environment | None = None
        self._lock = fork.lock()
        self.usage = Usage(f"the environment at {path!r} was just replaced; try again")
        self.handle()
        self.number = _number(path, options)

    def handle(self) -> lmdb.Environment:
        with self._lock:
            if self._handle is None:
                if self._settings["lock"]:
                    _reserve_lock_file(self.path, self._settings)
                self._handle = lmdb.open(self.path, **self._settings)
            return self._handle

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def __del__(self) -> None:
        gate.call_from_finaliser(self.close)


def _reserve_lock_file(path: str, settings: dict[str, Any]) -> None:
    """Reserve the space of the lock file; raise if the disk is full.

    LMDB makes a file without blocks and writes to it in memory, which ends the process (SIGBUS)
    if there is no space for it. Values are written by calls that return an error.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    name = os.path.join(path, "lock.mdb") if settings["subdir"] else f"{path}-lock"
    if settings["subdir"] and settings.get("create", True):
        os.makedirs(path, exist_ok=True)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # Of one that others use, only what they have mapped.
        size = os.fstat(file).st_size or _LOCK_PAGE + settings["max_readers"] * _READER
        os.posix_fallocate(file, 0, size)
    finally:
        os.close(file)


# By device and inode of the file with the data: a path may lead to another one later.
_open: WeakValueDictionary[identity.FileNumber, _Environment] = WeakValueDictionary()
_lock = fork.lock()


@gate.close_before_fork
def _close_all() -> None:
    for environment in list(_open.values()):
        environment.close()


def _environment(path: str, options: dict[str, Any]) -> _Environment:
    """Return the environment that is at a path now; create it if there is none."""
    with _lock:
        number = _number(path, options)
        found = None if number is None else _open.get(number)
        if found is None:
            where = os.path.realpath(path)
            for other in [*_open.values()]:
                if other.path == where:
                    other.usage.close(other.close)
            os.makedirs(os.path.dirname(where), exist_ok=True)
            found = _Environment(where, options)
            if found.number is not None:
                _open[found.number] = found
        return found


def _number(path: str, options: dict[str, Any]) -> identity.FileNumber | None:
    """Return the device and inode of the data file; None if there is none."""
    folder = options.get("subdir", not os.path.isfile(path))
    return identity.file_number(os.path.join(path, "data.mdb") if folder else path)


class LMDBStore(TransactionStore):
    """The main database of an LMDB environment, which need not exist yet.

    Args:
        path: The path of the directory.
        read_only: True to refuse all writes.
        **options: Options of ``lmdb.open``; a `map_size` is the most that the data may take (1
            TiB).

    Examples:
        >>> with oz.storage.LMDBStore("ocean.lmdb") as store:
        ...     oz.save(store, np.arange(3))
        ...     oz.load(store)
        array([0, 1, 2])
    """

    scheme = "lmdb"
    errors = (lmdb.Error,)

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, **options: Any
    ) -> None:
        super().__init__(path, read_only, options)
        self._environment: _Environment | None = None  # kept open between transactions

    def _release(self) -> None:
        self._environment = None  # which is closed when no store needs it

    @contextmanager
    def _begin(self, use: Use) -> Iterator[Transaction]:
        write = use in ("change", "create")
        number, environment = _number(self.path, self.options), self._environment
        if number is None and use != "create":
            yield Transaction()
            return
        try:
            if environment is None or number is None or number != environment.number:
                environment = self._environment = _environment(self.path, self.options)
            with (
                environment.usage,
                environment.handle().begin(write=write, buffers=True) as transaction,
            ):
                yield _DatabaseRows(transaction)
        except lmdb.MapFullError as e:
            raise StoreError(f"{e}; give a larger map_size") from e

    def check_new_key(self, key: str) -> None:
        """Raise if there is no room for a node with this key."""
        check_length(key, _MAX_KEY, self)

    identity_details = TransactionStore.real_path


class _DatabaseRows(Transaction):
    def __init__(self, transaction: lmdb.Transaction) -> None:
        self._transaction = transaction

    def _find(self, key: str) -> memoryview | None:
        raw = key.encode()
        found = self._transaction.get(raw) if len(raw) <= _MAX_KEY else None
        return None if found is None else memoryview(found)

    def read(self, key: str, range: Range | None = None) -> bytes | None:
        found = self._find(key)
        return None if found is None else bytes(found if range is None else range.of(found))

    def size(self, key: str) -> int | None:
        found = self._find(key)
        return None if found is None else len(found)

    def put(self, rows: Iterable[tuple[str, bytes | memoryview]]) -> None:
        for key, value in rows:
            raw = key.encode()
            if len(raw) > _MAX_KEY:
                raise StoreError(f"the key {key!r} has {len(raw)} bytes; LMDB takes {_MAX_KEY}")
            self._transaction.put(raw, value)

    def erase(self, keys: Iterable[str]) -> None:
        for key in keys:
            if self._find(key) is not None:
                self._transaction.delete(key.encode())

    def scan(self, start: str) -> Iterator[str]:
        cursor = self._transaction.cursor()
        if cursor.set_range(start.encode()) if start else cursor.first():
            for raw in cursor.iternext(values=False):
                yield bytes(raw).decode()
