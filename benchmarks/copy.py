"""Measure the time and memory of copying a hierarchy in a directory, compared with ``cp -r``.

``python -m benchmarks.copy [--files 50000] [--gigabytes 4] [--rounds 3] [--folder DIR]`` writes two
arrays: many chunks of 4 KB, and few of 16 MB. In each round, every program copies them once, one
after the other in an order that changes, each in its own process and to a new folder, after a
``sync``. The table has the best time, the rate, the rate as a multiple of that of ``cp -r``, the
CPU time (which other programs on the machine affect less), and the peak memory beyond that of
importing the library. zarr-python copies key by key from store to store, with as many requests at a
time as it has by default, and array by array.

Copies are removed at the end only: a file system such as ext4 avoids the numbers of files that were
just removed, which slows down whoever creates files next.
"""

# ruff: noqa: PLC0415 - a library is imported only in the process that measures it

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.runs import Run

NEEDS = {"cp -r": "", "omnizarr": "omnizarr", "omnizarr --verify": "omnizarr",
         "omnizarr --update": "omnizarr", "zarr-python, by key": "zarr",
         "zarr-python, by array": "zarr"}  # fmt: skip
SMALL, LARGE = 4096, 2**24


def make_source(path: Path, count: int, nbytes: int) -> None:
    """Write an array of random bytes, in a grid of chunks with 250 rows at most."""
    import omnizarr as oz

    columns = max(1, count // 250)
    rows = count // columns
    array = oz.create_group(path).create_array(
        "a", shape=(rows, columns * nbytes), dtype="u1", chunks=(1, nbytes), compressors=None
    )
    random = np.random.default_rng(0)
    for row in range(rows):
        for start in range(0, columns, 64):
            width = min(64, columns - start) * nbytes
            begin = start * nbytes
            array[row, begin : begin + width] = random.integers(1, 256, width, "u1")


def omnizarr(source: Path, target: Path) -> None:
    import omnizarr as oz

    oz.copy(source, target)


def omnizarr_verified(source: Path, target: Path) -> None:
    import omnizarr as oz

    oz.copy(source, target, verify=True)


def omnizarr_update(source: Path, target: Path) -> None:
    """Update a copy in which nothing differs."""
    import omnizarr as oz

    oz.copy(source, target, update=True)


def zarr_by_key(source: Path, target: Path) -> None:
    import zarr
    from zarr.core.buffer import default_buffer_prototype

    old: Any = zarr.storage.LocalStore(source)
    new: Any = zarr.storage.LocalStore(target)
    kind = default_buffer_prototype()

    async def copy() -> None:
        limit = asyncio.Semaphore(zarr.config.get("async.concurrency"))

        async def one(key: str) -> None:
            async with limit:
                await new.set(key, await old.get(key, kind))

        await asyncio.gather(*[one(key) async for key in old.list()])

    asyncio.run(copy())


def zarr_by_array(source: Path, target: Path) -> None:
    import zarr

    old, new = zarr.open_group(source, mode="r"), zarr.open_group(target, mode="w")
    for name, array in old.arrays():
        new.create_array(name, data=array, chunks=array.chunks, compressors=None)


ACTIONS = {"omnizarr": omnizarr, "omnizarr --verify": omnizarr_verified,
           "omnizarr --update": omnizarr_update, "zarr-python, by key": zarr_by_key,
           "zarr-python, by array": zarr_by_array}  # fmt: skip


def child(name: str, source: Path, target: Path) -> None:
    """Run once, and print what it took."""
    tiny = Path(tempfile.mkdtemp(dir=target.parent))
    make_source(tiny / "a", 4, 16)
    if name == "omnizarr --update":
        omnizarr(tiny / "a", tiny / "b")
    ACTIONS[name](tiny / "a", tiny / "b")  # loads modules that are imported on first use
    runs.measure(lambda: ACTIONS[name](source, target))


def cp(source: Path, target: Path) -> Run:
    """Run ``cp -r``, and return what it took."""
    start = time.perf_counter()
    process = subprocess.Popen(["cp", "-r", str(source), str(target)])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("cp failed")
    # Its memory is small, and the system reports that of this process, which started it.
    return Run(time.perf_counter() - start, used.ru_utime + used.ru_stime, 0, 0)


def run(name: str, source: Path, target: Path) -> Run | None:
    """Return what one copy took, or None after printing why it failed."""
    if name == "cp -r":
        return cp(source, target)
    return runs.start("benchmarks.copy", name, source, target)


def rotated(names: list[str], by: int) -> list[str]:
    """Return the names in another order in each round, an update after the copy that it updates."""
    others = [name for name in names if name != "omnizarr --update"]
    by %= len(others)
    turned = others[by:] + others[:by]
    return turned + [name for name in names if name not in turned]


def measure(folder: Path, source: Path, names: list[str], rounds: int) -> dict[str, list[Run]]:
    """Return the measurements of each program, taken in turns."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds):
        for name in rotated(names, number):
            target = folder / f"{source.name}-{number}-{name.replace(' ', '')}"
            if name == "omnizarr --update":
                target = folder / f"{source.name}-{number}-omnizarr"  # which was just copied
            os.sync()  # what the one before has written is not left to this one
            result = run(name, source, target)
            if result is not None:
                found[name].append(result)
    return found


def show(title: str, nbytes: int, found: dict[str, list[Run]]) -> None:
    """Print a table with the best times and the largest memory."""
    print(f"\n{title}\n\n| | s | MB/s | times cp -r | CPU s | extra MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    fastest = runs.best(found["cp -r"]).seconds
    for name in filter(found.get, found):
        best = runs.best(found[name])
        print(
            f"| {name} | {best.seconds:.2f} | {nbytes / best.seconds / 1e6:.0f} |"
            f" {fastest / best.seconds:.2f} | {best.cpu:.2f} | {best.extra:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        name, source, target = options.child
        child(name, Path(source), Path(target))
        return
    wanted = {n: p for n, p in NEEDS.items() if options.peers or p != "zarr"}
    names = [name for name, package in wanted.items() if not package or find_spec(package)]
    large = int(options.gigabytes * 1e9 / LARGE)
    cases = {"small": (options.files, SMALL), "large": (large, LARGE)}
    for case, (count, nbytes) in cases.items():
        if not count:
            continue
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            source = folder / case
            make_source(source, count, nbytes)
            total = sum(f.stat().st_size for f in source.rglob("*") if f.is_file())
            title = f"{count} chunks of {nbytes / 1000:g} kB, best of {options.rounds}"
            show(title, total, measure(folder, source, names, options.rounds))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
