"""A store in a file of the DBM family, as in zarr-python 2; new arrays and groups are version 2.

The standard library's `dbm` chooses the kind of file. Such a file has one user at a time.
"""

from __future__ import annotations

import dbm
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakSet

from omnizarr.concurrency import fork
from omnizarr.concurrency.fork import gate
from omnizarr.errors import StoreError
from omnizarr.stores import identity
from omnizarr.stores.base import Bytes, Closeable, Range, absolute_path, flat
from omnizarr.stores.operations import check_key, check_writable, translated_errors


class DBMStore(Closeable):
    """The entries of a DBM file, which need not exist yet.

    Args:
        path: The path of the file.
        flag: That of `dbm.open`: ``"c"`` creates, ``"w"`` needs a file, ``"n"`` starts over,
            ``"r"`` reads.
        read_only: True to refuse all writes.

    Examples:
        >>> with oz.DBMStore("ocean.dbm") as store:
        ...     oz.save(store, np.arange(3))
        ...     oz.load(store)
        array([0, 1, 2])
    """

    default_format = "2"

    def __init__(
        self,
        path: str | os.PathLike[str],
        flag: Literal["r", "w", "c", "n"] = "c",
        *,
        read_only: bool = False,
    ) -> None:
        self.path = absolute_path(path)
        self.read_only = read_only or flag == "r"
        self.flag: Literal["r", "w", "c", "n"] = "r" if self.read_only else flag
        self._start()

    def _start(self) -> None:
        self._file: Any = None
        self._number: identity.FileNumber | None = None
        self._closed = False
        self._lock = fork.lock()
        _stores.add(self)

    @contextmanager
    def _open(self, verb: str, what: str) -> Iterator[Any]:
        with gate, self._lock, translated_errors(verb, what, self, (*dbm.error, OSError)):
            if self._closed:
                raise StoreError("the store is closed")
            if self._file is not None:
                if self._number != self._find():
                    raise StoreError(
                        "the file was removed or replaced while this store had it open; open it"
                        " again"
                    )
                yield self._file
                return
            file = dbm.open(self.path, self.flag)  # noqa: SIM115 - closed below or by close
            self.flag = "c" if self.flag == "n" else self.flag
            if type(file).__module__ != "dbm.sqlite3":
                self._file, self._number = file, self._find()
                yield file
                return
            with file:  # only the thread that opened it may use it
                yield file

    def _find(self) -> identity.FileNumber | None:
        """Return the device and inode of the data file; each kind has its own ending."""
        found = (identity.file_number(self.path + ending) for ending in ("", ".db", ".dat", ".pag"))
        return next((number for number in found if number is not None), None)

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        check_key(key)
        with self._open("read", key) as file:
            value: bytes | None = file.get(key.encode())
        return value if value is None or range is None else range.of(value)

    def set(self, key: str, value: Bytes) -> None:
        check_writable(self)
        check_key(key)
        with self._open("write", key) as file:
            file[key.encode()] = bytes(flat(value))

    def erase(self, key: str) -> None:
        check_writable(self)
        check_key(key)
        with self._open("erase", key) as file:
            if key.encode() in file:
                del file[key.encode()]

    def list(self) -> Iterator[str]:
        with self._open("list", "") as file:
            found = [bytes(key).decode() for key in file.keys()]  # noqa: SIM118 - no mapping
        yield from found

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with gate, self._lock:
            self._closed = True
            self._release()

    def _release(self) -> None:
        if self._file is not None:
            if type(self._file).__module__ == "dbm.dumb" and self._number != self._find():
                self._file._modified = False  # its index must not replace that of another file
            self._file.close()
            self._file = None

    def __getstate__(self) -> dict[str, Any]:
        """Release the file, so that the copy can open it."""
        with gate, self._lock:
            self._release()
        return {"path": self.path, "flag": self.flag, "read_only": self.read_only}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def identity_details(self) -> tuple[Any, ...]:
        """Return the path: an inode may be used again by another file."""
        return (os.path.realpath(self.path),)

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        return identity.file(self.path, prefix)

    def __repr__(self) -> str:
        return f"dbm://{self.path}"


_stores: WeakSet[DBMStore] = WeakSet()


@gate.close_before_fork
def _release_all() -> None:
    for store in list(_stores):
        store._release()
