"""Reading on one core up to all cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.child import measured
from benchmarks.harness import Case, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, stored


def counts() -> list[int]:
    """Return 1, 2, 4, … and the number of cores that this process may use."""
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    powers = [2**n for n in range(10) if 2**n < most]
    return [*powers, most] if most else []


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read in a child process that is bound to some cores before it imports anything."""
    data = smooth(scale.shape, "uint16")
    values = workspace.empty_folder("values") / "data.npy"
    np.save(values, data)
    for codec in ("blosc lz4",) if scale.quick else ("raw", "blosc lz4", "zstd"):
        layout = Layout(scale.shape, "uint16", (64,) * 3, codec)
        with stored(workspace, layout, data) as path:
            for count in counts():
                yield Case(
                    "Full read in 64³ chunks by number of cores, uint16",
                    f"{codec}, {count} core{'s' * (count > 1)}",
                    partial(timing, path=path, layout=layout, values=values, cores=count),
                )
    workspace.empty_folder("values")


def timing(peer: Peer, path: Path, layout: Layout, values: Path, cores: int) -> Trial:
    """Return a trial whose child process reads several times and checks each result."""
    return Trial(
        run=lambda _: measured("time", peer.name, layout, path, values, cores),
        check=lambda _: True,
    )
