"""A store in a directory: keys are paths below it, values are files.

A file gets its name when it is complete: a reader, or a crash, sees the old or the new value.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from omnizarr import config
from omnizarr.concurrency import file_locks
from omnizarr.concurrency.retry import retry_on_emfile
from omnizarr.errors import InvalidArgument, StoreError, raised_by_system
from omnizarr.model.paths import is_ours
from omnizarr.stores import base
from omnizarr.stores.base import Bytes, Entry, Names, Range, Requests, Store, Values, split_path
from omnizarr.stores.identity import StorageIdentity, directory
from omnizarr.stores.local import atomic_files
from omnizarr.stores.local.atomic_files import _files, replace_file
from omnizarr.stores.operations import check_key, check_prefix, check_writable, direct_file_root

_UTF8 = sys.getfilesystemencoding() == "utf-8"
_read_whole = getattr(_files, "read", None) if _UTF8 else None
T = TypeVar("T")
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
# Without O_NONBLOCK, opening a named pipe would wait for a writer.
_FLAGS = os.O_RDONLY
for _name in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"):
    _FLAGS |= getattr(os, _name, 0)

# A file changed twice within one tick of the file system's clock may look unchanged.
TICK = 10**8  # nanoseconds, far above the 1 to 16 ms of common clocks
COARSE_TICK = 25 * 10**8  # where times are kept in seconds, or in pairs of them
_unique = itertools.count()
_replace_new = partial(replace_file, only_new=True)


def _generation(status: os.stat_result) -> str:
    """Return a generation that the next content will not have; for a recent file, a unique one."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    text = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_size}"
    tick = COARSE_TICK if changed % 10**9 == 0 else TICK
    # Times ahead of the clock are as unreliable as those of a moment ago.
    return text if changed < time.time_ns() - tick else f"{text}-recent-{next(_unique)}"


class OpenFile:
    """An open file, whose content stays when another file takes its name."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, _FLAGS)
        try:
            about = os.fstat(self._descriptor)
            self.generation: str | None = _generation(about)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
        except BaseException:
            os.close(self._descriptor)
            raise
        self.size = about.st_size

    def read(self, start: int, length: int) -> bytes:
        """Return part of the content, for one thread at a time."""
        os.lseek(self._descriptor, start, os.SEEK_SET)
        return os.read(self._descriptor, length)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class LocalStore(base.ListedStore):
    """The files below a directory, which need not exist yet.

    Args:
        root: The path of the directory.
        read_only: True to refuse all writes.

    Examples:
        >>> store = oz.storage.LocalStore("ocean.zarr")
        >>> oz.save(store, np.arange(3))
        >>> sorted(store.list())
        ['c/0', 'zarr.json']
    """

    _copies_share_values = True
    _flags = _FLAGS  # with which values are opened
    enclosure: str | None = None  # the real folder that no link may lead out of

    traits = base.Traits(low_latency=True, cheap_requests=True)
    read_only = False

    def __init__(self, root: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self._given = text = os.fspath(root)  # for messages
        if os.sep == "/" and text[:1] == "/" != text[-1:] and text.isprintable() and text.isascii():
            self._start = text + "/"
        else:
            self._start = os.path.join(base.absolute_path(text), "")
        self.read_only = read_only

    @cached_property
    def root(self) -> Path:
        """The directory, an absolute path."""
        return Path(self._start)

    @property
    def file_root(self) -> Path:
        """The directory, in which every value is a file."""
        return self.root

    @cached_property
    def direct_file_root(self) -> bytes:
        """The directory as the operating system names it, with a slash at the end."""
        return os.fsencode(self._start)

    def enclosed(self, folder: str | None = None) -> Self:
        """Return this store, in which links that lead out of a folder (its own) are errors."""
        found = copy.copy(self)
        found.enclosure = os.path.realpath(self._start if folder is None else folder)
        kind: Any = type(self)
        found.__class__ = _enclosed_class(kind)
        return found

    def check_links(self, keys: Iterable[str]) -> None:
        """Raise if a key leads out of the enclosure."""
        for key in keys:
            self._path(key)

    def without_enclosure(self) -> Self:
        """Return an enclosed store without its checks, for keys that have been checked."""
        found = copy.copy(self)
        found.enclosure = None
        kind: Any = type(self)
        found.__class__ = kind.__base__
        return found

    @cached_property
    def _ignores_case(self) -> bool:
        return atomic_files.ignores_case(self._start)

    def check_new_key(self, key: str) -> None:
        """Raise if this disk cannot store a key, or confuses it with another spelling."""
        atomic_files.check_names(key, os.name == "nt")
        if self._ignores_case:
            atomic_files.check_spelling(self._start, key)

    def _path(self, key: str) -> str:
        if os.sep != "/" and (os.sep in key or ":" in key):
            raise InvalidArgument(f"key {key!r} is not allowed: {os.sep!r} and ':' lead elsewhere")
        check_key(key)
        path = self._start + (key if os.sep == "/" else key.replace("/", os.sep))
        if self.enclosure is not None and not atomic_files.is_inside(path, self.enclosure):
            raise base.LeadsOutside(
                f"{path!r} is a symbolic link, or below one, that leads out of the served folder,"
                " which is not followed; serve it with --follow-links (follow_links=True), or"
                " replace the link by its target"
            )
        return path

    def _folder(self, prefix: str) -> str:
        if not prefix:
            return str(self.root)
        check_prefix(prefix)
        return self._path(prefix[:-1])

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        if range is None and _read_whole is not None and self.enclosure is None:
            found: bytes | None = _read_whole(self._start, key)
            if found is not NotImplemented:  # an invalid key, or one that needs another way
                return found
        return self._apply_to_file(
            key, lambda path: atomic_files.read_file(path, range, self._flags)[0]
        )

    def generation(self, key: str) -> str | None:
        return self._apply_to_file(key, lambda path: _generation(os.stat(path)))

    def get_versioned(self, key: str, range: Range | None = None) -> base.VersionedValue:
        found = self._apply_to_file(
            key, lambda path: atomic_files.read_file(path, range, self._flags)
        )
        if found is None:
            return None, None
        before, after = _generation(found[1]), _generation(found[2])
        return found[0], after if before == after else f"{after}-changing-{next(_unique)}"

    def _apply_to_file(self, key: str, use: Callable[[str], T]) -> T | None:
        """Return what `use` returns for the path of a file, or None if there is no file."""
        path = self._path(key)
        try:
            return retry_on_emfile(partial(use, path))
        except OSError as e:
            if not raised_by_system(e):
                raise
            if isinstance(e, _ABSENT) or os.path.isdir(path):  # Windows cannot open one
                atomic_files.check_link(path)
                return None
            raise StoreError(f"cannot read {path!r}: {e.strerror or e}") from e

    def open_value(self, key: str) -> OpenFile | None:
        """Return the open file of a key, or None if there is no such key."""
        return self._apply_to_file(key, OpenFile)

    def get_many(self, requests: Requests) -> Values:
        wanted = [*requests]
        whole = [key for key, range in wanted if range is None]
        checked = self.enclosure is not None
        if _files is None or not _UTF8 or checked or len(whole) < len(wanted):
            return [self.get(key, range) for key, range in wanted]
        found: Values = _files.read_many(self._start, whole)
        if NotImplemented in found:  # an invalid key, or one that needs another way
            for i, value in enumerate(found):
                found[i] = self.get(whole[i]) if value is NotImplemented else value
        return found

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[base.GetMany]:
        """Return a `get_many` whose values stay as they were at their first read."""
        opened: dict[str, int] = {}

        def get(path: str, part: Range | None) -> bytes:
            if path not in opened:
                opened[path] = os.open(path, _FLAGS)
            os.lseek(opened[path], 0, os.SEEK_SET)
            return atomic_files.read_open(opened[path], part)[0]

        try:
            yield lambda asked: [self._apply_to_file(key, partial(get, part=p)) for key, p in asked]
        finally:
            for descriptor in opened.values():
                os.close(descriptor)

    def set(self, key: str, value: Bytes) -> None:
        self._store(key, value, replace_file)

    def set_new(self, key: str, value: Bytes) -> bool:
        return self._store(key, value, _replace_new)

    def set_first(self, key: str, value: Bytes) -> bool:
        return self._store(key, value, atomic_files.create_file)

    def _store(self, key: str, value: Any, store: Callable[[str, Any, bool], bool]) -> bool:
        check_writable(self)
        path = self._path(key)
        sync = config.get().durability == "fsync"
        try:
            stored = retry_on_emfile(store, path, value, sync)
            if sync and stored:
                self.sync_folders(path)
            return stored
        except OSError as e:
            if not raised_by_system(e):
                raise
            raise StoreError(f"cannot write {path!r}: {e.strerror or e}") from e

    def set_parts(self, key: str, parts: Callable[[], Iterator[bytes]]) -> None:
        """Store a large value in parts, so that it need not be in memory as a whole."""
        self._store(key, parts, atomic_files.replace_file_by_parts)

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        check_writable(self)
        left = [*values]
        pairs = [(self._path(key), value) for key, value in left]
        while left:
            quick = _files is not None and config.get().durability != "fsync"
            done = _files.replace_many(pairs) if quick else 0  # up to one that takes `set`
            if done < len(left):
                self.set(*left[done])  # this raises, makes folders, or waits for the disk
            left, pairs = left[done + 1 :], pairs[done + 1 :]

    def sync_folders(self, path: str) -> None:
        """Flush the directories on the way to a path to the disk."""
        if sys.platform == "win32":
            return  # it does so by itself, and cannot open directories
        while len(path := os.path.dirname(path)) >= len(self._start) - 1:
            descriptor = retry_on_emfile(partial(os.open, path, os.O_RDONLY))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock_keys(
        self, prefix: str, keys: Iterable[str], kind: base.LockKind
    ) -> contextlib.AbstractContextManager[None]:
        check_writable(self)
        names = [key[len(prefix) :] for key in keys]
        return file_locks.locked_files(self._folder(prefix), names, kind)

    def erase(self, key: str) -> None:
        check_writable(self)
        path = self._path(key)
        try:
            os.unlink(path)
            if config.get().durability == "fsync":
                self.sync_folders(path)
            atomic_files.remove_empty(path, self._start)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as e:
            if os.path.isdir(path):  # not a key; erase_prefix erases those below it
                return
            raise StoreError(f"cannot erase {path!r}: {e.strerror or e}") from e

    def erase_prefix(self, prefix: str) -> None:
        check_writable(self)
        path = self._folder(prefix)
        if os.path.islink(path):
            raise StoreError(
                f"cannot erase {path!r}: it is a symbolic link; remove the link itself, or erase"
                " its target"
            )
        try:
            retry_on_emfile(shutil.rmtree, path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as e:
            raise StoreError(f"cannot erase {path!r}: {e.strerror or e}") from e
        except RecursionError:
            raise StoreError(
                f"cannot erase all of {path!r}: folders are nested too deeply"
            ) from None
        if prefix:
            atomic_files.remove_empty(path, self._start)
        else:
            os.makedirs(path, exist_ok=True)

    def _walk(self, prefix: str, everything: bool = False) -> Iterator[tuple[str, Names]]:
        """Yield the folders below a prefix, which end in a slash, and the names of values there."""
        for inside, names in atomic_files.walk(self._folder(prefix), self._start, self.enclosure):
            if not everything:
                names = [name for name in names if name[-1] != "/" and not is_ours(name)]
            yield f"{prefix}{inside}/" if inside else prefix, names

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for head, names in self._walk(prefix):
            yield from (head + name for name in names)

    def list_entries(self, prefix: str) -> Iterator[Entry]:
        for head, values in self._walk(prefix):
            known = atomic_files.status_of_files(os.path.join(self._start, head), values)
            for name, status in zip(values, known, strict=True):
                key = head + name  # without a status: erased meanwhile, no file, or an error
                found = self.entry(key) if status is None else Entry(key, *status)
                if found is not None:
                    yield found

    def entry(self, key: str) -> Entry | None:
        """Return the size and modification time of a value, or None if there is none."""
        about = self._apply_to_file(key, os.stat)
        if about is None or not stat.S_ISREG(about.st_mode):
            return None
        return Entry(key, about.st_size, about.st_mtime_ns)

    def list_everything(self, prefix: str) -> Iterator[str]:
        """Yield all keys, temporary files and lock files, and folders with a final slash."""
        for head, names in self._walk(prefix, everything=True):
            yield from (head + name for name in names)

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        top = self._folder(prefix)
        found, inside, _ = atomic_files.entries(top, self._start)
        keys = [prefix + name for name in found if not is_ours(name)]
        return keys, [f"{prefix}{name}/" for name in inside if not is_ours(name)]

    def parents(self) -> Iterator[LocalStore]:
        """Yield the directories above this one, read-only."""
        for parent in Path(os.path.realpath(self.root)).parents:
            yield LocalStore(parent, read_only=True)

    def identity_details(self) -> tuple[str, ...]:
        """Return the path: an inode may be used again by another file; and the enclosure."""
        own = os.path.realpath(self.root)
        return (own,) if self.enclosure is None else (own, self.enclosure)

    def _values_at(self) -> tuple[str, ...]:
        return "directory", *self.identity_details()

    def identity(self, prefix: str = "") -> StorageIdentity:
        return directory(self._folder(prefix))

    @property
    def url(self) -> str:
        """The RFC 8089 file URI of the directory."""
        path = os.path.abspath(self._start).replace(os.sep, "/")
        if os.sep == "\\" and path.startswith("//"):  # a network share
            return "file:" + quote(path, safe="/:")
        return "file://" + ("" if path.startswith("/") else "/") + quote(path, safe="/:")

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False) -> LocalStore:
        """Return the store behind a file URI, which is absolute (RFC 8089)."""
        host, path = split_path(url)
        if host.lower() in ("", "localhost"):
            drive = len(path) > 2 and path[0] == "/" and path[2] == ":"
            return cls(path[1:] if drive else path, read_only=read_only)
        if os.sep == "\\":
            return cls(f"//{host}{path}", read_only=read_only)
        raise StoreError(
            f"the file URI {url!r} names the machine {host!r}; for a directory of this machine give"
            f" the absolute path, 'file:///{host}{path}', or a plain path, '{host}{path}'"
        )

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        return {e.key: e.size or 0 for e in map(self.entry, keys) if e is not None}

    def __repr__(self) -> str:
        return str(Path(self._given))


@cache
def _enclosed_class(kind: type[LocalStore]) -> Any:
    """Return a class that does not declare `DirectFiles`: compiled code does not check links."""
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__})


class DirectoryStore(LocalStore):
    """A directory under the name of zarr-python 1 and 2; new arrays and groups are version 2.

    Args:
        root: The path of the directory.
        read_only: True to refuse all writes.

    Examples:
        >>> store = oz.storage.DirectoryStore("ocean.zarr")
        >>> oz.save(store, np.arange(3))
        >>> sorted(store.list())
        ['.zarray', '0']
    """

    traits = replace(LocalStore.traits, default_format="2")
    identity_details = LocalStore.identity_details
    direct_file_root = LocalStore.direct_file_root


class NestedDirectoryStore(DirectoryStore):
    """A directory in which chunk keys of version 2 have slashes, as in zarr-python 2.

    Metadata that states no separator is read so too.

    Args:
        root: The path of the directory.
        read_only: True to refuse all writes.

    Examples:
        >>> store = oz.storage.NestedDirectoryStore("ocean.zarr")
        >>> oz.save(store, np.ones((2, 2)))
        >>> sorted(store.list())
        ['.zarray', '0/0']
    """

    traits = replace(DirectoryStore.traits, separator="/")
    identity_details = LocalStore.identity_details
    direct_file_root = LocalStore.direct_file_root


_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# Where a descriptor of a folder has a path, which leads to the folder wherever it is.
_DESCRIPTORS = "/proc/self/fd/"
_HAS_DESCRIPTORS = os.path.isdir(_DESCRIPTORS)


class PinnedFolder(LocalStore):
    """The values right below a prefix of a store, in the folder that has them now.

    If another process renames that folder, changes go with it: none is made in another folder that
    has taken its place. They raise StoreError from FileNotFoundError if the folder was removed.
    """

    def __init__(self, store: Store, prefix: str, descriptor: int) -> None:
        self._start, self._prefix = f"{_DESCRIPTORS}{descriptor}/", prefix
        self._whole, self.descriptor = store, descriptor

    def _path(self, key: str) -> str:
        return self._start + key.removeprefix(self._prefix)  # which `get` has done

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        return super().get(key[len(self._prefix) :], range)

    def get_many(self, requests: Requests) -> Values:
        get, start = super().get, len(self._prefix)
        return [get(key[start:], range) for key, range in requests]

    def put(self, key: str, value: bytes | None) -> None:
        """Store a value, or erase it for None."""
        if value is None:
            self.erase(key)
        else:
            self._store(key, value, replace_file)

    def explain(self, error: StoreError) -> StoreError:
        """Return the error with the folder's real path in place of its descriptor's."""
        start = os.fsdecode(direct_file_root(self._whole) or b"") + self._prefix
        return StoreError(str(error).replace(self._start, start))

    def __repr__(self) -> str:
        return repr(self._whole)


def pin(store: Store, prefix: str) -> PinnedFolder | None:
    """Open the folder of a prefix, or return None; the caller closes its descriptor."""
    root = direct_file_root(store) if _HAS_DESCRIPTORS else None
    if root is None:
        return None
    folder = root + prefix.encode("utf-8", "surrogateescape")
    try:
        return PinnedFolder(store, prefix, retry_on_emfile(os.open, folder, _FOLDER_FLAGS))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as e:
        raise StoreError(f"cannot open {os.fsdecode(folder)!r}: {e.strerror or e}") from e
