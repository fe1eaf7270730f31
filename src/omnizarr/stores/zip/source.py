"""Where the bytes of an archive are: a file, or the value of a key in any store."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from omnizarr.errors import StoreError
from omnizarr.stores.abilities import get_many
from omnizarr.stores.store import Range, Store
from omnizarr.stores.zip.records import LOCAL_SIZE, STORED, Entry, check_method, data_offset, unpack

if sys.platform != "win32":
    import fcntl

_EXTRA = 96  # as much as the extra field of a local header is expected to have


class Source(Protocol):
    """Bytes that are read by offset; what is over the end is cut."""

    def read_many(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ``(start, length)``."""


class StoreBytes:
    """The value of a key of a store."""

    def __init__(self, store: Store, key: str) -> None:
        self.store, self.key = store, key

    def read_many(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        values = get_many(self.store, [(self.key, Range(*span)) for span in spans])
        found = [value for value in values if value is not None]
        if len(found) < len(values):
            raise StoreError(f"{self.key!r} is no longer in {self.store!r}")
        return found


class FileBytes:
    """An open file; threads and forked processes may read it at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        status = os.fstat(descriptor)
        self.number = status.st_dev, status.st_ino
        self._turn = threading.RLock()  # for the place of the next write
        self._locked_by: int | None = None

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, start: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            part = self._read(start, min(length, 2**30))
            if not part:
                break
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read(self, start: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.descriptor, length, start)
        with self._turn:
            os.lseek(self.descriptor, start, os.SEEK_SET)
            return os.read(self.descriptor, length)

    def read_many(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        return [self.read(*span) for span in spans]

    def write(self, start: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        with self._turn:
            os.lseek(self.descriptor, start, os.SEEK_SET)
            while view:
                view = view[os.write(self.descriptor, view) :]

    def lock(self, path: str) -> None:
        """Keep other writers out, also those of other processes."""
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise StoreError(
                f"{path!r} is being written by another process; a ZIP archive has one writer"
            ) from e
        except OSError as e:
            raise StoreError(f"cannot lock {path!r}: {e.strerror or e}") from e
        self._locked_by = os.getpid()

    def close(self) -> None:
        """Let go of the file; nobody may use it afterwards."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        with contextlib.suppress(OSError):
            # Forked children may still have the file open.
            if sys.platform != "win32" and self._locked_by == os.getpid():
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def fetch(source: Source, wanted: Sequence[tuple[Entry, Range | None]]) -> list[bytes]:
    """The values of entries, or parts of them, in at most two batches of reads.

    A whole value comes with its header in one read; for a part the header comes first.
    """
    spans = []
    for entry, range in wanted:
        check_method(entry)
        header = LOCAL_SIZE + len(entry.name) + _EXTRA
        whole = range is None or entry.method != STORED
        spans.append((entry.offset, header + (entry.packed if whole else 0)))
    heads = source.read_many(spans)
    places = [
        _place(entry, range, data_offset(entry, head))
        for (entry, range), head in zip(wanted, heads, strict=True)
    ]
    found = [
        head[start : start + length] for head, (start, length) in zip(heads, places, strict=True)
    ]
    short = [i for i, (_, length) in enumerate(places) if len(found[i]) < length]
    if short:
        rest = source.read_many([(wanted[i][0].offset + places[i][0], places[i][1]) for i in short])
        for i, data in zip(short, rest, strict=True):
            found[i] = data
    return [
        _value(entry, range, data, length)
        for (entry, range), data, (_, length) in zip(wanted, found, places, strict=True)
    ]


def _place(entry: Entry, range: Range | None, start: int) -> tuple[int, int]:
    """Which bytes behind the header's start are needed."""
    part = Range(0, entry.packed)
    if range is not None and entry.method == STORED:
        part = range.within(part)
    return start + part.start, part.length or 0


def _value(entry: Entry, range: Range | None, data: bytes, length: int) -> bytes:
    if range is None:
        return unpack(entry, data)
    if entry.method != STORED:
        return range.of(unpack(entry, data))
    if len(data) != length:
        raise StoreError(f"{len(data)} of {length} bytes asked for of {entry} are there")
    return data
