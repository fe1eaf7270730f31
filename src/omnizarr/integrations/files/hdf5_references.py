"""References to the chunks of HDF5 and NetCDF4 files.

Chunks are referred to as they are stored, so their filters have to be codecs that readers of
references know: deflate, shuffle, fletcher32, Zstandard, bzip2 and Blosc. Where HDF5 has left out a
filter for all chunks of a dataset, as it does if compression gains nothing, the array has none;
where for some, these chunks are encoded again and stored in the references.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numcodecs
import numpy as np

from omnizarr.errors import StoreError
from omnizarr.integrations.files.contents import ArrayEntry
from omnizarr.integrations.files.hdf5 import contents, open_file, reading
from omnizarr.integrations.files.references import (
    ReferenceWriter,
    Unreferable,
    stored_dtype,
    stored_fill,
)

_PIECE = 2**24  # bytes of the parts into which contiguous datasets are divided
_MAX_PIECES = 10_000
_FILTERS: dict[int, Callable[[tuple[int, ...]], dict[str, Any]]] = {
    1: lambda given: {"id": "zlib", "level": given[0] if given else 1},
    2: lambda given: {"id": "shuffle", "elementsize": given[0] if given else 1},
    3: lambda given: {"id": "fletcher32"},
    307: lambda given: {"id": "bz2", "level": given[0] if given else 9},
    32001: lambda given: {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    32015: lambda given: {"id": "zstd", "level": given[0] if given else 3},
}


@dataclass(frozen=True)
class _Chunk:
    """A chunk in the file."""

    coords: tuple[int, ...]
    skipped: int  # bits of filters that were not applied
    offset: int
    size: int


def add_arrays(file: str, writer: ReferenceWriter) -> None:
    """Add the groups and arrays of a file."""
    found = contents(file)
    for path, reason in found.skipped.items():
        writer.skip(path, reason)
    for path, attributes in found.groups.items():
        writer.add_group(path, attributes)
    with open_file(file) as opened, reading(file, "the places of chunks"), open(file, "rb") as raw:
        for path, entry in found.arrays.items():
            dataset = opened[entry.values.path]  # type: ignore[attr-defined]  # of this format
            try:
                _add_array(path, entry, dataset, raw, writer)
            except Unreferable as e:
                _copy(path, entry, dataset, str(e), writer)


def _copy(path: str, entry: ArrayEntry, dataset: Any, reason: str, writer: ReferenceWriter) -> None:
    """Store a small array in the references, and leave out a larger one."""
    if dataset.size * max(1, dataset.dtype.itemsize) > writer.inline:
        writer.skip(path, f"{reason}, and it is larger than {writer.inline} bytes")
        return
    values = entry.values.read(tuple(slice(0, n) for n in entry.shape))
    writer.add_copy(
        path, values, _attributes(entry, False), entry.dimension_names, entry.fill_value
    )


def _add_array(
    path: str, entry: ArrayEntry, dataset: Any, raw: Any, writer: ReferenceWriter
) -> None:
    dtype = _dtype(dataset)
    inner = dtype.subdtype[1] if dtype.subdtype is not None else ()
    base = dtype.base if dtype.subdtype is not None else dtype
    document: dict[str, Any] = {"shape": list(entry.shape), "dtype": stored_dtype(base)}
    chunks = _chunks(dataset, raw)
    if dataset.chunks is None:
        pieces = _pieces(dataset, chunks)
        document["chunks"] = [max(1, n) for n in (*pieces[0], *inner)]
        places = pieces[1]
        complete = bool(chunks) or not dataset.size
    else:
        document["chunks"] = [*dataset.chunks, *inner]
        filters = _codecs(dataset, chunks)
        if filters:
            document |= {"filters": filters[:-1] or None, "compressor": filters[-1]}
        places = chunks
        grid = [-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)]
        complete = len(chunks) == math.prod(grid)
    fill, attributes = _fill(entry, dataset, base, complete)
    values = {} if dataset.chunks is None else _recoded(dataset, chunks, raw, writer.inline)
    writer.add_array(path, {**document, "fill_value": fill}, attributes, entry.dimension_names)
    for chunk in places:
        coords = (*chunk.coords, *(0 for _ in inner))
        if chunk.coords in values:
            writer.add_value(path, coords, values[chunk.coords])
        else:
            writer.add_target(path, coords, chunk.offset, chunk.size)


def _dtype(dataset: Any) -> np.dtype[Any]:
    """Return the type of the stored bytes, which has to be one that NumPy has."""
    if dataset.is_virtual:
        raise Unreferable("it is a virtual dataset, made of others")
    if dataset.external:
        raise Unreferable("its values are in another file")
    dtype: np.dtype[Any] = dataset.dtype
    kind = dataset.id.get_type()
    if dtype.hasobject:
        raise Unreferable("its elements have a variable length")
    if kind.get_size() != dtype.itemsize:
        raise Unreferable("its elements are stored in a type that NumPy does not have")
    _check_type(kind)
    string = h5py.check_string_dtype(dtype)
    return np.dtype(f"S{string.length}") if string is not None else _without_metadata(dtype)


def _check_type(kind: Any) -> None:
    """Raise if the bytes of a type do not mean the same in memory."""
    if isinstance(kind, h5py.h5t.TypeStringID):
        if kind.get_strpad() != h5py.h5t.STR_NULLPAD and kind.get_size() > 1:
            raise Unreferable("its text is padded with spaces, or ends at a zero byte")
    elif isinstance(kind, h5py.h5t.TypeArrayID | h5py.h5t.TypeEnumID):
        _check_type(kind.get_super())
    elif isinstance(kind, h5py.h5t.TypeCompoundID):
        for i in range(kind.get_nmembers()):
            _check_type(kind.get_member_type(i))
    elif isinstance(kind, h5py.h5t.TypeIntegerID | h5py.h5t.TypeBitfieldID):
        if kind.get_precision() != 8 * kind.get_size() or kind.get_offset():
            raise Unreferable("its integers do not use all bits of their bytes")
    elif isinstance(kind, h5py.h5t.TypeFloatID):
        known = [h5py.h5t.py_create(np.dtype(f"{o}f{kind.get_size()}")) for o in "<>"]
        if kind.get_size() not in (2, 4, 8) or kind not in known:
            raise Unreferable("its numbers are not of IEEE 754")


def _without_metadata(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type without what h5py has noted in it, such as the names of an enumeration."""
    if dtype.subdtype is not None:
        return np.dtype((_without_metadata(dtype.base), dtype.shape))
    return dtype if dtype.names is not None else np.dtype(dtype.str)


def _chunks(dataset: Any, raw: Any) -> list[_Chunk]:
    """Return the chunks that are stored; a contiguous dataset is one. Check one of them."""
    if not dataset.size:
        return []
    if dataset.chunks is None:
        plist = dataset.id.get_create_plist()
        if plist.get_layout() == h5py.h5d.COMPACT:
            raise Unreferable("its values are in the header of the dataset")
        offset = dataset.id.get_offset()
        if offset is None:
            return []
        found = [_Chunk((0,) * dataset.ndim, 0, offset, dataset.id.get_storage_size())]
        if found[0].size != dataset.size * dataset.dtype.itemsize:
            raise Unreferable("its values are not complete in the file")
        return [_placed(found, dataset, raw, None)[0]]
    infos: list[Any] = []
    dataset.id.chunk_iter(infos.append)
    found = [
        _Chunk(
            tuple(o // c for o, c in zip(info.chunk_offset, dataset.chunks, strict=True)),
            info.filter_mask,
            info.byte_offset,
            info.size,
        )
        for info in infos
    ]
    inside = [c for c in found if _is_inside(c, dataset)]
    return _placed(inside, dataset, raw, infos) if inside else []


def _is_inside(chunk: _Chunk, dataset: Any) -> bool:
    return all(
        i * c < n for i, c, n in zip(chunk.coords, dataset.chunks, dataset.shape, strict=True)
    )


def _placed(found: list[_Chunk], dataset: Any, raw: Any, infos: Any) -> list[_Chunk]:
    """Return chunks with offsets from the start of the file, whether HDF5 counts a user block."""
    first, size = found[0], os.fstat(raw.fileno()).st_size
    if any(chunk.offset + chunk.size > size for chunk in found):
        raise Unreferable("some of its chunks are after the end of the file")
    if infos is None:
        row = dataset[(0,) * max(0, dataset.ndim - 1)] if dataset.ndim else dataset[()]
        wanted = np.asarray(row, dataset.dtype).tobytes()
    else:
        start = tuple(i * c for i, c in zip(first.coords, dataset.chunks, strict=True))
        wanted = bytes(dataset.id.read_direct_chunk(start)[1])
    block = dataset.file.userblock_size
    for shift in dict.fromkeys((0, block)):
        raw.seek(first.offset + shift)
        if raw.read(len(wanted)) == wanted:
            moved = [_Chunk(c.coords, c.skipped, c.offset + shift, c.size) for c in found]
            return moved if shift else found
    raise Unreferable("its chunks are not where HDF5 says they are")


def _pieces(dataset: Any, chunks: list[_Chunk]) -> tuple[tuple[int, ...], list[_Chunk]]:
    """Return the shape of the parts of a contiguous dataset, and their places.

    It is divided along the first axis, into equal parts, so that readers need not read all of it.
    """
    shape = tuple(dataset.shape)
    if not chunks or not shape:
        return shape, chunks
    row = chunks[0].size // shape[0]
    rows = next(
        (n for n in _divisors(shape[0]) if n * row <= _PIECE and shape[0] // n <= _MAX_PIECES),
        shape[0],
    )
    start = chunks[0].offset
    zeros = (0,) * (len(shape) - 1)
    places = [
        _Chunk((i, *zeros), 0, start + i * rows * row, rows * row) for i in range(shape[0] // rows)
    ]
    return (rows, *shape[1:]), places


def _divisors(number: int) -> Iterator[int]:
    """Yield the divisors of a number, the largest first."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    yield from (number // n for n in small)
    yield from (n for n in reversed(small) if n * n != number)


def _filters(dataset: Any) -> list[tuple[int, tuple[int, ...]]]:
    plist = dataset.id.get_create_plist()
    listed = (plist.get_filter(i) for i in range(plist.get_nfilters()))
    return [(int(number), tuple(map(int, values))) for number, _, values, _ in listed]


def _always_skipped(chunks: list[_Chunk]) -> int:
    """Return the bits of the filters that no chunk has."""
    return 0 if not chunks else int(np.bitwise_and.reduce([c.skipped for c in chunks]))


def _codecs(dataset: Any, chunks: list[_Chunk]) -> list[dict[str, Any]]:
    """Return the codecs of the chunks, in the order of writing."""
    unused = _always_skipped(chunks)
    found = []
    for place, (number, values) in enumerate(_filters(dataset)):
        if unused >> place & 1:
            continue
        if number not in _FILTERS:
            raise Unreferable(
                f"its chunks have the HDF5 filter number {number}, which has no codec"
            )
        found.append(_FILTERS[number](values))
    return found


def _recoded(
    dataset: Any, chunks: list[_Chunk], raw: Any, limit: int
) -> dict[tuple[int, ...], bytes]:
    """Return chunks that lack a filter which others have, encoded with all of them."""
    unused = _always_skipped(chunks)
    different = [c for c in chunks if c.skipped != unused]
    if sum(c.size for c in different) > limit:
        raise Unreferable(
            f"{len(different)} of its {len(chunks)} chunks lack filters that others have"
        )
    codecs = [
        (place, numcodecs.get_codec(_FILTERS[number](values)))
        for place, (number, values) in enumerate(_filters(dataset))
        if not unused >> place & 1 and number in _FILTERS
    ]
    found = {}
    for chunk in different:
        raw.seek(chunk.offset)
        data: Any = raw.read(chunk.size)
        for place, codec in reversed(codecs):
            if not chunk.skipped >> place & 1:
                data = codec.decode(data)
        for _, codec in codecs:
            data = codec.encode(np.frombuffer(data, "u1"))
        found[chunk.coords] = bytes(memoryview(data).cast("B"))
    return found


def _fill(
    entry: ArrayEntry, dataset: Any, dtype: np.dtype[Any], complete: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the fill value, and the attributes.

    xarray takes the fill value for the CF attribute ``_FillValue``. So it is that attribute's value
    if the file has one, and null if it has none and no chunk is missing.
    """
    plist = dataset.id.get_create_plist()
    own = plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
    value = dataset.fillvalue if own or not complete else None
    if complete and entry.missing is not None:
        value = entry.missing
    if complete and entry.missing is None:
        value = None
    try:
        fill = None if value is None else stored_fill(value, dtype)
    except (TypeError, ValueError) as e:
        raise StoreError(f"{dataset.name} has the fill value {value!r}: {e}") from e
    marked = entry.missing is not None and np.array_equal(
        np.asarray(value), np.asarray(entry.missing), equal_nan=dtype.kind in "fc"
    )
    return fill, _attributes(entry, marked)


def _attributes(entry: ArrayEntry, marked: bool) -> dict[str, Any]:
    """Return the attributes, with ``_FillValue`` unless the fill value says the same."""
    found = dict(entry.attributes)
    if entry.missing is not None and not marked:
        missing = np.asarray(entry.missing)
        if missing.dtype.kind in "biuf" and np.isfinite(missing):
            found["_FillValue"] = missing.item()
    return found
