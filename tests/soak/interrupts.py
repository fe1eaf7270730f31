"""Work interrupted (Ctrl-C) at random moments, in a process that continues afterwards.

``python -m tests.soak.interrupts FOLDER TASK ENGINE COUNT`` runs in an interpreter of its own.
After every interrupt another thread changes and reads what was being worked on, so that a lock that
was left behind is noticed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr import ome
from omnizarr.concurrency import pool
from omnizarr.model.paths import OURS
from omnizarr.publish.stage import MARKER  # which a conversion leaves, to be resumed

SIDE, SIZE = 2**14, 2**21  # elements of a chunk, and of the array
NOISE = np.random.default_rng(0).integers(0, 2**20, SIDE, dtype="i4")
PIECES = 4  # in which a writer gets a chunk; those that it has got are stored in the end
LONGEST = 0.3  # seconds until the interrupt comes
PROMPT = 20.0  # seconds; a fortieth of it where the machine is not busy with other tests
TIMEOUT = 60.0  # seconds, after which a thread is taken to wait for ever


def _new_values() -> Any:
    return np.tile(NOISE + time.time_ns() % 1000 + 1, SIZE // SIDE)


def _new(source: Path) -> Path:
    """Return a path where nothing exists."""
    shutil.rmtree(source.with_name("target"), ignore_errors=True)
    return source.with_name("target")


def _write(source: Path) -> None:
    oz.open(source, "r+")[...] = _new_values()


def _write_parts(source: Path) -> None:
    index = np.arange(SIZE).reshape(-1, SIDE)[:, 10:-10].reshape(-1)
    oz.open(source, "r+").oindex[(index,)] = _new_values()[index]


def _stream(source: Path) -> None:
    values, step = _new_values(), SIDE // PIECES
    with oz.open(source, "r+").writer() as writer:
        for start in range(0, SIZE, step):
            writer[start : start + step] = values[start : start + step]


def _append(source: Path) -> None:
    array = oz.open(source, "r+")
    if len(array) > 4 * SIZE:
        array.resize(SIZE, outside="erase")
    array.append(np.tile(NOISE + 2, 16))


def _pyramid(source: Path) -> None:
    image = oz.open(source)[: SIZE // 2].reshape(-1, 2**10)
    ome.write(_new(source), image, axes="yx", chunks=(SIDE // 2**10, 2**10))


def _attributes(source: Path) -> None:
    array = oz.open(source, "r+")
    for value in range(100):
        array.attrs["value"] = value


TASKS: dict[str, Callable[[Path], object]] = {
    "read": lambda source: oz.open(source)[...],
    "write": _write,
    "parts": _write_parts,
    "writer()": _stream,
    "append": _append,
    "copy": lambda source: oz.create_array(_new(source), data=oz.open(source)),
    "convert": lambda source: oz.convert(source, _new(source), zarr_format=2),
    "pyramid": _pyramid,
    "verify": lambda source: oz.verify(source),
    "attributes": _attributes,
}


def _interrupt(work: Callable[[Path], object], source: Path, wait: float) -> None:
    """Interrupt work that is repeated; the exception must come soon."""
    sent = 0.0

    def send() -> None:
        nonlocal sent
        time.sleep(wait)
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    try:
        while True:
            work(source)
    except KeyboardInterrupt:
        assert time.monotonic() - sent < PROMPT


def _change_all_chunks(source: Path) -> None:
    array = oz.open(source, "r+")
    for start in range(0, SIZE, SIDE):
        array[start : start + 5] = 7
    array.attrs["other"] = 1
    assert (array[:5] == 7).all()


def main(folder: str, task: str, engine: str, count: str) -> None:
    """Interrupt a task some times; whatever is wrong raises."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    oz.config.set(engine=engine, threads=4)
    source, chance = Path(folder) / "source", random.Random(f"{folder} {task}")
    oz.create_array(source, data=_new_values(), chunks=SIDE)
    TASKS[task](source)  # all is imported
    parts = PIECES if task == "writer()" else 1
    for _ in range(int(count)):
        _interrupt(TASKS[task], source, chance.uniform(0.02, LONGEST))
        other = threading.Thread(target=_change_all_chunks, args=(source,), daemon=True)
        other.start()
        other.join(TIMEOUT)
        assert not other.is_alive(), "a lock was left behind"
        rows = oz.open(source)[:SIZE].reshape(-1, SIDE) - NOISE
        inner = rows.reshape(-1, SIDE // parts)[:, 10:-10]
        assert (inner == inner[:, :1]).all(), "a chunk is neither old nor new"
        assert (inner > 0).all(), "a chunk has values that nobody wrote"
    assert pool._used.threads == 0, "threads are still counted as busy"
    names = (name for _, _, names in os.walk(folder) for name in names)
    # Between creating and recording a file, an interrupt leaves it to `repair`.
    assert sum(OURS in name and name != MARKER for name in names) <= int(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
