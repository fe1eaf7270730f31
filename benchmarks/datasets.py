"""Compare xarray's own Zarr engine with omnizarr's.

``python -m benchmarks.datasets [--days 730] [--rounds 5]`` writes a dataset of packed temperatures.
In each round, both engines open it, read all of it, read a time series at one location, write it,
and append to it. The table has the best times and their ratio, and the ratio of CPU time, which
other programs on the machine affect less; above 1 omnizarr is faster.

Both read the same files, in the format and with the codecs that zarr-python chooses, and write with
those codecs. Each runs in its own process, so that neither benefits from memory or threads of the
other. Needs xarray, Dask and zarr besides omnizarr.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr

import omnizarr.xarray as ozx

CASES = (
    "open", "read all", "time series", "read all with Dask", "write", "write with Dask",
    "append nine months",
)  # fmt: skip


def made(days: int) -> xr.Dataset:
    """Return temperatures on a grid of 1 degree, packed as in CF."""
    random = np.random.default_rng(0)
    time_ = np.datetime64("2000-01-01", "ns") + np.arange(days) * np.timedelta64(1, "D")
    wave = np.sin(np.arange(180) / 20)[:, None] * np.cos(np.arange(360) / 30)[None]
    air = (15 * wave + random.normal(0, 1, (days, 1, 1))).round(1)
    data = xr.Dataset(
        {"air": (("time", "lat", "lon"), air)},
        coords={"time": time_, "lat": np.arange(180.0), "lon": np.arange(360.0)},
    )
    packing = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -32768}
    data.air.encoding = {**packing, "chunks": (30, 90, 90)}
    return data


def write_ours(data: xr.Dataset, path: Path, **options: Any) -> None:
    ozx.write(data, path, **options)


def write_theirs(data: xr.Dataset, path: Path, **options: Any) -> None:
    data.to_zarr(path, **options)


def actions(source: Path, target: Path, days: int, engine: str) -> dict[str, Callable[[], object]]:
    """Return the actions to time with one engine."""
    from zarr.codecs import ZstdCodec  # noqa: PLC0415 - both use it

    data = made(days)
    codec = {"air": {**data.air.encoding, "compressors": [ZstdCodec(level=0)]}}
    writer = write_ours if engine == "omnizarr" else write_theirs

    def opened(**options: Any) -> xr.Dataset:
        return xr.open_dataset(source, engine=engine, **options)

    def write(values: xr.Dataset) -> None:
        shutil.rmtree(target, ignore_errors=True)
        writer(values, target, encoding=codec)

    def append() -> None:
        write(data.isel(time=slice(30)))
        for start in range(30, min(days, 300), 30):
            part = data.isel(time=slice(start, start + 30)).drop_encoding()
            writer(part, target, append_dim="time")

    return {
        "make": lambda: write_theirs(data, source, encoding=codec),
        "open": lambda: opened().close(),
        "read all": lambda: opened().air.load(),
        "time series": lambda: opened().air[:, 7, 7].load(),
        "read all with Dask": lambda: opened(chunks={}).air.mean().compute(),
        "write": lambda: write(data),
        "write with Dask": lambda: write(data.chunk({"time": 60})),
        "append nine months": append,
    }


_ready: dict[str, Callable[[], object]] = {}


def prepare(folder: Path, days: int, engine: str) -> None:
    """Prepare this process to time one engine."""
    warnings.filterwarnings("ignore", message="Consolidated metadata")
    dask.config.set(scheduler="threads")
    _ready.update(actions(folder / "source.zarr", folder / f"{engine}.zarr", days, engine))


def seconds(name: str) -> tuple[float, float]:
    """Run one action; return its time and the CPU time of all its threads."""
    start, used = time.perf_counter(), time.process_time()
    _ready[name]()
    return time.perf_counter() - start, time.process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        processes = {
            engine: stack.enter_context(
                ProcessPoolExecutor(
                    1, get_context("spawn"), prepare, (Path(folder), options.days, engine)
                )
            )
            for engine in ("omnizarr", "zarr")
        }
        processes["zarr"].submit(seconds, "make").result()
        print(f"| {'':26} | omnizarr | zarr | ratio | ratio of CPU time |")
        print("| --- | --: | --: | --: | --: |")
        for name in CASES:
            taken: dict[str, list[tuple[float, float]]] = {engine: [] for engine in processes}
            for _ in range(options.rounds):
                for engine, process in processes.items():
                    taken[engine].append(process.submit(seconds, name).result())
            (ours, our_cpu), (theirs, their_cpu) = (
                [min(column) for column in zip(*taken[engine], strict=True)] for engine in processes
            )
            row = f"{ours * 1e3:.1f} ms | {theirs * 1e3:.1f} ms | {theirs / ours:.1f}"
            print(f"| {name:26} | {row} | {their_cpu / our_cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
