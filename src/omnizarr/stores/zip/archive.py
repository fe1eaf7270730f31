"""A ZIP file that is written by appending, and the bytes of a file or store that it is read from.

Nothing that a directory refers to is overwritten: new values go behind the old directory, and a
new directory of the live entries behind them. Until that is complete the old one counts. The
first header behind a directory has a mark that is cleared when the next directory is complete, so
that a file whose writer was killed differs from one that has lost its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from omnizarr.concurrency import fork
from omnizarr.concurrency.file_locks import lock_descriptor, unlock_descriptor
from omnizarr.errors import Conflict, StoreError, warn
from omnizarr.model.paths import OURS
from omnizarr.stores.base import Range, Store
from omnizarr.stores.identity import FileNumber, file_number
from omnizarr.stores.operations import get_many
from omnizarr.stores.zip import records
from omnizarr.stores.zip.records import Directory, ZipEntry

_BLOCK = 2**20
_HEADER = records.LOCAL_SIZE + 2 * 0xFFFF
_EXTRA = 96  # bytes, at most, that the extra field of a local header usually has
_LARGE = 2**16  # bytes of a value that is cheaper to read alone than to cut from its header
# An entry that no directory has: the names that were erased before the entries behind it were
# written, so that what is recovered is a state that there was.
ERASED = f"{OURS}erased__"

# Archives that this process writes, by device and inode.
_writing: WeakValueDictionary[FileNumber, Archive] = WeakValueDictionary()
_lock = fork.lock()


# Bytes


class StoreBytes:
    """The value of a key of a store, which is read by offset and length, cut at its end."""

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
        self._lock = fork.lock()  # for the position of the next write
        self._owner = os.getpid()

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, start: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0 and (part := self._read(start, min(length, 2**30))):
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join(parts)

    def _read(self, start: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.descriptor, length, start)
        with self._lock:
            os.lseek(self.descriptor, start, os.SEEK_SET)
            return os.read(self.descriptor, length)

    def read_many(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        return [self.read(*span) for span in spans]

    def write(self, start: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        with self._lock:
            os.lseek(self.descriptor, start, os.SEEK_SET)
            while view:
                view = view[os.write(self.descriptor, view) :]

    def close(self) -> None:
        """Close the file; it cannot be used afterwards."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        with contextlib.suppress(OSError):
            if self._owner == os.getpid():  # forked children may still have the file open
                unlock_descriptor(descriptor)
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


ByteSource: TypeAlias = StoreBytes | FileBytes


def open_file(path: str, flags: int = os.O_RDONLY) -> FileBytes:
    """Return an open file; one to write is locked, and a new one gets its folders too."""
    try:
        if flags & os.O_CREAT:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        file = FileBytes(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666))
        locked = not flags & os.O_RDWR or lock_descriptor(file.descriptor)
    except OSError as e:
        raise StoreError(f"cannot open {path!r}: {e.strerror or e}") from e
    if not locked:
        file.close()  # else it would be open as long as the error is referenced
        raise Conflict(
            f"{path!r} is being written by another process; a ZIP archive has one writer"
        )
    return file


# Reading


def load(path: str, file: FileBytes) -> Directory:
    """Return the directory of a file; recover entries, with a warning, if its writer was killed."""
    size = file.size()
    found = _directory_before(size, path, file)
    if found is not None and not (found.shift and file.read(0, 4) == records.LOCAL):
        return found
    # It may be the directory of an archive that is the last value of this one.
    last = _last_directory(path, file, size)
    end = last.end if last else 0
    mark = records.session_mark(file.read(end, _HEADER))
    if mark is None or not mark[1]:
        if found is not None:
            return found
        if last is not None and file.read(end, 4) != records.LOCAL:
            return last  # something else was put behind an archive
        raise StoreError(
            f"{path!r} is not a ZIP archive, or has lost its end, where the directory is"
        )
    entries = dict(last.entries) if last else {}
    while (local := records.read_local(file.read(end, _HEADER), end)) is not None:
        name, entry, header = local
        if end + header + entry.packed > size:
            break
        try:
            data = records.unpack(entry, file.read(end + header, entry.packed))
            erased = json.loads(data) if name == ERASED else []
        except (StoreError, ValueError):
            break
        if name != ERASED:
            entries[name] = entry
        for each in erased:
            entries.pop(each, None)
        end += header + entry.packed
    warn(
        f"{path!r} was not closed: its writer was stopped, or is still writing;"
        f" {len(entries)} entries are complete and were recovered"
    )
    return Directory(entries, end, 0, last.comment if last else b"", is_complete=False)


def _directory_before(end: int, path: str, file: FileBytes) -> Directory | None:
    start = max(0, end - records.TAIL)
    return records.read_directory(repr(path), end, file.read, file.read(start, end - start))


def _last_directory(path: str, file: FileBytes, size: int) -> Directory | None:
    start = size
    while start > 0:
        start = max(0, start - _BLOCK)
        block = file.read(start, _BLOCK + records.END_SIZE - 1)
        at = block.rfind(records.END)
        while at >= 0:
            comment = int.from_bytes(
                block[at + records.END_SIZE - 2 : at + records.END_SIZE], "little"
            )
            end = start + at + records.END_SIZE + comment
            with contextlib.suppress(StoreError):
                found = _directory_before(end, path, file)
                if found is not None and found.shift == 0 and end <= size:
                    return found
            at = block.rfind(records.END, 0, at)
    return None


def fetch(source: ByteSource, wanted: Sequence[tuple[ZipEntry, Range | None]]) -> list[bytes]:
    """Return the values of entries, or parts of them, with at most two batches of reads.

    A whole value is read with its header; for a part, or a large local value, the header is first.
    """
    spans, largest = [], _LARGE if isinstance(source, FileBytes) else sys.maxsize
    for entry, range in wanted:
        records.check_method(entry)
        header = records.LOCAL_SIZE + len(entry.name) + _EXTRA
        whole = (range is None or entry.method != records.STORED) and entry.packed <= largest
        spans.append((entry.offset, header + (entry.packed if whole else 0)))
    found = source.read_many(spans)
    missing: dict[int, tuple[int, int]] = {}
    for i, (entry, range) in enumerate(wanted):
        start, part = records.data_offset(entry, found[i]), Range(0, entry.packed)
        if range is not None and entry.method == records.STORED:
            part = range.within(part)
        start, length = start + part.start, part.length or 0
        found[i] = found[i][start : start + length]  # in place: few bytes are held twice
        if len(found[i]) < length:
            missing[i] = entry.offset + start, length
    if missing:
        for i, data in zip(missing, source.read_many(missing.values()), strict=True):
            if len(data) < missing[i][1]:
                raise StoreError(f"{wanted[i][0]} is cut off at {len(data)} of {missing[i][1]}")
            found[i] = data
    for i, (entry, range) in enumerate(wanted):
        if range is None or entry.method != records.STORED:
            value = records.unpack(entry, found[i])
            found[i] = value if range is None else range.of(value)
    return found


# Writing


class Live(NamedTuple):
    """A file and what is in it: replaced together, so that readers need no lock."""

    file: FileBytes
    entries: dict[str, ZipEntry]


class Archive:
    """A file that one process writes; all stores of its path share it."""

    def __init__(self, path: str, mode: str, *, deflate: bool) -> None:
        self.path, self.deflate = os.path.abspath(path), deflate
        self.ordered = path.lower().endswith(".ozx")
        self.lock = fork.lock()
        self._owner = os.getpid()
        self._mark: int | None = None  # where the mark of what was not finished is
        self._in_order = True  # whether the order in the file is that of the directory
        flags = os.O_RDWR | os.O_CREAT | (os.O_EXCL if mode == "x" else 0)
        file = open_file(self.path, flags)
        try:
            if mode == "w":
                os.ftruncate(file.descriptor, 0)
            empty = Directory({}, 0, 0, b"", is_complete=False)
            found = load(self.path, file) if file.size() else empty
        except BaseException:
            file.close()  # else it would be locked as long as the error is referenced
            raise
        self.live, self._comment, self._end = Live(file, found.entries), found.comment, found.end
        self.changes, self._saved = int(not found.is_complete), 0

    @staticmethod
    def at(path: str, mode: str, *, deflate: bool) -> Archive:
        """Return the archive that this process writes at a path; create one if there is none."""
        with _lock:
            archive = writing(path)
            if archive is None or archive._owner != os.getpid():
                archive = Archive(path, mode, deflate=deflate)
                _writing[archive.live.file.number] = archive
                return archive
        if mode == "x":
            raise StoreError(f"{path!r} exists already; mode 'w' replaces it")
        if mode == "w":
            archive.erase(list(archive.live.entries))
        return archive

    def check_file(self) -> None:
        """Raise if another file, or none, is at the path now."""
        if not self._is_at_path():
            raise StoreError(
                f"{self.path!r} was removed or replaced while this store was writing it; nothing"
                " more is written, open the archive again"
            )

    def _is_at_path(self) -> bool:
        return file_number(self.path) == self.live.file.number

    def _check_owner(self) -> None:
        """Raise in a forked child: one process writes an archive."""
        if self._owner != os.getpid():
            raise StoreError(
                f"{self.path!r} is written by the process that opened it, {self._owner}; a ZIP"
                " archive has one writer"
            )

    def set(self, key: str, value: bytes | memoryview) -> None:
        with self.lock:
            self._check_owner()
            self.live.entries[key] = self._append(key, value)
            self.changes += 1
            self._in_order = False

    def erase(self, keys: list[str]) -> None:
        with self.lock:
            self._check_owner()
            gone = [key for key in keys if key in self.live.entries]
            if gone:
                self._append(ERASED, json.dumps(gone).encode())
            for key in gone:
                del self.live.entries[key]
            self.changes += len(gone)  # last: readers list their keys again when this has changed

    def _append(self, name: str, value: bytes | memoryview) -> ZipEntry:
        """Write an entry behind the others, where it is found if this process is killed."""
        file, start = self.live.file, self._end
        entry, data = records.new_entry(name, value, start, deflate=self.deflate)
        header = records.local_header(entry, wide=self.ordered, session=self._mark is None)
        if self._mark is None:
            os.ftruncate(file.descriptor, start)  # what a killed writer did not complete
        if len(data) < _BLOCK:
            file.write(start, b"".join([header, data]))
        else:
            file.write(start, header)
            file.write(start + len(header), data)
        mark = records.session_mark(header)
        if mark is not None:
            self._mark = start + mark[0]
        self._end = start + len(header) + len(data)
        return entry

    def finish(self) -> None:
        """Complete the file if anything has changed."""
        if self._owner != os.getpid():
            return  # a forked child has a copy of what its parent will finish
        with self.lock:
            if self.ordered and not self._in_order and self._is_at_path():
                self.compact()
            else:
                self.flush()

    def flush(self) -> None:
        """Write a directory behind the entries, so that every program can read the file."""
        with self.lock:
            self._check_owner()
            if self.changes == self._saved:
                return
            file, entries = self.live
            directory = self._directory(file, entries, self._end)
            file.write(self._end, directory)
            os.ftruncate(file.descriptor, self._end + len(directory))
            if self._mark is not None:
                file.write(self._mark, b"\0")
            self._end += len(directory)
            self._mark, self._saved = None, self.changes
            if not self._is_at_path():
                raise StoreError(
                    f"{self.path!r} was removed or replaced while this store was writing it; its"
                    " changes are in the file that was there, or lost with it"
                )

    def _directory(self, file: FileBytes, entries: dict[str, ZipEntry], start: int) -> bytes:
        comment, names = self._comment, list(entries)
        if self.ordered:
            names.sort(key=records.metadata_first)
            root = entries.get(records.DOCUMENT)
            comment = records.ome_comment(fetch(file, [(root, None)])[0]) if root else b""
        live = (entries[name] for name in names)
        return records.write_directory(live, start, wide=self.ordered, comment=comment)

    def compact(self) -> None:
        """Write a new file with only the live entries, and replace the old one at the end."""
        with self.lock:
            self._check_owner()
            self.check_file()
            old, live = self.live
            partial = f"{self.path}.__omnizarr_partial__{os.getpid()}"
            new = open_file(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            entries: dict[str, ZipEntry] = {}
            end = 0
            try:
                for name in sorted(live, key=records.metadata_first) if self.ordered else live:
                    entries[name] = records.relocated(live[name], end)
                    end = _copy(old, live[name], new, entries[name], self.ordered)
                directory = self._directory(new, entries, end)
                new.write(end, directory)
                with _lock:  # others find this archive by the old file, or by the new one
                    self.check_file()  # another file must not be replaced
                    os.replace(partial, self.path)
                    self.live = Live(new, entries)
                    _writing[new.number] = self
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(partial)
                raise
            self._end, self._mark, self._in_order = end + len(directory), None, True
            self.changes += 1
            self._saved = self.changes


def _copy(source: FileBytes, entry: ZipEntry, target: FileBytes, copy: ZipEntry, wide: bool) -> int:
    """Copy the compressed bytes of an entry; return the offset behind them."""
    head = source.read(entry.offset, records.LOCAL_SIZE + len(entry.name))
    start = entry.offset + records.data_offset(entry, head)
    header = records.local_header(copy, wide=wide)
    target.write(copy.offset, header)
    at = copy.offset + len(header)
    for done in range(0, entry.packed, _BLOCK):
        length = min(_BLOCK, entry.packed - done)
        part = source.read(start + done, length)
        if len(part) != length:
            raise StoreError(f"the data of {entry} are cut off")
        target.write(at + done, part)
    return at + entry.packed


def writing(path: str) -> Archive | None:
    """Return the archive at a path if this process is writing it."""
    with _lock:
        number = file_number(path)
        found = None if number is None else _writing.get(number)
        # A file that was replaced has its number no more; another file may have got it.
        return found if found is not None and found.live.file.number == number else None
