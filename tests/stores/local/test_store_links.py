"""Symbolic links to files that are not there, as git-annex and DataLad leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.stores import LocalStore
from omnizarr.stores.local import store as local

TARGET = "../.git/annex/objects/abc"


def unfetched(path: Path) -> None:
    path.unlink()
    path.symlink_to(TARGET)


@pytest.fixture(params=[2, 3, "shards"])
def array(request: pytest.FixtureRequest, tmp_path: Path) -> oz.Array:
    """Return an array whose chunk or shard that begins at 200 is not fetched."""
    options = {"zarr_format": 2} if request.param == 2 else {}
    group = oz.create_group(tmp_path / "a.zarr", **options)
    shards = {"shards": 200} if request.param == "shards" else {}
    made = group.create_array("x", data=np.arange(1, 1001), chunks=100, fill_value=0, **shards)
    name = {2: "2", 3: "c/2", "shards": "c/1"}[request.param]
    unfetched(tmp_path / "a.zarr/x" / name)
    return made


READS: dict[str, Callable[[oz.Array], Any]] = {
    "all": lambda array: array[...],
    "one": lambda array: array[250],
    "some": lambda array: array.oindex[[1, 250, 999]],
    "part written": lambda array: array.__setitem__(250, 7),
    "copy": lambda array: oz.copy(array.store, {}),
}


@pytest.mark.parametrize("way", READS)
def test_a_chunk_whose_file_is_missing_behind_a_link_is_no_fill_value(
    array: oz.Array, way: str
) -> None:
    with pytest.raises(oz.OmnizarrError, match=rf"symbolic link to '{TARGET}'.*does not exist"):
        READS[way](array)
    assert array[100] == 101
    assert [TARGET in str(finding) for finding in oz.verify(array.store).findings] == [True]


def test_a_whole_chunk_may_replace_such_a_link(array: oz.Array) -> None:
    array[200:400] = 5
    assert array[...].sum() == np.arange(1, 1001).sum() - np.arange(201, 401).sum() + 5 * 200


@pytest.mark.parametrize("compiled", [True, False])
def test_keys_behind_such_links_are_not_absent(
    tmp_path: Path, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(local, "_files", None)
        monkeypatch.setattr(local, "_read_whole", None)
    store = LocalStore(tmp_path)
    store.set("a/k", b"1")
    unfetched(tmp_path / "a/k")
    for call in (
        lambda: store.get("a/k"),
        lambda: store.get_many([("a/k", None), ("b", None)]),
        lambda: store.get_versioned("a/k"),
        lambda: store.generation("a/k"),
        lambda: [*store.list_entries("")],
    ):
        with pytest.raises(oz.StoreError, match="symbolic link"):
            call()
    assert store.get_many([("b", None)]) == [None]
    assert [*store.list()] == ["a/k"]
    store.erase("a/k")
    assert store.get("a/k") is None


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_behind_such_links_are_no_missing_node(tmp_path: Path, zarr_format: Any) -> None:
    group = oz.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group["x"] = np.arange(3)
    unfetched(tmp_path / "a.zarr/x" / (".zarray" if zarr_format == 2 else "zarr.json"))
    for call in (lambda: group["x"], lambda: oz.open(tmp_path / "a.zarr", path="x")):
        with pytest.raises(oz.StoreError, match=f"symbolic link to '{TARGET}'"):
            call()
    (tmp_path / "b.zarr").symlink_to("nowhere")
    with pytest.raises(oz.NodeNotFound, match=r"b.zarr' is a symbolic link to 'nowhere'"):
        oz.open(tmp_path / "b.zarr")
