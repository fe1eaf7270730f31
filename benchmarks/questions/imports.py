"""How long does importing the library take, beyond NumPy?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.child import import_time
from benchmarks.harness import OURS, Bar, Cannot, Question, Trial
from benchmarks.layouts import Place
from benchmarks.peers import Peer
from benchmarks.trials import Scale


def questions(scale: Scale, place: Place) -> Iterator[Question]:
    """In a fresh process each time."""
    yield Question("Import, beyond NumPy", "import", importing, (Bar(limit=0.1),), main=True)


def importing(peer: Peer) -> Trial:
    """A pipeline needs its own package as well."""
    if peer.name == OURS[1]:
        raise Cannot("the same import")
    return Trial(run=lambda _: import_time(peer.name), check=lambda _: True)
