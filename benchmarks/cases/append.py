"""Appending rows to an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, neutral, same

TIMES = 100


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Append whole chunks, and tenths of a chunk."""
    for rows in (100, 10):
        layout = Layout((0, 1000), "float32", (100, 1000), "blosc lz4")
        yield Case(
            f"Append {TIMES} times, chunks of 100 × 1000 float32, blosc lz4",
            f"{rows} rows",
            partial(appending, workspace=workspace, layout=layout, rows=rows),
            (Target(1.0),),
            main=True,
        )


def appending(peer: Peer, workspace: Workspace, layout: Layout, rows: int) -> Trial:
    """Return a trial that measures one append."""
    path = workspace.root / "written"
    data = smooth((rows * TIMES, layout.shape[1]), layout.dtype)
    parts = np.split(data, TIMES)
    reader = neutral(layout)

    def prepare() -> Any:
        workspace.empty_array("written", layout)
        return peer.open(path, layout, writable=True)

    def run(array: Any) -> None:
        for part in parts:
            array = peer.append(array, part)

    return Trial(
        prepare=prepare,
        run=run,
        check=lambda _: same(reader.read(reader.open(path, layout)), data),
        per=TIMES,
    )
