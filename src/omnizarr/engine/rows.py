"""Rows of a plan, or other parts of a call, done one by one on a few threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from omnizarr import config
from omnizarr.engine.allowance import on_threads, surplus
from omnizarr.stores import Store, compares
from omnizarr.stores.requests import until

SMALL = 2**16  # below this many bytes a call stays on its own thread
R = TypeVar("R")


def useful_threads(count: int, nbytes: int) -> int:
    """How many threads are worth it for so many chunks and bytes."""
    return min(config.get().threads, count) if nbytes >= SMALL else 1


def run_rows(
    rows: Iterator[R], count: int, one: Callable[[R], None], nbytes: int, *, waits: bool = True
) -> None:
    """Call `one` for every row, on a few threads where that is worth it.

    Without `waits` an interrupt does not wait for rows that have begun.
    """
    threads = useful_threads(count, nbytes)
    if threads <= 1:
        for row in rows:
            one(row)
        return
    lock = threading.Lock()
    batch = max(1, min(32, count // (4 * threads)))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set() and not surplus():
            with lock:
                some = list(itertools.islice(rows, batch))
            if not some:
                return
            for row in some:
                if stop.is_set():
                    return
                one(row)

    def work_until_stopped() -> None:
        with until(stop.is_set):
            work()

    on_threads(work_until_stopped, threads, stop.set, waits=waits)


def waits_for(store: Store) -> bool:
    """Whether an interrupt waits for the values that are being stored, as far as they have begun.

    Not where a server may stall: what it compares and replaces cannot do harm later.
    """
    return bool(getattr(store, "near", False)) or not compares(store)
