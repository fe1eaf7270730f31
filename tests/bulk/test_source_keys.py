"""Keys that patterns choose, and keys that a store does not list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.bulk.source_keys import lists_all, select, source_keys
from omnizarr.errors import InvalidArgument
from omnizarr.stores import MemoryStore, list_prefix


def hierarchy(zarr_format: Any) -> MemoryStore:
    store = MemoryStore()
    group = oz.create_group(store, zarr_format=zarr_format)
    for name in ("0", "1", "temp", "deep/temp_raw"):
        group.create_array(name, data=np.ones((3, 3)), chunks=(1, 1))
    store.set("README.md", b"text")
    return store


@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["0"], [], {"0"}),  # the name of a level, not that of chunks
        (["temp*"], [], {"deep", "deep/temp_raw", "temp"}),
        (["temp*"], ["temp_raw"], {"temp"}),
        (["deep/temp_raw"], [], {"deep", "deep/temp_raw"}),
        (["deep"], [], {"deep", "deep/temp_raw"}),
        ([], ["deep"], {"0", "1", "temp"}),
        ([], ["[01]", "**/temp_raw"], {"deep", "temp"}),
        (["*"], [], {"0", "1", "temp", "deep", "deep/temp_raw"}),
    ],
)
def test_nodes_are_chosen_with_all_that_they_need(
    zarr_format: Any, include: list[str], exclude: list[str], expected: set[str]
) -> None:
    source, target = hierarchy(zarr_format), MemoryStore()
    oz.copy(source, target, include=include, exclude=exclude)
    found = dict(oz.open(target).members(None))
    implied = {"deep"} if zarr_format == "3-draft" else set[str]()  # by a node below it
    assert expected - implied <= found.keys() <= expected
    for node in found.values():
        if isinstance(node, oz.Array):
            assert node[...].tolist() == np.ones((3, 3)).tolist()
    chunks = {key for key in list_prefix(target, "") if "temp_raw" in key}
    assert bool(chunks) == ("deep/temp_raw" in expected)


def test_keys_are_chosen_by_name_or_path() -> None:
    source = hierarchy(2)
    chosen = select(source, "", ["**/.zattrs", "README.md", "0/1.*"], [])
    assert chosen is not None
    found = {key for key in list_prefix(source, "") if chosen.has(key)}
    assert found == {"README.md", "0/1.0", "0/1.1", "0/1.2"} | {
        key for key in list_prefix(source, "") if key.endswith(".zattrs")
    }
    assert select(source, "", [], []) is None


def test_a_folder_without_a_hierarchy_is_chosen_from_by_folders() -> None:
    source = MemoryStore({"a/1": b"", "a/b/2": b"", "c/3": b""})
    chosen = select(source, "", ["a"], ["b"])
    assert chosen is not None
    assert [key for key in sorted(source.values) if chosen.has(key)] == ["a/1"]


def test_an_empty_or_invalid_pattern_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must not be empty"):
        select(MemoryStore(), "", [""], [])
    with pytest.raises(InvalidArgument, match="is not valid"):
        select(MemoryStore(), "", ["[b-a]"], [])


@pytest.mark.parametrize("zarr_format", [2, "3-draft", 3])
def test_keys_made_from_metadata_include_all_that_are_stored(zarr_format: Any) -> None:
    store = hierarchy(zarr_format)
    store.erase("README.md")
    assert lists_all(store, "")
    made = {entry.key for entry in source_keys(store, "", listed=False)}
    assert made >= {*list_prefix(store, "")}
    inside = {entry.key for entry in source_keys(store, "deep", listed=True)}
    assert inside == {key[5:] for key in list_prefix(store, "deep/")}
