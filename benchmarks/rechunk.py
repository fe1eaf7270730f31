"""Measure the time and memory of rechunking planes to columns, compared with other libraries.

``python -m benchmarks.rechunk [--size 4GiB] [--memory 512MB] [--codec blosc] [--rounds 3]
[--packages FOLDER]`` writes an array of float32 in chunks of one plane, (1, N, N), in version 2 of
the format, which all libraries read. In each round, every library rechunks it to (all, 32, 32)
within the memory, in its own process; samples of the result are compared with the source. The
table has the best time, CPU time, which other programs on the machine affect less, and the peak
resident memory of the process, interpreter and libraries included.

TensorStore copies boxes of target chunks that fit into the memory ("one pass"). Its user can also
write two such loops with an array without compression between them, of the same chunks that
omnizarr's planner would choose ("two passes"). cubed and rechunker plan their passes themselves;
they are used if ``pip install --target FOLDER/cubed cubed`` and ``pip install --target
FOLDER/rechunker rechunker`` have put them beside their own zarr.
"""

# ruff: noqa: PLC0415 - a library is imported only in the process that measures it

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 1024  # of a plane
COLUMN = 32  # of a target chunk, along both axes of a plane
CODECS: dict[str, dict[str, Any] | None] = {
    "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "zstd": {"id": "zstd", "level": 1},
    "none": None,
}
Box = tuple[slice, ...]


def make_source(path: Path, planes: int, codec: str) -> None:
    """Write smooth fields with noise, as of a model with two decimals."""
    import omnizarr as oz

    array = oz.create_array(
        path, shape=(planes, SIDE, SIDE), dtype="f4", chunks=(1, SIDE, SIDE), zarr_format=2,
        compressor=CODECS[codec], filters=None,
    )  # fmt: skip
    random = np.random.default_rng(0)
    noise = [random.normal(0, 0.5, (SIDE, SIDE)) for _ in range(8)]
    field = 280 + 20 * np.sin(np.arange(SIDE) / 50)[:, None] * np.cos(np.arange(SIDE) / 70)
    for t in range(planes):
        plane = field + 5 * np.sin(t / 10) + np.roll(noise[t % 8], t, axis=1)
        array[t] = plane.astype("f4").round(2)


def omnizarr(source: Path, target: Path, memory: int, codec: str) -> None:
    import omnizarr as oz

    oz.rechunk(source, target, chunks=(-1, COLUMN, COLUMN), memory=memory)


def boxes(shape: tuple[int, ...], box: tuple[int, ...]) -> Iterator[Box]:
    """Yield the boxes of an array in C order."""
    for start in itertools.product(*(range(0, n, b) for n, b in zip(shape, box, strict=True))):
        yield tuple(slice(a, min(a + b, n)) for a, b, n in zip(start, box, shape, strict=True))


def open_tensorstore(path: Path, shape: Any = None, chunks: Any = None, codec: Any = None) -> Any:
    import tensorstore as ts

    spec: dict[str, Any] = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": str(path)},
        "context": {"cache_pool": {"total_bytes_limit": 0}},
    }
    if shape is None:
        return ts.open(spec).result()
    metadata = {"shape": shape, "chunks": chunks, "dtype": "<f4", "compressor": codec}
    return ts.open({**spec, "metadata": metadata}, create=True, delete_existing=True).result()


def copy_boxes(source: Any, target: Any, box: tuple[int, ...]) -> None:
    for each in boxes(source.shape, box):
        target[each].write(source[each].read().result()).result()


def tensorstore_once(source: Path, target: Path, memory: int, codec: str) -> None:
    old = open_tensorstore(source)
    planes = old.shape[0]
    new = open_tensorstore(target, old.shape, (planes, COLUMN, COLUMN), CODECS[codec])
    rows = memory // 2 // (planes * SIDE * 4) // COLUMN * COLUMN  # the rest is for encoding
    copy_boxes(old, new, (planes, max(COLUMN, rows), SIDE))


def tensorstore_twice(source: Path, target: Path, memory: int, codec: str) -> None:
    old = open_tensorstore(source)
    planes = old.shape[0]
    new = open_tensorstore(target, old.shape, (planes, COLUMN, COLUMN), CODECS[codec])
    chunks = 32, 128, 256
    middle = open_tensorstore(target.with_name("middle"), old.shape, chunks, None)
    some = max(32, memory // 2 // (SIDE * SIDE * 4) // 32 * 32)
    copy_boxes(old, middle, (some, SIDE, SIDE))
    rows = max(128, memory // 2 // (planes * SIDE * 4) // 128 * 128)
    width = SIDE if planes * rows * SIDE * 4 <= memory // 2 else SIDE // 4
    copy_boxes(middle, new, (planes, rows, width))
    shutil.rmtree(target.with_name("middle"))


def cubed(source: Path, target: Path, memory: int, codec: str) -> None:
    import cubed as library

    spec = library.Spec(
        str(target.with_name("work")), allowed_mem=memory // 2, executor_name="threads",
        executor_options={"max_workers": 2}, zarr_compressor=CODECS[codec],
    )  # fmt: skip
    old = library.from_zarr(str(source), spec=spec)
    library.to_zarr(old.rechunk((old.shape[0], COLUMN, COLUMN)), str(target))


def rechunker(source: Path, target: Path, memory: int, codec: str) -> None:
    import dask
    import zarr
    from numcodecs import get_codec
    from rechunker import rechunk

    old = zarr.open_array(str(source), mode="r")
    chosen = CODECS[codec]
    plan = rechunk(
        old, (old.shape[0], COLUMN, COLUMN), memory // 2, str(target),
        target_options={"compressor": get_codec(chosen) if chosen else None},
        temp_store=str(target.with_name("middle")), temp_options={"compressor": None},
    )  # fmt: skip
    with dask.config.set(scheduler="threads", num_workers=2):
        plan.execute()


ACTIONS = {
    "omnizarr": ("omnizarr", omnizarr),
    "tensorstore, one pass": ("tensorstore", tensorstore_once),
    "tensorstore, two passes": ("tensorstore", tensorstore_twice),
    "cubed": ("cubed", cubed),
    "rechunker": ("rechunker", rechunker),
}


def child(name: str, source: Path, target: Path, memory: int, codec: str) -> None:
    """Run once, and print the seconds, CPU seconds and MiB that it took."""
    __import__(ACTIONS[name][0])
    # Not getrusage: its peak is inherited from the parent process.
    Path("/proc/self/clear_refs").write_text("5")
    start, worked = time.perf_counter(), time.process_time()
    ACTIONS[name][1](source, target, memory, codec)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps([seconds, worked, peak]))


def check(source: Path, target: Path) -> None:
    """Raise if samples of a result differ from the source."""
    import omnizarr as oz

    old, new = oz.open_array(source, mode="r"), oz.open_array(target, mode="r")
    if new.chunks != (old.shape[0], COLUMN, COLUMN):
        raise ValueError(f"chunks {new.chunks}")
    for t in (0, old.shape[0] // 3, old.shape[0] - 1):
        if not np.array_equal(old[t, ::61], new[t, ::61]):
            raise ValueError(f"plane {t} differs")


def run(name: str, folder: Path, options: argparse.Namespace, memory: int) -> list[float] | None:
    """Return what one run of a library took, or None if it failed."""
    work = folder / "run"
    work.mkdir()
    command = [sys.executable, "-m", "benchmarks.rechunk", "--child", name]
    environment = dict(os.environ)
    own = options.packages and options.packages / ACTIONS[name][0]
    if own and own.exists():
        environment["PYTHONPATH"] = str(own)
    arguments = [folder / "source.zarr", work / "target", memory, options.codec]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    try:
        if done.returncode:
            print(f"{name}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
            return None
        check(folder / "source.zarr", work / "target")
    finally:
        shutil.rmtree(work)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="4GiB")
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--codec", choices=CODECS, default="blosc")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--folder", help="where to write, if not in the folder for temporary files")
    parser.add_argument("--only", action="append", choices=ACTIONS)
    parser.add_argument("--child", nargs=5)
    options = parser.parse_args()
    if options.child:
        name, source, target, memory, codec = options.child
        child(name, Path(source), Path(target), int(memory), codec)
        return
    from omnizarr.config import byte_size

    size, memory = byte_size(options.size, "size"), byte_size(options.memory, "memory")
    planes = max(1, size // (SIDE * SIDE * 4))
    names = [
        name
        for name, (package, _) in ACTIONS.items()
        if find_spec(package) or (options.packages and (options.packages / package).exists())
    ]
    names = options.only or names
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        make_source(Path(folder, "source.zarr"), planes, options.codec)
        print(f"wrote {planes} planes", file=sys.stderr, flush=True)
        for name in names * options.rounds:
            result = run(name, Path(folder), options, memory)
            if result is not None:
                found[name].append(result)
                print(name, *(f"{number:.1f}" for number in result), file=sys.stderr, flush=True)
    shape = (planes, SIDE, SIDE)
    print(f"{shape} float32, {options.codec}, (1, N, N) to (all, {COLUMN}, {COLUMN}),")
    print(f"within {options.memory}, best of {options.rounds}")
    show(found)


def show(found: dict[str, list[list[float]]]) -> None:
    """Print a table with the best times and the largest memory."""
    print("| | s | CPU s | times omnizarr's | times omnizarr's CPU | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    own = [min(column) for column in zip(*found.get("omnizarr", []), strict=True)]
    for name, runs in found.items():
        if not runs:
            continue
        seconds, worked, _ = map(min, zip(*runs, strict=True))
        times = f"{seconds / own[0]:.1f} | {worked / own[1]:.1f}" if own else " | "
        peak = max(each[2] for each in runs)
        print(f"| {name} | {seconds:.1f} | {worked:.1f} | {times} | {peak:.0f} |")


if __name__ == "__main__":
    main()
