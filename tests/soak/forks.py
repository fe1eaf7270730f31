"""Processes started with every method, by a parent that has used the library or not.

``python -m tests.soak.forks PATH METHOD STATE REPEATS`` runs in a fresh interpreter: only so is a
parent cold. A warm one goes on reading and writing in threads while it starts others.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal  # not later: a fork may come during the import

import omnizarr as oz
from tests.parallel import repeating

EXPECTED = np.arange(64 * 64, dtype="i4").reshape(64, 64)
PAUSE = 0.002  # seconds between two reads of a busy parent, for its children to get on
TIMEOUT = 60.0  # seconds, after which a process is taken to hang


def child(path: str, number: int) -> None:
    array = oz.open(path, mode="r+")
    if number % 2:
        array[number % 64] = EXPECTED[number % 64]
    assert_array_equal(array[:], EXPECTED)


@contextmanager
def _busy(path: str) -> Iterator[None]:
    """Read and write in threads of this process until the block ends."""
    array, numbers = oz.open(path, mode="r+"), itertools.count()

    def work() -> None:
        time.sleep(PAUSE)
        number = next(numbers) % 64
        array[number, 3:50] = EXPECTED[number, 3:50]
        assert_array_equal(array[:], EXPECTED)

    with repeating(work), repeating(work):
        yield


def _process(context: Any, path: str, number: int) -> None:
    process = context.Process(target=child, args=(path, number))
    process.start()
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
    assert process.exitcode == 0, "hung" if process.exitcode is None else "failed"


def _pool(context: Any, path: str) -> None:
    with context.Pool(2) as pool:
        pool.starmap_async(child, [(path, n) for n in range(20)]).get(TIMEOUT)
        pool.close()
        pool.join()


def main(path: str, method: str, state: str, repeats: str) -> None:
    """Start processes and pools; what hangs or fails raises."""
    oz.create_array(path, data=EXPECTED, chunks=(8, 8), shards=(32, 32))
    context = multiprocessing.get_context(method)
    with _busy(path) if state == "warm" else nullcontext():
        for number in range(int(repeats)):
            if number % 3 == 2:
                _pool(context, path)
            else:
                _process(context, path, number)


if __name__ == "__main__":
    main(*sys.argv[1:])
