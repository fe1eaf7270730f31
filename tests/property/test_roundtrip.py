"""Written values are read back bit for bit in every format."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import omnizarr
from tests.property.strategies import FORMATS, bits, described, filled, values


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Return a strategy for integers, slices with any step, an ellipsis, or nothing."""
    return basic_indices(shape, allow_ellipsis=True, allow_newaxis=False)


@pytest.mark.parametrize("format", FORMATS)
@given(kind=st.sampled_from(["memory", "directory"]), data=st.data())
def test_assigned_values_are_read_back_after_reopening(
    format: int | str, kind: str, data: st.DataObject
) -> None:
    array = data.draw(described(format))
    with tempfile.TemporaryDirectory() as folder:
        store: Any = {} if kind == "memory" else folder
        expected = array.empty()
        with omnizarr.configure(write_empty_chunks=data.draw(st.booleans())):
            written = array.create(store)
            for _ in range(data.draw(st.integers(0, 3))):
                selection = data.draw(selections(array.shape))
                value = data.draw(values(array.dtype, np.shape(expected[selection])))
                written[selection] = value
                # NumPy would put a 0-dimensional array of objects into the element itself.
                expected[selection] = value if value.ndim else value[()]
        found = omnizarr.open(store)
        assert found.shape == array.shape
        assert found.dtype == array.dtype
        assert bits(filled(found.fill_value, array.dtype)) == bits(array.fill)
        assert bits(filled(found[...], array.dtype, array.shape)) == bits(expected)
        selection = data.draw(selections(array.shape))
        shape = np.shape(expected[selection])
        part = filled(found[selection], array.dtype, shape)
        assert bits(part) == bits(filled(expected[selection], array.dtype, shape))
        assert omnizarr.validate(store) == []
