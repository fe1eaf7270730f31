"""Reading small boxes inside large chunks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import trials
from benchmarks.harness import Case, Target
from benchmarks.layouts import CODECS, Layout, Workspace, smooth
from benchmarks.trials import Scale, each, reading, stored

BOXES = 30


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read random 16³ boxes in 128³ chunks, per codec."""
    data = smooth(scale.shape, "uint16")
    where = trials.boxes(scale.shape, 16, BOXES)
    parts = [data[box] for box in where]
    for codec in CODECS:
        layout = Layout(scale.shape, "uint16", (128,) * 3, codec)
        ratio = {"raw": 1.0, "zstd": 1.2, "gzip": 1.0}.get(codec, 5.0)
        with stored(workspace, layout, data) as path:
            yield Case(
                "Random 16³ box in 128³ chunks, uint16",
                codec,
                partial(
                    reading, path=path, layout=layout, expected=parts, read=each(where), per=BOXES
                ),
                (Target(ratio),),
                main=codec in ("raw", "blosc lz4", "blosc zstd"),
            )
