"""From what a user gives to a store: a path, a URL, a dictionary, a store."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Any

from omnizarr import registry
from omnizarr.errors import StoreError, UnknownExtension
from omnizarr.stores.local import LocalStore
from omnizarr.stores.memory import MemoryStore
from omnizarr.stores.store import Store

registry.register("store", "file", LocalStore.from_url)

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://?")  # one letter is a Windows drive


def resolve(where: Any, *, read_only: bool = False) -> Store:
    """The store that `where` means; None is a new one in memory. A store is taken as it is."""
    if where is None:
        return MemoryStore()
    if isinstance(where, (str, os.PathLike)):
        text = os.fspath(where)
        match = _SCHEME.match(text) if isinstance(where, str) else None
        if match is None:
            return LocalStore(text, read_only=read_only)
        try:
            make = registry.lookup("store", match[1].lower())
        except UnknownExtension as e:
            known = ", ".join(registry.names("store"))
            raise StoreError(
                f"unknown kind of store {match[1]!r} in {text!r}; known: a path, {known}"
            ) from e
        store: Store = make(text, read_only=read_only)
        return store
    if isinstance(where, Store):
        return where
    if isinstance(where, MutableMapping):
        return MemoryStore(where, read_only=read_only)
    raise StoreError(
        f"{type(where).__name__} is not a store; give a path, a dict,"
        " or an object with get, set, erase and read_only"
    )
