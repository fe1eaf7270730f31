"""The exported suites on stores that are reached over a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pytest

from omnizarr.concurrency.retry import Retry
from omnizarr.stores import Store, resolve
from omnizarr.stores.fsspec import FsspecStore
from omnizarr.stores.http import HTTPStore
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
from tests.servers.fixtures import Cloud
from tests.servers.web import Web, running

QUICK = {"attempts": 2, "first_wait": 0.01}


class TestObjectStores(
    StoreTests,
    SharedTests,
    ForkTests,
    ClosableTests,
    ReadOnlyTests,
    AbsenceTests,
    ConditionalTests,
):
    @pytest.fixture
    def store(self, cloud: Cloud) -> Store:
        return resolve(f"{cloud.url}/data", storage_options=cloud.options)

    @pytest.fixture
    def reader(self, cloud: Cloud) -> Store:
        resolve(f"{cloud.url}/data", storage_options=cloud.options).set("a/k", b"1")
        return resolve(f"{cloud.url}/data", read_only=True, storage_options=cloud.options)

    @pytest.fixture(params=["403", "500", "reset"])
    def broken(self, cloud: Cloud, request: pytest.FixtureRequest) -> Store:
        cloud.server.break_down(request.param)
        return resolve(f"{cloud.url}/data", storage_options={**cloud.options, **QUICK})


class TestWeb(ReadableTests, PicklableTests, ReadOnlyTests, AbsenceTests):
    @pytest.fixture(autouse=True, params=[True, False])
    def server(self, request: pytest.FixtureRequest) -> Iterator[Web]:
        with running(Web()) as web:
            web.ranges = request.param
            self.web = web
            yield web

    def put(self, store: Store, values: Mapping[str, bytes]) -> None:
        self.web.values |= {f"data/{key}": value for key, value in values.items()}

    @pytest.fixture
    def store(self, server: Web) -> Store:
        return HTTPStore(f"{server.url}/data")

    @pytest.fixture
    def reader(self, server: Web) -> Store:
        server.values["data/a/k"] = b"1"
        return HTTPStore(f"{server.url}/data")

    @pytest.fixture(params=["403", "500", "reset", "short", "page"])
    def broken(self, server: Web, request: pytest.FixtureRequest) -> Store:
        server.values["data/a/k"] = b"1"
        server.break_down(request.param)
        return HTTPStore(f"{server.url}/data", retry=Retry(attempts=2, first_wait=0.01))


class TestFsspec(StoreTests, SharedTests, ForkTests, ClosableTests, ReadOnlyTests, AbsenceTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FsspecStore(fsspec.filesystem("file"), path=str(tmp_path / "data"))

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Store:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "k").write_bytes(b"1")
        return FsspecStore(fsspec.filesystem("file"), path=str(tmp_path), read_only=True)

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Any:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        return FsspecStore(fsspec.filesystem("file"), path=str(tmp_path / "loop"))
