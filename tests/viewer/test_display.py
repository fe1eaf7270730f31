"""How nodes are shown: photographs, and the chunks that a selection needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.viewer import display


@pytest.mark.parametrize(
    ("shape", "dtype", "names", "in_color"),
    [
        ((20, 30, 3), "u1", None, True),
        ((20, 30, 4), "u1", ("y", "x", "channel"), True),
        ((5, 20, 30, 3), "u1", ("t", "y", "x", "rgb"), True),
        ((20, 30, 3), "u2", None, False),
        ((20, 30, 2), "u1", None, False),
        ((20, 30, 3), "u1", ("y", "x", "z"), False),
        ((3, 3, 3), "u1", None, False),
        ((30, 3), "u1", None, False),
    ],
)
def test_photographs_are_shown_in_their_colours(
    shape: tuple[int, ...], dtype: str, names: Any, in_color: bool
) -> None:
    store = oz.storage.MemoryStore()
    array = oz.create_array(store, shape=shape, dtype=dtype, dimension_names=names)
    found = display.display(array)
    assert (found["channels"] is not None) is in_color
    if in_color:
        assert found["plane"] == [len(shape) - 3, len(shape) - 2]
        assert found["channels"]["axis"] == len(shape) - 1
        assert found["channels"]["labels"] == ["red", "green", "blue"]


def test_chunks_are_counted_as_a_selection_touches_them() -> None:
    for sizes in (4, (3, 1, 5, 4)):
        edges = np.cumsum(sizes) if isinstance(sizes, tuple) else np.arange(4, 17, 4)
        for start in range(13):
            for stop in range(start, 14):
                for step in range(1, 9):
                    touched = {
                        int(np.searchsorted(edges, n, "right")) for n in range(start, stop, step)
                    }
                    assert display.touched(range(start, stop, step), sizes) == len(touched)


def test_the_work_of_a_selection_is_that_of_its_chunks() -> None:
    array = oz.create_array(oz.storage.MemoryStore(), shape=(100, 90), chunks=(10, 30), dtype="i4")
    assert display.work(array, (slice(0, 100, 50), 5)) == (2, 2 * 10 * 30 * 4)
    assert display.work(array, (99, slice(0, 90))) == (3, 3 * 10 * 30 * 4)
    assert display.work(array, (slice(3, 3), 0)) == (0, 0)
