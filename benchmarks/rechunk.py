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
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.runs import Run

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
        path,
        shape=(planes, SIDE, SIDE),
        dtype="f4",
        chunks=(1, SIDE, SIDE),
        zarr_format=2,
        compressors=CODECS[codec],
        filters=None,
    )
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
    """Run once, and print what it took."""
    __import__(ACTIONS[name][0])
    runs.measure(lambda: ACTIONS[name][1](source, target, memory, codec))


def check(source: Path, target: Path) -> None:
    """Raise if samples of a result differ from the source."""
    import omnizarr as oz

    old, new = oz.open(source, mode="r"), oz.open(target, mode="r")
    if new.chunks != (old.shape[0], COLUMN, COLUMN):
        raise ValueError(f"chunks {new.chunks}")
    for t in (0, old.shape[0] // 3, old.shape[0] - 1):
        if not np.array_equal(old[t, ::61], new[t, ::61]):
            raise ValueError(f"plane {t} differs")


def run(name: str, folder: Path, options: argparse.Namespace, memory: int) -> Run | None:
    """Return what one run of a library took, or None if it failed."""
    work = folder / "run"
    work.mkdir()
    source, target = folder / "source.zarr", work / "target"
    own = options.packages and options.packages / ACTIONS[name][0]
    packages = {"PYTHONPATH": str(own)} if own and own.exists() else {}
    arguments = source, target, memory, options.codec
    try:
        found = runs.start("benchmarks.rechunk", name, *arguments, environment=packages)
        if found is not None:
            check(source, target)
    finally:
        shutil.rmtree(work)
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
    found: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        make_source(Path(folder, "source.zarr"), planes, options.codec)
        print(f"wrote {planes} planes", file=sys.stderr, flush=True)
        for name in names * options.rounds:
            result = run(name, Path(folder), options, memory)
            if result is not None:
                found[name].append(result)
                figures = result.seconds, result.cpu, result.peak
                print(name, *(f"{number:.1f}" for number in figures), file=sys.stderr, flush=True)
    shape = (planes, SIDE, SIDE)
    print(f"{shape} float32, {options.codec}, (1, N, N) to (all, {COLUMN}, {COLUMN}),")
    print(f"within {options.memory}, best of {options.rounds}")
    show(found)


def show(found: dict[str, list[Run]]) -> None:
    """Print a table with the best times and the largest memory."""
    print("| | s | CPU s | times omnizarr's | times omnizarr's CPU | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    own = runs.best(found["omnizarr"]) if found.get("omnizarr") else None
    for name in filter(found.get, found):
        best = runs.best(found[name])
        times = f"{best.seconds / own.seconds:.1f} | {best.cpu / own.cpu:.1f}" if own else " | "
        print(f"| {name} | {best.seconds:.1f} | {best.cpu:.1f} | {times} | {best.peak:.0f} |")


if __name__ == "__main__":
    main()
