"""Settings: frozen, changed for a while with ``with configure(...)``, or for good.

>>> import omnizarr
>>> with omnizarr.configure(v1_order="writer"):
...     ...
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omnizarr.errors import InvalidMetadata

MAX_THREADS = 16


def processors(limits: str = "/sys/fs/cgroup/cpu.max") -> int:
    """How many processors this process may use; affinity and cgroup limits are honoured."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = Path(limits).read_text().split()
        count = min(count, max(1, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no such limit
    return max(1, min(MAX_THREADS, count))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings and their defaults."""

    # How many threads one read or write may use: as many as this process has processors.
    threads: int = field(default_factory=lambda: processors())
    # Which engine runs: the compiled kernel where it knows an array's layout, or never.
    engine: Literal["auto", "reference"] = (
        "reference" if os.environ.get("OMNIZARR_ENGINE") == "reference" else "auto"
    )
    # What to do where only a fallback of an unknown data type (v3 draft) is known.
    fallback: Literal["warn", "use", "refuse"] = "warn"
    # Version 1, order F: "text" follows the specification; "writer" follows zarr 1.1.0, which
    # stored C-order bytes except with Blosc.
    v1_order: Literal["text", "writer"] = "text"
    # Whether chunks that hold nothing but the fill value are stored.
    write_empty_chunks: bool = False
    # The draft: whether creating a node also gives documents to the groups above it, which
    # exist without.
    explicit_groups: bool = False


_ALLOWED = {
    "engine": ("auto", "reference"),
    "fallback": ("warn", "use", "refuse"),
    "v1_order": ("text", "writer"),
}
_default = Config()
_current: ContextVar[Config | None] = ContextVar("omnizarr_config", default=None)


def get() -> Config:
    """The settings in force here."""
    return _current.get() or _default


@contextmanager
def configure(**changes: Any) -> Iterator[Config]:
    """Change settings inside a ``with`` block (in this thread or task only)."""
    known = {f.name for f in dataclasses.fields(Config)}
    for name, value in changes.items():
        if name not in known:
            raise InvalidMetadata(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        if name in _ALLOWED and value not in _ALLOWED[name]:
            raise InvalidMetadata(f"{name} must be one of {_ALLOWED[name]}, got {value!r}")
        if name == "threads" and (type(value) is not int or value < 1):
            raise InvalidMetadata(f"threads must be an integer of at least 1, got {value!r}")
    settings = dataclasses.replace(get(), **changes)
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)


def inherit(settings: Config) -> None:
    """Use `settings` in this thread; for worker threads."""
    _current.set(settings)
