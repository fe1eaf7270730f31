"""What the machine grants this process: processors and memory, cgroup limits honoured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def processors(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """How many processors this process may use: by affinity and by quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    for folder in _groups("cpu", root, membership):
        newer = _numbers(folder / "cpu.max", 2)
        older = (
            *_numbers(folder / "cpu.cfs_quota_us", 1),
            *_numbers(folder / "cpu.cfs_period_us", 1),
        )
        for found in (newer, older):
            if len(found) == 2 and min(found) > 0:
                count = min(count, max(1, found[0] // found[1]))
    return count


def memory(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """How many bytes of memory this process may use, or None where nothing says so."""
    found = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for folder in _groups("memory", root, membership):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            found += _numbers(folder / name, 1)
    return min((n for n in found if n > 0), default=None)


def _groups(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The directories whose limits hold: of this process's groups and of those above them."""
    inside = {root: "", root / controller: ""}  # version 2, or what a container shows; version 1
    try:
        for line in membership.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if not names:
                inside[root] = path
            elif controller in names.split(","):
                inside[root / controller] = path
    except (OSError, ValueError):
        pass  # not Linux, or not to be read
    for top, path in inside.items():
        folder = top
        yield folder
        for name in path.split("/"):
            if name not in ("", ".", ".."):
                folder = folder / name
                yield folder


def _numbers(file: Path, count: int) -> tuple[int, ...]:
    """The numbers in a file; nothing where it is missing or says that there is no limit."""
    try:
        found = tuple(int(word) for word in file.read_text().split())
    except (OSError, ValueError):
        return ()
    return found if len(found) == count else ()
