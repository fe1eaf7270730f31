"""The stored chunks of an array: listing, counting, resizing, and writing complete chunks."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import engine, errors, stores
from omnizarr.chunk_grids import covering
from omnizarr.codecs.codec import Buffer, is_fill
from omnizarr.codecs.sharding import present
from omnizarr.codecs.specify import inner_chunk_shape
from omnizarr.data_types.data_type import as_elements
from omnizarr.engine import BoundArray, Stream, chunk_context, exclusive
from omnizarr.errors import ChunkError, InvalidArgument, ReadOnly, SelectionError, StoreError, warn
from omnizarr.hierarchy.selection import broadcast
from omnizarr.indexing import Plan, plan
from omnizarr.model import ArrayModel, paths
from omnizarr.stores.base import HasSizes, ListsEntries, traits

if TYPE_CHECKING:
    from omnizarr.hierarchy.array import Array

Coords = tuple[int, ...]
Outside: TypeAlias = Literal["keep", "erase", "erase-chunks"]
OUTSIDE = ("keep", "erase", "erase-chunks")
BATCH = 256  # chunks in one batch of requests
MAX_GRID = 2**27  # chunks, each with one byte of an array in memory
MAX_BORDER = 2**26  # bytes of border chunks that are read to see if they have old values


def _listed_keys(array: BoundArray) -> Iterator[tuple[Coords, str]]:
    """Yield the coordinates and keys of all chunks that the store lists, also outside the grid."""
    start, rank = len(array.prefix), len(array.model.shape)
    for key in stores.list_prefix(array.chunk_store, array.prefix):
        coords = array.encoding.coords(key[start:], rank)
        if coords is not None:
            yield coords, key


def _listed_sizes(array: BoundArray) -> Iterator[tuple[Coords, int]]:
    """Yield the coordinates and bytes of all values with chunks, as `_listed_keys` does."""
    start, rank = len(array.prefix), len(array.model.shape)
    for key, size in stores.list_sizes(array.store, array.prefix):
        coords = array.encoding.coords(key[start:], rank)
        if coords is not None:
            yield coords, size


def _is_inside(coords: Coords, counts: Coords) -> bool:
    return all(c < n for c, n in zip(coords, counts, strict=True))


def stored_keys(array: BoundArray) -> Iterator[tuple[Coords, str]]:
    """Yield the coordinates and keys of all stored chunks; of shards in version 3, the shards."""
    listed = False
    for coords, key in _listed_keys(array):
        if _is_inside(coords, array.grid.shape):
            listed = True
            yield coords, key
    if not listed:
        yield from probe_stored_keys(array)


def stored_chunks(array: BoundArray) -> Iterator[tuple[Coords, int]]:
    """Yield the coordinates of stored chunks, and their bytes: decoded if no listing has them."""
    store = array.store
    has_sizes = isinstance(store, ListsEntries) or (
        stores.traits(store).low_latency and isinstance(store, HasSizes) and stores.can_list(store)
    )
    found = False
    if has_sizes and array.chunk_store is store:
        for coords, size in _listed_sizes(array):
            if _is_inside(coords, array.grid.shape):
                found = True
                yield coords, size
    if not found:
        for coords, _ in stored_keys(array):
            yield coords, decoded_size(array, coords)


def decoded_size(array: BoundArray, coords: Coords) -> int:
    """Return the size of a chunk in memory; for variable-length items, of the pointers only."""
    return math.prod(array.grid.chunk_shape(coords)) * array.dtype.itemsize


def probe_stored_keys(array: BoundArray) -> Iterator[tuple[Coords, str]]:
    """Yield the stored chunks of a store that may not list all keys, by probing each chunk."""
    if traits(array.store).lists_all:
        return
    coords = itertools.product(*map(range, array.grid.shape))
    while some := [*itertools.islice(coords, BATCH)]:
        keys = [array.key(each) for each in some]
        values = stores.get_many(array.chunk_store, [(key, stores.Range(0, 1)) for key in keys])
        for each, key, value in zip(some, keys, values, strict=True):
            if value is not None:
                yield each, key


def chunk_counts(array: BoundArray) -> Coords:
    """Return the number of chunks along each axis; for shards, of the chunks inside them."""
    inner = inner_chunk_shape(array.model)
    if inner is None:
        return array.grid.shape
    return tuple(-(-n // c) for n, c in zip(array.model.shape, inner, strict=True))


def missing_chunk_keys(array: BoundArray) -> Iterator[tuple[Coords, str]]:
    """Yield coordinates and keys of missing chunks, none in a shard whose index is damaged."""
    inner = inner_chunk_shape(array.model)
    for row in np.argwhere(~chunks_present(array, damaged=True)):
        coords = outer = tuple(map(int, row))
        if inner is not None:
            triples = zip(array.grid.axes, coords, inner, strict=True)
            outer = tuple(axis.chunk_of(n * c) for axis, n, c in triples)
        yield coords, array.stored_key(outer)


def chunks_present(
    array: BoundArray, region: Sequence[slice] | None = None, damaged: bool = False
) -> npt.NDArray[np.bool_]:
    """Return for every chunk whether it is stored; the index of every shard is read.

    `region` has a slice of the chunk grid for each axis, without steps; the result is that part.
    With `damaged`, a shard whose index cannot be read has all of its chunks.
    """
    counts = chunk_counts(array)
    wanted = [range(n) for n in counts]
    if region is not None:
        if len(region) != len(counts) or any(s.step not in (None, 1) for s in region):
            raise SelectionError(
                f"expected a slice without step for each axis of {counts}, got {region!r}"
            )
        wanted = [range(n)[s] for n, s in zip(counts, region, strict=True)]
    shape = tuple(map(len, wanted))
    if math.prod(shape) > MAX_GRID:
        raise SelectionError(
            f"{paths.show(array.path)} has {math.prod(shape)} chunks, too many to list; give a"
            " region of the chunk grid, or use stored_chunks(), which yields the stored chunks"
        )
    found = np.zeros(shape, bool)
    starts = [r.start for r in wanted]
    for first, there in present_boxes(array, damaged):
        corner = [p - s for p, s in zip(first, starts, strict=True)]
        inside = tuple(slice(max(-p, 0), max(n - p, 0)) for p, n in zip(corner, shape, strict=True))
        part = there[inside]
        if part.size:
            places = (max(p, 0) for p in corner)
            found[tuple(slice(p, p + n) for p, n in zip(places, part.shape, strict=True))] = part
    return found


def present_chunks(array: BoundArray) -> Iterator[Coords]:
    """Yield the coordinates of stored chunks; the index of every shard is read."""
    for first, there in present_boxes(array):
        for row in np.argwhere(there):
            yield tuple(int(p + n) for p, n in zip(first, row, strict=True))


def present_boxes(
    array: BoundArray, damaged: bool = False
) -> Iterator[tuple[Coords, npt.NDArray[np.bool_]]]:
    """Yield boxes of the chunk grid: the first coordinates, and which of the chunks are stored."""
    inner, counts = inner_chunk_shape(array.model), chunk_counts(array)
    for coords, key in stored_keys(array):
        if inner is None:
            yield coords, np.ones((1,) * len(coords), bool)
            continue
        shape = array.grid.chunk_shape(coords)
        first = tuple(o // c for o, c in zip(array.grid.origin(coords), inner, strict=True))
        try:
            with chunk_context("read", array, coords):
                there = _in_shard(array, shape, key)
        except ChunkError:
            if not damaged:
                raise
            pairs = zip(shape, inner, strict=True)
            there = np.ones([-(-n // c) for n, c in pairs], bool)
        if there is not None:  # cut at the end of the array
            yield first, there[tuple(slice(n - p) for n, p in zip(counts, first, strict=True))]


def _in_shard(array: BoundArray, shape: Coords, key: str) -> npt.NDArray[np.bool_] | None:
    """Return which chunks a shard has, along the array's axes; None if the shard was erased."""
    found = array.pipeline(shape).sharded
    if found is None:
        raise StoreError(
            "its codecs come between the shard and the store, so which chunks it holds cannot be"
            " known without decoding it"
        )
    shards, axes = found
    stored = array.chunk_store.get(key, shards.layout.index_range)
    if stored is None:
        return None
    numbers = present(shards.index(stored))
    there = np.zeros(shards.layout.count, bool)  # not more than the index that was read
    there[numbers] = True
    return there.reshape(shards.layout.counts).transpose(np.argsort(axes))


def stored_size(array: BoundArray) -> int:
    """Return the bytes of all stored values with chunks; the keys are listed."""
    listed = [size for _, size in _listed_sizes(array)]
    if listed:
        return sum(listed)
    return sum(stores.sizes(array.store, (k for _, k in probe_stored_keys(array))).values())


def check_coords(array: BoundArray, given: Iterable[int]) -> Coords:
    """Return coordinates as a tuple; raise if the grid has no such chunk."""
    coords, counts = tuple(given), array.grid.shape
    if len(coords) != len(counts) or min(coords, default=0) < 0 or not _is_inside(coords, counts):
        raise SelectionError(f"there is no chunk {coords} in a grid of {counts}")
    return coords


def check_encoded_chunk(array: BoundArray, coords: Coords, data: Buffer) -> None:
    """Raise if bytes cannot be decoded as a chunk of an array."""
    path = paths.show(array.path)
    where = f"not stored: these bytes are no chunk {coords} of {path}"
    key = array.key(coords)
    with errors.error_context(where, into=ChunkError, path=path, chunk=coords, key=key):
        array.pipeline(array.grid.chunk_shape(coords)).decode(data)


def put_encoded_chunk(array: BoundArray, coords: Coords, data: bytes) -> None:
    """Store the bytes of one chunk, after decoding them as a check."""
    array.check_skipped()
    watch: Any = array.watch
    check_encoded_chunk(array, coords, data)
    with exclusive(array, [array.key(coords)]):
        array.confirm()
        compared = watch is None or stores.supports_compare_and_set(array.store)
        if not compared and array.reaches_beyond(coords) and not watch.confirm_shape():
            # A whole chunk would replace what the other writer appends.
            raise errors.Conflict(
                f"chunk {coords} of {paths.show(array.path)} was not stored: another writer appends"
                " to the array, or has changed its shape; call refresh() and try again"
            )
        array.put_encoded(coords, data)


SHOWN = 5  # keys in a warning


@dataclass(eq=False, repr=False)
class Writer:
    """Store assigned values once a chunk or shard is complete, or at the end.

    Assigned values can be read from the array only after they were stored: at the latest when the
    ``with`` block ends, also when it ends with an error. A writer that is dropped without being
    closed warns (`ResourceWarning`) of what it has not stored.
    """

    _handle: Array
    _stream: Stream
    _open: bool = True
    _process: int = field(default_factory=os.getpid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __setitem__(self, selection: Any, value: Any) -> None:
        if not self._open:
            raise ReadOnly("this writer is closed; call array.writer() for a new one")
        array = self._handle._data
        array.confirm()  # raises if it was replaced, moved or deleted
        try:
            planned, values = _plan_values(array, selection, value)
        except SelectionError:
            # Another handle may have changed the shape.
            with self._handle._with_locked_shape() as array:
                planned, values = _plan_values(array, selection, value)
        with self._handle._config.active():
            self._stream.put(array, planned, values)

    def flush(self) -> None:
        """Store everything that was assigned so far."""
        with self._handle._config.active():
            self._stream.flush()

    def close(self) -> None:
        """Store everything, and accept no more; a second call does nothing."""
        if self._open:
            self.flush()
            self._open = False

    def __del__(self) -> None:
        if not getattr(self, "_open", False) or self._process != os.getpid():
            return
        keys = self._stream.keys()
        if keys:
            more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
            message = (
                f"a writer of {self._stream.array.store!r} was dropped without close(); not"
                f" stored: {', '.join(keys[:SHOWN])}{more}"
            )
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)


def _plan_values(array: BoundArray, selection: Any, value: Any) -> tuple[Plan, npt.NDArray[Any]]:
    planned = plan(array.grid, selection)
    values = as_elements(value, array.data_type, array.path)
    return planned, planned.to_full(broadcast(values, planned.shape))


MAX_LISTED = 10**7


def chunk_lengths(array: BoundArray) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the stored values along each axis; raise if there are too many."""
    count = max(array.grid.shape, default=0)
    if count > MAX_LISTED:
        raise errors.InvalidMetadata(
            f"{paths.show(array.path)} has {count} chunks along one axis, more than {MAX_LISTED};"
            " see chunks and shards for their shape"
        )
    return tuple(
        tuple(min(int(a.size(k)), a.length - int(a.start(k))) for k in range(a.count))
        for a in array.grid.axes
    )


def resize(array: BoundArray, shape: tuple[int, ...], outside: str) -> ArrayModel:
    """Return the model with a new shape, after erasing, or warning of, chunks outside it."""
    model = _checked(array, shape, outside)
    inner = tuple(map(min, array.model.shape, shape))
    if outside == "keep":
        if not inner == array.model.shape == shape:
            _warn_of_outside(array, inner, shape)
        return model
    array.check_skipped()
    left = _outside(array, inner)
    with engine.exclusive(array, left):
        for key in left:
            array.chunk_store.erase(key)
    if outside == "erase":
        _clear_border(array, inner)
    return model


def with_shape(model: ArrayModel, shape: tuple[int, ...]) -> ArrayModel:
    """Return the model of an array with another shape, and a chunk grid that covers it."""
    grid = covering(model.chunk_grid, shape, inner_chunk_shape(model))
    return model.with_(shape=shape, chunk_grid=grid)


def shrunken_shape(array: BoundArray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the old shape cut to a new one, to be stored before elements outside are erased."""
    _checked(array, shape, "erase")
    array.check_skipped()
    inner = tuple(map(min, array.model.shape, shape))
    if not stores.traits(array.store).erases and _outside(array, inner):
        raise StoreError(
            f"cannot erase the chunks outside {shape} of {paths.show(array.path)}: {array.store!r}"
            " cannot delete; resize(..., outside='keep') keeps them"
        ) from NotImplementedError("delete")
    return inner


def _checked(array: BoundArray, shape: tuple[int, ...], outside: str) -> ArrayModel:
    """Return the model with the new shape; raise if the array cannot have it."""
    if outside not in OUTSIDE:
        raise InvalidArgument(f"outside must be one of {OUTSIDE}, got {outside!r}")
    old = array.model.shape
    if len(shape) != len(old) or any(n < 0 for n in shape):
        raise InvalidArgument(
            f"cannot resize {old} to {shape}: expected {len(old)} lengths of at least 0"
        )
    model = with_shape(array.model, shape)
    array.reshaped(model).check()  # a grid of another package may not cover the new shape
    return model


def grow_array(
    array: BoundArray, values: npt.NDArray[Any], axis: int
) -> tuple[BoundArray, tuple[slice, ...]]:
    """Return the array grown by the length of `values` along an axis, and the new selection."""
    shape, rank = array.model.shape, len(array.model.shape)
    number = axis + rank if axis < 0 else axis
    rest = [n for i, n in enumerate(values.shape) if i != number]
    inside = 0 <= number < rank == values.ndim
    if not inside or rest != [n for i, n in enumerate(shape) if i != number]:
        raise SelectionError(
            f"cannot append values of shape {values.shape} to {shape} along axis {axis}"
        )
    lengths = list(shape)
    lengths[number] += values.shape[number]
    if math.prod(lengths) >= 2**63:
        raise InvalidArgument(
            f"cannot append to {shape}: the product of {tuple(lengths)} does not fit into 63 bits"
        )
    larger = array.reshaped(with_shape(array.model, tuple(lengths)))
    return larger, (slice(None),) * number + (slice(shape[number], None),)


def _outside(array: BoundArray, inner: tuple[int, ...]) -> list[str]:
    """Return the keys of stored chunks that have no element inside a shape."""
    if not stores.can_list(array.store):
        return []
    counts = array.reshaped(array.model.with_(shape=inner)).grid.shape
    return [key for coords, key in _listed_keys(array) if not _is_inside(coords, counts)]


def _warn_of_outside(array: BoundArray, inner: Coords, shape: Coords) -> None:
    """Warn of stored elements outside `inner` that are hidden, or visible again.

    Hidden elements are in the border chunks. Those that are visible again may have been cleared, so
    that their chunks are read, but not more of these than `MAX_BORDER` bytes.
    """
    grows = any(b > a for a, b in zip(array.model.shape, shape, strict=True))
    border, left = 0, MAX_BORDER
    for coords, kept in _border(array, inner, shape if grows else array.model.shape):
        left -= decoded_size(array, coords)
        border += not grows or (left >= 0 and _has_values(array, coords, kept, shape))
    chunks = len(_outside(array, inner))
    texts = {f"{chunks} chunks": chunks, f"elements of {border} border chunks": border}
    found = [text for text, count in texts.items() if count]
    if found:
        what = "show again" if grows else "are kept, but not shown"
        where = f"{' and '.join(found)} outside {inner} of {paths.show(array.path)}"
        warn(f"{where} {what}; resize(..., outside='erase') removes them")


def _has_values(array: BoundArray, coords: Coords, kept: tuple[slice, ...], shape: Coords) -> bool:
    """Return True if a chunk has values other than the fill value in a shape, outside `kept`."""
    try:
        chunk = engine.read_chunk(array, coords)
    except errors.OmnizarrError:  # a damaged chunk is reported to who reads it
        return False
    if chunk is None:
        return False
    seen = chunk[tuple(slice(n) for n in array.grid.inside(coords, shape))]
    seen[kept] = array.fill
    return not is_fill(seen, array.fill)


def _border(
    array: BoundArray, inner: Coords, outer: Coords | None = None
) -> Iterator[tuple[Coords, tuple[slice, ...]]]:
    """Yield stored chunks partly inside `inner`, with that part; nothing outside `outer` counts."""
    if 0 in inner or not stores.can_list(array.store):
        return
    grid = array.reshaped(array.model.with_(shape=inner)).grid
    for coords, _ in list(_listed_keys(array)):
        if not _is_inside(coords, grid.shape):
            continue
        whole = grid.chunk_shape(coords) if outer is None else grid.inside(coords, outer)
        inside = grid.inside(coords)
        if inside != whole:
            yield coords, tuple(slice(n) for n in inside)


def _clear_border(array: BoundArray, inner: tuple[int, ...]) -> None:
    """Store the fill value in the elements of border chunks outside a shape."""
    small = array.reshaped(array.model.with_(shape=inner))
    for coords, kept in _border(array, inner):
        with engine.exclusive(small, [small.key(coords)]):
            chunk = engine.read_chunk(small, coords)
            if chunk is None:
                continue
            cleared = np.empty_like(chunk)
            cleared[...] = small.fill
            cleared[kept] = chunk[kept]
            engine.write_chunk(small, coords, cleared)
