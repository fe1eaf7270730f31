"""A store that is only read."""

from __future__ import annotations

from typing import Any

from omnizarr.stores.store import Store
from omnizarr.stores.wrapper import WrapperStore


class ReadOnlyStore(WrapperStore):
    """`inner`, in which nothing can be changed; a write is refused before anything is touched."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, read_only=True)

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return this store, or the one that it is around."""
        return self if read_only else self.inner

    def answers_by(self) -> tuple[()]:
        """What its values depend on beside their place: nothing."""
        return ()
