"""Random values of types that files hold, and their comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def assert_same(found: Any, expected: Any) -> None:
    """Raise if two arrays differ in a value."""
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.names is None:
        np.testing.assert_array_equal(found, expected)
        return
    assert found.shape == expected.shape
    for name in expected.dtype.names:
        np.testing.assert_array_equal(found[name], expected[name])


TYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.byte_string_dtypes(min_len=1, max_len=5),
    st.just(np.dtype([("a", "<i4"), ("b", "<f8")])),
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def attribute_values(least: int) -> st.SearchStrategy[Any]:
    """Return numbers and text, and lists of `least` or more of them."""
    return st.one_of(
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
        st.lists(st.integers(-(2**40), 2**40), min_size=least, max_size=3),
        st.lists(TEXT, min_size=least, max_size=3),
    )
