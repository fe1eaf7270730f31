"""Groups under zarr's names, and metadata of nodes as zarr-python shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr
from tests.interop.zarr.conftest import replaced

zarr = pytest.fixture(replaced, scope="module")


def test_a_node_of_the_other_kind_is_the_error_of_zarr_python(zarr: Any) -> None:
    group = zarr.create_group({})
    group.create_group("g")
    group.create_array("a", shape=3, dtype="i4")
    errors = zarr.errors
    for call, name, error in (
        (group.get_array, "g", errors.ContainsGroupError),
        (group.get_group, "a", errors.ContainsArrayError),
        (group.get_array, "x", errors.ArrayNotFoundError),
        (group.get_group, "x", errors.GroupNotFoundError),
    ):
        with pytest.raises(error):
            call(name)
    with pytest.raises(errors.ContainsArrayError):
        zarr.open_group(group["a"].store_path)


@pytest.mark.parametrize("name", ["zeros", "empty", "ones", "create_array"])
def test_an_array_has_the_format_of_its_group(zarr: Any, name: str) -> None:
    group = zarr.create_group({}, zarr_format=2)
    assert getattr(group, name)("a", shape=3, dtype="i4").metadata.zarr_format == 2
    with pytest.raises(ValueError, match="zarr_format=3 array in a zarr_format=2 group"):
        getattr(group, name)("b", shape=3, dtype="i4", zarr_format=3)


def test_a_required_array_has_the_config_that_is_given(zarr: Any) -> None:
    group = zarr.create_group({})
    for _ in ("created", "opened"):
        array = group.require_array("a", shape=3, dtype="i4", config={"write_empty_chunks": True})
        assert array.config.write_empty_chunks
    for options, words in (
        ({"shape": 4, "dtype": "i4"}, "Incompatible shape"),
        ({"shape": 3, "dtype": "i2"}, "Incompatible dtype"),
    ):
        with pytest.raises(TypeError, match=words):
            group.require_array("a", **options)


def test_the_tree_is_that_of_zarr_python(zarr: Any) -> None:
    group = zarr.create_group({})
    group.create_array("a/b", shape=3, dtype="i4")
    assert repr(group.tree(level=0)).split() == ["/", "└──", "a"]
    assert "b (3,) int32" in repr(group.tree())


def test_attributes_are_replaced_where_zarr_python_replaces_them(zarr: Any) -> None:
    group = zarr.create_group({}, attributes={"a": 1})
    assert group.update_attributes({"b": 2}).attrs.asdict() == {"a": 1, "b": 2}
    replaced = asyncio.run(group.update_attributes_async({"c": 3}))
    assert replaced.attrs.asdict() == {"c": 3}


def test_handles_of_one_group_in_memory_are_equal_and_share_a_store(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    made = zarr.create_group(store)
    opened = zarr.open_group(zarr.storage.MemoryStore(store._store_dict))
    assert made == opened
    assert made._location.store is opened._location.store


def test_a_dataset_has_the_type_of_its_data(zarr: Any) -> None:
    values = np.arange(5, dtype="i2")
    with pytest.warns(DeprecationWarning, match="create_array") as issued:
        array = zarr.create_group({}).create_dataset("x", shape=(5,), data=values)
    assert [each.filename for each in issued] == [__file__]
    np.testing.assert_array_equal(array[:], values, strict=True)


def test_deleting_a_member_removes_all_files_below_it(zarr: Any, tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path)
    group.create_group("table")
    (tmp_path / "table" / "rows.parquet").write_bytes(b"rows")  # as spatialdata stores them
    del group["table"]
    assert not (tmp_path / "table").exists()
    del group["table"]  # as in zarr-python, it may be missing


def test_a_group_of_a_store_that_is_read_only_is_opened(zarr: Any) -> None:
    store = zarr.storage.MemoryStore()
    zarr.create_group(store, attributes={"a": 1})
    found = zarr.Group.open(store.with_read_only(True))
    assert dict(found.attrs) == {"a": 1}
    assert found.read_only


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_are_of_the_classes_of_zarr_python(zarr: Any, zarr_format: int) -> None:
    array = zarr.create_array({}, shape=(4, 4), dtype="i4", chunks=(2, 2), zarr_format=zarr_format)
    kinds = zarr.core.metadata
    wanted = kinds.ArrayV2Metadata if zarr_format == 2 else kinds.ArrayV3Metadata
    assert isinstance(array.metadata, wanted)
    assert array.metadata.chunk_grid.chunk_shape == (2, 2)
    assert array.metadata.fill_value == 0
    assert array.metadata is array.metadata  # made once


def test_metadata_follow_changes(zarr: Any) -> None:
    array = zarr.create_array({}, shape=(4,), dtype="i4")
    array.attrs["a"] = 1
    array.resize((6,))
    assert array.metadata.attributes == {"a": 1}
    assert array.metadata.shape == (6,)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_are_nested(zarr: Any, zarr_format: int, tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path, zarr_format=zarr_format)
    group.create_array("a/b", shape=(2,), dtype="i1")
    assert group.metadata.consolidated_metadata is None
    omnizarr.consolidate_metadata(tmp_path)
    found = zarr.open_group(tmp_path, mode="r").metadata.consolidated_metadata
    assert list(found.metadata) == ["a"]
    assert sorted(found.flattened_metadata) == ["a", "a/b"]
    inner = found.metadata["a"].consolidated_metadata.metadata["b"]
    assert inner == zarr.open_array(tmp_path, path="a/b").metadata


@pytest.mark.parametrize("zarr_format", [1, "3-draft"])
def test_other_versions_have_metadata_of_omnizarr(
    zarr: Any, zarr_format: Any, tmp_path: Path
) -> None:
    omnizarr.create_array(
        tmp_path / "a.zarr", shape=(3,), chunks=(2,), dtype="i2", zarr_format=zarr_format
    )[:] = 5
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert (array.metadata.shape, array.chunks, array.fill_value) == ((3,), (2,), 0)
    assert array[:].tolist() == [5, 5, 5]
    assert array.info._zarr_format == zarr_format
