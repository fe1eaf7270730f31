"""References to the chunks of HDF5 and NetCDF4 files.

Chunks are referred to as they are stored, so their filters have to be codecs that readers of
references know: deflate, shuffle, fletcher32, Zstandard, bzip2 and Blosc, and LZF, LZ4 and
bitshuffle, which the package imagecodecs has. Chunks with bitshuffle and LZ4 or Zstandard in one
filter, and with Blosc2, are in formats that none of them has. What zarr-python would silently read
otherwise is not written. Where HDF5 has left out a filter for
all chunks of a dataset, as it does if compression gains nothing, the array has none; where for
some, these chunks are encoded again and stored in the references.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from omnizarr.codecs.codec import BytesBytes
from omnizarr.errors import StoreError
from omnizarr.hierarchy.options import DEFAULT_FILL
from omnizarr.integrations.files.contents import ArrayEntry
from omnizarr.integrations.files.hdf5 import (
    contents,
    filter_name,
    missing_filter,
    open_file,
    reading,
)
from omnizarr.integrations.files.references import (
    ReferenceWriter,
    Unreferable,
    bytes_codec,
    stored_dtype,
    stored_fill,
)

_PIECE = 2**24  # bytes of the parts into which contiguous datasets are divided
_MAX_PIECES = 10_000
_NO_CODEC = "which has no codec; import the file to read it"
_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def _blosc(given: tuple[int, ...]) -> dict[str, Any]:
    level, shuffle, compressor = (*given[4:7], *(5, 1, 0)[max(0, len(given) - 4) :])
    name = _BLOSC[compressor] if compressor < len(_BLOSC) else "lz4"  # chunks say it themselves
    shuffle = shuffle if shuffle in (0, 1, 2) else 1
    return {
        "id": "blosc",
        "cname": name,
        "clevel": min(level, 9),
        "shuffle": shuffle,
        "blocksize": 0,
    }


def _bitshuffle(given: tuple[int, ...]) -> dict[str, Any]:
    """Return the codec of the filter with the settings: version (2), item and block size, …"""
    if len(given) > 4 and given[4]:
        inner = {2: "LZ4", 3: "Zstandard"}.get(given[4], f"compression {given[4]}")
        raise Unreferable(f"its chunks have the HDF5 filter bitshuffle with {inner}, {_NO_CODEC}")
    return {
        "id": "imagecodecs_bitshuffle",
        "itemsize": given[2] if len(given) > 2 else 1,
        "blocksize": given[3] if len(given) > 3 else 0,
    }


# LZF without a header, and LZ4 in blocks with their lengths, are as imagecodecs has them.
_FILTERS: dict[int, Callable[[tuple[int, ...]], dict[str, Any]]] = {
    1: lambda given: {"id": "zlib", "level": given[0] if given else 1},
    2: lambda given: {"id": "shuffle", "elementsize": given[0] if given else 1},
    3: lambda given: {"id": "fletcher32"},
    307: lambda given: {"id": "bz2", "level": given[0] if given else 9},
    32000: lambda given: {"id": "imagecodecs_lzf", "header": False},
    32001: _blosc,
    32004: lambda given: {"id": "imagecodecs_lz4h5"},
    32008: _bitshuffle,
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
    found = contents(file, decode=False)
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
    if math.prod(entry.shape) * max(1, dataset.dtype.itemsize) > writer.inline:
        writer.skip(path, f"{reason}, and it is larger than {writer.inline} bytes")
        return
    missing = missing_filter(dataset)
    if missing is not None:
        writer.skip(path, missing)
        return
    values = entry.values.read(tuple(slice(0, n) for n in entry.shape))
    marked = entry.missing is not None
    writer.add_copy(path, values, _attributes(entry, marked), entry.dimension_names, entry.missing)


def _add_array(
    path: str, entry: ArrayEntry, dataset: Any, raw: Any, writer: ReferenceWriter
) -> None:
    dtype = _dtype(dataset)
    inner = dtype.subdtype[1] if dtype.subdtype is not None else ()
    base = dtype.base if dtype.subdtype is not None else dtype
    document: dict[str, Any] = {"shape": list(entry.shape), "dtype": stored_dtype(base)}
    _check_end(entry, dataset)
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
        grid = [-(-n // c) for n, c in zip(entry.shape, dataset.chunks, strict=False)]
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


def _check_end(entry: ArrayEntry, dataset: Any) -> None:
    """Raise if chunks that are not stored do not stand for the rest of an unlimited dimension."""
    sides = list(zip(entry.shape, dataset.shape, dataset.chunks or dataset.shape, strict=False))
    if all(n == own for n, own, _ in sides):
        return
    stored = dataset.chunks is not None and entry.fill_value is not DEFAULT_FILL
    if not stored or any(n != own and own % c for n, own, c in sides):
        raise Unreferable("it is shorter than its unlimited dimension, and ends within a chunk")


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
            raise Unreferable(f"its chunks have the HDF5 filter {filter_name(number)}, {_NO_CODEC}")
        found.append(_FILTERS[number](values))
    if found and found[-1].get("itemsize", 1) > 1:
        raise Unreferable(
            "its chunks have the HDF5 filter bitshuffle without compression, which zarr-python"
            " decodes to other values; import the file to read it"
        )
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
    if not different:
        return {}
    codecs = [
        (place, bytes_codec(_FILTERS[number](values)))
        for place, (number, values) in enumerate(_filters(dataset))
        if not unused >> place & 1 and number in _FILTERS
    ]
    found = {}
    for chunk in different:
        raw.seek(chunk.offset)
        found[chunk.coords] = _with_filters(raw.read(chunk.size), chunk, codecs, _size(dataset))
    return found


def _size(dataset: Any) -> int:
    return int(math.prod(dataset.chunks) * dataset.dtype.itemsize)


def _with_filters(
    data: Any, chunk: _Chunk, codecs: list[tuple[int, BytesBytes]], size: int
) -> bytes:
    """Return the bytes of a chunk with all filters, also those that it lacks."""
    applied = []
    before: int | None = size
    for place, codec in codecs:
        if not chunk.skipped >> place & 1:
            applied.append((codec, before))
            before = None if before is None else codec.encoded_size(before)
    for codec, decoded in reversed(applied):
        data = codec.decode(data, decoded)
    for _, codec in codecs:
        data = codec.encode(data)
    return bytes(data)


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
