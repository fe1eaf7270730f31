"""The cost per chunk: many chunks of 100 float64."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Case
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.trials import Scale, reading, stored, writing


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read and write the whole array."""
    count = scale.tiny_chunks
    layout = Layout((count * 100,), "float64", (100,))
    data = smooth(layout.shape, layout.dtype)
    topic = f"{count:,} chunks of 100 float64"
    with stored(workspace, layout, data) as path:
        yield Case(topic, "read", lambda peer: reading(peer, path, layout, data), main=True)
    yield Case(topic, "write", lambda peer: writing(peer, workspace, layout, data), main=True)
