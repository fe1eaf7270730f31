"""How often is a store called to write shards?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy.typing as npt

from benchmarks.harness import OURS, Bar, Measured, Question, Trial
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, neutral, same


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Once for each shard is enough; a call about several keys counts once for each. Our kernel
    writes files past the store, so both engines of ours are asked for the reference one."""
    layout = Layout(scale.shape, "uint16", (32,) * 3, "blosc lz4", shards=(128,) * 3)
    count = math.prod(n // 128 for n in scale.shape)
    data = smooth(scale.shape, "uint16")
    yield Question(
        f"Store calls to write {count} shards of 64 chunks",
        "blosc lz4",
        partial(counting, place=place, layout=layout, data=data),
        (Bar(limit=count), Bar(limit=count, who=OURS[1])),
        unit="calls",
    )


def counting(peer: Peer, place: Place, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Fill an empty array through a store that counts; somebody else reads it back."""
    path = place.root / "written"
    reader = neutral(layout)
    return Trial(
        prepare=lambda: place.empty_array("written", layout),
        run=lambda _: Measured(peer.count_calls(path, layout, data)),
        check=lambda _: same(reader.read(reader.open(path, layout)), data),
    )
