"""Casts: values that a type cannot hold are refused, others are kept."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import omnizarr as oz
from omnizarr.data_types.cast import cast, convert

TEXT = np.dtype(np.dtypes.StringDType())
INTEGERS = ["i1", "u1", "i2", "i8", "u8", "?", "int4", "uint2"]
SOURCES = ["i1", "u2", "i8", "u8", "f2", "f4", "f8", "c16", "?", "int4", "bfloat16"]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def some(name: str) -> st.SearchStrategy[Any]:
    plain = {"int4": "i1", "bfloat16": "f4"}.get(name, name)
    return hnp.arrays(plain, hnp.array_shapes(max_dims=2, max_side=4)).map(
        lambda values: values.astype(dtype_of(name))
    )


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered in cast")
@given(values=st.sampled_from(SOURCES).flatmap(some), to=st.sampled_from(INTEGERS))
def test_integers_are_kept_exactly_or_one_that_does_not_fit_is_named(values: Any, to: str) -> None:
    dtype = dtype_of(to)
    low, high = (0, 1) if to == "?" else (ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max)
    exact = [complex(v) for v in values.astype(object).flat]
    whole = [int(v.real) if v == v.real and v.real % 1 == 0 else None for v in exact]
    if values.dtype.kind in "iu":
        whole = [int(v) for v in values.flat]
    bad = [n is None or not low <= n <= high for n in whole]
    try:
        found = cast(values, dtype, " in /a")
    except oz.InvalidArgument as e:
        wrong = [tuple(map(int, i)) for i in np.argwhere(np.reshape(bad, values.shape))]
        said = [f"at index {i} cannot be stored as {dtype} in /a: " in str(e) for i in wrong]
        assert said.count(True) == 1
        return
    assert not any(bad)
    assert [int(n) for n in found.flat] == whole


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1e300, "f4"),
        (70000, "f2"),
        (complex(0, 1e300), "c8"),
        (2**200, "f4"),
        (1e300, "bfloat16"),
        (np.inf, "float8_e4m3fn"),
        (100, "float4_e2m1fn"),
        (np.nan, "float6_e2m3fn"),
        (0, "float8_e8m0fnu"),
        (-1, "float8_e8m0fnu"),
        (1j, "f8"),
    ],
)
def test_a_float_type_refuses_what_it_has_no_number_close_to(value: Any, dtype: str) -> None:
    for given_value in (value, [value], np.array([value]), np.array([value], object)):
        with pytest.raises(oz.InvalidArgument, match="cannot be stored as"):
            convert(given_value, dtype_of(dtype))


def test_floats_are_rounded_and_keep_nan_and_infinity() -> None:
    given_values = np.array([0.1, np.nan, np.inf, -np.inf, 1e-300])
    np.testing.assert_array_equal(cast(given_values, np.dtype("f4")), given_values.astype("f4"))
    assert convert([None, 2**64], np.dtype("f8")).tolist()[1] == 2.0**64


def test_large_integers_of_mixed_signs_are_not_rounded_on_their_way() -> None:
    """NumPy makes floats of such a list."""
    assert convert([2**62 + 1, 2**63 + 1], np.dtype("u8")).tolist() == [2**62 + 1, 2**63 + 1]
    with pytest.raises(oz.InvalidArgument, match=r"9.223372036854776e\+18 at index \(0,\)"):
        convert(np.array([2.0**63]), np.dtype("i8"))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
@pytest.mark.parametrize("dtype", [TEXT, "S8", "U8", "i4", "?"])
def test_missing_values_do_not_become_words(missing: Any, dtype: Any) -> None:
    first: Any = "a" if np.dtype(dtype).kind in "TSU" else 1
    for values in ([first, missing], np.array([first, missing], object), missing):
        with pytest.raises(TypeError, match=r"(it is a missing value; .*optional|different kinds)"):
            convert(values, np.dtype(dtype), "a")


@pytest.mark.parametrize("na", [None, np.nan, pd.NA])
def test_missing_entries_of_numpy_text_do_not_become_words(na: Any) -> None:
    values = np.array(["a", na], np.dtypes.StringDType(na_object=na))
    for dtype in (TEXT, np.dtype("U8")):
        with pytest.raises(TypeError, match=r"at index \(1,\) .* it is a missing value"):
            cast(values, dtype)
        assert cast(values[:1], dtype).tolist() == ["a"]


@pytest.mark.parametrize(
    ("value", "dtype", "reason"),
    [
        ("abcd", "S3", "it is longer than 3"),
        ("abcd", "U3", "it is longer than 3"),
        (b"abcd", "V3", "it is longer than 3"),
        ("é", "S3", "'ascii' codec can't encode .* position 0"),
        ("a\ud800", TEXT, "(position 1: surrogates not allowed|code point)"),
        (b"\xff", TEXT, "'utf-8' codec can't decode"),
        (b"\xff", "U3", "'ascii' codec can't decode"),
        (5, "S3", "it is not text"),
        (5, TEXT, "it is not text"),
        ("5", "i4", "it is not a number"),
        ("5", "f4", "it is not a number"),
        ("2000-01-01T06", "M8[D]", "the unit of the type cannot express it"),
        (np.datetime64(2**60, "D"), "M8[s]", "out of the range"),
        (np.timedelta64(90, "m"), "m8[h]", "the unit of the type cannot express it"),
        (np.timedelta64(1, "M"), "m8[D]", "no fixed number of days"),
        (1.5, "M8[s]", "different kinds"),
        (np.datetime64(1, "s"), "i8", "different kinds"),
    ],
)
def test_text_and_times_are_not_shortened_or_converted(value: Any, dtype: Any, reason: str) -> None:
    for values in (value, [value], np.array([value]), [np.array([value])[0]]):
        with pytest.raises(oz.InvalidArgument, match=f"({reason}|different kinds)"):
            convert(values, np.dtype(dtype))


@pytest.mark.parametrize("values", [[(1, "ab"), (300, "a")], [(1, "abc"), (2, "a")], [(None, "")]])
def test_fields_are_checked_like_arrays(values: Any) -> None:
    dtype = np.dtype([("n", "u1"), ("t", "S2")])
    wide = np.dtype([("a", object), ("b", object)])
    for each in (values, np.array(values, wide)):
        with pytest.raises(oz.InvalidArgument, match=r"at index \(.,\) .* in field '[nt]' in /a"):
            convert(each, dtype, "a")
    fine = np.array([(1, "ab")], [("x", "i8"), ("y", "U4")])
    assert cast(fine, dtype).tolist() == [(1, b"ab")]


DAY = np.datetime64("2020-01-01", "D")


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([DAY, np.datetime64("9999-01-01", "s")], "M8[s]", ["2020-01-01", "9999-01-01"]),
        ([DAY, 5], "M8[s]", ["2020-01-01", "1970-01-01T00:00:05"]),
        ([[DAY], ["1970-01-01T00:00:02"]], "M8[s]", [["2020-01-01"], ["1970-01-01T00:00:02"]]),
        ([DAY, None], "M8[ns]", ["2020-01-01", "NaT"]),
        ([np.timedelta64(1, "D"), 7], "m8[s]", [86400, 7]),
    ],
)
def test_times_of_a_list_keep_their_own_units(values: Any, dtype: str, expected: Any) -> None:
    np.testing.assert_array_equal(convert(values, np.dtype(dtype)), np.array(expected, dtype))


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([DAY.astype("M8[ns]"), np.datetime64("9999-01-01", "D")], "M8[ns]", "out of the range"),
        ([np.timedelta64(10**6, "D"), np.timedelta64(1, "ns")], "m8[ns]", "out of the range"),
        ([DAY, np.datetime64("2020-01-01T00:00:01")], "M8[D]", r"at index \(1,\)"),
        ([DAY, np.timedelta64(5, "s")], "M8[s]", "not such a time"),
    ],
)
def test_times_of_a_list_are_not_wrapped_by_a_common_unit(
    values: Any, dtype: str, message: str
) -> None:
    with pytest.raises(oz.InvalidArgument, match=message):
        convert(values, np.dtype(dtype))
