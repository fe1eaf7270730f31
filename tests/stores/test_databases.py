"""Stores in SQLite, LMDB and Redis."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnizarr.stores import Store
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
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


class DatabaseTests(
    StoreTests,
    ConditionalTests,
    SharedTests,
    ForkTests,
    ClosableTests,
    ReadOnlyTests,
    AbsenceTests,
):
    """What every database passes."""


class TestSQLite(DatabaseTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with SQLiteStore(tmp_path / "store.sqlite") as store:
            yield store

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Store]:
        with SQLiteStore(tmp_path / "store.sqlite") as store:
            store.set("a/k", b"1")
        with SQLiteStore(tmp_path / "store.sqlite", read_only=True) as store:
            yield store

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        (tmp_path / "store.sqlite").write_bytes(b"not a database" * 100)
        return SQLiteStore(tmp_path / "store.sqlite")


class TestLMDB(DatabaseTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with LMDBStore(tmp_path / "store.lmdb") as store:
            yield store

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Store]:
        with LMDBStore(tmp_path / "store.lmdb") as store:
            store.set("a/k", b"1")
        with LMDBStore(tmp_path / "store.lmdb", read_only=True) as store:
            yield store

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        (tmp_path / "store.lmdb").write_bytes(b"not a database" * 1000)
        return LMDBStore(tmp_path / "store.lmdb")


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of our own, at a socket."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "redis.sock"
    settings = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *settings, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not socket.exists():
            assert server.poll() is None, "redis-server has ended"
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.02)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()


class TestRedis(DatabaseTests, PartialTests):
    @pytest.fixture
    def store(self, redis_url: str, tmp_path: Path) -> Iterator[Store]:
        with RedisStore(redis_url, prefix=str(tmp_path)) as store:
            yield store

    @pytest.fixture
    def reader(self, redis_url: str, tmp_path: Path) -> Iterator[Store]:
        with RedisStore(redis_url, prefix=str(tmp_path)) as store:
            store.set("a/k", b"1")
        with RedisStore(redis_url, prefix=str(tmp_path), read_only=True) as store:
            yield store

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        return RedisStore(f"unix://{tmp_path}/nobody")
