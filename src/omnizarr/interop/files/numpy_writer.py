"""Write NumPy files: ``.npy`` by parallel tasks into a memory map, ``.npz`` from first to last."""

from __future__ import annotations

import errno
import itertools
import math
import mmap
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnizarr import Array
from omnizarr.bulk.fill import COPIES, TEXT_BYTES, Filled, cast, item_bytes, items_for
from omnizarr.bulk.job import Task, task_id
from omnizarr.errors import CannotExpress
from omnizarr.extension import as_plain
from omnizarr.interop.files.writing import (
    AUTO,
    FileWriter,
    box_total,
    read_cuts,
    slabs,
)

MAPPED = 2**22  # bytes of a file that a task has in memory at a time
PAGE = mmap.PAGESIZE


@dataclass
class NpyWriter(FileWriter):
    """Write one array as a ``.npy`` file."""

    resumable = True

    def check(self) -> None:
        """Raise if the array cannot be written."""
        array = self.one_array(".npy")
        _check_type(array, self.type_of(array))
        self.notes += _attribute_notes(self)

    def prepare(self, file: str) -> None:
        """Make a file of the right size."""
        array = self.arrays[""]
        dtype, shape = self.type_of(array), array.shape
        with open(file, "wb") as opened:
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False,
                      "shape": shape}  # fmt: skip
            _write_header(opened, header)
            size = opened.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
            opened.truncate(size)
            _reserve(opened.fileno(), size)

    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield a task for each box of whole chunks."""
        array, dtype = self.arrays[""], self.type_of(self.arrays[""])
        boxes = itertools.product(*read_cuts(array, self._items)) if array.shape else iter([()])
        for box in boxes:
            sides = tuple((side.start, side.stop) for side in box)
            size = int(np.prod([b - a for a, b in sides], dtype=object)) * item_bytes(dtype)
            yield Task(
                task_id("export", sides), WriteBox(array, file, dtype, sides), size, array.name
            )

    @property
    def _items(self) -> int:
        return items_for(self.memory, self.arrays[""].dtype, COPIES)

    @property
    def count(self) -> int:
        """The number of boxes."""
        return box_total(self.arrays[""], self._items)


def _reserve(file: int, size: int) -> None:
    """Take the space of a file: a full disk would end a process that writes to mapped memory."""
    if hasattr(os, "posix_fallocate"):  # not on macOS and Windows
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as e:
            if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # no such call on a file system
                raise


def _write_header(opened: Any, header: dict[str, Any]) -> None:
    try:
        np.lib.format.write_array_header_1_0(opened, header)
    except (ValueError, UnicodeEncodeError):  # longer than 64 KiB, or names that are not Latin-1
        opened.seek(0)
        np.lib.format.write_array_header_2_0(opened, header)


@dataclass(frozen=True)
class WriteBox:
    """Copy a box of an array into a ``.npy`` file."""

    array: Array
    file: str
    dtype: np.dtype[Any]
    sides: tuple[tuple[int, int], ...]

    def __call__(self) -> Filled:
        box = tuple(slice(*side) for side in self.sides)
        values = cast(as_plain(self.array[box]), self.dtype, self.array.name)
        if values.nbytes:
            mapped = np.lib.format.open_memmap(self.file, "r+")
            everywhere: Any = (*box, ...)  # a view also where the box is one element
            target = mapped[everywhere]
            for part in mapped_parts(values.shape, mapped.shape, values.itemsize):
                target[part] = values[part]
                _unload(mapped)
            mapped.flush()
        return Filled(bytes_read=values.nbytes)


def mapped_parts(
    shape: tuple[int, ...], whole: tuple[int, ...], itemsize: int
) -> Iterator[tuple[slice, ...]]:
    """Yield parts of a box of a file's array, each on pages of at most `MAPPED` bytes together.

    Rows of a box are apart in the file, so that a narrow box is on many more pages than its bytes.
    """
    waiting = [tuple((0, n) for n in shape)]
    while waiting:
        sides = waiting.pop()
        lengths = [stop - start for start, stop in sides]
        longest = next((axis for axis, n in enumerate(lengths) if n > 1), None)
        if longest is None or _page_bytes(lengths, whole, itemsize) <= MAPPED:
            yield tuple(slice(*side) for side in sides)
            continue
        start, stop = sides[longest]
        middle = (start + stop) // 2
        for half in ((middle, stop), (start, middle)):
            waiting.append((*sides[:longest], half, *sides[longest + 1 :]))


def _page_bytes(lengths: list[int], whole: tuple[int, ...], itemsize: int) -> int:
    """Return at most how many bytes the pages have that a box of an array is on."""
    row = itemsize
    for length, full in zip(reversed(lengths), reversed(whole), strict=True):
        row *= length
        if length != full:
            break
    return math.prod(lengths) * itemsize // row * (row + 2 * PAGE)


def _unload(mapped: np.memmap[Any, Any]) -> None:
    """Take the pages of a file out of this process's memory; the system still writes them."""
    opened: Any = mapped._mmap  # type: ignore[attr-defined]  # NumPy has no public name for it
    if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        opened.madvise(mmap.MADV_DONTNEED)


@dataclass
class NpzWriter(FileWriter):
    """Write arrays as a ``.npz`` archive."""

    def check(self) -> None:
        """Leave out arrays that cannot be written; attributes are not part of the format."""
        for path, array in list(self.arrays.items()):
            try:
                _check_type(array, self.type_of(array))
            except CannotExpress as e:
                self.leave_out(path, str(e))
        self.notes += _attribute_notes(self)

    def prepare(self, file: str) -> None:
        """Make an empty file."""
        with open(file, "wb"):
            pass

    def tasks(self, file: str) -> Iterator[Task[Filled]]:
        """Yield one task, which writes all arrays."""
        arrays = {path or "arr_0": array for path, array in self.arrays.items()}
        types = {path or "arr_0": self.type_of(array) for path, array in self.arrays.items()}
        work = WriteArchive(arrays, types, file, self.compression not in (None, AUTO), self.memory)
        yield Task(task_id("export", sorted(arrays)), work, self.size, os.path.basename(file))


@dataclass(frozen=True)
class WriteArchive:
    """Copy arrays into a ``.npz`` file, one after the other."""

    arrays: dict[str, Array]
    types: dict[str, np.dtype[Any]]
    file: str
    compressed: bool
    memory: int

    def __call__(self) -> Filled:
        total = 0
        method = zipfile.ZIP_DEFLATED if self.compressed else zipfile.ZIP_STORED
        with zipfile.ZipFile(self.file, "w", method) as archive:
            for path, array in self.arrays.items():
                dtype = self.types[path]
                with archive.open(f"{path}.npy", "w", force_zip64=True) as member:
                    header = {"descr": np.lib.format.dtype_to_descr(dtype),
                              "fortran_order": False, "shape": array.shape}  # fmt: skip
                    np.lib.format.write_array_header_2_0(member, header)
                    for box in slabs(array, self.memory // COPIES):
                        values = cast(as_plain(array[box]), dtype, array.name)
                        member.write(np.ascontiguousarray(values).tobytes())
                        total += values.nbytes
        return Filled(bytes_read=total)


def _check_type(array: Array, dtype: np.dtype[Any]) -> None:
    if dtype.kind in "TO" or dtype.hasobject:
        raise CannotExpress(
            f"{array.name} has elements of variable length, which NumPy files cannot hold; give a"
            f" type of fixed length, such as 'U{TEXT_BYTES}'"
        )
    if np.dtype(np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))) != dtype:
        raise CannotExpress(f"{array.name} has the type {dtype}, which NumPy files cannot hold")


def _attribute_notes(writer: FileWriter) -> list[str]:
    """Return a note if arrays or groups have attributes."""
    if any(writer.groups.values()) or any(a.attrs for a in writer.arrays.values()):
        return ["NumPy files have no attributes; they are left out"]
    return []
