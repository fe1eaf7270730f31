"""Importing the library, beyond NumPy, and the command that describes an array."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.child import import_time, processor_time
from benchmarks.harness import OURS, Cannot, Case, Target, Trial
from benchmarks.layouts import Layout, Workspace, smooth
from benchmarks.peers import Peer
from benchmarks.trials import Scale, stored


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Import, and run the command, in a new process each time."""
    yield Case("Import, beyond NumPy", "import", importing, (Target(limit=0.06),), main=True)
    layout = Layout((128, 128, 128), "uint16", (32,) * 3, "blosc lz4")
    with stored(workspace, layout, smooth(layout.shape, layout.dtype)) as path:
        yield Case(
            "Processor time of a command",
            "omnizarr info",
            partial(describing, path=path),
            (Target(limit=0.2),),
        )


def importing(peer: Peer) -> Trial:
    """Return a trial that imports the library and, for a pipeline, its package."""
    if peer.name == OURS[1]:
        raise Cannot("the same import")
    return Trial(run=lambda _: import_time(peer.name), check=lambda _: True)


def describing(peer: Peer, path: Path) -> Trial:
    """Return a trial that describes an array on the command line."""
    if peer.name != OURS[0]:
        raise Cannot("another command, or none")
    command = [sys.executable, "-m", "omnizarr", "info", str(path)]
    return Trial(run=lambda _: processor_time(command), check=lambda _: True)
