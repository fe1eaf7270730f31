"""Equal documents are parsed once, and written once: the same bytes give the same frozen model.

Only documents about which nothing was to be told are kept, as many as a few megabytes hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from operator import attrgetter, is_

from omnizarr.errors import Problem
from omnizarr.model import ArrayModel, Node

MOST = 512
LARGEST = 2**14  # bytes of a document
_models: dict[Hashable, Node] = {}
# Texts of arrays, without their shape and with it, by the id of their codecs, which the model
# beside them keeps.
_texts: dict[int, tuple[ArrayModel, bytes, bytes]] = {}
_beside_shape = attrgetter(*(f.name for f in fields(ArrayModel) if f.name != "shape"))


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


def written(node: Node, write: Callable[[Node], bytes]) -> bytes:
    """What `write` makes of a model; of an array perhaps from what it made for another shape.

    It gives JSON indented by two spaces, in which nothing else depends on the shape's numbers.
    """
    if not isinstance(node, ArrayModel):
        return write(node)
    kept, text, own = _texts.get(id(node.codecs), (None, b"", b""))
    if kept is node:
        return own
    same = kept is not None and len(kept.shape) == len(node.shape)
    if not same or not all(map(is_, _beside_shape(kept), _beside_shape(node))):
        text = write(node.with_(shape=(0,) * len(node.shape)))
        same = False
    zeros = _shape((0,) * len(node.shape))
    own = text.replace(zeros, _shape(node.shape), 1)
    if not same and len(text) <= LARGEST:
        if len(_texts) >= MOST:
            _texts.clear()
        _texts[id(node.codecs)] = node, text, own
    return own


def own_shape(text: bytes, start: bytes) -> tuple[list[int] | None, bytes]:
    """The shape in a text that `written` gave, and what comes after; None for other texts.

    `start` is what stands before the shape.
    """
    begin, end = len(start), text.find(b"]")
    if not text.startswith(start) or not 0 < end - begin < LARGEST:
        return None, b""
    numbers = text[begin : end + 1].removeprefix(b'\n  "shape": [')[:-1]
    try:
        shape = [int(number) for number in numbers.split(b",")]
    except ValueError:
        return None, b""
    return (shape, text[end:]) if text[begin : end + 1] == _shape(shape) else (None, b"")


def _shape(shape: Sequence[int]) -> bytes:
    """The line, or lines, that state the shape; none inside other objects begins like it."""
    lengths = ",\n    ".join(map(str, shape))
    return f'\n  "shape": [\n    {lengths}\n  ]'.encode() if shape else b'\n  "shape": []'
