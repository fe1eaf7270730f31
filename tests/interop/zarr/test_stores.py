"""Stores of zarr-python, of other packages, and ours, under zarr's names."""

from __future__ import annotations

import asyncio
import pickle
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from zarr.core.buffer import default_buffer_prototype

import omnizarr
from omnizarr.interop.zarr.stores import OmnizarrStore
from omnizarr.stores import LocalStore
from tests.interop.zarr.conftest import replaced

zarr = pytest.fixture(replaced, scope="module")


def _wrapper(zarr: Any) -> Any:
    class Recording(zarr.storage.WrapperStore):
        """A store of a program's own class."""

        keys: list[str] = []  # noqa: RUF012 - the test reads it

        async def get(self, key: str, *args: Any, **options: Any) -> Any:
            self.keys.append(key)
            return await super().get(key, *args, **options)

    return Recording(zarr.storage.MemoryStore())


def test_the_store_is_the_one_that_was_given(zarr: Any, tmp_path: Path) -> None:
    for store in (
        zarr.storage.LocalStore(tmp_path / "a"),
        zarr.storage.MemoryStore(),
        zarr.storage.ZipStore(tmp_path / "a.zip", mode="w"),
        _wrapper(zarr),
    ):
        group = zarr.open_group(store)
        array = group.create_array("x", data=np.arange(3))
        assert group.store is store
        assert array.store is store
        assert group["x"].store is store
        assert str(array.store_path).endswith("x")
        assert array[:].tolist() == [0, 1, 2]


def test_a_directory_is_read_directly(zarr: Any, tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path)
    assert isinstance(group._location.store, LocalStore)
    assert group.store == zarr.storage.LocalStore(tmp_path)


def test_methods_of_a_programs_own_store_are_called(zarr: Any) -> None:
    store = _wrapper(zarr)
    zarr.create_array(store, data=np.arange(3), chunks=(3,))
    zarr.open_array(store)[:]
    assert "c/0" in store.keys


def test_our_stores_are_stores_of_zarr_python(zarr: Any, tmp_path: Path) -> None:
    sync = zarr.core.sync.sync
    group = zarr.open_group(omnizarr.storage.SQLiteStore(tmp_path / "a.sqlite"))
    group.create_array("x", data=np.arange(3))
    store = group.store
    assert isinstance(store, zarr.abc.store.Store)
    assert store.supports_writes
    assert store.supports_listing
    assert not sync(store.is_empty(""))
    assert sync(store.exists("x/zarr.json"))
    assert store.with_read_only(True).read_only
    assert zarr.open_group(store)["x"][:].tolist() == [0, 1, 2]
    sync(store.clear())
    assert sync(store.is_empty(""))


def test_mode_r_gives_a_read_only_store(zarr: Any, tmp_path: Path) -> None:
    zarr.open_group(tmp_path)
    group = zarr.open_group(tmp_path, mode="r")
    assert group.store.read_only
    assert group.read_only
    with pytest.raises(ValueError, match="read-only"):
        group.create_group("x")


def test_buffers_of_a_memory_store_are_shared(zarr: Any) -> None:
    values: dict[str, Any] = {}
    array = zarr.create_array(values, data=np.arange(3), chunks=(3,), compressors=None)
    assert np.frombuffer(values["c/0"].to_bytes(), "i8").tolist() == [0, 1, 2]
    other = zarr.storage.MemoryStore(values)
    assert zarr.open_array(other)[:].tolist() == array[:].tolist()


def test_a_managed_memory_store_is_accepted(zarr: Any) -> None:
    if not hasattr(zarr.storage, "ManagedMemoryStore"):
        pytest.skip("new in zarr-python 3.4")
    store = zarr.storage.ManagedMemoryStore()
    zarr.create_array(store, data=np.arange(3))
    assert zarr.open_array(store)[:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_array_is_copied_to_a_store_that_cannot_delete(
    zarr: Any, tmp_path: Path, overwrite: bool
) -> None:
    source = zarr.array(np.arange(12).reshape(3, 4), chunks=(2, 2))
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        zarr.from_array(store, name="a", data=source, overwrite=overwrite)
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="r") as store:
        copied = zarr.open_array(store, path="a", mode="r")
        np.testing.assert_array_equal(copied[:], source[:], strict=True)


def test_groups_in_a_store_that_cannot_list_are_created_and_opened(zarr: Any) -> None:
    class Unlisted(zarr.storage.MemoryStore):
        supports_listing = False

        def list_dir(self, prefix: str) -> Any:
            raise NotImplementedError

    store = Unlisted()
    group = zarr.open_group(store, path="g", mode="a", attributes={"x": 1})
    group.create_array("a", shape=(3,), dtype="i4")[:] = 7
    opened = zarr.open_group(store, path="g", mode="r")
    assert dict(opened.attrs) == {"x": 1}
    assert opened["a"][:].tolist() == [7, 7, 7]
    with pytest.raises(FileNotFoundError):
        zarr.open_group(store, path="h", mode="r")


def test_an_array_is_opened_again_after_its_local_store_was_moved(
    zarr: Any, tmp_path: Path
) -> None:
    store = zarr.storage.LocalStore(tmp_path / "a")
    array = zarr.create_array(store, data=np.arange(4), chunks=2)
    asyncio.run(store.move(tmp_path / "b"))
    for use in (lambda: array[:], lambda: array.__setitem__(0, 7)):
        with pytest.raises(FileNotFoundError, match="open it again"):
            use()
    assert zarr.open_array(store)[:].tolist() == [0, 1, 2, 3]
    assert not (tmp_path / "a").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")  # the file keeps what is replaced
def test_fill_values_replace_a_chunk_in_a_store_that_cannot_delete(
    zarr: Any, tmp_path: Path
) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        array = zarr.create_array(store, data=np.arange(6), chunks=2, fill_value=9)
        array[2:4] = 9
        array.resize(10)
        array[8:] = 9  # never stored, so nothing is to be replaced
        assert array[:].tolist() == [0, 1, 9, 9, 4, 5, 9, 9, 9, 9]
        assert array.nchunks_initialized == 3


def test_deleting_in_a_store_that_cannot_is_not_implemented(zarr: Any, tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        group = zarr.create_group(store)
        group.create_group("g")
        with pytest.raises(NotImplementedError, match="cannot delete"):
            del group["g"]
        with pytest.raises(zarr.errors.ContainsGroupError, match="use another path"):
            zarr.create_group(store, path="g", overwrite=True)


def test_an_array_that_cannot_be_resized_is_unchanged(zarr: Any, tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        array = zarr.create_array(store, data=np.arange(20), chunks=5)
        with pytest.raises(NotImplementedError, match="outside='keep'"):
            array.resize(5)
        assert array.shape == (20,)
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="r") as store:
        assert zarr.open_array(store, mode="r")[:].tolist() == list(range(20))


def test_a_key_is_set_unless_it_exists_in_one_step(tmp_path: Path) -> None:
    class Unread(LocalStore):
        def get(self, key: str, range: Any = None) -> bytes | None:
            raise AssertionError("another writer could set the key after it was read")

    store = OmnizarrStore(Unread(tmp_path))
    for value in (b"1", b"2"):
        buffer = default_buffer_prototype().buffer.from_bytes(value)
        asyncio.run(store.set_if_not_exists("a", buffer))
    assert (tmp_path / "a").read_bytes() == b"1"


def test_metadata_are_described_without_touching_the_warning_filters(zarr: Any) -> None:
    group = zarr.create_group({})
    with patch.object(warnings, "catch_warnings", side_effect=AssertionError):
        array = group.create_array("a", shape=3, dtype="i4")
        assert zarr.open_array(group.store, path="a").metadata == array.metadata


def test_an_array_in_a_dictionary_can_be_pickled() -> None:
    array = omnizarr.zarr.array(np.arange(3), store={})
    again = pickle.loads(pickle.dumps(array))
    assert again[:].tolist() == [0, 1, 2]
