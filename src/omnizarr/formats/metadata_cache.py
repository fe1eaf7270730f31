"""Equal metadata is parsed once and written once: the same bytes give the same frozen model.

Only metadata without any problem is kept, and only small documents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter

from omnizarr import _json
from omnizarr.concurrency.cache import Cache, Key
from omnizarr.errors import Problem
from omnizarr.model import ArrayModel, Node

LARGEST = 2**14  # bytes of a document
_models: Cache[Hashable, Node] = Cache(512)
# Texts of arrays with a shape of zeros, by their rank and the ids of all fields beside the shape,
# which the model keeps alive.
_texts: Cache[Key, tuple[ArrayModel, bytes]] = Cache(512)
dumps = partial(_json.dumps, texts=Cache(512))
_beside_shape = attrgetter(*(f.name for f in fields(ArrayModel) if f.name != "shape"))


def parse_once(
    key: tuple[Hashable, ...], size: int, problems: list[Problem], parse: Callable[[], Node]
) -> Node:
    """Return what `parse` makes of the documents in `key`, or has made of them before."""
    found = _models.get(key)
    if found is not None:
        return found
    before = len(problems)
    node = parse()
    if size <= LARGEST and len(problems) == before:
        _models.put(key, node)
    return node


def write_once(node: Node, write: Callable[[Node], bytes]) -> bytes:
    """Return what `write` makes of a model; of an array perhaps from its text for another shape.

    It gives JSON indented by two spaces, in which nothing else depends on the shape's numbers.
    """
    if not isinstance(node, ArrayModel):
        return write(node)
    rank = len(node.shape)
    key = rank, *map(id, _beside_shape(node))
    found = _texts.get(key)
    text = write(node.with_(shape=(0,) * rank)) if found is None else found[1]
    if found is None and len(text) <= LARGEST:
        _texts.put(key, (node, text))
    return text.replace(_shape_text((0,) * rank), _shape_text(node.shape), 1)


def split_shape(text: bytes, start: bytes) -> tuple[list[int] | None, bytes]:
    """Return the shape in a text of `write_once`, and what comes after it; None for other texts.

    `start` is what comes before the shape.
    """
    begin, end = len(start), text.find(b"]")
    if not text.startswith(start) or not 0 < end - begin < LARGEST:
        return None, b""
    numbers = text[begin : end + 1].removeprefix(b'\n  "shape": [')[:-1]
    try:
        shape = [int(number) for number in numbers.split(b",")]
    except ValueError:
        return None, b""
    return (shape, text[end:]) if text[begin : end + 1] == _shape_text(shape) else (None, b"")


def _shape_text(shape: Sequence[int]) -> bytes:
    """Return the lines that state the shape; none inside other objects begins like them."""
    lengths = ",\n    ".join(map(str, shape))
    return f'\n  "shape": [\n    {lengths}\n  ]'.encode() if shape else b'\n  "shape": []'
