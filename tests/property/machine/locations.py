"""Kinds of stores for a hierarchy, and other ways to name the same store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import omnizarr as oz
from omnizarr.storage import PrefixStore, ReadOnlyStore, ZipStore
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore

MAP_SIZE = 2**26  # of LMDB, in bytes: a file with holes, also on a memory file system
FILES = ("zip", "SQLite", "LMDB")  # kinds whose values are all in one file or folder


@dataclass
class Location:
    """A kind of store in its own folder; `open` returns a new store object each time."""

    kind: str
    folder: Path
    values: dict[str, bytes] = field(default_factory=dict)  # of a memory store

    @property
    def path(self) -> Path:
        """The file or directory of the store."""
        return self.folder / "x.zarr"

    def open(self) -> Any:
        """Return another store object for the same values."""
        return KINDS[self.kind](self)

    def aliases(self) -> dict[str, Callable[[], Any]]:
        """Return other ways to name the location, for reading and writing."""
        found: dict[str, Callable[[], Any]] = {
            "another object": self.open,
            "a prefix": lambda: PrefixStore(self.open(), ""),
        }
        if self.kind in ("directory", "fsspec local"):
            found |= {
                "a path": lambda: str(self.path),
                "a relative path": lambda: os.path.relpath(self.path),
                "a link": self._link,
                "a URL": lambda: self.path.as_uri(),
                "a prefix of the parent": lambda: PrefixStore(
                    oz.storage.LocalStore(self.folder), self.path.name
                ),
                "fsspec": lambda: FsspecStore(LocalFileSystem(), path=str(self.path)),
                "a directory": lambda: oz.storage.LocalStore(self.path),
                "a detour": lambda: f"{self.folder}/../{self.folder.name}/{self.path.name}",
            }
        if self.kind == "memory":
            found["a dictionary"] = lambda: self.values
        return found

    def readers(self) -> dict[str, Callable[[], Any]]:
        """Return the same and those that can only be read."""
        return {**self.aliases(), "read-only": lambda: ReadOnlyStore(self.open())}

    def _link(self) -> Path:
        link = self.folder / "link.zarr"
        self.path.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(self.path.name)
        return link

    def erase(self) -> None:
        """Remove what is stored, as a program would that knows nothing of the open stores."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            for file in self.folder.glob(f"{self.path.name}*"):  # some have files beside them
                file.unlink()

    def take(self, other: Location) -> None:
        """Replace the files here by those of another location."""
        if other.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
            os.rename(other.path, self.path)
            return
        moved = [f.name for f in other.folder.glob(f"{other.path.name}*")]
        for file in self.folder.glob(f"{self.path.name}*"):
            if file.name not in moved:
                file.unlink()
        for name in moved:
            os.replace(other.folder / name, self.folder / name)


def _memory_files(location: Location) -> FsspecStore:
    return FsspecStore(MemoryFileSystem(), path=f"memory:/{location.folder}")


KINDS: dict[str, Callable[[Location], Any]] = {
    "directory": lambda location: oz.storage.LocalStore(location.path),
    "memory": lambda location: oz.storage.MemoryStore(location.values),
    "zip": lambda location: ZipStore(location.path, mode="a"),
    "SQLite": lambda location: SQLiteStore(location.path),
    "LMDB": lambda location: LMDBStore(location.path, map_size=MAP_SIZE),
    "fsspec memory": _memory_files,
    "fsspec local": lambda location: FsspecStore(LocalFileSystem(), path=str(location.path)),
}


def remove_memory_files(location: Location) -> None:
    """Remove what a memory file system keeps for the whole process."""
    files = fsspec.filesystem("memory")
    if files.exists(str(location.folder)):
        files.rm(str(location.folder), recursive=True)
