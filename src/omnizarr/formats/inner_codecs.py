"""Codecs inside shards: the words of a document's own list, one level down."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from omnizarr.errors import Problem
from omnizarr.formats.filters import Items, as_step, ending, given, ordered
from omnizarr.formats.numpy_types import byte_orders
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


def byte_orders_known(data_type: Named) -> bool:
    """Whether the type is one whose byte order this library understands, and has one."""
    try:
        return bool(byte_orders(data_type))
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        return False  # a malformed configuration; binding the type reports it


def with_order(codecs: Codecs, order: str | None) -> Codecs:
    """Codecs with the byte order of the items stated; that of an index is little by default."""
    out = []
    for codec in codecs:
        if codec.name == "cast_value":
            order = "little" if byte_orders_known(_target(codec)) else None
        step = as_step(codec)
        if step is not None:
            order = given(step, Items(None, order)).order
        if codec.name == "bytes" and order and codec.configuration.get("endian") is None:
            codec = Named("bytes", {"endian": order}, codec.must_understand)
        items, index = partial(with_order, order=order), partial(with_order, order="little")
        out.append(inside(codec, items, index))
    return tuple(out)


def with_filter_orders(codecs: Codecs) -> Codecs:
    """Codecs whose filters state the byte orders in which zarr-python hands them items.

    They come little-endian, as types of version 3 do in memory, and go as they are stored.
    """
    filters = [(i, step) for i, codec in enumerate(codecs) if (step := as_step(codec)) is not None]
    stored = next((c.configuration.get("endian") for c in codecs if c.name == "bytes"), None)
    steps = ordered((step for _, step in filters), "little")
    if stored in ("little", "big"):
        steps = ending(steps, str(stored))
    out = list(codecs)
    for (i, before), step in zip(filters, steps, strict=True):
        if step != before:
            members = {k: v for k, v in step.items() if k != "id"}
            out[i] = Named(codecs[i].name, members, codecs[i].must_understand)
    return tuple(inside(codec, with_filter_orders, lambda index: index) for codec in out)


def _target(codec: Named) -> Named:
    """What a cast makes of the items; a malformed one is reported when it is bound."""
    stated = codec.configuration.get("data_type")
    return Named(stated if isinstance(stated, str) else "")
