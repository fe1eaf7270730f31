"""The contents of a file of another format, and how the format of a file is found.

A reader lists what a file holds: groups and arrays by path, with attributes and dimension names,
and what Zarr cannot hold, with the reason. Values are read later, box by box, in any thread or
process; so what reads them is a small object that can be pickled and opens the file itself.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from omnizarr import registry
from omnizarr.bulk.tiles import Box
from omnizarr.bulk.transfer import Source
from omnizarr.errors import CannotExpress, InvalidArgument, NodeNotFound, known_names
from omnizarr.extension import DEFAULT_FILL, Patterns

__all__ = ["ArrayEntry", "Box", "Contents", "ImageEntry", "Source", "detect", "read_contents"]
HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class ImageEntry:
    """The description of an image: axes in the order of the array, pixel sizes, channels."""

    axes: str
    scale: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[Any, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class ArrayEntry:
    """One array in a file."""

    values: Source
    shape: tuple[int, ...]
    dtype: Any
    chunks: tuple[int, ...] | None = None  # those of the file, if it has any
    fill_value: Any = DEFAULT_FILL
    missing: Any = None  # the value of the CF attribute `_FillValue`
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    stated_axes: str | None = None  # a letter for each axis of a TIFF file; q if it does not say
    image: ImageEntry | None = None
    as_image: ArrayEntry | None = None  # the same values in the order of an image, if asked for
    whole: bool = False  # True if any box costs reading all values


@dataclass(frozen=True)
class Contents:
    """The arrays, and the attributes of the groups, of a file by path; the root has the path ""."""

    arrays: dict[str, ArrayEntry] = field(default_factory=dict)
    groups: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # what is left out, and why
    # Of those, what could be read with a package that is not installed.
    uninstalled: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # decisions that users may want to know


READERS = {
    "numpy": "omnizarr.interop.files.contents:numpy_contents",
    "npz": "omnizarr.interop.files.contents:archive_contents",
    "hdf5": "omnizarr.interop.files.hdf5:contents",
    "tiff": "omnizarr.interop.files.tiff:contents",
}
SUFFIXES = {
    **{".npy": "numpy", ".npz": "npz"},
    **dict.fromkeys((".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".cdf"), "hdf5"),
    **dict.fromkeys((".tif", ".tiff", ".btf", ".tf8"), "tiff"),
}
NAMES = {"numpy": "NumPy", "npz": "NumPy archive", "hdf5": "HDF5 or NetCDF4", "tiff": "TIFF"}
_MAGIC = {
    **{b"\x93NUMPY": "numpy", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", HDF5: "hdf5"},
    **dict.fromkeys((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"), "tiff"),
}


def required(package: str, extra: str) -> Any:
    """Return a package that files of a format need; raise if it is not installed."""
    needed = f"such files need {package}: pip install 'omnizarr[{extra}]'"
    return registry.load_optional(package, needed)


def read_contents(file: str) -> Contents:
    """Return what a file holds, whichever format it has."""
    reader: Callable[[str], Contents] = registry.load(READERS[detect(file)])
    return reader(file)


def detect(file: str) -> str:
    """Return the name of a file's format, found by its first bytes; raise if it is unknown."""
    if os.path.isdir(file):
        raise InvalidArgument(
            f"{file!r} is a directory; give files to import, and use copy or convert for Zarr"
        )
    try:
        with open(file, "rb") as opened:
            head = opened.read(8)
    except FileNotFoundError:
        raise NodeNotFound(f"there is no file {file!r}") from None
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if found is not None:
        return found
    if _has_user_block(file):
        return "hdf5"
    if not head:
        raise InvalidArgument(f"{file!r} is empty; nothing was imported")
    if head.startswith(b"CDF"):
        raise InvalidArgument(
            f"{file!r} is a NetCDF file of the classic format, which is not HDF5;"
            " convert it first: nccopy -k nc4 OLD NEW"
        )
    stated = SUFFIXES.get(os.path.splitext(file)[1].lower())
    what = f"is not a {NAMES[stated]} file, as its name says" if stated else "has an unknown format"
    raise InvalidArgument(
        f"{file!r} {what}: it begins with {head[:8]!r}; known are HDF5, NetCDF4, TIFF, .npy, .npz"
    )


def _has_user_block(file: str) -> bool:
    """Return True if the HDF5 data begin after a user block of 512, 1024, … bytes."""
    size, place = os.path.getsize(file), 512
    with open(file, "rb") as opened:
        while place < size and place <= 2**30:
            opened.seek(place)
            if opened.read(8) == HDF5:
                return True
            place *= 2
    return False


def format_of_name(file: str) -> str:
    """Return the format that the name of a file to be written asks for."""
    lower = os.path.basename(file).lower()
    if lower.endswith((".ome.tif", ".ome.tiff")):
        return "ome-tiff"
    suffix = os.path.splitext(lower)[1]
    found = {".nc": "netcdf", ".nc4": "netcdf", ".cdf": "netcdf"}.get(suffix, SUFFIXES.get(suffix))
    if found is None:
        known = (".nc", ".h5", ".tif", ".ome.tif")
        raise InvalidArgument(
            f"the name {file!r} does not say which format to write; {known_names(suffix, known)}"
        )
    return found


def raise_if_skipped(skipped: Mapping[str, str], verb: str) -> None:
    """Raise with a list of what would be left out."""
    if skipped:
        lines = "".join(f"\n  - {k}: {v}" for k, v in skipped.items())
        raise CannotExpress(f"{len(skipped)} parts cannot be {verb}:{lines}")


def is_below_any(path: str, patterns: Iterable[str]) -> bool:
    """Return True if a path, or a group above it, matches one of some patterns."""
    return Patterns.of(patterns).match_node(path)


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type in the byte order of the machine, so that stored types do not depend on it."""
    return dtype.newbyteorder("=")


def fingerprint(file: str) -> tuple[str, int, int]:
    """Return what identifies the state of a file: its full path, size and time of change."""
    status = os.stat(file)
    return os.path.abspath(file), status.st_size, status.st_mtime_ns


# NumPy files: ``.npy``, one array, which is mapped into memory, and ``.npz``, a ZIP archive of
# named arrays, which are read whole, as `numpy.load` does.

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class NumpyValues:
    """The array of a file, or one of an archive."""

    file: str
    member: str | None = None

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the values in a box."""
        try:
            if self.member is None:
                return np.array(np.load(self.file, mmap_mode="r", allow_pickle=False)[box])
            with np.load(self.file, allow_pickle=False) as archive:
                return np.asarray(archive[self.member])[box]
        except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as e:
            raise _damaged(self.file, f"member {self.member!r}: {e}") from e


def numpy_contents(file: str) -> Contents:
    """Return the array of a ``.npy`` file."""
    with open(file, "rb") as opened:
        shape, dtype, end = _read_header(opened, file)
    missing = end - os.path.getsize(file)
    if missing > 0:
        raise _damaged(file, f"it ends {missing} bytes early")
    return Contents(arrays={"": ArrayEntry(NumpyValues(file), shape, native(dtype))})


def archive_contents(file: str) -> Contents:
    """Return the arrays of a ``.npz`` file; other members are left out."""
    found = Contents(groups={"": {}})
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                name = member.filename
                path = "/".join(p for p in name.removesuffix(".npy").split("/") if p)
                if not name.endswith(".npy"):
                    found.skipped[name] = "it is not a NumPy array"
                elif not path or {".", ".."} & {*path.split("/")}:
                    found.skipped[name] = "it has no name that a Zarr array can have"
                else:
                    _add_member(file, archive, member, path, found)
    except (zipfile.BadZipFile, EOFError, zlib.error) as e:
        raise _damaged(file, str(e)) from e
    if not found.arrays:
        raise InvalidArgument(f"{file!r} is a ZIP archive without NumPy arrays")
    return found


def _add_member(
    file: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str, found: Contents
) -> None:
    name = member.filename
    try:
        with archive.open(member) as opened:
            shape, dtype, end = _read_header(opened, f"{file}:{name}")
    except InvalidArgument as e:
        found.skipped[name] = str(e)
        return
    if end != member.file_size:
        size = member.file_size
        raise _damaged(file, f"member {name!r} has {size} bytes, not those of its shape")
    found.arrays[path] = ArrayEntry(NumpyValues(file, name), shape, native(dtype), whole=True)


def _read_header(opened: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape, the type and the length of an array in an open file."""
    try:
        version = np.lib.format.read_magic(opened)
        if version not in _HEADERS:
            raise ValueError(f"unknown version {version}")
        shape, _, dtype = _HEADERS[version](opened)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError) as e:
        raise _damaged(name, str(e)) from e
    if dtype.hasobject:  # reading them runs code
        raise InvalidArgument(
            f"{name!r} holds Python objects, and reading them could run code in the file;"
            " save the array with a plain type first"
        )
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return tuple(map(int, shape)), dtype, opened.tell() + size


def _damaged(file: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{file!r} is damaged or no NumPy file: {reason}")
