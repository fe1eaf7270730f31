"""Stores in SQLite, LMDB and Redis."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

import omnizarr as oz
from omnizarr.errors import StoreError
from omnizarr.stores import Store, operations
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from omnizarr.testing import run_in_fork
from omnizarr.testing.stores import (
    AbsenceTests,
    ClosableTests,
    ConditionalTests,
    ForkTests,
    PartialTests,
    ReadOnlyTests,
    SharedTests,
    StoreTests,
)
from tests.servers.redis import redis_server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Redis server on a socket."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


class DatabaseTests(
    StoreTests,
    ConditionalTests,
    SharedTests,
    ForkTests,
    ClosableTests,
    ReadOnlyTests,
    AbsenceTests,
):
    """Tests that every database passes."""

    def make(self, folder: Path, server: str, **options: Any) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path, redis_url: str) -> Iterator[Store]:
        with self.make(tmp_path, redis_url) as store:
            yield store

    @pytest.fixture
    def reader(self, tmp_path: Path, redis_url: str) -> Iterator[Store]:
        with self.make(tmp_path, redis_url) as store:
            store.set("a/k", b"1")
        with self.make(tmp_path, redis_url, read_only=True) as store:
            yield store

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        (tmp_path / "store").write_bytes(b"not a database" * 1000)
        made: Store = self.make(tmp_path, f"unix://{tmp_path}/nobody")
        return made

    def test_values_are_changed_only_if_all_keys_are_as_expected(self, store: Any) -> None:
        store.set_many([("a", b"1"), ("b", b"2")])
        known = {"a": store.generation("a"), "new": None}
        changes = {"a": b"3", "b": None, "c": b"4", "d": None}
        assert store.change_if(changes, {**known, "b": store.generation("a")}) is False
        assert sorted(store.list()) == ["a", "b"]
        assert store.change_if(changes, known) is True
        assert (store.get("a"), store.get("b"), store.get("c")) == (b"3", None, b"4")
        assert store.change_if({"c": None}, known) is False
        assert sorted(store.list()) == ["a", "c"]


class TestSQLite(DatabaseTests):
    def make(self, folder: Path, server: str, **options: Any) -> Any:
        return SQLiteStore(folder / "store", **options)


class TestLMDB(DatabaseTests):
    def make(self, folder: Path, server: str, **options: Any) -> Any:
        return LMDBStore(folder / "store", **options)


class TestRedis(DatabaseTests, PartialTests):
    def make(self, folder: Path, server: str, **options: Any) -> Any:
        return RedisStore(server, prefix=str(folder), **options)

    def test_threads_that_use_a_store_first_share_one_client(
        self, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[redis.Redis] = []
        real = redis.Redis.from_url

        def slowly(url: str, **options: Any) -> redis.Redis:
            time.sleep(0.05)
            made.append(real(url, **options))
            return made[-1]

        monkeypatch.setattr(redis.Redis, "from_url", slowly)
        store = RedisStore(redis_url)
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(store.get, "abcdefgh")) == [None] * 8
        assert len(made) == 1


# SQLite


def test_a_table_of_another_program_is_not_changed(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.sqlite")
    connection.execute("CREATE TABLE mine(a)")
    connection.commit()
    connection.close()
    reader = SQLiteStore(tmp_path / "x.sqlite", read_only=True)
    assert reader.get("k") is None
    assert list(reader.list()) == []
    with SQLiteStore(tmp_path / "x.sqlite") as store:
        store.erase("k")
        store.set("k", b"1")
    assert reader.get("k") == b"1"


def test_reading_creates_no_file(tmp_path: Path) -> None:
    for store in (SQLiteStore(tmp_path / "x.sqlite"), LMDBStore(tmp_path / "x.lmdb")):
        assert store.get("k") is None
        assert list(store.list()) == []
        assert store.list_dir("") == ([], [])
        assert store.generation("k") is None
        store.erase("k")
        store.erase_prefix("")
        store.close()
    assert list(tmp_path.iterdir()) == []


def test_values_are_set_together_or_not_at_all(tmp_path: Path) -> None:
    lmdb_store = LMDBStore(tmp_path / "x.lmdb")
    for store in (SQLiteStore(tmp_path / "x.sqlite"), lmdb_store):
        store.set("a", b"old")
        with pytest.raises(TypeError):
            store.set_many([("a", b"new"), ("b", None)])  # type: ignore[list-item]
        assert (store.get("a"), store.get("b")) == (b"old", None)
    with pytest.raises(StoreError, match=r"'x{600}' has 600 bytes; LMDB takes 511"):
        lmdb_store.set_many([("a", b"new"), ("x" * 600, b"1")])
    assert lmdb_store.get("a") == b"old"
    assert lmdb_store.get("x" * 600) is None


def test_a_writer_waits_for_another_and_says_when_it_gives_up(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "x.sqlite", timeout=0.05) as store:
        store.set("k", b"old")
        other = sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"cannot write 'k'.*locked"):
            store.set("k", b"new")
        other.execute("ROLLBACK")
        other.close()
        assert store.get("k") == b"old"


def test_the_error_of_a_full_database_has_a_remedy(tmp_path: Path) -> None:
    with LMDBStore(tmp_path / "x.lmdb", map_size=2**16) as store:
        store.set("small", b"1")
        with pytest.raises(StoreError, match=r"'large'.*larger map_size"):
            store.set("large", bytes(2**20))
        assert store.get("small") == b"1"


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved here")
@pytest.mark.parametrize("subdir", [True, False])
def test_the_lock_file_of_lmdb_has_its_space_before_it_is_mapped(
    subdir: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of it that the disk has no space for would end the process."""
    with LMDBStore(tmp_path / "x.lmdb", subdir=subdir) as store:
        store.set("k", b"1")
        lock = os.stat(tmp_path / "x.lmdb" / "lock.mdb" if subdir else tmp_path / "x.lmdb-lock")
        assert lock.st_blocks * 512 >= lock.st_size >= 2**16

    def full(*args: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        LMDBStore(tmp_path / "y.lmdb", subdir=subdir) as store,
        pytest.raises(StoreError, match="No space left"),
    ):
        store.set("k", b"1")


def test_the_connections_of_a_dropped_store_are_closed(tmp_path: Path) -> None:
    """Python warns of others."""
    store = SQLiteStore(tmp_path / "x.sqlite")
    store.set("k", b"1")
    connections = store._connections
    assert len(connections) == 1
    del store
    gc.collect()
    assert not connections


def test_listing_one_level_does_not_read_deeper_keys() -> None:
    keys = [f"a/{i}/{j}" for i in range(3) for j in range(500)]
    seen: list[str] = []

    def scan(start: str) -> Iterator[str]:
        for key in operations.scan_sorted(sorted(keys))(start):
            seen.append(key)
            yield key

    assert operations.list_level(scan, "a/") == ([], ["a/0/", "a/1/", "a/2/"])
    assert len(seen) == 3


# Redis


def test_redis_keys_of_other_prefixes_are_not_seen(redis_url: str) -> None:
    one, other = RedisStore(redis_url, prefix="a*"), RedisStore(redis_url, prefix="ab")
    one.set("k", b"1")
    other.set("l", b"2")
    assert list(one.list()) == ["k"]
    one.erase_prefix("")
    assert list(other.list()) == ["l"]
    other.erase_prefix("")


def test_a_redis_server_is_found_by_its_url(redis_url: str, tmp_path: Path) -> None:
    url = f"{redis_url}?db=1&prefix={tmp_path.name}"
    oz.create_array(url, data=np.arange(10), chunks=(3,))
    assert oz.open(url)[...].tolist() == list(range(10))
    assert oz.open(url).store.prefix == tmp_path.name
    with RedisStore(redis_url, prefix=tmp_path.name) as other_database:
        assert list(other_database.list()) == []


def test_connections_of_threads_that_have_ended_are_closed(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "x.sqlite")
    store.set("k", b"1")
    for _ in range(20):
        thread = threading.Thread(target=store.get, args=("k",))
        thread.start()
        thread.join()
    assert len(store._connections) <= 2
    assert store.get("k") == b"1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_every_store_of_one_file_is_closed_before_a_fork(tmp_path: Path) -> None:
    stores = [SQLiteStore(tmp_path / "x.sqlite") for _ in range(3)]
    for store in stores:
        store.set("k", b"1")
    run_in_fork(lambda: None)
    assert not any(connection.is_open for store in stores for connection in store._connections)
    assert [store.get("k") for store in stores] == [b"1"] * 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_database_that_is_closed_while_threads_read_large_values_does_not_crash(
    tmp_path: Path,
) -> None:
    def work() -> None:
        for number in range(20):
            store = SQLiteStore(tmp_path / f"{number}.sqlite")
            store.set_many([(f"{key}", bytes(20_000)) for key in range(100)])
            with ThreadPoolExecutor(6) as threads:
                reads = [threads.submit(_read_until_closed, store) for _ in range(6)]
                time.sleep(0.01)
                store.close()
                assert all("closed" in str(read.exception()) for read in reads)

    run_in_fork(work)


def _read_until_closed(store: Store) -> None:
    while True:
        operations.get_many(store, [(f"{key}", None) for key in range(100)])


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:9/0?password=secret",
        "redis://me:secret@127.0.0.1:9/0",
        "unix:///tmp/nowhere.sock?password=secret",
    ],
)
def test_a_password_of_redis_is_not_shown(url: str) -> None:
    store = RedisStore(url)
    with pytest.raises(StoreError) as caught:
        store.get("k")
    assert "secret" not in repr(store) + str(caught.value)
    assert repr(store).startswith(url[:6])


def test_no_node_is_created_below_a_prefix_that_another_store_contains(redis_url: str) -> None:
    """Deleting in the prefix "lab" deleted what was in "lab:run"."""
    with pytest.raises(oz.InvalidName, match="without a colon"):
        oz.create_group(RedisStore(redis_url, prefix="lab:run"))
    assert [*RedisStore(redis_url, prefix="lab").list()] == []


def _die_while_writing(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")  # so that changes go to the file before the commit
    connection.execute("BEGIN IMMEDIATE")
    for number in range(100):
        connection.execute("UPDATE zarr SET v = ?", (bytes(10_000 + number),))
    os._exit(0)


def test_a_file_is_read_although_a_writer_was_killed(tmp_path: Path) -> None:
    """Only a connection that may write can undo what the writer has not completed."""
    path = tmp_path / "x.sqlite"
    oz.save(SQLiteStore(path), np.arange(3))
    reader = SQLiteStore(path, read_only=True)
    assert oz.load(reader).tolist() == [0, 1, 2]
    dying = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(path,))
    dying.start()
    dying.join()
    assert Path(f"{path}-journal").stat().st_size > 0
    assert oz.load(reader).tolist() == [0, 1, 2]
    assert oz.load(SQLiteStore(path, read_only=True)).tolist() == [0, 1, 2]
