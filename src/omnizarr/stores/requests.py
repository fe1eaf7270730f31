"""Many requests at once: near ranges become one, and all run side by side on threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from omnizarr.stores.base import Range
from omnizarr.stores.threads import Crew

A = TypeVar("A")
R = TypeVar("R")

CONCURRENCY = 64  # requests of this process that run at a time
GAP = 2**18  # bytes between two ranges that are quicker fetched than asked for separately
MOST = 2**23  # ranges are not joined beyond this size: several connections are quicker than one


@dataclass(frozen=True, slots=True)
class Fetch:
    """One request, and the asked parts (by their number) that its answer holds."""

    key: str
    range: Range | None
    parts: tuple[tuple[int, Range | None], ...]

    def cut(self, data: bytes | None) -> list[tuple[int, bytes | None]]:
        """The answers to what was asked for."""
        if data is None:
            return [(number, None) for number, _ in self.parts]
        return [(number, data if part is None else part.of(data)) for number, part in self.parts]


def coalesce(
    asked: Sequence[tuple[str, Range | None]], *, gap: int = GAP, most: int = MOST
) -> list[Fetch]:
    """The fewest sensible requests for all that is asked, ranges of one key joined where near.

    A key that is asked for whole is fetched once; ranges from the end, or to it, are not joined
    with others.
    """
    by_key: dict[str, list[tuple[int, Range | None]]] = {}
    for number, (key, range) in enumerate(asked):
        by_key.setdefault(key, []).append((number, range))
    fetches: list[Fetch] = []
    for key, wanted in by_key.items():
        if any(range is None for _, range in wanted):
            fetches.append(Fetch(key, None, tuple(wanted)))
        elif len(wanted) == 1:
            fetches.append(Fetch(key, wanted[0][1], ((wanted[0][0], None),)))
        else:
            fetches += _joined(key, [(n, r) for n, r in wanted if r is not None], gap, most)
    return fetches


def _joined(key: str, wanted: list[tuple[int, Range]], gap: int, most: int) -> list[Fetch]:
    fetches: list[Fetch] = []
    open_ended: dict[Range, list[tuple[int, Range | None]]] = {}
    bounded: list[tuple[int, int, int]] = []
    for number, range in wanted:
        if range.start < 0 or range.length is None:
            open_ended.setdefault(range, []).append((number, None))
        else:
            bounded.append((range.start, range.start + range.length, number))
    fetches += [Fetch(key, range, tuple(parts)) for range, parts in open_ended.items()]
    bounded.sort()
    run: list[tuple[int, int, int]] = []
    end = 0
    for start, stop, number in bounded:
        if run and (start > end + gap or max(end, stop) - run[0][0] > most):
            fetches.append(_run(key, run, end))
            run = []
        end = max(end, stop) if run else stop
        run.append((start, stop, number))
    if run:
        fetches.append(_run(key, run, end))
    return fetches


def _run(key: str, run: list[tuple[int, int, int]], end: int) -> Fetch:
    first = run[0][0]
    parts = tuple((number, Range(start - first, stop - start)) for start, stop, number in run)
    return Fetch(key, Range(first, end - first), parts)


def fetch_many(
    get: Callable[[str, Range | None], bytes | None],
    asked: Iterable[tuple[str, Range | None]],
) -> list[bytes | None]:
    """`get_many` by means of `get`: coalesced, and as many requests at a time as are useful."""
    return [
        data for data, _ in fetch_many_versioned(lambda key, part: (get(key, part), None), asked)
    ]


def fetch_many_versioned(
    get: Callable[[str, Range | None], tuple[bytes | None, str | None]],
    asked: Iterable[tuple[str, Range | None]],
) -> list[tuple[bytes | None, str | None]]:
    """As `fetch_many`, of answers that come with their generations."""
    wanted = list(asked)
    fetches = coalesce(wanted)
    answers = in_parallel(lambda fetch: get(fetch.key, fetch.range), fetches)
    found: list[tuple[bytes | None, str | None]] = [(None, None)] * len(wanted)
    for fetch, (data, generation) in zip(fetches, answers, strict=True):
        for number, part in fetch.cut(data):
            found[number] = part, generation
    return found


class _Inside(threading.local):
    """What this thread is: one of the crew, and asking as long as none of these is so."""

    busy = False
    ends: tuple[Callable[[], bool], ...] = ()


_inside = _Inside()


def in_parallel(function: Callable[[A], R], items: Sequence[A]) -> list[R]:
    """The results for all items, in order; the first error is raised and the rest given up."""
    if len(items) < 2 or _inside.busy:
        return [function(item) for item in items]
    futures, ended = list[Future[R]](), threading.Event()
    try:
        ask = partial(_ask, _asking(ended), function)
        futures.extend(_crew.submit(ask, item) for item in items)
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((f for f in futures if f in done and f.exception() is not None), None)
        return [future.result() for future in futures] if failed is None else [failed.result()]
    finally:
        ended.set()
        for future in futures:
            future.cancel()


def interruptibly(function: Callable[[], R]) -> R:
    """What a function gives that does not hear signals, and may take long.

    They come to the main thread only, so there another thread calls it.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return function()
    ended = threading.Event()
    try:
        return _crew.submit(_ask, _asking(ended), lambda _: function(), None).result()
    finally:
        ended.set()


def given_up() -> bool:
    """Whether nobody waits any more for what this thread asks for, so that it asks no more.

    A value that is stored late could take the place of a newer one.
    """
    return any(ended() for ended in _inside.ends)


@contextmanager
def until(ended: Callable[[], bool]) -> Iterator[None]:
    """What this thread asks for inside the block is not wanted any more when that is so."""
    before = _inside.ends
    _inside.ends = (*before, ended)
    try:
        yield
    finally:
        _inside.ends = before


def _asking(ended: threading.Event) -> tuple[Callable[[], bool], ...]:
    """What ends the requests that this thread has others ask for."""
    return (*_inside.ends, ended.is_set)


def _ask(ends: tuple[Callable[[], bool], ...], function: Callable[[A], R], item: A) -> R:
    before, _inside.ends = _inside.ends, ends
    try:
        return function(item)
    finally:
        _inside.ends = before


def _mark() -> None:
    _inside.busy = True  # a request that asks for more must not wait for its own pool


_crew = Crew(CONCURRENCY, "omnizarr-request", _mark)


def _forget() -> None:
    """A forked child has none of the threads."""
    global _crew
    _crew = Crew(CONCURRENCY, "omnizarr-request", _mark)
    _inside.busy = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
