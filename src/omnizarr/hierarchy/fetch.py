"""Documents that exist, in one batch."""

from __future__ import annotations

from collections.abc import Iterable

from omnizarr.stores import Store, get_many


def fetch(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """The documents that exist, in one batch."""
    wanted = list(keys)
    values = get_many(store, [(key, None) for key in wanted])
    return {k: v for k, v in zip(wanted, values, strict=True) if v is not None}
