"""Atomic replacement of files: the compiled and the plain code agree."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import LocalStore
from omnizarr.stores.local import atomic_files
from tests.parallel import repeating
from tests.servers.skipped import COMPILER


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(atomic_files, "_files", None)
    elif atomic_files._files is None:
        pytest.skip(COMPILER)
    return str(request.param)


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("key", ["k", "a/k", "a/b/c/d/k", "ü/ \udcff"])
def test_values_are_stored_and_replaced_in_folders_that_are_made(
    tmp_path: Path, key: str, sync: bool
) -> None:
    path = os.path.join(tmp_path, key)
    for value in (b"first", b"", bytes(3_000_000), memoryview(np.arange(10))):
        atomic_files.replace_file(path, value, sync)
        assert Path(path).read_bytes() == bytes(value)
        assert len(files(tmp_path)) == 1


def test_files_have_the_rights_that_the_mask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for _ in range(2):
            atomic_files.replace_file(str(tmp_path / "a" / "k"), b"x", False)
            assert (tmp_path / "a" / "k").stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750
    finally:
        os.umask(before)


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_is_replaced_and_its_target_kept(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "k").symlink_to(tmp_path / target)
    atomic_files.replace_file(str(tmp_path / "k"), b"new", False)
    assert not (tmp_path / "k").is_symlink()
    assert (tmp_path / "k").read_bytes() == b"new"
    assert (tmp_path / "there").read_bytes() == b"old"
    assert not (tmp_path / "nowhere").exists()


def test_a_failed_write_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "folder" / "k").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"old")
    for key in ("folder/k", "file/k", "x" * 300):
        with pytest.raises(StoreError, match="cannot write"):
            store.set(key, b"value")
    assert files(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_an_empty_folder_removed_by_others_is_created_again(tmp_path: Path) -> None:
    def remove() -> None:
        time.sleep(1e-4)
        with contextlib.suppress(OSError):
            os.rmdir(tmp_path / "a")

    with repeating(remove):
        for i in range(300):
            atomic_files.replace_file(str(tmp_path / "a" / "k"), b"%d" % i, False)
            assert (tmp_path / "a" / "k").read_bytes() == b"%d" % i
            os.unlink(tmp_path / "a" / "k")


REFUSING = """
#include <errno.h>
int linkat(int a, const char *b, int c, const char *d, int e) { errno = %s; return -1; }
"""
PROGRAM = """
import sys
import numpy as np
import omnizarr as oz
from omnizarr.stores.local.atomic_files import replace_file
for value in (b"1", b"2"):
    replace_file(sys.argv[1] + "/a/k", value, False)
array = oz.create_array(sys.argv[1] + "/x", shape=(30,), chunks=(3,), dtype="i4")
for add in (1, 2):
    array[...] = np.arange(30) + add
"""


@pytest.mark.parametrize("way", ["compiled"], indirect=True)
@pytest.mark.parametrize("error", ["EPERM", "EACCES", "ENOENT"])
@pytest.mark.skipif(shutil.which("gcc") is None, reason=COMPILER)
def test_systems_that_cannot_name_a_file_by_its_descriptor_name_it_at_first(
    tmp_path: Path, error: str
) -> None:
    library, place = tmp_path / "refusing.so", tmp_path / "place"
    make = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(make, input=REFUSING % error, text=True, check=True)
    run = [sys.executable, "-c", PROGRAM, str(place)]
    preloaded = ":".join(filter(None, (os.environ.get("LD_PRELOAD"), str(library))))
    subprocess.run(run, check=True, env={**os.environ, "LD_PRELOAD": preloaded})
    assert (place / "a" / "k").read_bytes() == b"2"
    assert np.array_equal(oz.open(place / "x")[...], np.arange(30) + 2)
    assert not [name for name in files(place) if "omnizarr" in name]


@pytest.mark.parametrize("durability", ["rename", "fsync"])
def test_several_values_are_stored_up_to_one_that_cannot_be(
    tmp_path: Path, durability: Any
) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "taken").mkdir()
    values = [("a/b/c", b"1"), ("a/d", b"2"), ("k", memoryview(b"3")), ("a/d", b"4")]
    with oz.configure(durability=durability):
        store.set_many(iter(values))
        assert {key: store.get(key) for key in store.list()} == {k: bytes(v) for k, v in values}
        with pytest.raises(StoreError, match=r"cannot write .*/taken"):
            store.set_many([("k", b"5"), ("taken", b"6"), ("never", b"7")])
        with pytest.raises(TypeError):
            store.set_many([("k", ["no", "bytes"])])  # type: ignore[list-item]
        with pytest.raises(InvalidArgument, match="not allowed"):
            store.set_many([("k", b"8"), ("../k", b"9")])
    assert files(tmp_path) == ["a/b/c", "a/d", "k"]
    assert store.get("k") == b"5"


@pytest.mark.parametrize("sync", [False, True])
def test_a_new_file_is_stored_only_if_there_is_none(tmp_path: Path, sync: bool) -> None:
    path = str(tmp_path / "a" / "b" / "k")
    assert atomic_files.replace_file(path, b"first", sync, only_new=True) is True
    assert atomic_files.replace_file(path, b"second", sync, only_new=True) is False
    assert Path(path).read_bytes() == b"first"
    assert atomic_files.replace_file(path, b"third", sync) is True
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert atomic_files.replace_file(str(tmp_path / "link"), b"x", sync, only_new=True) is False
    assert files(tmp_path) == ["a/b/k", "link"]


def test_a_file_system_without_links_looks_before_it_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    path = str(tmp_path / "k")
    assert atomic_files.replace_file(path, b"first", False, only_new=True) is True
    assert atomic_files.replace_file(path, b"second", False, only_new=True) is False
    assert (Path(path).read_bytes(), files(tmp_path)) == (b"first", ["k"])


@pytest.mark.parametrize("way", ["compiled"], indirect=True)
@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("name", ["a", "ü \udcff"])
def test_the_first_file_of_a_folder_is_stored_only_in_a_new_folder(
    tmp_path: Path, name: str, sync: bool
) -> None:
    path = os.path.join(tmp_path, name, "k")
    assert atomic_files.create_file(path, b"first", sync)
    assert not atomic_files.create_file(path, b"second", sync)
    assert Path(path).read_bytes() == b"first"
    os.unlink(path)
    assert not atomic_files.create_file(path, b"third", sync)  # an empty folder exists, too
    assert not atomic_files.create_file(os.path.join(tmp_path, "none", "at all", "k"), b"", sync)
    assert not atomic_files.create_file("k", b"", sync)
    assert files(tmp_path) == []
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize("way", ["compiled"], indirect=True)
def test_a_folder_whose_first_file_cannot_be_stored_is_removed(tmp_path: Path) -> None:
    for name, value in ("x" * 300, b"value"), ("k", object()):
        path = os.path.join(tmp_path, "a", name)
        with pytest.raises((OSError, TypeError)):
            atomic_files.create_file(path, value, False)  # type: ignore[arg-type]
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("way", "make"),
    [
        ("compiled", partial(atomic_files.replace_file, only_new=True)),
        ("plain", partial(atomic_files.replace_file, only_new=True)),
        ("compiled", atomic_files.create_file),
    ],
    indirect=["way"],
)
def test_of_threads_that_make_one_file_one_is_first(tmp_path: Path, make: Any) -> None:
    for i in range(50):
        path = str(tmp_path / str(i) / "k")
        with ThreadPoolExecutor(4) as pool:
            stored = [*pool.map(lambda n, path=path: make(path, b"%d" % n, False), range(4))]
        assert stored.count(True) == 1
        assert Path(path).read_bytes() == b"%d" % stored.index(True)
    assert len(files(tmp_path)) == 50
