"""Operations in a process whose memory runs out at the first, the second, … allocation.

``python -m tests.soak.memory FOLDER OPERATION ENGINE LEAST STEP`` runs in an interpreter of its
own, under a library that makes allocations fail (`failing_memory.c`).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import omnizarr as oz
from omnizarr.errors import OmnizarrError
from tests.soak.operations import OPERATIONS, elements, finish, torn

ENGINES = ("auto", "reference")
SOURCE = Path(__file__).with_name("failing_memory.c")


def build(folder: Path) -> Path | None:
    """The library, or None where there is no compiler for it."""
    compiler, made = shutil.which("cc"), folder / "failing_memory.so"
    if compiler is None or sys.platform != "linux":
        return None
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return made if done.returncode == 0 else None


def run(
    library: Path, folder: Path, operation: str, engine: str, least: int, step: int = 1
) -> dict[str, Any]:
    """How many allocations failed, and what came of it: errors, right results, and else."""
    words = [str(folder), operation, engine, str(least), str(step)]
    command = [sys.executable, "-m", "tests.soak.memory", *words]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3600, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{operation} {engine}: {done.returncode}: {done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(folder: str, operation: str, engine: str, least: str, step: str) -> None:
    warnings.simplefilter("ignore")
    oz.config.set(engine=engine, threads=4)
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.fail_from.argtypes = [ctypes.c_long, ctypes.c_size_t, ctypes.c_int]
    library.fail_no_more.restype = ctypes.c_long
    make = OPERATIONS[operation]
    steps = make(Path(folder) / "first")
    finish(steps, next(steps)())
    counts = {"failed": 0, "errors": 0, "right": 0}
    wrong: list[str] = []
    for and_after in (0, 1):
        number = 0
        while True:
            place = Path(folder) / f"{and_after}-{number}"
            steps = make(place)
            act = next(steps)
            old = elements(place)
            error = found = None
            library.fail_from(number, int(least), and_after)
            try:
                found = act()
            except (MemoryError, OmnizarrError) as e:
                error = e
            except BaseException as e:
                library.fail_no_more()
                raise AssertionError(f"allocation {number}, {and_after}") from e
            failed = library.fail_no_more()
            if error is not None:
                between = elements(place)
                found = act()
                names = torn(old, between, elements(place))
                wrong += [f"{number}, {and_after}: {name} is torn" for name in names]
                if not str(error):
                    wrong.append(f"{number}, {and_after}: {type(error).__name__} without words")
            finish(steps, found)
            shutil.rmtree(place)
            counts["failed"] += bool(failed)
            counts["errors" if error is not None else "right"] += bool(failed)
            if not failed:
                break
            number += int(step)
    print(json.dumps({**counts, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
