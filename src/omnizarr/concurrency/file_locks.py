"""Locks between processes: bytes of a lock file in a directory, one for each key.

They are held through an open file description, so that the system releases them when a process
dies. One file for each kind of lock carries them all; kinds are apart because a thread that holds a
lock of one may wait for one of another. Whoever leaves and can lock the whole file removes it. Who
waited meanwhile sees that its file is no longer the one in the directory, and opens the new one.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter

from omnizarr.concurrency.fork import on_fork
from omnizarr.concurrency.key_locks import refuse_reentry, waited
from omnizarr.concurrency.retry import REMOVED_DIRECTORY, retry_on_emfile
from omnizarr.errors import StoreError, raised_by_system, warn

if sys.platform != "win32":
    import fcntl

NAME = ".__omnizarr_lock__"  # the start of the name of a lock file; the kind follows
MANY = 64  # keys; for more of them the whole range is locked at once
_BYTES = 2**32
# Elsewhere the structure that is packed below has another order.
_HAS_RANGES = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLKW")
_PASSING = {errno.ENOMEM, errno.EIO, errno.EDEADLK}  # also of file systems that have locks
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_pack = struct.Struct("hhqqi4x").pack
_open_files: set[_File] = set()


class _HeldFiles(threading.local):
    """The claims of this thread by lock file; there are several if a finaliser interrupts one."""

    def __init__(self) -> None:
        self.claims: dict[str, list[locked_files]] = {}


_held = _HeldFiles()


class _File:
    """An open lock file; a forked child closes it, or the lock would outlive a killed parent."""

    __slots__ = ("descriptor", "identity", "made")

    def __init__(self, path: str, *, makes_folder: bool = True) -> None:
        self.made: list[str] = []  # the directories that were made for it, the innermost first
        try:
            self.descriptor = os.open(path, _FLAGS, 0o666)
        except FileNotFoundError:
            if not makes_folder:
                raise
            make = partial(self._open_in_new_folder, path)
            self.descriptor = REMOVED_DIRECTORY.call(make, FileNotFoundError)
        _open_files.add(self)
        found = os.fstat(self.descriptor)
        self.identity = found.st_ino, found.st_dev

    def _open_in_new_folder(self, path: str) -> int:
        self.made = [str(folder) for folder in Path(path).parents if not folder.exists()]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, _FLAGS, 0o666)

    def is_at(self, path: str) -> bool:
        """Return True if this is still the file at its path."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return False
        return (found.st_ino, found.st_dev) == self.identity

    def close(self) -> None:
        _open_files.discard(self)
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            try:  # noqa: SIM105 - with fewer calls
                os.close(descriptor)
            except OSError:
                pass  # it has nothing to store, and is closed all the same


class locked_files:
    """Wait until no other process or thread has these keys of a directory, and hold them.

    The empty key stands for all. Directories that have to be made for the lock are removed with it.
    """

    __slots__ = ("_file", "_has_all", "_keys", "_path")

    def __init__(self, directory: str, keys: Iterable[str], kind: str) -> None:
        self._path = os.path.join(directory, NAME + kind)
        self._keys = {zlib.crc32(os.fsencode(key)): key for key in keys}  # by their bytes
        self._has_all = False  # of the file
        self._file: _File | None = None

    def __enter__(self) -> None:
        keys, path = self._keys, self._path
        if not keys:
            return
        outer, has_all = _held.claims.setdefault(path, []), False
        for other in outer:
            for byte in other._keys.keys() & keys.keys():
                refuse_reentry(keys[byte], os.path.dirname(path))
            has_all = has_all or other._has_all
        whole = not _HAS_RANGES or "" in keys.values() or (len(keys) > MANY and not outer)
        ranges = [(0, _BYTES)] if whole else [(byte, 1) for byte in sorted(keys)]
        outer.append(self)
        try:
            if not has_all:
                self._file = retry_on_emfile(_enter, path, ranges)
            self._has_all = whole
        except BaseException as e:
            self.__exit__()
            if isinstance(e, OSError) and raised_by_system(e):
                where = repr(os.path.dirname(path))
                raise StoreError(f"cannot lock keys in {where}: {e.strerror or e}") from e
            raise

    def __exit__(self, *error: object) -> None:
        claims = _held.claims  # in a forked child not those of its parent
        outer = [other for other in claims.get(self._path, ()) if other is not self]
        if outer:
            claims[self._path] = outer
        else:
            claims.pop(self._path, None)
        file, self._file = self._file, None
        if file is not None:
            _leave(self._path, file)


class Taken(Exception):
    """Another process has locked a file; `text` is its note there."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


@contextmanager
def in_use(path: str, text: bytes, *, shared: bool = False) -> Iterator[None]:
    """Lock a file, write `text` to say who holds it, and remove it when the block ends.

    Raises `Taken` at once if another process, or thread, has it. Several can share it.
    """
    try:
        file = _enter(path, [(0, _BYTES)], wait=False, shared=shared)
    except OSError as e:
        if not raised_by_system(e):
            raise
        where = repr(os.path.dirname(path))
        raise StoreError(f"cannot write in {where}: {e.strerror or e}") from e
    try:
        if file is not None:
            with suppress(OSError):  # the disk is full: others do not learn who it is
                os.ftruncate(file.descriptor, 0)
                os.pwrite(file.descriptor, text, 0)
        yield
    finally:
        if file is not None:
            _leave(path, file)


def is_unused(path: str, *, remove: bool) -> bool:
    """Return True if nobody has a lock in a lock file; then it can be removed too."""
    if not os.path.exists(path):
        return True
    if sys.platform == "win32":
        return False
    with suppress(FileNotFoundError), closing(_File(path, makes_folder=False)) as file:
        return _lock_all(file, path, remove=remove)
    return True  # it has just been removed with its folder


def lock_descriptor(descriptor: int) -> bool:
    """Lock a file as a whole, or return False where another process has it locked."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def unlock_descriptor(descriptor: int) -> None:
    """Release what `lock_descriptor` has locked, also for forked children that have it open."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _enter(
    path: str, ranges: list[tuple[int, int]], *, wait: bool = True, shared: bool = False
) -> _File | None:
    """Return a file with the locks held; None without locks; raise `Taken` rather than wait."""
    if sys.platform == "win32":
        return None
    kind, began = fcntl.F_RDLCK if shared else fcntl.F_WRLCK, perf_counter()
    while True:
        file = _File(path)
        try:
            for start, length in ranges:
                _lock(file.descriptor, kind, start, length, wait=wait)
            if file.is_at(path):
                if perf_counter() - began > 0.005:  # a lock that nobody holds is had at once
                    waited(repr(os.path.dirname(path)), began)
                return file
        except BlockingIOError:
            text = os.pread(file.descriptor, 4096, 0)
            file.close()
            raise Taken(text) from None
        except OSError as e:
            file.close()
            if e.errno in _PASSING or not raised_by_system(e):
                raise
            warn(
                f"{os.path.dirname(path)!r} has no locks between processes ({e.strerror or e});"
                " let only one process change a chunk at a time"
            )
            return None
        except BaseException:
            file.close()
            raise
        file.close()


def _leave(path: str, file: _File) -> None:
    """Release the locks, and remove the file where nobody else has one."""
    if file.descriptor < 0:
        return  # in a forked child, which has closed it
    try:
        # Of two who leave together, each may find the other: the last one to release finds none.
        if not _lock_all(file, path, remove=True):
            _lock(file.descriptor, fcntl.F_UNLCK, 0, _BYTES)
            _lock_all(file, path, remove=True)
        for folder in file.made:
            os.rmdir(folder)
    except OSError:
        return  # closing releases the locks, too; a folder may be in use by now
    finally:
        file.close()


def _lock_all(file: _File, path: str, *, remove: bool) -> bool:
    """Return True if nobody else holds a lock in a file; with `remove`, remove it then."""
    try:
        _lock(file.descriptor, fcntl.F_WRLCK, 0, _BYTES, wait=False)
    except BlockingIOError:
        return False
    try:
        if remove and file.is_at(path):
            os.unlink(path)
    finally:  # not by closing: a child that was forked just now has the file open too
        _lock(file.descriptor, fcntl.F_UNLCK, 0, _BYTES)
    return True


def _lock(descriptor: int, kind: int, start: int, length: int, *, wait: bool = True) -> None:
    """Lock a range of bytes; without open file description locks, the whole file."""
    if not _HAS_RANGES:
        operation = {fcntl.F_UNLCK: fcntl.LOCK_UN, fcntl.F_RDLCK: fcntl.LOCK_SH}.get(
            kind, fcntl.LOCK_EX
        )
        fcntl.flock(descriptor, operation | (0 if wait else fcntl.LOCK_NB))
        return
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    fcntl.fcntl(descriptor, command, _pack(kind, os.SEEK_SET, start, length, 0))


def _close_all() -> None:
    """Close the files of the parent; a child does not hold its locks."""
    global _held
    _held = _HeldFiles()
    for file in [*_open_files]:
        file.close()


on_fork(in_child=_close_all)
