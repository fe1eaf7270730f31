"""Processes that are started in every way, by a parent that used the library before or not.

``python -m tests.soak.forks PATH METHOD ACTION STATE REPEATS`` runs in a fresh interpreter: only
so is a parent cold. A warm one goes on reading and writing in threads while it starts processes.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal  # not later: a fork may come during the import

import omnizarr as oz

METHODS = ("fork", "spawn", "forkserver")
ACTIONS = ("read", "write", "pool")
STATES = ("cold", "warm")
SHAPE = (64, 64)
PATIENCE = 60.0  # seconds, after which a process is taken to hang


def run(path: str, method: str, action: str, state: str, repeats: int) -> dict[str, Any]:
    """How many processes were started, hung and failed, and the seconds of the slowest."""
    command = [sys.executable, "-m", "tests.soak.forks", path, method, action, state, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def prepare(path: str) -> None:
    """The array that all use: every element is its place."""
    options: dict[str, Any] = {"shape": SHAPE, "chunks": (8, 8), "shards": (32, 32)}
    oz.create_array(path, dtype="i4", **options)[:] = _expected()


def _expected() -> Any:
    return np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)


def child(path: str, action: str, number: int) -> None:
    array = oz.open(path, mode="r+")
    row = number % SHAPE[0]
    if action == "write":
        array[row] = _expected()[row]
    assert_array_equal(array[:], _expected())


def crop(path: str, number: int) -> bool:
    row = number % (SHAPE[0] - 10)
    return np.array_equal(oz.open(path)[row : row + 10], _expected()[row : row + 10])


@contextmanager
def _busy(path: str) -> Iterator[None]:
    """Threads of this process that read and write until the block ends."""
    stop = threading.Event()
    array = oz.open(path, mode="r+")

    def work() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            array[number % 64, 3:50] = _expected()[number % 64, 3:50]
            assert_array_equal(array[:], _expected())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _start(path: str, method: str, action: str, repeats: int) -> dict[str, Any]:
    context: Any = multiprocessing.get_context(method)
    times, hung, failed = [], 0, 0
    for number in range(repeats):
        begin = time.monotonic()
        if action == "pool":
            with context.Pool(2) as pool:
                asked = pool.starmap_async(crop, [(path, 7 * n) for n in range(20)])
                asked.wait(PATIENCE)
                hung += not asked.ready()
                failed += asked.ready() and not all(asked.get())
        else:
            process = context.Process(target=child, args=(path, action, number))
            process.start()
            process.join(PATIENCE)
            if process.is_alive():
                hung += 1
                process.kill()
                process.join()
            failed += process.exitcode != 0
        times.append(time.monotonic() - begin)
    slowest = round(max(times), 2)
    return {"started": repeats, "hung": hung, "failed": failed, "slowest": slowest}


def main(path: str, method: str, action: str, state: str, repeats: str) -> None:
    if state == "warm":
        with _busy(path):
            found = _start(path, method, action, int(repeats))
    else:
        found = _start(path, method, action, int(repeats))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
