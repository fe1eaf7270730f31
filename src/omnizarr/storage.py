"""Stores, under the same names as in zarr-python.

>>> import omnizarr as oz
>>> from omnizarr.storage import LocalStore
>>> oz.save(LocalStore("ocean.zarr"), np.arange(3))
>>> oz.open(LocalStore("ocean.zarr")).shape
(3,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from omnizarr import registry
from omnizarr.hierarchy.lookup import StorePath
from omnizarr.stores import DirectoryStore, LocalStore, MemoryStore, Store
from omnizarr.stores.zip import ZipStore

if TYPE_CHECKING:
    from omnizarr.stores.fsspec import FsspecStore as FsspecStore
    from omnizarr.stores.http import HTTPStore as HTTPStore
    from omnizarr.stores.lmdb import LMDBStore as LMDBStore
    from omnizarr.stores.local.store import NestedDirectoryStore as NestedDirectoryStore
    from omnizarr.stores.object.store import ObjectStore as ObjectStore
    from omnizarr.stores.redis import RedisStore as RedisStore
    from omnizarr.stores.references.store import ReferenceStore as ReferenceStore
    from omnizarr.stores.sqlite import SQLiteStore as SQLiteStore
    from omnizarr.stores.wrappers import CacheStore as CacheStore
    from omnizarr.stores.wrappers import PrefixStore as PrefixStore
    from omnizarr.stores.wrappers import ReadOnlyStore as ReadOnlyStore
    from omnizarr.stores.wrappers import WrapperStore as WrapperStore

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
    "CacheStore": "stores.wrappers:CacheStore",
    "FsspecStore": "stores.fsspec:FsspecStore",
    "HTTPStore": "stores.http:HTTPStore",
    "LMDBStore": "stores.lmdb:LMDBStore",
    "NestedDirectoryStore": "stores.local.store:NestedDirectoryStore",
    "ObjectStore": "stores.object.store:ObjectStore",
    "PrefixStore": "stores.wrappers:PrefixStore",
    "ReadOnlyStore": "stores.wrappers:ReadOnlyStore",
    "RedisStore": "stores.redis:RedisStore",
    "ReferenceStore": "stores.references.store:ReferenceStore",
    "SQLiteStore": "stores.sqlite:SQLiteStore",
    "WrapperStore": "stores.wrappers:WrapperStore",
}

if not TYPE_CHECKING:  # for which any name would be one of the module's
    __getattr__ = registry.attributes(__name__, _LATER)


def __dir__() -> list[str]:
    return registry.available({*__all__, *_LATER})
