"""The directory store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from omnizarr import stores
from omnizarr.errors import StoreError
from omnizarr.storage import LocalStore
from omnizarr.stores import DirectoryStore
from omnizarr.stores.local import atomic_files


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "data")


def files(store: LocalStore) -> list[str]:
    """Everything in the directory, also what the store does not list."""
    return sorted(str(p.relative_to(store.root)) for p in store.root.rglob("*") if p.is_file())


def fail(error: BaseException) -> Callable[..., Any]:
    def failing(*args: Any, **kwargs: Any) -> Any:
        raise error

    return failing


# Failures


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("step", ["write", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk is full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_value_and_no_stray_file(
    store: LocalStore,
    monkeypatch: pytest.MonkeyPatch,
    existing: bool,
    step: str,
    error: BaseException,
) -> None:
    store.set("a/other", b"beside")
    if existing:
        store.set("a/k", b"old")
    before = files(store)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "_files", None)
        if step == "replace":
            patch.setattr(os, "replace", fail(error))
        else:
            patch.setattr(os, "write", half_written(error))
        expected = StoreError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected) as caught:
            store.set("a/k", b"new value")
    if isinstance(error, OSError):
        assert "a/k" in str(caught.value)
        assert "disk is full" in str(caught.value)
    assert files(store) == before
    assert store.get("a/k") == (b"old" if existing else None)


def half_written(error: BaseException) -> Callable[[int, memoryview], int]:
    """Store half of a value, then fail."""
    real = os.write

    def write(descriptor: int, data: memoryview) -> int:
        real(descriptor, data[: len(data) // 2])
        raise error

    return write


def test_a_failed_erase_is_an_error(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set("a/k", b"x")
    monkeypatch.setattr(os, "unlink", fail(PermissionError(errno.EPERM, "not permitted")))
    with pytest.raises(StoreError, match=r"cannot erase .*a/k.*not permitted"):
        store.erase("a/k")
    with pytest.raises(StoreError, match="cannot erase"):
        stores.erase_prefix(store, "a/")
    assert store.get("a/k") == b"x"


# Listing


def test_listing_leaves_out_unfinished_files(store: LocalStore) -> None:
    store.set("a/k", b"x")
    (store.root / "a" / f"k{atomic_files.PARTIAL}123_456").write_bytes(b"half")
    assert list(store.list()) == ["a/k"]
    assert list(store.list_prefix("a/")) == ["a/k"]
    assert store.list_dir("a/") == (["a/k"], [])
    stores.erase_prefix(store, "a/")  # but they go with their directory
    assert files(store) == []


def test_empty_directories_hold_no_keys(store: LocalStore) -> None:
    (store.root / "a" / "b").mkdir(parents=True)
    assert list(store.list()) == []
    assert store.list_dir("a/") == ([], ["a/b/"])


def test_erasing_everything_keeps_the_directory_itself(store: LocalStore) -> None:
    store.set("a/k", b"x")
    stores.erase_prefix(store, "")
    assert store.root.is_dir()
    assert list(store.root.iterdir()) == []


# What it is


def test_stores_of_one_directory_are_equal(in_tmp: Path) -> None:
    assert LocalStore("x") == LocalStore(in_tmp / "x") == LocalStore("./y/../x")
    assert hash(LocalStore("x")) == hash(LocalStore(in_tmp / "x"))
    assert LocalStore("x") != LocalStore("y")
    assert LocalStore("x") != "x"
    assert DirectoryStore("x") == LocalStore("x")


@pytest.mark.parametrize("name", ["plain", "with space", "per%cent", "ü#?"])
def test_the_url_leads_back_to_the_directory(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path / name)
    assert store.url.startswith("file:///")
    again = LocalStore.from_url(store.url, read_only=True)
    assert again == store
    assert again.read_only
    assert stores.resolve(store.url) == store


def test_a_directory_that_has_lost_its_last_key_is_no_prefix_any_more(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "x")
    for key in ("a/b/c/one", "a/b/d/two", "top"):
        store.set(key, b"1")
    store.erase("a/b/c/one")
    assert store.list_dir("a/b/") == ([], ["a/b/d/"])
    store.erase_prefix("a/b/d/")
    assert store.list_dir("") == (["top"], [])
    store.erase("top")
    assert (tmp_path / "x").is_dir()


def test_writers_and_erasers_of_one_directory_do_not_fail(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    def work(number: int) -> None:
        for _ in range(200):
            store.set(f"a/b/{number}", b"1")
            store.erase(f"a/b/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert list(store.list()) == []


def test_keys_are_listed_in_the_order_of_other_stores(store: LocalStore) -> None:
    names = ["a", "a.b", "a0", "b", "é", "10", "9"]
    keys = [f"{x}/{y}/{z}" for x in names for y in names[:4] for z in names[3:]]
    keys += [f"{x}-" for x in names] + [f"{x}/{y}." for x in names for y in names]
    stores.set_many(store, [(key, b"1") for key in keys])
    assert list(store.list()) == sorted(keys)
    assert [entry.key for entry in store.list_entries("a/")] == sorted(
        key for key in keys if key.startswith("a/")
    )
