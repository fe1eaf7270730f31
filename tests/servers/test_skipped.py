"""The line about skipped tests at the end of a test run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers.processes import STRICT
from tests.servers.skipped import summary

ROOT = Path(__file__).parents[2]


def test_there_is_no_line_if_nothing_was_skipped() -> None:
    assert summary([]) == ""


def test_missing_packages_are_named_once_and_other_reasons_counted() -> None:
    redis = "Skipped: redis-server is not installed (apt-get install redis-server)"
    azurite = "Skipped: azurite-blob is not installed (install npm)"
    line = summary([azurite, redis, redis, "Skipped: there is no fork here", "another reason"])
    assert line == (
        "skipped 5 tests: 2 because redis-server is not installed (apt-get install redis-server);"
        " 1 because azurite-blob is not installed (install npm);"
        " 2 for other reasons (pytest -rs lists them)"
    )


def test_a_run_without_a_server_ends_with_the_line(tmp_path: Path) -> None:
    wanted = "tests/stores/zip/test_store_zarr_python_2.py"
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop(STRICT, None)
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'run'}", "-k", "redis or sqlite", wanted],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert run.stdout.splitlines()[-1] == (
        "skipped 1 test: 1 because redis-server is not installed (apt-get install redis-server)"
    )
