"""Measure verification at its three depths, compared with reading everything.

``python -m benchmarks.verify [--gigabytes 1] [--rounds 2] [--no-peers]`` writes a volume of uint16
in several layouts. In each round, every action runs in its own process: `verify` at each depth, a
plain read of the whole array, and zarr-python reading it slab by slab. The table has decoded
gigabytes per second by the best time and by CPU time, which other programs on the machine affect
less, and the peak memory beyond that of importing the library. Files are read from the page cache.
"""

# ruff: noqa: PLC0415 - a library is imported only in the process that measures it

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.runs import Run

SIDE = 1024  # of the last two axes
SLAB = 64  # planes that are written, and read by zarr-python, at a time
LAYOUTS: dict[str, dict[str, Any]] = {
    "blosc, chunks of 2 MiB": {"chunks": (64, 128, 128)},
    "blosc, chunks of 64 KiB": {"chunks": (32, 32, 32)},
    "blosc, 64 KiB in shards of 16 MiB": {"chunks": (32, 32, 32), "shards": (128, 256, 256)},
    "no compression, chunks of 2 MiB": {"chunks": (64, 128, 128), "compressors": None},
}


def make_source(path: Path, gigabytes: float, options: dict[str, Any]) -> None:
    """Write noise around a mean, one slab at a time."""
    import omnizarr as oz

    planes = max(SLAB, round(gigabytes * 1e9 / (2 * SIDE * SIDE) / SLAB) * SLAB)
    array = oz.create_array(path, shape=(planes, SIDE, SIDE), dtype="u2", **options)
    slab = np.random.default_rng(0).normal(1000, 60, (SLAB, SIDE, SIDE)).astype("u2")
    with array.writer() as writer:
        for z in range(0, planes, SLAB):
            writer[z : z + SLAB] = slab + np.uint16(z)


def verify(depth: Any, source: Path) -> None:
    import omnizarr as oz

    report = oz.verify(source, depth=depth)
    if report.findings:
        raise SystemExit(str(report))


def read(source: Path) -> None:
    import omnizarr as oz

    oz.open(source)[...]


def read_zarr_python(source: Path) -> None:
    import zarr

    array: Any = zarr.open_array(source, mode="r")
    for z in range(0, array.shape[0], SLAB):
        array[z : z + SLAB]


ACTIONS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "verify, present": ("omnizarr", partial(verify, "present")),
    "verify, checksums": ("omnizarr", partial(verify, "checksums")),
    "verify, decode": ("omnizarr", partial(verify, "decode")),
    "read all": ("omnizarr", read),
    "zarr-python, read all": ("zarr", read_zarr_python),
}


def child(name: str, source: Path) -> None:
    """Run once, and print what it took."""
    import omnizarr as oz

    package, action = ACTIONS[name]
    __import__(package)
    tiny = source.parent / "tiny.zarr"
    oz.create_array(tiny, shape=(SLAB, 8, 8), dtype="u2", overwrite=True)[...] = 1
    action(tiny)  # loads modules that are imported on first use
    runs.measure(lambda: action(source))


def measure(source: Path, names: list[str], rounds: int) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {name: [] for name in names}
    for name in names * rounds:
        run = runs.start("benchmarks.verify", name, source)
        if run is not None:
            found[name].append(run)
    return found


def show(layout: str, stored: int, nbytes: int, found: dict[str, list[Run]]) -> None:
    """Print the rows of one layout."""
    print(f"\n{layout}: {nbytes / 1e9:.2f} GB, {stored / 1e9:.2f} GB stored\n")
    print("| action | GB/s | GB per CPU second | peak memory, MiB |")
    print("| --- | ---: | ---: | ---: |")
    for name in filter(found.get, found):
        best = runs.best(found[name])
        rate, cpu = nbytes / 1e9 / best.seconds, nbytes / 1e9 / best.cpu
        print(f"| {name} | {rate:.2f} | {cpu:.2f} | {best.extra:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    packages = {"omnizarr", "zarr"} if options.peers else {"omnizarr"}
    names = [n for n, (package, _) in ACTIONS.items() if package in packages and find_spec(package)]
    for layout, given in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "source.zarr")
            make_source(source, options.gigabytes, given)
            import omnizarr as oz

            array = oz.open(source)
            stored = array.nbytes_stored()
            show(layout, stored, array.nbytes, measure(source, names, options.rounds))


if __name__ == "__main__":
    main()
