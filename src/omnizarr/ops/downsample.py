"""Making an array smaller by whole factors: mean, mode, nearest, max, gaussian.

Each output element stands for a block of `factors` input elements; blocks at the far border are
cut off, so a length n becomes ceil(n / factor). Integers are rounded to the nearest, halves up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.errors import InvalidMetadata

Values: TypeAlias = npt.NDArray[Any]
Factors: TypeAlias = tuple[int, ...]


def downsample(values: Values, factors: Sequence[int], method: str) -> Values:
    """`values` made smaller; `gaussian` repeats the border elements around them."""
    factors = tuple(factors)
    if method == "gaussian":
        reach = gaussian_reach(factors)
        padding = [(r, r + -n % f) for r, n, f in zip(reach, values.shape, factors, strict=True)]
        return gaussian(np.pad(values, padding, mode="edge"), factors)
    if method not in METHODS:
        raise InvalidMetadata(f"method {method!r} is not known; known: {', '.join(NAMES)}")
    return _by_blocks(values, factors, METHODS[method])


def _by_blocks(
    values: Values, factors: Factors, whole: Callable[[Values, Factors], Values]
) -> Values:
    """Apply `whole`, which wants whole blocks, to the parts with blocks of one shape each."""
    for axis, (n, f) in enumerate(zip(values.shape, factors, strict=True)):
        cut = n - n % f
        if cut == n:
            continue
        at = (slice(None),) * axis
        rest = _by_blocks(values[(*at, slice(cut, None))], _with(factors, axis, n - cut), whole)
        if cut == 0:
            return rest
        first = _by_blocks(values[(*at, slice(cut))], factors, whole)
        return np.concatenate([first, rest], axis)
    return whole(values, factors)


def _with(factors: Factors, axis: int, factor: int) -> Factors:
    return (*factors[:axis], factor, *factors[axis + 1 :])


def _nearest(values: Values, factors: Factors) -> Values:
    return values[tuple(slice(None, None, f) for f in factors)]


def _fold(values: Values, factors: Factors, combine: np.ufunc) -> Values:
    """Combine the elements of each block axis by axis, the outermost first: it is the quickest."""
    for axis, f in enumerate(factors):
        if f == 1:
            continue
        parts = [values[(slice(None),) * axis + (slice(i, None, f),)] for i in range(f)]
        values = combine(parts[0], parts[1])
        for part in parts[2:]:
            combine(values, part, out=values)
    return values


def _max(values: Values, factors: Factors) -> Values:
    return _fold(values, factors, np.maximum)


def _mean(values: Values, factors: Factors) -> Values:
    count = math.prod(factors)
    dtype = values.dtype
    if count == 1:
        return values
    if dtype.kind in "fc":
        wide = np.promote_types(dtype, np.float32 if dtype.itemsize == 2 else np.float64)
        return _in_slabs(values, factors, wide, lambda s: s / count)
    if dtype.kind not in "iub":
        raise InvalidMetadata(f"the mean of {dtype} is not defined; use method='nearest'")
    if dtype.itemsize == 8:
        # A sum might not fit into 64 bits: quotients and remainders apart do.
        quotients = _fold(values // count, factors, np.add)
        remainders = _fold(values % count, factors, np.add)
        return quotients + (remainders + dtype.type(count // 2)) // dtype.type(count)
    sums = np.dtype(np.int64 if dtype.itemsize == 4 or count > 2**15 else np.int32)
    half = count // 2
    if count & (count - 1) == 0:
        shift = count.bit_length() - 1
        return _in_slabs(values, factors, sums, lambda s: (s + half) >> shift)
    return _in_slabs(values, factors, sums, lambda s: (s + half) // count)


def _in_slabs(
    values: Values, factors: Factors, wide: np.dtype[Any], finish: Callable[[Values], Values]
) -> Values:
    """Sum blocks in a wider type, some of the first axis at a time: that stays in the cache."""
    out = np.empty([n // f for n, f in zip(values.shape, factors, strict=True)], values.dtype)
    step = max(1, _SLAB // max(1, values[: factors[0]].nbytes))
    for start in range(0, len(out), step):
        part = values[start * factors[0] : (start + step) * factors[0]]
        sums = _fold(part.astype(wide), factors, np.add)
        out[start : start + step] = finish(sums)
    return out


_SLAB = 2**18


def _mode(values: Values, factors: Factors) -> Values:
    """The most frequent element of each block; the smallest of several."""
    count = math.prod(factors)
    shape = [n // f for n, f in zip(values.shape, factors, strict=True)]
    split = values.reshape([x for pair in zip(shape, factors, strict=True) for x in pair])
    rank = len(shape)
    order = [*range(1, 2 * rank, 2), *range(0, 2 * rank, 2)]
    ranked = np.sort(split.transpose(order).reshape(count, -1), axis=0)
    best = ranked[0].copy()
    run = np.ones(best.shape, np.int32)
    longest = run.copy()
    for previous, current in zip(ranked, ranked[1:], strict=False):
        run = np.where(current == previous, run + 1, 1)
        better = run > longest
        longest[better] = run[better]
        best[better] = current[better]
    return best.reshape(shape)


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
    out = values.astype(np.float64 if dtype.itemsize > 2 else np.float32)
    for axis, f in enumerate(factors):
        if f == 1:
            continue
        distances = np.arange(3 * f) - (3 * f - 1) / 2
        weights = np.exp(-0.5 * (distances / (f / 3)) ** 2)
        weights = (weights / weights.sum()).astype(out.dtype)
        count = out.shape[axis] // f - 2
        at = (slice(None),) * axis
        parts = (
            out[(*at, slice(i, i + (count - 1) * f + 1, f))] * w for i, w in enumerate(weights)
        )
        total = next(parts)
        for part in parts:
            total += part
        out = total
    if dtype.kind == "f":
        return out.astype(dtype)
    if dtype.kind == "b":
        return out >= 0.5
    bounds = np.iinfo(dtype)
    rounded = np.floor(out + 0.5)
    return np.clip(rounded, float(bounds.min), float(bounds.max)).astype(dtype)


METHODS: dict[str, Callable[[Values, Factors], Values]] = {
    "mean": _mean,
    "mode": _mode,
    "nearest": _nearest,
    "max": _max,
}
NAMES = (*METHODS, "gaussian")
