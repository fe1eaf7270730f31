"""Where a node is or shall be, from what users write for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from omnizarr import stores
from omnizarr.errors import InvalidMetadata, did_you_mean, warn
from omnizarr.model import paths
from omnizarr.stores import Store

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
MODES = ("r", "r+", "a", "w", "w-")
_FILE = re.compile(r"^(~|[a-z0-9]+://)|\.zarr(\.zip)?/?$")  # looks like a file, not a node
_EXPLAINED = (
    "r reads, r+ reads and writes what is there, a also creates, w replaces what is there,"
    " w- creates and refuses to replace"
)
# What other libraries call them, as far as nothing is replaced by it.
_OF_OTHERS = {"x": "w-", "rw": "r+", "wr": "r+", "rb": "r", "rb+": "r+", "r+b": "r+"}


@dataclass(frozen=True, slots=True)
class StorePath:
    """A place in a store, given wherever a store is: ``StorePath(store) / "group" / "array"``."""

    store: Store
    path: str = ""

    def __truediv__(self, name: str) -> StorePath:
        return replace(self, path=paths.join(self.path, paths.normalize(name)))

    def __str__(self) -> str:
        return f"{paths.show(self.path)} in {self.store!r}"


def place(
    store: Any,
    path: str | None = None,
    mode: str = "r+",
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Store, str]:
    """The store and the path in it that are meant.

    `store` may also be a `StorePath`, or anything else with a store and a path; `path` then
    starts from there.
    """
    if mode not in MODES:
        raise InvalidMetadata(f"mode {mode!r} is not known; {_meant(mode)}{_EXPLAINED}")
    start = ""
    if hasattr(store, "store") and hasattr(store, "path") and not isinstance(store, Store):
        store, start = store.store, store.path
    if store is None and isinstance(path, str) and _FILE.search(path):
        warn(
            f"path {path!r} is a place in a store; without a store it is in memory, and gone when"
            f" the program ends. For a file give {path!r} as the store"
        )
    where = stores.resolve(store, read_only=mode == "r", storage_options=storage_options)
    return where, paths.join(paths.normalize(start), paths.normalize(path))


def _meant(mode: object) -> str:
    """The mode that may be meant; never one that replaces what is there."""
    if mode in _OF_OTHERS:
        return f"did you mean {_OF_OTHERS[str(mode)]!r}? "
    return did_you_mean(mode, ("r", "r+", "a", "w-"))
