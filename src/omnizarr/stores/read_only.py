"""A store that is only read."""

from __future__ import annotations

from omnizarr.stores.store import Store
from omnizarr.stores.wrapper import WrapperStore


class ReadOnlyStore(WrapperStore):
    """`inner`, in which nothing can be changed; a write is refused before anything is touched."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, read_only=True)
