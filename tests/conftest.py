"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from omnizarr import registry

pytest_plugins = ["tests.servers.fixtures", "tests.servers.skipped", "tests.peers.fixtures"]

settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

# Load the names of the package, which tests may save and restore around their own.
for _kind in registry.KINDS:
    registry.names(_kind)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the journals of jobs that only read out of the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
