"""Selections that are not boxes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Case, Target
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.trials import Scale, reading, stored

TOPIC = "Selections in 64³ chunks, blosc lz4, uint16"


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Read strided, orthogonal, coordinate and mask selections, compared with NumPy."""
    shape = scale.shape
    data = smooth(shape, "uint16")
    layout = Layout(shape, "uint16", (64,) * 3, "blosc lz4")
    generator = np.random.default_rng(3)
    steps = (slice(None, None, 3), slice(5, None, 2), slice(None, None, 7))
    lists = tuple(np.sort(generator.choice(n, n // 4, replace=False)) for n in shape)
    points = tuple(generator.integers(0, n, 10_000) for n in shape)
    mask = generator.random(shape) < 0.001
    with stored(workspace, layout, data) as path:
        yield Case(
            TOPIC,
            "strided [::3, 5::2, ::7]",
            partial(
                reading,
                path=path,
                layout=layout,
                expected=data[steps],
                read=lambda peer, a: peer.read(a, steps),
            ),
            (Target(1.0),),
            main=True,
        )
        yield Case(
            TOPIC,
            "orthogonal, a quarter of each axis",
            partial(
                reading,
                path=path,
                layout=layout,
                expected=data[np.ix_(*lists)],
                read=lambda peer, a: peer.orthogonal(a, lists),
            ),
            (Target(1.0),),
            main=True,
        )
        yield Case(
            TOPIC,
            "10,000 coordinates",
            partial(
                reading,
                path=path,
                layout=layout,
                expected=data[points],
                read=lambda peer, a: peer.points(a, points),
            ),
            (Target(1.0),),
            main=True,
        )
        yield Case(
            TOPIC,
            "mask, one element in a thousand",
            partial(
                reading,
                path=path,
                layout=layout,
                expected=data[mask],
                read=lambda peer, a: peer.mask(a, mask),
            ),
            (Target(1.0),),
            main=True,
        )
