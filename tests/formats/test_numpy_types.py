"""Fill values of narrow floats are rounded once, from the digits in the metadata."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz


def nearest(exact: Fraction, dtype: str) -> Any:
    """Return the value of a type nearest to a number, the even one of two that are as near."""
    guess = np.dtype(dtype).type(float(exact))
    some = [guess, np.nextafter(guess, guess.dtype.type(-np.inf)), np.nextafter(guess, np.inf)]
    unsigned = f"u{guess.itemsize}"
    return min(some, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(unsigned)) % 2))


def decimal(number: Fraction, digits: int) -> str:
    """Return the digits of a positive number whose denominator is a power of two, some of them."""
    scaled = number * 10**digits
    return f"{scaled.numerator // scaled.denominator}e-{digits}"


def fill_of(format: int, dtype: str, text: str) -> Any:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(1,), dtype=dtype, fill_value=0.5, zarr_format=format)
    key = {1: "meta", 2: ".zarray", 3: "zarr.json"}[format]
    assert store[key].count(b"0.5") == 1
    store[key] = store[key].replace(b"0.5", text.encode())
    return oz.open(store)[0]


@pytest.mark.shows("V3-39")
@given(
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["float32", "float16"]),
    st.integers(0, 2**10 - 1),
    st.integers(-10, 10),
    st.sampled_from([-1, 0, 1]),
    st.integers(40, 60),
)
def test_a_number_near_the_middle_of_two_floats_rounds_to_the_nearer(
    format: int, dtype: str, low: int, power: int, side: int, digits: int
) -> None:
    bits = np.finfo(dtype).nmant
    middle = Fraction(2 ** (bits + 1) + 2 * low + 1, 2 ** (bits + 1)) * Fraction(2) ** power
    exact = middle + side * Fraction(1, 10**digits)
    text = decimal(exact, digits + 2)
    assert float(text) == middle
    assert fill_of(format, dtype, text) == nearest(Fraction(text), dtype)


@pytest.mark.shows("V3-39")
@given(st.sampled_from(["float32", "float16", "float64"]), st.integers(-(2**64), 2**64))
def test_an_integer_is_rounded_once(dtype: str, number: int) -> None:
    got = fill_of(3, dtype, str(number))
    with np.errstate(over="ignore"):
        big = abs(number) > np.finfo(dtype).max
        assert np.isinf(got) if big else got == nearest(Fraction(number), dtype)


def test_rewritten_metadata_keeps_the_value() -> None:
    text = "1.00000017881393432617187499"
    assert np.float32(float(text)) != fill_of(3, "float32", text)
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=(1,), dtype="f4", fill_value=0.5)
    store["zarr.json"] = store["zarr.json"].replace(b"0.5", text.encode())
    before = oz.open(store)[0]
    oz.open(store, mode="r+").attrs["a"] = 1
    assert oz.open(store)[0] == before
    assert isinstance(json.loads(store["zarr.json"])["fill_value"], float)


def test_the_middle_of_two_32_bit_floats_is_kept_for_64_bits() -> None:
    assert fill_of(3, "float64", "1.00000017881393432617187499") == 1.00000017881393432617187499


@pytest.mark.parametrize("format", [1, 2, 3])
def test_numbers_that_are_equal_as_64_bit_floats_are_distinguished(format: int) -> None:
    middle = "1.000000178813934326171875"
    below, above = middle[:-1] + "4999", middle + "0001"
    assert float(below) == float(above)
    assert fill_of(format, "float32", below) < fill_of(format, "float32", above)
