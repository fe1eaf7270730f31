"""The same statements give the same results with zarr-python and with omnizarr in its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STATEMENTS = Path(__file__).with_name("statements.txt")
PROGRAM = Path(__file__).with_name("run_statements.py")


def _results(tmp_path: Path, *, ours: bool) -> dict[str, Any]:
    folder = tmp_path / ("ours" if ours else "theirs")
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "ours" if ours else "theirs", str(STATEMENTS)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("statements")
    return _results(folder, ours=False), _results(folder, ours=True)


def _blocks() -> list[str]:
    return [block.strip() for block in STATEMENTS.read_text().split("\n---\n")]


@pytest.mark.parametrize("block", _blocks(), ids=lambda block: block.splitlines()[-1][:60])
def test_results_and_warnings_are_the_same(
    both: tuple[dict[str, Any], dict[str, Any]], block: str
) -> None:
    theirs, ours = both[0][block], both[1][block]
    assert ours["result"] == theirs["result"]
    # An error of ours is also one of zarr-python's classes for the case.
    assert set(theirs["error"]) <= set(ours["error"])
    assert ours["warnings"] == theirs["warnings"]
