"""Run long stress tests; each writes its table to docs/generated/reliability.md.

Without names, all parts run one after the other. Files are created in `TMPDIR`; choose a memory
file system so that databases need not wait for a disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import omnizarr as oz
from omnizarr.stores import ZipStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.crash import lost_answers, names
from tests.crash.__main__ import tried
from tests.servers.processes import simple_storage
from tests.servers.redis import redis_server
from tests.soak import descriptors, exits, faults, forks, interrupts, memory, requests, writers
from tests.soak.operations import OPERATIONS
from tests.soak.page import Table, show

THREADS, PROCESSES = 8, 4
Rows: TypeAlias = Iterator[tuple[Any, ...]]
Count: TypeAlias = Callable[[int], int]  # a number of tries, at the scale that was asked for
PARTS: dict[str, tuple[Table, Callable[[Path, Count], Rows]]] = {}


def part(title: str, text: str, *head: str) -> Any:
    """Make a part of a function that yields the rows of a table."""

    def add(rows: Callable[[Path, Count], Rows]) -> Any:
        PARTS[rows.__name__] = Table(title, text, head), rows
        return rows

    return add


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of the tries")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts {sorted(unknown)}; known: {', '.join(PARTS)}")
    for name in given.parts or PARTS:
        table, rows = PARTS[name]
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)  # some of it is another user's
            show(table, rows(Path(folder), lambda most: max(1, int(most * given.scale))))


def _bucket(port: int, name: str) -> Any:
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
    }
    return oz.open(f"s3://{name}", storage_options=options, mode="a").store


@part(
    "Concurrent writers",
    "Threads in several processes change their own elements of one chunk or shard, their own\n"
    "attribute of one array, or append to one array. A change is lost if its writer does not\n"
    "find it again, or if it is missing at the end. Misread: a read returned a value that the\n"
    "next read did not.",
    *("store", "what is changed", "threads x processes", "changes", "lost", "misread", "errors"),
)
def concurrent_writers(folder: Path, count: Count) -> Rows:
    with ExitStack() as servers:
        url = servers.enter_context(redis_server(folder))
        port = servers.enter_context(simple_storage(*writers.TASKS))
        stores: dict[str, Callable[[str], Any]] = {
            "directory": lambda task: str(folder / task),
            "zip, one process": lambda task: ZipStore(folder / f"{task}.zip", mode="a"),
            "SQLite": lambda task: SQLiteStore(folder / f"{task}.sqlite"),
            "LMDB": lambda task: LMDBStore(folder / f"{task}.lmdb"),
            "Redis": lambda task: RedisStore(url, prefix=task),
            "S3 (tests/servers/s3.py)": lambda task: _bucket(port, task),
        }
        for kind, make in stores.items():
            processes = 1 if kind.startswith("zip") else PROCESSES
            for task in writers.TASKS:
                found = writers.run(make(task), task, processes, THREADS, count(1000))
                yield kind, task, f"{THREADS} x {processes}", *found.values()


@part(
    "Lost answers",
    "The answer to each changing request of an operation is lost: the connection is closed, an\n"
    "error is sent, or the answer comes too late; after the request was applied or not; once or\n"
    "nine times; alone, or while another writer sets an attribute or appends. Uncertain: an error\n"
    "said that the change may have been made. Wrong: it was made twice or not at all, another\n"
    "writer's change was lost, or an error did not say that it may have been made.",
    *("store", "operation", "cases", "done", "uncertain", "wrong"),
)
def answers(folder: Path, count: Count) -> Rows:
    with lost_answers.short_leases(), lost_answers.places(folder, "memory", "S3", "Redis") as all_:
        for place in all_:
            for operation in lost_answers.OPERATIONS:
                found = lost_answers.run(place, operation, place.ways)
                print(*found.wrong, sep="\n", file=sys.stderr)
                counts = found.cases, found.done, found.errors, len(found.wrong)
                yield place.name, operation.name, *counts


@part(
    "Starting processes",
    "Processes that read or write, and pools of two, started by a parent that has not used the\n"
    "library (cold), or that is reading and writing in threads (warm). The time is mostly that\n"
    "of imports; on a busy machine a process also waits for a CPU.",
    *("start method", "parent", "started", "hung", "failed", "slowest (s)"),
)
def starts(folder: Path, count: Count) -> Rows:
    path = str(folder / "x.zarr")
    forks.prepare(path)
    for method in forks.METHODS:
        for state in forks.STATES:
            yield method, state, *forks.run(path, method, state, count(600)).values()


@part(
    "Failing stores",
    "Reads of all formats through a store that fails at random. The run stops at the first wrong\n"
    "value.",
    *("tried", "errors", "right values", "wrong values"),
)
def failing_stores(folder: Path, count: Count) -> Rows:
    reads = faults.faulted_reads(1, count(10_000))
    errors = reads["error"] + reads["missing chunk reported"]
    yield reads["reads"], errors, reads["right values"], 0


@part(
    "Hostile names",
    f"{len(names.NAMES)} names (patterns, escapes, options, devices, control characters, long\n"
    "ones, names of this package) for arrays, groups and roots of stores, in versions 2 and 3:\n"
    "each is refused when it is created, and leaves nothing, or works in every operation, and\n"
    "changes nothing of the names that it could be taken for.",
    *("store", "works", "refused", "wrong"),
)
def hostile_names(folder: Path, count: Count) -> Rows:
    yield from names.tally(folder)


@part(
    "Interrupts",
    "Ctrl-C (SIGINT) at random moments in a process that continues afterwards. Slowest: seconds\n"
    "until the exception was raised. Torn: a chunk that is neither old nor new. Stuck: another\n"
    "thread could not change the same chunks afterwards. Left: files other than data.",
    *("work", "chunks", "engine", "interrupts", "slowest (s)", "torn", "stuck", "left"),
)
def interrupted(folder: Path, count: Count) -> Rows:
    for task in interrupts.TASKS:
        for chunk in interrupts.CHUNKS:
            for engine in interrupts.ENGINES:
                location = folder / f"{task} {chunk} {engine}"
                found = interrupts.run(location, task, engine, chunk, count(50))
                wanted = ("interrupts", "slowest", "torn", "stuck", "left")
                yield task, chunk, engine, *(found[name] for name in wanted)


@part(
    "Interpreter exit",
    "Programs that end while the library is working, or that read and write while they end.\n"
    "Wrong: a hang, a wrong exit status, output on standard error, or a torn value.",
    *("program", "engine", "run", "wrong", "slowest (s)"),
)
def ending(folder: Path, count: Count) -> Rows:
    for number, program in enumerate(exits.PROGRAMS):
        for engine in exits.ENGINES:
            location = folder / f"{number}-{engine}"
            exits.prepare(location)
            found = [exits.run(location, program, engine) for _ in range(count(20))]
            wrong = [one["wrong"] for one in found if one["wrong"]]
            print(*wrong, sep="\n", file=sys.stderr)
            yield program, engine, len(found), len(wrong), max(one["seconds"] for one in found)


@part(
    "Few file descriptors",
    f"Operations with 0 to {descriptors.HANDFUL} free descriptors, on 8 threads. Reported: an error"
    " said that there are too many\nopen files, nothing was torn or left behind, no descriptor was"
    " leaked, and the operation worked\nonce descriptors were free again. The run stops at anything"
    " else.",
    *("operation", "engine", "tried", "reported", "succeeded"),
)
def few_descriptors(folder: Path, count: Count) -> Rows:
    for operation in OPERATIONS:
        for engine in memory.ENGINES:
            location = folder / f"{operation} {engine}"
            location.mkdir()
            with oz.configure(engine=engine, threads=8):  # type: ignore[arg-type]  # a word
                found = descriptors.run(location, operation)
            yield operation, engine, sum(found.values()), found["reported"], found["succeeded"]


@part(
    "Little memory",
    "Operations in a process whose n-th allocation of 4 KiB or more fails, alone or with all\n"
    "later ones, for every n or some of them; operations on large data with 0 to 32 MiB of\n"
    "address space left. Failed: how often an allocation failed. Reported: how often the\n"
    "operation raised an error, had old or new values in every element, and worked\n"
    "afterwards; otherwise it succeeded without that memory. The run stops at a crash, an\n"
    "error that is not omnizarr's, or a wrong value. The Blosc and gzip libraries of the\n"
    "reference engine crash if their own allocations fail: the engine checks for free memory\n"
    "before it calls them, and here small operations use zstd.",
    *("operation", "engine", "codec", "every", "tried", "failed", "reported"),
)
def little_memory(folder: Path, count: Count) -> Rows:
    library, stride = memory.build(folder), 1000 // count(1000)
    for operation in [*OPERATIONS, *memory.LARGE] if library else ():
        for engine in memory.ENGINES:
            for codec in ("blosc", "zstd", "gzip") if operation in memory.LARGE else ("zstd",):
                if operation == "write a dataset" and engine == "reference":
                    continue  # whose codec is Blosc
                location = folder / f"{operation} {engine} {codec}"
                found = memory.run(library, location, operation, engine, codec, stride)
                counts = found["tried"], found["failed"], found["errors"]
                yield operation, engine, codec, f"{stride}.", *counts


@part(
    "Hostile requests",
    f"Requests of {requests.THREADS} clients at {len(requests.ADDRESSES)} addresses to"
    " `omnizarr serve` in a process of its own, while another client asks\n"
    "for small answers again and again. Refused: by a status, or the connection was closed. Left:\n"
    "the client went away. Wrong: any other status, or no answer in five minutes. The last row\n"
    f"has the small requests; the server must stay below {requests.MEMORY} MiB of memory.",
    *("requests", "sent", "answered", "refused", "left", "wrong", "slowest (s)", "peak (MiB)"),
)
def hostile_requests(folder: Path, count: Count) -> Rows:
    found = requests.run(folder, count(10_000))
    for kind, counts in found["kinds"].items():
        known = [counts[n] for n in (requests.ANSWERED, requests.REFUSED, requests.LEFT)]
        yield kind, counts.total(), *known, counts.total() - sum(known), "-", "-"
    small = found["small"]
    sent, slowest = len(small.seconds), round(max(small.seconds), 2)
    row = sent, sent - small.wrong, 0, 0, small.wrong, slowest
    yield "small ones beside them", *row, found["memory"]


CRASHES = {
    "killed": (
        "Writers that end at each change",
        "A process ends after the first, second, … call that changes files, or the store. Then\n"
        "the place is read, also by zarr-python, verified and repaired, and the operation is\n"
        "repeated and resumed. Bad: a point where anything was neither old nor new, or else\n"
        "than promised ([what is safe](explanation/safety.md)).",
    ),
    "moments": (
        "Killed writers",
        "A writer is killed (SIGKILL) at random moments; then everything is read, also by\n"
        "zarr-python. Bad: a moment after which anything was neither old nor new.",
    ),
    "paused": (
        "Writers that stop at each change",
        "A process stops after each change; others read with older handles and anew, and write;\n"
        "then it goes on. Bad: a point where a reader got a mixture, or a change was lost.",
    ),
    "full": (
        "Disks that are full from each change on",
        "Every call that needs room fails from a change on. Bad: a point where the old state was\n"
        "not kept, or the operation could not be repeated.",
    ),
}


def _crashes(event: str) -> Callable[[Path, Count], Rows]:
    def rows(folder: Path, count: Count) -> Rows:
        for kind, name, zarr_format, found in tried(event):
            for point, text in found["bad"]:
                print(f"{event}, {kind}, {name}, {zarr_format}, point {point}: {text}")
            bad = len({point for point, _ in found["bad"]})
            yield kind, name, zarr_format, found["points"], bad

    rows.__name__ = event
    return rows


for _event, _about in CRASHES.items():
    part(*_about, "store", "operation", "format", "points", "bad")(_crashes(_event))


if __name__ == "__main__":
    main()
