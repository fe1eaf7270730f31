"""Random rows, points and boxes, as machine learning reads them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import trials
from benchmarks.harness import Case, Target
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, each, reading, stored

TOPIC = "64 random rows of 64 × 64 uint16"
ROWS = 64
BOXES = 50
AGAINST = ("tensorstore",)


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read random rows at once and one by one, rows and columns, points and boxes."""
    data = smooth((2048 if scale.quick else 8192, 64, 64), "uint16")
    yield from _rows(data, workspace)
    yield from _points(scale, workspace)


def _rows(data: Any, workspace: Workspace) -> Iterator[Case]:
    generator = np.random.default_rng(4)
    rows = generator.permutation(len(data))[:ROWS]
    single = [slice(row, row + 1) for row in rows.tolist()]
    columns = np.sort(generator.permutation(64)[:16])
    layouts = {
        "blosc lz4, 1 in a chunk": (1, "blosc lz4", None),
        "blosc lz4, 16 in a chunk": (16, "blosc lz4", None),
        "raw, 16 in a chunk": (16, "raw", None),
        "zstd, 16 in a chunk": (16, "zstd", None),
        "zstd, 4 in a chunk, 256 in a shard": (4, "zstd", 256),
    }
    for label, (chunk, codec, shard) in layouts.items():
        shards = None if shard is None else (shard, 64, 64)
        layout = Layout(data.shape, "uint16", (chunk, 64, 64), codec, shards=shards)
        with stored(workspace, layout, data) as path:
            read = partial(reading, path=path, layout=layout, per=ROWS)
            yield Case(
                TOPIC,
                f"{label}, at once",
                partial(read, expected=data[rows], read=partial(_at_once, rows=rows)),
                (Target(1.5, AGAINST),),
                main=shard is not None,
            )
            yield Case(
                TOPIC,
                f"{label}, one by one",
                partial(read, expected=[data[one] for one in single], read=each(single)),
                (Target(1.0),),
            )
            yield Case(
                TOPIC,
                f"{label}, 16 columns of each",
                partial(
                    read,
                    expected=data[rows][:, columns],
                    read=lambda peer, a: peer.orthogonal(a, (rows, columns)),
                ),
                (Target(1.5, AGAINST),),
            )


def _at_once(peer: Peer, array: Any, rows: Any) -> Any:
    return peer.orthogonal(array, rows)


def _points(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    data = smooth(scale.shape, "uint16")
    generator = np.random.default_rng(5)
    points = tuple(generator.integers(0, n, 256) for n in data.shape)
    where = trials.boxes(data.shape, 16, BOXES)
    parts = [data[box] for box in where]
    for codec, shards in (("blosc lz4", None), ("zstd", (128,) * 3)):
        layout = Layout(data.shape, "uint16", (32,) * 3, codec, shards=shards)
        label = codec if shards is None else f"{codec} in shards of 128³"
        with stored(workspace, layout, data) as path:
            yield Case(
                "256 random points in 32³ chunks, uint16",
                label,
                partial(
                    reading,
                    path=path,
                    layout=layout,
                    expected=data[points],
                    read=lambda peer, a: peer.points(a, points),
                ),
                (Target(1.5, AGAINST),),
            )
            yield Case(
                "Random 16³ box in 32³ chunks, uint16",
                label,
                partial(
                    reading, path=path, layout=layout, expected=parts, read=each(where), per=BOXES
                ),
                (Target(1.2),),
            )
