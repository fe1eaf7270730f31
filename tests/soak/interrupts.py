"""Work interrupted (Ctrl-C) at random moments, in a process that continues afterwards.

``python -m tests.soak.interrupts FOLDER TASK ENGINE CHUNK SIZE COUNT`` runs in an interpreter of
its own. After every interrupt another thread changes and reads what was being worked on, so that a
lock that was left behind is noticed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from omnizarr import ome
from omnizarr.concurrency import limits
from omnizarr.model.paths import OURS
from omnizarr.publish.stage import MARKER  # which a conversion leaves, to be resumed

ENGINES = ("auto", "reference")
CHUNKS = {"64 KiB": 2**16, "4 MiB": 2**22}
SIZE = 2**25  # bytes of an array, by default
PIECES = 4  # in which a writer gets a chunk; those that it has got are stored in the end
LONGEST = 0.3  # seconds until the interrupt comes
TIMEOUT = 60.0  # seconds, after which a thread is taken to wait for ever


@dataclass(frozen=True)
class Workspace:
    """The folder of a task, and the size and number of its chunks."""

    folder: Path
    side: int
    size: int

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def target(self) -> Path:
        return self.folder / "target"

    def noise(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.random.default_rng(0).integers(0, 2**20, self.side, dtype="i4")

    def new(self) -> Path:
        """Return a path where nothing exists."""
        shutil.rmtree(self.target, ignore_errors=True)
        return self.target


def run(
    folder: Path, task: str, engine: str, chunk: str, count: int, size: int = SIZE
) -> dict[str, Any]:
    """Count interrupts and what was wrong afterwards, and time the slowest."""
    folder.mkdir(exist_ok=True)
    words = [str(folder), task, engine, chunk, str(size), str(count)]
    command = [sys.executable, "-m", "tests.soak.interrupts", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"{done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "noise": len(done.stderr.splitlines())}


def _values(workspace: Workspace, value: int) -> Any:
    return np.tile(workspace.noise() + value, workspace.size // workspace.side)


def prepare(workspace: Workspace) -> None:
    array = oz.create_array(
        workspace.source, shape=workspace.size, chunks=workspace.side, dtype="i4"
    )
    array[...] = _values(workspace, 1)


def _whole(workspace: Workspace, parts: int) -> bool:
    """Return True if every part of every chunk has a value that somebody wrote."""
    rows = (
        oz.open(workspace.source)[: workspace.size].reshape(-1, workspace.side) - workspace.noise()
    )
    inner = rows.reshape(-1, workspace.side // parts)[:, 10:-10]
    return bool((inner == inner[:, :1]).all() and (inner > 0).all())


def _read(workspace: Workspace) -> None:
    found = oz.open(workspace.source)[...]
    assert found[20] - workspace.noise()[20] > 0


def _write(workspace: Workspace) -> None:
    oz.open(workspace.source, "r+")[...] = _values(workspace, time.time_ns() % 1000 + 1)


def _parts(workspace: Workspace) -> None:
    array, value = oz.open(workspace.source, "r+"), time.time_ns() % 1000 + 1
    index = np.arange(workspace.size).reshape(-1, workspace.side)[:, 10:-10]
    array.oindex[(index.reshape(-1),)] = _values(workspace, value)[index.reshape(-1)]


def _stream(workspace: Workspace) -> None:
    values = _values(workspace, time.time_ns() % 1000 + 1)
    step = workspace.side // PIECES
    with oz.open(workspace.source, "r+").writer() as writer:
        for start in range(0, len(values), step):
            writer[start : start + step] = values[start : start + step]


def _append(workspace: Workspace) -> None:
    array = oz.open(workspace.source, "r+")
    if len(array) > 4 * workspace.size:
        array.resize(workspace.size, outside="erase")
    array.append(np.tile(workspace.noise() + 2, 16))


def _copy(workspace: Workspace) -> None:
    oz.create_array(workspace.new(), data=oz.open(workspace.source))


def _convert(workspace: Workspace) -> None:
    oz.convert(workspace.source, workspace.new(), zarr_format=2)


def _pyramid(workspace: Workspace) -> None:
    image = oz.open(workspace.source)[: workspace.size // 2].reshape(-1, 2**10)
    ome.write(workspace.new(), image, axes="yx", chunks=(workspace.side // 2**10, 2**10))


def _verify(workspace: Workspace) -> None:
    assert oz.verify(workspace.source).ok


def _attributes(workspace: Workspace) -> None:
    array = oz.open(workspace.source, "r+")
    for value in range(100):
        array.attrs["value"] = value


TASKS: dict[str, Callable[[Workspace], None]] = {
    "read": _read,
    "write": _write,
    "parts": _parts,
    "writer()": _stream,
    "append": _append,
    "copy": _copy,
    "convert": _convert,
    "pyramid": _pyramid,
    "verify": _verify,
    "attributes": _attributes,
}


class _Sender:
    """Send one SIGINT to this process after a while, and record the time."""

    def __init__(self, wait: float) -> None:
        self.sent = 0.0
        self._wait = wait
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        time.sleep(self._wait)
        self.sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)


def _interrupted(work: Callable[[Workspace], None], workspace: Workspace, wait: float) -> float:
    """Return the seconds from an interrupt to its exception."""
    sender = _Sender(wait)
    try:
        while True:
            work(workspace)
    except KeyboardInterrupt:
        return time.monotonic() - sender.sent


def _can_continue(workspace: Workspace) -> bool:
    """Return True if another thread can change the same chunks."""

    def use() -> None:
        array = oz.open(workspace.source, "r+")
        for start in range(0, workspace.size, workspace.side):
            array[start : start + 5] = 7
        array.attrs["other"] = 1
        assert (array[:5] == 7).all()

    other = threading.Thread(target=use, daemon=True)
    other.start()
    other.join(TIMEOUT)
    return not other.is_alive()


def main(folder: str, task: str, engine: str, chunk: str, size: str, count: str) -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    oz.config.set(engine=engine, threads=4)
    workspace, chance = (
        Workspace(Path(folder), CHUNKS[chunk] // 4, int(size) // 4),
        random.Random(count),
    )
    prepare(workspace)
    TASKS[task](workspace)  # all is imported
    times, torn, stuck = [], 0, 0
    for _ in range(int(count)):
        times.append(_interrupted(TASKS[task], workspace, chance.uniform(0.02, LONGEST)))
        stuck += not _can_continue(workspace)
        torn += not _whole(workspace, PIECES if task == "writer()" else 1)
    names = (name for _, _, names in os.walk(workspace.folder) for name in names)
    left = sum(OURS in name and name != MARKER for name in names)
    found = {"interrupts": len(times), "slowest": round(max(times), 2), "torn": torn}
    print(json.dumps({**found, "stuck": stuck, "left": left, "busy": limits._used.threads}))


if __name__ == "__main__":
    main(*sys.argv[1:])
