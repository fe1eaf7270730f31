"""Codecs inside shards: the words of a document's own list, one level down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from omnizarr.errors import Problem
from omnizarr.model import Named
from omnizarr.model.fields import Fields, named
from omnizarr.model.numcodecs_ids import PREFIX

Codecs: TypeAlias = tuple[Named, ...]
Change: TypeAlias = Callable[[Codecs], Codecs]


def inside(codec: Named, change: Change, index: Change) -> Named:
    """A `sharding_indexed` with its two lists changed, each an object a codec; others as they are.

    A malformed list stays: binding the codec reports it with its place.
    """
    if codec.name != "sharding_indexed":
        return codec
    config = dict(codec.configuration)
    for member, rewrite in (("codecs", change), ("index_codecs", index)):
        found = _parsed(config.get(member))
        if found is not None:
            config[member] = [as_object(c) for c in rewrite(found)]
    return Named(codec.name, config, codec.must_understand)


def _parsed(stated: object) -> Codecs | None:
    if not isinstance(stated, (list, tuple)):
        return None
    problems: list[Problem] = []
    fields = Fields("", {}, problems)
    found = tuple(c if isinstance(c, Named) else named(fields, "", c) for c in stated)
    return None if problems else found


def as_object(extension: Named) -> dict[str, Any]:
    """An extension as readers of version 3.0 understand it."""
    doc: dict[str, Any] = {"name": extension.name}
    # zarr-python, whose names these are, wants the member even where it is empty.
    if extension.configuration or extension.name.startswith(PREFIX):
        doc["configuration"] = dict(extension.configuration)
    if not extension.must_understand:
        doc["must_understand"] = False
    return doc
