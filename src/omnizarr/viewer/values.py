"""Decoded values for programs without codecs: numbers as little-endian bytes, the rest as JSON.

JavaScript has no 64-bit integers in typed arrays of numbers, no half precision and no complex
numbers, so these are converted to the nearest type that it has (`transfer_type`); ``exact=1`` asks
for JSON without loss.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from omnizarr import Array, config
from omnizarr import __version__ as VERSION
from omnizarr.conventions.cf.variable import Decoding
from omnizarr.errors import SelectionError
from omnizarr.extension import (
    Axis,
    EnclosesFiles,
    Versioned,
    as_plain,
    has_cheap_requests,
    stored_key,
    value_text,
)
from omnizarr.viewer.display import (
    TEXT,
    chunk_bytes,
    decoding,
    largest_sizes,
    touched,
    transfer_type,
    work,
)

MAX_BYTES = 2**24  # of the values in one answer
MAX_TEXTS = 2**18  # values of an answer in JSON
MAX_DECODED = 2**31  # bytes of chunks that one answer may need
MAX_CHUNKS = 2**18  # that one answer may need
MAX_PIECE = 2**24  # bytes of chunks that are reduced at a time, or one chunk
PART_BYTES = 2**25  # of chunks that are read at a time, or one chunk
PART_CHUNKS = 512  # that are read at a time, which takes about 0.02 seconds
PART_TEXTS = 4096  # values that become JSON at a time
_TEXT_BYTES = 512  # of memory for a value in JSON
MAX_TAGGED = 4096  # chunks of an answer whose generations make an entity tag
_LONGEST = 20  # digits of a number in a selection

T = TypeVar("T")
# Work in parts: yields the bytes of memory that it needs, then something after every part.
Parts: TypeAlias = Generator[int, None, T]


class TooLarge(SelectionError):
    """A selection of more values than one answer may have."""


@dataclass(frozen=True, slots=True)
class Values:
    """An answer: its bytes or JSON, with the shape and type of the values."""

    body: bytes
    shape: tuple[int, ...]
    dtype: str
    missing: bool = False  # no chunk of it is stored

    @property
    def media_type(self) -> str:
        """The content type of the answer."""
        return "application/json" if self.dtype == TEXT else "application/octet-stream"


def parse_selection(text: str, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """Return the selection that a request names: an integer or ``start:stop:step`` for each axis.

    >>> parse_selection("3,0:10:2", (5, 20))
    (3, slice(0, 10, 2))
    """
    parts = text.split(",") if text else []
    if len(parts) != len(shape):
        raise SelectionError(
            f"select has {len(parts)} items, but the array has {len(shape)} axes; give an integer"
            " or start:stop:step for each, such as 0,0:512:2"
        )
    return tuple(
        _parse_item(part, length, axis)
        for axis, (part, length) in enumerate(zip(parts, shape, strict=True))
    )


def _parse_item(text: str, length: int, axis: int) -> int | slice:
    numbers = text.split(":")
    if not all(n.isascii() and n.isdigit() and len(n) <= _LONGEST for n in numbers):
        raise SelectionError(f"select: {text[:40]!r} is not an integer or start:stop:step")
    if len(numbers) == 1:
        index = int(text)
        if index >= length:
            raise SelectionError(f"select: {index} is outside of axis {axis}, of length {length}")
        return index
    if len(numbers) > 3:
        raise SelectionError(f"select: {text[:40]!r} is not an integer or start:stop:step")
    start, stop, step = int(numbers[0]), int(numbers[1]), int(numbers[2]) if numbers[2:] else 1
    if step < 1 or not start <= stop <= length:
        raise SelectionError(
            f"select: {text[:40]!r} does not fit axis {axis}, of length {length}; expected 0 <="
            " start <= stop <= length and a step of at least 1"
        )
    return slice(start, stop, step)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values that a request asks for, and in which form.

    `exact`: as JSON, without loss. `decode`: with "time", numbers with CF units of time become
    milliseconds since 1970, not-a-time NaN, or texts in a calendar that other programs do not have;
    with "cf", packed numbers are unpacked, missing ones NaN. `extremes`: the least and the greatest
    of every so many values, as the step says.
    """

    select: str
    exact: bool = False
    decode: str = ""
    extremes: bool = False


def read_tagged(
    array: Array, wanted: Wanted, is_known: Callable[[str], bool]
) -> Parts[tuple[Values | None, str | None]]:
    """Return values with their entity tag, None if there is none; no values for a known tag."""
    tag = entity_tag(array, wanted)
    if tag is not None and is_known(tag):
        return None, tag
    found = yield from (read_extremes if wanted.extremes else read_values)(array, wanted)
    # A chunk that was replaced meanwhile may be in the values or not.
    return found, tag if tag is not None and tag == entity_tag(array, wanted) else None


def entity_tag(array: Array, wanted: Wanted) -> str | None:
    """Return a text that differs whenever the values may differ, None where that is not cheap.

    It is made from the metadata of the array and the generations of the stored chunks.
    """
    bound = array._bound
    store = bound.store
    if not isinstance(store, Versioned) or not has_cheap_requests(store):
        return None
    spans = []
    for item, axis in zip(
        parse_selection(wanted.select, array.shape), bound.grid.axes, strict=True
    ):
        start, stop = (item, item + 1) if isinstance(item, int) else (item.start, item.stop)
        if start == stop:
            return None
        spans.append(range(int(axis.chunk_of(start)), int(axis.chunk_of(stop - 1)) + 1))
    if math.prod(map(len, spans)) > MAX_TAGGED:
        return None
    made_from = repr((VERSION, wanted, array.zarr_format, array._model))
    digest = blake2b(made_from.encode("utf-8", "surrogatepass"), digest_size=12)
    for coords in product(*spans):
        ends = bound.encoding.key(coords), *bound.encoding.other_keys(coords)
        for key in {stored_key(bound.chunk_store, bound.prefix + end): None for end in ends}:
            digest.update(f"{key}\0{store.generation(key)}\0".encode("utf-8", "surrogatepass"))
    return f'"{digest.hexdigest()}"'


def _decoder(array: Array, wanted: Wanted) -> tuple[Decoding | None, str]:
    """Return how values are decoded, and the type that they are sent as."""
    decoder = decoding(array, wanted.decode)
    if decoder is not None and decoder.times is not None:
        return decoder, TEXT if decoder.times.with_objects else "float64"
    dtype = array.dtype if decoder is None else decoder.dtype
    return decoder, TEXT if wanted.exact else transfer_type(dtype)


def read_values(array: Array, wanted: Wanted) -> Parts[Values]:
    """Return the selected values of an array, encoded for an answer."""
    selection = parse_selection(wanted.select, array.shape)
    decoder, kind = _decoder(array, wanted)
    ranges = tuple(_positions(item) for item in selection)
    shape = tuple(
        len(r) for r, item in zip(ranges, selection, strict=True) if isinstance(item, slice)
    )
    _check_size(shape, kind)
    total = _check_work(array, selection)
    each = _TEXT_BYTES if kind == TEXT else 2 * np.dtype(kind).itemsize
    yield math.prod(shape) * each + _needed(array, total)
    out = np.empty([*map(len, ranges)], _stored_type(kind))
    source = _Source(array)
    for part in _split(array, ranges):
        values = source.read(part)
        # With the ellipsis, also if there are no axes, values are assigned and not an array.
        place = zip(part, ranges, strict=True)
        at: Any = (*(slice(i := r.index(p[0]), i + len(p)) for p, r in place), ...)
        if kind == TEXT:
            out[at] = yield from _texts(values, decoder)
        else:
            out[at] = as_numbers(_decoded(values, decoder), kind)
        yield 0
    body = encode_text(out.reshape(shape)) if kind == TEXT else out.tobytes()
    if len(body) > 2 * MAX_BYTES:
        raise TooLarge(f"the answer would have {len(body)} bytes; select fewer values")
    return Values(body, shape, kind, source.is_missing(total))


def _decoded(values: npt.NDArray[Any], decoder: Decoding | None) -> npt.NDArray[Any]:
    return values if decoder is None else np.asarray(decoder.decode(values))


def _texts(values: npt.NDArray[Any], decoder: Decoding | None) -> Parts[npt.NDArray[Any]]:
    """Return values as what JSON can hold."""
    flat = values.reshape(-1)
    out = np.empty(flat.size, object)
    for start in range(0, flat.size, PART_TEXTS):
        some = slice(start, start + PART_TEXTS)
        out[some] = plain_values(_decoded(flat[some], decoder))
        yield 0
    return out.reshape(values.shape)


def _positions(item: int | slice) -> range:
    return (
        range(item, item + 1) if isinstance(item, int) else range(item.start, item.stop, item.step)
    )


def _stored_type(kind: str) -> np.dtype[Any]:
    return np.dtype(object) if kind == TEXT else np.dtype(kind).newbyteorder("<")


def _needed(array: Array, chunks: int) -> int:
    """Return the bytes that reading a part needs: each thread has a chunk, encoded and decoded."""
    threads = min(config.get().threads, chunks)
    return 2 * min(threads * chunk_bytes(array), max(chunk_bytes(array), PART_BYTES))


class _Source:
    """Reads parts of an array, in whose chunks no link may lead out of what is served.

    The links are looked at here, since compiled code, which is many times as fast, does not.
    """

    def __init__(self, array: Array) -> None:
        store: Any = array.store
        self._array, self._bound, self._store = array, array._bound, store
        self.filled: list[tuple[int, ...]] = []  # chunks that are not stored
        self._encloses = (
            isinstance(self._store, EnclosesFiles) and self._store.enclosure is not None
        )
        self._encloses &= self._bound.chunk_store is self._store
        if self._encloses:
            location = replace(array._location, store=self._store.without_enclosure())
            self._array = Array.at(location, array._model)

    def read(self, ranges: tuple[range, ...]) -> npt.NDArray[Any]:
        """Return the values at some positions along every axis."""
        if self._encloses:
            self._store.check_links(self._keys(ranges))
        slices = tuple(slice(r.start, r.stop, r.step) for r in ranges)
        return as_plain(self._array.read(slices, filled=self.filled)).reshape([*map(len, ranges)])

    def is_missing(self, total: int) -> bool:
        """Return True if none of the chunks that were read, so many, is stored."""
        return bool(self.filled) and len(set(self.filled)) == total

    def _keys(self, ranges: tuple[range, ...]) -> Iterator[str]:
        prefix, encoding, axes = self._bound.prefix, self._bound.encoding, self._bound.grid.axes
        for coords in product(*map(_touched_chunks, axes, ranges)):
            for end in (encoding.key(coords), *encoding.other_keys(coords)):
                yield prefix + end


def _touched_chunks(axis: Axis, positions: range) -> Iterable[int]:
    """Return the numbers of the chunks that have one of the positions, and of some between them."""
    first, last = int(axis.chunk_of(positions[0])), int(axis.chunk_of(positions[-1]))
    if last - first < 2 * len(positions):
        return range(first, last + 1)
    return {int(axis.chunk_of(n)) for n in positions}


def _split(array: Array, ranges: tuple[range, ...]) -> Iterator[tuple[range, ...]]:
    """Yield parts of a selection that have few chunks each, cut between chunks."""
    if not all(ranges):
        return
    counts = [touched(r, sizes) for r, sizes in zip(ranges, array.chunks, strict=True)]
    total = math.prod(counts)
    if total == 1 or (total <= PART_CHUNKS and total * chunk_bytes(array) <= PART_BYTES):
        yield ranges
        return
    axis = counts.index(max(counts))
    cut = _cut(ranges[axis], array.chunks[axis])
    for half in (ranges[axis][:cut], ranges[axis][cut:]):
        yield from _split(array, (*ranges[:axis], half, *ranges[axis + 1 :]))


def _cut(positions: range, sizes: Any) -> int:
    """Return the number of positions before a border of chunks near the middle."""
    middle = positions[len(positions) // 2]
    if isinstance(sizes, int):
        begin = middle // sizes * sizes
        end = begin + sizes
    else:
        ends = np.cumsum(sizes)
        chunk = int(np.searchsorted(ends, middle, side="right"))
        begin, end = int(ends[chunk]) - int(sizes[chunk]), int(ends[chunk])
    border = begin if begin > positions.start else end
    return -((positions.start - border) // positions.step)


def read_extremes(array: Array, wanted: Wanted) -> Parts[Values]:
    """Return the least and the greatest of every `step` values along the one axis of a selection.

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
    span: Any = selection[axis]
    count = len(range(span.start, span.stop, span.step))
    _check_size((2, count), "float64")
    total = _check_work(array, _with(selection, axis, slice(span.start, span.stop, 1)))
    yield 6 * MAX_PIECE + 4 * 8 * count + _needed(array, total)
    found = np.full((2, count), np.nan)
    source = _Source(array)
    for start, stop in _pieces(array, axis, span):
        part = _with(selection, axis, slice(start, stop, 1))
        values = source.read(tuple(map(_positions, part))).reshape(-1)
        numbers = as_numbers(_decoded(values, decoder), kind)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan).astype("f8", copy=False)
        first, last = (start - span.start) // span.step, -(-(stop - span.start) // span.step)
        cuts = np.maximum(np.arange(first, last) * span.step + span.start - start, 0)
        for row, join in zip(found[:, first:last], (np.fmin, np.fmax), strict=True):
            join(row, join.reduceat(numbers, cuts), out=row)
        yield 0
    body = as_numbers(found, "float64").tobytes()
    return Values(body, (2, count), "float64", source.is_missing(total))


def _with(selection: tuple[int | slice, ...], axis: int, item: slice) -> tuple[int | slice, ...]:
    return (*selection[:axis], item, *selection[axis + 1 :])


def _pieces(array: Array, axis: int, span: slice) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of an axis that end at chunk borders and need little memory."""
    sizes = largest_sizes(array.chunks)
    nbytes = max(1, math.prod(sizes) * max(1, array.dtype.itemsize))
    length = max(1, sizes[axis]) * max(1, min(PART_CHUNKS, MAX_PIECE // nbytes))
    start = span.start
    while start < span.stop:
        stop = min(span.stop, (start // length + 1) * length)
        yield start, stop
        start = stop


def _check_size(shape: tuple[int, ...], kind: str) -> None:
    count = math.prod(max(n, 1) for n in shape)  # empty lists take memory, too
    if kind == TEXT and count > MAX_TEXTS:
        raise TooLarge(f"{count} values were selected; an answer as text has at most {MAX_TEXTS}")
    if kind != TEXT and math.prod(shape) * np.dtype(kind).itemsize > MAX_BYTES:
        raise TooLarge(
            f"{count} values of type {kind} were selected; an answer has at most"
            f" {MAX_BYTES} bytes: select less, or with a step"
        )


def _check_work(array: Array, selection: tuple[int | slice, ...]) -> int:
    """Return the number of chunks that a selection touches; raise if that is too much."""
    total, nbytes = work(array, selection)
    if total > MAX_CHUNKS:
        raise TooLarge(
            f"these values are in {total} chunks, more than the {MAX_CHUNKS} that one answer may"
            " need; select a smaller region or a smaller level"
        )
    if nbytes > MAX_DECODED:
        raise TooLarge(
            f"these values are in {total} chunks, about {nbytes} bytes, more than the {MAX_DECODED}"
            " that one answer may need; select a smaller region or a smaller level"
        )
    return total


# Encoding


def as_numbers(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """Return values as those of a transfer type, little-endian and in C order."""
    target = _stored_type(kind)
    if values.dtype.kind == "M":
        values = _milliseconds(values)
    elif values.dtype.kind == "m":
        values = np.where(np.isnat(values), np.nan, values.astype("i8").astype("f8"))
    elif values.dtype.kind == "c":
        values = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, target, order="C")


# Milliseconds of the units of NumPy that have a length.
_UNITS = {"W": 6048e5, "D": 864e5, "h": 36e5, "m": 6e4, "s": 1e3, "ms": 1.0}
_UNITS |= {"us": 1e-3, "ns": 1e-6, "ps": 1e-9, "fs": 1e-12, "as": 1e-15}


def _milliseconds(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the milliseconds of times since 1970 with their fraction; NaN for not-a-time."""
    unit, count = np.datetime_data(times.dtype)
    if unit not in _UNITS:  # months and years
        times, unit, count = times.astype("M8[D]"), "D", 1
    since = times.astype("i8").astype("f8") * (count * _UNITS[unit])
    return np.where(np.isnat(times), np.nan, since)


def plain_values(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values as what JSON can hold; 64-bit integers are strings."""
    exact = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    out = np.empty(values.size, object)
    for number, item in enumerate(values.reshape(-1)):
        out[number] = str(int(item)) if exact else plain(item)
    return out.reshape(values.shape)


def encode_text(values: npt.NDArray[Any]) -> bytes:
    """Return plain values as nested JSON lists."""
    nested = _nest(values.reshape(-1).tolist(), values.shape)
    return json.dumps(nested, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _nest(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if len(shape) < 2:
        return flat if shape else flat[0]
    size = math.prod(shape[1:])
    return [_nest(flat[n * size : (n + 1) * size], shape[1:]) for n in range(shape[0])]


_EXACT = 2**53
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as Zarr writes them


def plain(value: Any) -> Any:
    """Return a value, of NumPy or from JSON, as what JSON can hold.

    Infinities, NaN and integers beyond 2⁵³ become strings, complex numbers pairs, bytes text, times
    of all calendars ISO 8601, records lists of their fields.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.void):
        if value.dtype.names is not None:
            return [plain(value[name]) for name in value.dtype.names]
        return value.tobytes().hex()
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value] if value.ndim else plain(value[()])
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else value_text(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, (np.bool_, np.str_)):
        return value.item()
    if isinstance(value, (int, np.integer)):
        return int(value) if abs(int(value)) <= _EXACT else str(int(value))
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else _NOT_FINITE[str(float(value))]
    if isinstance(value, (complex, np.complexfloating)):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    # Objects of cftime have this method too.
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
