"""Concurrent writers: threads in several processes change one chunk, one shard or the attributes of
one array, or append to it. After every change, each checks that its last change is still there.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import omnizarr as oz

TASKS = ("chunk", "shard", "attributes", "append")
# A process of its own that has imported this module, from which writers are forked: they share
# nothing with one another, and start quickly.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__])


def opened(store: Any) -> Any:
    """Return the array that is changed."""
    return oz.open(store, path="x", mode="r+")


def run(
    store: Any, task: str, processes: int, threads: int, rounds: int, opened: Any = opened
) -> dict[str, int]:
    """Count changes that were made, lost and misread, and writers that failed."""
    writers = processes * threads
    _prepare(store, task, writers)
    counts = SERVER.Array("q", 3)  # lost, misread, failed
    if processes == 1:
        _threads(store, task, opened, range(threads), rounds, counts)
    else:
        parts = [range(n * threads, (n + 1) * threads) for n in range(processes)]
        started = [
            SERVER.Process(target=_threads, args=(store, task, opened, part, rounds, counts))
            for part in parts
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()
            counts[2] += process.exitcode != 0
    lost, misread, failed = counts
    lost += _missing(store, task, writers, rounds)
    return {"changes": writers * rounds, "lost": lost, "misread": misread, "errors": failed}


def _prepare(store: Any, task: str, writers: int) -> None:
    if task == "append":
        oz.create_array(store, path="x", shape=(0,), chunks=(64,), dtype="i8", fill_value=-1)
    elif task == "shard":
        options: dict[str, Any] = {"chunks": (2,), "shards": (2 * writers,)}
        oz.create_array(store, path="x", shape=(2 * writers,), dtype="i4", **options)
    else:
        oz.create_array(store, path="x", shape=(writers,), chunks=(writers,), dtype="i4")


def _threads(store: Any, task: str, opened: Any, writers: range, rounds: int, counts: Any) -> None:
    def work(writer: int) -> None:
        try:
            found = *_WORK[task](opened(store), writer, rounds), 0
        except Exception as e:
            print(f"writer {writer}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            found = 0, 0, 1
        with counts.get_lock():
            counts[:] = [a + b for a, b in zip(counts, found, strict=True)]

    started = [threading.Thread(target=work, args=(writer,)) for writer in writers]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def _elements(array: Any, writer: int, rounds: int) -> tuple[int, int]:
    """Count failures, and reads that differ from the next one."""
    length = array.shape[0]
    width = length // (length if array.shards is None else array.shards[0] // 2)
    part = slice(writer * width, (writer + 1) * width)
    lost, misread = 0, 0
    for number in range(1, rounds + 1):
        if (array[part] != number - 1).any():
            again = bool((array[part] != number - 1).any())
            lost, misread = lost + again, misread + (not again)
        array[part] = number
    return lost, misread


def _attributes(array: Any, writer: int, rounds: int) -> tuple[int, int]:
    lost = 0
    for number in range(1, rounds + 1):
        array.refresh()
        lost += array.attrs.get(f"writer {writer}", 0) != number - 1
        array.attrs[f"writer {writer}"] = number
    return lost, 0


def _append(array: Any, writer: int, rounds: int) -> tuple[int, int]:
    for number in range(rounds):
        array.append(np.array([writer * rounds + number]))
    return 0, 0


_WORK: dict[str, Callable[[Any, int, int], tuple[int, int]]] = {
    "chunk": _elements,
    "shard": _elements,
    "attributes": _attributes,
    "append": _append,
}


def _missing(store: Any, task: str, writers: int, rounds: int) -> int:
    """Count changes that are missing at the end."""
    array = oz.open(store, path="x")
    if task == "append":
        found = array[:]
        gone = int(np.setdiff1d(np.arange(writers * rounds), found).size)
        return gone + max(0, len(found) - writers * rounds)
    if task == "attributes":
        return sum(array.attrs.get(f"writer {n}") != rounds for n in range(writers))
    return int((array[:] != rounds).sum())
