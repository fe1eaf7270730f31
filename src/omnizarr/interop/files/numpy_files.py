"""NumPy files: ``.npy``, one array, and ``.npz``, a ZIP archive of named arrays.

Specification: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

Arrays of Python objects are refused: reading them runs code in the file. Members of an archive that
are not compressed are mapped into memory; compressed ones are read from the first to the last byte.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
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
class Header:
    """The header of an array, and the place of its first byte."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int  # of the header

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


@dataclass(frozen=True)
class MappedValues:
    """Values that lie in a file as they are in memory."""

    file: str
    header: Header
    offset: int

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box."""
        shape = self.header.shape
        if 0 in shape or not self.header.dtype.itemsize:
            return np.zeros([len(range(*b.indices(n))) for b, n in zip(box, shape, strict=True)],
                            self.header.dtype)  # fmt: skip
        order: Any = "F" if self.header.fortran else "C"
        mapped = np.memmap(self.file, self.header.dtype, "r", self.offset, shape, order)
        return np.array(mapped[box])


@dataclass(frozen=True)
class CompressedValues:
    """A compressed member of an archive, which is read from the first to the last byte."""

    file: str
    member: str
    header: Header

    @property
    def axis(self) -> int:
        """The axis along which the values follow each other."""
        return len(self.header.shape) - 1 if self.header.fortran else 0

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box, after reading all that come before it."""
        shape, axis = self.header.shape, self.axis
        if not shape:
            return next(self.scan(1))
        start, stop, _ = box[axis].indices(shape[axis])
        inside = (*box[:axis], slice(None), *box[axis + 1 :])
        found = next(self._blocks(stop - start, start), None)
        return np.zeros(0, self.header.dtype) if found is None else found[inside]

    def scan(self, step: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the values in blocks of `step` elements along the axis, the last one shorter."""
        return self._blocks(step, 0)

    def _blocks(self, step: int, start: int) -> Iterator[npt.NDArray[Any]]:
        shape = self.header.shape[::-1] if self.header.fortran else self.header.shape
        inner = shape[1:]
        row = int(np.prod(inner, dtype=object)) * self.header.dtype.itemsize
        with zipfile.ZipFile(self.file) as archive, archive.open(self.member) as opened:
            opened.seek(self.header.size + start * row)
            if not shape:
                yield self._block(opened, (), self.header.dtype.itemsize)
                return
            for at in range(start, shape[0], max(1, step)):
                count = min(max(1, step), shape[0] - at)
                found = self._block(opened, (count, *inner), count * row)
                yield found.T if self.header.fortran else found

    def _block(self, opened: IO[bytes], shape: tuple[int, ...], size: int) -> npt.NDArray[Any]:
        try:
            data = opened.read(size)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as e:
            raise _damaged(self.file, f"member {self.member!r}: {e}") from e
        if len(data) != size:
            raise _damaged(self.file, f"member {self.member!r} ends early")
        return np.frombuffer(data, self.header.dtype).reshape(shape)


def contents(file: str) -> Contents:
    """Return the array of a ``.npy`` file."""
    with open(file, "rb") as opened:
        header = read_header(opened, file)
    missing = header.size + header.nbytes - os.path.getsize(file)
    if missing > 0:
        raise _damaged(file, f"it ends {missing} bytes early")
    return Contents(arrays={"": _entry(header, MappedValues(file, header, header.size))})


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
    if not name.endswith(".npy"):
        found.skipped[name] = "it is not a NumPy array"
        return
    with archive.open(member) as opened:
        try:
            header = read_header(opened, f"{file}:{name}")
        except InvalidArgument as e:
            found.skipped[name] = str(e)
            return
    if header.size + header.nbytes != member.file_size:
        raise _damaged(
            file, f"member {name!r} has {member.file_size} bytes, not those of its shape"
        )
    path = "/".join(p for p in name.removesuffix(".npy").split("/") if p)
    if not path or any(p in (".", "..") for p in path.split("/")):
        found.skipped[name] = "it has no name that a Zarr array can have"
        return
    values: Any = CompressedValues(file, name, header)
    if member.compress_type == zipfile.ZIP_STORED:
        values = MappedValues(file, header, _data_offset(file, member) + header.size)
    found.arrays[path] = _entry(header, values)


def _data_offset(file: str, member: zipfile.ZipInfo) -> int:
    """Return the place of a member's first byte, which only its own header in the file tells."""
    with open(file, "rb") as opened:
        opened.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", opened.read(4))
    return int(member.header_offset + 30 + name + extra)


def _entry(header: Header, values: Any) -> ArrayEntry:
    return ArrayEntry(values, header.shape, native(header.dtype))


def read_header(opened: IO[bytes], name: str) -> Header:
    """Return the header of an array in an open file."""
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
    return Header(tuple(map(int, shape)), bool(fortran), dtype, opened.tell())


def _damaged(file: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{file!r} is damaged or no NumPy file: {reason}")
