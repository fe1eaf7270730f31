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
        half = dtype.type(count // 2)
        return np.asarray(quotients + (remainders + half) // dtype.type(count))
    sums = np.dtype(np.int64 if dtype.itemsize == 4 or count > 2**15 else np.int32)
    half, shift = count // 2, count.bit_length() - 1
    if count == 1 << shift:
        return _in_slabs(values, factors, sums, lambda s: (s + half) >> shift)
    return _in_slabs(values, factors, sums, lambda s: (s + half) // count)


def _in_slabs(
    values: Values, factors: Factors, wide: np.dtype[Any], finish: Callable[[Values], Values]
) -> Values:
    """Sum blocks in a wider type, a slab at a time: that stays in the processor's cache."""
    out = np.empty([n // f for n, f in zip(values.shape, factors, strict=True)], values.dtype)
    axis = out.shape.index(max(out.shape))
    f = factors[axis]
    at = (slice(None),) * axis
    step = max(1, _SLAB * out.shape[axis] // max(1, values.nbytes))
    for start in range(0, out.shape[axis], step):
        part = values[(*at, slice(start * f, (start + step) * f))]
        out[(*at, slice(start, start + step))] = finish(_block_sums(part, factors, wide))
    return out


def _block_sums(part: Values, factors: Factors, wide: np.dtype[Any]) -> Values:
    """The sum of each block in a wider type."""
    double = _DOUBLE.get(part.dtype.str[1:]) if math.prod(factors) <= 256 else None
    if factors[-1] != 2 or double is None or part.strides[-1] != part.itemsize:
        return _fold(part.astype(wide), factors, np.add)
    # Two neighbours as one number of twice the width: its halves are added without a copy.
    both = part.view(double)
    bits = 8 * part.itemsize
    pairs = (both & double.type((1 << bits) - 1)) + (both >> double.type(bits))
    return _fold(pairs, (*factors[:-1], 1), np.add)


_SLAB = 2**18
_DOUBLE: dict[str, np.dtype[Any]] = {"u1": np.dtype("u2"), "u2": np.dtype("u4")}


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
    out: Values = values.astype(np.float64 if dtype.itemsize > 2 else np.float32)
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
        return np.greater_equal(out, 0.5)
    bounds = np.iinfo(dtype)
    rounded = np.floor(np.add(out, 0.5, out=out))
    # The largest 64-bit integers are no floats; what is cut off there is less than the rounding.
    highest = np.nextafter(float(bounds.max) + 1, 0, dtype=out.dtype)
    return np.asarray(np.clip(rounded, float(bounds.min), highest).astype(dtype))


METHODS: dict[str, Callable[[Values, Factors], Values]] = {
    "mean": _mean,
    "mode": _mode,
    "nearest": _nearest,
    "max": _max,
}
NAMES = (*METHODS, "gaussian")
