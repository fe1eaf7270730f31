"""Processes started with every method, by a parent that has used the library or not.

``python -m tests.soak.forks PATH METHOD ACTION STATE REPEATS AT_ONCE`` runs in a fresh interpreter:
only so is a parent cold. A warm one goes on reading and writing in threads while it starts others.
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
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal  # not later: a fork may come during the import

import omnizarr as oz

METHODS = ("fork", "spawn", "forkserver")
ACTIONS = ("read", "write", "pool")
STATES = ("cold", "warm")
SHAPE = (64, 64)
PAUSE = 0.002  # seconds between two reads of a busy parent, for its children to get on
TIMEOUT = 60.0  # seconds, after which a process is taken to hang


def run(
    path: str, method: str, action: str, state: str, repeats: int, at_once: int = 1
) -> dict[str, Any]:
    """Count processes that were started, hung and failed, and time the slowest."""
    command = [sys.executable, "-m", "tests.soak.forks", path, method, action, state]
    numbers = [str(repeats), str(at_once)]
    done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def prepare(path: str) -> None:
    """Create the array that all use; every element is its own index."""
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
    """Read and write in threads of this process until the block ends."""
    stop = threading.Event()
    array = oz.open(path, mode="r+")

    def work() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            time.sleep(PAUSE)
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


class _Process:
    """Start one process that reads or writes."""

    def __init__(self, context: Any, path: str, action: str, number: int) -> None:
        self.began = time.monotonic()
        self._process = context.Process(target=child, args=(path, action, number))
        self._process.start()

    def done(self) -> bool:
        return not self._process.is_alive()

    def good(self) -> bool:
        return bool(self._process.exitcode == 0)

    def end(self) -> None:
        self._process.kill()
        self._process.join()


class _Pool:
    """Start a pool of two processes that read crops."""

    def __init__(self, context: Any, path: str, action: str, number: int) -> None:
        self.began = time.monotonic()
        self._pool = context.Pool(2)
        self._asked = self._pool.starmap_async(crop, [(path, 7 * n) for n in range(20)])

    def done(self) -> bool:
        return bool(self._asked.ready())

    def good(self) -> bool:
        return all(self._asked.get())

    def end(self) -> None:
        self._pool.terminate()
        self._pool.join()


def _start(path: str, method: str, action: str, repeats: int, at_once: int) -> dict[str, Any]:
    context: Any = multiprocessing.get_context(method)
    kind: type[_Process | _Pool] = _Pool if action == "pool" else _Process
    running: list[_Process | _Pool] = []
    number, hung, failed, slowest = 0, 0, 0, 0.0
    while number < repeats or running:
        while number < repeats and len(running) < at_once:
            running.append(kind(context, path, action, number))
            number += 1
        time.sleep(0.002)
        now = time.monotonic()
        for one in [r for r in running if r.done() or now - r.began > TIMEOUT]:
            slowest = max(slowest, now - one.began)
            if one.done():
                failed += not one.good()
            else:
                hung += 1
            one.end()
            running.remove(one)
    return {"started": repeats, "hung": hung, "failed": failed, "slowest": round(slowest, 2)}


def main(path: str, method: str, action: str, state: str, repeats: str, at_once: str) -> None:
    with _busy(path) if state == "warm" else nullcontext():
        found = _start(path, method, action, int(repeats), int(at_once))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
