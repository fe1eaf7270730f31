"""The codecs of new arrays for which none are given: what the setting `codecs` says."""

from __future__ import annotations

from omnizarr import config
from omnizarr.codecs.specify import kind, to_named
from omnizarr.formats import Format
from omnizarr.model import Named


def default_codecs(format: Format, itemsize: int | None, variable: str | None) -> tuple[Named, ...]:
    """The codecs for fixed items of that size, or for a variable type's codec.

    Where the setting is a list, one that makes bytes of an array, and those before it, are for
    fixed items; a variable type has its own.
    """
    chosen = config.get().codecs
    if isinstance(chosen, str):
        return format.default_codecs(itemsize, variable, chosen)
    given = [to_named(codec, itemsize or 1) for codec in chosen]
    after = [codec for codec in given if kind(codec) == "bytes->bytes"]
    before = [codec for codec in given if kind(codec) != "bytes->bytes"]
    if variable is not None or not any(kind(codec) == "array->bytes" for codec in before):
        own = format.default_codecs(itemsize, variable, "fast")[0]
        before = [own] if variable is not None else [*before, own]
    return (*before, *after)
