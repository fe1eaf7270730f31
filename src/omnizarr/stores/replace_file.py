"""A file that is seen when it is complete: a reader, or a crash, meets the old one or the new one.

It is written without a name, or with one of its own, and gets its name at the end; compiled, that
is one call.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time

from omnizarr.errors import StoreError
from omnizarr.stores.store import Bytes
from omnizarr.stores.values import flat

try:
    from omnizarr.stores import _files
except ImportError:  # no compiler when it was installed, or Windows
    _files = None  # type: ignore[assignment]

OURS = ".__omnizarr_"  # in the name of a file that is no value
PARTIAL = f"{OURS}partial__"  # of one that is being written
ATTEMPTS = 40  # to write into a directory that others remove while it is empty
AT_ONCE = 5  # of them without a wait


def replace_file(path: str, value: Bytes, sync: bool) -> None:
    """Store a file and the folders that it needs; `sync`: on the disk before it is seen."""
    replace = _replace if _files is None else _files.replace
    for number in range(1, ATTEMPTS + 1):
        try:
            replace(path, value, sync)
            return
        except FileNotFoundError:
            if number == ATTEMPTS:
                raise
            if number > AT_ONCE:
                time.sleep(random.random() * 0.001 * number)
            with contextlib.suppress(FileNotFoundError):  # removed while it was empty
                _make_folder(os.path.dirname(path))


def _replace(path: str, value: Bytes, sync: bool) -> None:
    partial = f"{path}{PARTIAL}{os.getpid()}_{threading.get_ident()}"
    try:
        _write(partial, value, sync)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _write(path: str, value: Bytes, sync: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0)  # nobody's link says what is overwritten
    descriptor = os.open(path, flags, 0o666)
    try:
        view = memoryview(flat(value))
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folder(path: str) -> None:
    """Create a folder and those above it; that another thread was quicker is no error."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        try:
            # Where another thread erases what this one makes, the caller tries again.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.makedirs(path, exist_ok=True)
        except RecursionError:
            raise StoreError(f"cannot make {path!r}: too many folders in folders") from None
