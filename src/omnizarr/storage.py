"""Stores under the names that zarr-python has for them.

>>> from omnizarr.storage import LocalStore
>>> omnizarr.open(LocalStore("ocean.zarr"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnizarr import registry
from omnizarr.hierarchy.place import StorePath
from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, Store, ZipStore

if TYPE_CHECKING:
    from typing import TypeAlias

    StoreLike: TypeAlias = Any

__all__ = [
    "DirectoryStore",
    "LocalStore",
    "MemoryStore",
    "Store",
    "StoreLike",
    "StorePath",
    "ZipStore",
]

# Imported on first use.
_LATER = {
    "CacheStore": "cache:CacheStore",
    "FsspecStore": "fsspec:FsspecStore",
    "HTTPStore": "http:HTTPStore",
    "LMDBStore": "lmdb:LMDBStore",
    "ObjectStore": "object:ObjectStore",
    "PrefixStore": "prefix:PrefixStore",
    "ReadOnlyStore": "read_only:ReadOnlyStore",
    "RedisStore": "redis:RedisStore",
    "SQLiteStore": "sqlite:SQLiteStore",
    "WrapperStore": "wrapper:WrapperStore",
}


def __getattr__(name: str) -> Any:
    if name == "StoreLike":
        return Any
    if name not in _LATER:
        raise AttributeError(f"module 'omnizarr.storage' has no attribute {name!r}")
    return registry.load(f"omnizarr.stores.{_LATER[name]}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER})
