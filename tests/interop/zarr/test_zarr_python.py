"""Stores of zarr-python in omnizarr, and stores of omnizarr in zarr-python."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore
import pytest
import zarr
import zarr.storage
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.store import StoreTests as TheirStoreTests

import omnizarr as oz
from omnizarr import stores
from omnizarr.errors import StoreError
from omnizarr.interop.zarr.zarr_python import (
    OmnizarrStore,
    ZarrPythonStore,
    from_zarr,
    run_coroutine,
    to_zarr,
)
from omnizarr.stores import LocalStore, MemoryStore, Store
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.stores.zip import ZipStore
from omnizarr.testing.stores import (
    AbilityTests,
    AbsenceTests,
    ClosableTests,
    ForkTests,
    ListableTests,
    ReadableTests,
    ReadOnlyTests,
    SharedTests,
    StoreTests,
    WritableTests,
)
from tests.concurrency.test_pool import interrupted_after


def wrapped(kind: str) -> Any:
    return AsyncFileSystemWrapper(fsspec.filesystem(kind, auto_mkdir=True), asynchronous=True)


# Every class of zarr-python that stores something.
THEIRS: dict[str, Callable[[Path], zarr.abc.store.Store]] = {
    "in memory": lambda path: zarr.storage.MemoryStore(),
    "local": lambda path: zarr.storage.LocalStore(path / "local"),
    "memory": lambda path: zarr.storage.FsspecStore.from_url(f"memory://{uuid.uuid4()}"),
    "file": lambda path: zarr.storage.FsspecStore(wrapped("file"), path=str(path / "file")),
    "slash": lambda path: zarr.storage.FsspecStore(wrapped("file"), path=f"{path}/slash/"),
    "logged": lambda path: zarr.storage.LoggingStore(
        zarr.storage.FsspecStore(wrapped("file"), path=str(path / "file")), "ERROR"
    ),
    "object": lambda path: zarr.storage.ObjectStore(obstore.store.MemoryStore()),
    "object file": lambda path: zarr.storage.ObjectStore(
        obstore.store.LocalStore(path / "object", mkdir=True)
    ),
    "zip": lambda path: zarr.storage.ZipStore(path / "x.zip", mode="w"),
}


class TestZarrMemory(StoreTests, ClosableTests, ReadOnlyTests):
    @pytest.fixture
    def store(self) -> Store:
        return from_zarr(zarr.storage.MemoryStore())

    @pytest.fixture
    def reader(self) -> Store:
        inner = zarr.storage.MemoryStore()
        from_zarr(inner).set("a/k", b"1")
        return from_zarr(inner.with_read_only(True))


class TestZarrLocal(StoreTests, ClosableTests, SharedTests, ForkTests, ReadOnlyTests, AbsenceTests):
    lists_empty_folders = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return from_zarr(zarr.storage.LocalStore(tmp_path / "store"))

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Store:
        LocalStore(tmp_path).set("a/k", b"1")
        return from_zarr(zarr.storage.LocalStore(tmp_path), read_only=True)

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        return from_zarr(BrokenStore(tmp_path))


class PlainMethods(zarr.storage.MemoryStore):
    """A store whose methods are plain functions that return awaitables, as wrappers have them."""

    def get(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        return super().get(*args, **options)


def test_a_store_of_zarr_python_need_not_have_coroutine_functions() -> None:
    store = PlainMethods()
    oz.create_array(store, path="a", data=np.arange(4))
    np.testing.assert_array_equal(zarr.open_array(store, path="a", mode="r")[:], np.arange(4))
    np.testing.assert_array_equal(oz.open(store, path="a")[:], np.arange(4))


class BrokenStore(zarr.storage.LocalStore):
    """Forbids everything."""

    async def get(self, *args: Any, **kwargs: Any) -> Buffer | None:
        raise PermissionError(13, "forbidden")

    exists = set = delete = get  # type: ignore[assignment]

    async def list_prefix(self, prefix: str) -> Any:
        raise PermissionError(13, "forbidden")
        yield

    list_dir = list_prefix


class TestObstore(AbilityTests, ReadableTests, WritableTests, ListableTests, ClosableTests):
    @pytest.fixture
    def store(self) -> Store:
        return from_zarr(zarr.storage.ObjectStore(obstore.store.MemoryStore()))


class TestFsspec(AbilityTests, ReadableTests, WritableTests, ListableTests, ClosableTests):
    """A20: its `exists` is True for folders too."""

    lists_empty_folders = True

    @pytest.fixture(params=["memory", "file", "slash", "logged"])
    def store(self, request: Any, tmp_path: Path) -> Store:
        return from_zarr(THEIRS[request.param](tmp_path))


class TestBack(StoreTests, ClosableTests, SharedTests):
    """A store adapted in both directions."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return from_zarr(to_zarr(SQLiteStore(tmp_path / "x.sqlite")))


# Listing and erasing as zarr-python does


def filled(kind: str, path: Path) -> zarr.abc.store.Store:
    """Return a hierarchy in a store of zarr-python, with names that have a common prefix."""
    store = THEIRS[kind](path)
    root = zarr.create_group(store)
    for name in ("a", "a/b", "ab", "g/deep/er"):
        array = root.create_array(f"{name}/x", shape=(4, 4), chunks=(2, 2), dtype="i4")
        array[:3] = 1
    return store


def contents(store: zarr.abc.store.Store) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        found = {}
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            found[key] = b"" if value is None else value.to_bytes()
        return found

    return run_coroutine(read())


async def names_in(store: zarr.abc.store.Store, prefix: str) -> list[str]:
    return sorted([name async for name in store.list_dir(prefix)])


@pytest.mark.parametrize("kind", [kind for kind in THEIRS if kind != "slash"])
def test_listing_and_erasing_agree_with_zarr_python(kind: str, tmp_path: Path) -> None:
    """A20: listings of a store of zarr-python, and its keys after a prefix is erased."""
    theirs = filled(kind, tmp_path)
    ours = from_zarr(theirs)
    assert sorted(stores.list_prefix(ours, "")) == sorted(contents(theirs))
    for prefix in ("", "a/", "a/x/", "a/x/c/", "g/", "none/"):
        keys, prefixes = stores.list_dir(ours, prefix)
        assert all(ours.get(key) is not None for key in keys)
        assert all(ours.get(folder[:-1]) is None for folder in prefixes)
        names = [name.removeprefix(prefix).rstrip("/") for name in (*keys, *prefixes)]
        assert sorted(names) == run_coroutine(names_in(theirs, prefix.rstrip("/")))
    there = dict(zarr.open_group(theirs, mode="r+").members(max_depth=None))
    mine = dict(oz.open(theirs).members(max_depth=None))
    assert mine.keys() == there.keys()
    assert oz.convert(theirs, {}, zarr_format=2).arrays == 4
    if not theirs.supports_deletes:
        return
    (tmp_path / "copy").mkdir()
    copy = filled(kind, tmp_path / "copy")
    for prefix in ("a/x/c/", "a/", "none/", "g/deep/"):
        stores.erase_prefix(ours, prefix)
        run_coroutine(copy.delete_dir(prefix.rstrip("/")))
        assert contents(theirs) == contents(copy)
    ours.erase("ab/x/zarr.json")
    ours.erase("ab/x")  # a folder is no key
    run_coroutine(copy.delete("ab/x/zarr.json"))
    assert contents(theirs) == contents(copy) != {}
    stores.erase_prefix(ours, "")
    assert contents(theirs) == {}


@pytest.mark.parametrize("kind", THEIRS)
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_chunk_of_fill_values_needs_no_deleting(kind: str, engine: str, tmp_path: Path) -> None:
    """A21: a store that cannot delete is not asked to; the fill values are stored there."""
    with oz.configure(engine=engine):
        array = oz.create_array(THEIRS[kind](tmp_path), shape=(6,), chunks=(2,), dtype="i4")
        array[...] = [0, 0, 1, 0, 0, 0]
        array[4] = 0
        assert array[...].tolist() == [0, 0, 1, 0, 0, 0]
        assert array.nchunks_initialized == 1
        stores.erase_prefix(array.store, "none/")
        if array.store.inner.supports_deletes:
            array[2] = 0
            assert array.nchunks_initialized == 0
        else:
            with pytest.warns(UserWarning, match="Duplicate name"):  # of zipfile
                array[2] = 0
            assert array[...].tolist() == [0] * 6
            assert array.nchunks_initialized == 1


# Found by themselves


def test_a_store_of_zarr_python_is_accepted(tmp_path: Path) -> None:
    theirs = zarr.storage.MemoryStore()
    data = np.arange(12).reshape(3, 4)
    array = zarr.create_array(theirs, name="g/a", shape=(3, 4), chunks=(2, 2), dtype="i8")
    array[...] = data
    root = oz.open(theirs, mode="r+")
    assert isinstance(root.store, ZarrPythonStore)
    np.testing.assert_array_equal(root["g/a"][...], data)
    root["g/a"][0, 0] = 99
    assert array[0, 0] == 99
    root.create_array("b", data=np.arange(3))
    assert zarr.open_array(theirs, path="b", mode="r")[...].tolist() == [0, 1, 2]
    place = zarr.storage.StorePath(theirs, "g")
    assert oz.open(place, path="a")[0, 0] == 99


@pytest.mark.parametrize("path", ["", "c", "a/c"])
def test_nodes_of_an_icechunk_session_are_replaced(path: str) -> None:
    """It accepts no keys but those of nodes, and no chunks before their array."""
    icechunk = pytest.importorskip("icechunk")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    oz.create_array(session.store, path=path, data=np.arange(10), chunks=(4,))
    new = np.arange(7) * 3
    oz.create_array(session.store, path=path, data=new, chunks=(2,), overwrite=True)
    session.commit("first")
    reading = repository.readonly_session("main").store
    assert oz.open(reading, path=path)[...].tolist() == new.tolist()
    if path:
        assert dict(oz.open(reading).members(max_depth=None))[path].chunks == (2,)
    session = repository.writable_session("main")
    group = oz.create_group(session.store, path=path, attributes={"a": 1}, overwrite=True)
    assert list(group) == []
    assert group.attrs == {"a": 1}


def test_a_virtual_store_is_read(tmp_path: Path) -> None:
    pytest.importorskip("virtualizarr")
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
    from virtualizarr.manifests.utils import create_v3_array_metadata

    data = np.arange(8, dtype="<i4")
    (tmp_path / "raw").write_bytes(b"head" + data.tobytes())
    url = f"file://{tmp_path}/raw"
    manifest = ChunkManifest({"0": {"path": url, "offset": 4, "length": 32}})
    metadata = create_v3_array_metadata(
        shape=(8,),
        chunk_shape=(8,),
        data_type=np.dtype("<i4"),
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
    )
    below = ManifestGroup(arrays={"b": ManifestArray(metadata, manifest)})
    group = ManifestGroup(arrays={"a": ManifestArray(metadata, manifest)}, groups={"g": below})
    registry = ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    store = ManifestStore(group, registry=registry)
    assert oz.open(store, path="a")[2:5].tolist() == [2, 3, 4]
    assert [name for name, _ in oz.open(store).members(max_depth=None)] == ["a", "g", "g/b"]


def test_a_store_works_inside_a_running_event_loop() -> None:
    theirs = zarr.storage.MemoryStore()

    async def main() -> Any:
        oz.create_array(theirs, data=np.arange(5))
        return oz.open(theirs)[3]

    assert asyncio.run(main()) == 3


def test_a_store_that_does_not_open_itself_is_opened(tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as writable:
        oz.create_array(writable, data=np.arange(5))
    assert oz.open(zarr.storage.ZipStore(tmp_path / "x.zip", mode="r"))[3] == 3


def test_deleting_from_a_store_that_cannot_delete_is_an_error(tmp_path: Path) -> None:
    store = from_zarr(zarr.storage.ZipStore(tmp_path / "x.zip", mode="w"))
    store.set("k", b"1")
    with pytest.raises(StoreError, match="cannot delete"):
        store.erase("k")
    with pytest.raises(StoreError, match="cannot delete"):
        stores.erase_prefix(store, "")
    assert store.get("k") == b"1"
    store.close()


# zarr-python on our stores

MAKE: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "local": lambda path: LocalStore(path / "store"),
    "sqlite": lambda path: SQLiteStore(path / "x.sqlite"),
    "zip": lambda path: ZipStore(path / "x.zip", mode="a"),
}


class TheirSuite(TheirStoreTests[OmnizarrStore, cpu.Buffer]):
    """The suite of zarr-python."""

    store_cls = OmnizarrStore
    buffer_cls = cpu.Buffer
    kind = ""

    async def set(self, store: OmnizarrStore, key: str, value: Buffer) -> None:
        store.store.set(key, value.to_bytes())

    async def get(self, store: OmnizarrStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(store.store.get(key) or b"")

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"store": MAKE[self.kind](tmp_path)}

    def test_store_repr(self, store: OmnizarrStore) -> None:
        assert repr(store) == f"OmnizarrStore({store.store!r})"

    def test_store_supports_writes(self, store: OmnizarrStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: OmnizarrStore) -> None:
        assert store.supports_listing


class TestTheirsOnLocal(TheirSuite):
    kind = "local"


class TestTheirsOnSQLite(TheirSuite):
    kind = "sqlite"


class TestTheirsOnZip(TheirSuite):
    kind = "zip"


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_and_writes_our_stores(
    kind: str, zarr_format: Any, tmp_path: Path
) -> None:
    ours = MAKE[kind](tmp_path)
    theirs = to_zarr(ours)
    root = zarr.create_group(theirs, zarr_format=zarr_format, attributes={"a": 1})
    made = root.create_array("g/x", shape=(5, 5), chunks=(2, 2), dtype="f4")
    made[...] = values = np.arange(25, dtype="f4").reshape(5, 5)
    found = oz.open(ours)
    np.testing.assert_array_equal(found["g/x"][...], values)
    assert found.attrs["a"] == 1
    assert sorted(name for name, _ in zarr.open_group(theirs, mode="r").members()) == ["g"]
    del root["g"]
    assert list(oz.open(ours)) == []


def test_a_part_of_a_store_is_converted_in_place_and_written_to() -> None:
    theirs = zarr.storage.MemoryStore()
    part = zarr.storage.StorePath(theirs, "g")
    oz.save(oz.storage.StorePath(oz.open(theirs, "a", zarr_format=2).store, "g"), [1, 2])
    oz.convert(part, in_place=True)
    assert oz.open(theirs, path="g", zarr_format=3)[...].tolist() == [1, 2]
    oz.convert(part, zarr.storage.StorePath(theirs, "h"), zarr_format=2)
    assert oz.load(theirs, path="h").tolist() == [1, 2]


def test_an_error_of_a_partial_read_is_raised_but_not_one_of_a_range_beyond_the_end() -> None:
    class Failing(zarr.storage.MemoryStore):
        async def get(self, key: Any, prototype: Any, byte_range: Any = None) -> Any:
            if byte_range is not None:
                raise OSError("the connection was lost")
            return await super().get(key, prototype)

    values = {"a": default_buffer_prototype().buffer.from_bytes(b"12345")}
    store = from_zarr(Failing(values))
    assert store.get("a", stores.Range(3, 9)) == b"45"
    with pytest.raises(StoreError, match="connection was lost"):
        store.get("a", stores.Range(1, 2))


def test_an_interrupt_is_raised_when_the_cancelled_coroutine_has_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            ended.set()

    with interrupted_after(begun):
        run_coroutine(work())
    assert ended.is_set()
