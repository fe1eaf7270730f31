"""Awaitable arrays in the place of zarr-python's."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from omnizarr.interop.zarr import library
from tests.interop.zarr.conftest import replaced

zarr = pytest.fixture(replaced, scope="module")

DATA = np.arange(4 * 5).reshape(4, 5)


@pytest.mark.parametrize(
    ("kind", "selection"),
    [
        ("oindex", ([1, 3], slice(None))),
        ("oindex", (slice(1, None), [True, False, True, False, True])),
        ("vindex", ([1, 3], [0, 4])),
        ("vindex", (np.array([[0, 1]]), np.array([[2], [3]]))),
    ],
)
def test_selections_are_awaited_through_the_classes_of_zarr_python(
    zarr: Any, kind: str, selection: Any
) -> None:
    from zarr.core import indexing

    array = zarr.create_array({}, data=DATA, chunks=(2, 2))
    theirs = indexing.AsyncOIndex if kind == "oindex" else indexing.AsyncVIndex
    with patch.object(theirs, "getitem", autospec=True, side_effect=theirs.getitem) as called:
        found = asyncio.run(getattr(array.async_array, kind).getitem(selection))
    called.assert_awaited_once()
    expected = DATA[np.ix_(*_lists(selection))] if kind == "oindex" else DATA[selection]
    np.testing.assert_array_equal(found, expected.reshape(np.shape(found)))
    assert found.size == expected.size


def _lists(selection: tuple[Any, ...]) -> list[Any]:
    """Return the positions along each axis."""
    return [np.arange(n)[s] for n, s in zip(DATA.shape, selection, strict=True)]


def test_arrays_and_groups_are_made_of_awaitable_ones_of_either_library(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    group = zarr.create_group(store, attributes={"x": 1})
    array = group.create_array("a", data=DATA, chunks=(2, 2))
    kinds = library.original("zarr.core.array", "AsyncArray")
    theirs = kinds(metadata=array.metadata, store_path=array.store_path)
    for given in (array.async_array, theirs):
        made = zarr.Array(_async_array=given)
        np.testing.assert_array_equal(made[:], DATA, strict=True)
        made[0, 0] = 0
    kinds = library.original("zarr.core.group", "AsyncGroup")
    theirs = kinds(metadata=group.metadata, store_path=group.store_path)
    for given in (group._async_group, theirs):
        opened = zarr.Group(_async_group=given)
        assert dict(opened.attrs) == {"x": 1}
        assert [*opened] == ["a"]
        assert opened.store is store


def test_the_settings_of_an_awaitable_array_are_those_of_zarr_python(zarr: Any) -> None:
    array = zarr.create_array({}, shape=(2,), dtype="i4", config={"write_empty_chunks": True})
    assert array._async_array._config == array.config
    assert isinstance(array.config, zarr.core.array_spec.ArrayConfig)
