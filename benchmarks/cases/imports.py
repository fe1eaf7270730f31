"""Importing the library, beyond NumPy."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.child import import_time
from benchmarks.harness import OURS, Cannot, Case, Target, Trial
from benchmarks.layouts import Workspace
from benchmarks.peers import Peer
from benchmarks.trials import Scale


def cases(scale: Scale, workspace: Workspace) -> Iterator[Case]:
    """Import in a new process each time."""
    yield Case("Import, beyond NumPy", "import", importing, (Target(limit=0.1),), main=True)


def importing(peer: Peer) -> Trial:
    """Return a trial that imports the library and, for a pipeline, its package."""
    if peer.name == OURS[1]:
        raise Cannot("the same import")
    return Trial(run=lambda _: import_time(peer.name), check=lambda _: True)
