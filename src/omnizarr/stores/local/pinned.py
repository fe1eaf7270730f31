"""The folder of a node, held while its metadata are changed, wherever it is moved."""

from __future__ import annotations

import os

from omnizarr.concurrency.retry import retry_on_emfile
from omnizarr.errors import StoreError
from omnizarr.stores.base import Range, Requests, Store, Values
from omnizarr.stores.local.atomic_files import replace_file
from omnizarr.stores.local.store import LocalStore
from omnizarr.stores.operations import direct_file_root

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
        """Return an error that names the folder as others do."""
        start = os.fsdecode(direct_file_root(self._whole) or b"") + self._prefix
        return StoreError(str(error).replace(self._start, start))

    def __repr__(self) -> str:
        return repr(self._whole)


def pin(store: Store, prefix: str) -> PinnedFolder | None:
    """Return the folder of a prefix, whose descriptor is to be closed; None if there is none."""
    root = direct_file_root(store) if _HAS_DESCRIPTORS else None
    if root is None:
        return None
    folder = root + prefix.encode("utf-8", "surrogateescape")
    try:
        return PinnedFolder(store, prefix, os.open(folder, _FOLDER_FLAGS))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError:
        try:
            return PinnedFolder(store, prefix, retry_on_emfile(os.open, folder, _FOLDER_FLAGS))
        except OSError as e:
            where = os.fsdecode(folder)
            raise StoreError(f"cannot open {where!r}: {e.strerror or e}") from e
