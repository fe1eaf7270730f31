"""Arrays under zarr's names, and objects of one library given to the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr as plain_zarr

import omnizarr
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


@pytest.fixture
def theirs() -> Any:
    """An array that zarr-python itself made."""
    group = plain_zarr.group()
    return group.create_array("a", data=np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("function", ["array", "from_array", "create_array"])
def test_arrays_of_either_library_are_accepted(theirs: Any, zarr: Any, function: str) -> None:
    assert type(theirs).__module__.startswith("zarr.")
    for given in (theirs, omnizarr.create_array(data=np.arange(4), chunks=2)):
        call = getattr(zarr, function)
        made = call(given) if function == "array" else call({}, data=given)
        assert isinstance(made, zarr.Array)
        np.testing.assert_array_equal(made[:], given[:])


def test_an_async_array_of_zarr_python_becomes_ours(theirs: Any, zarr: Any) -> None:
    made = zarr.Array(theirs.async_array)
    assert isinstance(made, omnizarr.Array)
    assert made[1].tolist() == [3, 4, 5]


def test_omnizarr_takes_arrays_of_zarr(zarr: Any) -> None:
    array = zarr.array(np.arange(4), chunks=(2,))
    assert omnizarr.create_array(data=array)[:].tolist() == [0, 1, 2, 3]
    assert omnizarr.open(array.store)[:].tolist() == [0, 1, 2, 3]
    assert array.view[1:].read().tolist() == [1, 2, 3]


def test_zarr_python_says_what_to_do_with_our_arrays(zarr: Any) -> None:
    array = zarr.array(np.arange(4))
    omnizarr.as_zarr(undo=True)
    assert plain_zarr.open_array(array.store)[:].tolist() == [0, 1, 2, 3]
    with pytest.raises(AttributeError, match=r"np\.asarray"):
        array.ravel()


def test_an_array_replaces_itself_without_loss(zarr: Any) -> None:
    store: dict[str, Any] = {}
    array = zarr.create_array(store, data=np.arange(100), chunks=(10,))
    again = zarr.from_array(store, data=array, chunks=(25,), overwrite=True)
    assert again[:].tolist() == [*range(100)]
    assert again.chunks == (25,)


def test_nodes_from_the_internals_of_zarr_python_are_ours(zarr: Any) -> None:
    group = zarr.open_group({})
    array = group.create_array("x", data=np.arange(3))
    found = zarr.core.sync_group.get_node(group.store, "x", 3)
    assert isinstance(found, omnizarr.Array)
    assert found[:].tolist() == [0, 1, 2]
    nodes = {"": zarr.core.group.GroupMetadata(), "a": array.metadata}
    made = dict(zarr.core.sync_group.create_nodes(store=zarr.storage.MemoryStore(), nodes=nodes))
    assert isinstance(made["a"], zarr.Array)
    assert isinstance(made[""], zarr.Group)


def test_an_order_of_chunks_in_shards_is_accepted(zarr: Any) -> None:
    if not hasattr(zarr.codecs, "SubchunkWriteOrder"):
        pytest.skip("new in zarr-python 3.4")
    codec = zarr.codecs.ShardingCodec(chunk_shape=(2,), subchunk_write_order="lexicographic")
    array = zarr.create_array({}, shape=(8,), chunks=(4,), dtype="i4", serializer=codec)
    array[:] = range(8)
    assert array[:].tolist() == [*range(8)]


def test_settings_of_a_handle_can_be_changed(zarr: Any) -> None:
    array = zarr.create_array({}, shape=(3, 3), dtype="i1")
    assert array.with_config({"order": "F"})[:].flags["F_CONTIGUOUS"]
    assert array.order == "C"


def test_chunks_and_shards_are_counted_as_in_zarr_python(zarr: Any) -> None:
    array = zarr.create_array({}, shape=(8,), chunks=(2,), shards=(4,), dtype="i4")
    array[0] = 1
    assert (array.nchunks, array._nshards) == (4, 2)
    assert (array.nchunks_initialized, array._nshards_initialized) == (2, 1)
    assert list(array._iter_shard_keys()) == ["c/0", "c/1"]
    assert list(array._iter_shard_regions())[1] == (slice(4, 8, 1),)
    assert list(array.async_array._iter_chunk_coords(origin=(1,))) == [(1,), (2,), (3,)]
