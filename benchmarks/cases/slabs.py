"""Overlapping slabs, where every chunk is needed several times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Case, Target
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.trials import Scale, each, reading, stored


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read slabs of 32 planes, each starting 16 planes after the one before."""
    data = smooth(scale.shape, "uint16")
    where = [slice(start, start + 32) for start in range(0, scale.shape[0] - 31, 16)]
    parts = [data[slab] for slab in where]
    for codec in ("raw", "blosc lz4", "zstd"):
        layout = Layout(scale.shape, "uint16", (64,) * 3, codec)
        with stored(workspace, layout, data) as path:
            yield Case(
                "Overlapping slabs of 32 planes in 64³ chunks, uint16",
                codec,
                partial(
                    reading,
                    path=path,
                    layout=layout,
                    expected=parts,
                    read=each(where),
                    per=len(where),
                ),
                (Target(1.0),),
            )
