"""Reading one element, and opening an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, same, stored

TIMES = 200


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read elements from chunks of 32³; open arrays of versions 3 and 2."""
    data = smooth((128, 128, 128), "uint16")
    for codec in ("raw", "blosc lz4"):
        layout = Layout(data.shape, "uint16", (32,) * 3, codec)
        with stored(workspace, layout, data) as path:
            yield Case(
                "One element, 32³ chunks",
                codec,
                partial(elements, path=path, layout=layout, data=data),
                (Target(1.0),),
                main=codec == "blosc lz4",
            )
    for zarr_format in (3, 2):
        layout = Layout(data.shape, "uint16", (32,) * 3, "blosc lz4", zarr_format=zarr_format)
        with stored(workspace, layout, data) as path:
            yield Case(
                "Open one array",
                f"version {zarr_format}",
                partial(opening, path=path, layout=layout),
                (Target(1.0),),
                main=zarr_format == 3,
            )


def elements(peer: Peer, path: Path, layout: Layout, data: Any) -> Trial:
    """Return a trial that reads single elements at random positions from an open array."""
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
    """Return a trial that opens the same array repeatedly."""

    def run(_: Any) -> Any:
        for _ in range(TIMES):
            array = peer.open(path, layout)
        return array

    return Trial(run=run, check=lambda array: tuple(array.shape) == layout.shape, per=TIMES)
