"""Documents that exist, in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omnizarr.errors import StoreError
from omnizarr.formats import Probe
from omnizarr.stores import Store, get_many


def fetch(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """The documents that exist, in one batch."""
    wanted = list(keys)
    values = get_many(store, [(key, None) for key in wanted])
    return {k: v for k, v in zip(wanted, values, strict=True) if v is not None}


def fetch_probe(
    store: Store, probe: Probe, beside: Callable[[str | None], list[str]] = lambda name: []
) -> dict[str, bytes]:
    """Return the documents that a probe asks for, and those `beside` them.

    A store may refuse keys that it cannot have, and a server those that begin with a dot. Where a
    key cannot be read, that is an error only if no format preferred to the key's has documents.
    `beside` gives further keys by the name of a format, or for None those of any.
    """
    try:
        return fetch(store, [*probe.keys(), *beside(probe.wanted)])
    except StoreError:
        found: dict[str, bytes] = {}
        for keys in probe.keys_in_order():
            found |= fetch(store, keys)
            formats = probe.formats(found, [])
            if formats:
                return found | fetch(store, beside(formats[0].name))
        raise
