"""The exported suites on stores in memory and in directories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, Store
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


class TestDirectory(TestLocal):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DirectoryStore(tmp_path / "store")


def test_slow_stores_do_not_fail_by_the_deadline_of_hypothesis() -> None:
    """In a process of its own, since the profile of these tests has no deadline."""
    program = (
        "from omnizarr.testing.stores import StoreTests as S\n"
        "name = '_hypothesis_internal_use_settings'\n"
        "tests = [getattr(S, n) for n in dir(S)]\n"
        "print([getattr(t, name).deadline for t in tests if hasattr(t, name)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[None, None]\n", done.stderr
