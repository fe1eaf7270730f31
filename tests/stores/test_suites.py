"""The exported suites on stores in memory and in directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnizarr.stores import LocalStore, MemoryStore, Store
from omnizarr.testing.stores import (
    AbsenceTests,
    ClosableTests,
    ForkTests,
    ReadOnlyTests,
    SharedTests,
    StoreTests,
    VersionedTests,
)


class TestMemory(StoreTests, ClosableTests, ReadOnlyTests, VersionedTests):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def reader(self) -> Store:
        return MemoryStore({"a/k": b"1"}, read_only=True)


class TestLocal(
    StoreTests, ClosableTests, SharedTests, ForkTests, ReadOnlyTests, AbsenceTests, VersionedTests
):
    settles = 0.15

    @pytest.fixture(params=[LocalStore])
    def store(self, tmp_path: Path, request: pytest.FixtureRequest) -> Store:
        made: Store = request.param(tmp_path / "store")
        return made

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Store:
        LocalStore(tmp_path).set("a/k", b"1")
        return LocalStore(tmp_path, read_only=True)

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Store:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        return LocalStore(tmp_path / "loop")
