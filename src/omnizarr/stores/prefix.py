"""Part of a store: the keys below a prefix, as a store of their own."""

from __future__ import annotations

from typing import Any

from omnizarr.stores.abilities import check_prefix
from omnizarr.stores.store import Store
from omnizarr.stores.wrapper import WrapperStore


class PrefixStore(WrapperStore):
    """The keys of `inner` below `prefix`, without it."""

    def __init__(self, inner: Store, prefix: str, *, read_only: bool | None = None) -> None:
        super().__init__(inner, read_only=read_only)
        self.prefix = prefix.rstrip("/") + "/" if prefix else ""
        check_prefix(self.prefix)

    def _inside(self, key: str) -> str:
        return self.prefix + key

    def _outside(self, key: str) -> str:
        return key[len(self.prefix) :]

    def answers_by(self) -> tuple[str]:
        """What its values depend on beside their place."""
        return (self.prefix,)

    def _identity(self) -> tuple[Any, ...]:
        return self.inner, self.prefix

    def __repr__(self) -> str:
        return f"{self.prefix!r} of {self.inner!r}"
