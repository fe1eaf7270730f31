"""Making an array smaller by whole factors: mean, mode, nearest, max, gaussian.

Each output element stands for a block of `factors` input elements; blocks at the far border are
cut off, so a length n becomes ceil(n / factor). Integers are rounded to the nearest, halves up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidMetadata, known_names

try:
    from omnizarr.ops import _blocks
except ImportError:  # no compiler when it was installed
    _blocks = None  # type: ignore[assignment]

Values: TypeAlias = npt.NDArray[Any]
Factors: TypeAlias = tuple[int, ...]


def downsample(
    values: Values, factors: Sequence[int], method: str, out: Values | None = None
) -> Values:
    """`values` made smaller, in `out` where it is given; `gaussian` repeats the border elements."""
    factors = tuple(factors)
    if method not in NAMES:
        raise InvalidMetadata(f"method {method!r} is not known; {known_names(method, NAMES)}")
    if out is None:
        shape = [-(-n // f) for n, f in zip(values.shape, factors, strict=True)]
        out = np.empty(shape, values.dtype)
    if method == "gaussian":
        reach = gaussian_reach(factors)
        padding = [(r, r + -n % f) for r, n, f in zip(reach, values.shape, factors, strict=True)]
        out[...] = gaussian(np.pad(values, padding, mode="edge"), factors)
    else:
        _by_blocks(values, factors, method, out)
    return out


def _by_blocks(values: Values, factors: Factors, method: str, out: Values) -> None:
    """Fill `out` part by part; those at the far border have smaller blocks."""
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
    if method in _COMPILED and _blocks.fold(_COMPILED[method], values, out, factors):
        return
    out[...] = METHODS[method](values, factors)


def _nearest(values: Values, factors: Factors) -> Values:
    return values[tuple(slice(None, None, f) for f in factors)]


def _fold(values: Values, factors: Factors, combine: np.ufunc) -> Values:
    """Combine the elements of each block: rows one after the other, then along the last axis.

    The compiled form has the same order, so that sums of floats come out the same.
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


def _max(values: Values, factors: Factors) -> Values:
    return _fold(values, factors, np.maximum)


def _mean(values: Values, factors: Factors) -> Values:
    count = math.prod(factors)
    dtype = values.dtype
    if count == 1:
        return values
    if dtype.kind in "fc":
        wide = np.promote_types(dtype, np.float32 if dtype.itemsize == 2 else np.float64)
        return _fold(values.astype(wide, copy=False), factors, np.add) / count
    if dtype.kind not in "iub":
        raise InvalidMetadata(f"the mean of {dtype} is not defined; use method='nearest'")
    if dtype.itemsize < 8:
        sums = _fold(values.astype(np.int64), factors, np.add)
        return np.asarray((sums + count // 2) // count)
    # A sum might not fit into 64 bits: quotients and remainders apart do.
    quotients = _fold(values // count, factors, np.add)
    remainders = _fold(values % count, factors, np.add)
    half = dtype.type(count // 2)
    return np.asarray(quotients + (remainders + half) // dtype.type(count))


def _mode(values: Values, factors: Factors) -> Values:
    """The most frequent element of each block; the smallest of several."""
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
    """Of each sorted row, the value that stands most often; the first of several."""
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
    """How many elements around a block `gaussian` looks at, along each axis."""
    return tuple(f if f > 1 else 0 for f in factors)


def gaussian(values: Values, factors: Factors) -> Values:
    """Blocks weighted with a bell of a third of the factor, from values with their surroundings.

    `values` has `gaussian_reach` more elements before and after, and whole blocks between.
    """
    dtype = values.dtype
    if dtype.kind not in "iubf":
        raise InvalidMetadata(f"a gaussian of {dtype} is not defined; use method='nearest'")
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
    # The largest 64-bit integers are no floats; what is cut off there is less than the rounding.
    highest = np.nextafter(float(bounds.max) + 1, 0, dtype=out.dtype)
    return np.asarray(np.clip(rounded, float(bounds.min), highest).astype(dtype))


def _weighed(values: Values, weights: Values, axis: int, f: int) -> Values:
    """Sums of neighbours along an axis, with weights; the first elements of sums are `f` apart."""
    count = (values.shape[axis] - len(weights)) // f + 1
    if _COMPILED and values.size:
        out = np.empty((*values.shape[:axis], count, *values.shape[axis + 1 :]), values.dtype)
        _blocks.weigh(values, weights, out, axis, f)
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
    "max": _max,
}
NAMES = (*METHODS, "gaussian")
_COMPILED: dict[str, int] = (
    {} if _blocks is None else {"mean": _blocks.MEAN, "max": _blocks.MAX, "mode": _blocks.MODE}
)
