"""What does a chunk cost by itself? Many chunks of 100 float64."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Question
from benchmarks.layouts import Layout, Place, smooth
from benchmarks.trials import Scale, reading, stored, writing


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Read and written in full."""
    count = scale.tiny_chunks
    layout = Layout((count * 100,), "float64", (100,))
    data = smooth(layout.shape, layout.dtype)
    topic = f"{count:,} chunks of 100 float64"
    with stored(place, layout, data) as path:
        yield Question(topic, "read", lambda peer: reading(peer, path, layout, data), main=True)
    yield Question(topic, "write", lambda peer: writing(peer, place, layout, data), main=True)
