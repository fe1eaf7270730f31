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
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from omnizarr.concurrency import fork
from omnizarr.concurrency.file_locks import lock_descriptor, unlock_descriptor
from omnizarr.errors import Conflict, StoreError, warn
from omnizarr.model.paths import OURS
from omnizarr.stores.base import Range, Store
from omnizarr.stores.identity import FileNumber, file_number
from omnizarr.stores.operations import get_many
from omnizarr.stores.zip.records import (
    DOCUMENT,
    END,
    END_SIZE,
    LOCAL,
    LOCAL_SIZE,
    STORED,
    TAIL,
    Directory,
    ZipEntry,
    check_method,
    data_offset,
    local_header,
    metadata_first,
    new_entry,
    ome_comment,
    read_directory,
    read_local,
    relocated,
    session_mark,
    unpack,
    write_directory,
)

_BLOCK = 2**20
_HEADER = LOCAL_SIZE + 2 * 0xFFFF

# Archives that this process writes, by device and inode; those without a file yet by their path.
_writing: WeakValueDictionary[FileNumber, Archive] = WeakValueDictionary()
_pending: WeakValueDictionary[str, Archive] = WeakValueDictionary()
_lock = fork.lock()


def open_file(path: str, flags: int = os.O_RDONLY) -> FileBytes | None:
    """Return an open file, or None if there is none; a new one gets its folders too."""
    try:
        if flags & os.O_CREAT:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return FileBytes(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise StoreError(f"cannot open {path!r}: {e.strerror or e}") from e


def load(path: str, file: FileBytes) -> Directory:
    """Return the directory of a file; recover entries, with a warning, if its writer was killed."""
    size = file.size()
    if not size:
        raise StoreError(
            f"{path!r} has no bytes, not even the end of a ZIP archive: it was not transferred, or"
            " its writer was killed at once; fetch it again, or write to it"
        )
    tail = file.read(max(0, size - TAIL), TAIL)
    found = read_directory(repr(path), size, file.read, tail)
    if found is None or (found.shift and file.read(0, 4) == LOCAL):
        return _recover(path, file, size, found)
    return found


def _recover(path: str, file: FileBytes, size: int, inner: Directory | None) -> Directory:
    """Return the complete entries; `inner` may be the directory of a value at the end of a file."""
    last = _last_directory(path, file, size)
    end = last.end if last else 0
    mark = session_mark(file.read(end, _HEADER))
    if mark is None or not mark[1]:
        if inner is not None:
            return inner
        if last is not None and file.read(end, 4) != LOCAL:
            return last  # something else was put behind an archive
        raise StoreError(
            f"{path!r} is not a ZIP archive, or has lost its end, where the directory is"
        )
    entries = dict(last.entries) if last else {}
    while (found := read_local(file.read(end, _HEADER), end)) is not None:
        name, entry, header = found
        if end + header + entry.packed > size:
            break
        try:
            data = unpack(entry, file.read(end + header, entry.packed))
            erased = json.loads(data) if name == ERASED else []
        except (StoreError, ValueError):
            break
        if name == ERASED:
            for each in erased:
                entries.pop(each, None)
        else:
            entries[name] = entry
        end += header + entry.packed
    warn(
        f"{path!r} was not closed: its writer was stopped, or is still writing;"
        f" {len(entries)} entries are complete and were recovered",
    )
    return Directory(entries, end, end, 0, last.comment if last else b"")


def _last_directory(path: str, file: FileBytes, size: int) -> Directory | None:
    """Return the last complete directory in a file, wherever it is."""
    start = size
    while start > 0:
        start = max(0, start - _BLOCK)
        block = file.read(start, _BLOCK + END_SIZE - 1)
        at = block.rfind(END)
        while at >= 0:
            comment = int.from_bytes(block[at + END_SIZE - 2 : at + END_SIZE], "little")
            end = start + at + END_SIZE + comment
            first = max(0, end - TAIL)
            with contextlib.suppress(StoreError):
                found = read_directory(repr(path), end, file.read, file.read(first, end - first))
                if found is not None and found.shift == 0 and end <= size:
                    return found
            at = block.rfind(END, 0, at)
    return None


class Live(NamedTuple):
    """A file and what is in it: replaced together, so that readers need no lock."""

    file: FileBytes | None
    entries: dict[str, ZipEntry]


class Archive:
    """A file that one process writes; all stores of its path share it."""

    def __init__(self, path: str, *, deflate: bool) -> None:
        self.path, self.deflate = os.path.abspath(path), deflate
        self.ordered = path.lower().endswith(".ozx")
        self.live = Live(None, {})
        self.changes = 0
        self.lock = fork.lock()
        self._owner = os.getpid()
        self._end = 0
        self._comment = b""
        self._mark: int | None = None  # where the mark of what was not finished is
        self._saved = 0
        self._in_order = True  # whether the order in the file is that of the directory

    @staticmethod
    def at(path: str, *, mode: str, deflate: bool) -> Archive:
        """Return the archive that this process writes at a path."""
        with _lock:
            archive = _find(path)
            if archive is None or archive._owner != os.getpid():
                archive = Archive(path, deflate=deflate)
                archive._open(mode)
                archive._register()
                return archive
        if mode == "x":
            raise StoreError(f"{path!r} exists already; mode 'w' replaces it")
        if mode == "w":
            archive.erase(list(archive.live.entries))
        return archive

    def _open(self, mode: str) -> None:
        flags = {"w": os.O_CREAT, "x": os.O_CREAT | os.O_EXCL}.get(mode, 0)
        file = open_file(self.path, os.O_RDWR | flags)
        if file is None:
            return
        try:
            self._load(file, mode)
        except BaseException:
            file.close()  # else it would be locked as long as the error is referenced
            raise

    def _load(self, file: FileBytes, mode: str) -> None:
        file.lock(self.path)
        if mode == "w":
            os.ftruncate(file.descriptor, 0)
        size = file.size()
        found = load(self.path, file) if size else Directory({}, 0, 0, 0, b"")
        self.live, self._comment = Live(file, found.entries), found.comment
        self._end = size if found.start < found.end else found.end
        if self._end < size:  # what the killed writer did not complete
            os.ftruncate(file.descriptor, self._end)
            self.changes += 1  # a new directory is due
        if not size:
            self.changes += 1  # also an archive without entries has a directory

    def _register(self) -> None:
        """Let other stores find this archive by the file that it writes."""
        with _lock:
            place = os.path.realpath(self.path)
            if self.live.file is None:
                _pending[place] = self
                return
            if _pending.get(place) is self:  # another file may come in the place of this one
                del _pending[place]
            _writing[self.live.file.number] = self

    def check_file(self) -> None:
        """Raise if another file, or none, is at the path now."""
        if not self._is_at_path():
            raise StoreError(
                f"{self.path!r} was removed or replaced while this store was writing it; nothing"
                " more is written, open the archive again"
            )

    def _is_at_path(self) -> bool:
        file = self.live.file
        return file is None or file_number(self.path) == file.number

    def _complete_moved_file(self, file: FileBytes) -> None:
        """Complete a file that was relocated away, and raise: the changes are not at the path."""
        moved_away = os.fstat(file.descriptor).st_nlink > 0
        if moved_away:
            self._flush(file)
        self._saved = self.changes  # to be reported once
        raise StoreError(
            f"{self.path!r} was removed or replaced while this store was writing it; its changes"
            + (" are in the file that was relocated away" if moved_away else " are lost")
        )

    def check_owner(self) -> None:
        """Raise in a forked child: one process writes an archive."""
        if self._owner != os.getpid():
            raise StoreError(
                f"{self.path!r} is written by the process that opened it, {self._owner}; a ZIP"
                " archive has one writer"
            )

    def set(self, key: str, value: bytes | memoryview) -> None:
        with self.lock:
            self.check_owner()
            self.live.entries[key] = self._append(key, value)
            self.changes += 1
            self._in_order = False

    def _append(self, name: str, value: bytes | memoryview) -> ZipEntry:
        """Write an entry behind the others, where it is found if this process is killed."""
        file = self._file()
        entry, data = new_entry(name, value, self._end, deflate=self.deflate)
        first = self._mark is None
        header = local_header(entry, wide=self.ordered, session=first)
        start, self._end = self._end, self._end + len(header) + len(data)
        try:
            file.write(start, b"".join([header, data]) if len(data) < _BLOCK else header)
            if len(data) >= _BLOCK:
                file.write(start + len(header), data)
        except BaseException:
            self._end = start
            raise
        mark = session_mark(header)
        if mark is not None:
            self._mark = start + mark[0]
        return entry

    def _file(self) -> FileBytes:
        if self.live.file is not None:
            return self.live.file
        with _lock:  # others find this archive by its path before, and by its file after this
            file = open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            if file is None:
                raise StoreError(f"cannot create {self.path!r}")
            file.lock(self.path)
            self.live = Live(file, self.live.entries)
            self._register()
        return file

    def erase(self, keys: list[str]) -> None:
        with self.lock:
            self.check_owner()
            gone = [key for key in keys if key in self.live.entries]
            if gone:
                self._append(ERASED, json.dumps(gone).encode())
                self.changes += len(gone)
            for key in gone:
                del self.live.entries[key]

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
            self.check_owner()
            file = self.live.file
            if file is None or self.changes == self._saved:
                return
            if self._is_at_path():
                self._flush(file)
            else:
                self._complete_moved_file(file)

    def _flush(self, file: FileBytes) -> None:
        changes = self.changes
        directory = self._directory(file, self.live.entries, self._end)
        try:
            file.write(self._end, directory)
            os.ftruncate(file.descriptor, self._end + len(directory))
            if self._mark is not None:
                file.write(self._mark, b"\0")
        except OSError as e:
            raise StoreError(f"cannot write to {self.path!r}: {e.strerror or e}") from e
        self._end += len(directory)
        self._mark = None
        self._saved = changes

    def _directory(self, file: FileBytes, entries: dict[str, ZipEntry], start: int) -> bytes:
        comment = self._comment
        names = list(entries)
        if self.ordered:
            names.sort(key=metadata_first)
            root = entries.get(DOCUMENT)
            comment = ome_comment(fetch(file, [(root, None)])[0]) if root else b""
        live = (entries[name] for name in names)
        return write_directory(live, start, wide=self.ordered, comment=comment)

    def compact(self) -> None:
        """Write a new file with only the live entries, and replace the old one at the end."""
        with self.lock:
            self.check_owner()
            old, live = self.live
            if old is None:
                return
            self.check_file()
            end = 0
            partial = f"{self.path}.__omnizarr_partial__{os.getpid()}"
            new = open_file(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if new is None:
                raise StoreError(f"cannot create {partial!r}")
            entries: dict[str, ZipEntry] = {}
            order = sorted(live, key=metadata_first) if self.ordered else list(live)
            try:
                new.lock(partial)
                for name in order:
                    entries[name] = relocated(live[name], end)
                    end = _copy(old, live[name], new, entries[name], self.ordered)
                directory = self._directory(new, entries, end)
                new.write(end, directory)
                with _lock:  # others find this archive by the old file, or by the new one
                    self.check_file()  # another file must not be replaced
                    os.replace(partial, self.path)
                    self.live = Live(new, entries)
                    self._register()
            except BaseException as e:
                with contextlib.suppress(OSError):
                    os.unlink(partial)
                if isinstance(e, OSError) and not isinstance(e, StoreError):
                    raise StoreError(f"cannot compact {self.path!r}: {e.strerror or e}") from e
                raise
            self._end, self._mark, self._in_order = end + len(directory), None, True
            self.changes += 1
            self._saved = self.changes


def _copy(source: FileBytes, entry: ZipEntry, target: FileBytes, copy: ZipEntry, wide: bool) -> int:
    """Copy the compressed bytes of an entry; return the offset behind them."""
    start = entry.offset + data_offset(
        entry, source.read(entry.offset, LOCAL_SIZE + len(entry.name))
    )
    header = local_header(copy, wide=wide)
    target.write(copy.offset, header)
    at = copy.offset + len(header)
    for done in range(0, entry.packed, _BLOCK):
        part = source.read(start + done, min(_BLOCK, entry.packed - done))
        if len(part) != min(_BLOCK, entry.packed - done):
            raise StoreError(f"the data of {entry} are cut off")
        target.write(at + done, part)
    return at + entry.packed


def writing(path: str) -> Archive | None:
    """Return the archive at a path if this process is writing it."""
    with _lock:
        archive = _find(path)
    return archive if archive is not None and archive.live.file is not None else None


def _find(path: str) -> Archive | None:
    """Return the archive that writes the file at a path, or will create it."""
    number = file_number(path)
    if number is None:
        return _pending.get(os.path.realpath(path))
    found = _writing.get(number)
    # A file that was replaced has its number no more; another file may have got it.
    file = None if found is None else found.live.file
    return found if file is not None and file.number == number else None


_EXTRA = 96  # bytes, at most, that the extra field of a local header usually has
# An entry that no directory has: the names that were erased before the entries behind it were
# written, so that what is recovered is a state that there was.
ERASED = f"{OURS}erased__"
_LARGE = 2**16  # bytes of a value that is cheaper to read alone than to cut from its header


class ByteSource(Protocol):
    """Bytes that are read by offset, cut at the end."""

    def read_many(self, spans: Iterable[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of several ``(start, length)``."""


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
        self._lock = fork.lock()  # for the position of the next write
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

    def lock(self, path: str) -> None:
        """Keep out other writers, also of other processes."""
        try:
            locked = lock_descriptor(self.descriptor)
        except OSError as e:
            raise StoreError(f"cannot lock {path!r}: {e.strerror or e}") from e
        if not locked:
            raise Conflict(
                f"{path!r} is being written by another process; a ZIP archive has one writer"
            )
        self._locked_by = os.getpid()

    def close(self) -> None:
        """Close the file; it cannot be used afterwards."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        with contextlib.suppress(OSError):
            # Forked children may still have the file open.
            if self._locked_by == os.getpid():
                unlock_descriptor(descriptor)
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def fetch(source: ByteSource, wanted: Sequence[tuple[ZipEntry, Range | None]]) -> list[bytes]:
    """Return the values of entries, or parts of them, with at most two batches of reads.

    A whole value is read together with its header; for a part, and for a large value of a local
    file, the header is read first.
    """
    spans, largest = [], _LARGE if isinstance(source, FileBytes) else sys.maxsize
    for entry, range in wanted:
        check_method(entry)
        header = LOCAL_SIZE + len(entry.name) + _EXTRA
        whole = (range is None or entry.method != STORED) and entry.packed <= largest
        spans.append((entry.offset, header + (entry.packed if whole else 0)))
    heads = source.read_many(spans)
    needed = [
        _needed_bytes(entry, range, data_offset(entry, head))
        for (entry, range), head in zip(wanted, heads, strict=True)
    ]
    for i, (start, length) in enumerate(needed):  # in place, so that few bytes are held twice
        heads[i] = heads[i][start : start + length]
    found = heads
    short = [i for i, (_, length) in enumerate(needed) if len(found[i]) < length]
    if short:
        rest = source.read_many([(wanted[i][0].offset + needed[i][0], needed[i][1]) for i in short])
        for i, data in zip(short, rest, strict=True):
            found[i] = data
    return [
        _value(entry, range, data, length)
        for (entry, range), data, (_, length) in zip(wanted, found, needed, strict=True)
    ]


def _needed_bytes(entry: ZipEntry, range: Range | None, start: int) -> tuple[int, int]:
    """Return the offset from the header, and the length, of the bytes that are needed."""
    part = Range(0, entry.packed)
    if range is not None and entry.method == STORED:
        part = range.within(part)
    return start + part.start, part.length or 0


def _value(entry: ZipEntry, range: Range | None, data: bytes, length: int) -> bytes:
    if range is None:
        return unpack(entry, data)
    if entry.method != STORED:
        return range.of(unpack(entry, data))
    if len(data) != length:
        raise StoreError(f"{entry} is cut off: {len(data)} of {length} bytes could be read")
    return data
