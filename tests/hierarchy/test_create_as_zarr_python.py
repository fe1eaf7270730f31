"""D11b: arguments and results that programs for zarr-python expect."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import omnizarr as oz
from omnizarr.errors import (
    CannotExpress,
    InvalidArgument,
    InvalidMetadata,
    ReadOnly,
    StoreError,
)
from omnizarr.storage import PrefixStore, ReadOnlyStore
from omnizarr.stores import Store
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.sqlite import SQLiteStore

# Codecs


@given(
    st.sampled_from(["blosc", "gzip", "zstd"]),
    st.sets(st.sampled_from(["cname", "clevel", "shuffle", "blocksize", "typesize", "level"])),
    st.sampled_from(["u1", "f4", "i8"]),
)
def test_a_compressor_has_the_defaults_of_zarr_python(
    name: str, stated: set[str], dtype: str
) -> None:
    """D11b: and the array is the one that zarr-python makes."""
    members = {"cname": "lz4", "clevel": 3, "shuffle": "noshuffle", "blocksize": 8, "typesize": 4}
    if name != "blosc":
        members = {"level": 3}
    codec = {"name": name, "configuration": {k: members[k] for k in stated & members.keys()}}
    theirs, ours = zarr.storage.MemoryStore(), oz.storage.MemoryStore()
    given: dict[str, Any] = {"shape": 9, "chunks": 3, "dtype": dtype, "compressors": [codec]}
    oz.create_array(ours, **given)
    zarr.create_array(theirs, **given)
    document = json.loads(theirs._store_dict["zarr.json"].to_bytes())
    assert json.loads(ours.values["zarr.json"])["codecs"] == document["codecs"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["blosc", "gzip", "zstd"])
def test_a_compressor_may_be_its_name_alone(name: str, zarr_format: int) -> None:
    """D11b: of version 2 it was a bare KeyError."""
    array = oz.create_array(
        {}, data=np.arange(9), compressors={"name": name}, zarr_format=zarr_format
    )
    assert array[...].tolist() == [*range(9)]


def test_stored_metadata_has_no_defaults() -> None:
    """D11b: defaults apply only to new arrays."""
    store: dict[str, bytes] = {}
    oz.create_array(store, shape=4, chunks=2, shards=4, compressors={"name": "gzip"})
    document = json.loads(store["zarr.json"])
    del document["codecs"][0]["configuration"]["codecs"][1]["configuration"]["level"]
    store["zarr.json"] = json.dumps(document).encode()
    with pytest.raises(InvalidMetadata, match="level"):
        oz.open(store, kind="array")[...]


# Shards


@pytest.mark.parametrize("place", ["start", "end", None])
def test_shards_can_be_a_shape_with_the_index_location(place: str | None) -> None:
    """D11b."""
    wanted = {"shape": (4, 6)} if place is None else {"shape": (4, 6), "index_location": place}
    store = oz.storage.MemoryStore()
    data = np.arange(96, dtype="i4").reshape(8, 12)
    array = oz.create_array(store, data=data, chunks=(2, 3), shards=wanted)
    assert (array.chunks, array.shards) == ((2, 3), (4, 6))
    (codec,) = json.loads(store.values["zarr.json"])["codecs"]
    assert codec["configuration"]["index_location"] == (place or "end")
    assert np.array_equal(oz.open(store)[...], data)


def test_shards_that_are_no_shape_are_refused() -> None:
    """D11b."""
    options: dict[str, Any] = {"shape": (8, 8), "chunks": (2, 2), "dtype": "u1"}
    with pytest.raises(InvalidArgument, match="expected a shape, or an object with 'shape'"):
        oz.create_array({}, **options, shards={"shap": (4, 4)})
    with pytest.raises(InvalidArgument, match="'start' or 'end', got 'middle'"):
        oz.create_array({}, **options, shards={"shape": (4, 4), "index_location": "middle"})
    start = {"shape": (4, 4), "index_location": "start"}
    with pytest.raises(CannotExpress, match="the index of a shard at its start"):
        oz.create_array({}, **options, shards=start, zarr_format="3-draft")


# Growing


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.integers(0, 7), max_size=5),
    st.booleans(),
)
def test_an_array_with_chunks_of_any_lengths_grows(
    lengths: list[int], parts: list[int], resized: bool
) -> None:
    """D11b: values are those of NumPy, and chunks that were there stay."""
    store = oz.storage.MemoryStore()
    options: dict[str, Any] = {"shape": (sum(lengths), 3), "dtype": "i2", "fill_value": -1}
    array = oz.create_array(store, **options, chunks=[lengths, [2, 1]])
    expected = np.arange(sum(lengths) * 3, dtype="i2").reshape(-1, 3)
    array[...] = expected
    for number, count in enumerate(parts):
        more = np.full((count, 3), number, "i2")
        expected = np.concatenate([expected, more])
        if resized:
            array.resize(expected.shape)
            array[len(expected) - count :] = more
        else:
            array.append(more)
        assert np.array_equal(oz.open(store)[...], expected)
    assert [*array.write_chunk_sizes[0]][: len(lengths)] == lengths
    assert sum(array.write_chunk_sizes[0]) == len(expected)
    again = oz.open(store, mode="r+")
    again.append(np.zeros((len(expected), 2), "i2"), axis=1)
    assert again.shape == (len(expected), 5)
    assert oz.verify(store).ok


def test_equal_chunks_at_the_end_are_counted() -> None:
    """D11b: so that the document does not grow with every append."""
    store = oz.storage.MemoryStore()
    array = oz.create_array(store, shape=3, chunks=[[1, 2]], dtype="i2")
    for _ in range(50):
        array.append([1, 2])
    grid = json.loads(store.values["zarr.json"])["chunk_grid"]
    assert grid["configuration"]["chunk_shapes"] == [[1, [2, 51]]]
    assert array.shape == (103,)


# Groups


@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
def test_a_group_with_other_files_is_deleted_where_that_is_said(
    zarr_format: Any, tmp_path: Path
) -> None:
    """D11b: spatialdata keeps Parquet files in groups."""
    root = oz.create_group(tmp_path, zarr_format=zarr_format)
    root.create_array("points/x", data=[1, 2])
    folder = next(p for p in tmp_path.rglob("points") if p.is_dir())
    (folder / "points.parquet").mkdir()
    (folder / "points.parquet" / "part.0.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=r"points\.parquet.*foreign=True"):
        del root["points"]
    assert root["points/x"][...].tolist() == [1, 2]
    root.delete("points", foreign=True)
    assert "points" not in root
    assert not folder.exists()


# Stores


def stores(folder: Path) -> dict[str, Store]:
    import fsspec

    memory = oz.storage.MemoryStore()
    return {
        "local": oz.storage.LocalStore(folder / "local"),
        "memory": memory,
        "fsspec": FsspecStore(fsspec.filesystem("file", auto_mkdir=True), path=str(folder / "fs")),
        "prefix": PrefixStore(memory, "in"),
        "sqlite": SQLiteStore(folder / "x.sqlite"),
    }


@pytest.mark.parametrize("name", ["local", "memory", "fsspec", "prefix", "sqlite"])
def test_a_store_is_made_read_only_and_writable_again(name: str, tmp_path: Path) -> None:
    """D11b: both see the same values."""
    store: Any = stores(tmp_path)[name]
    store.set("k", b"1")
    reader = store.with_read_only(True)
    assert reader.read_only
    assert not store.read_only
    assert reader.get("k") == b"1"
    with pytest.raises(ReadOnly):
        reader.set("k", b"2")
    writer = reader.with_read_only()
    writer.set("k", b"3")
    assert store.get("k") == reader.get("k") == b"3"
    assert store.with_read_only(False).get("k") == b"3"
    if name != "memory":
        assert pickle.loads(pickle.dumps(reader)).read_only


def test_a_store_that_was_opened_to_be_read_only_says_how_to_change_it(tmp_path: Path) -> None:
    """D11b."""
    SQLiteStore(tmp_path / "x").set("k", b"1")
    reader = SQLiteStore(tmp_path / "x", read_only=True)
    assert reader.with_read_only(True) is reader
    with pytest.raises(StoreError, match="open it again to change it"):
        reader.with_read_only(False)
    assert ReadOnlyStore(reader).with_read_only(False) is reader
