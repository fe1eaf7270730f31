"""Where a node is or shall be, from what users write for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from omnizarr import stores
from omnizarr.errors import InvalidMetadata, known_names
from omnizarr.model import paths
from omnizarr.stores import Store

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
MODES = ("r", "r+", "a", "w", "w-")


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
        raise InvalidMetadata(f"mode {mode!r} is not known; {known_names(mode, MODES)}")
    start = ""
    if hasattr(store, "store") and hasattr(store, "path") and not isinstance(store, Store):
        store, start = store.store, store.path
    where = stores.resolve(store, read_only=mode == "r", storage_options=storage_options)
    return where, paths.join(paths.normalize(start), paths.normalize(path))
