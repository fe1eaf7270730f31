"""Measure writing and reading one array, and reading a box of it, in every store.

Stores of zarr-python are measured too, if it has one of that kind. The runs of one row are
interleaved, and the best of each counts. ``python -m benchmarks.stores``, in the environment of the
tests, writes the table of ``docs/generated/operations.md``.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.storage
from tests.servers.processes import make_s3_bucket, moto
from tests.servers.redis import redis_server

import omnizarr
from omnizarr.stores import resolve

RUNS = 3
SHAPE, CHUNKS = (256, 256, 256), (64, 64, 64)
BOX = (slice(20, 60), slice(50, 90), slice(100, 140))
PAGE = Path(__file__).parents[1] / "docs" / "generated" / "operations.md"
MARKS = "<!-- stores: begin -->", "<!-- stores: end -->"
ZARR: dict[str, Callable[[Path], Any]] = {
    "directory": lambda p: zarr.storage.LocalStore(p / "z"),
    "memory": lambda p: zarr.storage.MemoryStore(),
    "ZIP": lambda p: zarr.storage.ZipStore(p / "z.zip", mode="w"),
}
Times = dict[str, float]


def ours(url: str, data: Any, options: dict[str, Any]) -> Times:
    """Return the seconds to write, read, and read a box with omnizarr."""
    store = resolve(url, storage_options=options or None)
    array = omnizarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype="u2", overwrite=True)
    times = timed(array, data)
    getattr(store, "close", lambda: None)()
    return times


def theirs(store: Any, data: Any) -> Times:
    """Return the same as `ours` for zarr-python with the same codecs."""
    codec = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    array = zarr.create_array(
        store,
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="u2",
        compressors=[codec, zarr.codecs.Crc32cCodec()],
    )
    times = timed(array, data)
    store.close()
    return times


def timed(array: Any, data: Any) -> Times:
    """Return the seconds of each step."""
    start = time.perf_counter()
    array[...] = data
    written = time.perf_counter()
    everything = array[...]
    read = time.perf_counter()
    box = array[BOX]
    end = time.perf_counter()
    np.testing.assert_array_equal(everything, data)
    np.testing.assert_array_equal(box, data[BOX])
    return {"write": written - start, "read": read - written, "box": end - read}


def measure(stores: dict[str, tuple[str, dict[str, Any]]], folder: Path) -> list[str]:
    """Return the rows of the table."""
    data = np.random.default_rng(0).integers(0, 1000, SHAPE, "u2")
    lines = []
    for title, (url, options) in stores.items():
        mine: list[Times] = []
        peer: list[Times] = []
        for _ in range(RUNS):
            mine.append(ours(url, data, options))
            if title in ZARR:
                shutil.rmtree(folder / "z", ignore_errors=True)
                peer.append(theirs(ZARR[title](folder), data))
        cells = []
        for step in ("write", "read", "box"):
            cell = f"{min(t[step] for t in mine) * 1000:.1f}"
            if peer:
                cell += f" ({min(t[step] for t in peer) * 1000:.1f})"
            cells.append(cell)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print, and write the table to the page."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        socket = held.enter_context(redis_server(folder))
        port = held.enter_context(moto())
        make_s3_bucket(port, "bucket")
        bucket = {
            "endpoint": f"http://127.0.0.1:{port}",
            "access_key_id": "x",
            "secret_access_key": "x",
            "region": "us-east-1",
        }
        stores: dict[str, tuple[str, dict[str, Any]]] = {
            "directory": (str(folder / "d"), {}),
            "memory": ("memory:", {}),
            "ZIP": (str(folder / "x.zip"), {}),
            "SQLite": (f"sqlite://{folder}/x.sqlite", {}),
            "LMDB": (f"lmdb://{folder}/x.lmdb", {}),
            "Redis on a socket": (socket, {}),
            "S3 (moto on loopback)": ("s3://bucket/x", bucket),
        }
        lines = measure(stores, folder)
    head = ["| store | write, ms | read, ms | 40³ box, ms |", "| --- | --- | --- | --- |"]
    text = PAGE.read_text()
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n" + "\n".join([*head, *lines]) + f"\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
