"""A store in an LMDB environment; needs the package `lmdb`.

Keys are UTF-8 in the main database, as in zarr-python 2. A generation is a digest of the value, so
that data of other programs has one too. A process opens an environment once, however many stores
use it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import gate
from omnizarr.concurrency.usage import Usage
from omnizarr.errors import MissingModule, StoreError
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

try:
    import lmdb
except ImportError as e:
    raise MissingModule("LMDB stores need a package: pip install 'omnizarr[lmdb]'") from e

# Inside the class `list` is a method.
Names: TypeAlias = list[str]
Values: TypeAlias = list[bytes | None]
_READER, _LOCK_PAGE = 64, 4096  # bytes in the lock file of a reader, and of all else
_PAGE = 10_000  # keys of a listing that are in memory at a time


class _Environment:
    """An environment that all stores of a process share, open while one of them needs it."""

    def __init__(self, path: str, settings: dict[str, Any]) -> None:
        self.path, self._settings = path, settings
        self.number: identity.FileNumber | None = None
        self._handle: lmdb.Environment | None = None
        self._lock = fork.lock()
        self.usage = Usage(f"the environment at {path!r} was just replaced; try again")

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


_MAX_KEY = 511  # bytes


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
            found = _Environment(where, _settings(path, options))
            found.handle()
            found.number = _number(path, options)
            if found.number is not None:
                _open[found.number] = found
        return found


def _number(path: str, options: dict[str, Any]) -> identity.FileNumber | None:
    """Return the device and inode of the data file; None if there is none."""
    folder = options.get("subdir", not os.path.isfile(path))
    return identity.file_number(os.path.join(path, "data.mdb") if folder else path)


def _settings(path: str, options: dict[str, Any]) -> dict[str, Any]:
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    writable = os.access(folder, os.W_OK)
    return {
        "map_size": 2**40,
        "subdir": not os.path.isfile(path),
        "metasync": False,
        "meminit": False,
        "max_readers": 1024,
        "readonly": not writable,
        "lock": writable,
        **options,
    }


class LMDBStore(Closeable):
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

    low_latency = True

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, **options: Any
    ) -> None:
        self.path = absolute_path(path)
        self.read_only = read_only
        self.options = options
        self._usage = Usage()
        self._environment: _Environment | None = None  # kept open between transactions

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> LMDBStore:
        """Return the store of ``lmdb://path/to/directory``."""
        return cls("".join(split_path(url)), read_only=read_only, **options)

    @contextmanager
    def _transaction(
        self, verb: str, what: object, *, write: bool = False, create: bool = False
    ) -> Iterator[lmdb.Transaction | None]:
        """Yield a transaction, or None if there is no data and none is to be created."""
        with gate, translated_errors(verb, what, self, (lmdb.Error, OSError)), self._usage:
            number, environment = _number(self.path, self.options), self._environment
            if number is None and not create:
                yield None
                return
            try:
                if environment is None or number is None or number != environment.number:
                    environment = self._environment = _environment(self.path, self.options)
                with (
                    environment.usage,
                    environment.handle().begin(write=write, buffers=True) as transaction,
                ):
                    yield transaction
            except lmdb.MapFullError as e:
                raise StoreError(f"{e}; give a larger map_size") from e

    # Reading

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return self.get_many([(key, range)])[0]

    def get_many(self, requests: Iterable[tuple[str, Range | None]]) -> Values:
        requested = [(check_key(key), range) for key, range in requests]
        with self._transaction("read", ", ".join(key for key, _ in requested[:3])) as transaction:
            if transaction is None:
                return [None] * len(requested)
            return [_cut(_find(transaction, key), range) for key, range in requested]

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        requested = [*map(check_key, keys)]
        with self._transaction("read", ", ".join(requested[:3])) as transaction:
            if transaction is None:
                return {}
            values = ((key, _find(transaction, key)) for key in requested)
            return {key: len(value) for key, value in values if value is not None}

    def generation(self, key: str) -> str | None:
        return self.get_versioned(key, Range(0, 0))[1]

    def get_versioned(
        self, key: str, range: Range | None = None
    ) -> tuple[bytes | None, str | None]:
        check_key(key)
        with self._transaction("read", key) as transaction:
            value = None if transaction is None else _find(transaction, key)
            return _cut(value, range), value_digest(value)

    # Writing

    def check_new_key(self, key: str) -> None:
        """Raise if there is no room for a node with this key."""
        operations.check_length(key, _MAX_KEY, self)

    def set(self, key: str, value: Bytes) -> None:
        self.set_many([(key, value)])

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        rows = [(check_key(key), flat(value)) for key, value in values]
        names = ", ".join(key for key, _ in rows[:3])
        with self._transaction("write", names, write=True, create=True) as transaction:
            if transaction is not None:
                for key, value in rows:
                    _put(transaction, key, value)

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        return self.change_if({key: value}, {key: generation})

    def change_if(
        self, changes: Mapping[str, Bytes | None], expected: Mapping[str, str | None]
    ) -> bool:
        check_writable(self)
        rows = {check_key(key): None if v is None else flat(v) for key, v in changes.items()}
        names = ", ".join([*rows][:3])
        with self._transaction("write", names, write=True, create=True) as transaction:
            if transaction is None:
                return False
            for key, generation in expected.items():
                if value_digest(_find(transaction, key)) != generation:
                    return False
            for key, value in rows.items():
                if value is None:
                    transaction.delete(key.encode())
                else:
                    _put(transaction, key, value)
            return True

    def erase(self, key: str) -> None:
        check_writable(self)
        check_key(key)
        with self._transaction("erase", key, write=True) as transaction:
            if transaction is not None and _find(transaction, key) is not None:
                transaction.delete(key.encode())

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        check_prefix(prefix)
        with self._transaction("erase", prefix, write=True) as transaction:
            if transaction is not None:
                for key in [*_below(transaction, prefix, prefix)]:
                    transaction.delete(key.encode())

    def change_keys(self, find: Callable[[ListKeys], KeyChanges | None]) -> bool:
        check_writable(self)
        with self._transaction("change", "keys", write=True, create=True) as transaction:
            if transaction is None:
                return True
            changes = find(lambda prefix: [*_below(transaction, prefix, prefix)])
            if changes is None:
                return False
            for key in changes.erased:
                transaction.delete(check_key(key).encode())
            for old, new in changes.renamed:
                found = _cut(_find(transaction, check_key(old)), None)
                if found is not None:
                    transaction.delete(old.encode())
                    _put(transaction, check_key(new), found)
            for key, value in changes.values:
                _put(transaction, check_key(key), flat(value))
        return True

    # Listing

    def list(self) -> Iterator[str]:
        yield from self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        check_prefix(prefix)
        last, page = prefix, None
        while page is None or len(page) == _PAGE:
            with self._transaction("list", prefix) as transaction:
                if transaction is None:
                    return
                keys = (key for key in _below(transaction, last, prefix) if key != last)
                page = [*itertools.islice(keys, _PAGE)]
            yield from page
            last = page[-1] if page else last

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        check_prefix(prefix)
        with self._transaction("list", prefix) as transaction:
            if transaction is None:
                return [], []
            return operations.list_level(lambda start: _scan(transaction, start), prefix)

    # Finishing

    def close(self) -> None:
        """Release the environment; the store cannot be used afterwards."""
        with gate:
            self._usage.close(self._leave_environment)

    def _leave_environment(self) -> None:
        self._environment = None  # which is closed when no store needs it

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.path, self.read_only, self.options)

    def identity_details(self) -> tuple[Any, ...]:
        """Return the path: an inode may be used again by another file."""
        return (os.path.realpath(self.path),)

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return identity.file(self.path, prefix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LMDBStore):
            return NotImplemented
        return os.path.realpath(self.path) == os.path.realpath(other.path)

    def __hash__(self) -> int:
        return hash(os.path.realpath(self.path))

    def __repr__(self) -> str:
        return f"lmdb://{self.path}"


def _unpickle(
    kind: type[LMDBStore], path: str, read_only: bool, options: dict[str, Any]
) -> LMDBStore:
    return kind(path, read_only=read_only, **options)


def _find(transaction: lmdb.Transaction, key: str) -> memoryview | None:
    raw = key.encode()
    if len(raw) > _MAX_KEY:  # longer ones would raise
        return None
    found = transaction.get(raw)
    return None if found is None else memoryview(found)


def _cut(value: memoryview | None, range: Range | None) -> bytes | None:
    return None if value is None else bytes(value if range is None else range.of(value))


def _put(transaction: lmdb.Transaction, key: str, value: bytes | memoryview) -> None:
    raw = key.encode()
    if len(raw) > _MAX_KEY:
        raise StoreError(f"the key {key!r} has {len(raw)} bytes; LMDB takes {_MAX_KEY}")
    transaction.put(raw, value)


def _scan(transaction: lmdb.Transaction, start: str) -> Iterator[str]:
    cursor = transaction.cursor()
    if cursor.set_range(start.encode()) if start else cursor.first():
        for raw in cursor.iternext(values=False):
            yield bytes(raw).decode()


def _below(transaction: lmdb.Transaction, start: str, prefix: str) -> Iterator[str]:
    """Yield the keys below a prefix from `start` on."""
    return itertools.takewhile(lambda key: key.startswith(prefix), _scan(transaction, start))
