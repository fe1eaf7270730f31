"""Codecs of version 3 in the words that writers of 2023 used."""

from __future__ import annotations

from functools import partial

from omnizarr.formats.inner_codecs import Codecs, inside
from omnizarr.model import Named


def letters(codecs: Codecs, field: str) -> list[str]:
    """Places of transposes whose order is a letter, also inside shards."""
    found: list[str] = []

    def look(inner: Codecs, where: str) -> Codecs:
        for i, codec in enumerate(inner):
            at = f"{where}[{i}].configuration"
            if codec.name == "transpose" and codec.configuration.get("order") in ("C", "F"):
                found.append(f"{at}.order")
            lists = (partial(look, where=f"{at}.{m}") for m in ("codecs", "index_codecs"))
            inside(codec, *lists)
        return inner

    look(codecs, field)
    return found


def modern(codecs: Codecs, rank: int) -> Codecs:
    """Codecs in today's words, for those that writers of 2023 used."""
    out = []
    for codec in codecs:
        if codec.name == "endian":
            codec = Named("bytes", codec.configuration, codec.must_understand)
        if codec.name == "transpose" and codec.configuration.get("order") in ("C", "F"):
            axes = list(range(rank))
            order = axes if codec.configuration["order"] == "C" else axes[::-1]
            codec = codec.replace(order=order)
        out.append(inside(codec, partial(modern, rank=rank), partial(modern, rank=rank + 1)))
    return tuple(out)
