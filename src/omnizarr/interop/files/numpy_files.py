"""NumPy files: ``.npy``, one array, and ``.npz``, a ZIP archive of named arrays.

Specification: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

Arrays of Python objects are refused: reading them runs code in the file. Compressed members of an
archive are read whole, as `numpy.load` does; all others are mapped into memory.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidArgument
from omnizarr.interop.files.contents import ArrayEntry, Box, Contents, native

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class MappedValues:
    """Values that lie in a file as they are in memory."""

    file: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.offset + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box."""
        if self.end == self.offset:
            return np.zeros(self.shape, self.dtype)[box]
        order: Any = "F" if self.fortran else "C"
        return np.array(np.memmap(self.file, self.dtype, "r", self.offset, self.shape, order)[box])


@dataclass(frozen=True)
class CompressedValues:
    """A compressed member of an archive."""

    file: str
    member: str

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box, after reading all of them."""
        try:
            with np.load(self.file, allow_pickle=False) as archive:
                return np.asarray(archive[self.member])[box]
        except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as e:
            raise _damaged(self.file, f"member {self.member!r}: {e}") from e


def contents(file: str) -> Contents:
    """Return the array of a ``.npy`` file."""
    with open(file, "rb") as opened:
        values = _read_header(opened, file, file)
    missing = values.end - os.path.getsize(file)
    if missing > 0:
        raise _damaged(file, f"it ends {missing} bytes early")
    return Contents(arrays={"": ArrayEntry(values, values.shape, native(values.dtype))})


def archive_contents(file: str) -> Contents:
    """Return the arrays of a ``.npz`` file; other members are left out."""
    found = Contents(groups={"": {}})
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                _add_member(file, archive, member, found)
    except (zipfile.BadZipFile, EOFError, zlib.error) as e:
        raise _damaged(file, str(e)) from e
    if not found.arrays:
        raise InvalidArgument(f"{file!r} is a ZIP archive without NumPy arrays")
    return found


def _add_member(
    file: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, found: Contents
) -> None:
    name = member.filename
    path = "/".join(p for p in name.removesuffix(".npy").split("/") if p)
    if not name.endswith(".npy"):
        found.skipped[name] = "it is not a NumPy array"
        return
    if not path or any(p in (".", "..") for p in path.split("/")):
        found.skipped[name] = "it has no name that a Zarr array can have"
        return
    with archive.open(member) as opened:
        try:
            inner = _read_header(opened, file, f"{file}:{name}")
        except InvalidArgument as e:
            found.skipped[name] = str(e)
            return
    if inner.end != member.file_size:
        raise _damaged(
            file, f"member {name!r} has {member.file_size} bytes, not those of its shape"
        )
    shape, dtype = inner.shape, native(inner.dtype)
    if member.compress_type == zipfile.ZIP_STORED:
        start = _data_offset(file, member) + inner.offset
        values = MappedValues(file, inner.dtype, shape, inner.fortran, start)
        found.arrays[path] = ArrayEntry(values, shape, dtype)
    else:
        found.arrays[path] = ArrayEntry(CompressedValues(file, name), shape, dtype, whole=True)


def _data_offset(file: str, member: zipfile.ZipInfo) -> int:
    """Return the offset of a member's first byte, which only its own header in the file tells."""
    with open(file, "rb") as opened:
        opened.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", opened.read(4))
    return int(member.header_offset + 30 + name + extra)


def _read_header(opened: IO[bytes], file: str, name: str) -> MappedValues:
    """Return what the header in an open file says; the offset is the length of the header."""
    try:
        version = np.lib.format.read_magic(opened)
        if version not in _HEADERS:
            raise ValueError(f"unknown version {version}")
        shape, fortran, dtype = _HEADERS[version](opened)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError) as e:
        raise _damaged(name, str(e)) from e
    if dtype.hasobject:
        raise InvalidArgument(
            f"{name!r} holds Python objects, and reading them could run code in the file;"
            " save the array with a plain type first"
        )
    return MappedValues(file, dtype, tuple(map(int, shape)), bool(fortran), opened.tell())


def _damaged(file: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{file!r} is damaged or no NumPy file: {reason}")
