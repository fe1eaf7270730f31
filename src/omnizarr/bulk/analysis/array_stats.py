"""The statistics of one array, which grow by parts of the array and can be merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnizarr.bulk.analysis.difference import is_extension
from omnizarr.bulk.analysis.moments import Histogram, Moments, Number
from omnizarr.errors import InvalidArgument
from omnizarr.extension import BoundArray, paths, type_name, value_text

SLICE = 2**15  # elements at a time, which the processor's cache holds
Kind: TypeAlias = Literal["numbers", "lengths", "none"]


@dataclass(frozen=True)
class Counting:
    """The values that `stats` counts, and the bins of a histogram."""

    bins: int | None = None
    range: tuple[Number, Number] | None = None
    skip_fill: bool = False
    valid_range: tuple[Number, Number] | None = None

    def __post_init__(self) -> None:
        if self.bins is not None and (not isinstance(self.bins, int) or self.bins < 2):
            raise InvalidArgument(f"bins must be an integer of at least 2, got {self.bins!r}")
        if self.range is not None and self.bins is None:
            raise InvalidArgument("range is that of a histogram; give bins too")
        for name in ("range", "valid_range"):
            ends = getattr(self, name)
            if ends is None:
                continue
            if len(ends) != 2 or not all(math.isfinite(end) for end in ends) or ends[0] >= ends[1]:
                raise InvalidArgument(f"{name} must be two numbers, the lower first, got {ends!r}")


@dataclass
class ArrayStats:
    """The statistics of one array.

    Numbers are those of the elements; of strings, those of their lengths. Complex numbers have no
    minimum and maximum, and other types only counts.
    """

    path: str
    data_type: str
    shape: tuple[int, ...] = ()
    kind: Kind = "numbers"
    time: str = ""  # the NumPy type of dates and durations
    size: int = 0  # elements
    chunks: int = 0
    missing_chunks: int = 0
    nan: int = 0  # NaN, NaT or None
    fill: int = 0  # equal to the fill value, missing chunks included
    outside: int = 0  # outside of the valid range
    moments: Moments = field(default_factory=Moments)
    imaginary: Moments | None = None
    counts: Histogram | None = None

    @classmethod
    def of(cls, array: BoundArray, options: Counting) -> ArrayStats:
        """Return the statistics of no element of an array."""
        dtype = array.dtype
        kind = _kind(dtype)
        histogram = None
        if options.bins is not None and kind != "none" and dtype.kind != "c":
            histogram = Histogram(options.bins, options.range)
        return cls(
            paths.show(array.path),
            type_name(array.model.data_type),
            array.model.shape,
            kind,
            dtype.newbyteorder("=").str[1:] if dtype.kind in "mM" else "",
            imaginary=Moments() if dtype.kind == "c" else None,
            counts=histogram,
        )

    # Results

    @property
    def count(self) -> int:
        """The number of values that the mean and standard deviation are of."""
        return self.moments.total

    @property
    def infinite(self) -> int:
        """The number of infinite values."""
        return self.moments.positive + self.moments.negative

    @property
    def min(self) -> Any:
        """The smallest value, or None."""
        return None if self.imaginary else self._value(self.moments.low)

    @property
    def max(self) -> Any:
        """The largest value, or None."""
        return None if self.imaginary else self._value(self.moments.high)

    @property
    def mean(self) -> Any:
        """The mean, or None."""
        if self.time:
            return self._value(self.moments.rounded_mean)
        mean = self.moments.mean
        if self.imaginary is not None and mean is not None:
            return complex(mean, self.imaginary.mean or 0.0)
        return mean

    @property
    def std(self) -> Any:
        """The standard deviation, divided by the count as in NumPy, or None."""
        variance = self.moments.variance
        if variance is None:
            return None
        if self.imaginary is not None:
            variance += self.imaginary.variance or 0.0
        found = math.sqrt(variance)
        if not self.time:
            return found
        return np.int64(round(found)).view(self.time.replace("M8", "m8"))

    @property
    def histogram(self) -> tuple[list[int], list[Any]] | None:
        """The counts of the bins, and their edges, of which there is one more."""
        if self.counts is None:
            return None
        edges = self.counts.edges
        return self.counts.counts, [self._value(round(e)) if self.time else e for e in edges]

    def _value(self, number: Number | None) -> Any:
        if number is None:
            return None
        if self.time:
            return np.int64(number).view(self.time)
        return bool(number) if self.data_type == "bool" else number

    def summary(self) -> dict[str, Any]:
        """Return the results as plain data: times as text, complex numbers as pairs."""
        found: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("path", "data_type", "kind", "size", "count", "nan", "infinite", "fill")
        }
        found["shape"] = list(self.shape)
        found |= {name: _as_json(getattr(self, name)) for name in ("min", "max", "mean", "std")}
        found |= {"chunks": self.chunks, "missing_chunks": self.missing_chunks}
        found["outside"] = self.outside
        if self.counts is not None:
            counts, edges = self.histogram or ([], [])
            found["histogram"] = {
                "counts": counts,
                "edges": [_as_json(edge) for edge in edges],
                "below": self.counts.below,
                "above": self.counts.above,
            }
        return found

    # Adding

    def merge(self, other: ArrayStats) -> None:
        """Add the statistics of another part of the array."""
        for name in ("size", "chunks", "missing_chunks", "nan", "fill", "outside"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.moments.merge(other.moments)
        if self.imaginary is not None and other.imaginary is not None:
            self.imaginary.merge(other.imaginary)
        if self.counts is not None and other.counts is not None:
            self.counts.merge(other.counts)

    def add(self, values: npt.NDArray[Any], fill: npt.NDArray[Any], options: Counting) -> None:
        """Add elements of the array, whose fill value is a 0-dimensional array."""
        flat = values.reshape(-1)
        room = np.empty(min(SLICE, max(1, flat.size)))
        with np.errstate(invalid="ignore"):  # signalling NaNs
            for start in range(0, flat.size, SLICE):
                self._add_slice(flat[start : start + SLICE], fill, options, room)

    def add_fill(self, count: int, array: BoundArray, options: Counting) -> None:
        """Add `count` elements with the fill value."""
        part = ArrayStats.of(array, options)
        part.add(array.fill.reshape(1), array.fill, options)
        for name in ("size", "nan", "fill", "outside"):
            setattr(part, name, getattr(part, name) * count)
        for each in (part.moments, part.imaginary, part.counts):
            if each is not None:
                each.repeat(count)
        if count:
            self.merge(part)

    def _add_slice(
        self, part: npt.NDArray[Any], fill: npt.NDArray[Any], options: Counting, room: Any
    ) -> None:
        self.size += part.size
        equal = _equal(part, fill)
        if equal is not None:
            self.fill += int(np.count_nonzero(equal))
            if options.skip_fill:
                part = part[~equal]
        if self.kind == "none" or not part.size:
            return
        numbers = _lengths(part) if self.kind == "lengths" else _numbers(part)
        self.nan += part.size - numbers.size
        if self.imaginary is not None:
            finite = np.isfinite(numbers)
            self.nan += int(np.isnan(numbers).sum())
            self.moments.positive += int(np.isinf(numbers).sum())
            for moments, each in (
                (self.moments, numbers.real[finite]),
                (self.imaginary, numbers.imag[finite]),
            ):
                if each.size:
                    moments.add(each, each.min(), each.max(), room)
            return
        self._add_numbers(numbers, options, room)

    def _add_numbers(self, numbers: npt.NDArray[Any], options: Counting, room: Any) -> None:
        """Add real numbers; NaN and infinite ones are only counted."""
        if not numbers.size:
            return
        low, high = numbers.min(), numbers.max()
        if numbers.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
            nan = np.isnan(numbers)
            self.nan += int(nan.sum())
            numbers = numbers[~nan]
            if options.valid_range is None:
                numbers = self._without_infinite(numbers)
            if not numbers.size:
                return
            low, high = numbers.min(), numbers.max()
        if options.valid_range is not None:
            first, last = options.valid_range
            if low < first or high > last:
                valid = numbers[(numbers >= first) & (numbers <= last)]
                self.outside += numbers.size - valid.size
                if not valid.size:
                    return
                numbers, low, high = valid, valid.min(), valid.max()
        self.moments.add(numbers, low, high, room)
        if self.counts is not None:
            self.counts.add(numbers, low.item(), high.item())

    def _without_infinite(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        for value, name in ((math.inf, "positive"), (-math.inf, "negative")):
            found = int((numbers == value).sum())
            if found:
                setattr(self.moments, name, getattr(self.moments, name) + found)
                part = Moments(low=value, high=value)
                self.moments.merge(part)
        finite: npt.NDArray[Any] = numbers[np.isfinite(numbers)]
        return finite


def _as_json(value: Any) -> Any:
    """Return a value as plain data."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value_text(value) if isinstance(value, np.generic) else value


def _kind(dtype: np.dtype[Any]) -> Kind:
    if dtype.kind in "biufcmM" or is_extension(dtype):
        return "numbers"
    return "lengths" if dtype.kind in "SUOT" else "none"


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers, floats or complex numbers of a native type, without NaT."""
    dtype = values.dtype
    if is_extension(dtype):
        return values.astype(np.int8 if "int" in dtype.name else np.float32)
    if dtype.kind == "b":
        return values.view(np.uint8)
    if dtype.kind in "mM":
        times: npt.NDArray[Any] = values[~np.isnat(values)]
        return times.astype(dtype.newbyteorder("=")).view(np.int64)
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return values.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    if dtype.kind == "c" and dtype.itemsize > 16:
        return values.astype(np.complex128)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _lengths(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the lengths of strings; of other objects than strings and lists, none."""
    if values.dtype.kind in "SUT":
        found: npt.NDArray[np.int64] = np.strings.str_len(values).astype(np.int64)
        return found
    return np.array([len(v) for v in values.tolist() if hasattr(v, "__len__")], np.int64)


def _equal(values: npt.NDArray[Any], fill: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
    """Return which values equal the fill value, NaN that of a NaN; None if none does."""
    if values.dtype.hasobject:
        value = fill[()]
        return np.array([v is value or bool(np.all(v == value)) for v in values.tolist()], bool)
    equal: Any = values == fill
    if np.asarray(fill != fill).any() and fill.dtype.names is None:
        equal = values != values
    return equal if isinstance(equal, np.ndarray) and equal.any() else None


def restored(stored: Mapping[str, Any]) -> ArrayStats:
    """Return the statistics that `dataclasses.asdict` made plain data of."""
    found = ArrayStats(**{**stored, "shape": tuple(stored["shape"])})
    found.moments = Moments(**stored["moments"])
    if stored["imaginary"] is not None:
        found.imaginary = Moments(**stored["imaginary"])
    if stored["counts"] is not None:
        histogram = dict(stored["counts"])
        if histogram["range"] is not None:
            histogram["range"] = tuple(histogram["range"])
        found.counts = Histogram(**histogram)
    return found
