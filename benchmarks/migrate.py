"""Measure the time and memory of migrating metadata from version 2 to 3, compared with zarr-python.

``python -m benchmarks.migrate [--arrays 1000] [--rounds 3] [--no-peers] [--folder DIR]`` writes a
hierarchy of version 2: groups of 50 arrays, each with attributes and four small chunks. In each
round, every program migrates a new copy of it once, one after the other in an order that changes,
each in its own process, after a ``sync``. No program reads or writes a chunk:

- in place: metadata of version 3 are added beside those of version 2;
- documents elsewhere: zarr-python writes metadata without chunks to another folder;
- as a command: in place by ``omnizarr convert`` and ``zarr migrate v3``, imports included.

The result is checked after each run: the number of documents, and values of samples where there are
chunks. The table has the best time, arrays per second, CPU time, which other programs on the
machine affect less, and the peak memory beyond that before the migration: with libraries for
commands, without them for the others.
"""

# ruff: noqa: PLC0415 - a library is imported only in the process that measures it

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.runs import Run

IN_GROUP = 50  # arrays
SIDE = 64  # of an array, in four chunks


def values(number: int) -> Any:
    """Return the values of an array."""
    return np.arange(SIDE * SIDE, dtype="f4").reshape(SIDE, SIDE) + number


def make_source(path: Path, arrays: int) -> None:
    """Write arrays of version 2 in groups, without consolidated metadata."""
    import omnizarr as oz

    root = oz.create_group(path, zarr_format=2, attributes={"title": "benchmark"})
    for number in range(arrays):
        if number % IN_GROUP == 0:
            group = root.create_group(f"g{number // IN_GROUP}", attributes={"run": number})
        array = group.create_array(
            f"a{number}", shape=(SIDE, SIDE), dtype="f4", chunks=(SIDE // 2, SIDE // 2),
            attributes={"units": "K", "long_name": f"variable {number}", "scale": [1, 2.5]},
        )  # fmt: skip
        array[...] = values(number)


def check(path: Path, arrays: int, chunks: bool) -> None:
    """Raise if documents of version 3 are missing, or values differ."""
    import omnizarr as oz

    expected = 1 + arrays + -(-arrays // IN_GROUP)
    found = sum(1 for _ in path.rglob("zarr.json"))
    if found != expected:
        raise ValueError(f"{found} documents, not {expected}")
    for number in {0, arrays // 2, arrays - 1} if chunks else ():
        array: Any = oz.open(path / f"g{number // IN_GROUP}/a{number}", mode="r", zarr_format=3)
        if not np.array_equal(array[...], values(number)):
            raise ValueError(f"array {number} differs")


def omnizarr(source: Path, target: Path) -> None:
    import omnizarr as oz

    oz.convert(source, in_place=True)


def omnizarr_command(source: Path, target: Path) -> None:
    from omnizarr.cli.main import main

    try:
        main(["convert", str(source), "--in-place"], standalone_mode=False)
    except SystemExit as e:
        if e.code:
            raise


def zarr_python(source: Path, target: Path | None) -> None:
    from zarr.metadata.migrate_v3 import migrate_v2_to_v3
    from zarr.storage import LocalStore

    output = None if target is None else LocalStore(target)
    migrate_v2_to_v3(input_store=LocalStore(source), output_store=output)


def zarr_python_in_place(source: Path, target: Path) -> None:
    zarr_python(source, None)


def zarr_python_command(source: Path, target: Path) -> None:
    from zarr._cli.cli import app

    app(["migrate", "v3", str(source)], standalone_mode=False)


Action = Callable[[Path, Path], None]
# Each program: the module that it needs, what it does, and where the result is.
ACTIONS: dict[str, tuple[str, Action, str]] = {
    "omnizarr, in place": ("omnizarr", omnizarr, "source"),
    "zarr-python, in place": ("zarr.metadata.migrate_v3", zarr_python_in_place, "source"),
    "zarr-python, documents elsewhere": ("zarr.metadata.migrate_v3", zarr_python, "documents"),
    "omnizarr convert --in-place": ("omnizarr", omnizarr_command, "source"),
    "zarr migrate v3": ("typer", zarr_python_command, "source"),
}
COMMANDS = ("omnizarr convert --in-place", "zarr migrate v3")


def available(peers: bool) -> list[str]:
    """Return the programs that are installed."""

    def found(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except ModuleNotFoundError:  # the package of the module
            return False

    return [n for n, (need, *_) in ACTIONS.items() if (peers or need == "omnizarr") and found(need)]


def child(name: str, source: Path, target: Path) -> None:
    """Run once, and print what it took."""
    action = ACTIONS[name][1]
    if name not in COMMANDS:
        tiny = Path(tempfile.mkdtemp(dir=target.parent))
        make_source(tiny / "a", 1)
        action(tiny / "a", tiny / "b")  # loads modules that are imported on first use
    runs.measure(lambda: action(source, target))


def run(name: str, folder: Path, number: int, arrays: int) -> Run | None:
    """Return what one migration took, or None after printing why it failed."""
    work = folder / f"{number}-{name.replace(' ', '')}"
    paths = {"source": work / "source", "target": work / "target"}
    paths["documents"] = paths["target"]
    shutil.copytree(folder / "original", paths["source"])
    os.sync()
    found = runs.start("benchmarks.migrate", name, paths["source"], paths["target"])
    if found is not None:
        result = ACTIONS[name][2]
        check(paths[result], arrays, chunks=result != "documents")
    return found


def show(found: dict[str, list[Run]], arrays: int, rounds: int) -> None:
    """Print a table with the best times and the largest memory."""
    print(f"{arrays} arrays of version 2 to version 3, best of {rounds}\n")
    print("| | s | arrays/s | CPU s | extra MiB |")
    print("| --- | --- | --- | --- | --- |")
    for name in filter(found.get, found):
        best = runs.best(found[name])
        print(
            f"| {name} | {best.seconds:.2f} | {arrays / best.seconds:.0f} | {best.cpu:.2f} |"
            f" {best.extra:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        name, source, target = options.child
        child(name, Path(source), Path(target))
        return
    names = available(options.peers)
    found: dict[str, list[Run]] = {name: [] for name in names}
    # Copies are removed at the end only: see benchmarks/copy.py.
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        make_source(Path(folder, "original"), options.arrays)
        for number in range(options.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                result = run(name, Path(folder), number, options.arrays)
                if result is not None:
                    found[name].append(result)
    show(found, options.arrays, options.rounds)


if __name__ == "__main__":
    main()
