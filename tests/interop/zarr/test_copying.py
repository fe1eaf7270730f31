"""Copies of arrays, groups and stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.interop.zarr import copying


@pytest.mark.parametrize("zarr_format", [1, 2, "3-draft", 3])
def test_an_array_is_created_from_another_with_all_properties(zarr_format: Any) -> None:
    source = (
        oz.create_array(
            data=np.arange(60).reshape(10, 6),
            chunks=(3, 4),
            fill_value=7,
            attributes={"a": 1},
            compressors={"id": "zlib", "level": 1},
            zarr_format=zarr_format,
        )
        if zarr_format in (1, 2)
        else oz.create_array(
            data=np.arange(60).reshape(10, 6),
            chunks=(3, 2),
            shards=(6, 4),
            fill_value=7,
            attributes={"a": 1},
            compressors="gzip",
            zarr_format=zarr_format,
        )
    )
    made = copying.from_array({}, data=source)
    assert np.array_equal(made[...], source[...])
    assert made.metadata == source.metadata
    other = copying.from_array({}, data=source, chunks=(5, 6), zarr_format=3)
    assert (other.chunks, other.shards, other.zarr_format) == ((5, 6), None, 3)
    assert np.array_equal(other[...], source[...])


@pytest.mark.parametrize(("source", "target"), [(2, 2), (3, 3), (2, 3), (3, 2)])
@pytest.mark.parametrize(("dtype", "value"), [(bytes, b"ab"), (str, "ab")])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_text_and_bytes_of_any_length_are_copied(
    shape: tuple[int, ...], dtype: Any, value: Any, source: int, target: int
) -> None:
    """NumPy has variable-length byte strings as objects, which may have other types."""
    array = oz.create_array({}, shape=shape, dtype=dtype, zarr_format=source)
    array[...] = value
    group = oz.create_group({}, zarr_format=target)
    copying.copy(array, group, "copy")
    group["set"] = array
    group["view"] = array.view[...]
    copying.from_array(group.store, name="from", data=array, zarr_format=target)
    for name, made in group.arrays():
        assert made.metadata.data_type == array.metadata.data_type, name
        assert np.array_equal(made[...], array[...]), name


def test_an_array_is_created_from_values_and_lists() -> None:
    assert copying.from_array(data=[[1, 2], [3, 4]])[...].tolist() == [[1, 2], [3, 4]]
    assert copying.from_array(data=np.ones(3), write_data=False)[...].tolist() == [0, 0, 0]


def test_a_group_is_copied_with_all_below() -> None:
    source = oz.create_group()
    source.attrs["t"] = 1
    source.create_array("a/b", data=np.arange(4), attributes={"u": "m"})
    source.create_array("c", data=np.ones(3))
    target = oz.create_group(zarr_format=2)
    lines: list[str] = []
    assert copying.copy(source, target, "x", log=lines.append, dry_run=True) == (2, 0, 0)
    assert list(target) == []
    assert copying.copy(source, target, "x", log=lines.append)[:2] == (2, 0)
    assert target["x"].attrs["t"] == 1
    assert target["x/a/b"].attrs["u"] == "m"
    assert target["x/a/b"][...].tolist() == [0, 1, 2, 3]
    with pytest.raises(FileExistsError, match="if_exists"):
        copying.copy(source["c"], target["x"])
    assert copying.copy_all(source, target["x"], if_exists="skip") == (0, 2, 0)
    assert copying.copy_all(source, target["x"], if_exists="replace", shallow=True)[0] == 1


def test_a_store_is_copied_key_by_key() -> None:
    source: dict[str, bytes] = {}
    oz.create_array(source, path="a/b", data=np.arange(4), chunks=2)
    target: dict[str, bytes] = {}
    assert copying.copy_store(source, target, dest_path="old")[:2] == (5, 0)
    assert oz.open(target, path="old/a/b")[...].tolist() == [0, 1, 2, 3]
    before = dict(target)
    with pytest.raises(FileExistsError, match="if_exists"):
        copying.copy_store(source, target, dest_path="old")
    assert target == before
    assert copying.copy_store(source, target, dest_path="old", if_exists="skip")[:2] == (0, 5)
    some: dict[str, bytes] = {}
    copying.copy_store(source, some, source_path="a", excludes="/c/", includes="/c/1")
    assert sorted(some) == ["b/c/1", "b/zarr.json", "zarr.json"]


def test_paths_instead_of_nodes_are_refused_with_a_remedy() -> None:
    group = oz.create_group()
    with pytest.raises(
        oz.errors.WrongType, match=r"source must be .* got .a\.zarr.; .*`omnizarr.copy`"
    ):
        copying.copy("a.zarr", group)
    with pytest.raises(
        oz.errors.WrongType, match=r"destination must be a group, got 'b\.zarr'; .*`omnizarr.copy`"
    ):
        copying.copy(group, "b.zarr", "x")  # type: ignore[arg-type]
    with pytest.raises(oz.errors.WrongType, match="source must be"):
        copying.copy_all("a.zarr", group)  # type: ignore[arg-type]
