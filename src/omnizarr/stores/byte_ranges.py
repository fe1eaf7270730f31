"""Byte ranges that are fetched together: those of a key with small gaps become one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from omnizarr.concurrency.pool import in_parallel
from omnizarr.stores.base import Range

GAP = 2**18  # bytes between two ranges that are faster fetched than requested separately
LARGEST = 2**23  # bytes of a joined range: several connections are faster than one


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
) -> list[bytes | None]:
    """Fetch many values by `get`: ranges coalesced, and many requests at a time."""
    return [
        data for data, _ in fetch_many_versioned(lambda key, part: (get(key, part), None), wanted)
    ]


def fetch_many_versioned(
    get: Callable[[str, Range | None], tuple[bytes | None, str | None]],
    wanted: Iterable[tuple[str, Range | None]],
) -> list[tuple[bytes | None, str | None]]:
    """Fetch as `fetch_many` does, values with their generations."""
    requests = list(wanted)
    fetches = coalesce(requests)
    responses = in_parallel(lambda fetch: get(fetch.key, fetch.range), fetches)
    found: list[tuple[bytes | None, str | None]] = [(None, None)] * len(requests)
    for fetch, (data, generation) in zip(fetches, responses, strict=True):
        for number, part in fetch.cut(data):
            found[number] = part, generation
    return found
