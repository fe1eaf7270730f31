"""Byte ranges that are fetched together: those of a key with small gaps become one request.

Parts that are fetched first of many values, such as indexes of shards, are remembered with the
generation of the value, for readers that compare it with that of later parts. `Speed` decides if a
few parts of a value come sooner than all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from omnizarr.concurrency import fork
from omnizarr.concurrency.pool import in_parallel
from omnizarr.stores.base import Range

GAP = 2**18  # bytes between two ranges that are faster fetched than requested separately
LARGEST = 2**23  # bytes of a joined range: several connections are faster than one
_SHORT, _LONG = 2**16, 2**18  # bytes of responses that show the latency, and the throughput
_LEAST = 64  # requests at a time, as far as there are
_RATE = 8000  # responses in a second, of which a process can hardly take more
MAX_FIRST_PARTS = 2**24  # bytes of first parts, of one store


@dataclass(frozen=True, slots=True)
class Fetch:
    """One request, and the wanted parts (by their number) that its response contains."""

    key: str
    range: Range | None
    parts: tuple[tuple[int, Range | None], ...]

    def cut(self, data: bytes | None) -> list[tuple[int, bytes | None]]:
        """Return the wanted parts of a response."""
        if data is None:
            return [(number, None) for number, _ in self.parts]
        return [(number, data if part is None else part.of(data)) for number, part in self.parts]


def coalesce(
    wanted: Sequence[tuple[str, Range | None]], *, gap: int = GAP, largest: int = LARGEST
) -> list[Fetch]:
    """Return few requests for all that is wanted; join ranges of one key with small gaps.

    A key that is wanted whole is fetched once; ranges from the end, or to it, are not joined with
    others.
    """
    by_key: dict[str, list[tuple[int, Range | None]]] = {}
    for number, (key, range) in enumerate(wanted):
        by_key.setdefault(key, []).append((number, range))
    fetches: list[Fetch] = []
    for key, parts in by_key.items():
        if any(range is None for _, range in parts):
            fetches.append(Fetch(key, None, tuple(parts)))
        elif len(parts) == 1:
            fetches.append(Fetch(key, parts[0][1], ((parts[0][0], None),)))
        else:
            fetches += _joined(key, [(n, r) for n, r in parts if r is not None], gap, largest)
    return fetches


def _joined(key: str, parts: list[tuple[int, Range]], gap: int, largest: int) -> list[Fetch]:
    open_ended: dict[Range, list[tuple[int, Range | None]]] = {}
    bounded: list[tuple[int, int, int]] = []
    for number, range in parts:
        if range.start < 0 or range.length is None:
            open_ended.setdefault(range, []).append((number, None))
        else:
            bounded.append((range.start, range.start + range.length, number))
    fetches = [Fetch(key, range, tuple(numbers)) for range, numbers in open_ended.items()]
    run: list[tuple[int, int, int]] = []
    end = 0
    for start, stop, number in sorted(bounded):
        if run and (start > end + gap or max(end, stop) - run[0][0] > largest):
            fetches.append(_joined_run(key, run, end))
            run = []
        end = max(end, stop) if run else stop
        run.append((start, stop, number))
    if run:
        fetches.append(_joined_run(key, run, end))
    return fetches


def _joined_run(key: str, run: list[tuple[int, int, int]], end: int) -> Fetch:
    first = run[0][0]
    parts = tuple((number, Range(start - first, stop - start)) for start, stop, number in run)
    return Fetch(key, Range(first, end - first), parts)


def fetch_many(
    get: Callable[[str, Range | None], bytes | None],
    wanted: Iterable[tuple[str, Range | None]],
    speed: Speed,
) -> list[bytes | None]:
    """Fetch many values by `get`: ranges coalesced, and many requests at a time."""
    requests = list(wanted)
    if _are_whole(requests):
        return in_parallel(lambda request: get(*request), requests, speed.at_once)
    found = fetch_many_versioned(lambda key, part: (get(key, part), None), requests, speed)
    return [data for data, _ in found]


def fetch_each(
    get: Callable[[str], Any], keys: Sequence[str], use: Callable[[int, Any], object], speed: Speed
) -> None:
    """Fetch many values by `get`, and call `use` with the number of each and its value."""
    numbers = range(len(keys))
    in_parallel(lambda number: use(number, get(keys[number])), numbers, speed.at_once)


def _are_whole(requests: list[tuple[str, Range | None]]) -> bool:
    """Return True if whole values are wanted, each once, so that there is nothing to join."""
    if any(part is not None for _, part in requests):
        return False
    return len({key for key, _ in requests}) == len(requests)


def fetch_many_versioned(
    get: Callable[[str, Range | None], tuple[bytes | None, str | None]],
    wanted: Iterable[tuple[str, Range | None]],
    speed: Speed,
) -> list[tuple[bytes | None, str | None]]:
    """Fetch as `fetch_many` does, values with their generations."""
    requests = list(wanted)
    fetches = coalesce(requests)
    responses = in_parallel(lambda fetch: get(fetch.key, fetch.range), fetches, speed.at_once)
    found: list[tuple[bytes | None, str | None]] = [(None, None)] * len(requests)
    for fetch, (data, generation) in zip(fetches, responses, strict=True):
        for number, part in fetch.cut(data):
            found[number] = part, generation
    return found


class Speed:
    """The latency and throughput of a server, as its responses show them."""

    def __init__(self) -> None:
        self.latency: float | None = None  # seconds
        self.throughput = 2e8  # bytes per second of one request, until it is known

    def note(self, seconds: float, nbytes: int) -> None:
        """Take note of the time of one response."""
        if nbytes < _SHORT:
            before = seconds if self.latency is None else self.latency
            self.latency = min(seconds, 1.02 * before)  # others may have slowed it down
        elif nbytes >= _LONG:
            rate = nbytes / max(seconds - (self.latency or 0.0), 1e-4)
            self.throughput = max(rate, 0.9 * self.throughput)

    @property
    def at_once(self) -> int | None:
        """The number of requests at a time after which others would wait for this process."""
        return None if self.latency is None else max(_LEAST, int(self.latency * _RATE))

    def prefers_whole(self, nbytes: int, requests: int) -> bool:
        """Return True if so many bytes come sooner than the responses to so many more requests."""
        return self.latency is not None and nbytes / self.throughput <= requests * self.latency


class FirstParts:
    """The parts of one store's values that were fetched first, with their generations."""

    def __init__(self) -> None:
        self._parts: OrderedDict[tuple[str, Range | None], tuple[bytes, str]] = OrderedDict()
        self._nbytes = 0
        self._lock = fork.lock()

    def get(self, request: tuple[str, Range | None]) -> tuple[bytes, str] | None:
        """Return a part and its generation, or None."""
        with self._lock:
            found = self._parts.get(request)
            if found is not None:
                self._parts.move_to_end(request)
            return found

    def put(self, request: tuple[str, Range | None], data: bytes, generation: str) -> None:
        """Remember a part, unless it is large or another value may have its generation."""
        if len(data) > MAX_FIRST_PARTS // 16 or generation.startswith("W/"):
            return
        with self._lock:
            self._drop(request)
            self._parts[request] = data, generation
            self._nbytes += len(data)
            while self._nbytes > MAX_FIRST_PARTS:
                self._drop(next(iter(self._parts)))

    def forget(self, request: tuple[str, Range | None]) -> None:
        """Forget a part, whose value was replaced."""
        with self._lock:
            self._drop(request)

    def _drop(self, request: tuple[str, Range | None]) -> None:
        found = self._parts.pop(request, None)
        if found is not None:
            self._nbytes -= len(found[0])


# By the address of a store: stores with one URL are equal, but may have other headers.
_first_parts: dict[int, tuple[ref[object], FirstParts]] = {}
_lock = fork.lock()


def first_parts(store: object) -> FirstParts:
    """Return the first parts of a store's values that are remembered."""
    address = id(store)
    with _lock:
        known = _first_parts.get(address)
        if known is None or known[0]() is not store:
            known = ref(store, lambda _: _first_parts.pop(address, None)), FirstParts()
            _first_parts[address] = known
        return known[1]


def _reset() -> None:
    _first_parts.clear()


fork.on_fork(in_child=_reset)
