"""Memory of large results is reused after they are deleted, and never before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel
from tests.engine.test_reference import needs_kernel

SIZE = 2**23


def address(array: np.ndarray[Any, Any]) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


@needs_kernel
def test_the_memory_of_a_deleted_result_is_reused() -> None:
    first = kernel.empty((SIZE,), np.dtype("u1"))
    where = address(first)
    del first
    assert address(kernel.empty((SIZE // 2,), np.dtype("u2"))) == where


@needs_kernel
def test_a_view_keeps_the_memory_of_a_result() -> None:
    array = oz.create_array(None, shape=SIZE, chunks=SIZE, dtype="u1", fill_value=7)
    view = array[...][5:9]
    other = array[...]
    other[...] = 1
    assert view.tolist() == [7] * 4


@needs_kernel
def test_reusable_memory_is_bounded() -> None:
    results = [kernel.empty((2**25 + n * 2**23,), np.dtype("u1")) for n in range(8)]
    for result in results:
        result[::4096] = 1
    places = [address(r) for r in results]
    assert len(set(places)) == 8
    del results, result

    again = kernel.empty((2**25 + 7 * 2**23,), np.dtype("u1"))
    assert address(again) == places[7]  # of those given back last


@pytest.mark.parametrize("dtype", ["O", np.dtypes.StringDType(), [("a", "O"), ("b", "i4")]])
def test_objects_and_text_do_not_use_reused_memory(dtype: Any) -> None:
    assert kernel.empty((2**20,), np.dtype(dtype)).base is None


@needs_kernel
@pytest.mark.parametrize("size", [0, -1, 2**62])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises((ValueError, MemoryError)):
        kernel._kernel.memory(size)
