"""Groups with many arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Case, Target, Trial
from benchmarks.layouts import Layout, Workspace
from benchmarks.peers import Peer, Zarrista, ZarrPython
from benchmarks.trials import Scale


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Create all arrays, list their names, and open them."""
    names = [f"array{i:05}" for i in range(scale.arrays)]
    layout = Layout((100, 100), "float32", (50, 50), "zstd")
    topic = f"{scale.arrays:,} arrays in a group"
    targets = (Target(5.0, against=("zarr-python",)),)
    yield Case(
        topic,
        "create",
        lambda peer: creating(peer, workspace, names, layout),
        (Target(1.0), *targets),
        main=True,
    )
    path = workspace.empty_folder("group")
    try:
        Zarrista().create_arrays(path, names, layout)
    except ImportError:
        ZarrPython().create_arrays(path, names, layout)
    yield Case(topic, "list", lambda peer: listing(peer, path, names), targets, main=True)
    yield Case(
        topic,
        "open",
        lambda peer: Trial(
            run=lambda _: peer.open_arrays(path, names, layout),
            check=lambda count: count == len(names),
        ),
        targets,
        main=True,
    )
    workspace.empty_folder("group")


def creating(peer: Peer, workspace: Workspace, names: list[str], layout: Layout) -> Trial:
    """Return a trial that creates arrays in an empty folder, and checks their metadata."""
    folder = workspace.root / "created"

    def check(_: Any) -> bool:
        return sorted(p.parent.name for p in folder.glob("*/zarr.json")) == names

    return Trial(
        prepare=lambda: workspace.empty_folder("created"),
        run=lambda path: peer.create_arrays(path, names, layout),
        check=check,
    )


def listing(peer: Peer, path: Path, names: list[str]) -> Trial:
    """Return a trial that lists the names of all arrays of the group."""
    return Trial(run=lambda _: peer.list_arrays(path), check=lambda found: sorted(found) == names)
