"""Counts of what reads and writes cost, and log messages about what is slow or tried again.

Stores that talk to servers count their requests, and the engine counts chunks. The counters belong
to the settings, which the threads of a call share with their caller: nothing else is counted, and
where no trace is on, nothing is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from threading import get_ident
from typing import Any, TypeVar

from omnizarr import config, registry
from omnizarr.config import Config
from omnizarr.errors import log

T = TypeVar("T")
MAX_SETTINGS = 1000  # that a trace remembers
SLOW = 5.0  # seconds of a request, after which it is logged


@dataclass(slots=True)
class Costs:
    """The costs of reads and writes; seconds are summed over all threads."""

    requests: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    request_seconds: float = 0.0
    retries: int = 0
    retry_seconds: float = 0.0  # of waits before them
    lock_waits: int = 0
    lock_seconds: float = 0.0
    chunks_read: int = 0  # or shards
    chunks_written: int = 0
    decode_seconds: float = 0.0  # where the kernel reads files, with that
    cache_hits: int = 0  # of the chunk cache: chunks, and indexes of shards
    cache_misses: int = 0


_NO_COSTS: dict[str, float] = asdict(Costs())


class Trace:
    """The costs of what is done inside a block, as `omnizarr.trace` yields it.

    Printed, it is a table. It can be looked at while the block runs.
    """

    def __init__(self, tracer: Any = None) -> None:
        self.spans = tracer is not None  # those of OpenTelemetry are recorded, too
        self._tracer = tracer
        self._begun = time.perf_counter()
        self._ended: float | None = None
        # By thread, store and array, so that no thread waits for another one's counts.
        self._counts: dict[tuple[int, int, int], tuple[object, Any, dict[str, float]]] = {}
        self._settings: dict[tuple[int, int], tuple[Config, Any, Config]] = {}

    @property
    def seconds(self) -> float:
        """The seconds from the beginning of the block to its end, or until now."""
        return (self._ended or time.perf_counter()) - self._begun

    @property
    def total(self) -> Costs:
        """The costs of all stores and arrays together."""
        return self._sums(lambda store, array: "total").get("total", Costs())

    @property
    def stores(self) -> dict[str, Costs]:
        """The costs by store, for stores on servers."""
        return self._sums(lambda store, array: store and repr(store))

    @property
    def arrays(self) -> dict[str, Costs]:
        """The costs by array, without metadata, listings and jobs."""
        return self._sums(lambda store, array: array and _name(array))

    def _sums(self, name: Any) -> dict[str, Costs]:
        found: dict[str, Counter[str]] = {}
        for store, array, counts in [*self._counts.values()]:
            if (where := name(store, array)) is not None:
                found.setdefault(where, Counter()).update(counts)
        return {where: Costs(**found[where]) for where in sorted(found)}

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        parts = {"stores": self.stores, "arrays": self.arrays}
        shown = {k: {n: asdict(c) for n, c in v.items()} for k, v in parts.items()}
        return {"seconds": self.seconds, "total": asdict(self.total), **shown}

    def __str__(self) -> str:
        rows = [("total", self.total)]
        for kind, part in (("store", self.stores), ("array", self.arrays)):
            rows += [(f"{kind} {name}", costs) for name, costs in part.items()]
        used = [f.name for f in fields(Costs) if getattr(self.total, f.name)]
        table = [(f"{self.seconds:.3f} s", *(name.replace("_", " ") for name in used))]
        table += [(name, *(_shown(getattr(costs, each)) for each in used)) for name, costs in rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = (
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in table
        )
        return "\n".join(map(str.rstrip, lines))

    def add(self, store: object, array: Any, counts: Mapping[str, float]) -> None:
        """Add counts of a store and an array; each may be None."""
        key = get_ident(), id(store), id(array)
        found = self._counts.get(key)
        if found is None:
            found = self._counts[key] = store, array, dict(_NO_COSTS)
        sums = found[2]
        for name, number in counts.items():
            sums[name] += number

    def settings(self, before: Config, array: Any) -> Config:
        """Return settings with which counts go to this trace and an array."""
        key = id(before), id(array)
        found = self._settings.get(key)
        if found is None:
            found = before, array, replace(before, trace=(self, array))
            if len(self._settings) >= MAX_SETTINGS:
                self._settings.clear()
            self._settings[key] = found
        return found[2]


def _name(array: Any) -> str:
    return f"{array.store!r}/{array.path.strip('/')}".rstrip("/")


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


@contextmanager
def trace(*, spans: bool = False) -> Iterator[Trace]:
    """Count what is done inside a ``with`` block: requests, bytes, retries, waits, decoding.

    The work of this thread or task is counted, and that of the threads that help it, but not the
    work of other processes. Requests are those to web servers, object stores, file systems of
    fsspec, and Redis; a retry counts as a request, too.

    Args:
        spans: True to also record spans of OpenTelemetry, one for the block and one for each read
            and write of an array.

    Yields:
        The `Trace`: a table when it is printed, with `total`, `stores`, `arrays` and `to_json`.

    Raises:
        MissingPackage: If `spans` need the package opentelemetry-api, and it is missing.

    Examples:
        >>> a = oz.create_array(data=np.arange(6), chunks=2)
        >>> with oz.trace() as t:
        ...     values = a[:3]
        >>> t.total.chunks_read
        2
    """
    tracer = None
    if spans:
        needed = "spans need the package opentelemetry-api; pip install opentelemetry-api"
        get_tracer = registry.load_optional("opentelemetry.trace:get_tracer", needed)
        tracer = get_tracer("omnizarr", config.VERSION)
    settings, found = config.get(), Trace(tracer)
    outer = settings.trace
    before = config.inherit(found.settings(settings, None))
    with ExitStack() as stack:
        span = tracer and stack.enter_context(tracer.start_as_current_span("omnizarr"))
        try:
            yield found
        finally:
            found._ended = time.perf_counter()
            config.inherit(before)
            if outer is not None:
                for store, array, counts in [*found._counts.values()]:
                    outer[0].add(store, outer[1] if array is None else array, counts)
            if span:
                span.set_attributes({f"omnizarr.{k}": v for k, v in asdict(found.total).items()})


class in_array:
    """A block in which counts go to an array, if a trace is on; with a span if it records them."""

    __slots__ = ("_array", "_before", "_counts", "_span", "_verb")

    def __init__(self, array: Any, verb: str, **counts: int) -> None:
        self._array, self._verb, self._counts = array, verb, counts
        self._before: Any = ()  # the settings, once others are in force
        self._span: Any = None

    def __enter__(self) -> None:
        settings = config.get()
        if settings.trace is None:
            return
        found: Trace = settings.trace[0]
        self._before = config.inherit(found.settings(settings, self._array))
        found.add(None, self._array, self._counts)
        if found._tracer is not None:
            about = {"omnizarr.array": _name(self._array), **self._counts}
            name = f"omnizarr.{self._verb}"
            self._span = found._tracer.start_as_current_span(name, attributes=about)
            self._span.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._span is not None:
            self._span.__exit__(*error)
        if self._before != ():
            config.inherit(self._before)


# What is counted and logged


def answer(store: object, what: str, request: Callable[[], T], sent_bytes: int = 0) -> T:
    """Return what `request` returns, and count it with its bytes; log it if it was slow."""
    began, size = time.perf_counter(), 0
    try:
        found = request()
        if config.get().trace is not None:
            parts = found if isinstance(found, (list, tuple)) else (found,)
            size = sum(map(_buffer_size, parts))
        return found
    finally:
        seconds = time.perf_counter() - began
        if seconds > SLOW:
            slow(store, what, seconds)
        sizes = {"received_bytes": size, "sent_bytes": sent_bytes}
        config.count(store, requests=1, request_seconds=seconds, **sizes)


def _buffer_size(value: Any) -> int:
    """Return the bytes of a buffer, and 0 of anything else."""
    try:
        return memoryview(value).nbytes
    except TypeError:
        return 0


def slow(store: object, what: str, seconds: float) -> None:
    """Log a slow request."""
    log(f"{what} in {store!r} took {seconds:.1f} s")
