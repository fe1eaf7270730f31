"""Tables of interrupts, exits, killed jobs, and failures compared with other libraries."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tests.soak import exits, failures, interrupts, jobs, peers
from tests.soak.page import Table, show

Rows: TypeAlias = Iterator[tuple[Any, ...]]
Given: TypeAlias = argparse.Namespace

INTERRUPTS = Table(
    "Interrupts",
    "Ctrl-C (SIGINT) at random moments in a process that continues afterwards. Slowest: seconds\n"
    "until the exception was raised. Torn: a chunk that is neither old nor new. Stuck: another\n"
    "thread could not change the same chunks afterwards. Left: files other than data.",
    ("work", "chunks", "engine", "interrupts", "slowest (s)", "torn", "stuck", "left"),
    labels=3,
)


def _interrupts(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for task in interrupts.TASKS:
            for chunk in interrupts.CHUNKS:
                for engine in interrupts.ENGINES:
                    location = folder / f"{task} {chunk} {engine}"
                    found = interrupts.run(location, task, engine, chunk, given.interrupts)
                    wanted = ("interrupts", "slowest", "torn", "stuck", "left")
                    yield task, chunk, engine, *(found[name] for name in wanted)

    show(INTERRUPTS, rows())


EXITS = Table(
    "Interpreter exit",
    "Programs that end while the library is working, or that read and write while they end.\n"
    "Wrong: a hang, a wrong exit status, output on standard error, or a torn value.",
    ("program", "engine", "run", "wrong", "slowest (s)"),
    labels=2,
)


def _exits(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for number, program in enumerate(exits.PROGRAMS):
            for engine in exits.ENGINES:
                location = folder / f"{number}-{engine}"
                exits.prepare(location)
                found = [exits.run(location, program, engine) for _ in range(given.exits)]
                wrong = [one["wrong"] for one in found if one["wrong"]]
                for text in wrong:
                    print(text)
                slowest = max(one["seconds"] for one in found)
                yield program, engine, len(found), len(wrong), slowest

    show(EXITS, rows())


FAILURES = Table(
    "Failures compared with other libraries",
    "The same tests on a directory. Killed write: chunks of 1 MiB that were neither old nor new\n"
    "after their writer was killed (SIGKILL). Killed append: arrays whose shape included elements\n"
    "that nobody wrote. Fork after use: child processes that did not end within "
    f"{failures.TIMEOUT:g} s, or\nended with an error; the test stops after three that hang."
    " Failing file: reads of a\nchunk whose file is unreadable, truncated, empty or a link to"
    " itself, which returned values\nnevertheless. tensorstore has no `append`; zarrs is a codec"
    " pipeline for zarr-python.",
    ("failure", "library", "tried", "torn or wrong", "hung", "failed"),
    labels=2,
)


def _failures(folder: Path, given: Given) -> None:
    os.chmod(folder, 0o755)  # one of them is another user's

    def rows() -> Rows:
        for failure in failures.FAILURES:
            for library in (lib for lib in peers.LIBRARIES if failures.can(lib, failure)):
                location = folder / library / failure.replace(" ", "-")
                found = failures.run(library, location, failure, given.failures)
                wrong = found.get("torn", found.get("wrong values", "-"))
                more = (found.get("hung", "-"), found.get("failed", "-"))
                yield failure, peers.label(library), found["tried"], wrong, *more

    show(FAILURES, rows())


JOBS = Table(
    "Killed jobs",
    "A job runs in a process that is killed (SIGKILL) at a random time, or just before a random\n"
    "change of its destination; then the same command with `--resume`, up to three times. Looked\n"
    "complete: an array was visible after a kill that was neither the old nor the new one. Wrong:\n"
    "the end was not the same, byte for byte, as without a kill, or other files were left. On\n"
    "Dask, one of three worker processes is killed in the middle, and the job goes on.",
    ("job", "jobs", "kills", "looked complete", "wrong"),
)


def _jobs(folder: Path, given: Given) -> None:
    def rows() -> Rows:
        for number, name in enumerate(jobs.WORKS):
            yield name, *jobs.run(folder / str(number), name, given.jobs).values()
        count = -(-given.jobs // 5)
        yield "a job of two stages on Dask", *jobs.run_on_dask(folder / "dask", count).values()

    show(JOBS, rows())


PARTS: dict[str, Callable[[Path, Given], None]] = {
    "interrupts": _interrupts,
    "exits": _exits,
    "failures": _failures,
    "jobs": _jobs,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of these parts."""
    parser.add_argument("--interrupts", type=int, default=50, help="interrupts of each work")
    parser.add_argument("--exits", type=int, default=20, help="runs of each program that ends")
    parser.add_argument("--jobs", type=int, default=100, help="killed jobs of each kind")
    parser.add_argument("--failures", type=int, default=100, help="tries of each failure")
