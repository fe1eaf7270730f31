"""How long do one element and opening an array take?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Bar, Question, Trial
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, same, stored

TIMES = 200


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """In chunks of 32³ and with a document of version 3 and 2."""
    data = smooth((128, 128, 128), "uint16")
    bar = Bar(1.0, against=("tensorstore",))
    for codec in ("raw", "blosc lz4"):
        layout = Layout(data.shape, "uint16", (32,) * 3, codec)
        with stored(place, layout, data) as path:
            yield Question(
                "One element, 32³ chunks",
                codec,
                partial(elements, path=path, layout=layout, data=data),
                (bar,),
                main=codec == "blosc lz4",
            )
    for zarr_format in (3, 2):
        layout = Layout(data.shape, "uint16", (32,) * 3, "blosc lz4", zarr_format=zarr_format)
        with stored(place, layout, data) as path:
            yield Question(
                "Open one array",
                f"version {zarr_format}",
                partial(opening, path=path, layout=layout),
                (bar,),
                main=zarr_format == 3,
            )


def elements(peer: Peer, path: Path, layout: Layout, data: Any) -> Trial:
    """One element at a time, at random places, from an array that is open."""
    generator = np.random.default_rng(2)
    at = [tuple(int(generator.integers(0, n)) for n in layout.shape) for _ in range(TIMES)]
    expected = np.array([data[index] for index in at])
    return Trial(
        prepare=lambda: peer.open(path, layout),
        run=lambda array: [peer.read(array, index) for index in at],
        check=lambda got: same(
            np.array([np.asarray(item).reshape(()) for item in got], layout.dtype), expected
        ),
        per=TIMES,
    )


def opening(peer: Peer, path: Path, layout: Layout) -> Trial:
    """Open the same array again and again."""

    def run(_: Any) -> Any:
        for _ in range(TIMES):
            array = peer.open(path, layout)
        return array

    return Trial(run=run, check=lambda array: tuple(array.shape) == layout.shape, per=TIMES)
