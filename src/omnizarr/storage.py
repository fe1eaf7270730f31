"""Stores under the names that zarr-python has for them.

>>> from omnizarr.storage import LocalStore
>>> omnizarr.open(LocalStore("ocean.zarr"))
"""

from __future__ import annotations

from typing import Any, TypeAlias

from omnizarr import registry
from omnizarr.hierarchy.place import StorePath
from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, Store, ZipStore

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
    "CacheStore": "stores.cache:CacheStore",
    "FsspecStore": "stores.fsspec:FsspecStore",
    "HTTPStore": "stores.http:HTTPStore",
    "LMDBStore": "stores.lmdb:LMDBStore",
    "ObjectStore": "stores.object:ObjectStore",
    "PrefixStore": "stores.prefix:PrefixStore",
    "ReadOnlyStore": "stores.read_only:ReadOnlyStore",
    "RedisStore": "stores.redis:RedisStore",
    "SQLiteStore": "stores.sqlite:SQLiteStore",
    "WrapperStore": "stores.wrapper:WrapperStore",
}

__getattr__ = registry.attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return registry.available({*__all__, *_LATER})
