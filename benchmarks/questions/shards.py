"""How fast are shards of 32³ chunks: read, written, updated, looked into?"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import trials
from benchmarks.harness import Bar, Cell, Question, Row, Trial
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.peers import Peer
from benchmarks.questions.full import read_bars, write_bars
from benchmarks.trials import Scale, each, neutral, reading, same, stored, writing

BOXES = 50
TOPIC = "Shards 128³ of 32³, uint16"
COST = "Writing shards, as a multiple of writing the same data in chunks"


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Four codecs; then one inner chunk replaced again and again."""
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


def cost(rows: list[Row]) -> list[Row]:
    """What packing costs each library, from the times of the same run."""
    found = {(row.topic, row.label): row for row in rows}
    out = []
    for codec in ("raw", "blosc lz4", "zstd", "gzip"):
        packed = found.get((TOPIC, f"{codec}, write"))
        plain = found.get(("Full write, version 3, uint16", f"{codec}, 32³"))
        if packed is None or plain is None:
            continue
        cells = {}
        for name in packed.cells:
            a, b = packed.value(name), plain.value(name)
            cells[name] = Cell(a / b) if a and b else Cell(None, "one of the two times is missing")
        out.append(Row(COST, codec, cells, (Bar(limit=1.2),), unit="×"))
    return out
