"""Data written by the stores of zarr-python 2, with their layouts."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import redis
import zarr

import omnizarr as oz
from omnizarr import stores
from omnizarr.stores import NestedDirectoryStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.stores.test_sqlite import redis_url

__all__ = ["redis_url"]

VALUES = np.arange(12, dtype="<i4").reshape(3, 4)


@pytest.fixture(scope="module")
def written() -> dict[str, bytes]:
    """Return a hierarchy of version 2, by zarr-python."""
    memory = zarr.storage.MemoryStore()
    root = zarr.create_group(memory, zarr_format=2, attributes={"title": "old"})
    root.create_array("g/a", shape=(3, 4), chunks=(2, 2), dtype="<i4")[...] = VALUES
    return {key: value.to_bytes() for key, value in memory._store_dict.items()}


def check(store: Any) -> None:
    root = oz.open(store)
    assert root.attrs["title"] == "old"
    assert [name for name, _ in root.members(max_depth=None)] == ["g", "g/a"]
    np.testing.assert_array_equal(root["g/a"][...], VALUES)


def test_its_sqlite_files_are_read(tmp_path: Path, written: dict[str, bytes]) -> None:
    connection = sqlite3.connect(tmp_path / "x.sqlite")
    connection.execute("CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)")
    connection.executemany("REPLACE INTO zarr VALUES (?, ?)", written.items())
    connection.commit()
    connection.close()
    check(SQLiteStore(tmp_path / "x.sqlite", read_only=True))
    check(f"sqlite://{tmp_path}/x.sqlite")
    with SQLiteStore(tmp_path / "x.sqlite") as store:
        store.set("new", b"1")
    connection = sqlite3.connect(tmp_path / "x.sqlite")
    connection.execute("REPLACE INTO zarr VALUES (?, ?)", ("more", b"2"))
    assert connection.execute("SELECT count(*) FROM zarr").fetchone() == (len(written) + 2,)
    connection.close()


@pytest.mark.parametrize("subdir", [True, False])
def test_its_lmdb_files_are_read(tmp_path: Path, written: dict[str, bytes], subdir: bool) -> None:
    environment = lmdb.open(str(tmp_path / "x"), map_size=2**30, subdir=subdir)
    with environment.begin(write=True) as transaction:
        for key, value in written.items():
            transaction.put(key.encode("ascii"), value)
    environment.close()
    check(LMDBStore(tmp_path / "x", read_only=True))
    check(f"lmdb://{tmp_path}/x")


def test_its_redis_keys_are_read(redis_url: str, written: dict[str, bytes]) -> None:
    client = redis.Redis.from_url(redis_url)
    for key, value in written.items():
        client.set(f"old:{key}", value)
    client.close()
    check(RedisStore(redis_url, prefix="old", read_only=True))
    check(f"{redis_url}?prefix=old")


# Nested directories


@pytest.mark.shows("V2-73", "GEO-02")
def test_chunks_are_in_nested_directories(tmp_path: Path) -> None:
    plain = oz.create_group(oz.storage.DirectoryStore(tmp_path / "plain"))
    nested = oz.create_group(NestedDirectoryStore(tmp_path / "nested"))
    data = np.arange(400).reshape(20, 20)
    for root in (plain, nested):
        made = root.create_array("a", shape=(20, 20), chunks=(10, 10), dtype="i8")
        made[...] = data
    document = json.loads((tmp_path / "nested/a/.zarray").read_text())
    assert document["dimension_separator"] == "/"
    keys = sorted(stores.list_prefix(nested.store, "a/"))
    assert keys == ["a/.zarray", "a/0/0", "a/0/1", "a/1/0", "a/1/1"]
    for dots, slashes in (("0.0", "0/0"), ("1.0", "1/0")):
        old, new = tmp_path / "plain/a" / dots, tmp_path / "nested/a" / slashes
        assert old.read_bytes() == new.read_bytes()
    for place in (tmp_path / "nested", NestedDirectoryStore(tmp_path / "nested")):
        np.testing.assert_array_equal(oz.open(place)["a"][...], data)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "nested", mode="r")["a"][...], data)


@pytest.mark.shows("V2-73")
def test_nested_data_without_a_stated_separator_are_read(tmp_path: Path) -> None:
    store = NestedDirectoryStore(tmp_path)
    made = oz.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="i4", fill_value=-1)
    made[...] = 7
    document = json.loads((tmp_path / ".zarray").read_text())
    del document["dimension_separator"]
    (tmp_path / ".zarray").write_text(json.dumps(document))
    assert oz.open(tmp_path)[0, 0] == -1  # as the document says: dots
    for opened in (oz.open(store), oz.open(store), oz.open(store, mode="r+")):
        assert opened[...].tolist() == [[7] * 4] * 4


def test_a_requested_separator_is_stated(tmp_path: Path) -> None:
    store = NestedDirectoryStore(tmp_path)
    made = oz.create_array(store, shape=4, chunks=2, dtype="i4", chunk_key_encoding=".")
    made[...] = 7
    assert json.loads((tmp_path / ".zarray").read_text())["dimension_separator"] == "."
    assert oz.open(store)[...].tolist() == [7] * 4
