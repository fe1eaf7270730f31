"""Time, CPU time and peak memory of one action, measured in a process of its own.

A benchmark script calls `start` for each measurement, which starts the script again with
``--child``; that process calls `measure` and prints what it found for the one that started it.
Memory is read from ``/proc``, so this works on Linux only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """What an action took."""

    seconds: float
    cpu: float  # seconds, of all threads; other programs on the machine affect it less
    before: float  # MiB of memory in use before the action: interpreter and libraries
    peak: float  # MiB of memory in use at most, with those before

    @property
    def extra(self) -> float:
        """The peak memory beyond what was in use before, in MiB."""
        return self.peak - self.before


def memory(field: str) -> int:
    """Return a field of this process's status in bytes: VmRSS, VmHWM …"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def reset_peak() -> int:
    """Return the bytes of memory in use, which become the peak."""
    # Not getrusage: its peak is inherited from the parent process.
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def measure(action: Callable[[], object]) -> None:
    """Run an action once in this process, and print what it took for `start`.

    Modules that it imports on first use should be loaded before, by a tiny action of its kind.
    """
    before = reset_peak()
    started, worked = time.perf_counter(), time.process_time()
    action()
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    print(json.dumps(Run(seconds, cpu, before / 2**20, memory("VmHWM") / 2**20)))


def start(
    script: str, name: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> Run | None:
    """Run ``python -m script --child name arguments…``, and return what it measured.

    If it failed, print the last line that it wrote to standard error, and return None.
    """
    command = [sys.executable, "-m", script, "--child", name, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        print(f"{name}: {lines[-1]}")
        return None
    return Run(*json.loads(done.stdout.splitlines()[-1]))


def best(runs: Sequence[Run]) -> Run:
    """Return the least times, and the largest memory."""
    seconds, cpu, before, peak = zip(*runs, strict=True)
    return Run(min(seconds), min(cpu), max(before), max(peak))
