"""Making arrays smaller agrees with the plainest NumPy there is, block by block."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.ops.downsample import downsample

Values = npt.NDArray[Any]


def blocks(values: Values, factors: tuple[int, ...]) -> Values:
    """Every block of `values` as an object, in an array of the result's shape."""
    shape = [-(-n // f) for n, f in zip(values.shape, factors, strict=True)]
    out = np.empty(shape, object)
    for index in itertools.product(*map(range, shape)):
        at = tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))
        out[index] = values[at]
    return out


def mean(block: Values) -> Any:
    if block.dtype.kind == "f":
        return block.mean(dtype=np.float64)
    total, count = sum(int(v) for v in block.flat), block.size
    return (2 * total + count) // (2 * count)  # halves up


def mode(block: Values) -> Any:
    found, counts = np.unique(block, return_counts=True)
    return found[counts.argmax()]


ORACLES = {
    "mean": mean,
    "mode": mode,
    "max": lambda block: block.max(),
    "nearest": lambda block: block.flat[0],
}


@st.composite
def cases(draw: st.DrawFn, dtypes: str = "u1 u2 i2 u4 i8 u8 f4 f8") -> tuple[Values, Any]:
    dtype = np.dtype(draw(st.sampled_from(dtypes.split())))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=7))
    elements = hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    if dtype.kind == "f":
        elements = st.integers(-1000, 1000).map(lambda n: n / 4)
    values = draw(hnp.arrays(dtype, shape, elements=elements))
    factors = tuple(draw(st.lists(st.integers(1, 4), min_size=len(shape), max_size=len(shape))))
    return values, factors


@pytest.mark.parametrize("method", ORACLES)
@given(case=cases())
def test_every_method_agrees_with_the_plain_one(method: str, case: tuple[Values, Any]) -> None:
    values, factors = case
    expected = np.empty(
        [-(-n // f) for n, f in zip(values.shape, factors, strict=True)], values.dtype
    )
    for index, block in np.ndenumerate(blocks(values, factors)):
        expected[index] = ORACLES[method](block)
    found = downsample(values, factors, method)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, expected)


@given(case=cases("u1 u2 i2 f4"))
def test_a_gaussian_agrees_with_weights_written_out(case: tuple[Values, Any]) -> None:
    values, factors = case
    out = values.astype(np.float64)
    for axis, f in enumerate(factors):
        if f == 1:
            continue
        n = out.shape[axis]
        weights = np.array(
            [np.exp(-0.5 * ((k - (3 * f - 1) / 2) / (f / 3)) ** 2) for k in range(3 * f)]
        )
        weights /= weights.sum()
        rows = []
        for i in range(-(-n // f)):
            places = np.clip(np.arange(i * f - f, i * f + 2 * f), 0, n - 1)
            rows.append(np.tensordot(weights, np.take(out, places, axis), (0, axis)))
        out = np.stack(rows, axis)
    found = downsample(values, factors, "gaussian")
    assert found.dtype == values.dtype
    assert found.shape == out.shape
    tolerance = 1e-3 if values.dtype.kind == "f" else 0.51
    np.testing.assert_allclose(found.astype(float), out, rtol=1e-5, atol=tolerance)


def test_the_mean_of_the_largest_numbers_does_not_overflow() -> None:
    for dtype in ("u1", "u2", "u4", "u8", "i8"):
        top = np.iinfo(dtype).max
        values = np.full((4, 4, 4), top, dtype)
        assert (downsample(values, (2, 2, 2), "mean") == top).all()
        assert (downsample(values, (2, 2, 2), "gaussian").astype(float) >= top * 0.999).all()


def test_an_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(oz.InvalidMetadata, match="known: mean, mode, nearest, max, gaussian"):
        downsample(np.zeros((2, 2)), (2, 2), "median")
