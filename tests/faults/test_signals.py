"""Frequent signals make no operation fail; processes that are forked or end are no problem."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnizarr as oz
from tests.sampling import SEED, sample, tries
from tests.servers.processes import s3_options, simple_storage
from tests.soak import exits
from tests.soak.operations import BOX, CHANGED, DATA, OPERATIONS, finish

EVERY = 0.0005  # seconds
ENGINES = ["auto", "reference"]


@contextmanager
def frequent_signals() -> Iterator[list[int]]:
    """Send SIGALRM to this process repeatedly; the list grows with each."""
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("operation", "engine"), sample(itertools.product(OPERATIONS, ENGINES), 10)
)
def test_every_operation_continues_after_signals(
    operation: str, engine: Any, tmp_path: Path
) -> None:
    number = 0
    with oz.configure(engine=engine, threads=4), frequent_signals() as came:
        while len(came) < 20:
            number += 1
            steps = OPERATIONS[operation](tmp_path / str(number))
            finish(steps, next(steps)())


def test_waiting_for_a_lock_of_another_process_continues_after_signals(tmp_path: Path) -> None:
    array = oz.create_array(tmp_path / "x", data=DATA, chunks=DATA.shape)
    code = """
    import sys
    from omnizarr.concurrency.file_locks import locked_files
    with locked_files(sys.argv[1], ["c/0/0"], "chunks"):
        print("locked", flush=True)
        sys.stdin.readline()
    """
    command = [sys.executable, "-c", "\n".join(line[4:] for line in code.splitlines())]
    pipe, order = subprocess.PIPE, list[str]()
    with (
        subprocess.Popen([*command, tmp_path / "x"], stdin=pipe, stdout=pipe, text=True) as other,
        frequent_signals() as came,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        came.clear()

        def release() -> None:
            while len(came) < 200:
                time.sleep(1e-3)
            order.append("released")
            print(file=other.stdin, flush=True)

        threading.Thread(target=release, daemon=True).start()
        array[BOX] = 7
        order.append("written")
    assert order == ["released", "written"]
    assert np.array_equal(array[...], CHANGED)


@pytest.mark.parametrize("engine", sample(ENGINES, 1))
def test_requests_to_servers_continue_after_signals(engine: Any) -> None:
    with simple_storage("bucket") as port, oz.configure(engine=engine), frequent_signals() as came:
        options = s3_options(port)
        array = oz.create_array("s3://bucket/x", data=DATA, chunks=32, storage_options=options)
        array[BOX] = 7
        assert np.array_equal(array[...], CHANGED)
        web = oz.open(f"http://127.0.0.1:{port}/bucket/x")
        assert np.array_equal(web[...], CHANGED)
        web.store.close()
    assert len(came) > 20


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
