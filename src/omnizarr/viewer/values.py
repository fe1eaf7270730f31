"""Decoded values for programs without codecs: numbers as little-endian bytes, the rest as JSON.

JavaScript has no 64-bit integers in typed arrays of numbers, no half precision and no complex
numbers, so these are converted to the nearest type that it has (`transfer_type`); ``exact=1`` asks
for JSON without loss.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from omnizarr import Array, config, extension
from omnizarr.conventions.cf.times import is_time
from omnizarr.conventions.cf.variable import Decoding, decode
from omnizarr.errors import OmnizarrError, SelectionError

TEXT = "text"
MAX_BYTES = 2**24  # of the values in one answer
MAX_TEXTS = 2**18  # values of an answer in JSON
MAX_DECODED = 2**31  # bytes of chunks that one answer may need
MAX_CHUNKS = 2**18  # that one answer may need
MAX_PIECE = 2**24  # bytes of chunks that are reduced at a time, or one chunk
PART_BYTES = 2**25  # of chunks that are read at a time, or one chunk
PART_CHUNKS = 512  # that are read at a time, which takes about 0.02 seconds
_TEXT_BYTES = 512  # of memory for a value in JSON
_LONGEST = 20  # digits of a number in a selection

T = TypeVar("T")
# Work in parts: yields the bytes of memory that it needs, then something after every part.
Parts: TypeAlias = Generator[int, None, T]
Ranges: TypeAlias = tuple[range, ...]  # the positions along each axis


class TooLarge(SelectionError):
    """A selection of more values than one answer may have."""


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """The bytes or JSON of an answer, with the shape and type of the values."""

    body: bytes
    shape: tuple[int, ...]
    dtype: str
    missing: bool = False  # no chunk of it is stored


# Selections


def parse_selection(text: str, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """Return the selection in a request: an integer or ``start:stop:step`` for each axis."""
    parts = text.split(",") if text else []
    if len(parts) != len(shape):
        raise SelectionError(
            f"select has {len(parts)} items, but the array has {len(shape)} axes; give an integer"
            " or start:stop:step for each, such as 0,0:512:2"
        )
    return tuple(map(_parse_item, parts, shape, range(len(shape))))


def _parse_item(text: str, length: int, axis: int) -> int | slice:
    numbers = text.split(":")
    known = all(n.isascii() and n.isdigit() and len(n) <= _LONGEST for n in numbers)
    if not known or len(numbers) > 3:
        raise SelectionError(f"select: {text[:40]!r} is not an integer or start:stop:step")
    start, *rest = map(int, numbers)
    if not rest and start < length:
        return start
    stop, step = (*rest, 1, 1)[:2]
    if not rest or step < 1 or not start <= stop <= length:
        raise SelectionError(
            f"select: {text[:40]!r} does not fit axis {axis}, of length {length}; expected 0 <="
            " start <= stop <= length and a step of at least 1"
        )
    return slice(start, stop, step)


def positions(selection: Iterable[int | slice]) -> Ranges:
    """Return the selected positions along each axis; a slice has a start and a stop."""
    return tuple(
        range(i, i + 1) if isinstance(i, int) else range(i.start, i.stop, i.step or 1)
        for i in selection
    )


# The chunks of a selection


def largest_sizes(sizes: Iterable[Any]) -> list[int]:
    """Return a chunk shape for JSON; of chunks that differ along an axis, the largest."""
    return [
        int(n) if isinstance(n, (int, np.integer)) else max(map(int, n), default=0) for n in sizes
    ]


def chunk_bytes(array: Array) -> int:
    """Return the bytes of the largest chunk of an array, decoded."""
    return int(math.prod(largest_sizes(array.chunks)) * array.dtype.itemsize)


def decoded_grid(array: Array) -> extension.Grid:
    """Return the grid of the chunks that are decoded, which are those inside of shards."""
    if array.shards is None:
        return extension.bound_array(array).grid
    return extension.Grid(
        tuple(map(extension.RegularAxis, array.shape, largest_sizes(array.chunks)))
    )


def _touched(axis: extension.GridAxis, places: range) -> int:
    """Return the number of chunks that positions touch; an upper bound if chunk sizes differ."""
    if not places:
        return 0
    return min(len(places), int(axis.chunk_of(places[-1])) - int(axis.chunk_of(places[0])) + 1)


def work(array: Array, ranges: Ranges) -> tuple[int, int]:
    """Return at most how many chunks a selection touches, and how many bytes they decode to."""
    total = math.prod(map(_touched, decoded_grid(array).axes, ranges))
    return total, total * chunk_bytes(array)


def _chunks_of(grid: extension.Grid, ranges: Ranges) -> list[list[int]]:
    """Return the numbers of the chunks along each axis that have one of the positions."""
    found = grid.intersect_axes(tuple(slice(r.start, r.stop, r.step) for r in ranges))
    return [part.chunk.tolist() for part in found]


def _chunk_keys(bound: extension.BoundArray, ranges: Ranges) -> Iterator[str]:
    """Yield the keys at which the chunks, or shards, of a selection may be."""
    for coords in product(*_chunks_of(bound.grid, ranges)):
        for end in (bound.encoding.key(coords), *bound.encoding.other_keys(coords)):
            yield bound.prefix + end


def _split(array: Array, ranges: Ranges, nbytes: int) -> Iterator[Ranges]:
    """Return parts of a selection, cut between chunks, of few chunks and bytes each."""
    most = max(1, min(PART_CHUNKS, nbytes // max(1, chunk_bytes(array))))
    return _halve(decoded_grid(array).axes, ranges, most) if all(ranges) else iter(())


def _halve(axes: tuple[extension.GridAxis, ...], ranges: Ranges, most: int) -> Iterator[Ranges]:
    counts = [*map(_touched, axes, ranges)]
    if math.prod(counts) <= most:
        yield ranges
        return
    number = counts.index(max(counts))
    axis, places = axes[number], ranges[number]
    middle = int(axis.chunk_of(places[len(places) // 2]))
    border = int(axis.start(middle))
    if border <= places.start:
        border += int(axis.size(middle))
    cut = -((places.start - border) // places.step)
    for half in (places[:cut], places[cut:]):
        yield from _halve(axes, (*ranges[:number], half, *ranges[number + 1 :]), most)


class _Source:
    """Reads parts of an array, in whose chunks no link may lead out of what is served.

    The links are looked at here, since compiled code, which is many times as fast, does not.
    """

    def __init__(self, array: Array) -> None:
        self._array, self._bound = array, extension.bound_array(array)
        self._filled: list[tuple[int, ...]] = []  # chunks that are not stored
        store: Any = array.store
        encloses = isinstance(store, extension.EnclosesFiles) and store.enclosure is not None
        self._enclosed: Any = store if encloses and self._bound.chunk_store is store else None
        if self._enclosed is not None:
            location = replace(extension.location_of(array), store=store.without_enclosure())
            self._array = Array.at(location, array.metadata.model)

    def read(self, ranges: Ranges) -> npt.NDArray[Any]:
        """Return the values at some positions along every axis."""
        if self._enclosed is not None:
            self._enclosed.check_links(_chunk_keys(self._bound, ranges))
        slices = tuple(slice(r.start, r.stop, r.step) for r in ranges)
        return extension.as_plain(self._array.read(slices, filled=self._filled)).reshape(
            [*map(len, ranges)]
        )

    def is_missing(self, ranges: Ranges) -> bool:
        """Return True if no chunk of a selection is stored; the selection must have been read."""
        if not self._filled:
            return False
        chunks = _chunks_of(decoded_grid(self._array), ranges)
        return len(set(self._filled)) == math.prod(map(len, chunks))


# Reading


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values that a request asks for, and in which form.

    `exact`: as JSON, without loss. `decode`: with "time", numbers with CF units of time become
    milliseconds since 1970, or texts in calendars of CF only; with "cf", packed numbers are
    unpacked, missing ones NaN. `extremes`: the least and the greatest value in every step.
    """

    select: str
    exact: bool = False
    decode: str = ""
    extremes: bool = False


def _decoder(array: Array, wanted: Wanted) -> tuple[Decoding | None, str]:
    """Return how values are decoded, and the type that they are sent as."""
    decoder = decoding(array, wanted.decode)
    if decoder is not None and decoder.times is not None:
        return decoder, TEXT if decoder.times.with_objects else "float64"
    dtype = array.dtype if decoder is None else decoder.dtype
    return decoder, TEXT if wanted.exact else transfer_type(dtype)


def read_values(array: Array, wanted: Wanted) -> Parts[EncodedValues]:
    """Return the selected values of an array, or their extremes, encoded for an answer."""
    if wanted.extremes:
        return (yield from read_extremes(array, wanted))
    selection = parse_selection(wanted.select, array.shape)
    decoder, kind = _decoder(array, wanted)
    ranges = positions(selection)
    shape = tuple(len(r) for r, i in zip(ranges, selection, strict=True) if isinstance(i, slice))
    _check_size(shape, kind)
    needed = _check_work(array, ranges)
    each = _TEXT_BYTES if kind == TEXT else 2 * np.dtype(kind).itemsize
    yield math.prod(shape) * each + needed
    stored: Any = object if kind == TEXT else np.dtype(kind).newbyteorder("<")
    out = np.empty([*map(len, ranges)], stored)
    source = _Source(array)
    for part in _split(array, ranges, PART_BYTES):
        values = _decoded(source.read(part), decoder)
        # With the ellipsis, also if there are no axes, values are assigned and not an array.
        place = zip(part, ranges, strict=True)
        at: Any = (*(slice(i := r.index(p[0]), i + len(p)) for p, r in place), ...)
        out[at] = json_values(values) if kind == TEXT else as_numbers(values, kind)
        yield 0
    body = encode_text(out.reshape(shape)) if kind == TEXT else out.tobytes()
    if len(body) > 2 * MAX_BYTES:
        raise TooLarge(f"the answer would have {len(body)} bytes; select fewer values")
    return EncodedValues(body, shape, kind, source.is_missing(ranges))


def read_extremes(array: Array, wanted: Wanted) -> Parts[EncodedValues]:
    """Return the minimum and maximum of every `step` values along the only axis of a selection.

    They are two rows of ``float64``. What is not finite is left out; where nothing is left, both
    are NaN. The values are read in pieces along chunk borders, so that few are in memory at a time.
    """
    selection = parse_selection(wanted.select, array.shape)
    several = [axis for axis, item in enumerate(selection) if isinstance(item, slice)]
    decoder, kind = _decoder(array, wanted)
    if len(several) != 1 or kind == TEXT:
        raise SelectionError(
            "extremes are those of numbers along one axis; give start:stop:step for it and an"
            " integer for each other axis"
        )
    [axis] = several
    steps = positions(selection)[axis]
    span: Any = selection[axis]
    ranges = positions([*selection[:axis], slice(span.start, span.stop), *selection[axis + 1 :]])
    count = len(steps)
    _check_size((2, count), "float64")
    yield 6 * MAX_PIECE + 4 * 8 * count + _check_work(array, ranges)
    found = np.full((2, count), np.nan)
    source = _Source(array)
    for part in _split(array, ranges, MAX_PIECE):
        numbers = as_numbers(_decoded(source.read(part).reshape(-1), decoder), kind)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan).astype("f8", copy=False)
        begin, end = part[axis].start - span.start, part[axis].stop - span.start
        first, last = begin // span.step, -(-end // span.step)
        cuts = np.maximum(np.arange(first, last) * span.step - begin, 0)
        for row, join in zip(found[:, first:last], (np.fmin, np.fmax), strict=True):
            join(row, join.reduceat(numbers, cuts), out=row)
        yield 0
    body = as_numbers(found, "float64").tobytes()
    return EncodedValues(body, (2, count), "float64", source.is_missing(ranges))


def read_numbers(array: Array, ranges: Iterable[range]) -> npt.NDArray[Any]:
    """Return selected numbers, unpacked if CF attributes say so and are valid; missing are NaN."""
    values = np.asanyarray(array[tuple(slice(r.start, r.stop, r.step) for r in ranges)])
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype("f8"), np.nan)
    with suppress(OmnizarrError):  # of attributes, without which they are shown as they are stored
        values = _decoded(values, decoding(array, "cf"))
    return as_numbers(values, transfer_type(values.dtype))


def _decoded(values: npt.NDArray[Any], decoder: Decoding | None) -> npt.NDArray[Any]:
    return values if decoder is None else np.asarray(decoder.decode(values))


def _check_size(shape: tuple[int, ...], kind: str) -> None:
    count = math.prod(max(n, 1) for n in shape)  # empty lists take memory, too
    if kind == TEXT and count > MAX_TEXTS:
        raise TooLarge(f"{count} values were selected; an answer as text has at most {MAX_TEXTS}")
    if kind != TEXT and math.prod(shape) * np.dtype(kind).itemsize > MAX_BYTES:
        raise TooLarge(
            f"{count} values of type {kind} were selected; an answer has at most"
            f" {MAX_BYTES} bytes: select less, or with a step"
        )


def _check_work(array: Array, ranges: Ranges) -> int:
    """Return the bytes that reading a part needs; raise if a selection touches too many chunks.

    Each thread has a chunk, encoded and decoded.
    """
    total, nbytes = work(array, ranges)
    if total > MAX_CHUNKS or nbytes > MAX_DECODED:
        raise TooLarge(
            f"these values are in {total} chunks, about {nbytes} bytes, more than the"
            f" {MAX_CHUNKS} chunks, or {MAX_DECODED} bytes, that one answer may need; select a"
            " smaller region or a smaller level"
        )
    each = chunk_bytes(array)
    return 2 * min(min(config.get().threads, total) * each, max(each, PART_BYTES))


# Types


def transfer_type(dtype: np.dtype[Any]) -> str:
    """Return the name of the type that values of a NumPy type are sent as; "text" for JSON."""
    kind, size = dtype.kind, dtype.itemsize
    if kind == "V" and dtype.names is None and dtype.type is not np.void:  # of ml_dtypes
        small = dtype.name.startswith(("int", "uint"))
        return dtype.name.rstrip("0123456789") + "8" if small else "float32"
    if kind in "iu" and size <= 4:
        return str(dtype.newbyteorder("=").name)
    if kind in "iufmM":
        return "float32" if kind == "f" and size <= 4 else "float64"
    return {"b": "uint8", "c": "float32"}.get(kind, TEXT)


# Attributes of CF that change what the stored numbers mean.
_PACKED = {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"}
_PACKED |= {"valid_range", "valid_min", "valid_max"}


def decoding(array: Array, how: str) -> Decoding | None:
    """Return how numbers are decoded: "cf" unpacks them, "time" reads dates; None: as stored."""
    if array.dtype.kind not in "iuf":
        return None
    if how == "time" and is_time(array.attrs):
        return decode(array).decoding
    if how == "cf" and not _PACKED.isdisjoint(array.attrs):
        return decode(array, times=None).decoding
    return None


def as_numbers(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """Return values in a transfer type, little-endian and in C order."""
    target = np.dtype(kind).newbyteorder("<")
    if values.dtype.kind == "M":  # milliseconds since 1970 with their fraction
        absent, (unit, count) = np.isnat(values), np.datetime_data(values.dtype)
        if unit in ("Y", "M"):  # which have no fixed length
            values, unit, count = values.astype("M8[D]"), "D", 1
        length = np.array(count, f"m8[{unit}]") / np.timedelta64(1, "ms")
        values = np.where(absent, np.nan, values.astype("i8").astype("f8") * length)
    elif values.dtype.kind == "m":
        values = np.where(np.isnat(values), np.nan, values.astype("i8").astype("f8"))
    elif values.dtype.kind == "c":
        values = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, target, order="C")


def json_values(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values as what JSON can hold; 64-bit integers are strings."""
    exact = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    out = np.empty(values.size, object)
    for number, item in enumerate(values.reshape(-1)):
        out[number] = str(int(item)) if exact else json_value(item)
    return out.reshape(values.shape)


def encode_text(values: npt.NDArray[Any]) -> bytes:
    """Return plain values as nested JSON lists."""
    text = json.dumps(values.tolist(), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


_EXACT = 2**53
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as Zarr writes them


def json_value(value: Any) -> Any:
    """Return a value, of NumPy or from JSON, as what JSON can hold.

    Infinities, NaN and integers beyond 2⁵³ become strings, complex numbers pairs, bytes text, times
    of all calendars ISO 8601, records lists of their fields.
    """
    if isinstance(value, np.void):
        if value.dtype.names is not None:
            return [json_value(value[name]) for name in value.dtype.names]
        return value.tobytes().hex()
    if isinstance(value, np.ndarray):
        return [json_value(item) for item in value] if value.ndim else json_value(value[()])
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else extension.value_text(value)
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_FINITE[str(value)]
    if isinstance(value, complex):
        return [json_value(value.real), json_value(value.imag)]
    if isinstance(value, dict):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(inner) for inner in value]
    # Objects of cftime have this method too.
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
