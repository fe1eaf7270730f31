"""Warnings are given once for each cause."""

from __future__ import annotations

import warnings

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
