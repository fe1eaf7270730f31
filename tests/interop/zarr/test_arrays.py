"""Arrays behave as zarr-python's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz


@pytest.mark.parametrize("version", [2, 3])
def test_a_smaller_array_keeps_its_chunks_at_the_border(zarr: Any, version: int) -> None:
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(9,), chunks=(4,), dtype="i4", zarr_format=version)
    array[...] = np.arange(1, 10)
    array.resize((2,))
    assert array.nchunks_initialized == 1
    array.resize((9,))
    assert array[:].tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 0]


def test_an_array_is_made_from_metadata_that_leave_out_what_has_a_default(zarr: Any) -> None:
    document = {
        "zarr_format": 2,
        "shape": (10,),
        "chunks": (1,),
        "dtype": "|u1",
        "dimension_separator": ".",
        "fill_value": 0,
        "order": "C",
    }
    path = zarr.storage.StorePath(zarr.storage.MemoryStore())
    assert zarr.Array.from_dict(path, document).shape == (10,)
    with pytest.raises(ValueError, match="Expected 2 or 3"):
        zarr.Array.from_dict(path, {**document, "zarr_format": "x"})


def test_chunks_in_shards_of_several_lengths_are_counted(zarr: Any) -> None:
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=12, chunks=2, shards=[[8, 4]], dtype="i4")
    array = zarr.open_array(oz.storage.MemoryStore(store), mode="r+")
    array[8:] = 1
    assert array.nchunks_initialized == 2
    assert array.nchunks == 6


def test_a_damaged_chunk_is_an_error_of_zarr_python_too(zarr: Any) -> None:
    values: dict[str, bytes] = {}
    oz.create_array(values, shape=4, chunks=2, shards=4, dtype="i4")[...] = 1
    values["c/0"] = values["c/0"][:3]
    array = zarr.open_array(oz.storage.MemoryStore(values), mode="r")
    with pytest.raises(ValueError, match="index") as caught:
        array[:]
    assert isinstance(caught.value, oz.ChunkError)


def test_arrays_have_no_codecs_that_zarr_python_has_not(zarr: Any) -> None:
    array = zarr.zeros((2, 2))  # pydantic-zarr looks for them
    assert not hasattr(array, "codecs")
    assert len(array.metadata.codecs) == 2


def test_any_names_of_dimensions_can_be_attributes(zarr: Any) -> None:
    array = zarr.create((2,), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["x"]})
    array.attrs["_ARRAY_DIMENSIONS"] = []  # kerchunk stores them before the final shape
    assert dict(array.attrs) == {"_ARRAY_DIMENSIONS": []}


def test_chunks_of_length_0_are_shown_as_zarr_python_stores_them(zarr: Any) -> None:
    try:
        array = zarr.create_array({}, shape=(0,), chunks=(0,), dtype="i4")
    except ValueError:
        pytest.skip("zarr-python 3.2 and later refuse them")
    assert array.chunks == array.metadata.chunks == (0,)
    assert array[:].shape == (0,)
