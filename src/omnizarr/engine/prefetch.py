"""Fetching several chunks in one call, for stores that can.

The chunks of a batch run their requests (`codecs.pipeline.Requests`) side by side, so that a batch
of shards costs one round for all indexes and one for all inner chunks. Where memory is not enough
for all chunks, each thread has a batch of its own: some decode while others wait.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from omnizarr.codecs.pipeline import Requests, gather_requests, run_requests
from omnizarr.concurrency.pool import bytes_in_flight, is_abandoned, share_items
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

    def one(row: R) -> T:
        return read_consistently(store, lambda fetch: run_requests(requests(row), fetch))

    def fetch(some: list[R]) -> Iterator[tuple[R, T]]:
        try:
            reader = ConsistentReader(store, size=whole)
            found = run_requests(gather_requests(map(requests, some)), reader)
            reader.verify()
        except (OmnizarrError, ValueReplaced):
            found = [one(row) for row in some]  # so that errors name the chunk
        return zip(some, found, strict=True)

    def fetch_and_use(some: list[R]) -> None:
        for row, found in fetch(some):
            if is_abandoned():  # another thread has failed
                return
            use(row, found)

    with bytes_in_flight(nbytes) as granted:
        if granted >= nbytes:
            share_items(fetch([*rows]), lambda pair: use(*pair), threads, 1, waits=False)
        else:
            batch = max(1, granted // (threads * max(1, size)))
            batches = iter(lambda: [*itertools.islice(rows, batch)], [])
            share_items(batches, fetch_and_use, threads, 1, waits=False)
