"""The 2022 draft of version 3: the abstract store interface and the storage keys."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr

import omnizarr as oz
from omnizarr import stores
from omnizarr.interop.zarr.zarr_python import from_zarr
from omnizarr.stores import Store
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.conformance.draft_metadata import DRAFT, array, hierarchy
from tests.conformance.key_value import KeyValueStore

TEN = bytes(range(10))


class ListingStore(KeyValueStore):
    """A store with get, set, erase, and a list of all keys."""

    def list(self) -> Iterator[str]:
        yield from list(self.values)


class PrefixStore(KeyValueStore):
    """A store with get, set, erase, and the keys below a prefix."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        yield from [k for k in self.values if k.startswith(prefix)]


class FolderStore(KeyValueStore):
    """A store with get, set, erase, and the keys and prefixes one level down."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        rest = [k[len(prefix) :] for k in self.values if k.startswith(prefix)]
        keys = [prefix + r for r in rest if "/" not in r]
        return keys, list({f"{prefix}{r.partition('/')[0]}/" for r in rest if "/" in r})


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


Make = Callable[[Path], Store]
STORES: dict[str, Make] = {
    "memory": lambda path: oz.storage.MemoryStore(),
    "local": lambda path: oz.storage.LocalStore(path / "store"),
    "mapping": lambda path: stores.resolve(UserDict()),
    "get set erase list": lambda path: ListingStore(),
    "get set erase list_prefix": lambda path: PrefixStore(),
    "get set erase list_dir": lambda path: FolderStore(),
    "only partial forms": lambda path: ListablePartial(),
    "nested": lambda path: stores.NestedDirectoryStore(path / "store"),
    "zip": lambda path: stores.ZipStore(path / "x.zip", mode="a"),
    "sqlite": lambda path: SQLiteStore(path / "x.sqlite"),
    "lmdb": lambda path: LMDBStore(path / "x.lmdb"),
    "prefix": lambda path: stores.PrefixStore(oz.storage.MemoryStore({"other/k": b"1"}), "p"),
    "zarr-python": lambda path: from_zarr(zarr.storage.MemoryStore()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def fill(store: Store, *keys: str) -> None:
    for key in keys:
        store.set(key, key.encode())


def keys(store: Store) -> list[str]:
    return sorted(stores.list_prefix(store, ""))


# Keys and values


@pytest.mark.shows("D3-76", "DX-53", "V3-82", "V3-99")
@pytest.mark.parametrize("prefix", ["a", "a/b", "/", "../", "a//"])
def test_a_prefix_ends_in_a_slash_and_cannot_escape_the_store(store: Store, prefix: str) -> None:
    fill(store, "a/b", "ab/x")
    for use in (
        lambda: list(stores.list_prefix(store, prefix)),
        lambda: stores.list_dir(store, prefix),
        lambda: stores.erase_prefix(store, prefix),
    ):
        with pytest.raises(oz.InvalidArgument) as error:
            use()
        assert "prefix" in str(error.value) or "not allowed" in str(error.value)
    assert keys(store) == ["a/b", "ab/x"]


# Reading


@pytest.mark.shows("D3-77", "D3-78", "D3-79", "D3-85", "DX-55", "V3-82", "V3-85")
def test_partial_values_come_in_the_order_of_the_requests(store: Store) -> None:
    store.set("k", TEN)
    requests = [("k", (2, 3)), ("missing", (0, 1)), ("k", (0, None)), ("k", (7, None))]
    values = stores.get_partial_values(store, requests)
    assert [None if v is None else bytes(v).hex() for v in values] == [
        "020304",
        None,
        TEN.hex(),
        "070809",
    ]
    assert store.get("k") == TEN
    assert store.get("missing") is None


# Writing


@pytest.mark.shows("D3-80", "D3-85", "DX-55", "V3-82", "V3-85")
def test_parts_of_values_are_written_at_their_offsets(store: Store) -> None:
    store.set("k", bytes(5))
    store.set("other", b"abc")
    parts = [("k", 1, b"\xaa"), ("other", 3, b"d"), ("k", 3, b"\xbb\xcc")]
    stores.set_partial_values(store, parts)
    assert store.get("k") == bytes.fromhex("00aa00bbcc")
    assert store.get("other") == b"abcd"


@pytest.mark.shows("D3-81", "D3-85", "DX-52", "V3-82", "V3-85")
def test_keys_and_prefixes_are_erased_exactly(store: Store) -> None:
    fill(store, "a/b", "a/c/d", "ab/x", "x", "y", "z")
    store.erase("x")
    stores.erase_values(store, ["y", "z", "missing"])
    assert keys(store) == ["a/b", "a/c/d", "ab/x"]
    stores.erase_prefix(store, "a/")
    assert keys(store) == ["ab/x"]
    assert store.get("a/b") is None
    store.erase("a/b")
    stores.erase_prefix(store, "a/")
    assert keys(store) == ["ab/x"]


# Listing


@pytest.mark.shows("D3-83", "D3-84", "DX-53", "V3-82", "V3-85")
def test_one_level_is_listed_as_keys_and_prefixes(store: Store) -> None:
    fill(store, "a/b", "a/c", "a/d/e", "a/f/g")
    assert stores.list_dir(store, "a/") == (["a/b", "a/c"], ["a/d/", "a/f/"])
    assert stores.list_dir(store, "b/") == ([], [])
    assert stores.list_dir(store, "") == ([], ["a/"])


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


@pytest.mark.shows("D3-82", "D3-84")
def test_all_keys_or_those_below_a_prefix_are_listed(store: Store) -> None:
    fill(store, "a/b", "a/c/d", "e/f/g")
    assert keys(store) == ["a/b", "a/c/d", "e/f/g"]
    assert sorted(stores.list_prefix(store, "a/")) == ["a/b", "a/c/d"]
    assert list(stores.list_prefix(store, "b/")) == []


@pytest.mark.shows("D3-75", "V3-82")
@pytest.mark.parametrize("kind", ["memory", "local"])
@pytest.mark.parametrize("key", ["x/", "", "/", "/x", "a//b", "../x", "a/../../x", "a\0b"])
def test_keys_that_end_in_a_slash_or_escape_the_store_are_refused(
    kind: str, key: str, tmp_path: Path
) -> None:
    local = oz.storage.LocalStore(tmp_path / "store")
    store: Any = local if kind == "local" else oz.storage.MemoryStore()
    for use in (lambda: store.set(key, b"x"), lambda: store.get(key), lambda: store.erase(key)):
        with pytest.raises(oz.InvalidArgument, match="not allowed") as error:
            use()
        assert repr(key) in str(error.value)
    assert keys(store) == []
    assert list(tmp_path.rglob("*")) == []
