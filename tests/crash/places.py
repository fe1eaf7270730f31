"""Places where a hierarchy is stored: a folder, a file or a server; each can be copied."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec

from omnizarr.storage import ZipStore
from omnizarr.stores import list_prefix
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.local.atomic_files import OURS
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.resolve import resolve
from omnizarr.stores.sqlite import SQLiteStore

ROOTS = ("data", "out")  # what operations change, and where jobs write
ENDINGS = {"directory": "zarr", "fsspec": "files", "SQLite": "sqlite", "LMDB": "lmdb", "ZIP": "zip"}
FILES = tuple(ENDINGS)  # kinds whose state is in the folder
NUMBERS = re.compile(r"\d+_[0-9a-f]+|[0-9a-f]{8,}|\d{3,}")  # in the names of temporary files


@dataclass
class Place:
    """Two roots of one kind of store; `folder` also has the files that an import reads."""

    kind: str
    folder: Path
    server: str = ""  # the URL of Redis, or the port of S3
    zarr_format: Any = 3
    opened: list[Any] = field(default_factory=list)

    def root(self, name: str = "data", *, read_only: bool = False) -> Any:
        """Return a path or a store that `omnizarr` opens."""
        if self.kind == "directory":
            return str(self.file(name))
        store = self._store(name, read_only)
        self.opened.append(store)
        return store

    def _store(self, name: str, read_only: bool) -> Any:
        path = self.file(name)
        if self.kind == "SQLite":
            return SQLiteStore(path, timeout=5, read_only=read_only)
        if self.kind == "LMDB":
            return LMDBStore(path, map_size=2**22, read_only=read_only)
        if self.kind == "ZIP":
            return ZipStore(path, mode="r" if read_only else "a")
        if self.kind == "fsspec":
            return FsspecStore(fsspec.filesystem("file"), path=str(path), read_only=read_only)
        token = f"{self.folder.name}-{name}"
        if self.kind == "Redis":
            return RedisStore(self.server, prefix=token, read_only=read_only)
        options = {
            "endpoint": f"http://127.0.0.1:{self.server}",
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
        }
        return resolve(f"s3://bucket/{token}", storage_options=options, read_only=read_only)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.{ENDINGS.get(self.kind, '')}"

    def exists(self, name: str) -> bool:
        """Return True if a root is there; what cannot be seen from the outside always is."""
        if self.kind == "ZIP" and self.file(name).exists():
            return self.file(name).stat().st_size > 0  # else it is an error that says so
        return self.kind not in FILES or self.file(name).exists()

    def close(self) -> None:
        """Close all stores, which completes an archive."""
        while self.opened:
            close = getattr(self.opened.pop(), "close", None)
            if close is not None:
                close()

    def copy(self, folder: Path) -> Place:
        """Copy everything to another folder, with sparse files and times as they are."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = Place(self.kind, folder, self.server, self.zarr_format)
        if self.kind not in FILES:
            for name in ROOTS:
                source, target = self._store(name, True), other._store(name, False)
                for key in list_prefix(source, ""):
                    target.set(key, source.get(key) or b"")
        return other

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.kind not in FILES:
            for name in ROOTS:
                store = self._store(name, False)
                for key in [*list_prefix(store, "")]:
                    store.erase(key)

    def digest(self) -> str:
        """Return what two states share whose files differ only in the numbers of processes."""
        found = hashlib.blake2b()
        for name, value in sorted(self._values()):
            found.update(f"{name} {len(value)} ".encode() + value)
        return found.hexdigest()

    def _values(self) -> Iterator[tuple[str, bytes]]:
        if self.kind not in FILES:
            for name in ROOTS:
                store = self._store(name, True)
                for key in list_prefix(store, ""):
                    yield _plain(f"{name}/{key}"), _value(key, store.get(key) or b"")
            return
        for folder, folders, files in os.walk(self.folder):
            inside = os.path.relpath(folder, self.folder)
            yield from ((_plain(f"{inside}/{name}/"), b"") for name in folders)
            for name in files:
                value = Path(folder, name).read_bytes()
                yield _plain(f"{inside}/{name}"), _value(f"{inside}/{name}", value)

    def leftovers(self) -> list[str]:
        """Return the files or keys that the library has for itself, such as locks."""
        if self.kind in ("directory", "fsspec"):
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            inside = [str(path.relative_to(self.folder)) for path in files]
            return [path for path in inside if OURS in path]
        roots = [name for name in ROOTS if self.exists(name)]
        stores = [self.root(name, read_only=self.kind == "ZIP") for name in roots]
        return [key for store in stores for key in list_prefix(store, "") if OURS in key]


def _plain(name: str) -> str:
    return NUMBERS.sub("#", name) if OURS in name else name


def _value(name: str, value: bytes) -> bytes:
    """Return a value, without times and process numbers where it is one of the library's own."""
    return NUMBERS.sub("#", value.decode("latin-1")).encode("latin-1") if OURS in name else value
