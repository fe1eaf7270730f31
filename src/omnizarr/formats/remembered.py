"""Equal documents are parsed once: the same bytes give the same frozen model.

Only documents about which nothing was to be told are kept, as many as a few megabytes hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from omnizarr.errors import Problem
from omnizarr.model import Node

MOST = 512
LARGEST = 2**14  # bytes of a document
_models: dict[Hashable, Node] = {}


def remembered(
    key: tuple[Hashable, ...], size: int, problems: list[Problem], parse: Callable[[], Node]
) -> Node:
    """What `parse` makes of the documents in `key`, or made of them before."""
    found = _models.get(key)
    if found is not None:
        return found
    told = len(problems)
    node = parse()
    if size <= LARGEST and len(problems) == told:
        if len(_models) >= MOST:
            _models.clear()
        _models[key] = node
    return node
