"""Shapes of chunks and shards for the reads that a program will do, and what these reads cost.

The time of a read is estimated from its bytes and its requests; a request takes as long as a
number of bytes that depends on the store (`_KINDS`). Axes are halved as for ``chunks="auto"``, but
in the order that keeps the slowest of the given reads fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from omnizarr import config, extension
from omnizarr.errors import CannotExpress, InvalidArgument, WrongType, known_names
from omnizarr.extension import TARGET_BYTES, byte_size, counted, data_types, guess_chunks, size_text

Pattern: TypeAlias = Literal["blocks", "planes", "series", "samples"]
ReadShape: TypeAlias = Pattern | Sequence[int] | Mapping[Any, int]
MAX_FILES = 1000  # of an array; with more chunks, they are put into shards


# The bytes that are read in the time of a request, and the bytes of a chunk, by kind of store.
_KINDS = {"local": (2**16, TARGET_BYTES), "remote": (2**21, 2**22)}
_PATTERNS = ("blocks", "planes", "series", "samples")


@dataclass(frozen=True, slots=True)
class Read:
    """Costs of reading a part of an array: means over all places where the part can be.

    `requests` is an upper limit for arrays with shards, of which neighbouring chunks are read in
    one request; it includes one for the index of each shard. `nbytes` are the bytes of the part,
    `nbytes_read` the bytes of all chunks that it touches, both before compression.
    """

    name: str
    shape: tuple[int, ...]
    chunks: float
    requests: float
    nbytes: int
    nbytes_read: float


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Shapes of chunks and shards (None without), as `suggest_chunks` returns them.

    ``create_array(…, **suggestion.options)`` uses them; `str` shows sizes and the costs of `reads`:
    your reads, then others for comparison.
    """

    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    itemsize: int
    reads: tuple[Read, ...]

    @property
    def options(self) -> extension.ArrayOptions:
        """The options of `create_array`: ``chunks``, and ``shards`` if there are any."""
        return {"chunks": self.chunks, **({} if self.shards is None else {"shards": self.shards})}

    @property
    def nfiles(self) -> int:
        """The number of files or objects: shards, or else chunks."""
        return _count(self.shape, self.shards or self.chunks)

    def __str__(self) -> str:
        sizes = [
            ("array", self.shape, self.dtype),
            ("chunks", self.chunks, counted(_count(self.shape, self.chunks), "chunk")),
        ]
        if self.shards is not None:
            inner = counted(_count(self.shards, self.chunks), "chunk")
            text = f"{counted(self.nfiles, 'file')} of {inner}"
            sizes.append(("shards", self.shards, text))
        rows = [
            (name, str(shape), size_text(math.prod(shape) * self.itemsize), more)
            for name, shape, more in sizes
        ]
        most = "requests" if self.shards is None else "requests at most"
        costs = [("read", "shape", "size", "chunks", most, "bytes read")]
        for read in self.reads:
            size, nbytes = size_text(read.nbytes), size_text(round(read.nbytes_read))
            numbers = f"{read.chunks:.4g}", f"{read.requests:.4g}"
            costs.append((read.name, str(read.shape), size, *numbers, nbytes))
        return "\n".join([*_columns(rows, "<<><"), "", *_columns(costs, "<<>>>>")])


def suggest_chunks(
    shape: Any,
    dtype: Any = None,
    *,
    read: ReadShape | list[ReadShape] = "blocks",
    store: Literal["local", "remote"] = "local",
    zarr_format: int | str | None = None,
    dimension_names: Iterable[str | None] | None = None,
    chunk_bytes: int | str | None = None,
    shard_bytes: int | str | None = None,
) -> Suggestion:
    """Suggest shapes of chunks and shards for an array that is read in a certain way.

    `read` is the part that is read at a time:

    - ``"blocks"``: parts of any place and shape, with the chunks of ``chunks="auto"``
    - ``"planes"``: the last two axes at one index of the others
    - ``"series"``: the first axis at one index of the others
    - ``"samples"``: one index of the first axis with all of the others
    - a length for each axis, such as ``(1, 256, 256)``; -1 is the whole axis
    - lengths by dimension name or axis, such as ``{"time": -1}``, and 1 along the others
    - a list of these, if several kinds of reads should all be quick

    If there would be more than 1000 chunks, and the format has shards, they are put into shards.
    Sizes are before compression.

    Args:
        shape: A shape, or an array, whose shape, data type and dimension names are used.
        dtype: The type of the elements, as NumPy or Zarr name it.
        read: The part that is read at a time, as above.
        store: ``"local"``, or ``"remote"`` for servers, where fewer and larger chunks are better.
        zarr_format: The format of the array; by default the format of new arrays.
        dimension_names: A name, or None, for every axis.
        chunk_bytes: The bytes of a chunk in memory at most, unless one element is larger; by
            default 1 MiB, on servers 4 MiB.
        shard_bytes: The bytes of a shard in memory at most; by default 64 MiB.

    Returns:
        The shapes, and the costs of reads.

    Raises:
        InvalidArgument: If a read does not fit the shape, or another argument is not valid.

    Examples:
        >>> found = oz.suggest_chunks((365, 720, 1440), "f4", read="planes")
        >>> found.chunks
        (1, 360, 720)
        >>> array = oz.create_array("ocean.zarr", shape=found.shape, dtype="f4", **found.options)
        >>> oz.suggest_chunks(array, read=["planes", "series"], store="remote").reads[0].name
        'planes'
    """
    if hasattr(shape, "shape"):
        dtype = shape.dtype if dtype is None else dtype
        dimension_names = dimension_names or getattr(shape, "dimension_names", None)
        shape = shape.shape
    lengths = extension.lengths_of(shape)
    names = None if dimension_names is None else tuple(dimension_names)
    if store not in _KINDS:
        raise InvalidArgument(f"store: unknown kind {store!r}; {known_names(store, _KINDS)}")
    request_bytes, most = _KINDS[store]
    format = extension.by_name(config.get().zarr_format if zarr_format is None else zarr_format)
    model = extension.array_model(format, lengths, dtype, {"chunks": False})
    itemsize = extension.stored_bytes(data_types.bind(model.data_type))
    wanted = {
        str(each): _read_lengths(each, lengths, names)
        for each in (read if isinstance(read, list) else [read])
    }
    if not wanted:
        raise InvalidArgument("read: the list is empty; give at least one kind of read")
    limit = most if chunk_bytes is None else byte_size(chunk_bytes, "chunk_bytes")
    shard = extension.SHARD_BYTES if shard_bytes is None else byte_size(shard_bytes, "shard_bytes")
    known = [size for size in wanted.values() if size is not None]
    cost = partial(_costs, lengths, itemsize, known, request_bytes) if known else None
    chunks = guess_chunks(lengths, itemsize, limit, cost)
    many = _count(lengths, chunks) > MAX_FILES
    shards = _shards(format, model, chunks, shard) if many else None
    reads = _reads(lengths, itemsize, chunks, shards, wanted)
    return Suggestion(
        lengths, extension.type_name(model.data_type), chunks, shards, itemsize, reads
    )


def _costs(
    shape: tuple[int, ...],
    itemsize: int,
    reads: list[tuple[int, ...]],
    request_bytes: int,
    chunks: tuple[int, ...],
) -> tuple[int, ...]:
    """Return the costs of the slowest read and of all reads, with times expressed in bytes.

    They are the same for times that differ by less than a tenth or so: otherwise the rounding of
    halved lengths would decide between axes, not their lengths.
    """
    one = request_bytes + math.prod(chunks) * itemsize
    times = [touched(shape, chunks, read) * one for read in reads]
    return tuple(round(8 * math.log2(max(1.0, time))) for time in (max(times), sum(times)))


def touched(shape: Sequence[int], chunks: Sequence[int], read: Sequence[int]) -> float:
    """Return the mean number of chunks that have a part in a read, over all places of the read."""
    return math.prod(map(_touched, shape, chunks, read))


def _touched(length: int, chunk: int, read: int) -> float:
    """Return the mean number of chunks in `read` elements of an axis, over all first elements."""

    def numbers(stop: int) -> int:  # the sum of the chunk numbers of elements before `stop`
        full, rest = divmod(stop, chunk)
        return chunk * (full * (full - 1) // 2) + full * rest

    places = length - read + 1
    return 1 + (numbers(length) - numbers(read - 1) - numbers(places)) / places if read else 0.0


def _read_lengths(
    read: Any, shape: tuple[int, ...], names: tuple[str | None, ...] | None
) -> tuple[int, ...] | None:
    """Return the shape of a read, or None for parts of any shape."""
    rank = len(shape)
    if isinstance(read, str):
        if read not in _PATTERNS:
            raise InvalidArgument(f"read: unknown pattern {read!r}; {known_names(read, _PATTERNS)}")
        if read == "blocks":
            return None
        whole = {"planes": range(rank)[-2:], "series": range(rank)[:1], "samples": range(rank)[1:]}
        return tuple(n if i in whole[read] else min(n, 1) for i, n in enumerate(shape))
    if isinstance(read, Mapping):
        lengths = [1] * rank
        for axis, length in read.items():
            lengths[_axis(axis, rank, names)] = length
    else:
        lengths = list(read) if isinstance(read, Iterable) else [read]
    if len(lengths) != rank:
        raise InvalidArgument(
            f"read: {read!r} has {len(lengths)} lengths, the shape {shape} has {rank}; -1 stands"
            " for a whole axis"
        )
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)):
            raise WrongType(f"read: expected lengths as integers, got {read!r}")
        if length < -1 or length == 0:
            raise InvalidArgument(f"read: a length is positive, or -1 for the axis, got {read!r}")
    return tuple(
        n if length == -1 else min(int(length), n) for length, n in zip(lengths, shape, strict=True)
    )


def _axis(axis: Any, rank: int, names: tuple[str | None, ...] | None) -> int:
    if isinstance(axis, (int, np.integer)) and -rank <= axis < rank:
        return int(axis) % rank
    if names is not None and axis in names:
        return names.index(axis)
    known = f"the dimensions are {list(names)}" if names else "name them with dimension_names"
    raise InvalidArgument(f"read: no axis {axis!r} in an array of {rank} axes; {known}")


def _shards(
    format: extension.Format, model: extension.ArrayModel, chunks: tuple[int, ...], size: int
) -> tuple[int, ...] | None:
    """Return the shape of shards of at most `size` bytes, or None if the format has none."""
    grid = model.with_(chunk_grid=extension.Named("regular", {"chunk_shape": list(chunks)}))
    shards = extension.shard_shape(f"{max(1, size)} B", grid, data_types.bind(model.data_type))
    try:
        format.sharded(grid, shards)
    except CannotExpress:
        return None
    return shards


def _reads(
    shape: tuple[int, ...],
    itemsize: int,
    chunks: tuple[int, ...],
    shards: tuple[int, ...] | None,
    wanted: Mapping[str, tuple[int, ...] | None],
) -> tuple[Read, ...]:
    """Return the costs of the wanted reads, then of others, but for parts with the same shape."""
    block = tuple(map(min, shape, guess_chunks(shape, itemsize, TARGET_BYTES)))
    parts = {name: block if part is None else part for name, part in wanted.items()}
    for name in ("planes", "series"):
        parts.setdefault(name, _read_lengths(name, shape, None) or block)
    parts["everything"] = shape
    found: dict[tuple[int, ...], Read] = {}
    for name, part in parts.items():
        if part in found and name not in wanted:
            continue
        count = touched(shape, chunks, part)
        # The index of a shard is read before its chunks and, in case it changed, after them.
        requests = count if shards is None else count + 2 * touched(shape, shards, part)
        read = math.prod(chunks) * itemsize * count
        found[part] = Read(name, part, count, requests, math.prod(part) * itemsize, read)
    return tuple(found.values())


def _count(shape: Sequence[int], chunks: Sequence[int]) -> int:
    return math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def _columns(rows: Sequence[tuple[str, ...]], align: str) -> list[str]:
    """Return lines with the cells of rows below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{{:{side}{width}}}" for side, width in zip(align, widths, strict=True)]
    return ["  ".join(formats).format(*row).rstrip() for row in rows]
