"""Stores that wrap other stores."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import stores
from omnizarr.errors import InvalidArgument, StoreError
from omnizarr.stores import LocalStore, MemoryStore, Range, SetsIf, Store, Versioned, resolve
from omnizarr.stores.http import HTTPStore
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.wrappers import CacheStore, PrefixStore, ReadOnlyStore, WrapperStore
from omnizarr.testing import FaultyStore, RecordingStore, SlowStore
from omnizarr.testing.stores import (
    AbsenceTests,
    ClosableTests,
    ConditionalTests,
    ForkTests,
    PicklableTests,
    ReadableTests,
    ReadOnlyTests,
    SharedTests,
    StoreTests,
)
from tests.conformance.key_value import KeyValueStore
from tests.servers.web import Web


def fail(operation: str, key: str) -> Exception | None:
    return StoreError(f"the disk is on fire, cannot {operation} {key!r}")


class WrappedTests(StoreTests, ConditionalTests, SharedTests, ForkTests, ClosableTests):
    """A wrapper has all abilities of what it wraps."""

    def wrap(self, inner: Store) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return self.wrap(SQLiteStore(tmp_path / "x.sqlite"))


class TestPrefix(WrappedTests):
    def wrap(self, inner: Store) -> Store:
        inner.set("beside", b"1")
        inner.set("a/bc/x", b"2")
        return PrefixStore(inner, "a/b")


class TestStacked(WrappedTests):
    """Wrappers around each other."""

    def wrap(self, inner: Store) -> Store:
        return CacheStore(SlowStore(RecordingStore(inner), 1e-6), max_bytes=100_000)


class TestFaulty(AbsenceTests):
    @pytest.fixture
    def broken(self) -> Store:
        return FaultyStore(MemoryStore({"a/k": b"1"}), fail)


class TestReadOnly(ReadOnlyTests):
    @pytest.fixture
    def reader(self, tmp_path: Path) -> Store:
        inner = SQLiteStore(tmp_path / "x.sqlite")
        inner.set("a/k", b"1")
        return ReadOnlyStore(inner)


class TestUncheckedCache(ReadableTests, PicklableTests, ReadOnlyTests):
    @pytest.fixture
    def store(self) -> Store:
        return CacheStore(MemoryStore(), validate=False)

    @pytest.fixture
    def reader(self) -> Store:
        return CacheStore(MemoryStore({"a/k": b"1"}), validate=False)

    def put(self, store: CacheStore, values: dict[str, bytes]) -> None:  # type: ignore[override]
        for key, value in values.items():
            store.inner.set(key, value)


@pytest.mark.parametrize(
    "wrap",
    [lambda inner: PrefixStore(inner, "p"), RecordingStore, ReadOnlyStore],
    ids=["prefix", "recording", "read-only"],
)
def test_a_wrapper_has_no_ability_that_its_store_lacks(wrap: type[ReadOnlyStore]) -> None:
    store = wrap(KeyValueStore())
    assert isinstance(store, Store)
    assert not stores.can_list(store)
    assert not isinstance(store, (Versioned, SetsIf))
    assert not hasattr(store, "set_partial")
    with pytest.raises(StoreError, match="cannot list"):
        list(stores.list_prefix(store, ""))
    assert stores.get_many(store, [("k", None)]) == [None]


def test_a_prefix_hides_other_keys() -> None:
    values = {"a/b/k": b"1", "a/bc": b"2", "a/k": b"3", "k": b"4"}
    store = PrefixStore(MemoryStore(values), "a/b/")
    assert list(store.list()) == ["k"]
    assert store.list_dir("") == (["k"], [])
    stores.erase_prefix(store, "")
    assert values == {"a/bc": b"2", "a/k": b"3", "k": b"4"}
    for bad in ("../x", "/a", "a//b"):
        with pytest.raises(InvalidArgument):
            PrefixStore(MemoryStore(), bad)


# The cache


def test_a_cache_asks_for_a_value_once_until_it_changes(tmp_path: Path) -> None:
    place = SQLiteStore(tmp_path / "x.sqlite")
    inner = RecordingStore(place)
    store = CacheStore(inner)
    place.set("k", b"0123456789")
    for _ in range(3):
        assert store.get("k") == b"0123456789"
        assert store.get("k", Range(2, 3)) == b"234"
        assert store.get_versioned("k")[0] == b"0123456789"
    assert inner.counts()["get_versioned"] == 2
    place.set("k", b"abcdefghij")
    assert store.get("k") == b"abcdefghij"
    assert store.get("k", Range(2, 3)) == b"cde"
    place.erase("k")
    assert store.get("k") is None


def test_a_cache_stays_below_its_bound_and_keeps_recently_used_values(tmp_path: Path) -> None:
    inner = RecordingStore(MemoryStore({f"k{i}": bytes(300) for i in range(5)}))
    kept = LocalStore(tmp_path / "cache")
    store = CacheStore(inner, kept, max_bytes=1000, validate=False)
    for i in (0, 1, 2, 0, 3, 0, 4):
        assert store.get(f"k{i}") == bytes(300)
        assert sum(p.stat().st_size for p in kept.root.iterdir()) <= 1000
    assert inner.counts()["get"] == 5  # k0 stayed, since it was used
    store.get("k1")
    assert inner.counts()["get"] == 6
    again = CacheStore(inner, kept, max_bytes=1000, validate=False)
    assert again.get("k0") == bytes(300)
    assert inner.counts()["get"] == 6
    CacheStore(MemoryStore({"large": bytes(2000)}), kept, max_bytes=1000, validate=False).get(
        "large"
    )
    assert sum(p.stat().st_size for p in kept.root.iterdir()) <= 1000


def test_a_damaged_or_lost_copy_is_fetched_again(tmp_path: Path) -> None:
    kept = LocalStore(tmp_path / "cache")
    store = CacheStore(MemoryStore({"k": b"value"}), kept, validate=False)
    assert store.get("k") == b"value"
    (file,) = kept.root.iterdir()
    file.write_bytes(b"val")
    assert store.get("k") == b"value"
    file.unlink()
    assert store.get("k") == b"value"


def test_a_store_without_generations_is_cached_only_on_request() -> None:
    with pytest.raises(InvalidArgument, match="validate=False"):
        CacheStore(KeyValueStore())
    assert CacheStore(KeyValueStore(), validate=False).read_only


def test_a_server_without_generations_is_read_without_caching(web: Web) -> None:
    oz.create_array(PrefixStore(MemoryStore(web.values), "data"), data=np.arange(6), chunks=3)
    web.tags = False
    array = oz.open(CacheStore(HTTPStore(f"{web.url}/data")))
    assert array[...].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_shared_cache_never_mixes_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: Web
) -> None:
    """A10: values were kept under a text of their store, which many stores have in common."""
    kept = LocalStore(tmp_path / "cache")

    def check(store: Any, expected: bytes) -> None:
        for _ in range(2):
            assert CacheStore(store, kept, validate=False).get("k") == expected

    for value in (b"1", b"2"):
        check(MemoryStore({"k": value}), value)
        check(PrefixStore(MemoryStore({"p/k": value}), "p"), value)
        check(resolve("reference://", storage_options={"fo": {"k": value.decode()}}), value)
        folder = tmp_path / value.decode()
        LocalStore(folder / "data").set("k", value)
        monkeypatch.chdir(folder)
        check(LocalStore("data"), value)
        web.values["data/k"] = value
        check(HTTPStore(f"{web.url}/data?version={value.decode()}"), value)
        check(HTTPStore(f"{web.url}/data", headers={"version": value.decode()}), value)


def test_a_disk_cache_is_shared_by_stores_of_one_location(
    tmp_path: Path,
) -> None:
    """A10: what tells a store must not change from one process to the next."""
    LocalStore(tmp_path / "data").set("k", b"1")
    code = (
        "import sys; from omnizarr.storage import CacheStore, LocalStore;"
        "store = CacheStore(LocalStore(sys.argv[1]), LocalStore(sys.argv[2]), validate=False);"
        "print(store.get('k'))"
    )
    where = [str(tmp_path / "data"), str(tmp_path / "cache")]
    subprocess.run([sys.executable, "-c", code, *where], check=True)
    LocalStore(tmp_path / "data").set("k", b"2")
    cached = CacheStore(LocalStore(where[0]), LocalStore(where[1]), validate=False)
    assert cached.get("k") == b"1"  # so it was found


def test_a_disk_cache_of_fsspec_memory_is_not_shared(tmp_path: Path) -> None:
    """A10: all processes have a file system "memory", each with values of its own."""
    code = (
        "import sys; from omnizarr.storage import CacheStore, FsspecStore, LocalStore;"
        "inner = FsspecStore.from_url('memory://kept'); inner.set('k', sys.argv[1].encode());"
        "store = CacheStore(inner, LocalStore(sys.argv[2]), validate=False);"
        "assert store.get('k') == store.get('k') == sys.argv[1].encode()"
    )
    for value in ("1", "2"):
        subprocess.run([sys.executable, "-c", code, value, str(tmp_path / "cache")], check=True)


def test_a_cache_takes_paths_for_both_of_its_stores(tmp_path: Path) -> None:
    LocalStore(tmp_path / "data").set("k", b"value")
    for _ in range(2):
        cached = CacheStore(str(tmp_path / "data"), tmp_path / "cache")
        assert cached.get("k") == b"value"
        assert [*LocalStore(tmp_path / "cache").list()] != []


# Methods of subclasses


class Encrypted(WrapperStore):
    """Stores no value as it is; overrides the two plain methods, and no other."""

    def get(self, key: str, range: Range | None = None) -> bytes | None:
        value = self.inner.get(key)
        whole = None if value is None else bytes(byte ^ 0x5A for byte in value)
        return whole if whole is None or range is None else range.of(whole)

    def set(self, key: str, value: Any) -> None:
        self.inner.set(key, bytes(byte ^ 0x5A for byte in bytes(value)))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["memory", "directory", "zip", "sqlite", "prefix"])
def test_nothing_gets_past_a_wrapper_that_overrides_get_and_set(
    tmp_path: Path, kind: str, zarr_format: Any
) -> None:
    make = {
        "memory": MemoryStore,
        "directory": lambda: LocalStore(tmp_path / "a"),
        "zip": lambda: oz.storage.ZipStore(tmp_path / "a.zip", mode="a"),
        "sqlite": lambda: SQLiteStore(tmp_path / "a.sqlite"),
        "prefix": lambda: PrefixStore(MemoryStore(), "a"),
    }
    inner: Any = make[kind]()
    store = Encrypted(inner)
    values = np.arange(1000, dtype="<u2")
    plain = MemoryStore()
    for each in (store, plain):
        group = oz.create_group(each, zarr_format=zarr_format, attributes={"title": "secret"})
        group.create_array("x", data=values, chunks=100, compressors=None)
        shards = {"shards": 200} if zarr_format == 3 else {}
        array = group.create_array("y", shape=0, dtype="u2", chunks=100, **shards)
        array.append(values)
        array[150:250] = 7
        group.attrs["more"] = 1
        group.create_array("z", data=values, overwrite=True)
        oz.consolidate_metadata(each)
    for again in (Encrypted(inner), PrefixStore(Encrypted(inner), "")):
        found = oz.open(again, mode="r")
        assert found.attrs["title"] == "secret"
        assert np.array_equal(found["x"][...], values)
        assert np.array_equal(found["y"][...], oz.open(plain, path="y")[...])
        assert found["x"][333] == 333
    for path in ("x", "y"):
        oz.open(store, mode="r+", path=path).resize(500, outside="erase")
        oz.open(plain, mode="r+", path=path).resize(500, outside="erase")
    assert oz.verify(store).ok
    copied = MemoryStore()
    oz.copy(store, copied)
    assert oz.diff(copied, plain).equal
    oz.copy(plain, Encrypted(inner), overwrite=True)
    assert np.array_equal(oz.open(store, path="x")[...], values[:500])
    kept = {key: inner.get(key) for key in inner.list()}
    assert {key: stores.get_many(store, [(key, None)])[0] for key in kept} == {
        key: plain.get(key) for key in plain.list()
    }
    assert not [key for key, value in kept.items() if value == plain.get(key)]


@pytest.mark.parametrize("name", ["list", "list_prefix", "list_dir"])
def test_a_listing_that_a_wrapper_overrides_is_the_only_one(name: str, tmp_path: Path) -> None:
    def shown(self: Any, *args: Any) -> Any:
        found = getattr(self.inner, name)(*args)
        if name == "list_dir":
            return tuple([each for each in part if "hidden" not in each] for part in found)
        return iter([key for key in found if "hidden" not in key])

    inner = LocalStore(tmp_path)
    for key in ("a/x", "a/hidden", "hidden", "y"):
        inner.set(key, b"1")
    store: Any = type("Shown", (WrapperStore,), {name: shown})(inner)
    assert sorted(stores.list_prefix(store, "")) == ["a/x", "y"]
    assert stores.list_dir(store, "") == (["y"], ["a/"])
    assert stores.list_dir(store, "a/") == (["a/x"], [])
    assert dict(stores.list_sizes(store, "")) == {"a/x": 1, "y": 1}
    assert pickle.loads(pickle.dumps(WrapperStore(inner))).get("y") == b"1"
