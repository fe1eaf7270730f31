"""Downsampling agrees with a simple NumPy implementation, block by block."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.bulk import pyramid as module
from tests.servers.skipped import COMPILER

Values = npt.NDArray[Any]


def compiled() -> bool:
    return bool(module._COMPILED)


def downsample(values: Values, steps: Sequence[int], method: str) -> Values:
    """Return values downsampled; `gaussian` repeats the border elements."""
    factors = tuple(steps)
    out = np.empty([-(-n // f) for n, f in zip(values.shape, factors, strict=True)], values.dtype)
    if method == "gaussian":
        reach = module.gaussian_reach(factors)
        padding = [(r, r + -n % f) for r, n, f in zip(reach, values.shape, factors, strict=True)]
        values = np.pad(values, padding, mode="edge")
    module.downsample(values, factors, method, out)
    return out


def blocks(values: Values, factors: tuple[int, ...]) -> Values:
    """Return every block of `values` as an object, in an array of the result's shape."""
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
    with pytest.raises(oz.InvalidArgument, match="known: mean, mode, nearest, max, gaussian"):
        module.check_method("median")


TYPES = "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 >u2 >f4 c8"


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Values, tuple[int, ...]]:
    """Draw values of any type and size, with any strides."""
    dtype = np.dtype(draw(st.sampled_from(TYPES.split())))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=9))
    values = draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, allow_nan=False)))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=len(shape), max_size=len(shape)))
    values = values[tuple(slice(None, None, s) for s in steps)]
    if draw(st.booleans()):
        values = values.T
    factors = draw(st.lists(st.integers(1, 5), min_size=len(shape), max_size=len(shape)))
    return values, tuple(factors)


@pytest.mark.skipif(not compiled(), reason=COMPILER)
@pytest.mark.parametrize("method", ["mean", "max", "mode", "gaussian"])
@given(case=layouts())
def test_the_compiled_form_agrees_with_numpy_to_the_last_bit(
    method: str, case: tuple[Values, tuple[int, ...]]
) -> None:
    values, factors = case
    assume(method != "gaussian" or values.dtype.kind != "c")  # complex numbers have none
    with np.errstate(all="ignore"):
        found = downsample(values, factors, method)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_COMPILED", {})
            expected = downsample(values, factors, method)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not compiled(), reason=COMPILER)
@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "u4", "i4", "f4", "f8"])
def test_long_rows_agree_with_numpy(dtype: str) -> None:
    random = np.random.default_rng(0)
    for length, factor in ((5000, 1), (9001, 2), (7000, 3), (6000, 2500)):
        values = (random.random((3, length)) * 100).astype(dtype)
        if values.dtype.kind == "f":
            values *= random.random(length).astype(dtype) ** 20  # sums depend on their order
        for method in ("mean", "max", "mode"):
            found = downsample(values, (2, factor), method)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "_COMPILED", {})
                np.testing.assert_array_equal(found, downsample(values, (2, factor), method))


@pytest.mark.skipif(not compiled(), reason=COMPILER)
def test_the_compiled_code_refuses_invalid_and_leaves_unsupported_input() -> None:
    reduce, mean = module._blocks.reduce, module._blocks.MEAN
    values, out = np.zeros((4, 4), "u2"), np.zeros((2, 2), "u2")
    assert reduce(mean, values, out, (2, 2))
    for factors in ((2,), (2, 3), (2, 0), (2, -2), (4, 1), (2, 2**62), (2**64, 2)):
        with pytest.raises((ValueError, OverflowError)):
            reduce(mean, values, out, factors)
    for method in (-1, 3):
        with pytest.raises(ValueError, match="do not fit"):
            reduce(method, values, out, (2, 2))
    wide, weights = np.zeros((4, 4)), np.ones(2)
    for target, axis, step in ((wide[:3], 0, 2), (wide[:2], 1, 2), (wide, 2, 1), (wide[:2], 0, 0)):
        with pytest.raises(ValueError, match="do not fit"):
            module._blocks.weighted_sums(wide, weights, target.copy(), axis, step)
    read_only = out.copy()
    read_only.flags.writeable = False
    unaligned = np.zeros(33, "u1")[1:].view("u2").reshape(4, 4)
    dates = np.zeros((4, 4), "M8[s]")
    for source, target in (
        (values, read_only),
        (values, out.astype("u4")),
        (values.astype("f2"), out.astype("f2")),
        (values.astype(">u2"), out.astype(">u2")),
        (unaligned, out),
        (dates, dates[:2, :2]),
    ):
        assert not reduce(mean, source, target, (2, 2))
