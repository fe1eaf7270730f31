"""All long runs, one after the other; the tables go into docs/reliability.md."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import omnizarr as oz
from omnizarr.stores import ZipStore
from omnizarr.stores.lmdb import LMDBStore
from omnizarr.stores.redis import RedisStore
from omnizarr.stores.sqlite import SQLiteStore
from tests.servers.processes import make_s3_bucket, moto
from tests.servers.redis import redis_server
from tests.soak import blocks, faults, forks, inputs, kills, peers, writers

PAGE = Path("docs/reliability.md")
THREADS, PROCESSES = 8, 4
SLOW = 10  # how many times fewer rounds a bucket gets
INTRODUCTION = """# Reliability

What was run, and what came of it. `make soak` runs it again and writes this page; a short form of
each table is part of `make test`. The guarantees themselves, and what they rest on, stand in
[design/locks.md](design/locks.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="changes of every writer")
    parser.add_argument("--kills", type=int, default=1000, help="writers killed in all")
    parser.add_argument("--repeats", type=int, default=200, help="processes started in each way")
    parser.add_argument("--blocks", type=int, default=100, help="arrays written in blocks")
    parser.add_argument("--faults", type=int, default=10_000, help="failing reads; flipped bits")
    parser.add_argument("--inputs", type=int, default=10**6, help="inputs changed at random")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        place = Path(folder)
        sections = [
            INTRODUCTION,
            _where(),
            _changes(place, servers, given.rounds),
            _libraries(place, min(given.rounds, 100)),
            _blocks(place, given.blocks),
            _kills(place, given.kills),
            _forks(place, given.repeats),
            _faults(given.faults),
            _inputs(place, given.inputs),
        ]
    PAGE.write_text("\n".join(sections))


def _where() -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    return f"{today}, omnizarr {oz.__version__}, Python {platform.python_version()}, {system}.\n"


def _table(title: str, text: str, head: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> str:
    lines = [f"## {title}\n", text, "", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for row in rows:
        print(title, *row, flush=True)
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join([*lines, ""])


def _stores(folder: Path, servers: ExitStack) -> dict[str, Callable[[str], Any]]:
    """Kinds of stores, and what makes an empty one for a task."""
    redis_folder = folder / "redis"
    redis_folder.mkdir()
    url = servers.enter_context(redis_server(redis_folder))
    port = servers.enter_context(moto())
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
    }

    def bucket(task: str) -> Any:
        make_s3_bucket(port, task)
        return oz.open_group(f"s3://{task}", storage_options=options, mode="a").store

    return {
        "directory": lambda task: str(folder / "directory" / task),
        "zip, one process": lambda task: ZipStore(folder / f"{task}.zip", mode="a"),
        "SQLite": lambda task: SQLiteStore(folder / f"{task}.sqlite"),
        "LMDB": lambda task: LMDBStore(folder / f"{task}.lmdb"),
        "Redis": lambda task: RedisStore(url, prefix=task),
        "S3 (moto)": bucket,
    }


def _changes(folder: Path, servers: ExitStack, rounds: int) -> str:
    def rows() -> Iterator[tuple[Any, ...]]:
        for kind, make in _stores(folder, servers).items():
            count = 1 if "zip" in kind else PROCESSES
            mine = max(1, rounds // SLOW) if "S3" in kind else rounds
            for task in writers.TASKS:
                found = writers.run(make(task), task, count, THREADS, mine)
                yield kind, task, f"{THREADS} x {count}", *found.values()

    text = (
        "Threads of several processes change their own elements of one chunk or shard, their own\n"
        "attribute of one array, or append to one array; a change counts as lost when its writer\n"
        "does not find it again, or when it is missing in the end. Misread: a read showed what\n"
        "the next one did not. Part of a shard is read in two steps, its index and then its\n"
        "chunks; in a bucket another writer may replace the shard in between."
    )
    head = (
        "store",
        "what is changed",
        "threads x processes",
        "changes",
        "lost",
        "misread",
        "errors",
    )
    return _table("Writers at the same time", text, head, rows())


def _libraries(folder: Path, rounds: int) -> str:
    def rows() -> Iterator[tuple[Any, ...]]:
        for library in peers.LIBRARIES:
            for task in (t for t in writers.TASKS if peers.can(library, t)):
                place = str(folder / library / task)
                found = writers.run(place, task, PROCESSES, 2, rounds, library)
                yield peers.label(library), task, *found.values()

    text = (
        f"The same script on a directory, with 2 threads in each of {PROCESSES} processes.\n"
        "tensorstore has neither attributes nor `append`; zarrs is the codecs of zarr-python."
    )
    head = ("library", "what is changed", "changes", "lost", "misread", "errors")
    return _table("Other libraries", text, head, rows())


def _blocks(folder: Path, repeats: int) -> str:
    def rows() -> Iterator[tuple[Any, ...]]:
        for kind in ("threads", "processes"):
            place = folder / f"blocks by {kind}"
            yield kind, *blocks.run(place, kind, repeats).values()

    text = "Random arrays written in blocks that match neither chunks nor shards, against NumPy."
    return _table("Blocks across chunks", text, ("written by", "arrays", "wrong"), rows())


def _kills(folder: Path, count: int) -> str:
    def rows() -> Iterator[tuple[Any, ...]]:
        place = folder / "killed"
        place.mkdir()
        for name in kills.TASKS:
            yield name, *kills.run(place, name, -(-count // len(kills.TASKS))).values()

    text = (
        "A process that writes over and over is killed (SIGKILL) at a random moment; then all is\n"
        "read. Torn: a value that is neither old nor new, or a shape that shows missing elements.\n"
        "Left: files that are no data after `omnizarr repair --yes`."
    )
    return _table("Killed writers", text, ("writing", "killed", "torn", "left"), rows())


def _forks(folder: Path, repeats: int) -> str:
    path = str(folder / "forks")
    forks.prepare(path)

    def rows() -> Iterator[tuple[Any, ...]]:
        for method in forks.METHODS:
            for action in forks.ACTIONS:
                for state in forks.STATES:
                    found = forks.run(path, method, action, state, repeats)
                    yield method, action, state, *found.values()

    text = (
        "Processes started by a parent that has not used the library (cold), or that reads and\n"
        "writes in threads meanwhile (warm). A pool has two processes that read 20 crops."
    )
    head = ("start method", "action", "parent", "started", "hung", "failed", "slowest (s)")
    return _table("Starting processes", text, head, rows())


def _faults(count: int) -> str:
    def rows() -> Iterator[tuple[Any, ...]]:
        reads = faults.faulted_reads(1, count)
        told = reads["error"] + reads["missing chunk told"]
        yield "reads through a failing store", reads["reads"], told, reads["right values"], 0
        flips = faults.flipped_bits(1, count)
        yield "flipped bits in default arrays", flips["flips"], flips["noticed"], 0, 0

    text = (
        "Reads of all formats through a store whose calls fail at random, and single bits turned\n"
        "over in chunks of version 3 arrays as they are by default. The run stops at the first\n"
        "wrong value."
    )
    head = ("what", "tried", "errors", "right values", "wrong values")
    return _table("Failing stores and damaged chunks", text, head, rows())


def _inputs(folder: Path, count: int) -> str:
    rounds = str(-(-count // inputs.A_ROUND))
    command = [sys.executable, "-m", "tests.soak.inputs", "--seconds", "1e9", "--rounds", rounds]
    done = subprocess.run(
        [*command, "--file", str(folder / "x.zip")], capture_output=True, text=True, check=True
    )
    counts = (line.strip().partition(" ") for line in done.stdout.splitlines())
    found = {name: int(number) for number, _, name in counts}

    def rows() -> Iterator[tuple[Any, ...]]:
        for kind in inputs.KINDS:
            read, refused = found.get(f"{kind} read", 0), found.get(f"{kind} refused", 0)
            yield kind, read + refused, read, refused, 0

    text = (
        "Documents of all formats, chunks of 17 chains of codecs, shards and zip archives,\n"
        f"changed at random and read. Bounds: {inputs.PATIENCE:g} s for one input, and"
        f" {inputs.MEMORY // 2**20} MiB of address space\n"
        "beyond what the process has at its start. The run stops at the first crash, foreign\n"
        "error, or bound that is passed."
    )
    head = ("inputs", "tried", "read", "refused", "anything else")
    return _table("Hostile inputs", text, head, rows())


if __name__ == "__main__":
    main()
