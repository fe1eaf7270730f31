"""Stores on fsspec file systems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

import omnizarr
from omnizarr import stores
from omnizarr.errors import MissingPackage
from omnizarr.stores import Range, resolve
from omnizarr.stores.fsspec import FsspecStore
from tests.servers.web import Web

DIGITS = b"0123456789"


@pytest.fixture(params=["local", "memory", "asynchronous"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FsspecStore]:
    if request.param == "memory":
        fs = fsspec.filesystem("memory")
        fs.store.clear()
        fs.pseudo_dirs[:] = [""]
        yield FsspecStore(fs, path="/data")
        return
    local = fsspec.filesystem("file")
    fs = AsyncFileSystemWrapper(local, asynchronous=False) if request.param[0] == "a" else local
    yield FsspecStore(fs, path=str(tmp_path / "data"))


def test_a_short_connection_loss_is_retried(store: FsspecStore) -> None:
    store.set("k", DIGITS)
    real, calls = store.fs.cat_file, []

    def flaky(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ConnectionResetError("gone")
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.fs, "cat_file", flaky)
        assert store.get("k") == DIGITS
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["x[1]", "a?b", "*", "x*", "[!x]"])
def test_a_name_is_no_pattern(store: FsspecStore, name: str) -> None:
    """Neither in a key nor in the root does it stand for other names."""
    twins = ["x1", "acb", "x", "x2/y"]
    beside = FsspecStore(store.fs, path=f"{store.path}/{name}")
    for key in (*twins, name):
        store.set(f"{key}/v", b"1")
    beside.set("below/deep/v", b"2")
    assert sorted(beside.list()) == ["below/deep/v", "v"]
    stores.erase_prefix(beside, "below/")
    assert sorted(beside.list()) == ["v"]
    stores.erase_prefix(store, f"{name}/")
    assert sorted(store.list()) == sorted(f"{key}/v" for key in twins)
    assert stores.list_dir(store, "") == ([], ["acb/", "x/", "x1/", "x2/"])
    beside.set("v", b"3")
    stores.erase_prefix(beside, "")
    assert sorted(store.list()) == sorted(f"{key}/v" for key in twins)


def test_a_local_disk_refuses_new_names_as_a_directory_does(tmp_path: Path) -> None:
    group = omnizarr.create_group(FsspecStore(fsspec.filesystem("file"), path=str(tmp_path)))
    with pytest.raises(omnizarr.InvalidName, match="256 bytes"):
        group.create_group("x" * 256)


def test_the_root_of_a_file_system_is_not_the_working_directory() -> None:
    store = FsspecStore(fsspec.filesystem("file"), read_only=True, path="/")
    assert store.get(f"{__file__[1:]}") == Path(__file__).read_bytes()
    assert "tests/" not in store.list_dir("")[1]


def test_a_name_in_a_url_is_quoted(web: Web) -> None:
    web.values["data/a%20b#c?d"] = b"right"
    web.values["data/a%20b"] = web.values["data/a b"] = b"wrong"
    store = FsspecStore.from_url(f"simplecache::{web.url}/data")
    assert store.get("a%20b#c?d") == b"right"


def test_erasing_leaves_no_empty_folder_on_a_disk(tmp_path: Path) -> None:
    """It was a group in the draft, and in the way of a chunk of that name."""
    store = FsspecStore(fsspec.filesystem("file"), path=str(tmp_path / "x"))
    draft = omnizarr.create_group(store, zarr_format="3-draft", path="")
    draft.create_array("a/b", data=np.arange(3))
    del draft["a/b"]
    assert list(draft) == []
    store = FsspecStore(fsspec.filesystem("file"), path=str(tmp_path / "y"))
    group = omnizarr.create_group(store)
    group.create_array("c/c", data=np.int8(1))
    group["c"] = group["c/c"]  # whose only chunk has the key c/c
    assert group["c"][()] == 1
    store.erase_prefix("c/")
    assert sorted(p.name for p in (tmp_path / "y").iterdir()) == ["zarr.json"]


# URLs


def test_chains_lead_to_fsspec(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "k").write_bytes(DIGITS)
    store = resolve(f"simplecache::file://{tmp_path}/x", read_only=True)
    assert isinstance(store, FsspecStore)
    assert store.get("k", Range(2, 3)) == b"234"
    assert store.get("no") is None


def test_a_password_is_not_shown() -> None:
    with pytest.raises(MissingPackage) as caught:
        resolve("smb://me:secret@host/share/x")
    assert "secret" not in str(caught.value)
