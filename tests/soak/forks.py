"""Processes started with every method, by a parent that has used the library or not.

``python -m tests.soak.forks PATH METHOD STATE REPEATS`` runs in a fresh interpreter: only so is a
parent cold. A warm one goes on reading and writing in threads while it starts others.
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
STATES = ("cold", "warm")
SHAPE = (64, 64)
EXPECTED = np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
PAUSE = 0.002  # seconds between two reads of a busy parent, for its children to get on
TIMEOUT = 60.0  # seconds, after which a process is taken to hang


def run(path: str, method: str, state: str, repeats: int) -> dict[str, Any]:
    """Count processes and pools that were started, hung and failed, and time the slowest."""
    command = [sys.executable, "-m", "tests.soak.forks", path, method, state, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def prepare(path: str) -> None:
    """Create the array that all use; every element is its own index."""
    options: dict[str, Any] = {"shape": SHAPE, "chunks": (8, 8), "shards": (32, 32)}
    oz.create_array(path, dtype="i4", **options)[:] = EXPECTED


def child(path: str, number: int) -> None:
    array = oz.open(path, mode="r+")
    if number % 2:
        array[number % SHAPE[0]] = EXPECTED[number % SHAPE[0]]
    assert_array_equal(array[:], EXPECTED)


@contextmanager
def _busy(path: str) -> Iterator[None]:
    """Read and write in threads of this process until the block ends."""
    stop = threading.Event()
    array = oz.open(path, mode="r+")

    def work() -> None:
        for number in itertools.count():
            if stop.wait(PAUSE):
                return
            array[number % 64, 3:50] = EXPECTED[number % 64, 3:50]
            assert_array_equal(array[:], EXPECTED)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _process(context: Any, path: str, number: int) -> str:
    process = context.Process(target=child, args=(path, number))
    process.start()
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
        return "hung"
    return "failed" if process.exitcode else ""


def _pool(context: Any, path: str, number: int) -> str:
    with context.Pool(2) as pool:
        try:
            pool.starmap_async(child, [(path, n) for n in range(20)]).get(TIMEOUT)
        except multiprocessing.TimeoutError:
            return "hung"
        except Exception:
            return "failed"
    return ""


def main(path: str, method: str, state: str, repeats: str) -> None:
    context = multiprocessing.get_context(method)
    times, ends = [], []
    with _busy(path) if state == "warm" else nullcontext():
        for number in range(int(repeats)):
            began = time.monotonic()
            ends.append((_pool if number % 3 == 2 else _process)(context, path, number))
            times.append(time.monotonic() - began)
    counts = {word: ends.count(word) for word in ("hung", "failed")}
    print(json.dumps({"started": len(ends), **counts, "slowest": round(max(times), 2)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
