"""Processes start in every way, from a parent that is busy or was never used, and none hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import forks


@pytest.mark.parametrize("state", forks.STATES)
@pytest.mark.parametrize("action", forks.ACTIONS)
def test_forked_children_read_and_write(tmp_path: Path, action: str, state: str) -> None:
    path = str(tmp_path / "x")
    forks.prepare(path)
    found = forks.run(path, "fork", action, state, repeats=5)
    assert (found["hung"], found["failed"]) == (0, 0)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_a_fresh_interpreter_write(tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "x")
    forks.prepare(path)
    found = forks.run(path, method, "write", "warm", repeats=1)
    assert (found["hung"], found["failed"]) == (0, 0)
