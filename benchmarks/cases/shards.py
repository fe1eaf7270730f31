"""Shards of 32³ chunks: read, written, updated, and read in part."""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import trials
from benchmarks.cases.full import read_targets, write_targets
from benchmarks.harness import Case, Measured, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, each, neutral, reading, same, stored, writing

BOXES = 50
PAIRS = 2  # of runs to measure the cost once
TOPIC = "Shards 128³ of 32³, uint16"
COST = "Writing shards, as a multiple of writing the same data in chunks"


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Measure four codecs, updates of one inner chunk, and the cost of sharding."""
    data = smooth(scale.shape, "uint16")
    where = trials.boxes(scale.shape, 16, BOXES)
    parts = [data[box] for box in where]
    for codec in ("raw", "blosc lz4", "zstd", "gzip"):
        layout = Layout(scale.shape, "uint16", (32,) * 3, codec, shards=(128,) * 3)
        main = codec in ("raw", "blosc lz4")
        with stored(workspace, layout, data) as path:
            yield Case(
                TOPIC,
                f"{codec}, read",
                partial(reading, path=path, layout=layout, expected=data),
                read_targets(layout),
                main=main,
            )
            yield Case(
                TOPIC,
                f"{codec}, random 16³ box",
                partial(
                    reading, path=path, layout=layout, expected=parts, read=each(where), per=BOXES
                ),
                (Target(1.0),),
                main=main,
            )
        yield Case(
            TOPIC,
            f"{codec}, write",
            partial(writing, workspace=workspace, layout=layout, data=data),
            write_targets(layout),
            main=main,
        )
        with stored(workspace, layout, data) as path:
            yield Case(
                TOPIC,
                f"{codec}, update one inner chunk",
                partial(updating, workspace=workspace, path=path, layout=layout, data=data),
                (Target(1.0),),
                main=main,
            )
        if not scale.quick or codec != "gzip":
            yield Case(
                COST,
                codec,
                partial(cost, workspace=workspace, layout=layout, data=data),
                (Target(limit=1.2),),
                unit="×",
            )


def updating(
    peer: Peer, workspace: Workspace, path: Path, layout: Layout, data: npt.NDArray[Any]
) -> Trial:
    """Return a trial that replaces one inner chunk of a copy ten times."""
    box = (slice(32, 64),) * 3
    reader, times = neutral(layout), 10
    values = [data[box] + np.uint16(n) for n in range(times)]
    expected = data.copy()
    expected[box] = values[-1]
    copy = workspace.root / "written"

    def prepare() -> Any:
        shutil.copytree(path, workspace.empty_folder("written"), dirs_exist_ok=True)
        return peer.open(copy, layout, writable=True)

    def run(array: Any) -> None:
        for value in values:
            peer.write(array, box, value)

    return Trial(
        prepare=prepare,
        run=run,
        check=lambda _: same(reader.read(reader.open(copy, layout)), expected),
        per=times,
    )


def cost(peer: Peer, workspace: Workspace, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Return a trial that measures how many times as long shards take as single chunks."""
    kinds = {"shards": layout, "chunks": dataclasses.replace(layout, shards=None)}
    reader = neutral(layout)

    def run(_: Any) -> Measured:
        best = dict.fromkeys(kinds, math.inf)
        for _ in range(PAIRS):
            for name, kind in kinds.items():
                path = workspace.empty_array(name, kind)
                array = peer.open(path, kind, writable=True)
                started = time.perf_counter()
                peer.write(array, ..., data)
                best[name] = min(best[name], time.perf_counter() - started)
        return Measured(best["shards"] / best["chunks"])

    def check(_: Any) -> bool:
        return all(
            same(reader.read(reader.open(workspace.root / name, kind)), data)
            for name, kind in kinds.items()
        )

    return Trial(run=run, check=check)
