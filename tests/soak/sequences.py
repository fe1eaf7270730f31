"""Random sequences of operations compared with NumPy, with new seeds until time runs out.

``python -m tests.soak.sequences --seconds 600 --seed 7`` prints every failure with what makes it
again, goes on, and ends with a line of JSON: what was done how often, and the failures.
``--again SEED`` runs one of the seeds alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import secrets
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from omnizarr.errors import OmnizarrWarning, StoreError
from tests.property.machine import Machine
from tests.soak.page import Table, show

Given: TypeAlias = argparse.Namespace
EXAMPLES, STEPS = 20, 25  # of each seed
SHRINKING = 30  # seconds, the longest for one failure


def once(
    number: int, examples: int = EXAMPLES, steps: int = STEPS, machine: Any = Machine
) -> str | None:
    """Run the sequences of one seed and return the report of a failure."""
    engine.MAX_SHRINKING_SECONDS = SHRINKING
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(number)(machine), settings=chosen)
    except Exception as e:
        return "".join(traceback.format_exception(e))
    return None


def cause(report: str) -> str:
    """Return the last calls of library and tests in a report, to distinguish failures."""
    calls = re.findall(r'File ".*/(?:omnizarr|tests)/([^"]*)", line (\d+), in (\w+)', report)
    return " > ".join(f"{file}:{line} {name}" for file, line, name in calls[-4:])


def _ignore_store_errors(unraisable: Any) -> None:
    """Ignore warnings about archives that were replaced while stores had unwritten changes."""
    if not isinstance(unraisable.exc_value, StoreError):
        sys.__unraisablehook__(unraisable)


def run(seconds: float, first: int) -> tuple[Counter[str], dict[str, int]]:
    """Run new seeds until time runs out; return a tally, and failures with their counts."""
    warnings.simplefilter("error", OmnizarrWarning)
    warnings.simplefilter("error", RuntimeWarning)
    sys.unraisablehook = _ignore_store_errors
    chance, end = random.Random(first), time.monotonic() + seconds
    found: dict[str, int] = {}
    while time.monotonic() < end:
        number = chance.randrange(2**32)
        print(f"seed {number}", flush=True)  # for a process that ends in the middle
        report = once(number)
        if report is not None:
            name = cause(report)
            found[name] = found.get(name, 0) + 1
            if found[name] == 1:
                print(f"seed {number}:\n{report}", file=sys.stderr, flush=True)
    return Machine.tally, found


SEQUENCES = Table(
    "Random sequences of operations",
    "Sequences of operations on hierarchies of every format in every kind of store, compared with\n"
    "NumPy arrays and dictionaries after each operation, with both engines in turn and through\n"
    "other handles, paths and stores of the same data. Among them: nodes replaced by themselves,\n"
    "files replaced under open stores, changes to every returned object, interrupts during\n"
    "writes, conversions to another format and back, and other libraries as readers and\n"
    "writers. Failures: distinct failures, printed as they occurred.",
    ("what", "number"),
)


def _part(folder: Path, given: Given) -> None:
    """Run in several processes, each with its own seeds."""
    tally: Counter[str] = Counter()
    failures: set[str] = set()

    def work() -> None:
        end = time.monotonic() + given.sequences
        while (left := end - time.monotonic()) > 0:
            command = [sys.executable, "-m", "tests.soak.sequences", "--seconds", str(left)]
            done = subprocess.run(
                [*command, "--seed", str(secrets.randbits(32))],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                env={**os.environ, "TMPDIR": str(folder)},
            )
            last = (done.stdout.splitlines() or ["nothing"])[-1]
            if done.returncode:
                failures.add(f"a process ended with {done.returncode} at {last}")
                print(*failures, sep="\n", flush=True)
                continue
            found = json.loads(last)
            tally.update(found["tally"])
            failures.update(found["found"])

    threads = [threading.Thread(target=work) for _ in range(given.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def rows() -> Iterator[tuple[Any, ...]]:
        yield "seconds, processes", f"{given.sequences:g}, {given.processes}"
        yield from sorted(tally.items())
        yield "failures", len(failures)

    show(SEQUENCES, rows())


PARTS: dict[str, Callable[[Path, Given], None]] = {"sequences": _part}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "--sequences", type=float, default=3600.0, help="seconds of random sequences"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.sequences", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=int, metavar="SEED")
    parser.add_argument("--without", nargs="*", default=[], help="rules to leave out")
    given = parser.parse_args()
    for name in given.without:
        setattr(Machine, name, None)
    if given.again is not None:
        warnings.simplefilter("error", OmnizarrWarning)
        print(once(given.again) or "nothing was wrong")
        return
    tally, found = run(given.seconds, given.seed)
    print(json.dumps({"tally": tally, "found": found}))


if __name__ == "__main__":
    main()
