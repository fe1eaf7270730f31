"""Memory of reads and writes, beyond the result and the data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.child import measured
from benchmarks.harness import Case, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, neutral, stored

MB = 1e6


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Measure in a new process each time."""
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
    values = workspace.empty_folder("values") / "data.npy"
    np.save(values, data)
    for label, layout in layouts.items():
        with stored(workspace, layout, data) as path:
            yield Case(
                f"Peak extra memory, reading {size} (beyond the result)",
                label,
                partial(reading, path=path, layout=layout, values=values),
                (Target(limit=64 * MB),),
                unit="B",
            )
        yield Case(
            f"Peak extra memory, writing {size}",
            label,
            partial(writing, workspace=workspace, layout=layout, values=values),
            (Target(limit=64 * MB),),
            unit="B",
        )
    workspace.empty_folder("values")


def reading(peer: Peer, path: Path, layout: Layout, values: Path) -> Trial:
    """Return a trial whose child process reads and checks the values."""
    return Trial(
        run=lambda _: measured("read", peer.name, layout, path, values), check=lambda _: True
    )


def writing(peer: Peer, workspace: Workspace, layout: Layout, values: Path) -> Trial:
    """Return a trial whose child process writes; the values are read back here."""
    path = workspace.root / "written"
    reader = neutral(layout)
    return Trial(
        prepare=lambda: workspace.empty_array("written", layout),
        run=lambda _: measured("write", peer.name, layout, path, values),
        check=lambda _: np.array_equal(reader.read(reader.open(path, layout)), np.load(values)),
    )
