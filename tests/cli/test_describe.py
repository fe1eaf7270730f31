"""Descriptions of nodes without the engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.cli.describe import _any_grid, _simple_grid, describe, summary


def facts_of(array: oz.Array) -> dict[str, Any]:
    return describe(array._location, array._model)


@st.composite
def arrays(draw: st.DrawFn) -> oz.Array:
    """Arrays in memory of several formats, types, chunks and shards."""
    zarr_format = draw(st.sampled_from([2, 3]))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=4)))
    chunks = tuple(draw(st.integers(1, 4)) for _ in shape)
    types = ["i1", "u2", "f8", "c16", "?", "M8[s]", "U3", "S5"]
    options: dict[str, Any] = {"chunks": chunks} if shape else {}
    if zarr_format == 3 and shape and draw(st.booleans()):
        options["shards"] = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    made: oz.Array = oz.create_array(
        shape=shape, dtype=draw(st.sampled_from(types)), zarr_format=zarr_format, **options
    )
    return made


@given(arrays())
def test_the_quick_description_agrees_with_the_engine(array: oz.Array) -> None:
    quick = _simple_grid(array._model)
    assert quick is not None
    assert quick == _any_grid(array._location, array._model)
    assert quick["nbytes"] == array.nbytes


@given(arrays(), st.booleans())
def test_stored_chunks_and_shards_are_counted(array: oz.Array, written: bool) -> None:
    if written:
        array[...] = np.ones((), "u1").astype(array.dtype)
    stored = facts_of(array)["stored"]
    assert stored["of"] == array._bound.grid.count
    assert stored["values"] == (stored["of"] if written else 0)
    assert (stored["bytes"] > 0) == (stored["values"] > 0)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "string"},
        {"dtype": "f4", "chunks": [[2, 3], [5]], "shape": (5, 5)},
        {"dtype": [("a", "i4"), ("b", "f8")]},
        {"dtype": "f4", "zarr_format": 1},
        {"dtype": "f4", "zarr_format": "3-draft"},
    ],
)
def test_arrays_of_other_kinds_are_described_too(options: dict[str, Any]) -> None:
    array = oz.create_array(**{"shape": (5, 5), **options})
    facts = facts_of(array)
    assert facts["shape"] == [5, 5]
    assert math.prod(facts["chunk_grid"]) == array.nchunks
    assert str(summary(facts))


def test_what_is_not_understood_is_said(in_tmp: Any) -> None:
    array = oz.create_array("a.zarr", shape=4, codecs=["bytes", "crc32c"])
    text = (in_tmp / "a.zarr/zarr.json").read_text().replace("crc32c", "crc99")
    (in_tmp / "a.zarr/zarr.json").write_text(text)
    model = oz.open("a.zarr")._model
    facts = describe(array._location, model)
    assert "crc99" in facts["not_understood"]
    assert "crc99" in summary(facts)["not understood"]
