"""A store in a ZIP archive: keys are the names of its entries.

An archive is read from a file, or from any store that reads parts of values; it is written to a
file, by one process. A value that is set again replaces the old one; `compact` reclaims the space.
A file is complete when the store is closed, flushed or no longer used. Files with the ending
``.ozx`` are single-file OME-Zarr (RFC-9): metadata come first, breadth-first; the comment says so.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, TypeAlias

from omnizarr.concurrency.fork import Usage
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import base, identity, operations
from omnizarr.stores.base import Bytes, Names, Range, Requests, Store, Traits, VersionedValue, flat
from omnizarr.stores.zip import archive as archives
from omnizarr.stores.zip.archive import Archive, ByteSource, StoreBytes
from omnizarr.stores.zip.records import DEFLATED, LOCAL, STORED, TAIL, ZipEntry, read_directory

Mode: TypeAlias = Literal["r", "a", "r+", "w", "w-", "x"]


class ZipStore(base.ListedStore):
    """The entries of a ZIP file.

    Args:
        path: The path of the file.
        mode: ``"r"`` reads, ``"a"`` and ``"r+"`` also write, ``"w"`` replaces the file, ``"x"`` and
            ``"w-"`` refuse an existing one.
        read_only: True to refuse all writes.
        compression: 0 (stored) or 8 (deflated), as in the module `zipfile`.

    Raises:
        InvalidArgument: If the mode or compression is not one of these.

    Examples:
        >>> with oz.storage.ZipStore("ocean.zip", mode="w") as store:
        ...     oz.save(store, np.arange(3))
        >>> oz.load("ocean.zip")
        array([0, 1, 2])
    """

    traits = Traits(low_latency=True)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "r",
        read_only: bool | None = None,
        compression: int = STORED,
    ) -> None:
        if mode not in ("r", "a", "r+", "w", "w-", "x"):
            raise InvalidArgument(f"mode must be one of r, a, r+, w, w-, x, got {mode!r}")
        if compression not in (STORED, DEFLATED):
            raise InvalidArgument(f"compression must be 0 or 8 (deflated), got {compression!r}")
        if read_only and mode in ("w", "w-", "x"):
            raise InvalidArgument(f"mode {mode!r} creates an archive; it cannot be read_only")
        self.path = base.absolute_path(path)
        self.inner: Store | None = None
        self.read_only = mode == "r" if read_only is None else read_only
        self.compression = compression
        self._usage = Usage()
        self._loaded: tuple[ByteSource, dict[str, ZipEntry]] | None = None
        self._archive: Archive | None = None
        self._sorted: tuple[object, int, Names] = (None, 0, [])
        if mode in ("w", "w-", "x") and not self.read_only:
            self._write(mode="w" if mode == "w" else "x")

    @classmethod
    def inside(cls, store: Store, key: str) -> ZipStore:
        """Return the archive that is the value of a key of a store, read-only."""
        made = cls(key)
        made.path, made.inner = operations.check_key(key), store
        return made

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False, **options: Any) -> ZipStore:
        """Return the store of ``zip://path/to/file``."""
        return cls("".join(base.split_path(url)), mode="r" if read_only else "a", **options)

    # Opening

    def _write(self, mode: str = "a") -> Archive:
        operations.check_writable(self)
        if self._archive is None:
            self._archive = Archive.at(self.path, mode, deflate=self.compression == DEFLATED)
            self._finish = weakref.finalize(self, self._archive.finish)
        else:
            self._archive.check_file()
        return self._archive

    @contextmanager
    def _using(self, verb: str, what: str) -> Iterator[None]:
        """Keep the file open, and translate errors of the system."""
        with operations.translated_errors(verb, what, self), self._usage:
            yield

    def _live(self) -> tuple[ByteSource | None, dict[str, ZipEntry]]:
        """Return where the archive is read from, None if there is none, and its entries."""
        if not self.read_only:
            there = self._archive is not None or identity.file_number(self.path) is not None
            return self._write().live if there else (None, {})
        if self._loaded is None:
            archive = None if self.inner else archives.writing(self.path)
            if archive is not None:
                return archive.live
            self._loaded = self._load()
        return self._loaded or (None, {})

    def _load(self) -> tuple[ByteSource, dict[str, ZipEntry]] | None:
        if self.inner is None:
            if identity.file_number(self.path) is None:
                return None
            file = archives.open_file(self.path)
            return file, archives.load(self.path, file).entries
        tail = self.inner.get(self.path, Range(-TAIL))
        if tail is None:
            return None
        source = StoreBytes(self.inner, self.path)
        size = len(tail) if len(tail) < TAIL else None
        found = read_directory(repr(self), size, lambda *span: source.read_many([span])[0], tail)
        if found is None or (found.shift and tail.startswith(LOCAL)):
            raise StoreError(f"{self!r} is not a ZIP archive, or has lost its end")
        return source, found.entries

    # Reading

    def get_many(self, requests: Requests) -> base.Values:
        return [value for value, _ in self._get_versioned(requests)]

    def get_versioned(self, key: str, range: Range | None = None) -> VersionedValue:
        return self._get_versioned([(key, range)])[0]

    def _get_versioned(self, requests: Requests) -> list[VersionedValue]:
        asked = [(operations.check_key(key), range) for key, range in requests]
        with self._using("read", operations.named(key for key, _ in asked)):
            source, entries = self._live()
            found = [(entries.get(key), range) for key, range in asked]
            wanted = [(entry, range) for entry, range in found if entry is not None]
            values = iter(archives.fetch(source, wanted) if source is not None else ())
        return [
            (None, None) if entry is None else (next(values), _generation(entry))
            for entry, _ in found
        ]

    def _entries(self, keys: Iterable[str]) -> dict[str, ZipEntry]:
        asked = [*map(operations.check_key, keys)]
        with self._using("read", operations.named(asked)):
            entries = self._live()[1]
        return {key: entries[key] for key in asked if key in entries}

    def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        return {key: entry.size for key, entry in self._entries(keys).items()}

    def generation(self, key: str) -> str | None:
        return next(map(_generation, self._entries([key]).values()), None)

    # Writing

    def set_many(self, values: Iterable[tuple[str, Bytes]]) -> None:
        operations.check_writable(self)
        for key, value in [(operations.check_key(key), flat(value)) for key, value in values]:
            with self._using("write", key):
                self._write().set(key, value)

    def set_if(self, key: str, value: Bytes, generation: str | None) -> bool:
        """Store a value if the generation matches; only threads of this process can interfere."""
        operations.check_writable(self)
        with self._using("write", operations.check_key(key)):
            archive = self._write()
            with archive.lock:
                entry = archive.live.entries.get(key)
                if (None if entry is None else _generation(entry)) != generation:
                    return False
                archive.set(key, flat(value))
                return True

    def lock_keys(
        self, prefix: str, keys: Iterable[str], kind: base.LockKind
    ) -> AbstractContextManager[None]:
        """Do nothing: no other process can write while this one does."""
        operations.check_writable(self)
        return nullcontext()

    def erase(self, key: str) -> None:
        operations.check_writable(self)
        if self._entries([key]):
            with self._using("erase", key):
                self._write().erase([key])

    def erase_prefix(self, prefix: str) -> None:
        operations.check_writable(self)
        operations.check_prefix(prefix)
        with self._using("erase", f"{prefix}…"):
            if self._live()[1]:
                archive = self._write()
                with archive.lock:
                    archive.erase([n for n in archive.live.entries if n.startswith(prefix)])

    # Listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        operations.check_prefix(prefix)
        yield from operations.keys_below(self._keys(), prefix)

    def list_dir(self, prefix: str) -> tuple[Names, Names]:
        operations.check_prefix(prefix)
        return operations.list_level(operations.scan_sorted(self._keys()), prefix)

    def _keys(self) -> Names:
        with self._using("list", ""):
            _, entries = self._live()
            # Of another store of this process, if this one has loaded nothing.
            archive = self._archive or (None if self._loaded else archives.writing(self.path))
            changes = archive.changes if archive else 0
            if self._sorted[0] is not entries or self._sorted[1] != changes:
                keys = sorted(filter(operations.is_key, entries.copy()))
                self._sorted = entries, changes, keys
            return self._sorted[2]

    # Finishing

    def flush(self) -> None:
        """Complete the file; the store can be used further."""
        if self._archive is not None:
            with self._using("write", "the directory"):
                self._archive.flush()

    def compact(self) -> None:
        """Rewrite the file with only the live values, which reclaims space."""
        with self._using("compact", "the archive"):
            self._write().compact()

    def close(self) -> None:
        """Complete the file; the store cannot be used afterwards."""
        self._usage.close(self._complete)

    def _complete(self) -> None:
        archive, self._archive, self._loaded = self._archive, None, None
        if archive is not None:
            self._finish.detach()
            with operations.translated_errors("write", "the directory", self):
                archive.finish()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path: in the same process a copy shares what is not yet complete."""
        if self.inner is not None:
            return type(self).inside, (self.inner, self.path)
        mode: Mode = "r" if self.read_only else "a"
        return partial(type(self), mode=mode, compression=self.compression), (self.path,)

    def identity_details(self) -> tuple[str]:
        """Return the path: an inode may be used again by another file."""
        return (self.path if self.inner is not None else os.path.realpath(self.path),)

    def _values_at(self) -> tuple[Any, ...]:
        return self.identity_details(), self.inner

    def identity(self, prefix: str = "") -> identity.StorageIdentity:
        if self.inner is None:
            return identity.file(self.path, prefix)
        first, *outer = identity.storage_identity(self.inner, f"{self.path}/")
        return identity.inside(first, prefix, tuple(outer))

    def __repr__(self) -> str:
        return self.path if self.inner is None else f"{self.path} in {self.inner!r}"


class ZipStoreV2(ZipStore):
    """`ZipStore` as zarr-python 2 has it: new hierarchies are of version 2."""

    traits = Traits(low_latency=True, default_format="2")
    identity_details = ZipStore.identity_details


def _generation(entry: ZipEntry) -> str:
    return f"{entry.offset:x}-{entry.crc:08x}-{entry.size:x}"
