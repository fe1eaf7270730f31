"""The stores of the 2022 draft: their interface, the storage keys, and the file system."""

from __future__ import annotations

import ntpath
import os
import shutil
import subprocess
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zarr

import omnizarr
import omnizarr as oz
from omnizarr import storage, stores
from omnizarr.errors import InvalidArgument
from omnizarr.interop.zarr.zarr_python import from_zarr
from omnizarr.storage import LocalStore
from omnizarr.stores import Range, Store, base
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.local import atomic_files
from omnizarr.stores.local import store as local
from omnizarr.stores.sqlite import SQLiteStore
from tests.conformance.draft_metadata import DRAFT, array, hierarchy
from tests.conformance.key_value import KeyValueStore, PrefixStore


class ListingStore(KeyValueStore):
    """A store with get, set, erase, and a list of all keys."""

    def list(self) -> Iterator[str]:
        yield from list(self.values)


class FolderStore(KeyValueStore):
    """A store with get, set, erase, and the keys and prefixes one level down."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        below = [k for k in self.values if k.startswith(prefix)]
        return stores.one_level(below, prefix)


class OnlyPartial:
    """A store with only the partial and bulk operations."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get_partial_values(
        self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]
    ) -> list[bytes | None]:
        found: list[bytes | None] = []
        for key, (start, length) in key_ranges:
            assert start >= 0
            value = self.values.get(key)
            end = None if length is None else start + length
            found.append(None if value is None else value[start:end])
        return found

    def set_partial_values(self, parts: Iterable[tuple[str, int, Any]]) -> None:
        for key, start, value in parts:
            old = self.values.get(key, b"").ljust(start, b"\0")
            self.values[key] = old[:start] + bytes(value) + old[start + len(value) :]

    def erase_values(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.values.pop(key, None)


class ListablePartial(stores.StoreWithPartialAccess):
    """The same, with a list of keys."""

    def __init__(self) -> None:
        super().__init__(OnlyPartial())

    def list(self) -> Iterator[str]:
        yield from list(self.inner.values)  # type: ignore[attr-defined]


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: oz.storage.MemoryStore(),
    "local": LocalStore,
    "mapping": lambda path: stores.resolve(UserDict()),
    "get set erase list": lambda path: ListingStore(),
    "get set erase list_prefix": lambda path: PrefixStore(),
    "get set erase list_dir": lambda path: FolderStore(),
    "only partial forms": lambda path: ListablePartial(),
    "nested": lambda path: stores.NestedDirectoryStore(path),
    "zip": lambda path: storage.ZipStore(path / "x.zip", mode="a"),
    "sqlite": lambda path: SQLiteStore(path / "x.sqlite"),
    "lmdb": lambda path: LMDBStore(path / "x.lmdb"),
    "prefix": lambda path: storage.PrefixStore(oz.storage.MemoryStore({"other/k": b"1"}), "p"),
    "zarr-python": lambda path: from_zarr(zarr.storage.MemoryStore()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = STORES[request.param](tmp_path)
    return made


@pytest.mark.shows("D3-77", "D3-78", "D3-79", "D3-80", "D3-85", "DX-55", "V3-82", "V3-85")
def test_parts_of_values_are_read_in_the_order_asked_and_written_at_their_offsets(
    store: Store,
) -> None:
    ten = bytes(range(10))
    store.set("k", ten)
    requests = [("k", (2, 3)), ("missing", (0, 1)), ("k", (0, None)), ("k", (7, None))]
    assert stores.get_partial_values(store, requests) == [ten[2:5], None, ten, ten[7:]]
    store.set("k", bytes(5))
    store.set("other", b"abc")
    parts = [("k", 1, b"\xaa"), ("other", 3, b"d"), ("k", 3, b"\xbb\xcc")]
    stores.set_partial_values(store, parts)
    assert store.get("k") == bytes.fromhex("00aa00bbcc")
    assert store.get("other") == b"abcd"


@pytest.mark.shows("D3-76", "D3-81", "D3-82", "D3-83", "D3-84", "D3-85", "DX-52", "DX-53", "DX-55")
@pytest.mark.shows("V3-82", "V3-85", "V3-99")
def test_keys_and_prefixes_are_listed_and_erased_exactly(store: Store) -> None:
    for key in ("a/b", "a/c", "a/d/e", "a/f/g", "ab/x", "x", "y", "z"):
        store.set(key, key.encode())
    for prefix in ("a", "a/b", "/", "../", "a//"):
        for act in (stores.list_dir, stores.erase_prefix, lambda *a: list(stores.list_prefix(*a))):
            with pytest.raises(oz.InvalidArgument, match=r"prefix|not allowed"):
                act(store, prefix)
    store.erase("x")
    stores.erase_values(store, ["y", "z", "missing", "a"])
    assert sorted(stores.list_prefix(store, "")) == ["a/b", "a/c", "a/d/e", "a/f/g", "ab/x"]
    assert sorted(stores.list_prefix(store, "a/")) == ["a/b", "a/c", "a/d/e", "a/f/g"]
    assert stores.list_dir(store, "a/") == (["a/b", "a/c"], ["a/d/", "a/f/"])
    assert stores.list_dir(store, "b/") == ([], [])
    assert stores.list_dir(store, "") == ([], ["a/", "ab/"])
    for _ in range(2):
        stores.erase_prefix(store, "a/")
        assert sorted(stores.list_prefix(store, "")) == ["ab/x"]
    assert store.get("a/b") is None


class NoErase(ListingStore):
    """A store that cannot delete, as a zip archive cannot, and raises an error."""

    def erase(self, key: str) -> None:
        raise oz.StoreError(f"cannot erase {key!r}: the archive would have to be rewritten")


@pytest.mark.shows("D3-86")
def test_deleting_from_a_store_that_cannot_erase_is_an_error() -> None:
    store = NoErase()
    root = oz.create_group(store, zarr_format=DRAFT)
    made = root.create_array("a", shape=2, dtype="i4")
    made[...] = 1
    before = dict(store.values)
    for use in (
        lambda: root.delete("a"),
        lambda: made.__setitem__(..., 0),  # nothing but the fill value: the key would go
        lambda: root.create_array("a", shape=2, dtype="i4", overwrite=True),
        lambda: stores.erase_prefix(store, "data/"),
    ):
        with pytest.raises(OSError, match=r"cannot erase '") as error:
            use()
        assert isinstance(error.value, oz.OmnizarrError)
    assert store.values == before


# Storage keys


@pytest.mark.shows("D3-87", "D3-88", "D3-113")
@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        ("array", "/", "meta/array.json"),
        ("group", "/", "meta/group.json"),
        ("group", "/foo", "meta/foo.group.json"),
        ("array", "/foo", "meta/foo.array.json"),
        ("group", "/foo/bar", "meta/foo/bar.group.json"),
        ("array", "/foo/baz", "meta/foo/baz.array.json"),
        ("array", "/foo/baz/qux", "meta/foo/baz/qux.array.json"),
    ],
)
def test_metadata_has_the_printed_keys(kind: str, path: str, key: str) -> None:
    store: dict[str, bytes] = {}
    if kind == "group":
        oz.create_group(store, path=path, zarr_format=DRAFT)
    else:
        oz.create_array(store, path=path, shape=1, dtype="i4", zarr_format=DRAFT)
    assert sorted(store) == sorted([key, "zarr.json"])
    assert oz.open(store, path=path).name == path


@pytest.mark.shows("D3-90")
def test_a_path_is_the_key_without_meta_and_its_last_ending() -> None:
    store = hierarchy(
        {
            "meta/foo/bar.group.json": {"attributes": {"is": "bar"}},
            "meta/a.array.group.json": {"attributes": {"is": "a.array"}},
            "meta/b.group.array.json": array(),
            "meta/c.array.json.array.json": array(),
        }
    )
    root = oz.open(store)
    found = {name: type(member) for name, member in root.members(max_depth=None)}
    assert found == {
        "a.array": oz.Group,
        "b.group": oz.Array,
        "c.array.json": oz.Array,
        "foo": oz.Group,
        "foo/bar": oz.Group,
    }
    assert root["foo/bar"].attrs == {"is": "bar"}
    assert root["a.array"].attrs == {"is": "a.array"}
    assert "a" not in root


@pytest.mark.shows("DX-50", "DX-51")
def test_a_key_is_a_path_below_the_base_directory(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "data")
    assert store.get("foo/bar") is None
    store.set("foo/bar", b"x")
    assert (store.root / "foo" / "bar").read_bytes() == b"x"
    (store.root / "foo" / "other").write_bytes(b"y")
    assert store.get("foo/other") == b"y"
    assert sorted(store.list()) == ["foo/bar", "foo/other"]
    assert [store.get(key) for key in ("foo", "x/y", "foo/bar/x")] == [None] * 3
    for key in ("foo/bar/c", "foo"):
        with pytest.raises(oz.StoreError, match="cannot write"):
            store.set(key, b"other")


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
