"""How much memory does a read or a write need, beyond the result and the data?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.child import measured
from benchmarks.harness import Bar, Question, Trial
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, neutral, stored

MB = 1e6


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """In a fresh process each time, which checks what it read."""
    shape = scale.memory_shape
    layouts = {
        "raw, 128³": Layout(shape, "uint16", (128,) * 3, "raw"),
        "blosc lz4, 128³": Layout(shape, "uint16", (128,) * 3, "blosc lz4"),
        "zstd, 32³": Layout(shape, "uint16", (32,) * 3, "zstd"),
        "blosc lz4, shards 128³": Layout(shape, "uint16", (32,) * 3, "blosc lz4", (128,) * 3),
        "blosc lz4, shards 256³": Layout(shape, "uint16", (32,) * 3, "blosc lz4", (256,) * 3),
    }
    if scale.quick:
        layouts = {label: layouts[label] for label in list(layouts)[1::2]}
    data = smooth(shape, "uint16")
    size = f"{data.nbytes / MB:.0f} MB"
    values = place.fresh("values") / "data.npy"
    np.save(values, data)
    for label, layout in layouts.items():
        with stored(place, layout, data) as path:
            yield Question(
                f"Peak extra memory, reading {size} (beyond the result)",
                label,
                partial(reading, path=path, layout=layout, values=values),
                (Bar(limit=64 * MB),),
                unit="B",
            )
        yield Question(
            f"Peak extra memory, writing {size}",
            label,
            partial(writing, place=place, layout=layout, values=values),
            (Bar(limit=64 * MB),),
            unit="B",
        )
    place.fresh("values")


def reading(peer: Peer, path: Path, layout: Layout, values: Path) -> Trial:
    """The child reads, and checks what it read."""
    return Trial(
        run=lambda _: measured("read", peer.name, layout, path, values), check=lambda _: True
    )


def writing(peer: Peer, place: Place, layout: Layout, values: Path) -> Trial:
    """The child writes; here it is read back."""
    path = place.root / "written"
    reader = neutral(layout)
    return Trial(
        prepare=lambda: place.empty_array("written", layout),
        run=lambda _: measured("write", peer.name, layout, path, values),
        check=lambda _: np.array_equal(reader.read(reader.open(path, layout)), np.load(values)),
    )
