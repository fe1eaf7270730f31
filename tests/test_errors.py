"""Warnings are given once for each cause."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import OmnizarrWarning


def shrink_and_grow(array: oz.Array) -> None:
    array.resize(2)
    array.resize(8)


def test_a_cause_is_told_once_and_again_to_whoever_sets_other_filters() -> None:
    array = oz.create_array(shape=8, chunks=2, data=range(8))
    with warnings.catch_warnings(record=True) as first:
        warnings.simplefilter("always")
        shrink_and_grow(array)
        told = [str(w.message) for w in first]
        shrink_and_grow(array)
    assert [str(w.message) for w in first] == told
    assert len(set(told)) == len(told) == 2
    assert {w.category for w in first} == {OmnizarrWarning}
    assert {w.filename for w in first} == {__file__}
    with pytest.warns(OmnizarrWarning, match="outside"):
        array.resize(2)


def test_warnings_that_are_errors_raise_each_time() -> None:
    array = oz.create_array(shape=8, chunks=2, data=range(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OmnizarrWarning)
        for _ in range(2):
            with pytest.raises(OmnizarrWarning, match="outside"):
                array.resize(2)


def broken() -> dict[str, Any]:
    """A group with a member that cannot be read."""
    store: dict[str, Any] = {}
    oz.create_group(store)
    store["bad/zarr.json"] = json.dumps({"zarr_format": 3, "node_type": "array"}).encode()
    return store


def hollow() -> oz.Array:
    return oz.create_array({}, shape=(4,), chunks=(2,), dtype="i4")


@pytest.mark.parametrize(
    "act",
    [
        lambda: hollow().attrs.update(a=np.nan),
        lambda: hollow().attrs.__setitem__("b", np.nan),
        lambda: hollow().attrs.setdefault("c", np.nan),
        lambda: oz.create_array({}, shape=3, attributes={"d": np.nan}),
        lambda: oz.create_group({}, attributes={"e": np.nan}),
        lambda: hollow().read(missing="warn"),
        lambda: hollow().view[2:].read(missing="warn"),
        lambda: oz.open(hollow().store, missing="warn")[1],
        lambda: list(oz.open_group(broken())),
        lambda: oz.open_group(broken()).tree() and oz.open_group(broken()).members(),
        lambda: oz.create_group({}, zarr_format=2).create_array("é", shape=3),
        lambda: oz.config.set({"async.concurrency": 3}),
    ],
)
def test_a_warning_names_the_line_that_called_the_library(act: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    assert [w.filename for w in told] == [__file__]
