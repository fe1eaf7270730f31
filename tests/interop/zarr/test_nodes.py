"""Metadata of arrays and groups as zarr-python shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnizarr


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
