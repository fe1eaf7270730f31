"""Parts of shards that have no chunk: told to whoever watches while they are decoded.

A hole is a box of the chunk that is decoded, along its own axes. Whoever decodes a part of a part,
or turns axes, says so with `moved`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnizarr.codecs.codec import Region


class _Watch(threading.local):
    """Of each thread: the list that holes go to, or None while nobody watches."""

    found: list[Region] | None = None


_watch = _Watch()


@contextmanager
def watch() -> Iterator[list[Region]]:
    """The holes that this thread meets until the block ends."""
    before, found = _watch.found, list[Region]()
    _watch.found = found
    try:
        yield found
    finally:
        _watch.found = before


def tell(box: Region) -> None:
    """Say that a box has no chunk."""
    if _watch.found is not None:
        _watch.found.append(box)


@contextmanager
def moved(change: Callable[[Region], Region]) -> Iterator[None]:
    """Have holes that are told in the block seen outside it as `change` makes them."""
    if _watch.found is None:
        yield
        return
    with watch() as found:
        yield
    for box in found:
        tell(change(box))
