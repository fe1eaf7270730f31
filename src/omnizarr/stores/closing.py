"""Stores in ``with`` blocks, and stores that may be read only."""

from __future__ import annotations

import copy
from typing import Any, Self

from omnizarr import registry
from omnizarr.errors import StoreError

_READ_ONLY = "omnizarr.stores.read_only:ReadOnlyStore"


class Closes:
    """Has its `close` called when a ``with`` block ends."""

    def close(self) -> None:
        """Nothing is kept open that this store alone uses; other stores have this too."""

    # True where a copy of the object is another way to the same values.
    _can_be_copied = False

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return a store with the same values that can be changed, or only be read.

        One that was opened to be read only may have to be opened anew to be changed.
        """
        now = bool(getattr(self, "read_only", False))
        if self._can_be_copied:
            other = copy.copy(self)
            other.read_only = read_only  # type: ignore[attr-defined]  # stores have it
            return other
        if read_only == now:
            return self
        if read_only:
            return registry.load(_READ_ONLY)(self)
        raise StoreError(f"{self!r} was opened to be read only; open it anew to change it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
