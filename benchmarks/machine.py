"""The machine that the benchmark runs on, and the CPU time that other programs use."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path


def processor() -> str:
    """Return the model name of the CPU, if the system provides it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def used_by_all() -> tuple[float, float] | None:
    """Return busy CPU seconds (including those stolen by the host) and total CPU seconds.

    None if the system does not report them.
    """
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, idle, waiting, *rest = (int(n) / os.sysconf("SC_CLK_TCK") for n in first)
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + waiting


def used_by_us() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    return sum(os.times()[:4])


@dataclass(frozen=True)
class Watch:
    """Measure the CPU time that other programs use from now on."""

    ours: float = field(default_factory=used_by_us)
    all: tuple[float, float] | None = field(default_factory=used_by_all)

    def others(self) -> float | None:
        """Return the share of all CPU time that other programs used, 0 to 1."""
        now = used_by_all()
        if self.all is None or now is None or now[1] <= self.all[1]:
            return None
        foreign = now[0] - self.all[0] - (used_by_us() - self.ours)
        return max(0.0, foreign / (now[1] - self.all[1]))

    def text(self) -> str:
        """Return a sentence or two for the page."""
        share = self.others()
        if share is None:
            return "The CPU time of other programs is not known."
        text = f"Other programs used {share:.0%} of the CPU time."
        if share > 0.1:
            text += (
                " Single times vary by a factor of two or more from run to run, so targets may be"
                " met or missed by chance."
            )
        return text
