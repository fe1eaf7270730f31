"""What the benchmark runs on, and how much of it others used meanwhile."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path


def processor() -> str:
    """The name of the processor, as far as the system says it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def used_by_all() -> tuple[float, float] | None:
    """Seconds that all processors were busy or taken by the host, and all seconds, since start.

    None where the system does not tell.
    """
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, idle, waiting, *rest = (int(n) / os.sysconf("SC_CLK_TCK") for n in first)
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + waiting


def used_by_us() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


@dataclass(frozen=True)
class Watch:
    """From now on: how much of the processors' time others take."""

    ours: float = field(default_factory=used_by_us)
    all: tuple[float, float] | None = field(default_factory=used_by_all)

    def others(self) -> float | None:
        """Their share of all processors' time so far, 0 to 1."""
        now = used_by_all()
        if self.all is None or now is None or now[1] <= self.all[1]:
            return None
        foreign = now[0] - self.all[0] - (used_by_us() - self.ours)
        return max(0.0, foreign / (now[1] - self.all[1]))

    def text(self) -> str:
        """A sentence or two for the page."""
        share = self.others()
        if share is None:
            return "How much of it other programs used is not known."
        text = f"Other programs had {share:.0%} of the processors' time."
        if share > 0.1:
            text += (
                " Single times vary by a factor of two or more from run to run, and verdicts with"
                " them."
            )
        return text
