"""Files of a directory: reading, atomic replacement, listing, names on disks that ignore case.

A new file is written without a name, or under a temporary one, and gets its name when it is
complete; the compiled module does that in one call. A listing follows links to directories, but
not in circles. On a disk that ignores case, creating ``Temp`` beside ``temp`` would replace the
other one silently, so it is refused.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from omnizarr.concurrency.retry import REMOVED_DIRECTORY, retry_on_emfile
from omnizarr.errors import InvalidName, StoreError
from omnizarr.model.paths import OURS as OURS
from omnizarr.model.paths import is_ours
from omnizarr.stores.base import Bytes, Range, flat

try:
    from omnizarr.stores import _files as _files
except ImportError:  # no compiler when it was installed, or Windows
    _files = None  # type: ignore[assignment]

MAX_READ = 2**30  # bytes of one call, which returns at most 2 GiB
PARTIAL: str = f"{OURS}partial__"  # of one that is being written
_HERE = -100  # AT_FDCWD of Linux
ONLY_NEW, EXCHANGE = 1, 2  # never onto another; change places: flags of Linux
_ON_MACOS = {ONLY_NEW: 4, EXCHANGE: 2}  # RENAME_EXCL, RENAME_SWAP
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}


def replace_file(path: str, value: Bytes, sync: bool, only_new: bool = False) -> bool:
    """Store a file and its folders; True if it was stored. `sync`: on the disk before it shows."""
    replace = _replace if _files is None else _files.replace
    try:
        return replace(path, value, sync, only_new)
    except FileNotFoundError:
        return _with_folder(path, lambda: replace(path, value, sync, only_new))


def replace_file_by_parts(path: str, parts: Callable[[], Iterator[bytes]], sync: bool) -> bool:
    """Store a file whose content comes in parts, as `replace_file` does."""
    return _with_folder(path, lambda: _replace_by_parts(path, parts(), sync, only_new=False))


def _with_folder(path: str, make: Callable[[], bool]) -> bool:
    """Create the folder of a path, and return what `make` does; retry if others remove it."""

    def attempt() -> bool:
        try:
            with contextlib.suppress(FileExistsError, FileNotFoundError):  # others were faster
                os.makedirs(os.path.dirname(path), exist_ok=True)
        except RecursionError:
            raise StoreError(f"cannot write {path!r}: folders are nested too deeply") from None
        return make()

    return REMOVED_DIRECTORY.call(attempt, FileNotFoundError)


def _replace(path: str, value: Bytes, sync: bool, only_new: bool) -> bool:
    return _replace_by_parts(path, [value], sync, only_new)


def _replace_by_parts(path: str, parts: Iterable[Bytes], sync: bool, only_new: bool) -> bool:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0)  # a link must not redirect what is overwritten
    temporary = f"{path}{PARTIAL}{os.getpid()}_{threading.get_ident()}"
    try:
        descriptor = os.open(temporary, flags, 0o666)
        try:
            for part in parts:
                view = memoryview(flat(part))
                while view:
                    view = view[os.write(descriptor, view) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if only_new:
            stored = False
            with contextlib.suppress(OSError):  # it exists, or this disk has no links
                os.link(temporary, path)
                stored = True
            if stored or os.path.lexists(path):
                os.unlink(temporary)
                return stored
        os.replace(temporary, path)
        return True
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def create_file(path: str, value: Bytes, sync: bool) -> bool:
    """Store the first file of a new folder; return False if it exists or its parent does not.

    Also without the compiled module: the caller looks at what is there, and stores it otherwise.
    """
    try:
        return _files is not None and _files.create(path, value, sync)
    except (FileNotFoundError, NotADirectoryError) as e:
        if e.errno is None:  # of a signal handler
            raise
        return False


def rename_with(flag: int, old: str, new: str) -> bool:
    """Rename a path as a flag says, in one step; return False if this system or disk cannot."""
    import ctypes  # noqa: PLC0415 - rarely needed

    libc: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    a, b = os.fsencode(old), os.fsencode(new)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(_HERE, a, _HERE, b, ctypes.c_uint(flag))
    elif hasattr(libc, "renamex_np"):  # macOS
        failed = libc.renamex_np(a, b, ctypes.c_uint(_ON_MACOS[flag]))
    else:
        return False
    error = ctypes.get_errno()
    if failed and error not in _NO_EXCHANGE:
        raise OSError(error, os.strerror(error), old, None, new)
    return not failed


def remove_empty(path: str, start: str) -> None:
    """Remove empty directories above a path and below a start: a prefix exists by its keys."""
    with contextlib.suppress(OSError):  # it is not empty, or another writer was faster
        while len(path := os.path.dirname(path)) >= len(start):
            os.rmdir(path)


def status_of_files(folder: str, names: list[str]) -> Sequence[tuple[int, int] | None]:
    """Return the bytes and modification time of each file of a folder, None where not known."""
    if _files is None or not names:
        return [None] * len(names)
    return _files.status_many(folder or ".", names)


def read_file(
    path: str, part: Range | None, flags: int
) -> tuple[bytes, os.stat_result, os.stat_result]:
    """Return the content of a file, or part of it, and its status before and after reading."""
    descriptor = os.open(path, flags)  # faster for small files than a file object
    try:
        return read_open(descriptor, part)
    finally:
        os.close(descriptor)


def check_link(path: str) -> None:
    """Raise if a path is a symbolic link to a missing file."""
    if os.path.islink(path) and not os.path.exists(path):
        raise StoreError(
            f"{path!r} is a symbolic link to {os.readlink(path)!r}, which does not exist; fetch"
            " that file (such as with git annex get or datalad get), or remove the link"
        )


def read_open(descriptor: int, part: Range | None) -> tuple[bytes, os.stat_result, os.stat_result]:
    """Return what `read_file` does, for a file that is open and at its beginning."""
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(before.st_mode) else errno.EINVAL
        raise OSError(number, "it is not a regular file")
    start, length = (0, None) if part is None else (part.start, part.length)
    if start < 0:
        start = max(0, before.st_size + start)
    if start:
        os.lseek(descriptor, start, os.SEEK_SET)
    there = max(0, before.st_size - start)
    # Without a length, one byte more shows whether the file has grown.
    left = there + 1 if length is None else min(length, there)
    parts: list[bytes] = []
    while left > 0 and (data := os.read(descriptor, min(left, MAX_READ))):
        parts.append(data)
        left = left - len(data) or (2**24 if length is None else 0)
    return b"".join(parts), before, os.fstat(descriptor)


MAX_LINKS = 2  # to folders in one path: more could give a few folders countless paths


def entries(
    folder: str, root: str, within: str | None = None
) -> tuple[list[str], list[str], list[str]]:
    """Return names of files, folders, and links not to follow, as circular or out of `within`."""
    files: list[str] = []
    folders: list[str] = []
    circular: list[str] = []
    try:
        with retry_on_emfile(partial(os.scandir, folder)) as found:
            for entry in found:
                try:
                    is_folder = entry.is_dir()
                except OSError:  # a link to itself: reading it will say so
                    is_folder = False
                if not is_folder:
                    files.append(entry.name)
                elif entry.is_symlink() and (
                    _is_circular(entry.path, root)
                    or (within is not None and not is_inside(entry.path, within))
                ):
                    circular.append(entry.name)
                else:
                    folders.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return [], [], []
    except OSError as e:
        if isinstance(e, StoreError):
            raise
        raise StoreError(f"cannot list {folder!r}: {e.strerror or e}") from e
    return files, folders, circular


def is_inside(path: str, folder: str) -> bool:
    """Return True if a path, with links resolved, is a real folder or below it."""
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(folder, ""))


def walk(top: str, root: str, within: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield the folders at and below `top`, relative to it with ``/``, and names in them.

    In the order of keys, as other stores list them: ``a.b`` is before what is in ``a``, ``a0``
    behind it. So the names of a folder come in parts: files, or one folder, whose name ends in a
    slash. What is in it follows, unless it is of this package, or a link not to follow.
    """
    left: list[tuple[str, list[str] | None]] = [("", None)]  # None: not listed yet
    while left:
        inside, names = left.pop()
        if names is not None:
            yield inside, names
            continue
        here = os.path.join(top, inside) if inside else top
        files, folders, circular = entries(here, root, within)
        followed = {f"{name}/" for name in folders if not is_ours(name)}
        names = sorted([*files, *(f"{name}/" for name in (*folders, *circular))])
        parts: list[tuple[str, list[str] | None]] = []
        for is_folder, some in itertools.groupby(names, lambda name: name.endswith("/")):
            if not is_folder:
                parts.append((inside, [*some]))
                continue
            for name in some:
                parts.append((inside, [name]))
                if name in followed:
                    parts.append((f"{inside}/{name[:-1]}" if inside else name[:-1], None))
        left += reversed(parts)


def _is_circular(link: str, root: str) -> bool:
    """Return True if a link to a folder leads to one that is already part of its path."""
    target, links, path = os.path.realpath(link), 1, link
    while len(path := os.path.dirname(path)) >= len(root.rstrip(os.sep)):
        if os.path.realpath(path) == target:
            return True
        links += os.path.islink(path) and len(path) > len(root.rstrip(os.sep))
    if links > MAX_LINKS:
        raise StoreError(
            f"{link!r} is reached through {links} links to folders, more than the {MAX_LINKS} that"
            " a listing follows; open its target by its own path"
        )
    return False


def ignores_case(directory: str) -> bool:
    """Return True if a directory finds names in another case; False if there are no names."""
    here = os.path.abspath(directory)
    while not os.path.isdir(here) and os.path.dirname(here) != here:
        here = os.path.dirname(here)
    for folder in (here, os.path.dirname(here)):
        try:
            names = set(os.listdir(folder))
        except OSError:
            continue
        for name in sorted(names):
            other = name.swapcase()
            if other not in names:
                return os.path.lexists(os.path.join(folder, other))
    return False


_NAME_BYTES = 255  # of one name, on every common disk
_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|.*[. ]|.*[<>:\"|?*\\\x00-\x1f].*",
    re.IGNORECASE | re.DOTALL,
)


def check_names(path: str, windows: bool) -> None:
    """Raise if a part of a path cannot be a file name on any disk, or on Windows."""
    for name in path.split("/"):
        if len(name) > _NAME_BYTES // 4 and len(os.fsencode(name)) > _NAME_BYTES:
            raise InvalidName(
                f"the name {name!r} has {len(os.fsencode(name))} bytes; disks have names of at"
                f" most {_NAME_BYTES}: choose a shorter one"
            )
        if windows and _WINDOWS.fullmatch(name):
            raise InvalidName(
                f"Windows cannot have the name {name!r} in {path!r}, or takes it for another:"
                ' choose one without <>:"|?*\\, without a period or space at its end, and none'
                " of its devices"
            )


def check_spelling(directory: str, path: str) -> None:
    """Raise if a part of a path below a directory exists in another spelling."""
    for name in path.split("/"):
        if not os.path.lexists(os.path.join(directory, name)):
            return
        names = os.listdir(directory)
        if name not in names:
            found = next((n for n in names if _normalised(n) == _normalised(name)), name)
            raise InvalidName(
                f"{path!r}: on this disk {name!r} is the same name as {found!r}, which is there"
                f" already in {directory!r}; choose a name that differs in more than case"
            )
        directory = os.path.join(directory, name)


def _normalised(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
