"""A8: open files are identified by inode, not by a path that may name another file."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.stores import LocalStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.zip import ZipStore

KINDS: dict[str, Callable[[Path], Any]] = {
    "zip": lambda path: ZipStore(path, mode="a"),
    "ozx": lambda path: ZipStore(path.with_suffix(".ozx"), mode="a"),
    "lmdb": LMDBStore,
    "lmdb file": lambda path: LMDBStore(path, subdir=False),
    "sqlite": SQLiteStore,
}


def place(store: Any) -> Path:
    return Path(store.path)


def remove(path: Path) -> None:
    for each in (path, *path.parent.glob(f"{path.name}[-.]*")):
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


def replaced(how: str, make: Callable[[Path], Any], path: Path, values: dict[str, bytes]) -> None:
    """Put another file in the place of one that is open."""
    aside = path.with_name("aside") / path.name
    with make(aside) as new:
        for key, value in values.items():
            new.set(key, value)
        there, source = place(make(path)), place(new)
    if how == "removed":
        remove(there)
        source.rename(there)
    elif there.is_dir():
        there.rename(there.with_name("old"))
        source.rename(there)
    else:
        os.replace(source, there)


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_new_file_is_read_and_written_while_an_old_writer_lives(
    tmp_path: Path, kind: str, how: str
) -> None:
    make, path = KINDS[kind], tmp_path / "x.zip"
    old = make(path)
    old.set("k", b"old")
    if isinstance(old, ZipStore):
        old.flush()
    replaced(how, make, path, {"k": b"new"})
    with make(path) as new:
        assert new.get("k") == b"new"
        new.set("more", b"1")
    if isinstance(old, ZipStore):
        assert ZipStore(old.path).get("k") == b"new"
        for use in (lambda: old.set("k", b"x"), lambda: old.get("k"), lambda: old.erase("k")):
            with pytest.raises(StoreError, match="removed or replaced"):
                use()
        old.close()  # nothing of its own is lost
    else:
        assert old.get("k") == b"new"  # it has nothing in memory, so it goes on with the new one
        old.set("last", b"2")
        old.close()
    with make(path) as again:
        assert (again.get("k"), again.get("more")) == (b"new", b"1")
        assert again.get("last") == (None if isinstance(old, ZipStore) else b"2")


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
@pytest.mark.parametrize("kind", ["zip", "ozx"])
@pytest.mark.parametrize("end", ["close", "flush", "compact"])
def test_changes_that_an_archive_can_no_longer_store_are_reported(
    tmp_path: Path, kind: str, how: str, end: str
) -> None:
    path = tmp_path / f"x.{kind}"
    old = ZipStore(path, mode="w")
    old.set("k", b"old")
    aside = tmp_path / "new.zip"
    with ZipStore(aside, mode="w") as new:
        new.set("k", b"new")
    if how == "removed":
        path.unlink()
    elif how == "moved":
        path.rename(tmp_path / "moved.zip")
    if how != "removed":
        os.replace(aside, path)
    with pytest.raises(StoreError, match="removed or replaced"):
        getattr(old, end)()
    with suppress(StoreError):  # reported again unless it was the reason before
        old.close()
    if how == "removed":
        assert not path.exists()
    else:
        assert ZipStore(path).get("k") == b"new"
    if how == "moved":
        with zipfile.ZipFile(tmp_path / "moved.zip") as file:
            assert file.read("k") == b"old"  # it is complete where it is now


def test_an_archive_removed_during_a_write_is_created_again(tmp_path: Path) -> None:
    """A8: a store whose file was to be created was still found by its path when it was gone."""
    old = ZipStore(tmp_path / "x.zip", mode="a")
    old.set("k", b"old")
    (tmp_path / "x.zip").unlink()
    with ZipStore(tmp_path / "x.zip", mode="a") as new:
        assert new.get("k") is None
        new.set("k", b"new")
    with pytest.raises(StoreError, match="removed or replaced"):
        old.close()
    assert ZipStore(tmp_path / "x.zip").get("k") == b"new"


def test_a_file_with_the_number_of_one_that_was_replaced_is_another(tmp_path: Path) -> None:
    """A8: by its number, the file of another archive was taken for the one before `compact`."""
    compacted = ZipStore(tmp_path / "x.zip", mode="w")
    compacted.set("k", b"mine")
    number = os.stat(tmp_path / "x.zip").st_ino
    compacted.compact()
    for name in map(str, range(50)):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("k", b"other")
        if os.stat(tmp_path / name).st_ino == number:
            break
    else:
        pytest.skip("this file system uses no number again")
    with ZipStore(tmp_path / name, mode="a") as other:
        assert other.get("k") == b"other"
        other.set("more", b"1")
    assert ZipStore(tmp_path / name).get("more") == b"1"
    assert compacted.get("more") is None


@pytest.mark.parametrize("kind", [*KINDS, "directory"])
def test_a_relative_path_is_of_the_directory_where_the_store_was_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = {**KINDS, "directory": LocalStore}[kind]
    for name in ("made", "later"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "made")
    array = oz.create_array(make(Path("x.zip")), shape=4, chunks=2, dtype="u1")
    monkeypatch.chdir(tmp_path / "later")
    array[...] = 7
    array.append([8])
    copied = pickle.loads(pickle.dumps(array))
    copied.store.close()
    array.store.close()
    assert oz.open(make(tmp_path / "made" / "x.zip"))[...].tolist() == [7] * 4 + [8]
    assert os.listdir() == []


def test_stores_of_one_archive_share_it_by_any_path_and_after_compacting(tmp_path: Path) -> None:
    (tmp_path / "link.zip").symlink_to(tmp_path / "x.zip")
    one = ZipStore(tmp_path / "x.zip", mode="a")
    two = ZipStore(tmp_path / "link.zip", mode="a")
    one.set("k", b"1")
    two.set("l", b"2")
    one.compact()
    os.link(tmp_path / "x.zip", tmp_path / "hard.zip")
    three = ZipStore(tmp_path / "hard.zip", mode="a")
    three.set("m", b"3")
    assert [*one.list()] == [*two.list()] == [*three.list()] == ["k", "l", "m"]
    for store in (one, two, three):
        store.close()
    del one, two, three, store
    gc.collect()
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert sorted(file.namelist()) == ["k", "l", "m"]
