"""Moments and histograms of parts give those of the whole, as exact arithmetic has them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from omnizarr.bulk.analysis.moments import Histogram, Moments

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def moments_of(parts: list[npt.NDArray[Any]]) -> Moments:
    found = Moments()
    for part in parts:
        if part.size:
            found.add(part, part.min(), part.max(), np.empty(part.size))
    return found


@st.composite
def numbers(draw: st.DrawFn) -> list[npt.NDArray[Any]]:
    """Draw finite numbers of one type, in a few parts."""
    dtype = np.dtype(draw(st.sampled_from([*INTEGERS, "f4", "f8"])))
    elements: Any = None
    if dtype.kind == "f":
        width: Any = 8 * dtype.itemsize
        largest = float(np.finfo(dtype).max) if draw(st.booleans()) else 1e6
        elements = st.floats(-largest, largest, allow_nan=False, allow_infinity=False, width=width)
    parts = st.lists(hnp.arrays(dtype, st.integers(0, 40), elements=elements), max_size=4)
    return draw(parts)


@given(parts=numbers())
@example(parts=[np.array([1.2e308] * 4 + [0.0] * 3 + [1.2e308])])
@example(parts=[np.array([1.7976931348623157e308] + [-8.98846567431158e306] * 20)])
def test_moments_of_parts_are_those_of_exact_arithmetic(parts: list[npt.NDArray[Any]]) -> None:
    found = moments_of(parts)
    exact = [Fraction(v) for part in parts for v in part.tolist()]
    assert found.count == len(exact)
    if not exact:
        assert (found.low, found.high, found.mean, found.variance) == (None, None, None, None)
        return
    mean = sum(exact) / len(exact)
    variance = sum((v - mean) ** 2 for v in exact) / len(exact)
    assert (found.low, found.high) == (float(min(exact)), float(max(exact))) or (
        found.low == min(exact) and found.high == max(exact)
    )
    spread = max(abs(v - mean) for v in exact)
    assert found.mean is not None
    assert found.variance is not None
    # One rounding of the mean itself, and few of the differences from it.
    allowed = abs(mean) * Fraction(2) ** -52 + spread * Fraction(1, 10**13) + Fraction(1, 10**320)
    assert abs(Fraction(found.mean) - mean) <= allowed
    if max(map(abs, exact)) < 1e140:  # the squares of others may overflow
        assert abs(Fraction(found.variance) - variance) <= spread**2 * Fraction(1, 10**12) + (
            Fraction(1, 10**300)
        )


@pytest.mark.parametrize(
    "large", [np.float64(1e9), np.int64(1_700_000_000_000_000_000), np.uint64(2**64 - 10**7)]
)
def test_a_small_spread_around_a_large_value_loses_no_digits(large: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 1000, 100_000)
    values = noise.astype(large.dtype) + large
    found = moments_of(np.array_split(values, 7))
    assert found.variance is not None
    assert math.isclose(found.variance, float(noise.var()), rel_tol=1e-12)


def test_the_mean_of_large_integers_is_exact_as_an_integer() -> None:
    values = np.array([2**62 + 1, 2**62 + 3, 2**62 + 5], np.int64)
    assert moments_of([values[:1], values[1:]]).rounded_mean == 2**62 + 3


def test_the_largest_floats_have_a_finite_mean() -> None:
    largest = np.finfo(np.float64).max
    assert moments_of([np.array([largest] * 3), np.array([largest])]).mean == largest
    assert moments_of([np.array([largest] * 3), np.array([-largest] * 3)]).mean == 0


@example(parts=[np.array([-3e-154, 1.2e170])], bins=2)
@given(parts=numbers(), bins=st.integers(2, 70))
def test_adaptive_bins_hold_every_number_once(parts: list[npt.NDArray[Any]], bins: int) -> None:
    found = Histogram(bins)
    for part in parts:
        if part.size:
            found.add(part, part.min().item(), part.max().item())
    values = [v for part in parts for v in part.tolist()]
    edges = found.edges
    assert len(found.counts) <= bins
    assert len(edges) == (len(found.counts) + 1 if values else 0)
    for begin, end, count in zip(edges, edges[1:], found.counts, strict=False):
        last = end == math.inf
        assert count == sum(begin <= v < end or (last and v == end) for v in values)
    assert sum(found.counts) == len(values)


@given(parts=numbers(), bins=st.integers(2, 70))
def test_adaptive_bins_do_not_depend_on_the_order_of_parts(
    parts: list[npt.NDArray[Any]], bins: int
) -> None:
    whole = [part for part in parts if part.size]
    results = []
    for order in (whole, whole[::-1], [np.concatenate(whole)] if whole else []):
        found = Histogram(bins)
        for part in order:
            found.add(part, part.min().item(), part.max().item())
        results.append(found)
    assert results[0] == results[1] == results[2]


@given(parts=numbers())
def test_bins_in_a_range_are_those_of_numpy(parts: list[npt.NDArray[Any]]) -> None:
    found = Histogram(10, (-5, 100))
    values = [v for part in parts for v in part.tolist()]
    for part in parts:
        if part.size:
            found.add(part, part.min().item(), part.max().item())
    expected, edges = np.histogram(np.array(values, np.float64), 10, (-5, 100))
    assert (found.counts or [0] * 10) == expected.tolist()
    assert found.edges == edges.tolist()
    assert found.below == sum(v < -5 for v in values)
    assert found.above == sum(v > 100 for v in values)
