"""How long does a small box inside large chunks take?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import trials
from benchmarks.harness import Bar, Question
from benchmarks.layouts import CODECS, Layout, Place, smooth
from benchmarks.trials import Scale, each, reading, stored

BOXES = 30


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Random 16³ boxes in 128³ chunks, per codec."""
    data = smooth(scale.shape, "uint16")
    where = trials.boxes(scale.shape, 16, BOXES)
    parts = [data[box] for box in where]
    for codec in CODECS:
        layout = Layout(scale.shape, "uint16", (128,) * 3, codec)
        bars = {"raw": (Bar(1.0),), "zstd": (), "gzip": ()}.get(codec, (Bar(5.0),))
        with stored(place, layout, data) as path:
            yield Question(
                "Random 16³ box in 128³ chunks, uint16",
                codec,
                partial(
                    reading, path=path, layout=layout, expected=parts, read=each(where), per=BOXES
                ),
                bars,
                main=codec in ("raw", "blosc lz4", "blosc zstd"),
            )
