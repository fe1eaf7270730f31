"""Minimum, maximum, mean, variance and histogram of numbers, from parts that can be merged.

The variance is that of Chan, Golub and LeVeque: each part has its number of values, mean and sum of
squared differences from the mean. Means are kept relative to a value of the data, the pivot, so
that a small spread around a large value (times in nanoseconds since 1970) loses no digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Number: TypeAlias = int | float
MAX_PIVOT = 1e150  # a larger one could overflow when it is subtracted
DIGITS = 100.0  # a factor between sums of squares whose difference loses two digits
MANTISSA = 53  # bits of a float64
LEAST_EXPONENT = -1074  # of a float64


@dataclass
class Moments:
    """The count, extremes, mean and variance of numbers."""

    count: int = 0  # of finite numbers
    pivot: Number = 0
    shift: float = 0.0  # the mean minus the pivot
    squares: float = 0.0  # the sum of squared differences from the mean
    low: Number | None = None
    high: Number | None = None
    positive: int = 0  # infinite numbers
    negative: int = 0

    def add(
        self, values: npt.NDArray[Any], low: Any, high: Any, room: npt.NDArray[np.float64]
    ) -> None:
        """Add finite integers or floats of a native type, with their minimum and maximum.

        `room` is memory for as many floats: new memory each time would take longer than all else.
        """
        start: Number = int(low) if values.dtype.kind in "iu" else float(values[0])
        pivot = self.pivot if self.count else start if abs(start) < MAX_PIVOT else 0.0
        size, near = values.size, room[: values.size]
        with np.errstate(all="ignore"):  # what overflows is infinite
            _subtract(values, pivot, low, near)
            shift = _mean(near)
            squares = float(np.einsum("i,i->", near, near)) - shift * shift * size
            if not shift * shift * size < DIGITS * squares:  # the pivot is far from the mean
                near -= shift
                rest = _mean(near)
                squares = float(np.einsum("i,i->", near, near)) - rest * rest * size
                squares = math.inf if math.isnan(squares) else max(0.0, squares)
                shift += rest if math.isfinite(rest) else 0.0
        part = Moments(size, pivot, shift, squares, low.item(), high.item())
        self.merge(part)

    def merge(self, other: Moments) -> None:
        """Add the numbers of another part."""
        self.low = min((v for v in (self.low, other.low) if v is not None), default=None)
        self.high = max((v for v in (self.high, other.high) if v is not None), default=None)
        self.positive += other.positive
        self.negative += other.negative
        if not self.count:
            self.count, self.pivot = other.count, other.pivot
            self.shift, self.squares = other.shift, other.squares
        elif other.count:
            theirs = other.shift + float(other.pivot - self.pivot)
            share = other.count / (self.count + other.count)
            distance = theirs - self.shift
            self.squares += other.squares + distance * distance * share * self.count
            if math.isfinite(distance):
                self.shift += distance * share
            else:
                self.shift = self.shift * (1 - share) + theirs * share
            self.count += other.count

    def repeat(self, times: int) -> None:
        """Count each number `times` times."""
        self.count *= times
        self.squares *= times
        self.positive *= times
        self.negative *= times

    @property
    def total(self) -> int:
        """The number of numbers, infinite ones included."""
        return self.count + self.positive + self.negative

    @property
    def mean(self) -> Number | None:
        """The mean; of integers as exact as the sum of an integer and a float is."""
        if self.positive or self.negative:
            both = self.positive and self.negative
            return math.nan if both else math.inf if self.positive else -math.inf
        if not self.count:
            return None
        whole = round(self.shift) if isinstance(self.pivot, int) else 0
        return float(self.pivot + whole + (self.shift - whole))

    @property
    def rounded_mean(self) -> int | None:
        """The mean of integers, rounded to an integer without loss."""
        return None if not self.count else int(self.pivot) + round(self.shift)

    @property
    def variance(self) -> float | None:
        """The variance, as NumPy has it: divided by the count."""
        if self.positive or self.negative:
            return math.nan
        return self.squares / self.count if self.count else None


def _mean(values: npt.NDArray[np.float64]) -> float:
    """Return the mean, also where the sum overflows."""
    found = float(values.sum()) / values.size
    if math.isfinite(found):
        return found
    return float(np.clip((values / values.size).sum(), values.min(), values.max()))


def _subtract(
    values: npt.NDArray[Any], pivot: Number, low: Any, out: npt.NDArray[np.float64]
) -> None:
    """Store the values minus the pivot; exact for integers that are near to each other."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        np.subtract(values, pivot, out=out, dtype=np.float64)
        return
    least = np.asarray(low).astype(values.dtype).view(np.uint64)
    np.copyto(out, values.view(np.uint64) - least)
    out += float(int(low) - int(pivot))


@dataclass
class Histogram:
    """Counts of numbers in bins of equal width.

    With `range`, there are `bins` bins in it, and the numbers below and above it are counted. Else
    the width is the smallest power of two for which at most `bins` bins, at multiples of the width,
    hold all numbers: so histograms of parts can be merged, in any order with the same result.
    """

    bins: int
    range: tuple[Number, Number] | None = None
    exponent: int | None = None  # of the width, None while there are no numbers
    first: int = 0  # the first bin, as a multiple of the width
    counts: list[int] = field(default_factory=list)
    integer: bool = False
    below: int = 0
    above: int = 0

    def add(self, values: npt.NDArray[Any], low: Number, high: Number) -> None:
        """Add finite integers or floats of a native type, with their minimum and maximum."""
        part = Histogram(self.bins, self.range)
        if self.range is None:
            part._add_adaptive(values, low, high)
        else:
            start, stop = self.range
            part.counts = np.histogram(values, self.bins, self.range)[0].tolist()
            part.below = int((values < start).sum()) if low < start else 0
            part.above = int((values > stop).sum()) if high > stop else 0
        self.merge(part)

    def _add_adaptive(self, values: npt.NDArray[Any], low: Number, high: Number) -> None:
        self.integer = values.dtype.kind in "iu"
        self.exponent = _exponent(low, high, self.bins, self.integer)
        self.first = _bin(low, self.exponent)
        if self.integer:
            number = values >> values.dtype.type(self.exponent)
            number -= values.dtype.type(self.first)
        else:
            number = np.floor(np.ldexp(values.astype(np.float64), -self.exponent))
            if low < 0:  # a tiny negative number underflows to zero
                number -= (number == 0) & (values < 0)
            number -= self.first
        self.counts = np.bincount(number.astype(np.intp)).tolist()

    def merge(self, other: Histogram) -> None:
        """Add the counts of another part."""
        self.below += other.below
        self.above += other.above
        if self.range is not None:
            mine = self.counts or [0] * self.bins
            theirs = other.counts or [0] * self.bins
            self.counts = [a + b for a, b in zip(mine, theirs, strict=True)]
            return
        if other.exponent is None:
            return
        if self.exponent is None:
            self.exponent, self.first, self.integer = other.exponent, other.first, other.integer
            self.counts = list(other.counts)
            return
        ends = [(h.first, h.first + len(h.counts) - 1, h.exponent) for h in (self, other)]
        width = max(self.exponent, other.exponent)
        while True:
            begin = min(a >> (width - e) for a, _, e in ends if e is not None)
            end = max(b >> (width - e) for _, b, e in ends if e is not None)
            if end - begin < self.bins:
                break
            width += 1
        counts = [0] * (end - begin + 1)
        for histogram, (_, _, exponent) in zip((self, other), ends, strict=True):
            for i, n in enumerate(histogram.counts, histogram.first):
                counts[(i >> (width - (exponent or 0))) - begin] += n
        self.exponent, self.first, self.counts = width, begin, counts

    def repeat(self, times: int) -> None:
        """Count each number `times` times."""
        self.counts = [n * times for n in self.counts]
        self.below *= times
        self.above *= times

    @property
    def edges(self) -> list[Number]:
        """The edges of the bins, one more than there are bins; none if there are no numbers."""
        if self.range is not None:
            found: list[Number] = np.linspace(*self.range, self.bins + 1).tolist()
            return found
        if self.exponent is None:
            return []
        numbers = range(self.first, self.first + len(self.counts) + 1)
        if self.integer:
            return [i << self.exponent for i in numbers]
        return [_scaled(i, self.exponent) for i in numbers]


def _scaled(number: int, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:  # the upper edge of the largest floats
        return math.copysign(math.inf, number)


def _bin(number: Number, exponent: int) -> int:
    """Return the number of the bin of a width of two to an exponent."""
    if isinstance(number, int):
        return number >> exponent
    scaled = math.ldexp(number, -exponent)
    return -1 if number < 0 and scaled == 0 else math.floor(scaled)


def _exponent(low: Number, high: Number, bins: int, integer: bool) -> int:
    """Return the exponent of the smallest width for which the bins hold both ends."""
    if integer:
        exponent = max(0, (int(high - low) // bins).bit_length() - 1)
    else:
        largest = max(abs(low), abs(high))
        exponent = math.frexp(largest)[1] - MANTISSA if largest else LEAST_EXPONENT
        span = high / 2 - low / 2  # which does not overflow
        if span:
            exponent = max(exponent, math.frexp(span / bins)[1] - 1)
    while _bin(high, exponent) - _bin(low, exponent) >= bins:
        exponent += 1
    return exponent
