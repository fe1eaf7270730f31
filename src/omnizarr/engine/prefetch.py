"""Fetching ahead, for stores that fetch several values in one call.

The chunks of a batch run their requests (`codecs.pipeline.Requests`) side by side, so that a batch
of shards costs one round for all indexes and one for all inner chunks; while one batch is decoded,
the next one is fetched.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from omnizarr.codecs.pipeline import Requests, gather_requests, run_requests
from omnizarr.concurrency.pool import bytes_in_flight, run_on_threads
from omnizarr.errors import OmnizarrError
from omnizarr.stores import Store
from omnizarr.stores.byte_ranges import ConsistentReader, ValueReplaced, read_consistently

R = TypeVar("R")
T = TypeVar("T")


def fetch_ahead(
    store: Store,
    rows: Iterator[R],
    requests: Callable[[R], Requests[T]],
    use: Callable[[R, T], None],
    *,
    size: int,
    nbytes: int,
    threads: int,
    whole: int = 0,
) -> None:
    """Call `use` for every row with the result of its requests.

    `size` is about how many bytes one row fetches, `nbytes` how many all of them. Values of up to
    `whole` bytes are fetched at once, where nothing is known of them.
    """
    with bytes_in_flight(nbytes) as granted:
        # Where not all fits, half of it is decoded while the other half is on its way.
        batch = granted if granted >= nbytes else granted // 2
        feed = _Feed(store, rows, requests, max(1, batch // max(1, size)), whole)

        def work() -> None:
            for row, found in feed:
                use(row, found)

        run_on_threads(work, threads, feed.stop, waits=False)


@dataclass(eq=False)
class _Feed(Generic[R, T]):
    """The rows with the data that were fetched for them; several threads take one at a time."""

    _store: Store
    _rows: Iterator[R]
    _requests: Callable[[R], Requests[T]]
    _batch: int
    _whole: int
    _ready: deque[tuple[R, T]] = field(default_factory=deque)
    _more: bool = True
    _fetching: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def stop(self) -> None:
        """Fetch nothing more."""
        with self._changed:
            self._more = False
            self._ready.clear()

    def __iter__(self) -> Iterator[tuple[R, T]]:
        while True:
            with self._changed:
                few = len(self._ready) <= self._batch // 2
                fetches = self._more and not self._fetching and few
                if fetches:
                    self._fetching = True
                elif not self._ready and self._fetching:
                    self._changed.wait()
                    continue
                elif not self._ready:
                    return
                else:
                    found = self._ready.popleft()
            if fetches:
                self._fetch()
            else:
                yield found

    def _fetch(self) -> None:
        found: list[tuple[R, T]] = []
        more = False
        try:
            rows = list(itertools.islice(self._rows, self._batch))
            found = list(zip(rows, self._several(rows), strict=True))
            more = len(rows) == self._batch
        finally:
            with self._changed:
                if self._more:
                    self._ready.extend(found)
                self._more, self._fetching = self._more and more, False
                self._changed.notify_all()

    def _several(self, rows: list[R]) -> list[T]:
        def one(row: R) -> T:
            return read_consistently(
                self._store, lambda fetch: run_requests(self._requests(row), fetch)
            )

        try:
            reader = ConsistentReader(self._store, size=self._whole)
            found = run_requests(gather_requests(map(self._requests, rows)), reader)
            reader.verify()
            return found
        except (OmnizarrError, ValueReplaced):
            return [one(row) for row in rows]  # so that errors name the chunk
