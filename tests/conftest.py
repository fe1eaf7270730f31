"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from omnizarr import registry
from tests.sampling import SEED

pytest_plugins = ["tests.servers.fixtures", "tests.servers.skipped", "tests.peers.fixtures"]

# Examples are others in each run; `pytest --hypothesis-profile=thorough` tries many in one. What
# decides about a change takes the same in each run, so that chance does not.
for _profile, _examples in (("thorough", 1000), ("default", 25), ("same", 25)):
    settings.register_profile(
        _profile,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=_profile == "same",
    )
settings.load_profile("same" if os.environ.get("OMNIZARR_SAME_EXAMPLES") else "default")

# All tests and the packages they import are half a million objects, which live until the end. They
# are left out of garbage collections, which many tests request, and which then take milliseconds.
gc.disable()


def pytest_report_header() -> str:
    """Say how to repeat the samples of this run."""
    return f"samples: OMNIZARR_SEED={SEED}"


def pytest_collection_finish() -> None:
    """Leave what exists before the first test out of garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


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
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the test's own for the journals of jobs that only read."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture
def shared_tmp() -> Iterator[Path]:
    """Make an empty folder that other users can enter.

    pytest keeps them out of its own folders, also of those of other runs, whenever one starts.
    """
    with tempfile.TemporaryDirectory(prefix="omnizarr-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def own_names() -> Iterator[None]:
    """Remove the names that a test registers."""
    before = dict(registry._table)
    yield
    registry._table.clear()
    registry._table.update(before)
    registry._generation += 1


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
