"""How fast are groups with many arrays?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, Question, Trial
from benchmarks.layouts import Layout, Place
from benchmarks.peers import Peer, Zarrista, ZarrPython
from benchmarks.trials import Scale


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """Created, listed by name, opened one and all."""
    names = [f"array{i:05}" for i in range(scale.arrays)]
    layout = Layout((100, 100), "float32", (50, 50), "zstd")
    topic = f"{scale.arrays:,} arrays in a group"
    bars = (Bar(5.0, against=("zarr-python",)),)
    yield Question(
        topic, "create", lambda peer: creating(peer, place, names, layout), bars, main=True
    )
    path = place.fresh("group")
    try:
        Zarrista().create_arrays(path, names, layout)
    except ImportError:
        ZarrPython().create_arrays(path, names, layout)
    yield Question(topic, "list", lambda peer: listing(peer, path, names), bars, main=True)
    yield Question(
        topic,
        "open",
        lambda peer: Trial(
            run=lambda _: peer.open_arrays(path, names, layout),
            check=lambda count: count == len(names),
        ),
        bars,
        main=True,
    )
    place.fresh("group")


def creating(peer: Peer, place: Place, names: list[str], layout: Layout) -> Trial:
    """Into an empty folder; afterwards every array has its document."""
    folder = place.root / "created"

    def check(_: Any) -> bool:
        return sorted(p.parent.name for p in folder.glob("*/zarr.json")) == names

    return Trial(
        prepare=lambda: place.fresh("created"),
        run=lambda path: peer.create_arrays(path, names, layout),
        check=check,
    )


def listing(peer: Peer, path: Path, names: list[str]) -> Trial:
    """The names of all arrays of the group."""
    return Trial(run=lambda _: peer.list_arrays(path), check=lambda found: sorted(found) == names)
