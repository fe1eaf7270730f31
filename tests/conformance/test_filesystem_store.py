"""The file system store that accompanies the draft: keys are paths, values are files."""

from __future__ import annotations

import ntpath
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import omnizarr
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.storage import LocalStore
from omnizarr.stores import Range, base
from omnizarr.stores.local import atomic_files
from omnizarr.stores.local import store as local


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Return a store in a directory that does not exist yet."""
    return LocalStore(tmp_path / "data")


def put(store: LocalStore, *keys: str) -> None:
    for key in keys:
        store.set(key, key.encode())


@pytest.mark.shows("DX-50")
def test_a_key_is_a_path_below_the_base_directory(store: LocalStore) -> None:
    store.set("foo/bar", b"x")
    assert (store.root / "foo" / "bar").read_bytes() == b"x"
    (store.root / "foo" / "other").write_bytes(b"y")
    assert store.get("foo/other") == b"y"
    assert sorted(store.list()) == ["foo/bar", "foo/other"]


@pytest.mark.shows("DX-50")
def test_slashes_become_the_separator_of_windows_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    listings = {"C:\\data": (["top"], ["foo"], []), "C:\\data\\foo": (["bar"], [], [])}

    def read(path: str, part: Range | None, flags: int) -> tuple[bytes, None, None]:
        opened.append(path)
        return b"x", None, None

    windows = SimpleNamespace(path=ntpath, sep="\\", fspath=os.fspath, fsencode=os.fsencode)
    monkeypatch.setattr(local, "os", windows)
    monkeypatch.setattr(base, "os", windows)
    monkeypatch.setattr(atomic_files, "os", windows)
    monkeypatch.setattr(
        atomic_files, "entries", lambda folder, *_: listings[ntpath.normpath(folder)]
    )
    monkeypatch.setattr(local, "_read_whole", None)
    monkeypatch.setattr(atomic_files, "read_file", read)
    store = LocalStore("C:\\data")
    assert store.get("foo/bar") == b"x"
    assert opened == ["C:\\data\\foo\\bar"]
    assert sorted(store.list()) == ["foo/bar", "top"]
    for key in ("..\\up", "foo\\..\\..\\up", "D:/x", "D:x"):
        with pytest.raises(InvalidArgument, match="key"):
            store.get(key)


@pytest.mark.shows("DX-51")
def test_missing_files_and_directories_are_absent(store: LocalStore) -> None:
    assert store.get("a") is None  # not even the base directory is there
    store.set("a/b/c", b"value")
    assert store.get("a/b") is None
    assert store.get("a") is None
    assert store.get("a/x") is None
    assert store.get("x/y/z") is None
    assert store.get("a/b/c/d") is None  # below a file


@pytest.mark.shows("DX-51")
def test_a_key_below_a_file_or_at_a_directory_cannot_be_set(store: LocalStore) -> None:
    store.set("a/b", b"value")
    for key in ("a/b/c", "a"):
        with pytest.raises(StoreError, match="cannot write"):
            store.set(key, b"other")
    assert sorted(store.list()) == ["a/b"]
    assert store.get("a/b") == b"value"


@pytest.mark.shows("DX-52", "DX-55")
def test_erasing_a_key_never_removes_a_directory(store: LocalStore) -> None:
    put(store, "a/b")
    store.erase("a")  # as a key it is absent
    assert store.get("a/b") == b"a/b"


@pytest.mark.shows("DX-54")
@pytest.mark.parametrize("tool", ["cp", "file by file"])
def test_a_copied_directory_is_the_same_hierarchy(tmp_path: Path, tool: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    data = np.arange(30).reshape(5, 6)
    group = omnizarr.create_group(source, zarr_format="3-draft", attributes={"title": "x"})
    group.create_array("a/b", data=data, chunks=(2, 3), attributes={"unit": "m"})
    if tool == "cp":
        subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    else:
        # As clients of object stores do: every file on its own, in any order.
        files = [path for path in source.rglob("*") if path.is_file()]
        for path in reversed(files):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    shutil.rmtree(source)
    again = omnizarr.open(target)
    assert dict(again.attrs) == {"title": "x"}
    assert dict(again["a/b"].attrs) == {"unit": "m"}
    np.testing.assert_array_equal(again["a/b"][...], data)
