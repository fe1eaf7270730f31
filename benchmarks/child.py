"""Measurements that need a separate process: imports, peak memory, other core counts."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers, runs
from benchmarks.harness import Cannot, Measured, WrongResult, describe
from benchmarks.layouts import Layout
from benchmarks.trials import same

REPEATS = 3


def measured(
    task: str,
    name: str,
    layout: Layout | None = None,
    path: Path | None = None,
    values: Path | None = None,
    cores: int = 0,
) -> Measured:
    """Run a task in a child process; raise `Cannot` with the reason if it fails."""
    job = {
        "task": task,
        "name": name,
        "layout": layout and dataclasses.asdict(layout),
        "path": path and os.fspath(path),
        "values": values and os.fspath(values),
        "cores": cores,
    }
    command = [sys.executable, "-m", "benchmarks.child", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise Cannot(f"the process exited with {done.returncode}: {done.stderr.strip()[-80:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "reason" in answer:
        raise Cannot(answer["reason"])
    return Measured(answer["value"])


def import_time(name: str) -> Measured:
    """Measure the import in a process that has imported only NumPy."""
    [library] = [each for each in peers.LIBRARIES if each.name == name]
    modules = [library.package, getattr(library, "path", "").rpartition(".")[0]]
    imports = "; ".join(f"import {module}" for module in modules if module)
    code = f"import time, numpy; s = time.perf_counter(); {imports}; print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Cannot(done.stderr.strip().splitlines()[-1])
    return Measured(float(done.stdout))


def processor_time(command: list[str]) -> Measured:
    """Measure the processor time, of the program and the system, that a command takes."""
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    children = after.children_user + after.children_system
    return Measured(children - before.children_user - before.children_system)


def _job(job: dict[str, Any]) -> float:
    fields: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in job["layout"].items()
    }
    layout = Layout(**fields)
    peer = peers.load(job["name"])
    data = np.load(job["values"])
    task = {"read": _read, "write": _write, "time": _time}[job["task"]]
    with peer.active():
        return task(peer, Path(job["path"]), layout, data)


def _read(peer: peers.Peer, path: Path, layout: Layout, data: Any) -> float:
    array = peer.open(path, layout)
    peer.read(array, (slice(0, 1),) * 3)
    before = _start_peak()
    result = peer.read(array)
    extra = runs.memory("VmHWM") - before - float(data.nbytes)
    if not same(result, data):
        raise WrongResult("the values read are not those written")
    return max(0.0, extra)


def _write(peer: peers.Peer, path: Path, layout: Layout, data: Any) -> float:
    array = peer.open(path, layout, writable=True)
    before = _start_peak()
    peer.write(array, ..., data)
    return max(0.0, runs.memory("VmHWM") - before)


def _time(peer: peers.Peer, path: Path, layout: Layout, data: Any) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        array = peer.open(path, layout)
        started = time.perf_counter()
        result = peer.read(array)
        best = min(best, time.perf_counter() - started)
        if not same(result, data):
            raise WrongResult("the values read are not those written")
    return best


def _start_peak() -> int:
    """Return the memory in use, which becomes the peak."""
    try:
        return runs.reset_peak()
    except OSError as e:
        raise Cannot(f"peak memory cannot be measured here: {e.strerror}") from e


def main() -> None:
    """Run one job from the command line; print its result as the last line."""
    job = json.loads(sys.argv[1])
    if job["cores"]:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job["cores"]])
    try:
        answer: dict[str, Any] = {"value": _job(job)}
    except Exception as e:
        answer = {"reason": describe(e)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
