"""Names that a format, a store or this package cannot keep apart are refused for new nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import omnizarr as oz
import omnizarr.xarray
from omnizarr.stores import LocalStore, MemoryStore
from omnizarr.stores.lmdb import LMDBStore

OURS = "a.__omnizarr_b"


def keys(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def member(name: str, **options: Any) -> MemoryStore:
    """Return a hierarchy with an array of a name that nothing would create."""
    found = MemoryStore()
    oz.create_group(found, **options)["x"] = np.arange(3)
    for key in [*found.list()]:
        if key.startswith("x/"):
            found.set(f"{name}/{key[2:]}", found.get(key) or b"")
            found.erase(key)
    return found


WAYS: dict[str, Callable[[Any, oz.Group], Any]] = {
    "create_array": lambda store, g: g.create_array(OURS, data=[1]),
    "create_group": lambda store, g: g.create_group(f"deep/{OURS}/below"),
    "item": lambda store, g: g.__setitem__(OURS, np.arange(2)),
    "require_array": lambda store, g: g.require_array(OURS, shape=2, dtype="i4"),
    "move": lambda store, g: g.move("x", OURS),
    "save": lambda store, g: oz.save(store, np.arange(3), path=OURS),
    "open": lambda store, g: oz.open(store, "w", path=OURS, shape=2, dtype="i4"),
    "hierarchy": lambda store, g: list(
        oz.create_hierarchy(store=store, nodes={OURS: oz.create_group({}).metadata})
    ),
    "xarray": lambda store, g: xr.Dataset({OURS: ("d", [1, 2])}).omnizarr.to(store, mode="a"),
    "convert": lambda store, g: oz.convert(member(OURS), store, zarr_format=2, overwrite=True),
    "rechunk": lambda store, g: oz.rechunk(member(OURS), store, chunks=1, overwrite=True),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_no_new_node_gets_a_name_of_this_package(way: str, kind: str, tmp_path: Path) -> None:
    store: Any = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "a.zarr")
    group = oz.create_group(store)
    group["x"] = np.arange(3)
    before = keys(store)
    with pytest.raises(oz.InvalidName, match="__omnizarr_"):
        WAYS[way](store, group)
    assert keys(store) == before


def test_an_existing_node_of_such_a_name_is_listed_read_copied_and_deleted(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a.zarr")
    oz.create_group(store)["x"] = np.arange(3)
    (tmp_path / "a.zarr/x").rename(tmp_path / "a.zarr" / OURS)
    group = oz.open(store, mode="r+")
    assert sorted(group) == [OURS]
    assert group[OURS][...].tolist() == [0, 1, 2]
    oz.copy(store, tmp_path / "b.zarr")
    assert oz.open(tmp_path / "b.zarr")[OURS][...].tolist() == [0, 1, 2]
    assert oz.validate(store) == []
    assert oz.verify(store).ok
    del group[OURS]
    assert sorted(group) == []


@pytest.mark.parametrize("way", ["convert", "rechunk"])
def test_a_backslash_is_refused_where_it_would_become_a_slash(way: str) -> None:
    """G16: version 2 had the metadata at a/b and the chunks at a\\b, or one node for two."""
    source, target = MemoryStore(), MemoryStore()
    group = oz.create_group(source)
    group["a/b"] = np.ones(2)
    with pytest.warns(oz.OmnizarrWarning, match="backslash"):
        group["a\\b"] = np.arange(3)
    ways: dict[str, Callable[[], Any]] = {
        "convert": lambda: oz.convert(source, target, zarr_format=2),
        "rechunk": lambda: oz.rechunk(source, target, zarr_format=2, chunks=1),
    }
    with pytest.raises(oz.InvalidName, match=r"'a\\\\b' contains a backslash"):
        ways[way]()
    assert set(target.list()) <= {".zgroup"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 256, "256 bytes"), ("é" * 128, "256 bytes"), ("\ud800", "surrogate")],
)
def test_a_name_that_no_disk_has_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    group = oz.create_group(tmp_path / "a.zarr")
    with pytest.raises(oz.InvalidName, match=reason):
        group[f"above/{name}"] = np.arange(3)
    assert sorted(group) == []


def test_a_path_is_refused_if_a_database_has_no_room_to_replace_the_node(tmp_path: Path) -> None:
    with LMDBStore(tmp_path / "a.lmdb", map_size=2**24) as store:
        group = oz.create_group(store)
        with pytest.raises(oz.InvalidName, match=r"shorten the path of the node by 10$"):
            group["y" * 411] = np.arange(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group["x" * 401] = np.arange(3)
        group.create_array("x" * 401, data=np.arange(4), overwrite=True)
        assert group["x" * 401][...].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", [".zarray", ".zgroup", ".zattrs", ".zmetadata"])
def test_no_node_has_the_name_of_a_metadata_document_of_version_2(name: str) -> None:
    group = oz.create_group({}, zarr_format=2)
    for path in (name, f"above/{name}", f"{name}/below"):
        with pytest.raises(oz.InvalidName, match="metadata document"):
            group.create_group(path)
    assert sorted(group) == []
