"""The records of a ZIP archive: headers of entries, the central directory, and its end.

PKWARE's APPNOTE is the specification. Sizes and offsets of 4 GiB and more are in ZIP64 fields.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from omnizarr.errors import StoreError

LOCAL = b"PK\3\4"
CENTRAL = b"PK\1\2"
END = b"PK\5\6"
END_64 = b"PK\6\6"
LOCATOR_64 = b"PK\6\7"

STORED, DEFLATED = 0, 8
_ENCRYPTED, _SIZES_LATER, _UTF8 = 0x1, 0x8, 0x800
_MAX_RATIO = 1032  # deflate cannot do better

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
LOCAL_SIZE, END_SIZE = _LOCAL.size, _END.size
TAIL = END_SIZE + 0xFFFF + _LOCATOR_64.size + _END_64.size  # all that may follow the directory

_DATE = 0x21  # 1 January 1980: the same content gives the same archive
_MADE_BY = (3 << 8) | 45  # a Unix file of version 4.5, the first with ZIP64
_MODE = 0o100644 << 16
# Extra fields: ZIP64 numbers; a UTF-8 name; the mark of a writer that has not finished.
_ZIP64, _NAME, _SESSION = 0x1, 0x7075, 0x7A4F


class ZipEntry(NamedTuple):
    """The offset, size and compression of the value of a name."""

    name: bytes  # as in the archive
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int  # of the local header
    extra: bytes = b""  # fields of other writers in the directory, kept as they are

    def __str__(self) -> str:
        return repr(self.name.decode("utf-8", "replace"))


class Directory(NamedTuple):
    """The content of an archive; the last of several entries with one name counts."""

    entries: dict[str, ZipEntry]
    end: int  # the first byte after the archive
    shift: int  # bytes in front of the archive
    comment: bytes
    is_complete: bool = True  # else entries were recovered, and a directory has to be written


def read_directory(
    where: str, size: int | None, read: Callable[[int, int], bytes], tail: bytes
) -> Directory | None:
    """Return the directory that ends with `tail`, the last bytes; None if there is none.

    `size` may be unknown if nothing is in front of the archive. `read(start, length)` may be short.
    """
    at = tail.rfind(END)
    while at >= 0:
        if at + END_SIZE <= len(tail):
            _, disk, first_disk, _, count, length, start, comment = _END.unpack_from(tail, at)
            if at + END_SIZE + comment == len(tail):
                break
        at = tail.rfind(END, 0, at)
    else:
        return None
    before = at
    if at >= _LOCATOR_64.size and tail[at - _LOCATOR_64.size :].startswith(LOCATOR_64):
        _, _, offset_64, disks = _LOCATOR_64.unpack_from(tail, at - _LOCATOR_64.size)
        before = at - _LOCATOR_64.size - _END_64.size
        if before < 0 or not tail.startswith(END_64, before):
            raise StoreError(
                f"{where}: the ZIP64 end record is not where the locator says, {offset_64}"
            )
        *_, disk, first_disk, _, count, length, start = _END_64.unpack_from(tail, before)
        disk = max(disk, disks - 1)
    if disk or first_disk:
        raise StoreError(f"{where} is one part of an archive in several files; join them first")
    shift = 0 if size is None else size - len(tail) + before - length - start
    if shift < 0:
        raise StoreError(f"{where}: a directory of {length} bytes at {start} is not possible")
    data = tail[before - length : before] if length <= before else read(start + shift, length)
    if len(data) != length:
        raise StoreError(f"{where}: {len(data)} of the {length} bytes of its directory are there")
    end = start + shift + length + (len(tail) - before)
    entries = _read_entries(where, data, count, start, shift)
    return Directory(entries, end, shift, tail[at + END_SIZE :])


def _read_entries(
    where: str, data: bytes, count: int, start: int, shift: int
) -> dict[str, ZipEntry]:
    entries: dict[str, ZipEntry] = {}
    at = number = 0
    while at + _CENTRAL.size <= len(data):
        (sign, _, _, flags, method, _, _, crc, packed, size, n, e, c, disk, _, _, offset) = (
            _CENTRAL.unpack_from(data, at)
        )
        if sign != CENTRAL:
            break
        name = data[at + _CENTRAL.size : at + _CENTRAL.size + n]
        extra = data[at + _CENTRAL.size + n : at + _CENTRAL.size + n + e]
        at += _CENTRAL.size + n + e + c
        if at > len(data):
            break
        number += 1
        if 0xFFFFFFFF in (packed, size, offset):
            size, packed, offset = _wide(where, extra, size, packed, offset)
        if disk not in (0, 0xFFFF) or offset + LOCAL_SIZE + n + packed > start:
            raise StoreError(f"{where}: entry {name!r} is outside of the archive")
        kept = b"".join(struct.pack("<2H", k, len(f)) + f for k, f in _extras(extra) if k != _ZIP64)
        entry = ZipEntry(name, flags, method, crc, packed, size, offset + shift, kept)
        entries[_text(name, flags, extra)] = entry
    if at != len(data) or number & 0xFFFF != count & 0xFFFF:
        raise StoreError(f"{where}: the directory is damaged after {number} of {count} entries")
    return entries


def _wide(where: str, extra: bytes, *numbers: int) -> list[int]:
    """Return the numbers; 0xFFFFFFFF stands for the next number of the ZIP64 field."""
    field = dict(_extras(extra)).get(_ZIP64, b"")
    wide = list(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
    try:
        return [wide.pop(0) if number == 0xFFFFFFFF else number for number in numbers]
    except IndexError:
        raise StoreError(f"{where}: a ZIP64 field is too short") from None


def _extras(extra: bytes) -> Iterable[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length


def _text(name: bytes, flags: int, extra: bytes) -> str:
    if not flags & _UTF8 and not name.isascii():
        for kind, field in _extras(extra):
            if kind == _NAME and field[1:5] == struct.pack("<I", zlib.crc32(name)):
                return field[5:].decode("utf-8", "surrogateescape")
        return name.decode("cp437")
    return name.decode("utf-8", "surrogateescape")


def data_offset(entry: ZipEntry, header: bytes) -> int:
    """Return the offset of the data after the local header, which must match the entry."""
    if len(header) < LOCAL_SIZE + len(entry.name):
        raise StoreError(f"entry {entry} is cut off: its header is not complete")
    sign, _, _, method, _, _, _, _, _, n, e = _LOCAL.unpack_from(header)
    name = header[LOCAL_SIZE : LOCAL_SIZE + n]
    if sign != LOCAL or method != entry.method or name != entry.name:
        raise StoreError(f"entry {entry} does not agree with the header at its offset")
    return int(LOCAL_SIZE + n + e)


def unpack(entry: ZipEntry, data: bytes) -> bytes:
    """Return the value of an entry from its compressed bytes, with its checksum verified."""
    if entry.method == DEFLATED:
        if entry.size > _MAX_RATIO * (entry.packed + 1):
            raise StoreError(f"{entry.packed} bytes of {entry} cannot hold {entry.size}")
        inflate = zlib.decompressobj(-15)
        try:
            data = inflate.decompress(data, entry.size + 1)
        except zlib.error as e:
            raise StoreError(f"{entry} cannot be unpacked: {e}") from e
    if len(data) != entry.size:
        raise StoreError(f"{entry} does not have the {entry.size} bytes that the directory says")
    if zlib.crc32(data) != entry.crc:
        raise StoreError(f"the checksum of {entry} is wrong: it is damaged")
    return data


def check_method(entry: ZipEntry) -> None:
    """Raise if the compression method of an entry is not supported."""
    if entry.flags & _ENCRYPTED:
        raise StoreError(f"{entry} is encrypted; unpack the archive with its password first")
    if entry.method not in (STORED, DEFLATED):
        raise StoreError(f"{entry} is packed with method {entry.method}, not stored or deflated")


def new_entry(
    name: str, value: bytes | memoryview, offset: int, *, deflate: bool
) -> tuple[ZipEntry, bytes | memoryview]:
    """Return a new entry at an offset, and its compressed bytes."""
    data: bytes | memoryview = value
    if deflate:
        pack = zlib.compressobj(-1, zlib.DEFLATED, -15)
        data = pack.compress(value) + pack.flush()
    raw = name.encode()
    flags = 0 if raw.isascii() else _UTF8
    method = DEFLATED if deflate else STORED
    return ZipEntry(raw, flags, method, zlib.crc32(value), len(data), len(value), offset), data


def relocated(entry: ZipEntry, offset: int) -> ZipEntry:
    """Return the entry at another offset, with its sizes in its header."""
    return entry._replace(offset=offset, flags=entry.flags & ~_SIZES_LATER)


def local_header(entry: ZipEntry, *, wide: bool, session: bool = False) -> bytes:
    """Return the header in front of the data; `session` marks that the writer has not finished."""
    wide = wide or max(entry.size, entry.packed) >= 0xFFFFFFFF
    extra = struct.pack("<2HB", _SESSION, 1, 1) if session else b""
    if wide:
        extra += struct.pack("<2H2Q", _ZIP64, 16, entry.size, entry.packed)
    sizes = (0xFFFFFFFF, 0xFFFFFFFF) if wide else (entry.packed, entry.size)
    fields = (45 if wide else 20, entry.flags, entry.method, 0, _DATE, entry.crc, *sizes)
    head = _LOCAL.pack(LOCAL, *fields, len(entry.name), len(extra))
    return head + entry.name + extra


def session_mark(header: bytes) -> tuple[int, bool] | None:
    """Return the offset of the session mark in a local header, and True if it is still set."""
    if len(header) < LOCAL_SIZE or not header.startswith(LOCAL):
        return None
    at = LOCAL_SIZE + struct.unpack_from("<H", header, 26)[0]
    if len(header) < at + 5 or header[at : at + 4] != struct.pack("<2H", _SESSION, 1):
        return None
    return at + 4, header[at + 4] == 1


def read_local(header: bytes, offset: int) -> tuple[str, ZipEntry, int] | None:
    """Return the name, the entry and the length of a local header with known sizes, or None."""
    if len(header) < LOCAL_SIZE or not header.startswith(LOCAL):
        return None
    _, _, flags, method, _, _, crc, packed, size, n, e = _LOCAL.unpack_from(header)
    length = LOCAL_SIZE + n + e
    if len(header) < length or flags & _SIZES_LATER:
        return None
    name, extra = header[LOCAL_SIZE : LOCAL_SIZE + n], header[LOCAL_SIZE + n : length]
    if 0xFFFFFFFF in (packed, size):
        size, packed = _wide("local header", extra, size, packed)
    entry = ZipEntry(name, flags, method, crc, packed, size, offset)
    return _text(name, flags, extra), entry, length


def write_directory(
    entries: Iterable[ZipEntry], start: int, *, wide: bool, comment: bytes
) -> bytes:
    """Return the central directory and its end record, to be stored at `start`."""
    parts = [_central(entry, wide) for entry in entries]
    data, count = b"".join(parts), len(parts)
    end = start + len(data)
    wide = wide or count >= 0xFFFF or end >= 0xFFFFFFFF
    numbers = (count, count, len(data), start)
    tail = b""
    if wide:
        tail = _END_64.pack(END_64, _END_64.size - 12, _MADE_BY, 45, 0, 0, *numbers)
        tail += _LOCATOR_64.pack(LOCATOR_64, 0, end, 1)
    short = [
        min(n, m) for n, m in zip(numbers, (0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1), strict=True)
    ]
    return data + tail + _END.pack(END, 0, 0, *short, len(comment)) + comment


def _central(entry: ZipEntry, wide: bool) -> bytes:
    numbers = [entry.size, entry.packed, entry.offset]
    large = [n for n in numbers if wide or n >= 0xFFFFFFFF]
    size, packed, offset = (0xFFFFFFFF if wide or n >= 0xFFFFFFFF else n for n in numbers)
    extra = struct.pack(f"<2H{len(large)}Q", _ZIP64, 8 * len(large), *large) if large else b""
    extra += entry.extra
    fields = (entry.flags, entry.method, 0, _DATE, entry.crc, packed, size)
    lengths = (len(entry.name), len(extra), 0, 0, 0)
    needs = 45 if large else 20
    head = _CENTRAL.pack(CENTRAL, _MADE_BY, needs, *fields, *lengths, _MODE, offset)
    return head + entry.name + extra


DOCUMENT = "zarr.json"  # the name by which RFC-9 orders the entries of a single-file OME-Zarr


def ome_comment(root_metadata: bytes) -> bytes:
    """Return the comment of a single-file OME-Zarr (RFC-9); empty if the root has no version."""
    try:
        version = json.loads(root_metadata)["attributes"]["ome"]["version"]
    except (ValueError, KeyError, TypeError):
        return b""
    order = {"centralDirectory": {"jsonFirst": True}}
    return json.dumps({"ome": {"version": version, "zipFile": order}}).encode()


def metadata_first(name: str) -> tuple[bool, int, str]:
    """Return the sort key of a single-file OME-Zarr: metadata breadth-first, then the rest."""
    is_metadata = name.rpartition("/")[2] == DOCUMENT
    return (not is_metadata, name.count("/") if is_metadata else 0, name)
