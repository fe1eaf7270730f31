"""Downsample arrays, and build pyramids level by level.

Each output element represents a block of `factors` input elements; blocks at the far border are
truncated, so a length n becomes ceil(n / factor). Integers are rounded to nearest, halves up.
A level is computed from the stored finer one, in boxes of whole shards or chunks of a limited size,
so that every chunk and shard is stored once. The second level of a new image is computed while the
values of the first are in memory.

With a `Packing`, `mean` and `max` are those of the numbers that are not missing; a block without
any keeps its first one. `nearest` and `mode` choose one of the stored numbers, missing or not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr import Array, config
from omnizarr.bulk.journal import Task, task_id
from omnizarr.bulk.tiles import Box, corners
from omnizarr.bulk.transfer import TASK_BYTES, Filled, cut
from omnizarr.errors import InvalidArgument, known_names
from omnizarr.extension import Boxes, as_plain, boxes, empty, for_each

try:
    from omnizarr.bulk import _blocks
except ImportError:  # no compiler when it was installed
    _blocks = None  # type: ignore[assignment]

Values: TypeAlias = npt.NDArray[Any]
Factors: TypeAlias = tuple[int, ...]
Progress = Callable[[int, int, str], None]
MEMORY = 2**27  # bytes that `fill_levels` has at a time


# The meaning of stored numbers, as `conventions.cf` has it: which are missing, and their sign.
LevelPacking: TypeAlias = Any


def check_method(method: str) -> str:
    """Return the downsampling method if it is known, else raise."""
    if method not in NAMES:
        raise InvalidArgument(f"unknown method {method!r}; {known_names(method, NAMES)}")
    return method


def check_packing(method: str, packing: LevelPacking | None) -> LevelPacking | None:
    """Return the packing if a method depends on it, else None; raise if it cannot handle it."""
    if packing is None or not (packing.leaves_out or packing.signed is not None):
        return None
    if method == "gaussian":
        raise InvalidArgument(
            "method 'gaussian' would mix the numbers for missing values with valid values; use"
            " 'mean', 'max', 'mode' or 'nearest'"
        )
    return packing if method in ("mean", "max") else None


def downsample(
    values: Values,
    factors: Factors,
    method: str,
    out: Values,
    packing: LevelPacking | None = None,
) -> None:
    """Downsample `values` into `out`, in as many threads as reads and writes may use.

    For `gaussian`, `values` includes the elements beyond the border.
    """
    axis = out.shape.index(max(out.shape))
    parts = min(config.get().threads, max(1, values.nbytes // 2**20), out.shape[axis])
    ends = [out.shape[axis] * i // parts for i in range(parts + 1)]
    at, f = (slice(None),) * axis, factors[axis]
    border = 2 * gaussian_reach(factors)[axis] if method == "gaussian" else 0

    def one(ends: tuple[int, int]) -> None:
        start, stop = ends
        part = values[(*at, slice(start * f, stop * f + border))]
        to = out[(*at, slice(start, stop))]
        if method == "gaussian":
            to[...] = gaussian(part, factors)
        elif packing is None:
            _by_blocks(part, factors, method, to)
        else:
            _of_present(part, factors, method, to, packing)

    for_each(itertools.pairwise(ends), parts, one, values.nbytes)


def _of_present(
    values: Values, factors: Factors, method: str, out: Values, packing: LevelPacking
) -> None:
    """Fill `out` with the mean or maximum of the numbers in each block that are not missing."""
    absent = packing.is_missing(values)
    if packing.signed is None and not absent.any():
        _by_blocks(values, factors, method, out)
        if not packing.is_missing(out).any():
            return
    padding = [(0, -n % f) for n, f in zip(values.shape, factors, strict=True)]
    absent = np.pad(absent, padding, constant_values=True)
    seen = np.pad(packing.as_seen(values), padding)
    dtype = seen.dtype
    whole = dtype.kind in "iu"
    low = dtype.type(np.iinfo(dtype).min if whole else -np.inf)
    highest = _fold(np.where(absent, low, seen), factors, np.maximum)
    found = highest
    count = np.maximum(_fold((~absent).astype(np.int64), factors, np.add), 1)
    stored = out.dtype.newbyteorder("=")

    def clashing() -> npt.NDArray[np.bool_]:
        mask: npt.NDArray[np.bool_] = packing.is_missing(found.view(stored))
        return mask

    if method == "mean":
        found = _mean(np.where(absent, dtype.type(0), seen), factors, count).astype(dtype)
        # A mean may be the number that marks missing values: the next one is not, or the highest.
        above = np.where(found < highest, found + dtype.type(1), found) if whole else np.nextafter(
            found, dtype.type(np.inf)
        )  # fmt: skip
        found = np.where(clashing(), above, found)
        found = np.where(clashing(), highest, found)
    empty_blocks = _fold(absent, factors, np.logical_and)
    out[...] = np.where(empty_blocks, _nearest(seen, factors), found).view(stored)


def _by_blocks(values: Values, factors: Factors, method: str, out: Values) -> None:
    """Fill `out` recursively; blocks at the far border are smaller."""
    for axis, (n, f) in enumerate(zip(values.shape, factors, strict=True)):
        cut = n - n % f
        if cut == n:
            continue
        at = (slice(None),) * axis
        first, rest = (*at, slice(cut // f)), (*at, slice(cut // f, None))
        _by_blocks(values[(*at, slice(cut))], factors, method, out[first])
        less = (*factors[:axis], n - cut, *factors[axis + 1 :])
        _by_blocks(values[(*at, slice(cut, None))], less, method, out[rest])
        return
    if not values.size:
        return
    if method in _COMPILED and _blocks.reduce(_COMPILED[method], values, out, factors):
        return
    out[...] = METHODS[method](values, factors)


def _nearest(values: Values, factors: Factors) -> Values:
    return values[tuple(slice(None, None, f) for f in factors)]


def _fold(values: Values, factors: Factors, combine: np.ufunc) -> Values:
    """Combine the elements of each block: row by row, then along the last axis.

    The compiled form has the same order, so that sums of floats are identical.
    """
    *outer, last = factors
    rows = itertools.product(*map(range, outer))
    starts = (zip(row, outer, strict=True) for row in rows)
    folded = _combined([values[tuple(slice(i, None, f) for i, f in s)] for s in starts], combine)
    return _combined([folded[..., i::last] for i in range(last)], combine)


def _combined(parts: Sequence[Values], combine: np.ufunc) -> Values:
    if len(parts) == 1:
        return parts[0]
    total: Values = combine(parts[0], parts[1])
    for part in parts[2:]:
        combine(total, part, out=total)
    return total


def _mean(values: Values, factors: Factors, count: Any = None) -> Values:
    """Return the mean of each block; `count` elements of it are counted, by default all."""
    if math.prod(factors) == 1:
        return values
    count = math.prod(factors) if count is None else count
    dtype = values.dtype
    if dtype.kind in "fc":
        wide = np.promote_types(dtype, np.float32 if dtype.itemsize == 2 else np.float64)
        with np.errstate(invalid="ignore"):
            return np.asarray(_fold(values.astype(wide, copy=False), factors, np.add) / count)
    if dtype.kind not in "iub":
        raise InvalidArgument(f"the mean of {dtype} is not defined; use method='nearest'")
    # Python's integers cannot overflow.
    sums = _fold(values.astype(object if dtype.itemsize == 8 else np.int64), factors, np.add)
    return np.asarray((sums + count // 2) // count)


def _mode(values: Values, factors: Factors) -> Values:
    """Return the most frequent element of each block; if there are several, the smallest."""
    best: Values = _fold(values, factors, np.minimum).copy()
    mixed = best != _fold(values, factors, np.maximum)
    if not mixed.any():  # most blocks of labels are of one value
        return best
    pairs = zip(best.shape, factors, strict=True)
    split = values.reshape([n for pair in pairs for n in pair])
    rank = best.ndim
    blocks = split.transpose([*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)])
    ranked = np.sort(blocks[mixed].reshape(-1, math.prod(factors)), axis=1)
    best[mixed] = _longest_run(ranked)
    return best


def _longest_run(ranked: Values) -> Values:
    """Return the most frequent value of each sorted row; if there are several, the first."""
    best = ranked[:, 0].copy()
    run = np.ones(len(ranked), np.int32)
    longest = run.copy()
    for i in range(1, ranked.shape[1]):
        run = np.where(ranked[:, i] == ranked[:, i - 1], run + 1, 1)
        better = run > longest
        longest[better] = run[better]
        best[better] = ranked[better, i]
    return best


def gaussian_reach(factors: Sequence[int]) -> tuple[int, ...]:
    """Return the number of elements beyond a block that `gaussian` needs along each axis."""
    return tuple(f if f > 1 else 0 for f in factors)


def gaussian(values: Values, factors: Factors) -> Values:
    """Downsample with a Gaussian whose standard deviation is a third of the factor.

    `values` consists of whole blocks, with `gaussian_reach` more elements on either side.
    """
    dtype = values.dtype
    if dtype.kind not in "iubf":
        raise InvalidArgument(f"a gaussian of {dtype} is not defined; use method='nearest'")
    out: Values = values.astype(np.float64 if dtype.itemsize > 2 else np.float32, order="C")
    for axis, f in enumerate(factors):
        if f == 1:
            continue
        distances = np.arange(3 * f) - (3 * f - 1) / 2
        weights = np.exp(-0.5 * (distances / (f / 3)) ** 2)
        out = _weighed(out, (weights / weights.sum()).astype(out.dtype), axis, f)
    if dtype.kind == "f":
        return out.astype(dtype)
    if dtype.kind == "b":
        return np.greater_equal(out, 0.5)
    bounds = np.iinfo(dtype)
    rounded = np.floor(np.add(out, 0.5, out=out))
    # The largest 64-bit integers are not representable as floats; the difference is below rounding.
    highest = np.nextafter(float(bounds.max) + 1, 0, dtype=out.dtype)
    return np.asarray(np.clip(rounded, float(bounds.min), highest).astype(dtype))


def _weighed(values: Values, weights: Values, axis: int, f: int) -> Values:
    """Return weighted sums of neighbours along an axis, with a stride of `f`."""
    count = (values.shape[axis] - len(weights)) // f + 1
    if _COMPILED and values.size:
        out = np.empty((*values.shape[:axis], count, *values.shape[axis + 1 :]), values.dtype)
        _blocks.weighted_sums(values, weights, out, axis, f)
        return out
    at = (slice(None),) * axis
    parts = (values[(*at, slice(i, i + (count - 1) * f + 1, f))] * w for i, w in enumerate(weights))
    total: Values = next(parts)
    for part in parts:
        total += part
    return total


METHODS: dict[str, Callable[[Values, Factors], Values]] = {
    "mean": _mean,
    "mode": _mode,
    "nearest": _nearest,
    "max": partial(_fold, combine=np.maximum),
}
NAMES = (*METHODS, "gaussian")
_COMPILED: dict[str, int] = (
    {} if _blocks is None else {"mean": _blocks.MEAN, "max": _blocks.MAX, "mode": _blocks.MODE}
)


def level_shapes(shape: Sequence[int], factors: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the shapes of all levels; `factors` lead from each level to the next."""
    shapes = [tuple(shape)]
    for each in factors:
        shapes.append(tuple(-(-n // f) for n, f in zip(shapes[-1], each, strict=True)))
    return shapes


def level_chunks(finest: Array, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the finest level's chunks and shards as options, limited to the shape of a level."""
    lengths = [max(1, n) for n in shape]
    chunks = tuple(min(c, n) for c, n in zip(finest.chunks, lengths, strict=True))
    if finest.shards is None:
        return {"chunks": chunks}
    sides = zip(finest.shards, chunks, lengths, strict=True)
    return {"chunks": chunks, "shards": tuple(c * -(-min(s, n) // c) for s, c, n in sides)}


def fill_levels(
    source: Any,
    arrays: Sequence[Array],
    steps: Sequence[tuple[int, ...]],
    method: str,
    progress: Progress | None,
    packing: LevelPacking | None = None,
) -> None:
    """Store a source in the first array and its coarser levels in the others.

    The blocks of a Dask array are computed once; anything else with a shape is read in boxes.
    """
    if steps:
        check_packing(method, packing)
    finest, levels = arrays[0], [*zip(arrays, arrays[1:], steps, strict=False)]
    blocks = [*_blocks_of(source)]
    with finest.writer() as writer:
        parts: list[Callable[[], object]]
        if levels and not blocks and method != "gaussian":  # which reads beyond its box
            _, second, factors = levels.pop(0)
            tasks = level_tasks(source, second, factors, method, MEMORY, packing, writer)
            parts = [task.work for task in tasks]
        else:

            def store(box: Box) -> None:
                writer[box] = as_plain(source[box])

            whole = cut(finest, max(1, MEMORY // 8 // finest.itemsize))
            parts = [partial(store, box) for box in blocks or whole]
        for number, part in enumerate(parts, 1):
            part()
            if progress is not None:
                progress(number, len(parts), finest.name)
    for finer, coarser, factors in levels:
        for task in level_tasks(finer, coarser, factors, method, MEMORY, packing):
            task.work()


def _blocks_of(source: Any) -> Iterator[Box]:
    """Yield the boxes of the blocks of a Dask array."""
    if hasattr(source, "__dask_graph__"):
        ends = [np.cumsum([0, *lengths]).tolist() for lengths in source.chunks]
        for index in np.ndindex(*source.numblocks):
            yield tuple(slice(e[i], e[i + 1]) for e, i in zip(ends, index, strict=True))


@dataclass(frozen=True)
class ReduceBox:
    """Compute and store a box of a level from the finer one, which is stored in `copy`, too."""

    source: Any  # an array, or anything whose slices are NumPy arrays
    target: Array
    factors: tuple[int, ...]
    method: str
    box: Box
    packing: LevelPacking | None = None
    copy: Any = None

    def __call__(self) -> Filled:
        gaussian_border = gaussian_reach(self.factors) if self.method == "gaussian" else None
        inner, padding = [], []
        reach = gaussian_border or (0,) * len(self.factors)
        for side, f, r, n in zip(self.box, self.factors, reach, self.source.shape, strict=True):
            low, high = side.start * f - r, side.stop * f + r
            inner.append(slice(max(0, low), min(high, n)))
            padding.append((max(0, -low), max(0, high - n)))
        values = as_plain(self.source[tuple(inner)])
        read = values.nbytes
        if self.copy is not None:
            self.copy[tuple(inner)] = values
            values = values.astype(self.target.dtype, copy=False)
        out = empty(tuple(side.stop - side.start for side in self.box), self.target.dtype)
        if gaussian_border is not None:
            values = np.pad(values, padding, mode="edge")
        downsample(values, self.factors, self.method, out, self.packing)
        self.target[self.box] = out
        return Filled(bytes_read=read)


def level_tasks(
    source: Any,
    target: Array,
    factors: Sequence[int],
    method: str,
    memory: int,
    packing: LevelPacking | None = None,
    copy: Any = None,
) -> Iterator[Task[Filled]]:
    """Yield the tasks that compute one level from the next finer one, which is complete.

    With `copy`, the source is read once: what is read is stored there, too.
    """
    packing = check_packing(method, packing)
    for box in level_boxes(target, factors, method, memory, packing):
        yield Task(
            task_id("level", target.path, corners(box)),
            ReduceBox(source, target, tuple(factors), method, box, packing, copy),
            boxes.box_size(box) * target.itemsize,
            target.name,
        )


def level_boxes(
    target: Array, factors: Sequence[int], method: str, memory: int, packing: LevelPacking | None
) -> Boxes:
    """Return the boxes of a level, one for each task, which reads several times as many values."""
    plain = check_packing(method, packing) is None
    compiled = plain and (method in _COMPILED or method == "nearest")
    wide = 2 * target.itemsize if compiled else target.itemsize + 32
    limit = min(memory // 2, TASK_BYTES) // (wide * math.prod(factors))
    return cut(target, max(1, int(limit)))
