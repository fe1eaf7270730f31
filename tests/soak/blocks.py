"""Arrays written in blocks that match neither chunks nor shards, as ``dask.array.to_zarr`` may."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr as oz


def run(folder: Path, kind: str, repeats: int, seed: int = 0) -> dict[str, int]:
    """Count arrays written by threads or processes, and those that differ from NumPy's."""
    pool: Executor
    if kind == "threads":
        pool = ThreadPoolExecutor(8)
    else:
        pool = ProcessPoolExecutor(4, multiprocessing.get_context("spawn"))
    rng = np.random.default_rng(seed)
    with pool:
        wrong = sum(not _equal(str(folder / str(n)), pool, rng) for n in range(repeats))
    return {"arrays": repeats, "wrong": wrong}


def _equal(path: str, pool: Executor, rng: np.random.Generator) -> bool:
    shape = tuple(int(n) for n in rng.integers(20, 60, 2))
    chunks = tuple(int(n) for n in rng.integers(3, 12, 2))
    block = tuple(int(n) for n in rng.integers(2, 17, 2))
    options: dict[str, Any] = {"shape": shape, "chunks": chunks}
    if rng.random() < 0.5:
        options["shards"] = tuple(3 * n for n in chunks)
    oz.create_array(path, dtype="i4", **options)
    values = rng.integers(1, 10**6, shape, dtype="i4")
    boxes = [
        tuple(slice(s, s + b) for s, b in zip(start, block, strict=True))
        for start in np.ndindex(*(-(-n // b) for n, b in zip(shape, block, strict=True)))
        for start in [tuple(s * b for s, b in zip(start, block, strict=True))]
    ]
    for done in [pool.submit(store, path, box, values[box]) for box in boxes]:
        done.result()
    return np.array_equal(oz.open(path)[:], values)


def store(path: str, box: tuple[slice, ...], values: Any) -> None:
    """Write one block."""
    oz.open(path, mode="r+")[box] = values
