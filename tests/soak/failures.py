"""The same failures for several libraries: killed writers, forks after use, failing files.

``python -m tests.soak.failures LIBRARY FOLDER FAILURE COUNT`` runs in its own interpreter and
prints the counts. All libraries work on one array ``x`` of uncompressed chunks in a directory.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz
from tests.soak import peers

SIDE = 2**18  # elements of a chunk, 1 MiB
LONGEST = 0.05  # seconds until a writer is killed
TIMEOUT = 30.0  # seconds, after which a child is taken to hang
NOBODY = 65534


def run(library: str, folder: Path, failure: str, count: int) -> dict[str, int]:
    """Count attempts, and each kind of failure."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.soak.failures", library, str(folder), failure]
    done = subprocess.run([*command, str(count)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{library} {failure}: {done.stderr}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def can(library: str, failure: str) -> bool:
    return peers.can(library, "append" if failure == "killed append" else "chunk")


def _child(work: Callable[[], object], report_to: int | None = None) -> int:
    """Fork a process that works in a loop and reports its first success."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            while True:
                work()
                code = 0
                if report_to is None:
                    break
                os.write(report_to, b"!")
        finally:
            os._exit(code)
    return child


def _ended(child: int, timeout: float) -> int | None:
    """Return the exit status of a child; kill it and return None if it hangs."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _killed(work: Callable[[], object], wait: float) -> None:
    reading, writing = os.pipe()
    child = _child(work, writing)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], TIMEOUT)
    if not ready or not os.read(reading, 1):
        raise RuntimeError("a writer does not begin")
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)


def killed_write(library: str, folder: str, count: int) -> dict[str, int]:
    """Count chunks that are unreadable or torn after their writer was killed."""
    oz.create_array(folder, path="x", shape=4 * SIDE, chunks=SIDE, dtype="i4", compressors=None)
    oz.open(folder, "r+", path="x")[...] = 1
    torn = 0
    for number in range(count):
        chance, opened = random.Random(number), list[Any]()

        def work(opened: list[Any] = opened) -> None:
            if not opened:
                opened.append(peers.opened(library, folder))
            opened[0][:] = np.full(4 * SIDE, time.time_ns() % 10**6 + 1, "i4")

        _killed(work, chance.uniform(0, LONGEST))
        for chunk in range(4):
            try:
                found = oz.open(folder, path="x")[chunk * SIDE : (chunk + 1) * SIDE]
                torn += not bool((found == found[0]).all() and found[0] > 0)
            except oz.OmnizarrError:
                torn += 1
        oz.open(folder, "r+", path="x")[...] = 1
    return {"tried": 4 * count, "torn": torn}


def killed_append(library: str, folder: str, count: int) -> dict[str, int]:
    """Count shapes that include unwritten elements after a writer was killed."""
    ahead = unreadable = 0
    for number in range(count):
        shutil.rmtree(Path(folder) / "x", ignore_errors=True)
        options: dict[str, Any] = {"shape": 0, "chunks": 5000, "fill_value": -1, "dtype": "i4"}
        oz.create_array(folder, path="x", compressors=None, **options)
        opened = list[Any]()

        def work(opened: list[Any] = opened) -> None:
            if not opened:
                opened.append(peers.opened(library, folder))
            length = len(opened[0])
            opened[0].append(np.arange(length, length + 77_777, dtype="i4"))

        _killed(work, random.Random(number).uniform(0, LONGEST))
        try:
            found = oz.open(folder, path="x")[...]
            ahead += not np.array_equal(found, np.arange(len(found)))
        except oz.OmnizarrError:
            unreadable += 1
    return {"tried": count, "torn": ahead + unreadable}


def fork_after_use(library: str, folder: str, count: int) -> dict[str, int]:
    """Count child processes that hang after their parent has read and written."""
    oz.create_array(folder, path="x", shape=4 * SIDE, chunks=SIDE, dtype="i4", compressors=None)
    array = peers.opened(library, folder)
    array[:] = np.ones(4 * SIDE, "i4")
    hung = failed = 0

    def work() -> None:
        if not (array[:] == 1).all():
            raise ValueError("not what was written")

    work()
    for _ in range(count):
        status = _ended(_child(work), TIMEOUT)
        hung += status is None
        failed += status not in (None, 0)
        if hung == 3:  # each takes long
            return {"tried": _ + 1, "hung": hung, "failed": failed}
    return {"tried": count, "hung": hung, "failed": failed}


def _nothing(path: Path) -> None:
    """Leave the file as it is; it must be read."""


def _forbid(path: Path) -> None:
    path.chmod(0)


def _forbid_folder(path: Path) -> None:
    path.parent.chmod(0)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


FILE_FAILURES = (_forbid, _forbid_folder, _loop, _cut, _empty)


def failing_file(library: str, folder: str, count: int) -> dict[str, int]:
    """Count reads of a failing file that return values nevertheless."""
    wrong = 0
    peers.load(library)
    Path(folder).chmod(0o755)
    for fail in (_nothing, *FILE_FAILURES):
        shutil.rmtree(Path(folder) / "x", ignore_errors=True)
        oz.create_array(folder, path="x", shape=8, chunks=4, dtype="i4", compressors=None)
        oz.open(folder, "r+", path="x")[...] = 7
        for path in (Path(folder) / "x").rglob("*"):
            path.chmod(0o777 if path.is_dir() else 0o666)
        fail(Path(folder) / "x/c/1")

        def work() -> None:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            peers.opened(library, folder)[:]

        read = _ended(_child(work), TIMEOUT) == 0
        (Path(folder) / "x/c").chmod(0o777)
        wrong += read and fail is not _nothing
        if not read and fail is _nothing:
            raise RuntimeError("the library cannot read at all")
    return {"tried": len(FILE_FAILURES), "wrong values": wrong}


FAILURES: dict[str, Callable[[str, str, int], dict[str, int]]] = {
    "killed write": killed_write,
    "killed append": killed_append,
    "fork after use": fork_after_use,
    "failing file": failing_file,
}


def main(library: str, folder: str, failure: str, count: str) -> None:
    if library in ("zarr-python", "zarrs"):
        __import__("zarr")  # once, not in every child
    elif library == "tensorstore":
        __import__("tensorstore")
    print(json.dumps(FAILURES[failure](library, folder, int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
