"""Locks between processes for keys below one directory, without leaving a file behind.

One file in the directory for each kind of lock carries them all: a byte for each key, held through
an open file description, so that the system lets go of it when a process dies. Kinds are apart
because a thread that has a lock of one may wait for one of another. The first byte is held in
common by all who use the file; whoever finds nobody else there on leaving removes it. Who waited
meanwhile sees that its file is no longer the one in the directory, and begins again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator

from omnizarr.errors import warn
from omnizarr.stores.turns import refuse

if sys.platform != "win32":
    import fcntl

NAME = ".__omnizarr_lock__"  # how the name of a file begins; the kind follows
ATTEMPTS = 20  # to make a directory that others remove while it is empty
MANY = 64  # keys; for more of them the whole range is locked at once
_BYTES = 2**32
# Elsewhere the structure that is packed below has another order.
_HAS_RANGES = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLKW")
_SHORT = {errno.ENOMEM, errno.EIO, errno.EDEADLK}  # of these a file system with locks may be
_open_files: set[_File] = set()
_guard = threading.RLock()
_told: set[str] = set()


class _Change:
    """Keys that a thread is changing, by their bytes; whether it has locked the whole file."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = {1 + zlib.crc32(os.fsencode(key)): key for key in keys}
        self.has_all = False


class _Mine(threading.local):
    """What this thread is changing, by lock file; more than one where a finaliser strikes."""

    def __init__(self) -> None:
        self.changes: dict[str, list[_Change]] = {}


_mine = _Mine()


class _File:
    """An open lock file; what a forked child has of it is closed there at once.

    Else the child would hold the lock too, and nobody else would ever get it. So no fork may
    come between opening a file and knowing of it.
    """

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        with _guard:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            _open_files.add(self)

    def close(self) -> None:
        with _guard:
            _open_files.discard(self)
            if self.descriptor >= 0:
                os.close(self.descriptor)
            self.descriptor = -1


@contextlib.contextmanager
def locked(directory: str, keys: Iterable[str], kind: str) -> Iterator[None]:
    """Wait until nobody else has these keys of a directory, and keep them."""
    change = _Change(keys)
    if not change.keys:
        yield
        return
    path = os.path.join(directory, NAME + kind)
    outer = _mine.changes.setdefault(path, [])
    for other in outer:
        for byte in other.keys.keys() & change.keys.keys():
            refuse(change.keys[byte], directory)
    entirely = not _HAS_RANGES or (len(change.keys) > MANY and not outer)
    ranges = [(1, _BYTES)] if entirely else [(byte, 1) for byte in sorted(change.keys)]
    has_all = any(other.has_all for other in outer)
    outer.append(change)
    file = None
    try:
        file = None if has_all else _enter(path, ranges)
        change.has_all = entirely
        yield
    finally:
        outer.remove(change)
        if not outer:
            _mine.changes.pop(path, None)
        if file is not None:
            _leave(path, file)


def _enter(path: str, ranges: list[tuple[int, int]]) -> _File | None:
    """A file that has the locks; None where the file system knows none."""
    if sys.platform == "win32":
        return None
    while True:
        file = _open(path)
        try:
            _lock(file.descriptor, fcntl.F_RDLCK, 0, 1)
            if _is_at(file.descriptor, path):
                for start, length in ranges:
                    _lock(file.descriptor, fcntl.F_WRLCK, start, length)
                return file
        except OSError as e:
            file.close()
            if e.errno in _SHORT:
                raise
            _tell(path, e)
            return None
        except BaseException:
            file.close()
            raise
        file.close()


def _open(path: str) -> _File:
    for _ in range(ATTEMPTS):
        try:
            return _File(path)
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):  # removed while it was empty
                os.makedirs(os.path.dirname(path), exist_ok=True)
    return _File(path)


def _leave(path: str, file: _File) -> None:
    """Let go of the locks, and remove the file where nobody else has it open."""
    if file.descriptor < 0:
        return  # a forked child, which has closed it
    try:
        if alone := _is_last(file):
            with contextlib.suppress(OSError):
                os.unlink(path)
        # A child that was forked just now has the file open too, until it comes to closing it.
        _lock(file.descriptor, fcntl.F_UNLCK, 0, 1 + _BYTES)
        if not alone and _is_last(file):  # two who left together kept each other from it
            with contextlib.suppress(OSError):
                if _is_at(file.descriptor, path):
                    os.unlink(path)
            _lock(file.descriptor, fcntl.F_UNLCK, 0, 1)
    finally:
        file.close()


def _is_last(file: _File) -> bool:
    """Whether nobody else has the first byte, which is ours alone then."""
    try:
        _lock(file.descriptor, fcntl.F_WRLCK, 0, 1, wait=False)
    except OSError:
        return False
    return True


def unused(path: str, *, remove: bool) -> bool:
    """Whether nobody has a lock in a lock file, which can be removed then."""
    if sys.platform == "win32":
        return False
    if not os.path.exists(path):
        return True
    file = _File(path)
    try:
        _lock(file.descriptor, fcntl.F_WRLCK, 0, 1, wait=False)
        if remove and _is_at(file.descriptor, path):
            os.unlink(path)
        return True
    except BlockingIOError:
        return False
    finally:
        file.close()


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, kind: int, start: int, length: int, *, wait: bool = True) -> None:
    """Lock a range of bytes; where descriptions own no ranges, the file as a whole."""
    if not _HAS_RANGES:
        if start:
            return
        if kind == fcntl.F_UNLCK:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    fcntl.fcntl(descriptor, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def _tell(path: str, error: OSError) -> None:
    directory = os.path.dirname(path)
    if directory not in _told:
        _told.add(directory)
        warn(
            f"{directory!r} has no locks between processes ({error.strerror or error});"
            " let only one process change a chunk at a time",
            stacklevel=6,
        )


def _forget() -> None:
    """A forked child does not hold what its parent does."""
    global _guard, _mine
    _guard, _mine = threading.RLock(), _Mine()
    for file in [*_open_files]:
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _guard.acquire(),
        after_in_parent=lambda: _guard.release(),
        after_in_child=_forget,
    )
