"""zarr-python's names on omnizarr: programs for zarr-python change one import.

>>> import omnizarr.zarr as zarr
>>> group = zarr.open_group("ocean.zarr")
>>> group.create_dataset("salt", shape=(4, 6), dtype="f4").chunks
(4, 6)

Functions, arrays and groups have zarr-python's methods, options and defaults, and those of version
2.18 that programs still use. `omnizarr.as_zarr` puts the same names in the place of zarr-python's.
"""

from __future__ import annotations

import importlib.util as _importlib
import typing as _typing

from omnizarr import registry as _registry
from omnizarr import show_versions as print_debug_info
from omnizarr.interop.zarr import library as _library
from omnizarr.interop.zarr import opening as _opening
from omnizarr.interop.zarr.arrays import ZarrArray as Array
from omnizarr.interop.zarr.asynchronous import ZarrAsyncArray as AsyncArray
from omnizarr.interop.zarr.asynchronous import ZarrAsyncGroup as AsyncGroup
from omnizarr.interop.zarr.creation import init_store
from omnizarr.interop.zarr.groups import ZarrGroup as Group
from omnizarr.interop.zarr.opening import *  # noqa: F403 - all of zarr-python's functions

__all__ = ["Array", "AsyncArray", "AsyncGroup", "Group", "init_store", "print_debug_info"]
__all__ += _opening.__all__

__version__ = str(_library.module("zarr").__version__)
# Names of 2.18, and where they are here.
_OLD = {
    "BZ2": "omnizarr.codecs:BZ2",
    "Blosc": "omnizarr.codecs:Blosc",
    "DirectoryStore": "omnizarr.storage:DirectoryStore",
    "GZip": "omnizarr.codecs:GZip",
    "LMDBStore": "omnizarr.storage:LMDBStore",
    "LZMA": "omnizarr.codecs:LZMA",
    "MemoryStore": "omnizarr.storage:MemoryStore",
    "NestedDirectoryStore": "omnizarr.storage:NestedDirectoryStore",
    "RedisStore": "omnizarr.storage:RedisStore",
    "SQLiteStore": "omnizarr.storage:SQLiteStore",
    "ZipStore": "omnizarr.stores.zip.store:ZipStoreV2",
    "Zlib": "omnizarr.codecs:Zlib",
    "Zstd": "omnizarr.codecs:ZstdCodec",
}


# Functions of 2.18 that zarr-python 3 only names.
_COPIES = ("copy", "copy_all", "copy_store")


def __getattr__(name: str) -> _typing.Any:
    if name in _OLD:
        return _registry.load(_OLD[name])
    if name in _COPIES:
        raise AttributeError(
            f"zarr-python 3 has no {name}: omnizarr.copy copies arrays, groups and whole stores"
        )
    if not name.startswith("_"):
        found = getattr(_library.module("zarr"), name, None)
        if found is not None:
            return found
        if _importlib.find_spec(f"zarr.{name}") is not None:
            return _library.module(f"zarr.{name}")
    raise AttributeError(f"module 'omnizarr.zarr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_registry.available(_OLD), "codecs", "config", "errors", "storage"])
