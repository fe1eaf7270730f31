"""Batches of files: the compiled and the plain code give the same results and errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.storage import LocalStore
from omnizarr.stores import Range
from omnizarr.stores.local import store as local
from tests.servers.skipped import COMPILER

COMPILED = pytest.mark.skipif(local._files is None, reason=COMPILER)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "data")
    store.set("zarr.json", b"{}")
    store.set("empty", b"")
    store.set("a/ü/b", bytes(100_000))
    os.symlink(tmp_path / "data" / "zarr.json", tmp_path / "data" / "link")
    return store


KEYS = [
    *("zarr.json", "empty", "a/ü/b", "link", "a", "a/ü", "none", "none/at/all"),
    *("zarr.json/below", ".zarray", "..a", "a/..b/c", "..."),
]


@COMPILED
@pytest.mark.parametrize("key", KEYS)
def test_a_batch_gives_the_results_of_single_calls(
    store: LocalStore, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [("empty", None), (key, None), ("none", None)]
    compiled = store.get(key)
    monkeypatch.setattr(local, "_read_whole", None)
    assert store.get_many(asked) == [b"", compiled, None] == [b"", store.get(key), None]


def test_a_batch_can_request_parts_of_files(store: LocalStore) -> None:
    asked = [("zarr.json", Range(1)), ("none", None), ("a/ü/b", Range(-3, 2)), ("empty", None)]
    assert store.get_many(asked) == [b"}", None, b"\0\0", b""]


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", ".", "..", "../data/zarr.json", "a/../b", "\0"]
)
def test_a_key_that_may_lead_outside_is_an_error(store: LocalStore, key: str) -> None:
    with pytest.raises(InvalidArgument, match="not allowed"):
        store.get_many([("zarr.json", None), (key, None)])


def test_of_a_directory_that_is_not_there_everything_is_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        assert LocalStore(tmp_path / name).get_many([("a", None), ("b/c", None)]) == [None, None]


def test_the_current_directory_is_a_store(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.root)
    assert LocalStore("").get_many([("zarr.json", None)]) == [b"{}"]


def test_a_file_that_cannot_be_read_is_an_error_not_an_absence(store: LocalStore) -> None:
    with pytest.raises(StoreError, match="cannot read"):
        store.get_many([("zarr.json", None), ("x" * 300, None)])


@COMPILED
def test_other_types_are_refused() -> None:
    for wrong in ((".", ("a",)), (3, ["a"]), (".",)):
        with pytest.raises(TypeError):
            local._files.read_many(*wrong)
    assert local._files.read_many(".", [b"a", 3, "\ud800"]) == [NotImplemented] * 3
    for few in ((), (".",), (3, "a"), ("./", "a", "b")):
        with pytest.raises(TypeError):
            local._files.read(*few)
    for name in (b"a", 3, "\ud800", "a/../b", "", "a\0b", "x" * 5000):
        assert local._files.read("./", name) is NotImplemented
    assert local._files.read("\ud800/", "a") is NotImplemented
    assert local._files.read("\0/", "a") is NotImplemented
