"""``python -m benchmarks.hierarchies``: consolidated metadata of many nodes, and large chunk grids.

Every question runs in a process of its own; the memory is what it has gained at most.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import omnizarr as oz

GROUPS = 100  # below the root; the arrays are spread over them


def make(path: Path, zarr_format: int, count: int) -> None:
    """Store a hierarchy of arrays that differ in shape and attributes."""
    root = oz.create_group(path, zarr_format=zarr_format)
    root.create_array(
        "pattern", shape=(10, 20), chunks=(10, 10), dtype="f4", attributes={"number": 0}
    )
    documents = {file.name: file.read_text() for file in (path / "pattern").iterdir()}
    del root["pattern"]
    for number in range(GROUPS):
        root.create_group(f"g{number:03}")
    for number in range(count - GROUPS):
        folder = path / f"g{number % GROUPS:03}" / f"a{number:06}"
        folder.mkdir()
        for name, text in documents.items():
            (folder / name).write_text(text.replace('"number": 0', f'"number": {number}'))


def consolidate(path: Path) -> None:
    """Consolidate."""
    oz.consolidate_metadata(path)


def open_group(path: Path) -> None:
    """Open the group, without its consolidated metadata."""
    oz.open(path)


def open_one(path: Path) -> None:
    """Open one array by the consolidated metadata."""
    group = oz.open(path, use_consolidated=True)
    _check(group["g007/a000107"].attrs["number"] == 107)


def list_all(path: Path) -> None:
    """List one group by the consolidated metadata."""
    group = oz.open(path, use_consolidated=True)
    _check(len(list(group["g007"])) > 1)


def change_one(path: Path) -> None:
    """Change the attributes of one array."""
    oz.open(path, "r+", path="g007/a000107").attrs["changed"] = True
    _check_entry(path, "g007/a000107")


def add_one(path: Path) -> None:
    """Add one array."""
    oz.open(path, "r+").create_array("g007/new", shape=(3,), dtype="i4")
    _check_entry(path, "g007/new")


def add_many(path: Path) -> None:
    """Add 100 arrays in one call."""
    array = oz.create_array(None, shape=(3,), dtype="i4").metadata
    group = oz.open(path, "r+")
    found = dict(group.create_hierarchy({f"g008/new{n}": array for n in range(100)}))
    _check(len(found) >= 100)
    _check_entry(path, "g008/new99")


def chunks_present(path: Path) -> None:
    """List the stored chunks of an array with 10⁹ possible ones."""
    array = oz.create_array(path / "grid", shape=(10**9,), chunks=(1,), dtype="i4")
    array[[5, 10**6, 10**9 - 1]] = 1
    _check(len(list(array.stored_chunks())) == 3)


QUESTIONS: dict[str, Callable[[Path], None]] = {
    "consolidate": consolidate,
    "open the group": open_group,
    "open one array by them": open_one,
    "list a group by them": list_all,
    "change one array": change_one,
    "add one array": add_one,
    "add 100 arrays in one call": add_many,
    "stored chunks of a grid of 10⁹": chunks_present,
}


def _check_entry(path: Path, name: str) -> None:
    """Raise unless the document has an entry for the node; the time is not measured."""
    data = (path / ("zarr.json" if (path / "zarr.json").exists() else ".zmetadata")).read_bytes()
    if name.encode() not in data:
        print(f"# {name!r} is not in the consolidated metadata of {len(data)} bytes", flush=True)


def _check(good: bool) -> None:
    if not good:
        raise RuntimeError("the answer is wrong")


def ask(question: str, path: Path) -> None:
    """Print the seconds and MiB that one question needs; run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:  # everything is imported
        make(Path(folder), 3, GROUPS + 200)
        for some in (consolidate, open_one, change_one, add_one, add_many):
            some(Path(folder))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, used = time.perf_counter(), time.process_time()
    QUESTIONS[question](path)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    gained = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{seconds:.2f} {cpu:.2f} {gained:.0f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hierarchies", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--ask", choices=QUESTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask is not None:
        ask(given.ask, given.path)
        return
    print("| zarr | question | seconds | processor time (s) | memory gained (MiB) |")
    print("| --- | --- | --- | --- | --- |")
    folder = Path(tempfile.mkdtemp())
    try:
        for zarr_format in (3, 2):
            path = folder / f"{zarr_format}.zarr"
            make(path, zarr_format, given.nodes)
            for question in QUESTIONS:
                run = subprocess.run(
                    [sys.executable, "-m", "benchmarks.hierarchies",
                     "--ask", question, "--path", str(path)],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                seconds, cpu, memory = run.stdout.split("\n")[-2].split()
                print(f"| {zarr_format} | {question} | {seconds} | {cpu} | {memory} |", flush=True)
                for line in (*run.stdout.split("\n")[:-2], *run.stderr.splitlines()):
                    print(line)
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
