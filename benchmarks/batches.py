"""``python -m benchmarks.batches``: an epoch of shuffled batches with every library.

Images of 64 × 64 × 3 bytes in shards or chunks are read in batches of 64, each image once. Three
ways: our `omnizarr.batches`; the same windows of blocks read by hand with another library, the
next one ahead on a thread, and shuffled in memory; and, with every library, rows in an order that
is random throughout, by one selection for each batch. Libraries take turns; the best round counts.

Without options this process reads, and its processor time is that of all threads. With
``--loader 2`` two worker processes of PyTorch's ``DataLoader`` read; they are started once, and
their first epoch does not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import omnizarr
from benchmarks import peers
from benchmarks.layouts import Layout, smooth, workspace
from benchmarks.trials import stored
from omnizarr.bulk.batches import MIXED, find_blocks, make_order
from omnizarr.bulk.tiles import chunk_axes, stored_axes

SIZE = 64
LIBRARIES = ("omnizarr", "zarr-python", "tensorstore")
LAYOUTS = {
    "blosc lz4, 16 in a chunk": ("blosc lz4", 16, None),
    "zstd, 16 in a chunk": ("zstd", 16, None),
    "zstd, 16 in a chunk, 512 in a shard": ("zstd", 16, 512),
}
TORCH: Any = import_module("torch.utils.data") if find_spec("torch") else None
DATASET: Any = object if TORCH is None else TORCH.IterableDataset


@dataclass(frozen=True)
class Epoch(DATASET):  # type: ignore[misc]  # PyTorch may be missing
    """The batches of one epoch, read with one library; each worker reads its share."""

    library: str
    path: Path
    layout: Layout
    budget: int

    def __iter__(self) -> Iterator[Any]:
        info = None if TORCH is None else TORCH.get_worker_info()
        return self.read(*((0, 1) if info is None else (info.id, info.num_workers)))

    def read(self, worker: int, workers: int) -> Iterator[Any]:
        """Yield the batches of one worker."""
        raise NotImplementedError


class Batches(Epoch):
    """`omnizarr.batches`."""

    def read(self, worker: int, workers: int) -> Iterator[Any]:
        array = omnizarr.open(self.path)
        return omnizarr.batches(
            array, SIZE, seed=0, budget=self.budget, worker=worker, workers=workers
        )


class Blocks(Epoch):
    """The order of `omnizarr.batches`, read by another library."""

    def read(self, worker: int, workers: int) -> Iterator[Any]:
        peer = peers.load(self.library)
        array = peer.open(self.path, self.layout)
        ours = omnizarr.open(self.path)
        window = self.budget // 2 // (64 * 64 * 3)
        blocks = find_blocks(
            range(len(ours)), stored_axes(ours)[0], chunk_axes(ours)[0], max(1, window // MIXED)
        )
        order = make_order(blocks, window, 0, worker, workers)

        def load(number: int) -> tuple[Any, Any]:
            rows, shuffled = order.rows(number)
            return peer.orthogonal(array, rows), shuffled

        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(load, 0)
            rest: list[Any] = []
            for number in range(len(order.bounds) - 1):
                values, shuffled = ahead.result()
                if number + 2 < len(order.bounds):
                    ahead = pool.submit(load, number + 1)
                for first in range(0, len(shuffled), SIZE):
                    rest.append(values.take(shuffled[first : first + SIZE], axis=0))
                    if sum(map(len, rest)) >= SIZE:
                        together = np.concatenate(rest)
                        yield together[:SIZE]
                        rest = [together[SIZE:]]
        yield rest[0]


class Rows(Epoch):
    """Rows in an order that is random throughout."""

    def read(self, worker: int, workers: int) -> Iterator[Any]:
        peer = peers.load(self.library)
        array = peer.open(self.path, self.layout)
        rows = np.random.default_rng(0).permutation(self.layout.shape[0])[worker::workers]
        for first in range(0, len(rows), SIZE):
            yield peer.orthogonal(array, rows[first : first + SIZE])


def ways(path: Path, layout: Layout, budget: int) -> dict[str, Epoch]:
    """Return the ways to read an epoch, by name."""
    found: dict[str, Epoch] = {"omnizarr.batches": Batches("omnizarr", path, layout, budget)}
    for name in LIBRARIES:
        if name != "omnizarr":
            found[f"{name}, blocks by hand"] = Blocks(name, path, layout, budget)
        found[f"{name}, random rows"] = Rows(name, path, layout, budget)
    return found


def loaded(epoch: Iterable[Any], workers: int) -> Iterable[Any]:
    """Return the batches by way of a ``DataLoader`` whose workers have read one epoch."""
    loader: Iterable[Any] = TORCH.DataLoader(
        epoch,
        batch_size=None,
        num_workers=workers,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    for _ in loader:
        pass
    return loader


def measure(epoch: Iterable[Any], expected: int) -> tuple[float, float]:
    """Read all batches; return the time and the processor time."""
    started, used = time.perf_counter(), time.process_time()
    total = sum(int(np.asarray(batch)[:, 0, 0, 0].sum(dtype="i8")) for batch in epoch)
    taken = time.perf_counter() - started, time.process_time() - used
    if total != expected:
        raise SystemExit("not every row was read once")
    return taken


def best_times(
    found: Mapping[str, Iterable[Any]], rounds: int, expected: int
) -> dict[str, tuple[float, float]]:
    """Return the best time and processor time of each way; the ways take turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, epoch in found.items():
            taken[name].append(measure(epoch, expected))
    return {
        name: (min(seconds for seconds, _ in measured), min(used for _, used in measured))
        for name, measured in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=2**26)
    parser.add_argument("--loader", type=int, metavar="WORKERS", help="read with PyTorch")
    options = parser.parse_args()
    if options.loader and TORCH is None:
        raise SystemExit("--loader needs PyTorch: pip install torch")
    data = smooth((options.rows, 64, 64, 3), "uint8")
    expected = int(data[:, 0, 0, 0].sum(dtype="i8"))
    print("| | images/s | processor time of 1,000 images |\n| --- | --: | --: |")
    with workspace() as folder:
        for label, (codec, chunk, shard) in LAYOUTS.items():
            shards = None if shard is None else (shard, *data.shape[1:])
            layout = Layout(data.shape, "uint8", (chunk, *data.shape[1:]), codec, shards=shards)
            with stored(folder, layout, data) as path:
                found: dict[str, Iterable[Any]] = dict(ways(path, layout, options.budget))
                if options.loader:
                    found = {name: loaded(epoch, options.loader) for name, epoch in found.items()}
                results = best_times(found, options.rounds, expected)
                for name, (seconds, used) in results.items():
                    # The processor time of the loader's workers is not known here.
                    time_used = "" if options.loader else f"{used / options.rows * 1e6:.1f} ms"
                    row = f"{options.rows / seconds:,.0f} | {time_used}"
                    print(f"| {label}: {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
