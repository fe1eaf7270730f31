"""Processes that are forked, killed or end while the library is working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import exits, failures, forks, kills


@pytest.mark.parametrize("state", forks.STATES)
@pytest.mark.parametrize("action", forks.ACTIONS)
def test_forked_children_can_read_and_write(tmp_path: Path, action: str, state: str) -> None:
    path = str(tmp_path / "x")
    forks.prepare(path)
    found = forks.run(path, "fork", action, state, repeats=3)
    assert (found["hung"], found["failed"]) == (0, 0)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_children_can_write(tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "x")
    forks.prepare(path)
    found = forks.run(path, method, "write", "warm", repeats=1)
    assert (found["hung"], found["failed"]) == (0, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("task", kills.TASKS)
def test_a_killed_writer_leaves_old_or_new_values(tmp_path: Path, task: str) -> None:
    found = kills.run(tmp_path, task, kills=15)
    assert found == {"killed": 15, "torn": 0, "left": 0}


@pytest.mark.parametrize("program", exits.PROGRAMS)
def test_the_interpreter_exits_without_hang_or_error_output(program: str, tmp_path: Path) -> None:
    exits.prepare(tmp_path / "x")
    assert exits.run(tmp_path / "x", program, "reference")["wrong"] == ""


@pytest.mark.parametrize("failure", failures.FAILURES)
def test_no_failure_tears_a_value_or_hangs_a_process(failure: str, shared_tmp: Path) -> None:
    found = failures.run("omnizarr", shared_tmp / "x", failure, 3)
    assert found.pop("tried") >= 3
    assert set(found.values()) == {0}
