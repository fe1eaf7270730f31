"""Shuffled batches of rows: while one window is in use, other threads read the next.

Rows that are stored together are a block. The blocks are shuffled, and cut into windows of several
blocks each; the rows of a window are shuffled among themselves. So every window is read with few
large reads, and every chunk once. The order follows from the seed and the blocks alone; the
generator of random numbers is one whose results are the same in every version of NumPy.
"""

from __future__ import annotations

import contextvars
import itertools
import math
import operator
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import Array, View
from omnizarr.bulk.tiles import chunk_axes, stored_axes
from omnizarr.bulk.windows import Axis, Edges, Lengths, Regions, Windows, find_windows
from omnizarr.errors import InvalidArgument, WrongType
from omnizarr.extension import (
    GridAxis,
    Integers,
    RegularAxis,
    ThreadPool,
    as_plain,
    byte_size,
    fork,
)

Source: TypeAlias = "Array | View | npt.NDArray[Any]"
Values: TypeAlias = npt.NDArray[Any]

MIXED = 8  # blocks in a window, at least: what is stored together comes apart
MAX_BLOCKS = 2**20
WINDOW_BYTES = 32  # of numbers that a sample takes in memory

Pick: TypeAlias = "range | Integers"

_readers = ThreadPool(4, "omnizarr-batches")


def batches(
    arrays: Source | tuple[Source, ...] | Mapping[str, Source],
    size: int,
    *,
    seed: int | None = None,
    start: int = 0,
    worker: int = 0,
    workers: int = 1,
    budget: int | str = "256MB",
    drop_last: bool = False,
    sample: Lengths | None = None,
    stride: Lengths | None = None,
    edges: Edges = "drop",
    shuffle: bool = True,
) -> Batches:
    """Return an iterator of the rows of an array in a random order, `size` of them at a time.

    A row is everything at one index of the first axis. Every row comes once. Rows are read in
    large parts, each chunk or shard once, and ahead of their use: blocks of rows that are stored
    together are shuffled, and the rows of at least eight blocks are mixed.

    With `sample`, windows of the array take the place of rows. They are read in groups of
    neighbours; chunks that several groups need are decoded for each, on average at most 1.2 times
    if the budget allows that.

    Args:
        arrays: An array, a view (``array.view[...]``) or a NumPy array; or a tuple or a mapping of
            several with equal lengths, such as images and labels. Batches are NumPy arrays, or
            tuples or dictionaries of them.
        size: The rows of a batch; the last one may have fewer.
        seed: A number from which the order follows. By default one is drawn, see `Batches.seed`.
            The order also depends on the shape and chunks of the array, `workers` and `budget`.
        start: The number of batches to leave out: to go on after an interruption,
            `Batches.position`.
        worker: The number of this worker, from 0. Each row goes to exactly one of them.
        workers: The number of all workers.
        budget: The bytes of rows that are kept in memory and read ahead, at least two rows.
        drop_last: True to leave out a last batch with fewer rows.
        sample: The shape of a window, by names of dimensions, such as ``{"time": 6, "y": 256}``,
            whose other axes are whole; or a length for every axis. All arrays have one shape then.
        stride: The distances from one window to the next, as `sample`; by default windows touch.
        edges: ``"drop"`` leaves out windows that would reach beyond the array; with ``"pad"``
            they are filled up with the fill value, and every element is in a window.
        shuffle: False for all rows or windows in their order.

    Raises:
        InvalidArgument: If the arrays have different lengths, or an option is not valid.

    Examples:
        >>> images = oz.create_array(shape=(100, 4, 4), fill_value=1, chunks=(10, 4, 4))
        >>> labels = oz.create_array(data=np.arange(100))
        >>> for some, their_labels in oz.batches((images, labels), 64, seed=1):
        ...     print(some.shape, their_labels.shape)
        (64, 4, 4) (64,)
        (36, 4, 4) (36,)
        >>> [b.shape for b in oz.batches(images, 64, sample=(50, 2, 2), shuffle=False)]
        [(8, 50, 2, 2)]
    """
    size, start = _number("size", size, 1), _number("start", start, 0)
    workers, worker = _number("workers", workers, 1), _number("worker", worker, 0)
    if worker >= workers:
        raise InvalidArgument(f"worker must be less than workers, {workers}, got {worker}")
    chosen = secrets.randbits(63) if seed is None else _number("seed", seed, 0)
    several = tuple(arrays.values()) if isinstance(arrays, Mapping) else arrays
    sources = several if isinstance(several, tuple) else (several,)
    nbytes = byte_size(budget, "budget") // 2
    windows = None
    if sample is None:
        if stride is not None or edges != "drop":
            raise InvalidArgument("stride and edges are those of samples; give sample, too")
        _check_sources(sources)
        most = together = max(1, nbytes // max(1, sum(map(_row_bytes, sources))))
        blocks = _blocks(max(sources, key=_row_bytes), max(1, most // MIXED), shuffle)
    else:
        _check_sources(sources, whole=True)
        stored = [source for source in sources if not isinstance(source, np.ndarray)]
        axes = _axes(max(stored or sources, key=lambda source: source.dtype.itemsize))
        items = nbytes // max(1, sum(source.dtype.itemsize for source in sources))
        windows = find_windows(sources[0].shape, axes, items, sample, stride, edges, shuffle)
        blocks = Blocks(windows.bounds)
        most, together = max(1, nbytes // WINDOW_BYTES), windows.together
    order = make_order(blocks, most, chosen, worker, workers, together=together, shuffled=shuffle)
    names = tuple(arrays) if isinstance(arrays, Mapping) else isinstance(arrays, tuple)
    return Batches(sources, names, order, size, start, drop_last, windows)


# Its number, its rows or samples as they are stored, and the order in which they are given.
_Window: TypeAlias = "tuple[int, list[Values | Regions], Integers]"


class Batches(Iterator[Any]):
    """An iterator of batches, see `omnizarr.batches`.

    It can be pickled, and goes on at its position in another process. After an error the same
    batch is tried again.
    """

    def __init__(
        self,
        sources: tuple[Source, ...],
        names: tuple[str, ...] | bool,
        order: Order,
        size: int,
        position: int,
        drop_last: bool,
        windows: Windows | None = None,
    ) -> None:
        self._names = names  # of arrays in a dictionary; True for a tuple, False for one array
        self._sources, self._order, self._size, self._drop_last = sources, order, size, drop_last
        self._windows = windows  # None: rows
        self._position = min(position, len(self))
        self._begin()

    def _begin(self) -> None:
        self._lock = fork.lock()
        self._process = os.getpid()
        self._current: _Window | None = None
        self._ahead: tuple[int, Future[_Window]] | None = None

    @property
    def position(self) -> int:
        """The number of batches that were given, `start` included."""
        return self._position

    @property
    def seed(self) -> int:
        """The number from which the order follows."""
        return self._order.seed

    def __len__(self) -> int:
        """Return the number of all batches of this worker, including those already returned."""
        whole, rest = divmod(self._order.count, self._size)
        return whole + (1 if rest and not self._drop_last else 0)

    def __next__(self) -> Any:
        with self._lock:
            if self._position >= len(self):
                self.close()
                raise StopIteration
            at = self._position * self._size
            end = min(at + self._size, self._order.count)
            parts: list[list[Values]] = []
            while at < end:
                number, rows, order = self._load(self._order.window_of(at))
                first, last = self._order.span(number)
                chosen = order[at - first : min(end, last) - first]
                parts.append([values.take(chosen, axis=0) for values in rows])
                del rows  # before there is memory for the next window
                at = min(end, last)
            self._position += 1
            batch = [
                same[0] if len(same) == 1 else np.concatenate(same)
                for same in zip(*parts, strict=True)
            ]
            if isinstance(self._names, tuple):
                return dict(zip(self._names, batch, strict=True))
            return tuple(batch) if self._names else batch[0]

    def _load(self, number: int) -> _Window:
        """Return a window, and have the next one read meanwhile."""
        if self._current is not None and self._current[0] == number:
            return self._current
        self._current = None  # before there is memory for another one
        future = self._read_ahead(number)
        try:
            self._current = future.result()
        except Exception:
            self._ahead = None  # so that it is tried again
            raise
        self._ahead = None
        if number + 2 < len(self._order.bounds):
            self._read_ahead(number + 1)
        return self._current

    def _read_ahead(self, number: int) -> Future[_Window]:
        if self._process != os.getpid():  # a forked child has none of the threads
            self._process, self._ahead = os.getpid(), None
        if self._ahead is not None and self._ahead[0] == number:
            return self._ahead[1]
        context = contextvars.copy_context()  # with the settings of the caller
        read = partial(_read_window, self._sources, self._order, number, self._windows)
        future = _readers.submit(context.run, read)
        self._ahead = (number, future)
        return future

    def close(self) -> None:
        """Release the memory; the next batch, if one is asked for, is read anew."""
        with self._lock:
            if self._ahead is not None and self._process == os.getpid():
                self._ahead[1].cancel()
            self._current = self._ahead = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        temporary = ("_lock", "_process", "_current", "_ahead")
        return {k: v for k, v in self.__dict__.items() if k not in temporary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<batches of {self._size} rows, {self._position} of {len(self)} given>"


def _read_window(
    sources: tuple[Source, ...], order: Order, number: int, windows: Windows | None
) -> _Window:
    if windows is None:
        rows, shuffled = order.rows(number)
        return number, [_read(source, (rows,)) for source in sources], shuffled
    pieces = zip(*(column.tolist() for column in order.pieces(number)), strict=True)
    starts = [windows.starts(*piece) for piece in pieces]
    owners = np.repeat(np.arange(len(starts)), [*map(len, starts)])
    corners = [(some.min(axis=0), some.max(axis=0) + windows.sizes) for some in starts]
    inside = np.concatenate([some - low for some, (low, _) in zip(starts, corners, strict=True)])
    regions: list[Any] = [
        Regions([_read_box(source, *each) for each in corners], owners, inside, windows.sizes)
        for source in sources
    ]
    return number, regions, order.given(number, len(owners))


def _read(source: Source, selection: tuple[Any, ...]) -> Values:
    if isinstance(source, View):
        return as_plain(source.view.oindex[selection].read())
    return as_plain(source.oindex[selection] if isinstance(source, Array) else source[selection])


def _read_box(source: Source, low: Integers, high: Integers) -> Values:
    """Read a box; its part beyond the source has the fill value."""
    ends = np.minimum(high, source.shape)
    found = _read(source, tuple(map(slice, low.tolist(), ends.tolist())))
    if (ends == high).all():
        return found
    array = source.array if isinstance(source, View) else source
    fill = array.fill_value if isinstance(array, Array) else None
    out = np.full(high - low, np.zeros((), found.dtype) if fill is None else fill, found.dtype)
    out[tuple(map(slice, found.shape))] = found
    return out


def _axes(source: Source) -> list[Axis]:
    """Return the name, chunks and start of each axis; the chunks have length 1 if unknown."""
    known = _array_of(source)
    if known is None:
        return [(None, RegularAxis(n, 1), 0) for n in source.shape]
    array, picks = known
    names, chunks, found = array.dimension_names, chunk_axes(array), list[Axis]()
    for (axis, pick), length in zip(picks, source.shape, strict=True):
        run = isinstance(pick, range) and pick.step == 1
        where = (chunks[axis], pick.start) if run else (RegularAxis(length, 1), 0)
        found.append((names[axis] if names else None, *where))
    return found


def _blocks(source: Source, most: int, shuffled: bool) -> Blocks:
    """Return the blocks of the array with the largest rows, which the others follow."""
    known = _array_of(source)
    if known is not None:
        array, ((axis, pick), *_) = known
        if shuffled or (isinstance(pick, range) and pick.step > 0):
            return find_blocks(pick, stored_axes(array)[axis], chunk_axes(array)[axis], most)
    return equal_blocks(len(source), most)  # in the order of the view


def _array_of(source: Source) -> tuple[Array, tuple[tuple[int, Any], ...]] | None:
    """Return the array of a source and, for each axis, its axis and positions there, if known."""
    view = source.view[...] if isinstance(source, Array) else source
    return None if isinstance(view, np.ndarray) or view.axes is None else (view.array, view.axes)


def _row_bytes(source: Source) -> int:
    return int(np.prod(source.shape[1:], dtype=object)) * source.dtype.itemsize


def _number(name: str, value: Any, least: int) -> int:
    """Return an integer; raise if it is none, or less than `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise WrongType(f"{name} must be an integer, got {value!r}") from None
    if number < least:
        raise InvalidArgument(f"{name} must be at least {least}, got {number}")
    return number


def _check_sources(sources: tuple[Any, ...], *, whole: bool = False) -> None:
    """Raise unless batches can be read from all sources; `whole`: of one shape, not one length."""
    if not sources:
        raise InvalidArgument("batches needs at least one array")
    for source in sources:
        if not isinstance(source, (Array, View, np.ndarray)):
            raise WrongType(
                "batches are read from arrays, views and NumPy arrays, or from several in a tuple"
                f" such as (group['x'], group['y']), got {type(source).__name__}"
            )
        if not source.shape:
            raise InvalidArgument("batches needs arrays with rows; this one has no axes")
    lengths = [source.shape if whole else len(source) for source in sources]
    if len(set(lengths)) > 1:
        raise InvalidArgument(
            f"the arrays have different {'shapes' if whole else 'lengths'}: {lengths}"
        )


# The order of rows: numbers only, nothing is read


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Rows that are stored together."""

    bounds: Integers  # the first row of every block, and the end of the last
    rows: Integers | None = None  # the rows by number; None: they are those numbers

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.bounds[-1])


def find_blocks(pick: Pick, stored: GridAxis, chunks: GridAxis, most: int) -> Blocks:
    """Return the blocks of the rows at some positions of an axis.

    `stored` is the partition of the axis into shards, `chunks` that into chunks; a block has at
    most `most` rows, and ends with a shard or else with a chunk where that is possible.
    """
    axis = _limited(stored, chunks, most, len(pick))
    if isinstance(pick, range) and pick.step == 1:
        first, last = (int(axis.chunk_of(p)) for p in (pick.start, max(pick.start, pick.stop - 1)))
        starts = np.asarray(axis.start(np.arange(first + 1, last + 1)), np.int64)
        return Blocks(_cut(starts - pick.start, len(pick), most))
    positions = np.asarray(pick, np.int64)
    found = np.asarray(axis.chunk_of(positions), np.int64)
    rows = np.argsort(found, kind="stable")
    changes = np.flatnonzero(np.diff(found[rows])) + 1
    return Blocks(_cut(changes, len(pick), most), rows)


def equal_blocks(count: int, most: int) -> Blocks:
    """Return blocks of equal size, for rows whose storage layout is unknown."""
    size = max(most, -(-count // MAX_BLOCKS))
    return Blocks(_cut(np.empty(0, np.int64), count, size))


def _limited(stored: GridAxis, chunks: GridAxis, most: int, count: int) -> GridAxis:
    """Return the partition into shards, or into smaller blocks if shards exceed `most` rows."""
    if not isinstance(stored, RegularAxis):
        return stored
    size = stored.chunk
    if size > most:
        inner = chunks.chunk if isinstance(chunks, RegularAxis) else 1
        size = most // inner * inner if inner <= most else most
    blocks = math.ceil(count / size)
    size *= max(1, math.ceil(blocks / MAX_BLOCKS))
    return RegularAxis(stored.length, size)


def _cut(inner: Integers, count: int, most: int) -> Integers:
    """Return the bounds of blocks, after splitting blocks of more than `most` rows."""
    found = np.concatenate([[0], inner, [count]]).astype(np.int64)
    sizes = np.diff(found)
    if sizes.max() <= most or len(sizes) >= MAX_BLOCKS:
        return found
    pieces = [np.arange(a, b, most) for a, b in itertools.pairwise(found)]
    return np.append(np.concatenate(pieces), found[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The rows of one worker in the order in which they are returned."""

    blocks: Blocks
    seed: int
    shuffled: Integers  # the numbers of the blocks in their order
    ends: Integers  # the number of rows up to the end of each of these blocks
    bounds: Integers  # of the worker's windows, among all rows in this order
    is_random: bool = True

    @property
    def count(self) -> int:
        """The number of rows of this worker."""
        return int(self.bounds[-1] - self.bounds[0])

    def window_of(self, row: int) -> int:
        """Return the number of the window that has a row of this worker."""
        return int(np.searchsorted(self.bounds, self.bounds[0] + row, side="right")) - 1

    def span(self, window: int) -> tuple[int, int]:
        """Return the first row and the end of a window, counted among this worker's rows."""
        first, last = self.bounds[window : window + 2] - self.bounds[0]
        return int(first), int(last)

    def rows(self, window: int) -> tuple[Integers, Integers]:
        """Return the rows of a window as they are stored, and the order in which they are given."""
        numbers, low, high = self.pieces(window)
        first = self.blocks.bounds[numbers]
        parts = zip((first + low).tolist(), (first + high).tolist(), strict=True)
        rows = np.concatenate([np.arange(a, b) for a, b in parts])
        if self.blocks.rows is not None:
            rows = self.blocks.rows[rows]
        return rows, self.given(window, len(rows))

    def pieces(self, window: int) -> tuple[Integers, Integers, Integers]:
        """Return the blocks of a window by number, and the rows in them: the first and the end."""
        begin, end = self.bounds[window : window + 2]
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.ends, end, side="left")) + 1
        numbers = self.shuffled[first:last]
        high = self.blocks.bounds[numbers + 1] - self.blocks.bounds[numbers]
        low = np.zeros_like(high)
        high[-1] -= self.ends[last - 1] - end
        low[0] = high[0] - (min(self.ends[first], end) - begin)
        order = np.argsort(numbers)
        return numbers[order], low[order], high[order]

    def given(self, window: int, count: int) -> Integers:
        """Return the order in which the rows of a window are given."""
        if not self.is_random:
            return np.arange(count)
        return _generator(self.seed, 1, int(self.bounds[window])).permutation(count)


def make_order(
    blocks: Blocks,
    window: int,
    seed: int,
    worker: int,
    workers: int,
    *,
    together: int = sys.maxsize,
    shuffled: bool = True,
) -> Order:
    """Return the order of one worker's rows, in windows of at most `window` rows.

    A window has the rows of at most `together` blocks. The workers' numbers of rows differ by at
    most one, and no two workers share a row.
    """
    sizes = np.diff(blocks.bounds)
    order = _generator(seed, 0).permutation(len(sizes)) if shuffled else np.arange(len(sizes))
    ends = np.cumsum(sizes[order])
    begin = blocks.count * worker // workers
    end = blocks.count * (worker + 1) // workers
    bounds = [begin]
    while bounds[-1] < end:
        after = int(np.searchsorted(ends, bounds[-1] + window, side="right")) - 1
        after = min(after, int(np.searchsorted(ends, bounds[-1], side="right")) + together - 1)
        whole = int(ends[after]) if after >= 0 else 0
        bounds.append(min(end, whole if whole > bounds[-1] else bounds[-1] + window))
    return Order(blocks, seed, order, ends, np.array(bounds, np.int64), shuffled)


def _generator(*seeds: int) -> np.random.RandomState:
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seeds)))
