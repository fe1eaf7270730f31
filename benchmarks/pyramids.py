"""Measure the time and memory of building an image pyramid, compared with a plain copy.

``python -m benchmarks.pyramids [--side 512] [--rounds 3] [--no-peers]`` writes a volume of uint16
in chunks of 64³. In each round, every library makes an OME-Zarr 0.5 image with five levels from it,
in its own process. The table has the best time, as a multiple of the plain copy too; the same for
CPU time, which other programs on the machine affect less; and the peak memory beyond that of
importing the library. Needs ome-zarr and ngff-zarr besides omnizarr; a library that is not
installed is left out.
"""

# ruff: noqa: PLC0415 - a library is imported only in the process that measures it

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks import runs
from benchmarks.runs import Run

CHUNK = 64
LEVELS = 5
NEEDS = {"plain copy": "omnizarr", "omnizarr": "omnizarr", "ome-zarr-py": "ome_zarr",
         "ngff-zarr": "ngff_zarr"}  # fmt: skip


def make_source(path: Path, side: int) -> None:
    """Write smooth structures with photon noise, one slab at a time, with equal noise in each."""
    import omnizarr as oz

    array = oz.create_array(path, shape=(side,) * 3, dtype="u2", chunks=(CHUNK,) * 3)
    random = np.random.default_rng(0)
    wave = np.sin(np.arange(side) / 20)
    plane = 1000 + 300 * wave[:, None] * wave[None, :]
    slab = plane.astype("u2") + random.poisson(20, (CHUNK, side, side)).astype("u2")
    for z in range(0, side, CHUNK):
        array[z : z + CHUNK] = slab[: side - z]


def plain_copy(source: Path, target: Path) -> None:
    import omnizarr as oz
    from omnizarr.bulk.pyramid import UNIT_BYTES, unit_shape

    old = oz.open(source)
    new = oz.create_array(target, shape=old.shape, dtype=old.dtype, chunks=old.chunks)
    unit = unit_shape(new, [], UNIT_BYTES)
    for start in itertools.product(*(range(0, n, u) for n, u in zip(old.shape, unit, strict=True))):
        box = tuple(slice(a, a + u) for a, u in zip(start, unit, strict=True))
        new[box] = old[box]


def omnizarr(source: Path, target: Path) -> None:
    import omnizarr as oz

    oz.ome.write(target, source, axes="zyx", levels=LEVELS, chunks=(CHUNK,) * 3)


def ome_zarr_py(source: Path, target: Path) -> None:
    import dask.array as da
    import zarr
    from ome_zarr.writer import write_image

    data = da.from_zarr(str(source))
    factors = [{"z": 2**i, "y": 2**i, "x": 2**i} for i in range(1, LEVELS)]
    write_image(
        data, zarr.open_group(target, mode="w"), axes="zyx", scale_factors=factors,
        storage_options={"chunks": (CHUNK,) * 3},
    )  # fmt: skip


def ngff_zarr(source: Path, target: Path) -> None:
    import dask.array as da
    import ngff_zarr as nz

    image = nz.to_ngff_image(da.from_zarr(str(source)), dims=["z", "y", "x"])
    factors = [2**i for i in range(1, LEVELS)]
    several = nz.to_multiscales(image, scale_factors=factors, chunks=CHUNK)
    nz.to_ngff_zarr(target, several, version="0.5")


ACTIONS = {"plain copy": plain_copy, "omnizarr": omnizarr, "ome-zarr-py": ome_zarr_py,
           "ngff-zarr": ngff_zarr}  # fmt: skip


def child(name: str, source: Path, target: Path) -> None:
    """Run once, and print what it took."""
    __import__(NEEDS[name])
    import omnizarr as oz

    tiny = target.parent / "tiny"
    oz.create_array(tiny, shape=(CHUNK,) * 3, dtype="u2", chunks=(CHUNK,) * 3)[...] = 1
    other = target.parent / "tiny-target"
    ACTIONS[name](tiny, other)  # loads modules that are imported on first use
    runs.measure(lambda: ACTIONS[name](source, target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        name, source, target = options.child
        child(name, Path(source), Path(target))
        return
    wanted = {n: p for n, p in NEEDS.items() if options.peers or p == "omnizarr"}
    names = [name for name, package in wanted.items() if find_spec(package)]
    found: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source.zarr")
        make_source(source, options.side)
        for name in names * options.rounds:
            work = Path(folder, "run")
            work.mkdir()
            run = runs.start("benchmarks.pyramids", name, source, work / "target")
            shutil.rmtree(work)
            if run is not None:
                found[name].append(run)
    show(found, options.side, options.rounds)


def show(found: dict[str, list[Run]], side: int, rounds: int) -> None:
    """Print a table with the best times and the largest memory."""
    print(f"{side}³ uint16, {side**3 * 2 / 2**20:.0f} MiB, {LEVELS} levels, best of {rounds}")
    print("| | s | times the copy | CPU s | times the copy | extra MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    copy = runs.best(found["plain copy"])
    for name in filter(found.get, found):
        best = runs.best(found[name])
        times = f"{best.seconds:.2f} | {best.seconds / copy.seconds:.2f} | {best.cpu:.2f}"
        print(f"| {name} | {times} | {best.cpu / copy.cpu:.2f} | {best.extra:.0f} |")


if __name__ == "__main__":
    main()
