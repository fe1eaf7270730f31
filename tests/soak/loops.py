"""Running event loops: blocking calls, concurrent awaitables, and cancelled ones.

``python -m tests.soak.loops FOLDER LOOP TASK ROUNDS`` runs in an interpreter of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import trio

import omnizarr as oz
from omnizarr import aio
from omnizarr.concurrency import limits
from tests.test_aio import LOOPS

DATA = np.arange(64 * 64, dtype="i4").reshape(64, 64)
PART = (slice(3, 40), slice(5, 50))
TIMEOUT = 60.0  # seconds, after which a round is taken to hang
chance = random.Random(1)


def use(store: Any) -> None:
    """Create, write, read and change with blocking calls."""
    group = oz.create_group(store, overwrite=True)
    array = group.create_array("x", data=DATA, chunks=(16, 16))
    array[PART] = DATA[PART]
    array.append(DATA[:3])
    array.attrs["k"] = 1
    again = oz.open(store)
    assert np.array_equal(again["x"][:64], DATA)
    assert again["x"].attrs["k"] == 1
    assert [name for name, _ in again.members()] == ["x"]


async def _blocking(location: Path) -> None:
    use(location / "blocking")


async def _awaited(location: Path) -> None:
    """Write, change and read eight arrays at the same time."""

    async def one(number: int) -> None:
        array = await aio.create_array(
            location / f"awaited {number}", data=DATA, chunks=(16, 16), overwrite=True
        )
        await array.setitem(PART, number)
        found = await array.getitem(...)
        expected = DATA.copy()
        expected[PART] = number
        assert np.array_equal(found, expected)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)


async def _cancelled(location: Path) -> None:
    """Cancel reads and writes; every chunk must have a value that somebody wrote."""
    path = location / "cancelled"
    if not path.exists():
        oz.create_array(path, shape=(64, 64), chunks=(16, 16), dtype="i4")[...] = 1
    array = await aio.open(path, "r+")
    with anyio.move_on_after(chance.uniform(0, 0.01)):
        async with anyio.create_task_group() as group:
            group.start_soon(array.setitem, ..., chance.randrange(1, 1000))
            group.start_soon(array.getitem, ...)
    found = (await array.getitem(...)).reshape(4, 16, 4, 16).swapaxes(1, 2)
    assert (found == found[:, :, :1, :1]).all()
    assert (found > 0).all()


async def _nested(location: Path) -> None:
    """Run other loops in threads of this one."""

    async def inner() -> int:
        array = await aio.create_array(None, data=DATA, chunks=(16, 16))
        return int((await array.getitem(...)).sum())

    def another() -> int:
        return asyncio.run(inner()) + trio.run(inner)

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(another())) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert await inner() + await aio.run(another) == 3 * DATA.sum()
    for thread in threads:
        thread.join()
    assert found == [2 * DATA.sum()] * 2


TASKS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "blocking calls": _blocking,
    "eight at once": _awaited,
    "cancelled": _cancelled,
    "loops in threads": _nested,
}


def run(folder: Path, loop: str, task: str, rounds: int) -> dict[str, Any]:
    """Count rounds and busy threads, and time the slowest round."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [str(folder), loop, task, str(rounds)]
    command = [sys.executable, "-m", "tests.soak.loops", *words]
    limit = TIMEOUT + rounds * 5
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    if done.returncode:
        raise RuntimeError(f"{loop}, {task}: {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "noise": len(done.stderr.splitlines())}


def main(folder: str, loop: str, task: str, rounds: str) -> None:
    warnings.simplefilter("ignore")
    oz.config.set(threads=4)
    times: list[float] = []

    async def all_rounds() -> None:
        for number in range(int(rounds)):
            oz.config.set(engine="reference" if number % 2 else "auto")
            start = time.monotonic()
            await TASKS[task](Path(folder))
            times.append(time.monotonic() - start)

    LOOPS[loop](all_rounds)
    end = time.monotonic() + TIMEOUT
    while limits._used.threads and time.monotonic() < end:
        time.sleep(0.01)  # what was cancelled ends behind the caller's back
    busy = limits._used.threads
    print(json.dumps({"rounds": len(times), "slowest": round(max(times), 2), "busy": busy}))


if __name__ == "__main__":
    main(*sys.argv[1:])
