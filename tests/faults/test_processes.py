"""Processes that are forked or end while the library is working; `make soak` starts many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.sampling import SEED, sample
from tests.soak import exits, forks


@pytest.mark.parametrize(
    ("method", "state"), [("fork", "cold"), ("fork", "warm"), ("spawn", "warm")]
)
def test_started_processes_and_pools_can_read_and_write(
    tmp_path: Path, method: str, state: str
) -> None:
    path = str(tmp_path / "x")
    forks.prepare(path)
    found = forks.run(path, method, state, repeats=6 if method == "fork" else 2)
    assert (found["hung"], found["failed"]) == (0, 0)


@pytest.mark.parametrize("program", sample(exits.PROGRAMS, 5))
def test_the_interpreter_exits_without_hang_or_error_output(program: str, tmp_path: Path) -> None:
    exits.prepare(tmp_path / "x")
    engine = random.Random(f"{SEED} {program}").choice(exits.ENGINES)
    assert exits.run(tmp_path / "x", program, engine)["wrong"] == ""
