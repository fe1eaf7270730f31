"""How fast are shards of 32³ chunks: read, written, updated, looked into?"""

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
from benchmarks.harness import Bar, Measured, Question, Trial
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.peers import Peer
from benchmarks.questions.full import read_bars, write_bars
from benchmarks.trials import Scale, each, neutral, reading, same, stored, writing

BOXES = 50
PAIRS = 2  # of times in one cost
TOPIC = "Shards 128³ of 32³, uint16"
COST = "Writing shards, as a multiple of writing the same data in chunks"


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Four codecs; one inner chunk replaced again and again; what packing costs."""
    data = smooth(scale.shape, "uint16")
    where = trials.boxes(scale.shape, 16, BOXES)
    parts = [data[box] for box in where]
    for codec in ("raw", "blosc lz4", "zstd", "gzip"):
        layout = Layout(scale.shape, "uint16", (32,) * 3, codec, shards=(128,) * 3)
        main = codec in ("raw", "blosc lz4")
        with stored(place, layout, data) as path:
            yield Question(
                TOPIC,
                f"{codec}, read",
                partial(reading, path=path, layout=layout, expected=data),
                read_bars(layout),
                main=main,
            )
            yield Question(
                TOPIC,
                f"{codec}, random 16³ box",
                partial(
                    reading, path=path, layout=layout, expected=parts, read=each(where), per=BOXES
                ),
                (Bar(1.0),),
                main=main,
            )
        yield Question(
            TOPIC,
            f"{codec}, write",
            partial(writing, place=place, layout=layout, data=data),
            write_bars(layout),
            main=main,
        )
        with stored(place, layout, data) as path:
            yield Question(
                TOPIC,
                f"{codec}, update one inner chunk",
                partial(updating, place=place, path=path, layout=layout, data=data),
                (Bar(1.0),),
                main=main,
            )
        if not scale.quick or codec != "gzip":
            yield Question(
                COST,
                codec,
                partial(cost, place=place, layout=layout, data=data),
                (Bar(limit=1.2),),
                unit="×",
            )


def updating(peer: Peer, place: Place, path: Path, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Replace one inner chunk of a copy by other values, ten times."""
    box = (slice(32, 64),) * 3
    reader, times = neutral(layout), 10
    values = [data[box] + np.uint16(n) for n in range(times)]
    expected = data.copy()
    expected[box] = values[-1]
    copy = place.root / "written"

    def prepare() -> Any:
        shutil.copytree(path, place.fresh("written"), dirs_exist_ok=True)
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


def cost(peer: Peer, place: Place, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Write shards and single chunks in turn; how many times as long the shards took."""
    kinds = {"shards": layout, "chunks": dataclasses.replace(layout, shards=None)}
    reader = neutral(layout)

    def run(_: Any) -> Measured:
        best = dict.fromkeys(kinds, math.inf)
        for _ in range(PAIRS):
            for name, kind in kinds.items():
                path = place.empty_array(name, kind)
                array = peer.open(path, kind, writable=True)
                started = time.perf_counter()
                peer.write(array, ..., data)
                best[name] = min(best[name], time.perf_counter() - started)
        return Measured(best["shards"] / best["chunks"])

    def check(_: Any) -> bool:
        return all(
            same(reader.read(reader.open(place.root / name, kind)), data)
            for name, kind in kinds.items()
        )

    return Trial(run=run, check=check)
