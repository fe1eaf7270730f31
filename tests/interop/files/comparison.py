"""Comparison of arrays, with NaN equal to itself also in fields of structured types."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(found: Any, expected: Any) -> None:
    """Raise if two arrays differ in a value."""
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.names is None:
        np.testing.assert_array_equal(found, expected)
        return
    assert found.shape == expected.shape
    for name in expected.dtype.names:
        np.testing.assert_array_equal(found[name], expected[name])
