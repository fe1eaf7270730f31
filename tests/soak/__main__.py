"""Run long stress tests; each writes its table to docs/generated/reliability.md.

Without names, all parts run one after the other. Files are created in `TMPDIR`; choose a memory
file system so that databases need not wait for a disk.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
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
from tests.servers.processes import make_s3_bucket, moto, simple_storage
from tests.servers.redis import redis_server
from tests.soak import (
    blocks,
    crash_parts,
    faults,
    forks,
    inputs,
    kills,
    peers,
    process_parts,
    resource_parts,
    sequences,
    writers,
)
from tests.soak.page import Table, show

THREADS, PROCESSES = 8, 4
SLOW = 10  # how many times fewer rounds moto gets
Rows: TypeAlias = Iterator[tuple[Any, ...]]
Given: TypeAlias = argparse.Namespace


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--stores", nargs="*", choices=STORES, help="writers: only these stores")
    parser.add_argument("--rounds", type=int, default=1000, help="changes per writer")
    parser.add_argument("--kills", type=int, default=1000, help="total number of killed writers")
    parser.add_argument("--methods", nargs="*", choices=forks.METHODS, help="starts: these only")
    parser.add_argument("--repeats", type=int, default=200, help="processes started per method")
    parser.add_argument("--at-once", type=int, default=1, help="processes started at the same time")
    parser.add_argument("--blocks", type=int, default=100, help="arrays written in blocks")
    parser.add_argument("--faults", type=int, default=10_000, help="failing reads and flipped bits")
    parser.add_argument("--inputs", type=int, default=10**6, help="number of corrupted inputs")
    parser.add_argument("--seconds", default="1e9", help="inputs: time limit in all")
    parser.add_argument(
        "--processes", type=int, default=PROCESSES, help="inputs, sequences: number of processes"
    )
    process_parts.add_arguments(parser)
    resource_parts.add_arguments(parser)
    sequences.add_arguments(parser)
    crash_parts.add_arguments(parser)
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown parts {sorted(unknown)}; known: {', '.join(PARTS)}")
    for part in given.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[part](Path(folder), given)


# Writers


def _redis(folder: Path, servers: ExitStack) -> Callable[[str], Any]:
    url = servers.enter_context(redis_server(folder))
    return lambda task: RedisStore(url, prefix=task)


def _moto(folder: Path, servers: ExitStack) -> Callable[[str], Any]:
    port = servers.enter_context(moto())

    def make(task: str) -> Any:
        make_s3_bucket(port, task)
        return _bucket(port, task)

    return make


def _simple_storage(folder: Path, servers: ExitStack) -> Callable[[str], Any]:
    port = servers.enter_context(simple_storage(*writers.TASKS))
    return lambda task: _bucket(port, task)


def _bucket(port: int, name: str) -> Any:
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
    }
    return oz.open(f"s3://{name}", storage_options=options, mode="a").store


# Kinds of stores, and what makes an empty one for a task.
STORES: dict[str, Callable[[Path, ExitStack], Callable[[str], Any]]] = {
    "directory": lambda folder, _: lambda task: str(folder / task),
    "zip": lambda folder, _: lambda task: ZipStore(folder / f"{task}.zip", mode="a"),
    "SQLite": lambda folder, _: lambda task: SQLiteStore(folder / f"{task}.sqlite"),
    "LMDB": lambda folder, _: lambda task: LMDBStore(folder / f"{task}.lmdb"),
    "Redis": _redis,
    "S3": _simple_storage,
    "moto": _moto,
}
LABELS = {"zip": "zip, one process", "S3": "S3 (tests/servers/s3.py)", "moto": "S3 (moto)"}
WRITERS = Table(
    "Concurrent writers",
    "Threads in several processes change their own elements of one chunk or shard, their own\n"
    "attribute of one array, or append to one array. A change is lost if its writer does not\n"
    "find it again, or if it is missing at the end. Misread: a read returned a value that the\n"
    "next read did not. moto compares and stores in two steps, and may accept another writer\n"
    "in between: the changes that it loses it has confirmed to both.",
    ("store", "what is changed", "threads x processes", "changes", "lost", "misread", "errors"),
    labels=2,
)


def _writers(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for kind in given.stores or STORES:
            count = 1 if kind == "zip" else PROCESSES
            rounds = max(1, given.rounds // SLOW) if kind == "moto" else given.rounds
            location = folder / kind
            location.mkdir()
            with ExitStack() as servers:
                make = STORES[kind](location, servers)
                for task in writers.TASKS:
                    found = writers.run(make(task), task, count, THREADS, rounds)
                    yield LABELS.get(kind, kind), task, f"{THREADS} x {count}", *found.values()

    show(WRITERS, rows(), replace=not given.stores)


LIBRARIES = Table(
    "Other libraries",
    f"The same test on a directory, with 2 threads in each of {PROCESSES} processes.\n"
    "tensorstore has neither attributes nor `append`; zarrs is a codec pipeline for zarr-python.",
    ("library", "what is changed", "changes", "lost", "misread", "errors"),
    labels=2,
)


def _libraries(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for library in peers.LIBRARIES:
            for task in (t for t in writers.TASKS if peers.can(library, t)):
                location, rounds = str(folder / library / task), min(given.rounds, 100)
                found = writers.run(location, task, PROCESSES, 2, rounds, library)
                yield peers.label(library), task, *found.values()

    show(LIBRARIES, rows())


BLOCKS = Table(
    "Blocks across chunks",
    "Random arrays, written in blocks aligned with neither chunks nor shards, compared with NumPy.",
    ("written by", "arrays", "wrong"),
)


def _blocks(folder: Path, given: Given) -> None:
    kinds = ("threads", "processes")
    show(BLOCKS, ((k, *blocks.run(folder / k, k, given.blocks).values()) for k in kinds))


# Crashes and starts

KILLS = Table(
    "Killed writers",
    "A process that writes in a loop is killed (SIGKILL) at a random moment; then everything is\n"
    "read. Torn: a value that is neither old nor new, or a shape that includes missing elements.\n"
    "Left: files other than data after `omnizarr repair --yes`.",
    ("writing", "killed", "torn", "left"),
)


def _kills(folder: Path, given: Given) -> None:
    count = -(-given.kills // len(kills.TASKS))
    show(KILLS, ((name, *kills.run(folder, name, count).values()) for name in kills.TASKS))


ANSWERS = Table(
    "Lost answers",
    "The answer to each changing request of an operation is lost: the connection is closed, an\n"
    "error is sent, or the answer comes too late; after the request was applied or not; once or\n"
    "nine times; alone, or while another writer sets an attribute or appends. Uncertain: an error\n"
    "said that the change may have been made. Wrong: it was made twice or not at all, another\n"
    "writer's change was lost, or an error did not say that it may have been made.",
    ("store", "operation", "cases", "done", "uncertain", "wrong"),
    labels=2,
)


def _answers(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        kinds = "memory", "S3", "Redis"
        with lost_answers.short_leases(), lost_answers.places(folder, *kinds) as places:
            for place in places:
                for operation in lost_answers.OPERATIONS:
                    found = lost_answers.run(place, operation, place.ways)
                    print(*found.wrong, sep="\n", file=sys.stderr)
                    counts = found.cases, found.done, found.errors, len(found.wrong)
                    yield place.name, operation.name, *counts

    show(ANSWERS, rows())


STARTS = Table(
    "Starting processes",
    "Processes started by a parent that has not used the library (cold), or that is reading and\n"
    "writing in threads (warm). A pool has two processes that read 20 crops. The time is mostly\n"
    "that of imports; on a busy machine a process also waits for a CPU.",
    ("start method", "action", "parent", "at once", "started", "hung", "failed", "slowest (s)"),
    labels=3,
)


def _starts(folder: Path, given: Given) -> None:
    path = str(folder / "x.zarr")
    forks.prepare(path)

    def rows() -> Rows:
        for method in given.methods or forks.METHODS:
            for action in forks.ACTIONS:
                for state in forks.STATES:
                    found = forks.run(path, method, action, state, given.repeats, given.at_once)
                    yield method, action, state, given.at_once, *found.values()

    show(STARTS, rows(), replace=not given.methods)


# Damage

FAULTS = Table(
    "Failing stores and damaged chunks",
    "Reads of all formats through a store that fails at random, and single flipped bits in chunks\n"
    "of version 3 arrays with default codecs. The run stops at the first wrong value.",
    ("test", "tried", "errors", "right values", "wrong values"),
)


def _faults(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        reads = faults.faulted_reads(1, given.faults)
        errors = reads["error"] + reads["missing chunk reported"]
        yield "reads through a failing store", reads["reads"], errors, reads["right values"], 0
        flips = faults.flipped_bits(1, given.faults)
        yield "flipped bits in default arrays", flips["flips"], flips["noticed"], 0, 0

    show(FAULTS, rows())


INPUTS = Table(
    "Hostile inputs",
    f"Metadata of all formats, chunks of {len(inputs.CODECS) + len(inputs.TEXT)} codec pipelines,"
    " shards and ZIP archives,\n"
    f"corrupted at random and read. Limits: {inputs.TIMEOUT:g} s per input, and"
    f" {inputs.MEMORY // 2**20} MiB of address space\n"
    "beyond what the process has at its start. The run stops at the first crash, the first error\n"
    "that is not omnizarr's, or the first limit exceeded.",
    ("inputs", "tried", "read", "refused", "anything else"),
)


def _inputs(folder: Path, given: Given) -> None:
    """Run in several processes, each with its own seed."""
    rounds = str(-(-given.inputs // (given.processes * inputs.A_ROUND)))
    command = [sys.executable, "-m", "tests.soak.inputs", "--rounds", rounds]
    started = [
        subprocess.Popen(
            [
                *(*command, "--seconds", given.seconds),
                *("--seed", str(seed), "--file", str(folder / f"{seed}.zip")),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(given.processes)
    ]
    found: Counter[str] = Counter()
    for process in started:
        lines, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"an input was neither read nor refused: {process.args}")
        for line in lines.splitlines():
            number, _, name = line.strip().partition(" ")
            found[name] += int(number)

    def rows() -> Rows:
        for kind in inputs.KINDS:
            read, refused = found[f"{kind} read"], found[f"{kind} refused"]
            yield kind, read + refused, read, refused, 0

    show(INPUTS, rows())


NAMES = Table(
    "Hostile names",
    f"{len(names.NAMES)} names (patterns, escapes, options, devices, control characters, long\n"
    "ones, names of this package) for arrays, groups and roots of stores, in versions 2 and 3:\n"
    "each is refused when it is created, and leaves nothing, or works in every operation, and\n"
    "changes nothing of the names that it could be taken for.",
    ("store", "works", "refused", "wrong"),
)


def _names(folder: Path, given: Given) -> None:
    show(NAMES, names.tally(folder))


PARTS: dict[str, Callable[[Path, Given], None]] = {
    "writers": _writers,
    "libraries": _libraries,
    "blocks": _blocks,
    "kills": _kills,
    "answers": _answers,
    "starts": _starts,
    "faults": _faults,
    "inputs": _inputs,
    "names": _names,
    **process_parts.PARTS,
    **resource_parts.PARTS,
    **sequences.PARTS,
    **crash_parts.PARTS,
}


if __name__ == "__main__":
    main()
