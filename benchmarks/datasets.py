"""How fast does xarray read and write through omnizarr, next to its own engine for Zarr?

``python -m benchmarks.datasets [--days 730] [--rounds 5]`` writes a dataset of packed temperatures
and lets both engines open it, read all of it, read one place through time, write it, and append to
it, one after the other in each round. The table has the best time of each and their ratio; above 1
omnizarr is quicker. Both read the same files, in the format and with the codecs that zarr-python
chooses; both write with those codecs. It needs xarray, Dask and zarr beside omnizarr.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr

import omnizarr.xarray as ozx


def made(days: int) -> xr.Dataset:
    """Temperatures on a grid of 1 degree, packed as CF does."""
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


def actions(folder: Path, days: int) -> dict[str, Callable[[str], None]]:
    """What is timed; each takes the name of an engine."""
    import zarr  # noqa: PLC0415 - its codec is used by both

    data = made(days)
    codec = {"air": {**data.air.encoding, "compressors": [zarr.codecs.ZstdCodec(level=0)]}}
    source = folder / "source.zarr"
    write_theirs(data, source, encoding=codec)
    writers = {"omnizarr": write_ours, "zarr": write_theirs}

    def opened(engine: str) -> xr.Dataset:
        return xr.open_dataset(source, engine=engine)

    def write(engine: str, values: xr.Dataset) -> None:
        target = folder / "target.zarr"
        shutil.rmtree(target, ignore_errors=True)
        writers[engine](values, target, encoding=codec)

    def append(engine: str) -> None:
        target = folder / "target.zarr"
        shutil.rmtree(target, ignore_errors=True)
        writers[engine](data.isel(time=slice(30)), target, encoding=codec)
        for start in range(30, min(days, 300), 30):
            part = data.isel(time=slice(start, start + 30)).drop_encoding()
            writers[engine](part, target, append_dim="time")

    return {
        "open": lambda engine: opened(engine).close(),
        "read all": lambda engine: [opened(engine).air.load()].clear(),
        "one place through time": lambda engine: [opened(engine).air[:, 7, 7].load()].clear(),
        "read all with Dask": lambda engine: [
            xr.open_dataset(source, engine=engine, chunks={}).air.mean().compute()
        ].clear(),
        "write": lambda engine: write(engine, data),
        "write with Dask": lambda engine: write(engine, data.chunk({"time": 60})),
        "append nine months": append,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="threads"):
        print(f"| {'':26} | omnizarr | zarr | ratio |\n| --- | --: | --: | --: |")
        for name, action in actions(Path(folder), options.days).items():
            best = {"omnizarr": float("inf"), "zarr": float("inf")}
            for _ in range(options.rounds):
                for engine in best:
                    start = time.perf_counter()
                    action(engine)
                    best[engine] = min(best[engine], time.perf_counter() - start)
            ours, theirs = best["omnizarr"], best["zarr"]
            row = f"{ours * 1e3:.1f} ms | {theirs * 1e3:.1f} ms | {theirs / ours:.1f}"
            print(f"| {name:26} | {row} |", flush=True)


if __name__ == "__main__":
    main()
