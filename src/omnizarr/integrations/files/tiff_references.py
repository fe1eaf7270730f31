"""References to the strips and tiles of TIFF files.

Each series of pages is an array with the axes of tifffile; a chunk is a tile, a strip, or a page
that is stored without compression in one piece. The last strip of a page may be shorter than the
others, which chunks cannot be: it is padded, encoded again and stored in the references. LZW,
PackBits and predictors are codecs of the package imagecodecs. Attributes are those of an import.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from omnizarr.errors import InvalidArgument
from omnizarr.integrations.files.contents import Contents
from omnizarr.integrations.files.references import (
    ReferenceWriter,
    Unreferable,
    bytes_codec,
    stored_fill,
)
from omnizarr.integrations.files.tiff import contents, open_file

# Compression by its number in the file.
_CODECS: dict[int, dict[str, Any] | None] = {
    1: None,
    5: {"id": "imagecodecs_lzw"},
    8: {"id": "zlib", "level": 6},
    32773: {"id": "imagecodecs_packbits"},
    32946: {"id": "zlib", "level": 6},
    50000: {"id": "zstd", "level": 3},
}
# Predictors by their number in the file: differences along the rows.
_PREDICTORS = {2: "imagecodecs_delta", 3: "imagecodecs_floatpred"}
_PAGE = {"S": 4, "Z": 1, "Y": 2, "X": 3}  # the place of an axis in the shape that pages decode to


def add_arrays(file: str, writer: ReferenceWriter) -> None:
    """Add the series of a file: one at the root, or several by number."""
    with open_file(file) as opened:
        series = list(opened.series)
        if not series:
            raise InvalidArgument(f"{file!r} has no images")
        stated = contents(file)
        for name, reason in stated.skipped.items():
            writer.skip(name, reason)
        if len(series) > 1:
            writer.add_group("", {})
        for number, each in enumerate(series):
            path = "" if len(series) == 1 else str(number)
            try:
                _add_series(path, opened, each, writer, stated)
            except Unreferable as e:
                writer.skip(path, str(e))


def _add_series(
    path: str, opened: Any, series: Any, writer: ReferenceWriter, stated: Contents
) -> None:
    keyframe = series.keyframe
    _check(opened, series)
    leading = series.shape[: len(series.shape) - len(keyframe.shape)]
    dtype = series.dtype.newbyteorder(opened.byteorder)
    codec = _CODECS[int(keyframe.compression)]
    whole = codec is None and (keyframe.is_contiguous or series.dataoffset is not None)
    inner = keyframe.shape if whole else _segment_shape(keyframe)
    document = {
        "shape": list(series.shape),
        "chunks": [*(1 for _ in leading), *inner],
        "dtype": dtype.str,
        "filters": _filters(keyframe, (*(1 for _ in leading), *inner), dtype),
        "compressor": codec,
        "fill_value": stored_fill(keyframe.nodata or 0, dtype),
    }
    names = tuple(axis.lower() for axis in series.axes)
    pages = [_page(opened, series, number) for number in range(math.prod(leading))]
    shorter = {} if whole else _last_strips(keyframe, dtype, codec, pages, writer.inline)
    attributes = stated.arrays[path].attributes
    writer.add_array(path, document, attributes, names if len(set(names)) == len(names) else None)
    page_bytes = math.prod(keyframe.shape) * dtype.itemsize
    for number, page in enumerate(pages):
        at = tuple(int(i) for i in np.unravel_index(number, leading)) if leading else ()
        if whole:
            offset = _page_offset(series, page, number, page_bytes)
            if offset is not None:
                writer.add_target(path, (*at, *(0 for _ in inner)), offset, page_bytes)
            continue
        if page is None:
            continue
        for segment, coords in enumerate(_coordinates(keyframe, inner)):
            offset, size = page.dataoffsets[segment], page.databytecounts[segment]
            if (number, segment) in shorter:
                writer.add_value(path, (*at, *coords), shorter[number, segment])
            elif size:
                writer.add_target(path, (*at, *coords), offset, size)


def _check(opened: Any, series: Any) -> None:
    """Raise if the stored bytes are not those of an array with a codec."""
    keyframe = series.keyframe
    if series.dtype is None or 0 in series.shape:
        raise Unreferable("it has no pixels that can be read")
    if series.transform is not None or tuple(series.shape[-len(keyframe.shape) :]) != tuple(
        keyframe.shape
    ):
        raise Unreferable("its pages are arranged in a way that chunks cannot be")
    if int(keyframe.compression) not in _CODECS:
        raise Unreferable(f"its compression is {keyframe.compression.name}, which is no codec")
    if (keyframe.predictor or 1) not in (1, *_PREDICTORS):
        name = getattr(keyframe.predictor, "name", keyframe.predictor)
        raise Unreferable(f"its pixels have the predictor {name}, which is no codec")
    bits = keyframe.bitspersample
    if bits != 8 * series.dtype.itemsize or keyframe.fillorder != 1:
        raise Unreferable(f"its pixels have {bits} bits, which are packed")
    if keyframe.is_subsampled or keyframe.jpegtables is not None:
        raise Unreferable("its colours are stored with fewer pixels than its brightness")


def _filters(
    keyframe: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> list[dict[str, Any]] | None:
    """Return the predictor, whose differences are those of one sample to the next."""
    name = _PREDICTORS.get(keyframe.predictor)
    if name is None:
        return None
    axis = keyframe.axes.index("X") - len(keyframe.axes)
    return [{"id": name, "shape": list(shape), "dtype": dtype.str, "axis": axis, "dist": 1}]


def _page(opened: Any, series: Any, number: int) -> Any:
    """Return a page; None if it is not in the file."""
    if series.dataoffset is not None and number:
        return None  # its values follow those of the first
    page = series[number]
    if page is not None and page.parent.filehandle.path != opened.filehandle.path:
        raise Unreferable("some of its pages are in other files")
    return page


def _page_offset(series: Any, page: Any, number: int, page_bytes: int) -> int | None:
    if series.dataoffset is not None:
        return int(series.dataoffset) + number * page_bytes
    return None if page is None or not page.databytecounts[0] else int(page.dataoffsets[0])


def _sizes(keyframe: Any) -> tuple[int, int, int, int, int]:
    """Return the shape of a strip or tile, as pages decode to: plane, depth, length, width, …"""
    _, _, _, width, samples = keyframe.shaped
    if keyframe.is_tiled:
        return 1, max(1, keyframe.tiledepth), keyframe.tilelength, keyframe.tilewidth, samples
    return 1, 1, min(keyframe.rowsperstrip, keyframe.imagelength), width, samples


def _places(keyframe: Any) -> list[int]:
    """Return the place of each axis of a page in the shape that pages decode to."""
    planar = keyframe.planarconfig == 2
    return [0 if axis == "S" and planar else _PAGE[axis] for axis in keyframe.axes]


def _segment_shape(keyframe: Any) -> tuple[int, ...]:
    sizes = _sizes(keyframe)
    return tuple(sizes[place] for place in _places(keyframe))


def _coordinates(keyframe: Any, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the chunk coordinates of the strips or tiles of a page, in their order."""
    sizes = _sizes(keyframe)
    counts = [-(-n // s) for n, s in zip(keyframe.shaped, sizes, strict=True)][:4]
    places = _places(keyframe)
    return [
        tuple((*index, 0)[place] for place in places)
        for index in itertools.product(*(range(n) for n in counts))
    ]


def _last_strips(
    keyframe: Any, dtype: np.dtype[Any], codec: dict[str, Any] | None, pages: list[Any], limit: int
) -> dict[tuple[int, int], bytes]:
    """Return the last strips of pages, padded to the length of the others."""
    if keyframe.is_tiled or keyframe.imagelength % _sizes(keyframe)[2] == 0:
        return {}
    strips = -(-keyframe.imagelength // keyframe.rowsperstrip)
    size = math.prod(_sizes(keyframe)) * dtype.itemsize
    last = size // _sizes(keyframe)[2] * (keyframe.imagelength % keyframe.rowsperstrip)
    found: dict[tuple[int, int], bytes] = {}
    encoder = None if codec is None else bytes_codec(codec)
    for number, page in enumerate(pages):
        for segment in range(strips - 1, 0 if page is None else len(page.dataoffsets), strips):
            data: Any = _read(page, segment)
            if data is None:
                continue
            plain = data if encoder is None else bytes(encoder.decode(data, last))
            padded = plain + bytes(size - len(plain))  # rows of zeros have differences of zero
            found[number, segment] = padded if encoder is None else bytes(encoder.encode(padded))
            if sum(map(len, found.values())) > limit:
                raise Unreferable(
                    "the last strips of its pages are shorter than the others, and larger than"
                    f" {limit} bytes together"
                )
    return found


def _read(page: Any, segment: int) -> bytes | None:
    handle = page.parent.filehandle
    if not page.databytecounts[segment]:
        return None
    handle.seek(page.dataoffsets[segment])
    data: bytes = handle.read(page.databytecounts[segment])
    return data
