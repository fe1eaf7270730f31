"""The functions on the way of common calls, each the second time: a reader can follow them.

The goals are those of the redesign; where one is not met yet, the limit is today's number, which
only falls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.calls import PACKAGE, python_calls

DATA = np.arange(24, dtype="i4").reshape(6, 4)


def functions_and_files(call: Callable[[], object]) -> tuple[int, int]:
    """Return how many functions of the package a call goes through, and in how many files."""
    _, called = python_calls(call)
    found = {
        (code.co_filename, code.co_qualname, code.co_firstlineno)
        for code in called
        if code.co_filename.startswith(PACKAGE)
        and not code.co_name.startswith("<")  # comprehensions and lambdas, read where they are
    }
    return len(found), len({file for file, _, _ in found})


def _calls(folder: Path) -> dict[str, Callable[[int], object]]:
    array = oz.create_array(folder / "a.zarr", data=DATA, chunks=(3, 2))
    over: Any = {"data": DATA, "chunks": (3, 2), "overwrite": True}
    oz.create_array(folder / "over.zarr", **over)
    return {
        "read": lambda _: array[...],
        "open": lambda _: oz.open(folder / "a.zarr"),
        "partial write": lambda _: array.__setitem__((slice(1), slice(1)), 5),
        "create": lambda n: oz.create_array(folder / f"n{n}.zarr", shape=(6, 4), dtype="i4"),
        "create with data": lambda _: oz.create_array(folder / "over.zarr", **over),
        "copy": lambda n: oz.copy(folder / "a.zarr", folder / f"c{n}.zarr"),
    }


# Functions and files: the limits, and the goals of the redesign.
LIMITS = {
    "read": ((7, 6), (7, 6)),
    "open": ((18, 13), (20, 10)),
    "partial write": ((53, 20), (30, 10)),
    "create": ((57, 25), (60, 15)),
    "create with data": ((202, 40), (150, 25)),
    "copy": ((173, 28), (120, 20)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_second_call_goes_through_few_functions(name: str, tmp_path: Path) -> None:
    call = _calls(tmp_path)[name]
    call(1)
    # The least of three: a call that waits for a busy machine also logs that it did.
    functions, files = min(functions_and_files(partial(call, n)) for n in (2, 3, 4))
    limit = LIMITS[name][0]
    assert functions <= limit[0]
    assert files <= limit[1]
