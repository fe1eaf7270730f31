"""Tables of runs with few file descriptors, little memory, or a running event loop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import omnizarr as oz
from tests.soak import descriptors, loops, memory, requests
from tests.soak.operations import OPERATIONS
from tests.soak.page import Table, show
from tests.test_aio import LOOPS

Rows: TypeAlias = Iterator[tuple[Any, ...]]
Given: TypeAlias = argparse.Namespace

DESCRIPTORS = Table(
    "Few file descriptors",
    f"Operations with 0 to {descriptors.HANDFUL} free descriptors, on 8 threads. Reported: an error"
    " said that there are too many\nopen files, nothing was torn or left behind, no descriptor was"
    " leaked, and the operation worked\nonce descriptors were free again. The run stops at anything"
    " else.",
    ("operation", "engine", "tried", "reported", "succeeded"),
    labels=2,
)


def _descriptors(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for operation in OPERATIONS:
            for engine in memory.ENGINES:
                location = folder / f"{operation} {engine}"
                location.mkdir()
                with oz.configure(engine=engine, threads=8):  # type: ignore[arg-type]  # a word
                    found = descriptors.run(location, operation)
                yield operation, engine, sum(found.values()), found["reported"], found["succeeded"]

    show(DESCRIPTORS, rows())


MEMORY = Table(
    "Little memory",
    "Operations in a process whose n-th allocation of 4 KiB or more fails, alone or with all\n"
    "later ones, for every n or some of them; operations on large data with 0 to 32 MiB of\n"
    "address space left. Failed: how often an allocation failed. Reported: how often the\n"
    "operation raised an error, had old or new values in every element, and worked\n"
    "afterwards; otherwise it succeeded without that memory. The run stops at a crash, an\n"
    "error that is not omnizarr's, or a wrong value. The Blosc and gzip libraries of the\n"
    "reference engine crash if their own allocations fail: the engine checks for free memory\n"
    "before it calls them, and here small operations use zstd.",
    ("operation", "engine", "codec", "every", "tried", "failed", "reported"),
    labels=3,
)
OF_BLOSC = ("write a dataset",)  # whose codec is not chosen here


def _memory(folder: Path, given: Given) -> None:
    library = memory.build(folder)
    if library is None:
        print("no compiler: memory that fails was not tried")
        return

    def rows() -> Rows:
        for operation in [*OPERATIONS, *memory.LARGE]:
            large = operation in memory.LARGE
            for engine in memory.ENGINES:
                for codec in ("blosc", "zstd", "gzip") if large else ("zstd",):
                    if operation in OF_BLOSC and engine == "reference":
                        continue
                    location = folder / f"{operation} {engine} {codec}"
                    found = memory.run(library, location, operation, engine, codec, given.stride)
                    counts = found["tried"], found["failed"], found["errors"]
                    yield operation, engine, codec, f"{given.stride}.", *counts

    show(MEMORY, rows())


RUNNING = Table(
    "Event loops",
    "Inside a running event loop: blocking calls; eight arrays written, changed and read at the\n"
    "same time; reads and writes cancelled at random moments; other loops in threads of the loop.\n"
    "Every round is checked, and the run stops at a wrong value. Busy: threads still counted as\n"
    "working at the end.",
    ("loop", "test", "rounds", "slowest (s)", "busy"),
    labels=2,
)


def _loops(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for loop in LOOPS:
            for task in loops.TASKS:
                found = loops.run(folder / loop / task, loop, task, given.loops)
                yield loop, task, found["rounds"], found["slowest"], found["busy"]

    show(RUNNING, rows())


REQUESTS = Table(
    "Hostile requests",
    f"Requests of {requests.THREADS} clients at {len(requests.ADDRESSES)} addresses to"
    " `omnizarr serve` in a process of its own, while another client asks\n"
    "for small answers again and again. Refused: by a status, or the connection was closed. Left:\n"
    "the client went away. Wrong: any other status, or no answer in five minutes. The last row\n"
    f"has the small requests; the server must stay below {requests.MEMORY} MiB of memory.",
    ("requests", "sent", "answered", "refused", "left", "wrong", "slowest (s)", "peak (MiB)"),
)


def _requests(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        found = requests.run(folder, given.requests)
        for kind, counts in found["kinds"].items():
            print(kind, dict(counts), file=sys.stderr)
            known = [counts[n] for n in (requests.ANSWERED, requests.REFUSED, requests.LEFT)]
            yield kind, counts.total(), *known, counts.total() - sum(known), "-", "-"
        small = found["small"]
        count, slowest = len(small.seconds), round(max(small.seconds), 2)
        right = count - small.wrong
        yield "small ones beside them", count, right, 0, 0, small.wrong, slowest, found["memory"]

    show(REQUESTS, rows())


PARTS: dict[str, Callable[[Path, Given], None]] = {
    "descriptors": _descriptors,
    "memory": _memory,
    "loops": _loops,
    "requests": _requests,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of these parts."""
    parser.add_argument("--stride", type=int, default=1, help="memory: only every n-th allocation")
    parser.add_argument("--requests", type=int, default=10_000, help="hostile requests")
    parser.add_argument("--loops", type=int, default=200, help="rounds of each loop")
