"""Settings: frozen, changed for a while with ``with configure(...)``, or for good.

>>> import omnizarr
>>> with omnizarr.configure(v1_order="writer"):
...     ...
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from omnizarr import limits
from omnizarr.errors import InvalidMetadata

MAX_THREADS = 16
IN_FLIGHT = 2**25
_BYTES = re.compile(r"\s*([\d.]+)\s*([kMGT]?)(i?)B\s*", re.IGNORECASE)


def byte_size(size: int | str, what: str) -> int:
    """Bytes in ``"100MB"``, ``"1 MiB"``, ``"512kB"`` or in a number; errors name `what`."""
    if type(size) is int and size >= 0:
        return size
    match = _BYTES.fullmatch(size) if isinstance(size, str) else None
    try:
        number = float(match[1]) if match else 0.0
    except ValueError:
        number = 0.0
    if match is None or number <= 0:
        raise InvalidMetadata(f"{what}: {size!r} is not a size such as '1MB' or '512 KiB'")
    power = " kmgt".index(match[2].lower() or " ")
    return max(1, int(number * (1024 if match[3] else 1000) ** power))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ByteBudget:
    """How many bytes something may hold; what it holds goes when the setting ends."""

    nbytes: int


def _threads() -> int:
    return max(1, min(MAX_THREADS, limits.processors()))


def _in_flight() -> int:
    granted = limits.memory()
    return IN_FLIGHT if granted is None else max(2**20, min(IN_FLIGHT, granted // 16))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings and their defaults."""

    # How many threads all reads and writes of this process may use together: as many as it has
    # processors. Threads that call the library count, and are never made to wait.
    threads: int = field(default_factory=_threads)
    # How many bytes fetched ahead of their decoding may be in memory, for all reads together.
    in_flight: int = field(default_factory=_in_flight)
    # Decoded chunks, and the indexes of shards, that are kept in memory for the next read.
    chunk_cache: ByteBudget | None = None
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
    for name, value in tuple(changes.items()):
        if name not in known:
            raise InvalidMetadata(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        if name in _ALLOWED and value not in _ALLOWED[name]:
            raise InvalidMetadata(f"{name} must be one of {_ALLOWED[name]}, got {value!r}")
        if name == "threads" and (type(value) is not int or value < 1):
            raise InvalidMetadata(f"threads must be an integer of at least 1, got {value!r}")
        if name == "in_flight":
            changes[name] = max(1, byte_size(value, name))
        if name == "chunk_cache" and not isinstance(value, ByteBudget):
            nbytes = 0 if value is None else byte_size(value, name)
            changes[name] = ByteBudget(nbytes) if nbytes else None
    settings = dataclasses.replace(get(), **changes)
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)


def inherit(settings: Config) -> None:
    """Use `settings` in this thread; for worker threads."""
    _current.set(settings)
