"""Store calls to write shards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy.typing as npt

from benchmarks.harness import OURS, Case, Measured, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, neutral, same


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Count calls; one per shard is enough, and a call with several keys counts once per key.

    The kernel bypasses the store, so both engines show the calls of the reference engine.
    """
    layout = Layout(scale.shape, "uint16", (32,) * 3, "blosc lz4", shards=(128,) * 3)
    count = math.prod(n // 128 for n in scale.shape)
    data = smooth(scale.shape, "uint16")
    yield Case(
        f"Store calls to write {count} shards of 64 chunks",
        "blosc lz4",
        partial(counting, workspace=workspace, layout=layout, data=data),
        (Target(limit=count), Target(limit=count, who=OURS[1])),
        unit="calls",
    )


def counting(peer: Peer, workspace: Workspace, layout: Layout, data: npt.NDArray[Any]) -> Trial:
    """Return a trial that fills an array through a counting store; another library reads it."""
    path = workspace.root / "written"
    reader = neutral(layout)
    return Trial(
        prepare=lambda: workspace.empty_array("written", layout),
        run=lambda _: Measured(peer.count_calls(path, layout, data)),
        check=lambda _: same(reader.read(reader.open(path, layout)), data),
    )
