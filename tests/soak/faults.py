"""Failing stores: reads raise an error or return the right values."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

import omnizarr as oz
from omnizarr.stores import MemoryStore
from omnizarr.testing import FaultyStore

SHAPE = (24, 36)
FORMATS: tuple[Any, ...] = (1, 2, "3-draft", 3)


def make(r: random.Random, **options: Any) -> tuple[MemoryStore, npt.NDArray[Any]]:
    """Return an array in memory with some chunks missing, and its values."""
    store = MemoryStore()
    array = oz.create_array(store, shape=SHAPE, fill_value=0, **options)
    data = np.zeros(SHAPE, array.dtype)
    part = slice(r.randrange(12), 24), slice(0, r.randrange(1, 36))
    data[part] = np.arange(1, data[part].size + 1).reshape(data[part].shape) % 250
    array[...] = data
    return store, data


def options(r: random.Random, zarr_format: Any) -> dict[str, Any]:
    """Return options: chunks, sometimes shards, and default or no codecs."""
    found: dict[str, Any] = {"zarr_format": zarr_format, "chunks": r.choice(((5, 7), (6, 9)))}
    found["dtype"] = r.choice(("u1", "<i4", ">f8"))
    if zarr_format in (3, "3-draft") and r.random() < 0.5:
        found["chunks"], found["shards"] = (6, 9), (12, 18)
    return found


def selection(r: random.Random) -> Any:
    """Return a random selection: everything, a strided box, or lists."""
    kind = r.random()
    if kind < 0.3:
        return ...
    if kind < 0.8:
        return tuple(
            slice(r.randrange(n), r.randrange(1, n + 1), r.choice((1, 1, 3))) for n in SHAPE
        )
    return tuple(sorted(r.sample(range(n), 4)) for n in SHAPE)


def faulted_reads(seed: int, rounds: int) -> Counter[str]:
    """Read through a store that fails at random; a wrong value is an AssertionError."""
    r = random.Random(seed)
    tally: Counter[str] = Counter()
    while tally["reads"] < rounds:
        store, data = make(r, **options(r, r.choice(FORMATS)))
        chance = [0.0]

        def fault(operation: str, key: str, chance: list[float] = chance) -> Exception | None:
            if operation.startswith("list") or r.random() >= chance[0]:
                return None
            return r.choice((oz.StoreError("lost the line"), oz.StoreError("forbidden")))

        with oz.configure(chunk_cache=r.choice((None, "1MB")), threads=r.choice((1, 2))):
            array = oz.open(FaultyStore(store, fault))
            for _ in range(25):
                chance[0] = r.choice((0.02, 0.2, 0.7))
                tally[_one_read(r, array, data)] += 1
                tally["reads"] += 1
    return tally


def _one_read(r: random.Random, array: oz.Array, data: npt.NDArray[Any]) -> str:
    chosen = selection(r)
    missing = r.choice(("fill", "fill", "raise"))
    try:
        found = array.read(chosen, missing=missing)
    except oz.MissingChunk as e:
        box = tuple(slice(c * n, (c + 1) * n) for c, n in zip(e.chunk, array.chunks, strict=True))
        return "missing chunk reported" if not data[box].any() else "stored chunk not found"
    except (oz.ChunkError, oz.StoreError) as e:  # the latter of the array's metadata
        return "error" if "lost the line" in str(e) or "forbidden" in str(e) else str(e)
    assert np.array_equal(found, data[chosen]), f"wrong values of {chosen}"
    return "right values"
