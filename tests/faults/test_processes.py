"""Processes that are forked or end while the library is working; `make soak` starts many."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import omnizarr as oz
from tests.sampling import SEED, sample, tries
from tests.soak import exits


@pytest.mark.parametrize(
    ("method", "state"),
    sample([(m, s) for m in ("fork", "spawn", "forkserver") for s in ("cold", "warm")], 2),
)
def test_started_processes_and_pools_can_read_and_write(
    tmp_path: Path, method: str, state: str
) -> None:
    repeats = tries(3, 600)
    words = ["-m", "tests.soak.forks", str(tmp_path / "x"), method, state, str(repeats)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", sample(exits.PROGRAMS, 4))
def test_the_interpreter_exits_without_hang_or_error_output(program: str, tmp_path: Path) -> None:
    oz.create_array(tmp_path / "x", data=np.ones((256, 512), "i4"), chunks=(64, 64))
    code = exits.BEGIN + textwrap.dedent(exits.PROGRAMS[program])
    quiet = (sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, tmp_path / "x")
    for number in range(tries(1, 40)):
        engine = random.Random(f"{SEED} {program} {number}").choice(["auto", "reference"])
        done = subprocess.run([*quiet, engine], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert (oz.open(tmp_path / "x")[...] == 1).all()
