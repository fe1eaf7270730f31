"""Parts of values: joined into few requests, and consistent while others replace the value.

Ranges of a key with small gaps become one request; `Speed` decides if a few parts of a value come
sooner than all of it. A reader of a shard requests its index first and then the chunks that it
refers to; another writer may replace the shard in between. `read_consistently` reads from a
snapshot where a store has one, and otherwise compares the generations of all parts. First parts,
such as indexes, are kept with their generation for later readers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from omnizarr.concurrency.pool import in_parallel
from omnizarr.concurrency.retry import Overtaken, retry_conflicts
from omnizarr.stores.base import GetMany, Range, Store, VersionedValue
from omnizarr.stores.operations import get_many, snapshot

T = TypeVar("T")
Request: TypeAlias = tuple[str, Range | None]
FetchEach: TypeAlias = Callable[[Sequence[Request], Callable[[int, VersionedValue], object]], None]
GAP = 2**18  # bytes between two ranges that are faster fetched than requested separately
LARGEST = 2**23  # bytes of a joined range: several connections are faster than one
_SHORT, _LONG = 2**16, 2**18  # bytes of responses that show the latency, and the throughput
MAX_FIRST_PARTS = 2**24  # bytes of first parts, of one store


@dataclass(frozen=True, slots=True)
class Fetch:
    """One request, and the wanted parts (by their number) that its response contains."""

    key: str
    range: Range | None
    parts: tuple[tuple[int, Range | None], ...]


@dataclass(frozen=True, slots=True)
class JoinedRanges:
    """Byte ranges of one value, joined into few to fetch."""

    ranges: list[Range]
    # For each range that was wanted: the number of the one that has it, and the part of that.
    places: dict[Range, tuple[int, Range]]


def join_ranges(parts: Iterable[Range], gap: int = GAP, largest: int = sys.maxsize) -> JoinedRanges:
    """Join ranges at most `gap` bytes apart; each has a length and a start of at least 0."""
    ranges: list[Range] = []
    places: dict[Range, tuple[int, Range]] = {}
    start = end = 0
    for part in sorted(set(parts), key=lambda p: p.start):
        stop = part.start + (part.length or 0)
        if not ranges or part.start - end > gap or max(end, stop) - start > largest:
            start = end = part.start
            ranges.append(part)
        end = max(end, stop)
        ranges[-1] = Range(start, end - start)
        places[part] = len(ranges) - 1, Range(part.start - start, part.length)
    return JoinedRanges(ranges, places)


def coalesce(wanted: Sequence[Request], *, gap: int = GAP, largest: int = LARGEST) -> list[Fetch]:
    """Return few requests for many ranges; join ranges of one key with small gaps."""
    by_key: dict[str, list[tuple[int, Range | None]]] = {}
    for number, (key, range) in enumerate(wanted):
        by_key.setdefault(key, []).append((number, range))
    fetches: list[Fetch] = []
    for key, numbered in by_key.items():
        parts = [part for _, part in numbered if part is not None]
        if len(parts) < len(numbered):
            fetches.append(Fetch(key, None, tuple(numbered)))
            continue
        bounded = (part for part in parts if part.start >= 0 and part.length is not None)
        joined = join_ranges(bounded, gap, largest)
        inside: dict[Range, list[tuple[int, Range | None]]] = {}
        for (number, _), part in zip(numbered, parts, strict=True):
            at, cut = joined.places.get(part, (None, None))
            inside.setdefault(part if at is None else joined.ranges[at], []).append((number, cut))
        fetches += (Fetch(key, whole, tuple(cuts)) for whole, cuts in inside.items())
    return fetches


def fetch_together(fetch_each: FetchEach, wanted: Sequence[Request]) -> list[VersionedValue]:
    """Return all values, ranges coalesced, by a function that calls another for every value."""
    found: list[VersionedValue] = [(None, None)] * len(wanted)
    if len({key for key, _ in wanted}) == len(wanted):
        fetch_each(wanted, found.__setitem__)
        return found
    fetches = coalesce(wanted)

    def keep(number: int, value: VersionedValue) -> None:
        data, generation = value
        for place, part in fetches[number].parts:
            found[place] = data if data is None or part is None else part.of(data), generation

    fetch_each([(fetch.key, fetch.range) for fetch in fetches], keep)
    return found


def each_in_parallel(get: Callable[[str, Range | None], VersionedValue]) -> FetchEach:
    """Return a function that calls another for every value, fetched by `get`."""

    def fetch_each(wanted: Sequence[Request], use: Callable[[int, VersionedValue], object]) -> None:
        in_parallel(lambda number: use(number, get(*wanted[number])), range(len(wanted)))

    return fetch_each


class Speed:
    """The latency and throughput that a server has shown, and the first parts of its values."""

    def __init__(self) -> None:
        self.latency: float | None = None  # seconds
        self.throughput = 2e8  # bytes per second of one request, until it is known
        self.first_parts = FirstParts()

    def __reduce__(self) -> tuple[Any, ...]:
        return Speed, ()

    def note(self, seconds: float, nbytes: int) -> None:
        """Record the time that one response took."""
        if nbytes < _SHORT:
            before = seconds if self.latency is None else self.latency
            self.latency = min(seconds, 1.02 * before)  # others may have slowed it down
        elif nbytes >= _LONG:
            rate = nbytes / max(seconds - (self.latency or 0.0), 1e-4)
            self.throughput = max(rate, 0.9 * self.throughput)

    def prefers_whole(self, nbytes: int, requests: int) -> bool:
        """Return True if `nbytes` bytes come sooner than `requests` successive responses."""
        return self.latency is not None and nbytes / self.throughput <= requests * self.latency


def prefers_whole(store: object, nbytes: int, requests: int = 2) -> bool:
    """Return True if `nbytes` bytes come sooner than `requests` successive responses."""
    speed = getattr(store, "speed", None)
    return isinstance(speed, Speed) and speed.prefers_whole(nbytes, requests)


class FirstParts(dict[Request, tuple[bytes, str]]):
    """The first fetched parts of values, with generations; a full one forgets all of them."""

    nbytes = 0

    def put(self, request: Request, data: bytes, generation: str) -> None:
        """Remember a part, unless it is large or has a weak generation, which is not unique."""
        if len(data) > MAX_FIRST_PARTS // 16 or generation.startswith("W/"):
            return
        if self.nbytes + len(data) > MAX_FIRST_PARTS:
            self.clear()
            self.nbytes = 0
        self[request] = data, generation
        self.nbytes += len(data)


# Consistent reading


class ValueReplaced(Overtaken):
    """A part of a value belongs to another value than an earlier part."""


class ConsistentReader:
    """Fetches parts of values; raises `ValueReplaced` if a value was replaced in between.

    A store without generations for every part is read by `fetch`. The first part of a value, the
    index of a shard, is remembered for the next reader where generations last: it is right if the
    parts that follow have the same generation. `verify` asks for those values of which none did.

    With `size`, what values have at most, a first part that is not remembered is fetched together
    with the rest of its value. Without `remember`, all parts are fetched.
    """

    def __init__(
        self, store: Store, fetch: GetMany | None = None, size: int = 0, *, remember: bool = True
    ) -> None:
        self._store, self._size = store, size
        self._whole: dict[str, bytes] = {}  # values that came with their first part
        self._fetch = partial(get_many, store) if fetch is None else fetch
        self._has_generations = hasattr(store, "get_many_versioned")
        self._known: dict[str, str] = {}
        self._unverified: dict[str, Range] = {}  # remembered first parts that were used
        speed = getattr(store, "speed", None)  # where generations last
        self._first_parts = speed.first_parts if remember and isinstance(speed, Speed) else None

    def __call__(self, requests: Sequence[Request]) -> list[bytes | None]:
        if not self._has_generations or all(part is None for _, part in requests):
            return self._fetch(requests)
        if self._first_parts is None:
            return self._fetch_parts(requests)
        found: dict[int, bytes | None] = {}
        for number, (key, part) in enumerate(requests):
            if part is not None and key in self._whole:
                found[number] = part.of(self._whole[key])
                continue
            known = self._first_parts.get((key, part)) if key not in self._known else None
            if part is not None and known is not None:
                found[number], self._known[key] = known
                self._unverified[key] = part
        wanted = [request for number, request in enumerate(requests) if number not in found]
        fetched = iter(self._fetch_parts(wanted) if wanted else ())
        return [found[n] if n in found else next(fetched) for n in range(len(requests))]

    def _fetch_parts(self, requests: Sequence[Request]) -> list[bytes | None]:
        wanted = [(key, self._widened(key, part)) for key, part in requests]
        found = self._store.get_many_versioned(wanted)  # type: ignore[attr-defined]  # just seen
        results: list[bytes | None] = []
        for (key, part), (_, wide), (data, generation) in zip(requests, wanted, found, strict=True):
            if part is not None and wide != part and data is not None:
                if len(data) < self._size:  # there is no more of it
                    self._whole[key] = data
                data = part.of(data)
            results.append(data)
            known = self._known.get(key)
            if part is None:
                continue
            if known is None and generation is not None:
                self._known[key] = generation
                if self._first_parts is not None and data is not None:
                    self._first_parts.put((key, part), data, generation)
            elif known is not None and (data is None or generation is not None):
                # Of HTTP, only one of two equal generations may be weak.
                if data is None or known.removeprefix("W/") != (generation or "").removeprefix(
                    "W/"
                ):
                    if self._first_parts is not None and key in self._unverified:
                        self._first_parts.pop((key, self._unverified[key]), None)
                    raise ValueReplaced(f"{key!r} in {self._store!r}")
                self._unverified.pop(key, None)
        return results

    def _widened(self, key: str, part: Range | None) -> Range | None:
        """Return the range to request for a part; the first one of a value is widened to `size`."""
        if not self._size or part is None or key in self._known or part.start > 0:
            return part
        return Range(-self._size) if part.start < 0 else Range(0, self._size)

    def verify(self) -> None:
        """Raise if a value was replaced since its remembered first part was fetched."""
        if self._unverified:
            self._fetch_parts([*self._unverified.items()])


def read_consistently(store: Store, read: Callable[[ConsistentReader], T]) -> T:
    """Return what `read` returns; call it again if a value was replaced while it was read."""

    def attempt() -> T:
        with snapshot(store) as fetch:
            reader = ConsistentReader(store, fetch)
            found = read(reader)
            reader.verify()
            return found

    consequence = " while it was read; read it again when it is written less often"
    return retry_conflicts(attempt, consequence, "replaced")
