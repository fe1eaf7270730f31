"""Chunks are never stored in an array that somebody has just replaced, moved or deleted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.engine import kernel, reference
from omnizarr.engine.watch import ArrayWatch

KINDS = ("memory", "sqlite", "lmdb")
VALUES = np.arange(1, 13, dtype="i4")
WRITES: dict[str, Callable[[oz.Array], object]] = {
    "whole": lambda a: a.__setitem__(slice(4, 8), 7),
    "part": lambda a: a.__setitem__(5, 7),
    "new": lambda a: a.__setitem__(slice(12, 16), 7),
}
CHANGES: dict[str, Callable[[oz.Group], object]] = {
    "move": lambda g: g.move("a", "b"),
    "delete": lambda g: g.delete("a"),
    "overwrite": lambda g: g.create_array("a", data=VALUES / 2, overwrite=True),
}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return _store(request.param, tmp_path)


def _store(kind: str, folder: Path) -> Any:
    if kind == "lmdb":
        pytest.importorskip("lmdb")
        return oz.storage.LMDBStore(folder / "x")
    if kind == "sqlite":
        return oz.storage.SQLiteStore(folder / "x")
    return {} if kind == "memory" else folder / "x"


def _create(store: Any) -> oz.Group:
    group = oz.create_group(store)
    array = group.create_array("a", shape=16, chunks=4, dtype="i4")
    array[:12] = VALUES
    return group


def _before(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, act: Callable[[], Any]) -> None:
    """Have something happen once, right before a function is called."""
    real, acts = getattr(where, name), [act]

    def first(*given: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return real(*given, **options)

    monkeypatch.setattr(where, name, first)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("write", ["whole", "part", "new"])
def test_no_chunk_is_stored_for_an_array_that_is_gone(
    store: Any, monkeypatch: pytest.MonkeyPatch, write: str, change: str
) -> None:
    group = _create(store)
    array, other = group["a"], oz.open(store, mode="r+")
    in_memory = isinstance(store, dict)
    if in_memory and (write == "part" or kernel.identity is None):
        pytest.skip("others wait for the lock of a chunk, which only another thread can do")
    place: Any = (kernel, "_store_values") if in_memory else (reference, "_transact")
    _before(monkeypatch, *place, lambda: CHANGES[change](other))
    with pytest.raises(oz.NodeChanged):
        WRITES[write](array)
    left = oz.open(store, mode="r")
    if change == "move":
        assert [*left["b"][:12]] == [*VALUES]
    keys = [*store] if in_memory else [*left.store.list()]
    chunks = sorted(key for key in keys if key.startswith("a/") and not key.endswith(".json"))
    assert chunks == (["a/c/0"] if change == "overwrite" else [])


@pytest.mark.parametrize("change", CHANGES)
def test_a_chunk_that_is_stored_just_before_goes_with_its_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store = _store("sqlite", tmp_path)
    array, other = _create(store)["a"], oz.open(store, mode="r+")
    _before(monkeypatch, oz.storage.SQLiteStore, "change_keys", lambda: WRITES["new"](array))
    CHANGES[change](other)
    left = oz.open(store, mode="r")
    keys = {key for key in left.store.list() if key.startswith("a/")}
    assert keys == ({"a/zarr.json", "a/c/0"} if change == "overwrite" else set())
    if change == "move":
        assert [*left["b"][12:]] == [7] * 4


@pytest.mark.parametrize("write", ["shape", "shape and attributes"])
@pytest.mark.parametrize("kind", ["directory", *KINDS])
def test_rows_that_others_just_appended_to_a_chunk_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, write: str
) -> None:
    store = _store(kind, tmp_path)
    array = oz.create_array(store, data=VALUES[:6], chunks=4)
    other = oz.open(store, mode="r+")

    def change() -> None:
        other.append(VALUES[6:8])
        if write != "shape":
            other.attrs["k"] = 1

    _before(monkeypatch, ArrayWatch, "confirm", change)
    array[4:] = 0  # a whole chunk for this handle
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert oz.open(store)[...].tolist() == [1, 2, 3, 4, 0, 0, 7, 8]


def test_a_chunk_is_replaced_while_only_its_visible_part_is_used(tmp_path: Path) -> None:
    """What was hidden by an earlier resize does not come back with a later one."""
    array = oz.create_array(tmp_path / "x", data=VALUES[:8], chunks=4)
    with pytest.warns(UserWarning, match="kept, but not shown"):
        array.resize(6)
    array[4:] = 0
    array.resize(8)
    assert array[...].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_the_bytes_of_a_chunk_are_not_put_over_appended_rows(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "x", data=VALUES[:6], chunks=4)
    data = array.get_encoded_chunk((1,))
    assert data is not None
    oz.open(tmp_path / "x", mode="r+").append(VALUES[6:8])
    with pytest.raises(oz.Conflict, match="refresh"):
        array.set_encoded_chunk((1,), data)
    array.refresh()
    assert array[...].tolist() == [*range(1, 9)]


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
@pytest.mark.parametrize("data", [None, VALUES])
@pytest.mark.parametrize("name", ["delete", "move"])
def test_no_node_is_created_below_a_group_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, data: Any, name: str
) -> None:
    store = _store(kind, tmp_path)
    group = oz.create_group(store).create_group("a")
    other = oz.open(store, mode="r+")
    _before(monkeypatch, type(store), "change_if", lambda: CHANGES[name](other))
    options = {"shape": 12, "dtype": "i4"} if data is None else {"data": data}
    with pytest.raises(oz.NodeChanged):
        group.create_array("n", **options)
    assert [key for key in store.list() if key.startswith("a/")] == []


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_do_not_bring_back_an_array_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, zarr_format: int
) -> None:
    store = _store(kind, tmp_path)
    group = oz.create_group(store, zarr_format=zarr_format)
    array = group.create_array("a", data=VALUES)
    other = oz.open(store, mode="r+")
    _before(monkeypatch, type(store), "change_if", lambda: other.move("a", "b"))
    with pytest.raises(oz.OmnizarrError):
        array.attrs["k"] = 1
    assert [key for key in store.list() if key.startswith("a/")] == []
    assert [*other["b"][...]] == [*VALUES]


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_rows_are_not_appended_to_another_array_than_their_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    store = _store(kind, tmp_path)
    group = oz.create_group(store)
    array = group.create_array("a", data=VALUES, chunks=4)
    other = oz.open(store, mode="r+")
    options: Any = {"data": VALUES + 100, "chunks": 4, "overwrite": True}
    _before(monkeypatch, oz.Array, "_store_shape", lambda: other.create_array("a", **options))
    with pytest.raises(oz.Conflict):
        array.append(VALUES[:4])
    assert [*oz.open(store)["a"][...]] == [*VALUES + 100]


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_a_node_that_replaces_one_with_the_same_metadata_has_other_bytes(
    tmp_path: Path, kind: str
) -> None:
    store = _store(kind, tmp_path)
    group = oz.create_group(store)
    seen = []
    for value in range(40):
        group.create_array("a", data=np.full(12, value), chunks=4, overwrite=True)
        seen.append(store.get("a/zarr.json"))
        assert oz.validate(store) == []
        assert group["a"][:].tolist() == [value] * 12
    assert len({text.rstrip() for text in seen}) == 1
    assert all(len({*seen[i : i + 16]}) == 16 for i in range(24))


@pytest.mark.parametrize("kind", ["directory", "sqlite", "lmdb"])
def test_a_write_of_several_chunks_goes_whole_into_an_array_that_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    group = oz.create_group(_store(kind, tmp_path))
    array = group.create_array("a", data=VALUES, chunks=4)
    name = "_write_some" if kind == "directory" else "_change_some"
    other, real = oz.open(_store(kind, tmp_path), mode="r+"), getattr(reference, name)
    calls = []

    def change(*given: Any) -> None:
        real(*given)
        calls.append(given)
        if len(calls) == 1:
            other.create_array("a", data=VALUES + 100, chunks=4, overwrite=True)

    monkeypatch.setattr(kernel, "write", lambda *_: None)
    monkeypatch.setattr(reference, name, change)
    with oz.configure(threads=3):
        array[:] = -VALUES
    assert len(calls) > 1
    assert other["a"][:].tolist() == [*-VALUES]
