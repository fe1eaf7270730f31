"""Warnings are given once per cause; error contexts add the location."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import (
    ChunkError,
    OmnizarrWarning,
    StoreError,
    error_context,
)


def shrink_and_grow(array: oz.Array) -> None:
    array.resize(2)
    array.resize(8)


def test_a_cause_is_reported_once_per_set_of_warning_filters() -> None:
    array = oz.create_array(shape=8, chunks=2, data=range(8))
    with warnings.catch_warnings(record=True) as first:
        warnings.simplefilter("always")
        shrink_and_grow(array)
        caught = [str(w.message) for w in first]
        shrink_and_grow(array)
    assert [str(w.message) for w in first] == caught
    assert len(set(caught)) == len(caught) == 2
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
    """Create a group with a member that cannot be read."""
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
        lambda: list(oz.open(broken())),
        lambda: oz.open(broken()).tree() and oz.open(broken()).members(),
        lambda: oz.create_group({}, zarr_format=2).create_array("é", shape=3),
    ],
)
def test_a_warning_names_the_line_that_called_the_library(act: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert [w.filename for w in caught] == [__file__]


def test_an_error_context_adds_the_location_and_keeps_the_attributes() -> None:
    with (
        pytest.raises(ChunkError, match=r"^chunk \(0,\): inner: damaged$") as caught,
        error_context("chunk (0,)", path="/a", chunk=(0,), codec="outer"),
        error_context("inner", codec="crc32c", key="c/0"),
    ):
        raise ChunkError("damaged")
    error = caught.value
    assert (error.path, error.chunk, error.key, error.codec) == ("/a", (0,), "c/0", "crc32c")


def test_an_error_context_changes_the_class_only_of_errors_without_an_array() -> None:
    context = error_context("cannot read", into=ChunkError, catch=(Exception,), path="/b")
    with pytest.raises(ChunkError, match="cannot read: no answer") as caught, context:
        raise StoreError("no answer")
    assert caught.value.path == "/b"
    assert isinstance(caught.value.__cause__, StoreError)
    with pytest.raises(ChunkError, match=r"^cannot read: not enough memory$"), context:
        raise MemoryError
    with pytest.raises(ChunkError, match=r"^whole story$"), context:
        raise ChunkError("whole story", path="/a")


@pytest.mark.parametrize(
    "act",
    [
        lambda: oz.open({}, mode="q"),
        lambda: oz.create_array({}, shape=(2,), chunks=(0,)),
        lambda: oz.create_array({}, shape=(-1,)),
        lambda: oz.create_array({}, shape=2, order="X"),
        lambda: oz.create_array({}, shape=2, zarr_format=9),
        lambda: oz.create_array({}, shape=2, compressors=3.5),
        lambda: oz.create_array({}, shape=2, dtype="S"),
        lambda: oz.create_group({}, path="a/../b"),
        lambda: hollow().resize((2, 2)),
        lambda: hollow().read(missing="sometimes"),
        lambda: oz.verify(hollow().store, depth="deep"),
        lambda: oz.storage.MemoryStore().get("../k"),
        lambda: oz.config.set(threads=0),
        lambda: oz.register("sandwich", "ham", object()),
    ],
)
def test_a_bad_argument_is_a_value_error_and_not_invalid_metadata(
    act: Callable[[], object],
) -> None:
    with pytest.raises(oz.InvalidArgument) as error:
        act()
    assert isinstance(error.value, ValueError)
    named = isinstance(error.value, oz.InvalidName)  # names are stored too
    assert named or not isinstance(error.value, oz.InvalidMetadata)


def test_invalid_metadata_are_no_bad_argument() -> None:
    with pytest.raises(oz.InvalidMetadata) as error:
        oz.open({"zarr.json": b'{"zarr_format": 3, "node_type": "array"}'})
    assert not isinstance(error.value, oz.InvalidArgument)
